//! The kinds of files that an archive's author, or a confined command, can put at a path.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The size of a sparse file, in bytes.
const TERABYTE: u64 = 1 << 40;

/// A kind of file at a path that is usually something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A link to a file or folder outside with a text that nobody may see.
    LinkToSecret,
    /// What was at the path lies outside now, and a link leads there.
    LinkToCopy,
    /// A link to a name outside at which nothing is yet.
    LinkToNothing,
    LinkLoop,
    Fifo,
    Folder,
    Sparse,
    NoPermission,
    Binary,
}

pub(super) const KINDS: [Kind; 9] = [
    Kind::LinkToSecret,
    Kind::LinkToCopy,
    Kind::LinkToNothing,
    Kind::LinkLoop,
    Kind::Fifo,
    Kind::Folder,
    Kind::Sparse,
    Kind::NoPermission,
    Kind::Binary,
];

/// Puts a file of a kind at a path. `outside` is the folder outside. Returns false if that is not
/// possible, because the path has a file in the place of a folder.
pub(super) fn plant(path: &Path, kind: Kind, outside: &Path) -> bool {
    if fs::create_dir_all(path.parent().unwrap()).is_err() {
        return false;
    }
    let was_folder = path.is_dir() && !path.is_symlink();
    let was_there = path.symlink_metadata().is_ok();
    match kind {
        Kind::NoPermission => {
            if !was_there {
                fs::write(path, "x\n").unwrap();
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            return true;
        }
        Kind::LinkToCopy if !was_there => return false,
        Kind::LinkToCopy => {
            let moved = outside.join("moved");
            fs::rename(path, &moved).unwrap();
            symlink(moved, path).unwrap();
            return true;
        }
        _ => {}
    }
    remove(path);
    match kind {
        Kind::LinkToSecret => {
            symlink(outside.join(if was_folder { "folder" } else { "secret" }), path).unwrap();
        }
        Kind::LinkToNothing => symlink(outside.join("made"), path).unwrap(),
        Kind::LinkLoop => symlink(path, path).unwrap(),
        Kind::Fifo => mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
        Kind::Folder => fs::create_dir(path).unwrap(),
        Kind::Sparse => fs::File::create(path).unwrap().set_len(TERABYTE).unwrap(),
        Kind::Binary => fs::write(path, binary()).unwrap(),
        Kind::LinkToCopy | Kind::NoPermission => {}
    }
    true
}

/// Returns bytes that are neither text nor any format.
fn binary() -> Vec<u8> {
    (0..65_536_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Gives the modes of all folders below a folder back, so that it can be removed.
pub(super) fn open_up(folder: &Path) {
    let mut todo: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(path) = todo.pop() {
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            todo.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.path()));
        }
    }
}
