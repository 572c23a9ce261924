//! Pitcrew's own append-only files, which have one entry per line: the journal and the logs.
//!
//! Only pitcrew writes these files, so a kernel file lock is enough to protect them. If a crash
//! left an incomplete line, readers skip it, and the next append removes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::disk::{Disk, failed, is_absent, make_dir};
use super::file_queue;
use super::flock::Access;
use super::plain::{self, Unopened};
use crate::{LogName, StoreError};

/// Step size in bytes of the backward search for the end of the last complete line.
const STEP: u64 = 4096;

/// Step size in bytes of a search in a long file. One step fits into the processor's cache.
const SEARCH_STEP: u64 = 256 * 1024;

/// When an append is forced to disk (fsync).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// The append is forced to disk before the call returns.
    Now,
    /// The append is forced to disk with a later forced write. It survives a crash of the process,
    /// but not a power cut before that write.
    Later,
}

impl Force {
    /// Returns when an append to this log is forced to disk.
    pub(crate) fn of(log: &LogName) -> Self {
        match log {
            LogName::Transcript(_) | LogName::Former { .. } => Self::Now,
            LogName::Output(_) => Self::Later,
        }
    }
}

/// Appends either all lines or none. Returns the byte range of the lines in the file.
pub(crate) fn append<S: AsRef<str>>(
    disk: &Disk,
    path: &Path,
    lines: &[S],
    force: Force,
) -> Result<Range<u64>, StoreError> {
    if lines.is_empty() {
        return Ok(0..0);
    }
    append_to(&mut open_locked(disk, path)?, disk, path, lines, force)
}

/// Appends the lines that `make` returns, and returns the new length of the file. `make` gets the
/// lines after the byte position `since`, which other callers have added. If the file is shorter
/// than `since`, these lines cannot be known, and `make` gets `None`.
pub(crate) fn append_since(
    disk: &Disk,
    path: &Path,
    since: u64,
    make: impl FnOnce(Option<Vec<String>>) -> Vec<String>,
) -> Result<u64, StoreError> {
    let mut file = open_locked(disk, path)?;
    let end = whole_end(&file).map_err(failed("read", path))?;
    let added = match end.checked_sub(since).and_then(|length| usize::try_from(length).ok()) {
        Some(length) => {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, since).map_err(failed("read", path))?;
            Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        }
        None => None,
    };
    Ok(append_to(&mut file, disk, path, &make(added), Force::Later)?.end)
}

/// Returns the length of a file, or 0 if it does not exist.
pub(crate) fn length(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |meta| meta.len())
}

fn append_to<S: AsRef<str>>(
    file: &mut File,
    disk: &Disk,
    path: &Path,
    lines: &[S],
    force: Force,
) -> Result<Range<u64>, StoreError> {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    let length = file.metadata().map_err(failed("read", path))?.len();
    // A file longer than this limit could not be read again. Also, the search for the end of its
    // last line could take long.
    plain::check_length(path, length, plain::LOG_MOST)?;
    let is_new = length == 0;
    let end = whole_end(file)
        .and_then(|end| file.set_len(end).map(|()| end))
        .map_err(failed("write", path))?;
    disk.crash_point("line to append");
    if let Err(error) = file.write_all(text.as_bytes()) {
        // If the disk is full, the write can end in the middle. Then the written part is removed,
        // so that none of the lines are added.
        let cut = file.set_len(end);
        tracing::debug!(path = %path.display(), ?cut, "an append was taken back");
        return Err(failed("write", path)(error));
    }
    disk.crash_point("line appended");
    if force == Force::Now {
        disk.force(file).map_err(failed("force to disk", path))?;
        if is_new {
            disk.force_dir(path.parent().unwrap_or(path))?;
        }
        disk.crash_point("line forced");
    }
    Ok(end..end + text.len() as u64)
}

