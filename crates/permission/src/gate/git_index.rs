//! Reads a git repository's index, to find out which paths git tracks.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum size of an index that is read, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// Size in bytes of the fields before the object id in an index entry. `MODE_AT` is the offset in
/// bytes of the file mode in these fields.
const STAT_BYTES: usize = 40;
const MODE_AT: usize = 24;

/// The file mode of an entry that is another repository (a submodule).
const REPOSITORY: u32 = 0o160_000;

/// Flag of an index entry that has a second field of flags.
const EXTENDED: u16 = 0x4000;

/// Length of an object id in bytes, with SHA-1 and with SHA-256. The checksum at the end of the
/// index has the same length.
const ID_BYTES: [usize; 2] = [20, 32];

/// One path that git tracks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path, relative to the top of the checkout.
    pub(super) path: PathBuf,
    mode: u32,
}

impl Entry {
    /// Returns true if the entry is another repository, such as a submodule.
    pub(super) fn is_repository(&self) -> bool {
        self.mode == REPOSITORY
    }
}

/// Returns the entries in the index of a git folder. Returns an empty list if there is no index
/// yet.
///
/// # Errors
/// If the index cannot be read or has an unknown format.
#[expect(
    clippy::disallowed_methods,
    reason = "the index belongs to git and is bounded by its own header"
)]
pub(super) fn entries(git_folder: &Path) -> io::Result<Vec<Entry>> {
    let file = git_folder.join("index");
    let metadata = match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        metadata => metadata?,
    };
    let unknown =
        || io::Error::new(io::ErrorKind::InvalidData, "an index in a form that is not known");
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(unknown());
    }
    let bytes = fs::read(&file)?;
    ID_BYTES.iter().find_map(|id_bytes| parse(&bytes, *id_bytes)).ok_or_else(unknown)
}

/// Parses the whole index with object ids of the given length. Returns `None` if any part of the
/// index does not match this format.
fn parse(bytes: &[u8], id_bytes: usize) -> Option<Vec<Entry>> {
    let mut rest = bytes.strip_prefix(b"DIRC")?;
    let version = take_number(&mut rest)?;
    let count = take_number(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries = Vec::new();
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..count {
        entries.push(take_entry(&mut rest, &mut name, version, id_bytes)?);
    }
    check_extensions(rest, id_bytes).map(|()| entries)
}

/// Takes one entry from the start of `rest`. `name` holds the path of the previous entry, and then
/// the path of this entry.
fn take_entry(
    rest: &mut &[u8],
    name: &mut Vec<u8>,
    version: u32,
    id_bytes: usize,
) -> Option<Entry> {
    let entry = *rest;
    let mut mode = entry.get(MODE_AT..)?;
    let mode = take_number(&mut mode)?;
    let flags_at = STAT_BYTES + id_bytes;
    let flags = u16::from_be_bytes(entry.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let more = if flags & EXTENDED == 0 { 0 } else { 2 };
    let mut text = entry.get(flags_at + 2 + more..)?;
    match version {
        // Version 4 stores how much to cut off the previous path, and the text to append.
        4 => name.truncate(name.len().checked_sub(take_length(&mut text)?)?),
        _ => name.clear(),
    }
    let end = text.iter().position(|byte| *byte == 0)?;
    name.extend(text.get(..end)?);
    let length = entry.len() - text.len() + end + 1;
    // Index versions before 4 pad each entry with zeros to a multiple of eight bytes.
    *rest = entry.get(if version == 4 { length } else { length.next_multiple_of(8) }..)?;
    Some(Entry { path: PathBuf::from(OsStr::from_bytes(name)), mode })
}

/// Checks the part of the index after its entries: extensions up to the checksum. Returns `None` if
/// this part has another format, or if the entries before it are not all files.
fn check_extensions(mut rest: &[u8], id_bytes: usize) -> Option<()> {
    while rest.len() > id_bytes {
        let name = rest.get(..4)?;
        let mut after = rest.get(4..)?;
        let length = usize::try_from(take_number(&mut after)?).ok()?;
        // A split index (`link`) keeps entries in another file. A sparse index (`sdir`) has one
        // entry for a whole folder.
        if name == b"link" || name == b"sdir" {
            return None;
        }
        rest = after.get(length..)?;
    }
    (rest.len() == id_bytes).then_some(())
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}

/// Reads a number in git's offset encoding. Each byte has seven bits of the number, and one is
/// added for each continuation byte.
fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    for round in 0_usize.. {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length = length.checked_add(usize::from(round > 0))?.checked_mul(128)?
            | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_version_of_an_index_is_read_as_git_reads_it() {
        for (format, version) in
            [("sha1", "2"), ("sha1", "3"), ("sha1", "4"), ("sha256", "2"), ("sha256", "4")]
        {
            let dir = tempfile::tempdir().unwrap();
            let git = |words: &str| {
                let output = Command::new("git")
                    .args(words.split(' '))
                    .current_dir(dir.path())
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{words}: {output:?}");
            };
            git(&format!("init -q --object-format={format}"));
            fs::create_dir_all(dir.path().join("a/deep")).unwrap();
            let names = ["a/deep/file", "a/deep/filed", "b", &"long".repeat(60)].map(PathBuf::from);
            names.iter().for_each(|name| fs::write(dir.path().join(name), "x").unwrap());
            git("add .");
            // Git writes version 3 only if an entry has extended flags.
            if version == "3" {
                git("update-index --skip-worktree b");
            } else {
                git(&format!("update-index --index-version {version}"));
            }
            let id = "1".repeat(if format == "sha1" { 40 } else { 64 });
            git(&format!("update-index --add --cacheinfo 160000,{id},sub"));
            let found = entries(&dir.path().join(".git")).unwrap();
            let paths: Vec<_> =
                found.iter().filter(|it| !it.is_repository()).map(|it| it.path.clone()).collect();
            assert_eq!(paths, names, "{format} {version}");
            let links: Vec<_> =
                found.iter().filter(|it| it.is_repository()).map(|it| it.path.clone()).collect();
            assert_eq!(links, [PathBuf::from("sub")], "{format} {version}");
        }
    }

    #[test]
    fn what_is_no_index_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(entries(dir.path()).unwrap(), []);
        for bytes in [
            &b"DIRC"[..],
            b"",
            b"DIRC\0\0\0\x02\0\0\0\x01",
            b"DIRC\0\0\0\x09\0\0\0\0xxxxxxxxxxxxxxxxxxxx",
        ] {
            fs::write(dir.path().join("index"), bytes).unwrap();
            assert!(entries(dir.path()).is_err(), "{bytes:?}");
        }
    }
}
