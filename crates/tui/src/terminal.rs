//! The terminal while the interface is open: the alternate screen in raw mode. Dropping a
//! [`Screen`] restores the terminal, also when a panic unwinds.

use std::fmt;
use std::io::{self, BufWriter, Stderr, Write as _};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{Command, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};
use rustix::process::{Signal, kill_current_process_group};

/// The size of the buffer for one drawing. A drawing is written at once, unless it is longer.
const BUFFER_BYTES: usize = 64 * 1024;

/// Whether the terminal reports the mouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mouse {
    /// It does not. The terminal's own selection of text works as usual.
    #[default]
    Off,
    /// It reports clicks and the wheel.
    On,
}

/// Makes the terminal report clicks and the wheel. Movements are not reported: each of them would
/// wake this process.
struct ReportClicks;

impl Command for ReportClicks {
    fn write_ansi(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str("\x1b[?1000h\x1b[?1006h")
    }
}

/// Ends [`ReportClicks`].
struct ReportNoClicks;

impl Command for ReportNoClicks {
    fn write_ansi(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str("\x1b[?1006l\x1b[?1000l")
    }
}

/// The terminal on which the interface is drawn. It is that of the standard error, because the
/// standard output belongs to the result of the command.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    mouse: Mouse,
}

impl Screen {
    /// Switches to the alternate screen and to raw mode.
    ///
    /// # Errors
    /// Returns an error if the terminal cannot be switched. It is restored then.
    pub(crate) fn open(mouse: Mouse) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stderr());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let screen = Self { terminal, mouse };
        enter(mouse)?;
        Ok(screen)
    }

    /// Draws the screen. Only the cells that changed are written.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        io::Write::flush(self.terminal.backend_mut())
    }

    /// Writes characters that are no part of the drawing, for example the bell.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn signal(&mut self, characters: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(characters.as_bytes())?;
        io::Write::flush(out)
    }

    /// Suspends the job as Ctrl-Z does. When the shell resumes the job, the terminal is switched
    /// back.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore(self.mouse)?;
        // The whole job stops in this call. The next line runs after the shell has resumed the job.
        kill_current_process_group(Signal::TSTP)?;
        self.redraw()
    }

    /// Switches the terminal again and draws every cell in the next drawing. This is needed after
    /// the process was suspended, because the shell has changed the terminal.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        enter(self.mouse)?;
        // `clear` would ask the terminal for the cursor's position, and the thread that reads keys
        // would take the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors are ignored, because a terminal that is gone does not need to be restored.
        let _either = restore(self.mouse);
    }
}

fn enter(mouse: Mouse) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, EnableBracketedPaste)?;
    match mouse {
        Mouse::On => execute!(io::stderr(), ReportClicks),
        Mouse::Off => Ok(()),
    }
}

/// Restores the terminal. Each step is tried, even if an earlier one failed.
fn restore(mouse: Mouse) -> io::Result<()> {
    let silent = match mouse {
        Mouse::On => execute!(io::stderr(), ReportNoClicks),
        Mouse::Off => Ok(()),
    };
    let written = execute!(
        io::stderr(),
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    let flushed = io::stderr().flush();
    disable_raw_mode().and(silent).and(written).and(flushed)
}