/// Opens the file for appending and takes an exclusive lock on it. Creates the file if it does not
/// exist.
fn open_locked(disk: &Disk, path: &Path) -> Result<File, StoreError> {
    loop {
        let opened =
            plain::open_with(OpenOptions::new().read(true).append(true).create(true), path);
        let file = opened.map_err(|error| error.at("open", path))?;
        disk.flock(&file, path, Access::Exclusive)?;
        // While this call waited for the lock, another process may have replaced the file by a
        // shorter file. In that case the loop opens the new file.
        if file_queue::is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Shortens a file that is longer than `most` bytes. `keep` gets all lines and returns the lines
/// that stay. Returns whether the file was shortened.
pub(crate) fn shorten(
    disk: &Disk,
    path: &Path,
    most: u64,
    keep: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<bool, StoreError> {
    if fs::symlink_metadata(path).map_or(true, |meta| meta.len() <= most) {
        return Ok(false);
    }
    // The lock is held until the new file is in place. A concurrent append waits for the lock and
    // then opens the new file.
    let file = open_locked(disk, path)?;
    if file.metadata().map_or(true, |meta| meta.len() <= most) {
        return Ok(false);
    }
    let mut text = keep(read(path)?).join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    let _stamp = disk.write_temp(path, text.as_bytes(), None)?.rename(path)?;
    Ok(true)
}

/// Replaces the lines of the file at `path`, and writes the old lines to the file `kept`. The old
/// lines are on disk in `kept` before the file at `path` changes.
pub(crate) fn replace(
    disk: &Disk,
    path: &Path,
    lines: &[String],
    kept: &Path,
) -> Result<(), StoreError> {
    let before = plain::read(path, plain::LOG_MOST)?.unwrap_or_default();
    let mut text = lines.join("\n");
    if !lines.is_empty() {
        text.push('\n');
    }
    // The old lines are written to `kept` first. After a crash between the two writes, both files
    // have the old lines, and nothing is lost.
    for (path, bytes) in [(kept, before.as_slice()), (path, text.as_bytes())] {
        let folder = path.parent().unwrap_or(path);
        make_dir(folder)?;
        let _stamp = disk.write_temp(path, bytes, None)?.rename(path)?;
        disk.force_dir(folder)?;
        disk.crash_point("log replaced");
    }
    Ok(())
}

/// Returns all bytes of a file, including an incomplete last line. The result is empty if the file
/// does not exist.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    Ok(plain::read(path, plain::LOG_MOST)?.unwrap_or_default())
}

/// Overwrites lines with spaces. `lines` has the number of each line, counted from 1, and its
/// expected content. If a line has another content, it is not changed. Readers skip blank lines.
pub(crate) fn blank<'a>(
    disk: &Disk,
    path: &Path,
    lines: impl Iterator<Item = (usize, &'a [u8])>,
) -> Result<(), StoreError> {
    let opened = plain::open_with(OpenOptions::new().read(true).write(true), path);
    let mut file = opened.map_err(|error| error.at("open", path))?;
    disk.flock(&file, path, Access::Exclusive)?;
    plain::check_length(
        path,
        file.metadata().map_err(failed("read", path))?.len(),
        plain::LOG_MOST,
    )?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed("read", path))?;
    let mut places = Vec::new();
    let mut at = 0_u64;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        places.push((at, line.strip_suffix(b"\n").unwrap_or(line)));
        at += line.len() as u64;
    }
    for (number, was) in lines {
        if let Some((at, line)) = number.checked_sub(1).and_then(|number| places.get(number))
            && *line == was
        {
            file.write_all_at(&vec![b' '; line.len()], *at).map_err(failed("write", path))?;
        }
    }
    disk.force(&file).map_err(failed("force to disk", path))
}

/// Returns the complete lines of a file. The result is empty if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Vec<String>, StoreError> {
    let Some(bytes) = plain::read(path, plain::LOG_MOST)? else { return Ok(Vec::new()) };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns the complete lines of a file after a byte position, and the position after these lines.
