//! A terminal for a lead. It is a pseudo-terminal whose output goes to a file. The harness sets the
//! size of the terminal and sends key presses to it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::error::Error;

/// The byte that a keyboard sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// An open terminal. When this value is dropped, the programs in the terminal receive SIGHUP.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    path: PathBuf,
    is_closed: Arc<AtomicBool>,
    drawing: Option<JoinHandle<()>>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(drawing) = self.drawing.take() {
            // An error means that the thread that copies the output panicked. It is ignored,
            // because the panic message is already on the screen of the harness.
            let _either = drawing.join();
        }
    }
}

impl Terminal {
    /// Opens a terminal with 80 columns and 24 rows. Its output is written to the file `log`.
    ///
    /// # Errors
    /// An error if the operating system has no free terminal.
    pub fn open(log: &Path) -> Result<Self, Error> {
        let failed = |source: rustix::io::Errno| Error::Io {
            action: "open a terminal".to_owned(),
            source: source.into(),
        };
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .map_err(failed)?;
        grantpt(&master).and_then(|()| unlockpt(&master)).map_err(failed)?;
        let path = ptsname(&master, Vec::new()).map_err(failed)?;
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        let keys = File::from(master);
        let drawn = keys.try_clone().map_err(Error::io("open", &path))?;
        let log = File::create(log).map_err(Error::io("make", log))?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_closed);
        let drawing = Some(thread::spawn(move || keep(drawn, log, &stop)));
        let terminal = Self { keys, path, is_closed, drawing };
        terminal.resize(80, 24);
        Ok(terminal)
    }

    /// Makes this terminal the standard input and the standard error of a command.
    ///
    /// # Errors
    /// An error if the terminal cannot be opened a second time.
    pub fn attach(&self, command: &mut Command) -> Result<(), Error> {
        let open = || {
            let file = File::options().read(true).write(true).open(&self.path);
            file.map(Stdio::from).map_err(Error::io("open", &self.path))
        };
        command.stdin(open()?).stderr(open()?).env("TERM", "xterm-256color");
        Ok(())
    }

    /// Changes the size of the terminal. The programs in the terminal receive SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // An error is ignored, because all programs in the terminal may have ended.
        let _gone = tcsetwinsize(&self.keys, size);
    }

    /// Sends the key press Ctrl-C to the terminal.
    pub fn interrupt(&self) {
        let _gone = (&self.keys).write_all(&[CTRL_C]);
    }
}

/// Copies the output of the programs in the terminal to a file. Ends when the last program has
/// ended or the terminal is closed.
fn keep(mut drawn: File, mut log: File, stop: &AtomicBool) {
    let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut buffer = [0_u8; 4096];
    while !stop.load(Ordering::SeqCst) {
        let is_ready = poll(&mut [PollFd::new(&drawn, PollFlags::IN)], Some(&pause));
        if is_ready.is_ok_and(|count| count == 0) {
            continue;
        }
        let Ok(count @ 1..) = drawn.read(&mut buffer) else { return };
        if log.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            return;
        }
    }
}
