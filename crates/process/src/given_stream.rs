//! Reads bytes that another program writes, while it writes them: a file that grows, a FIFO or a
//! pipe.
//!
//! Opening never waits. [`GivenStream::read`] waits for as long as the other program writes nothing,
//! so a caller with something else to do calls it in a thread of its own.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

mod followed;
mod growth;

use followed::Followed;

use crate::given_file::Refused;
use crate::handle::READ;

/// A stream of bytes from another program.
#[derive(Debug)]
pub struct GivenStream {
    file: File,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A file can grow after its end was read.
    File(Followed),
    /// A pipe ends when its last writer closes it.
    Pipe,
}

/// What [`GivenStream::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes are in the buffer now. It is never 0.
    Bytes(usize),
    /// A file has no more bytes for now. [`GivenStream::wait`] waits for more.
    EndForNow,
    /// Another program began the file again: it shortened the file, wrote it anew, or put another
    /// one in its place. The next bytes are those of its new beginning.
    BegunAgain,
    /// Nothing more will come.
    End,
}

impl GivenStream {
    /// Opens a plain file or a FIFO of the user. Symbolic links may lead anywhere.
    ///
    /// # Errors
    /// If there is nothing at the path, if it is a folder, a device or a socket, or if it cannot be
    /// opened.
    pub fn open(path: &Path) -> Result<Self, Refused> {
        let file = open(path)?;
        let stream = Self::of(file).map_err(Refused::Io)?;
        Ok(stream.at(path))
    }

    /// Takes the standard input of this process, whatever it is.
    ///
    /// # Errors
    /// If the process has no standard input.
    pub fn stdin() -> io::Result<Self> {
        Self::of(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)?)
    }

    fn of(file: OwnedFd) -> io::Result<Self> {
        let is_file =
            FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
        let file = File::from(file);
        let kind = match is_file {
            true => Kind::File(Followed::of(&file)?),
            false => Kind::Pipe,
        };
        Ok(Self { file, kind })
    }

    /// Follows the file at this path, also if another file takes its place.
    fn at(mut self, path: &Path) -> Self {
        if let Kind::File(followed) = &mut self.kind {
            followed.path = Some(path.to_owned());
        }
        self
    }

    /// Whether this is a file, which can have been written long ago.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// Reads the next bytes. For a pipe, it waits for them.
    ///
    /// # Errors
    /// If the system cannot read.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
        match &mut self.kind {
            Kind::File(followed) => followed.read(&mut self.file, buffer),
            Kind::Pipe => {
                let count = read_now(&mut self.file, buffer, ready)?;
                Ok(if count == 0 { Piece::End } else { Piece::Bytes(count) })
            }
        }
    }

    /// Waits until a file may have changed. For a pipe, it returns at once.
    ///
    /// # Errors
    /// If the system cannot watch the file.
    pub fn wait(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::File(followed) => followed.wait(&self.file),
            Kind::Pipe => Ok(()),
        }
    }

    /// Goes back to the first byte of a file. A pipe stays where it is.
    ///
    /// # Errors
    /// If the system cannot do that.
    pub fn rewind(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::File(followed) => followed.rewind(&mut self.file),
            Kind::Pipe => Ok(()),
        }
    }
}

/// Opens a plain file or a FIFO.
fn open(path: &Path) -> Result<OwnedFd, Refused> {
    let allowed = |stat: &rustix::fs::Stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Fifo => Ok(()),
        kind => Err(Refused::not_plain(kind)),
    };
    let system = |errno: Errno| Refused::Io(errno.into());
    allowed(&rustix::fs::stat(path).map_err(system)?)?;
    let file = rustix::fs::open(path, READ, Mode::empty()).map_err(system)?;
    // The file may have been replaced between the two calls.
    allowed(&rustix::fs::fstat(&file).map_err(system)?)?;
    Ok(file)
}

/// Reads bytes, and tries again if the system says so. `before` is called before each try.
fn read_now(
    file: &mut File,
    buffer: &mut [u8],
    before: impl Fn(&File) -> io::Result<()>,
) -> io::Result<usize> {
    loop {
        // A FIFO has no end before its first writer has come. Only `poll` waits for one.
        before(file)?;
        match file.read(buffer) {
            Err(error) if is_for_now(&error) => {}
            read => return read,
        }
    }
}

