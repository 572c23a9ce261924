//! Lets the user choose an item of a list on the whole terminal.

use std::fmt::Display;
use std::io::{self, Write};

use crossterm::cursor::Show;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};

use crate::panels::{PanelAct, Picker, PickerItem};
use crate::theme::Theme;

/// Shows the list on the terminal behind `out` until the user chooses an item or leaves. Returns the
/// index of the chosen item. `next` returns the next event of the terminal, or `None` if the list
/// must end. The terminal is restored in every case.
///
/// # Errors
/// If the terminal cannot be switched or written.
pub async fn choose(
    mut out: impl Write,
    title: &str,
    items: &[PickerItem],
    theme: &Theme,
    next: impl AsyncFnMut() -> Option<Event>,
) -> io::Result<Option<usize>> {
    let screen = WholeScreen::enter(&mut out)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(&mut *screen.out))?;
    choose_on(&mut terminal, title, items, theme, next).await
}

/// Shows the list on a terminal of ratatui.
async fn choose_on<B: Backend<Error: Display>>(
    terminal: &mut Terminal<B>,
    title: &str,
    items: &[PickerItem],
    theme: &Theme,
    mut next: impl AsyncFnMut() -> Option<Event>,
) -> io::Result<Option<usize>> {
    let mut picker = Picker::new(title);
    loop {
        terminal
            .draw(|frame| picker.draw(frame, frame.area(), items, theme, true))
            .map_err(|error| io::Error::other(error.to_string()))?;
        let Some(event) = next().await else { return Ok(None) };
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if is_leave(key) => return Ok(None),
            Event::Key(key) => match picker.key(key) {
                PanelAct::Chosen(index) => return Ok(Some(index)),
                PanelAct::Close => return Ok(None),
                PanelAct::None
                | PanelAct::Redraw
                | PanelAct::Peek(_)
                | PanelAct::OpenPane(_)
                | PanelAct::Message(_) => {}
            },
            // The next drawing asks the terminal for its size.
            Event::Resize(..)
            | Event::FocusGained
            | Event::FocusLost
            | Event::Mouse(_)
            | Event::Paste(_) => {}
        }
    }
}

fn is_leave(key: KeyEvent) -> bool {
    key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd'))
}

/// A terminal in raw mode with the second screen. Dropping it restores the terminal.
struct WholeScreen<'a, W: Write> {
    out: &'a mut W,
}

impl<'a, W: Write> WholeScreen<'a, W> {
    fn enter(out: &'a mut W) -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self { out };
        execute!(screen.out, EnterAlternateScreen)?;
        Ok(screen)
    }
}

impl<W: Write> Drop for WholeScreen<'_, W> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(self.out, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
