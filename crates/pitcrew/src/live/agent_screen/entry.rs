//! The input line, and the effects of keys on it. This module does no I/O.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use pitcrew_view::asking::Turn;

/// The maximum length of the input line in characters. The default limit of a message has the same
/// value.
const MOST_CHARS: usize = 10_000;

/// The input line that the user edits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    text: Vec<char>,
    /// The position of the cursor, as an index into the text.
    at: usize,
    /// An unfinished message that a question interrupted. The message returns to the input line
    /// when no question is shown any more.
    aside: Vec<char>,
}

/// What a key press, a paste or another terminal event means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The user is still editing the line.
    Editing,
    /// The user finished the line, which is the value of this variant.
    Line(String),
    /// The user wants to interrupt the agent's turn.
    Interrupt,
    /// The user wants to end the agent.
    End,
    /// The user pressed the key that suspends the process (Ctrl-Z). A suspended process waits until
    /// its shell resumes it.
    Suspend,
    /// The user turns to another page of a question.
    Turn(Turn),
    /// The size of the terminal changed.
    Resized,
}

impl Entry {
    /// Handles a terminal event and returns what the event means.
    pub(crate) fn take(&mut self, event: Event) -> Typed {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Paste(text) => {
                // A line break in a pasted text must not finish the line, so control characters
                // become spaces.
                text.chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .for_each(|c| self.insert(c));
                Typed::Editing
            }
            Event::Resize(..) => Typed::Resized,
            Event::Key(_) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => {
                Typed::Editing
            }
        }
    }

    /// Returns the text before the cursor and the text after the cursor.
    pub(crate) fn parts(&self) -> (String, String) {
        let (before, after) = self.text.split_at(self.at.min(self.text.len()));
        (before.iter().collect(), after.iter().collect())
    }

    /// Updates the input line when the shown question changes or disappears. While a question is
    /// shown, an unfinished message is set aside, so that the message is not sent as the answer. An
    /// unfinished answer is discarded.
    pub(crate) fn question_changed(&mut self, was_asked: bool, is_asked: bool) {
        match (was_asked, is_asked) {
            (false, true) => self.aside = std::mem::take(&mut self.text),
            (true, false) => self.text = std::mem::take(&mut self.aside),
            // An unfinished answer must not be used for the next question.
            (true, true) => self.text.clear(),
            (false, false) => {}
        }
        self.at = self.text.len();
    }

    /// Puts a rejected line back into the input, so that the user can correct it. A line of one word
    /// is dropped: the user types the next word without deleting the first one.
    pub(crate) fn put_back(&mut self, line: &str) {
        if line.split_whitespace().nth(1).is_none() {
            return;
        }
        self.text = line.chars().collect();
        self.at = self.text.len();
    }

    fn key(&mut self, key: KeyEvent) -> Typed {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control(key.code);
        }
        match key.code {
            KeyCode::Char(c) => self.insert(c),
            KeyCode::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.at);
            }
            KeyCode::Delete if self.at < self.text.len() => {
                self.text.remove(self.at);
            }
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.text.len()),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            KeyCode::Esc => return Typed::Interrupt,
            KeyCode::Enter => return self.done(),
            KeyCode::PageDown => return Typed::Turn(Turn::On),
            KeyCode::PageUp => return Typed::Turn(Turn::Back),
            // Other keys do not change the line. A wildcard is needed, because later versions of
            // crossterm may add variants.
            _ => {}
        }
        Typed::Editing
    }

    fn control(&mut self, code: KeyCode) -> Typed {
        match code {
            KeyCode::Char('c') => return Typed::End,
            KeyCode::Char('z') => return Typed::Suspend,
            KeyCode::Char('a') => self.at = 0,
            KeyCode::Char('e') => self.at = self.text.len(),
            KeyCode::Char('u') => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyCode::Char('k') => self.text.truncate(self.at),
            KeyCode::Char('w') => self.cut_word(),
            // Other keys do not change the line. A wildcard is needed, because later versions of
            // crossterm may add variants.
            _ => {}
        }
        Typed::Editing
    }

    fn cut_word(&mut self) {
        let before = self.text.get(..self.at).unwrap_or_default();
        let word_ends = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
        let word = before.get(..word_ends).unwrap_or_default();
        let starts = word.iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1);
        self.text.drain(starts..self.at);
        self.at = starts;
    }

    fn insert(&mut self, c: char) {
        if self.text.len() < MOST_CHARS {
            self.text.insert(self.at, c);
            self.at += 1;
        }
    }

    fn done(&mut self) -> Typed {
        self.at = 0;
        let line: String = std::mem::take(&mut self.text).into_iter().collect();
        if line.trim().is_empty() { Typed::Editing } else { Typed::Line(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(entry: &mut Entry, code: KeyCode) -> Typed {
        entry.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn hold(entry: &mut Entry, c: char) -> Typed {
        entry.take(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
    }

    fn typed(text: &str) -> Entry {
        let mut entry = Entry::default();
        text.chars().for_each(|c| assert_eq!(press(&mut entry, KeyCode::Char(c)), Typed::Editing));
        entry
    }

    #[track_caller]
    fn check(entry: &Entry, before: &str, after: &str) {
        assert_eq!(entry.parts(), (before.to_owned(), after.to_owned()));
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_stands() {
        let mut entry = typed("löok at x");
        for code in [KeyCode::Home, KeyCode::Right, KeyCode::Right] {
            press(&mut entry, code);
        }
        press(&mut entry, KeyCode::Backspace);
        press(&mut entry, KeyCode::Char('o'));
        check(&entry, "lo", "ok at x");
        press(&mut entry, KeyCode::Delete);
        check(&entry, "lo", "k at x");
    }

    #[test]
    fn words_and_halves_of_the_line_are_cut() {
        let mut entry = typed("look at this  ");
        hold(&mut entry, 'w');
        check(&entry, "look at ", "");
        press(&mut entry, KeyCode::Left);
        hold(&mut entry, 'k');
        check(&entry, "look at", "");
        hold(&mut entry, 'u');
        check(&entry, "", "");
        hold(&mut entry, 'w');
        check(&entry, "", "");
    }

    #[test]
    fn enter_hands_the_line_over_and_an_empty_one_is_none() {
        let mut entry = typed("hi");
        assert_eq!(press(&mut entry, KeyCode::Enter), Typed::Line("hi".to_owned()));
        assert_eq!(press(&mut entry, KeyCode::Enter), Typed::Editing);
        check(&entry, "", "");
    }

    #[test]
    fn what_is_pasted_stays_one_line_and_no_line_grows_for_ever() {
        let mut entry = Entry::default();
        entry.take(Event::Paste("a\nb\u{1b}c".to_owned()));
        check(&entry, "a b c", "");
        entry.take(Event::Paste("x".repeat(2 * MOST_CHARS)));
        assert_eq!(entry.parts().0.chars().count(), MOST_CHARS);
    }

    #[test]
    fn a_message_that_was_begun_comes_back_when_nothing_is_asked_any_more() {
        let mut entry = typed("use tabs");
        entry.question_changed(false, true);
        check(&entry, "", "");
        entry.put_back("maybe");
        check(&entry, "", "");
        entry.put_back("yes, but");
        check(&entry, "yes, but", "");
        entry.question_changed(true, true);
        check(&entry, "", "");
        entry.question_changed(true, false);
        check(&entry, "use tabs", "");
    }

    #[test]
    fn escape_interrupts_and_control_c_ends() {
        let mut entry = typed("draft");
        assert_eq!(press(&mut entry, KeyCode::Esc), Typed::Interrupt);
        assert_eq!(hold(&mut entry, 'c'), Typed::End);
        check(&entry, "draft", "");
    }
}