/// `u64::MAX` means the end of the file. Any other position past the end means that the file was
/// replaced, so the present file is read from its beginning. Returns no lines and 0 if the file
/// does not exist.
pub(crate) fn read_since(
    disk: &Disk,
    path: &Path,
    position: u64,
) -> Result<(Vec<String>, u64), StoreError> {
    let file = match plain::open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if is_absent(&error) => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error.at("read", path)),
    };
    // The lock is needed because a writer may remove an incomplete line, which shortens the file
    // during the read.
    disk.flock(&file, path, Access::Shared)?;
    check_torn(&file, path, position)?;
    let end = whole_end(&file).map_err(failed("read", path))?;
    let position = if position == u64::MAX { end } else { position };
    let (position, length) =
        end.checked_sub(position).map_or((0, end), |length| (position, length));
    plain::check_length(path, length, plain::LOG_MOST)?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, position).map_err(failed("read", path))?;
    Ok((String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect(), end))
}

/// Searches a file backwards for lines that contain at least one of the texts. `found` is called
/// once per search step. It gets the matching lines of the step, the last line first, or an empty
/// list. It decides whether the search continues.
pub(crate) fn search_back(
    disk: &Disk,
    path: &Path,
    texts: &[String],
    mut found: impl FnMut(&[&str]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let file = match plain::open(path) {
        Ok(file) => file,
        Err(Unopened::Failed(error)) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(error.at("read", path)),
    };
    plain::check_length(
        path,
        file.metadata().map_err(failed("read", path))?.len(),
        plain::LOG_MOST,
    )?;
    let (mut to, mut step) = (settled_end(disk, &file, path)?, SEARCH_STEP);
    let mut bytes = Vec::new();
    while to > 0 {
        let from = to.saturating_sub(step);
        bytes.resize(usize::try_from(to - from).unwrap_or(0), 0);
        file.read_exact_at(&mut bytes, from).map_err(failed("read", path))?;
        let cut = if from == 0 {
            Some(0)
        } else {
            bytes.iter().position(|b| *b == b'\n').map(|at| at + 1)
        };
        // No complete line begins in this step. The step size is doubled until the step contains
        // the whole line.
        let Some(cut) = cut.filter(|cut| *cut < bytes.len()) else {
            step *= 2;
            continue;
        };
        let text = String::from_utf8_lossy(bytes.get(cut..).unwrap_or_default());
        let has_one = |text: &str| texts.iter().any(|wanted| text.contains(wanted.as_str()));
        let lines: Vec<&str> = if has_one(&text) {
            text.lines().rev().filter(|line| has_one(line)).collect()
        } else {
            Vec::new()
        };
        if found(&lines).is_break() {
            break;
        }
        to = from + cut as u64;
        step = SEARCH_STEP;
    }
    Ok(())
}

/// Searches a byte range of a file, and calls `found` for each line that contains at least one of
/// the texts, in order. The range must begin and end at line boundaries.
pub(crate) fn search_on(
    file: &File,
    path: &Path,
    range: Range<u64>,
    texts: &[String],
    mut found: impl FnMut(&str),
) -> Result<(), StoreError> {
    let has_one = |text: &str| texts.iter().any(|wanted| text.contains(wanted.as_str()));
    let (mut from, mut step) = (range.start, SEARCH_STEP);
    let mut bytes = Vec::new();
    while from < range.end {
        let to = from.saturating_add(step).min(range.end);
        bytes.resize(usize::try_from(to - from).unwrap_or(0), 0);
        file.read_exact_at(&mut bytes, from).map_err(failed("read", path))?;
        let is_last = to == range.end;
        let cut = if is_last {
            Some(bytes.len())
        } else {
            bytes.iter().rposition(|b| *b == b'\n').map(|at| at + 1)
        };
        // No line ends in this step. The step size is doubled until the step contains the whole
        // line.
        let Some(cut) = cut else {
            step *= 2;
            continue;
        };
        let text = String::from_utf8_lossy(bytes.get(..cut).unwrap_or_default());
        if has_one(&text) {
            text.lines().filter(|line| has_one(line)).for_each(&mut found);
        }
        from += cut as u64;
        step = SEARCH_STEP;
    }
    Ok(())
}

/// Returns the end of the last complete line. The lock is held only during this call, because the
/// place of a complete line never changes afterwards.
pub(crate) fn settled_end(disk: &Disk, file: &File, path: &Path) -> Result<u64, StoreError> {
    disk.flock(file, path, Access::Shared)?;
    check_torn(file, path, 0)?;
    let end = whole_end(file).map_err(failed("read", path))?;
    // The caller searches only complete lines. A repair may overwrite one of them with spaces, but
    // no line moves, so the search needs no lock.
    file.unlock().map_err(failed("unlock", path))?;
    Ok(end)
}

/// Returns the last `most` bytes of a file as text. Returns an empty text if the file does not
/// exist.
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
    // The first bytes can be in the middle of a character. Only then are the bytes copied to a
    // valid text.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|odd| String::from_utf8_lossy(odd.as_bytes()).into_owned()))
}