/// Waits until a pipe has bytes or its end.
fn ready(file: &File) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(file, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            polled => return polled.map(drop).map_err(io::Error::from),
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::thread;

    use super::*;

    fn next(stream: &mut GivenStream) -> (Piece, String) {
        let mut buffer = [0; 64];
        let piece = stream.read(&mut buffer).unwrap();
        let count = if let Piece::Bytes(count) = piece { count } else { 0 };
        (piece, String::from_utf8(buffer[..count].to_vec()).unwrap())
    }

    #[test]
    fn a_file_is_read_while_it_grows_and_its_new_beginning_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream");
        fs::write(&path, "one\n").unwrap();
        let mut stream = GivenStream::open(&path).unwrap();
        assert_eq!(next(&mut stream), (Piece::Bytes(4), "one\n".to_owned()));
        assert_eq!(next(&mut stream).0, Piece::EndForNow);
        let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let added = thread::spawn(move || (&writer).write_all(b"two\n").unwrap());
        // The end of this call is the test: without a report it would wait forever.
        stream.wait().unwrap();
        added.join().unwrap();
        assert_eq!(next(&mut stream), (Piece::Bytes(4), "two\n".to_owned()));
        assert_eq!(next(&mut stream).0, Piece::EndForNow);
    }

    /// The new content of a file, and how it gets there.
    type Way<'a> = (&'a str, &'a dyn Fn(&str));

    /// Reads to the end of a file.
    fn rest(stream: &mut GivenStream) -> String {
        let mut all = String::new();
        while let (Piece::Bytes(_), text) = next(stream) {
            all.push_str(&text);
        }
        all
    }

    #[test]
    fn a_file_that_is_begun_again_is_read_from_its_new_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("stream"), folder.path().join("other"));
        fs::write(&path, "one\n").unwrap();
        let mut stream = GivenStream::open(&path).unwrap();
        let ways: [Way<'_>; 5] = [
            ("2\n", &|text| fs::write(&path, text).unwrap()),
            ("three\n", &|text| fs::write(&path, text).unwrap()),
            ("fours\n", &|text| fs::write(&path, text).unwrap()),
            ("five\n", &|text| {
                fs::write(&other, text).unwrap();
                fs::rename(&other, &path).unwrap();
            }),
            ("six\n", &|text| {
                fs::remove_file(&path).unwrap();
                fs::write(&path, text).unwrap();
            }),
        ];
        assert_eq!(rest(&mut stream), "one\n");
        for (text, begin_again) in ways {
            begin_again(text);
            // The end of this call is a part of the test: it must notice the change.
            stream.wait().unwrap();
            assert_eq!(next(&mut stream).0, Piece::BegunAgain, "{text}");
            assert_eq!(rest(&mut stream), text);
        }
    }

    #[test]
    fn a_file_that_is_moved_away_is_read_to_its_end_and_the_next_one_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("stream"), folder.path().join("old"));
        fs::write(&path, "one\n").unwrap();
        let mut stream = GivenStream::open(&path).unwrap();
        assert_eq!(rest(&mut stream), "one\n");
        fs::rename(&path, &old).unwrap();
        stream.wait().unwrap();
        assert_eq!(next(&mut stream).0, Piece::EndForNow);
        fs::OpenOptions::new().append(true).open(&old).unwrap().write_all(b"two\n").unwrap();
        stream.wait().unwrap();
        assert_eq!(rest(&mut stream), "two\n");
        let came = thread::spawn(move || fs::write(&path, "new\n").unwrap());
        let new = loop {
            stream.wait().unwrap();
            if next(&mut stream).0 == Piece::BegunAgain {
                break rest(&mut stream);
            }
        };
        came.join().unwrap();
        assert!("new\n".starts_with(&new), "{new}");
        stream.rewind().unwrap();
        assert_eq!(rest(&mut stream), "new\n");
    }

    #[test]
    fn a_fifo_is_opened_without_a_writer_and_ends_with_its_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let mut stream = GivenStream::open(&path).unwrap();
        let write = path.clone();
        let writer = thread::spawn(move || fs::write(write, "one").unwrap());
        assert_eq!(next(&mut stream), (Piece::Bytes(3), "one".to_owned()));
        writer.join().unwrap();
        assert_eq!(next(&mut stream).0, Piece::End);
    }

    #[test]
    fn folders_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| GivenStream::open(path).unwrap_err().to_string();
        assert_eq!(refused(folder.path()), "it is a folder, but only regular files are read");
        assert!(refused(Path::new("/dev/zero")).starts_with("it is a device"));
        let missing = GivenStream::open(&folder.path().join("missing"));
        assert!(
            matches!(missing, Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound)
        );
    }
}
