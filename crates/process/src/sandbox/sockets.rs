//! Finds sockets in working folders at which programs outside the sandbox listen. A command in the
//! sandbox profile *work* must not connect to them.
//!
//! The kernel itself refuses a connection only by the permission bits of the socket's file. The
//! kernel's socket table contains the path to which each listening socket was bound. This path does
//! not identify the file if the path is relative, or if the file was renamed or linked since. In
//! these cases all socket files in the working folders count as listening.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The kernel's table of Unix sockets.
const TABLE: &str = "/proc/net/unix";

/// The flag of a listening socket. The next constant is the type number of datagram sockets, which
/// count as listening because any program can send to them.
const LISTENS: u32 = 0x10000;
const DATAGRAM: &str = "0002";

/// Returns the socket files in the working folders through which a command could reach a program
/// outside the sandbox. The folders' paths must not contain symbolic links.
pub(super) fn listening_in(working: &[PathBuf]) -> Vec<PathBuf> {
    let table = fs::read_to_string(TABLE).unwrap_or_default();
    let names: Vec<&Path> = table.lines().filter_map(name_of_listener).collect();
    // A listening socket may have a file in a working folder whose name is not in the kernel's
    // table. It is not known which file this is, so treat all socket files in the working folders
    // as listening.
    if names.iter().any(|name| is_elsewhere_too(name, working)) {
        return working.iter().flat_map(|folder| socket_files(folder)).collect();
    }
    let real = names.iter().filter_map(|name| fs::canonicalize(name).ok());
    real.filter(|path| is_in(path, working)).collect()
}

/// Returns the path of a listening socket from a line of the kernel's table. Returns `None` for
/// other sockets, and for abstract sockets, which have no file.
fn name_of_listener(line: &str) -> Option<&Path> {
    let (mut fields, mut name) = ([""; 7], line);
    for field in &mut fields {
        (*field, name) = name.trim_start().split_once(' ')?;
    }
    let [_, _, _, flags, kind, _, _] = fields;
    let listens =
        kind == DATAGRAM || u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
    (listens && !name.starts_with('@')).then(|| Path::new(name))
}

/// Returns true if a listening socket may have a file in a working folder that `name` does not
/// identify. `name` is the socket's path in the kernel's table.
fn is_elsewhere_too(name: &Path, working: &[PathBuf]) -> bool {
    match fs::symlink_metadata(name) {
        _ if name.is_relative() => true,
        Ok(metadata) if metadata.file_type().is_socket() => metadata.nlink() > 1,
        Ok(_) | Err(_) => {
            is_in(name, working)
                || fs::canonicalize(name.parent().unwrap_or(name))
                    .is_ok_and(|it| is_in(&it, working))
        }
    }
}

fn is_in(path: &Path, working: &[PathBuf]) -> bool {
    working.iter().any(|folder| path.starts_with(folder))
}

/// Returns all socket files below a folder. Symbolic links are not followed.
fn socket_files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_socket() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_table_those_count_that_listen_at_a_file() {
        for (line, name) in [
            (
                "0000000000000000: 00000002 00000000 00010000 0001 01 24680 /run/a b",
                Some("/run/a b"),
            ),
            ("0000000000000000: 00000002 00000000 00010000 0005 01   680 ./rel", Some("./rel")),
            ("0000000000000000: 00000002 00000000 00000000 0002 01 24680 /run/d", Some("/run/d")),
            ("0000000000000000: 00000003 00000000 00000000 0001 03 24680 /run/connected", None),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 24680 @abstract", None),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 24680", None),
            ("Num       RefCount Protocol Flags    Type St Inode Path", None),
        ] {
            assert_eq!(name_of_listener(line), name.map(Path::new), "{line}");
        }
    }
}