/// Returns the complete lines within the last `most` bytes of a file. Returns no lines if the file
/// does not exist.
pub(crate) fn last_lines(path: &Path, most: u64) -> Result<Vec<String>, StoreError> {
    let is_whole = length(path) <= most;
    let text = tail(path, most)?;
    let Some((text, _torn)) = text.rsplit_once('\n') else { return Ok(Vec::new()) };
    // The first line can be cut off at its beginning.
    Ok(text.lines().skip(usize::from(!is_whole)).map(str::to_owned).collect())
}

/// Returns an error if the file has more bytes after `position` than the limit for reading a log.
/// In such a file, the search for the end of the last line could take long.
fn check_torn(file: &File, path: &Path, position: u64) -> Result<(), StoreError> {
    let length = file.metadata().map_err(failed("read", path))?.len();
    let from = if position == u64::MAX { 0 } else { position };
    plain::check_length(path, length.checked_sub(from).unwrap_or(length), plain::LOG_MOST)
}

/// Returns the end of the last complete line.
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
    fn a_reader_goes_on_where_it_stopped_and_leaves_a_torn_line_for_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let disk = Disk::new(FileOptions::default());
        assert_eq!(read_since(&disk, &path, 0).unwrap(), (Vec::new(), 0));
        fs::write(&path, "one\ntwo\nthr").unwrap();
        assert_eq!(
            read_since(&disk, &path, 0).unwrap(),
            (vec!["one".to_owned(), "two".to_owned()], 8)
        );
        assert_eq!(read_since(&disk, &path, 8).unwrap(), (Vec::new(), 8));
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(read_since(&disk, &path, 8).unwrap(), (vec!["three".to_owned()], 14));
        assert_eq!(read_since(&disk, &path, u64::MAX).unwrap(), (Vec::new(), 14));
    }

    #[test]
    fn a_search_goes_both_ways_over_long_lines_and_back_until_it_is_told_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(FileOptions::default());
        let path = dir.path().join("log");
        let long = "x".repeat(usize::try_from(SEARCH_STEP).unwrap() * 3);
        fs::write(&path, format!("one a\ntwo\n{long} a\nthree\nfour a\ntorn a")).unwrap();
        let search = |stop: &str| {
            let mut seen = Vec::new();
            let searched = search_back(&disk, &path, &["a".to_owned()], |lines| {
                seen.extend(
                    lines.iter().map(|line| line.chars().filter(|c| *c != 'x').collect::<String>()),
                );
                if lines.iter().any(|line| line.starts_with(stop)) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            searched.unwrap();
            seen
        };
        assert_eq!(search("none"), ["four a", " a", "one a"]);
        assert_eq!(search("four"), ["four a"]);
        search_back(&disk, &dir.path().join("none"), &[], |_| ControlFlow::Continue(())).unwrap();
        let file = File::open(&path).unwrap();
        let end = settled_end(&disk, &file, &path).unwrap();
        assert_eq!(end, fs::metadata(&path).unwrap().len() - 6);
        let search_on = |from: u64| {
            let mut seen = Vec::new();
            let keep =
                |line: &str| seen.push(line.chars().filter(|c| *c != 'x').collect::<String>());
            search_on(&file, &path, from..end, &["a".to_owned()], keep).unwrap();
            seen
        };
        assert_eq!(search_on(0), ["one a", " a", "four a"]);
        assert_eq!(search_on(6), [" a", "four a"]);
        assert_eq!(search_on(end), [""; 0]);
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
