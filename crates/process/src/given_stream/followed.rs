//! Follows a file that another program writes, also when the program begins it again.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::growth::Growth;
use super::{Piece, open, read_now};

/// The number of bytes at the beginning of a file by which a new content is recognized. The first
/// line of a stream has the id of its session there.
const HEAD_BYTES: usize = 512;

/// A file, and how much of it was read.
#[derive(Debug)]
pub(super) struct Followed {
    /// Where the file was opened. `None` for the standard input.
    pub(super) path: Option<PathBuf>,
    growth: Growth,
    /// The position of the first byte, and of the next one.
    begin: u64,
    next: u64,
    /// The first bytes.
    head: Vec<u8>,
    /// Whether the latest read found no more bytes.
    is_at_end: bool,
    /// Whether the folder of the path is watched too.
    is_folder_watched: bool,
}

impl Followed {
    pub(super) fn of(mut file: &File) -> io::Result<Self> {
        let begin = file.stream_position()?;
        Ok(Self {
            path: None,
            growth: Growth::of(file),
            begin,
            next: begin,
            head: Vec::new(),
            is_at_end: false,
            is_folder_watched: false,
        })
    }

    /// Reads the next bytes. A file that has another one in its place is read to its end first.
    pub(super) fn read(&mut self, file: &mut File, buffer: &mut [u8]) -> io::Result<Piece> {
        if self.is_at_end && self.is_rewritten(file)? {
            self.begin = 0;
            self.rewind(file)?;
            return Ok(Piece::BegunAgain);
        }
        let count = read_now(file, buffer, |_| Ok(()))?;
        if count > 0 {
            self.keep_head(buffer.get(..count).unwrap_or_default());
            self.next += count as u64;
            self.is_at_end = false;
            return Ok(Piece::Bytes(count));
        }
        self.is_at_end = true;
        if let Some(other) = self.other_in_place_of(file) {
            let path = self.path.take();
            *self = Self { path, ..Self::of(&other)? };
            *file = other;
            return Ok(Piece::BegunAgain);
        }
        Ok(Piece::EndForNow)
    }

    pub(super) fn wait(&mut self, file: &File) -> io::Result<()> {
        let left = self.path.as_deref().filter(|path| !leads_to(path, file));
        if let Some(folder) = left.and_then(Path::parent).filter(|_| !self.is_folder_watched) {
            self.growth.also_in(folder);
            self.is_folder_watched = true;
            // The next file may have come before the folder was watched.
            return Ok(());
        }
        self.growth.wait()
    }

    pub(super) fn rewind(&mut self, file: &mut File) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.begin))?;
        self.next = self.begin;
        self.head.clear();
        self.is_at_end = false;
        Ok(())
    }

    fn keep_head(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(room));
    }

    /// Whether the file is shorter than the part that was read, or begins otherwise.
    fn is_rewritten(&self, file: &File) -> io::Result<bool> {
        if file.metadata()?.len() < self.next {
            return Ok(true);
        }
        let mut head = vec![0; self.head.len()];
        // The file can become shorter between the two calls.
        let read = file.read_exact_at(&mut head, self.begin);
        Ok(read.is_err() || head != self.head)
    }

    /// Opens the file that has taken the place of this one.
    fn other_in_place_of(&self, file: &File) -> Option<File> {
        let path = self.path.as_deref().filter(|path| path.exists() && !leads_to(path, file))?;
        let other = File::from(open(path).ok()?);
        other.metadata().is_ok_and(|found| found.is_file()).then_some(other)
    }
}

/// Whether a path leads to this open file.
fn leads_to(path: &Path, file: &File) -> bool {
    let id = |found: &std::fs::Metadata| (found.dev(), found.ino());
    let there = path.metadata().map(|found| id(&found));
    there.is_ok_and(|there| file.metadata().is_ok_and(|open| id(&open) == there))
}
