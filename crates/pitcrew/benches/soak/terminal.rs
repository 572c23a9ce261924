//! A terminal with one program, and what the program paints on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The maximum wait for something on the screen. After this time, the benchmark fails.
const PATIENCE: Duration = Duration::from_secs(60);

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 };

/// A program in a terminal of its own. Dropping it kills the program.
pub(crate) struct Terminal {
    keys: File,
    program: Child,
    /// The bytes that the program has written since the last key.
    painted: Vec<u8>,
}

impl Terminal {
    /// Starts a program in a new terminal. Returns the time at which it was started too.
    pub(crate) fn start(
        program: &str,
        args: &[&str],
        set: impl FnOnce(&mut Command),
    ) -> (Self, Instant) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keys = openpt(flags).expect("a terminal");
        grantpt(&keys).and_then(|()| unlockpt(&keys)).expect("a terminal of this process");
        tcsetwinsize(&keys, SIZE).expect("a size");
        let path = ptsname(&keys, Vec::new()).expect("a name");
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        let open = || {
            let file = File::options().read(true).write(true).open(&path).expect("the terminal");
            Stdio::from(file)
        };
        // `setsid` makes the terminal the controlling terminal, and becomes the program.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(args);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command.stdin(open()).stdout(open()).stderr(open());
        set(&mut command);
        let start = Instant::now();
        let program = command.spawn().expect("the program");
        (Self { keys: File::from(keys), program, painted: Vec::new() }, start)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.id()
    }

    /// Waits until the text was painted, and returns the time at which it was read. Blanks do not
    /// count: a program moves the cursor over them.
    pub(crate) fn until(&mut self, text: &str) -> Instant {
        let wanted: String = text.split_whitespace().collect();
        let start = Instant::now();
        while !letters(&self.painted).contains(&wanted) {
            assert!(
                start.elapsed() < PATIENCE,
                "{text:?} is not painted: {:?}",
                String::from_utf8_lossy(&self.painted)
            );
            self.read(Duration::from_secs(1));
        }
        Instant::now()
    }

    /// Presses a key, and returns the time until the key was painted.
    pub(crate) fn echo(&mut self, key: &str) -> Duration {
        while self.read(Duration::ZERO) {}
        self.painted.clear();
        let start = Instant::now();
        self.press(key);
        self.until(key).duration_since(start)
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Reads what the program has painted. Returns false if that was nothing.
    fn read(&mut self, wait: Duration) -> bool {
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.keys, PollFlags::IN)], Some(&wait));
        if ready.expect("the terminal is there") == 0 {
            return false;
        }
        let mut buffer = [0; 64 * 1024];
        let count = self.keys.read(&mut buffer).expect("the program runs");
        self.painted.extend_from_slice(buffer.get(..count).unwrap_or_default());
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program may have ended already, so the result is ignored.
        let _ = self.program.kill().and_then(|()| self.program.wait());
    }
}

/// Returns the painted characters without blanks and without control sequences.
fn letters(painted: &[u8]) -> String {
    let text = String::from_utf8_lossy(painted);
    let mut letters = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // A control sequence ends with a letter, an operating system command with a bell.
            '\u{1b}' => match rest.next() {
                Some('[') => _ = rest.by_ref().find(|c| ('@'..='~').contains(c)),
                Some(']') => _ = rest.by_ref().find(|c| *c == '\u{7}'),
                Some(_) | None => {}
            },
            c if c.is_control() || c.is_whitespace() => {}
            c => letters.push(c),
        }
    }
    letters
}
