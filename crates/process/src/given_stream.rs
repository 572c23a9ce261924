//! Reads bytes that another program writes, while it writes them: a file that grows, a FIFO or a
//! pipe.
//!
//! Opening never waits. [`GivenStream::read`] waits for as long as the other program writes nothing,
//! so a caller with something else to do calls it in a thread of its own.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

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
    File { growth: Growth, read: u64 },
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
    /// A file is shorter than the part that was read. Another program began it again.
    Shortened,
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
        let allowed = |stat: &rustix::fs::Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Fifo => Ok(()),
            kind => Err(Refused::not_plain(kind)),
        };
        let system = |errno: Errno| Refused::Io(errno.into());
        allowed(&rustix::fs::stat(path).map_err(system)?)?;
        let file = rustix::fs::open(path, READ, Mode::empty()).map_err(system)?;
        // The file may have been replaced between the two calls.
        allowed(&rustix::fs::fstat(&file).map_err(system)?)?;
        Self::of(file).map_err(Refused::Io)
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
        let mut file = File::from(file);
        let kind = match is_file {
            true => Kind::File { growth: Growth::of(&file), read: file.stream_position()? },
            false => Kind::Pipe,
        };
        Ok(Self { file, kind })
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
        loop {
            if matches!(self.kind, Kind::Pipe) {
                // A FIFO has no end before its first writer has come. Only `poll` waits for one.
                ready(&self.file)?;
            }
            let count = match self.file.read(buffer) {
                Ok(count) => count,
                Err(error) if is_for_now(&error) => continue,
                Err(error) => return Err(error),
            };
            let Kind::File { read, .. } = &mut self.kind else {
                return Ok(if count == 0 { Piece::End } else { Piece::Bytes(count) });
            };
            *read += count as u64;
            if count > 0 {
                return Ok(Piece::Bytes(count));
            }
            let is_shorter = self.file.metadata()?.len() < *read;
            return Ok(if is_shorter { Piece::Shortened } else { Piece::EndForNow });
        }
    }

    /// Waits until a file may have changed. For a pipe, it returns at once.
    ///
    /// # Errors
    /// If the system cannot watch the file.
    pub fn wait(&mut self) -> io::Result<()> {
        match &self.kind {
            Kind::File { growth, .. } => growth.wait(),
            Kind::Pipe => Ok(()),
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

/// The changes of a file.
#[derive(Debug)]
struct Growth {
    /// The kernel's reports. `None` if there are none, for example because the user has too many
    /// watches already. The file is then looked at once a second.
    #[cfg(target_os = "linux")]
    reports: Option<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Growth {
    fn of(file: &File) -> Self {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        // This path leads to the open file, also if its own path leads to another one by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watched = init(CreateFlags::CLOEXEC).and_then(|reports| {
            add_watch(&reports, path, WatchFlags::MODIFY)?;
            Ok(reports)
        });
        Self { reports: watched.ok() }
    }

    fn wait(&self) -> io::Result<()> {
        let Some(reports) = &self.reports else {
            look_again_later();
            return Ok(());
        };
        loop {
            // What the reports say makes no difference: the file is read again.
            match rustix::io::read(reports, &mut [0; 4096]) {
                Err(Errno::INTR) => {}
                read => return read.map(drop).map_err(io::Error::from),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Growth {
    fn of(_file: &File) -> Self {
        Self {}
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is the same function on Linux")]
    fn wait(&self) -> io::Result<()> {
        look_again_later();
        Ok(())
    }
}

fn look_again_later() {
    std::thread::sleep(std::time::Duration::from_secs(1));
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
        fs::write(&path, "new\n").unwrap();
        stream.wait().unwrap();
        assert_eq!(next(&mut stream).0, Piece::Shortened);
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
