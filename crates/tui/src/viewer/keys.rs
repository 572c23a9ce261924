//! Handles keys. There is no line to type in, so letters are commands everywhere.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Focus, Viewer, ViewerAction};
use crate::app::part_lines::Length;
use crate::panels::PanelAct;

/// The order in which Tab moves the focus, and in which the digits name the parts.
const ORDER: [Focus; 5] =
    [Focus::Team, Focus::Conversation, Focus::Tasks, Focus::Timeline, Focus::Summary];

/// The answer to a key without a meaning.
const READ_ONLY: &str =
    "read-only: this display sends no messages and no answers; ? shows the keys";

impl Viewer {
    pub(super) fn terminal(&mut self, event: Event) -> Vec<ViewerAction> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Paste(_) => {
                self.notice = Some(READ_ONLY.to_owned());
                Vec::new()
            }
            Event::Key(_)
            | Event::Resize(..)
            | Event::Mouse(_)
            | Event::FocusGained
            | Event::FocusLost => Vec::new(),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<ViewerAction> {
        self.notice = None;
        if key.modifiers == KeyModifiers::CONTROL
            && let KeyCode::Char(letter) = key.code
            && let Some(actions) = self.control_key(letter)
        {
            return actions;
        }
        match key.code {
            KeyCode::Tab => return self.focus_on(self.neighbour(1)),
            KeyCode::BackTab => return self.focus_on(self.neighbour(ORDER.len() - 1)),
            KeyCode::Char(letter) if !self.is_searching() => {
                if let Some(actions) = self.letter(letter) {
                    return actions;
                }
            }
            _ => {}
        }
        let act = match self.focus {
            Focus::Team => self.team_list.key(key),
            Focus::Conversation => self.conversation_key(key),
            Focus::Tasks => self.task_board.key(key),
            Focus::Timeline => self.timeline.key(key),
            Focus::Summary => self.summary.key(key),
            Focus::Help => PanelAct::Close,
        };
        self.acted(act, key)
    }

    /// Handles a letter with Ctrl. Returns `None` if it has no meaning here.
    fn control_key(&mut self, letter: char) -> Option<Vec<ViewerAction>> {
        let toggled = |from: Focus, to: Focus| if from == to { Focus::Conversation } else { to };
        let focus = match letter {
            'c' => return Some(vec![ViewerAction::Leave]),
            'z' => return Some(vec![ViewerAction::Suspend]),
            'o' => {
                self.toggle_length();
                return Some(Vec::new());
            }
            't' => Focus::Team,
            'k' => Focus::Tasks,
            'l' => Focus::Timeline,
            _ => return None,
        };
        Some(self.focus_on(toggled(self.focus, focus)))
    }

    /// Handles a letter that means the same everywhere. Returns `None` for any other letter.
    fn letter(&mut self, letter: char) -> Option<Vec<ViewerAction>> {
        let focus = match letter {
            'q' => return Some(vec![ViewerAction::Leave]),
            '?' => Focus::Help,
            '1'..='5' => {
                let at = usize::try_from(letter.to_digit(10)?).ok()?;
                *ORDER.get(at.checked_sub(1)?)?
            }
            _ => return None,
        };
        Some(self.focus_on(focus))
    }

    fn is_searching(&self) -> bool {
        self.focus == Focus::Timeline && self.timeline.is_searching()
    }

    fn neighbour(&self, distance: usize) -> Focus {
        let at = ORDER.iter().position(|focus| *focus == self.focus);
        let next = at.map_or(0, |at| (at + distance) % ORDER.len());
        ORDER.get(next).copied().unwrap_or(Focus::Team)
    }

    fn focus_on(&mut self, focus: Focus) -> Vec<ViewerAction> {
        self.focus = focus;
        Vec::new()
    }

    fn toggle_length(&mut self) {
        self.length = match self.length {
            Length::Short => Length::Whole,
            Length::Whole => Length::Short,
        };
        self.talk.set_length(self.length);
    }

    fn conversation_key(&mut self, key: KeyEvent) -> PanelAct {
        let scroll = self.talk.scroll();
        match key.code {
            KeyCode::PageUp => scroll.page_up(),
            KeyCode::PageDown | KeyCode::Char(' ') => scroll.page_down(),
            KeyCode::Up | KeyCode::Char('k') => scroll.up(1),
            KeyCode::Down | KeyCode::Char('j') => scroll.down(1),
            KeyCode::Home | KeyCode::Char('g') => scroll.to_start(),
            KeyCode::End | KeyCode::Char('G') => scroll.to_end(),
            KeyCode::Esc => return PanelAct::Close,
            _ => return PanelAct::None,
        }
        PanelAct::Redraw
    }

    fn acted(&mut self, act: PanelAct, key: KeyEvent) -> Vec<ViewerAction> {
        match act {
            PanelAct::Peek(agent) | PanelAct::Message(agent) | PanelAct::OpenPane(agent) => {
                self.focus = Focus::Conversation;
                self.shown.is_chosen = true;
                self.show(agent)
            }
            PanelAct::Close => self.focus_on(Focus::Team),
            PanelAct::None => {
                if matches!(key.code, KeyCode::Char(_) | KeyCode::Enter) {
                    self.notice = Some(READ_ONLY.to_owned());
                }
                Vec::new()
            }
            PanelAct::Redraw | PanelAct::Chosen(_) => Vec::new(),
        }
    }
}
