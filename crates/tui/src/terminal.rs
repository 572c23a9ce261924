//! The terminal while the interface is open: the alternate screen in raw mode. Dropping a
//! [`Screen`] restores the terminal, also when a panic unwinds.

use std::io::{self, BufWriter, Stderr, Write as _};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};
use rustix::process::{Signal, kill_current_process_group};

/// The size of the buffer for one drawing. A drawing is written at once, unless it is longer.
const BUFFER_BYTES: usize = 64 * 1024;

/// The terminal on which the interface is drawn. It is that of the standard error, because the
/// standard output belongs to the result of the command.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
}

impl Screen {
    /// Switches to the alternate screen and to raw mode.
    ///
    /// # Errors
    /// Returns an error if the terminal cannot be switched. It is restored then.
    pub(crate) fn open() -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stderr());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let screen = Self { terminal };
        enter()?;
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

    /// Suspends the job as Ctrl-Z does. When the shell resumes the job, the terminal is switched
    /// back.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore()?;
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
        enter()?;
        // `clear` would ask the terminal for the cursor's position, and the thread that reads keys
        // would take the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors are ignored, because a terminal that is gone does not need to be restored.
        let _either = restore();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, EnableBracketedPaste)
}

/// Restores the terminal. Each step is tried, even if an earlier one failed.
fn restore() -> io::Result<()> {
    let written = execute!(
        io::stderr(),
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    let flushed = io::stderr().flush();
    disable_raw_mode().and(written).and(flushed)
}
