//! Handles keys. A key goes to the part of the screen that has the focus, except the few keys that
//! mean the same everywhere.

use std::time::Instant;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use pitcrew_protocol::Status;

use super::{Action, App, Focus, Leaving, Length, Request, Stage};
use crate::composer::ComposerAct;
use crate::panels::PanelAct;
use crate::question::QuestionAct;

/// The order in which Tab moves the focus.
const FOCUS_ORDER: [Focus; 4] = [Focus::Conversation, Focus::Team, Focus::Tasks, Focus::Timeline];

impl App {
    pub(super) fn terminal(&mut self, event: Event, at: Instant) -> Vec<Action> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key, at),
            Event::Mouse(event) => self.mouse(event, at),
            // The list of teams is searched by keys.
            Event::Paste(_) if self.choosing.is_some() => Vec::new(),
            Event::Paste(text) => {
                if self.writing.is_none() {
                    self.focus = Focus::Conversation;
                }
                let act = self.composer.paste(&text);
                self.composed(act)
            }
            Event::Key(_) | Event::Resize(..) | Event::FocusGained | Event::FocusLost => Vec::new(),
        }
    }

    fn key(&mut self, key: KeyEvent, at: Instant) -> Vec<Action> {
        if key.modifiers == KeyModifiers::CONTROL {
            match key.code {
                KeyCode::Char('c') => return self.ctrl_c(),
                KeyCode::Char('z') => return vec![Action::Suspend],
                _ => {}
            }
        }
        match self.leaving {
            Leaving::Asked => return self.leaving_key(key),
            Leaving::Pressed => self.leaving = Leaving::No,
            Leaving::No | Leaving::Ending(_) | Leaving::Stopping => {}
        }
        if let Some(actions) = self.choosing_key(key) {
            return actions;
        }
        if let Some(actions) = self.key_for_all(key) {
            self.question.forget_key();
            return actions;
        }
        if self.continues_draft(key) {
            self.focus = Focus::Conversation;
        }
        let act = match self.focus {
            Focus::Conversation => return self.conversation_key(key, at),
            Focus::Review => return self.review_key(key),
            Focus::Team => self.team_list.key(key),
            Focus::Tasks => self.task_board.key(key),
            Focus::Timeline => self.timeline.key(key),
        };
        if act == PanelAct::None {
            self.answers_elsewhere(key);
        }
        self.panel(act)
    }

    /// Says why a key for an answer does nothing while another part of the screen has the keys.
    pub(super) fn answers_elsewhere(&mut self, key: KeyEvent) {
        let is_answer = match key.code {
            KeyCode::Char(letter) => self.question.is_key(letter),
            _ => false,
        };
        if is_answer && self.question.is_open() {
            self.problem(
                "nothing was answered: Esc goes back to the conversation, where the keys answer",
            );
        }
    }

    /// Whether a key is one more character of a text that was begun before the focus went to a list.
    /// The commands of lists are letters, and must not take the letters of a message.
    fn continues_draft(&self, key: KeyEvent) -> bool {
        let is_list = matches!(self.focus, Focus::Team | Focus::Tasks | Focus::Timeline);
        let is_text = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace)
            && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        is_list && is_text && !self.composer.is_empty()
    }

    /// Handles a key that means the same everywhere. Returns `None` for any other key.
    fn key_for_all(&mut self, key: KeyEvent) -> Option<Vec<Action>> {
        let is_for_review = self.focus == Focus::Review;
        let completes = self.composer.has_completions() || self.composer.is_command();
        if key.code == KeyCode::Tab && !completes && !is_for_review {
            return Some(self.focus_on(next_focus(self.focus)));
        }
        if key.modifiers != KeyModifiers::CONTROL {
            return None;
        }
        let toggled = |focus: Focus, to: Focus| if focus == to { Focus::Conversation } else { to };
        let focus = match key.code {
            KeyCode::Char('t') => toggled(self.focus, Focus::Team),
            KeyCode::Char('k') => toggled(self.focus, Focus::Tasks),
            KeyCode::Char('l') => toggled(self.focus, Focus::Timeline),
            KeyCode::Char('r') if is_for_review => Focus::Conversation,
            KeyCode::Char('r') => return Some(self.open_review()),
            KeyCode::Char('o') => {
                self.toggle_length();
                return Some(Vec::new());
            }
            _ => return None,
        };
        Some(self.focus_on(focus))
    }

    /// Gives the keys to another part of the screen.
    pub(super) fn focus_on(&mut self, focus: Focus) -> Vec<Action> {
        self.focus = focus;
        self.writing = None;
        match focus {
            Focus::Timeline => vec![Action::ReadLog],
            Focus::Conversation | Focus::Team | Focus::Tasks | Focus::Review => Vec::new(),
        }
    }

    fn toggle_length(&mut self) {
        self.length = match self.length {
            Length::Short => Length::Whole,
            Length::Whole => Length::Short,
        };
        let length = self.length;
        self.lead.view().set_length(length);
        if let Some(peeked) = &mut self.peeked {
            peeked.view().set_length(length);
        }
    }

    /// Handles a key in the conversation: the permission request, the composer, and the scrolling.
    fn conversation_key(&mut self, key: KeyEvent, at: Instant) -> Vec<Action> {
        if matches!(self.stage, Stage::Over(_))
            && key.code == KeyCode::Enter
            && self.composer.is_empty()
        {
            return self.leave();
        }
        if key.code == KeyCode::Enter
            && self.composer.is_empty()
            && self.page.is_none()
            && let Some(actions) = self.view_completed()
        {
            return actions;
        }
        if self.refusing.is_some() && key.code == KeyCode::Enter && self.composer.is_empty() {
            return self.refuse("");
        }
        // With a typed text, each key belongs to the text.
        if self.refusing.is_none() && self.composer.is_empty() {
            let act = self.question.key(key, at);
            if let Some(actions) = self.asked(act) {
                return actions;
            }
            // A letter may be an answer. A blank begins a message and is no part of it.
            if key.code == KeyCode::Char(' ') && self.question.is_open() {
                self.composer.begin();
                return Vec::new();
            }
        }
        if self.page_key(key) {
            return Vec::new();
        }
        if key.code == KeyCode::Esc {
            return self.escape();
        }
        self.composer.know_agents(self.state.agents.iter().map(|agent| agent.name.as_str()));
        let act = self.composer.key(key);
        if act == ComposerAct::Ignored {
            self.scroll(key);
        }
        self.composed(act)
    }

    /// Handles the effect of a key on the permission request. Returns `None` if the key was not for
    /// it.
    pub(super) fn asked(&mut self, act: QuestionAct) -> Option<Vec<Action>> {
        match act {
            QuestionAct::None => return None,
            QuestionAct::Redraw => {}
            QuestionAct::Refused(why) => {
                self.problem(why);
                self.tells_unread = self.page.is_none() && self.question.is_unread();
            }
            QuestionAct::Again(what) => self.tell(what),
            QuestionAct::Answer(chosen) => {
                // A notice that an earlier key answered nothing is no longer true.
                self.notice = None;
                return Some(self.answer(chosen));
            }
            QuestionAct::Edit => {
                self.notice = None;
                self.refusing = self.questions.front().cloned();
            }
        }
        Some(Vec::new())
    }

    fn scroll(&mut self, key: KeyEvent) {
        let scroll = self.shown().view().scroll();
        match key.code {
            KeyCode::PageUp => scroll.page_up(),
            KeyCode::PageDown => scroll.page_down(),
            KeyCode::Up => scroll.up(1),
            KeyCode::Down => scroll.down(1),
            _ => {}
        }
    }

    pub(super) fn composed(&mut self, act: ComposerAct) -> Vec<Action> {
        match act {
            ComposerAct::Ignored | ComposerAct::Changed => Vec::new(),
            ComposerAct::Send(text) => self.submit(text),
            ComposerAct::ListFiles(prefix) => vec![Action::ListFiles(prefix)],
        }
    }

    /// Esc closes or cancels the innermost thing. If nothing is open, it interrupts the lead.
    fn escape(&mut self) -> Vec<Action> {
        if self.composer.close_completions() {
            return Vec::new();
        }
        if self.refusing.take().is_some() {
            self.composer.clear();
            self.tell("not answered");
            return Vec::new();
        }
        if self.peeked.is_some() && self.composer.is_empty() {
            self.peeked = None;
            return Vec::new();
        }
        let agent = self.receiver().clone();
        let is_active =
            self.state.agent(&agent).is_some_and(|agent| agent.status == Status::Active);
        if matches!(self.stage, Stage::Running) && is_active && self.composer.is_empty() {
            return vec![Action::Interrupt(agent)];
        }
        self.composer.clear();
        Vec::new()
    }

    fn panel(&mut self, act: PanelAct) -> Vec<Action> {
        match act {
            PanelAct::None | PanelAct::Redraw | PanelAct::Chosen(_) => Vec::new(),
            PanelAct::Peek(agent) | PanelAct::Message(agent) => self.peek(agent),
            PanelAct::OpenPane(agent) => vec![Action::Request(Request::ShowPane(agent))],
            PanelAct::Close => {
                self.focus = Focus::Conversation;
                Vec::new()
            }
        }
    }

    fn ctrl_c(&mut self) -> Vec<Action> {
        match self.leaving {
            // A third Ctrl-C leaves without an answer, and the team goes on.
            Leaving::Asked | Leaving::Ending(_) | Leaving::Stopping => {
                self.leaving = Leaving::Asked;
                self.leave()
            }
            Leaving::Pressed => self.leave(),
            Leaving::No => {
                self.composer.clear();
                self.leaving = Leaving::Pressed;
                Vec::new()
            }
        }
    }

    /// Handles the answer to the question what becomes of the team.
    fn leaving_key(&mut self, key: KeyEvent) -> Vec<Action> {
        match key.code {
            KeyCode::Char('l') | KeyCode::Enter => self.leave(),
            KeyCode::Char('s') => self.end_team(),
            KeyCode::Esc | KeyCode::Char('c') => {
                self.leaving = Leaving::No;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn next_focus(focus: Focus) -> Focus {
    let at = FOCUS_ORDER.iter().position(|other| *other == focus);
    let next = at.map_or(0, |at| (at + 1) % FOCUS_ORDER.len());
    FOCUS_ORDER.get(next).copied().unwrap_or(Focus::Conversation)
}
