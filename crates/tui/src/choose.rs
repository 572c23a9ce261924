//! Lets the user choose an item of a list, on the whole terminal.

use std::io;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::keyboard::Keys;
use crate::panels::{PanelAct, Picker, PickerItem};
use crate::terminal::{Mouse, Screen};
use crate::theme::{Theme, ThemeKind};

/// Shows a list until the user chooses an item or leaves, or until `end` is ready. Returns the index
/// of the chosen item. The terminal is restored in every case.
///
/// The thread that reads the keys takes one more key after the return, if the process goes on.
///
/// # Errors
/// If the terminal cannot be used.
pub async fn choose(
    title: &str,
    items: &[PickerItem],
    theme: ThemeKind,
    end: impl Future<Output = ()>,
) -> io::Result<Option<usize>> {
    let theme = Theme::new(theme);
    let mut keys = Keys::open()?;
    let mut screen = Screen::open(Mouse::Off)?;
    tokio::pin!(end);
    let draw = |picker: &mut Picker| {
        screen.draw(|frame| picker.draw(frame, frame.area(), items, &theme, true))
    };
    let next = async || {
        tokio::select! {
            event = keys.next() => Some(event),
            () = &mut end => None,
        }
    };
    chosen(Picker::new(title), draw, next).await
}

/// Draws the list and handles events until an item is chosen. `next` returns the next event, or
/// `None` if the list must be closed.
async fn chosen(
    mut picker: Picker,
    mut draw: impl FnMut(&mut Picker) -> io::Result<()>,
    mut next: impl AsyncFnMut() -> Option<Event>,
) -> io::Result<Option<usize>> {
    loop {
        draw(&mut picker)?;
        let Some(event) = next().await else { return Ok(None) };
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if leaves(key) => return Ok(None),
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

fn leaves(key: KeyEvent) -> bool {
    key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd'))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// Handles these events on a screen of this size, and returns the result.
    async fn check(items: &[&str], events: Vec<Event>) -> Option<usize> {
        let item = |label: &&str| PickerItem { label: (*label).to_owned(), ..Default::default() };
        let items: Vec<PickerItem> = items.iter().map(item).collect();
        let theme = Theme::new(ThemeKind::NoColor);
        let mut terminal = Terminal::new(TestBackend::new(40, 10)).unwrap();
        let mut events = events.into_iter();
        let draw = |picker: &mut Picker| {
            let area = terminal
                .draw(|frame| picker.draw(frame, frame.area(), &items, &theme, true))
                .unwrap()
                .area;
            assert_eq!((area.width, area.height), (40, 10));
            Ok(())
        };
        chosen(Picker::new("teams"), draw, async || events.next()).await.unwrap()
    }

    fn typed(text: &str) -> Vec<Event> {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        text.chars().map(|c| Event::Key(KeyEvent::new(code(c), KeyModifiers::NONE))).collect()
    }

    #[tokio::test]
    async fn the_user_searches_and_chooses_or_leaves() {
        let teams = ["parser", "site", "parser-2"];
        assert_eq!(check(&teams, typed("\n")).await, Some(0));
        assert_eq!(check(&teams, typed("si\n")).await, Some(1));
        assert_eq!(check(&teams, typed("-2\n")).await, Some(2));
        assert_eq!(check(&teams, typed("nothing\n\u{1b}\u{1b}")).await, None);
        assert_eq!(check(&teams, typed("")).await, None, "the list was closed from outside");
        let leave = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let events = vec![Event::Resize(40, 10), Event::Key(leave), typed("\n").remove(0)];
        assert_eq!(check(&teams, events).await, None);
    }
}
