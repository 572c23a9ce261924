//! Our own append-only files: the journal and the logs, a line an entry.
//!
//! Only pitcrew writes them, so the system's own file lock keeps two processes apart. A line that a crash tore is passed
//! over by readers and cut off by the next append.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::disk::{Disk, failed, is_absent};
use super::plain::{self, Unopened};
use crate::StoreError;

/// How far back one step looks for the end of the last whole line.
const STEP: u64 = 4096;

/// Whether an append is forced to disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// At once.
    Now,
    /// With what is forced later; a crash of the process loses nothing.
    Later,
}

/// Appends lines; all of them, or none.
pub(crate) fn append<S: AsRef<str>>(disk: &Disk, path: &Path, lines: &[S], force: Force) -> Result<(), StoreError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    let opened = plain::open_with(OpenOptions::new().read(true).append(true).create(true), path);
    let mut file = opened.map_err(|error| error.at("open", path))?;
    let is_new = file.metadata().is_ok_and(|m| m.len() == 0);
    file.lock().map_err(failed("lock", path))?;
    let end = whole_end(&file).and_then(|end| file.set_len(end).map(|()| end)).map_err(failed("write", path))?;
    disk.crash_point("line to append");
    if let Err(error) = file.write_all(text.as_bytes()) {
        let cut = file.set_len(end);
        tracing::debug!(path = %path.display(), ?cut, "an append was taken back");
        return Err(failed("write", path)(error));
    }
    disk.crash_point("line appended");
    if force == Force::Now {
        disk.force(&file).map_err(failed("force to disk", path))?;
        if is_new {
            disk.force_dir(path.parent().unwrap_or(path))?;
        }
        disk.crash_point("line forced");
    }
    Ok(())
}

/// The whole lines of a file; none when it is not there.
pub(crate) fn read(path: &Path) -> Result<Vec<String>, StoreError> {
    let Some(bytes) = plain::read(path, plain::LOG_MOST)? else { return Ok(Vec::new()) };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    Ok(text.lines().map(str::to_owned).collect())
}

/// The last `most` bytes of a file as text; empty when it is not there.
pub(crate) fn tail(path: &Path, most: u64) -> Result<String, StoreError> {
    let mut file = match plain::open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if is_absent(&error) => return Ok(String::new()),
        Err(error) => return Err(error.at("read", path)),
    };
    let mut read = || -> io::Result<Vec<u8>> {
        let from = file.metadata()?.len().saturating_sub(most);
        io::Seek::seek(&mut file, io::SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(failed("read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where the last whole line ends.
fn whole_end(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let from = end.saturating_sub(STEP);
        let mut block = vec![0; usize::try_from(end - from).unwrap_or(0)];
        file.read_exact_at(&mut block, from)?;
        if let Some(at) = block.iter().rposition(|b| *b == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::disk::FileOptions;

    #[test]
    fn a_torn_last_line_is_passed_over_and_cut_off_by_the_next_append() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let disk = Disk::new(FileOptions::default());
        append(&disk, &path, &["one", "two"], Force::Now).unwrap();
        let torn = "x".repeat(10_000);
        fs::write(&path, format!("one\ntwo\n{torn}")).unwrap();
        assert_eq!(read(&path).unwrap(), ["one", "two"]);
        append(&disk, &path, &["three"], Force::Later).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    }

    #[test]
    fn an_append_is_forced_once() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(FileOptions::default());
        let path = dir.path().join("log");
        append(&disk, &path, &["one"], Force::Now).unwrap();
        let before = disk.forced();
        append(&disk, &path, &["two", "three"], Force::Now).unwrap();
        assert_eq!(disk.forced() - before, 1);
    }
}
