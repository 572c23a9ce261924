//! The review of the team's changes as a part of the application: what its keys ask for, and the
//! texts that the user types in it.

use crossterm::event::{KeyCode, KeyEvent};
use pitcrew_protocol::AgentName;
use pitcrew_view::changes::{MemberChanges, Merged, Versions};

use super::{Action, App, Focus};
use crate::review::{ReviewAct, ReviewView};

impl App {
    /// Opens the review as soon as the changes were read.
    pub(super) fn open_review(&mut self) -> Vec<Action> {
        if self.team.is_none() {
            self.problem("there is no team yet, so there is nothing to review");
            return Vec::new();
        }
        vec![Action::ReadChanges]
    }

    pub(super) fn changes_read(
        &mut self,
        result: Result<Vec<MemberChanges>, String>,
    ) -> Vec<Action> {
        match result {
            Ok(all) => {
                self.review = ReviewView::new(all);
                self.writing = None;
                self.focus = Focus::Review;
                self.read_versions()
            }
            Err(reason) => {
                self.problem(format!("the changes are not known: {reason}"));
                Vec::new()
            }
        }
    }

    pub(super) fn versions_read(
        &mut self,
        author: &AgentName,
        file: &str,
        result: Result<Versions, String>,
    ) -> Vec<Action> {
        self.review.loaded(author, file, result);
        Vec::new()
    }

    /// Shows the result of a merge. After a merge, the changes are read again.
    pub(super) fn merged(
        &mut self,
        author: &AgentName,
        result: Result<Merged, String>,
    ) -> Vec<Action> {
        match result {
            Ok(Merged::Done { base }) => {
                self.tell(format!("{base} has the work of {author} now"));
                vec![Action::ReadChanges]
            }
            Ok(Merged::Refused { why: reason }) | Err(reason) => {
                self.problem(format!("not merged: {reason}"));
                Vec::new()
            }
        }
    }

    /// Handles a key while the review has the focus.
    pub(super) fn review_key(&mut self, key: KeyEvent) -> Vec<Action> {
        if self.writing.is_none() {
            let act = self.review.key(key);
            if matches!(act, ReviewAct::None) {
                self.answers_elsewhere(key);
            }
            return self.reviewed(act);
        }
        if key.code == KeyCode::Esc && !self.composer.close_completions() {
            self.composer.clear();
            return self.write_review("");
        }
        let act = self.composer.key(key);
        self.composed(act)
    }

    /// Takes the text that the user typed for the review.
    pub(super) fn write_review(&mut self, text: &str) -> Vec<Action> {
        self.writing = None;
        self.composer.clear();
        let act = self.review.written(text);
        self.reviewed(act)
    }

    fn reviewed(&mut self, act: ReviewAct) -> Vec<Action> {
        match act {
            ReviewAct::None | ReviewAct::Redraw => {}
            ReviewAct::Refused(why) => self.problem(why),
            ReviewAct::Load => return self.read_versions(),
            ReviewAct::Write(_) if !self.composer.is_empty() => {
                self.problem("the line of input has a text; send it or clear it first");
            }
            ReviewAct::Write(what) => self.writing = Some(what),
            ReviewAct::Send { to, text } => {
                self.tell(format!("{to} gets it as a message from you"));
                return vec![Action::Send { to, text }];
            }
            ReviewAct::Accept(changes) => return vec![Action::Merge(changes)],
            ReviewAct::Close => self.focus = Focus::Conversation,
        }
        Vec::new()
    }

    /// Reads both versions of the file on the screen, if they are not known yet.
    fn read_versions(&self) -> Vec<Action> {
        let wanted = self.review.wanted().map(|(changes, file)| Action::ReadVersions {
            changes: Box::new(changes.clone()),
            file: file.to_owned(),
        });
        wanted.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crossterm::event::{Event, KeyModifiers};
    use pitcrew_view::changes::{BranchState, FileText};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::app::{CanStart, Done, Input};
    use crate::theme::ThemeKind;

    fn bob() -> MemberChanges {
        let branch = BranchState {
            branch: "pitcrew/work/bob".to_owned(),
            tip: "c0ffee".to_owned(),
            base: "main".to_owned(),
            ahead: 1,
            behind: 0,
            files: ["a.rs".to_owned()].into(),
            uncommitted: [].into(),
            has_more_files: false,
        };
        MemberChanges {
            author: AgentName::new("bob").unwrap(),
            color: None,
            repository: Some("/work".into()),
            folder: "/trees/bob".into(),
            branch: Some(branch),
            files: vec!["a.rs".to_owned()],
            failure: None,
        }
    }

    fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Vec<Action> {
        let key = Event::Key(KeyEvent::new(code, modifiers));
        app.handle(Input::Terminal(key, Instant::now()))
    }

    fn key(app: &mut App, code: KeyCode) -> Vec<Action> {
        press(app, code, KeyModifiers::NONE)
    }

    fn screen(app: &mut App) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| app.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    /// Opens the review of bob's changes, with both versions of his file.
    fn reviewing() -> App {
        let mut app = App::new(ThemeKind::NoColor, Some("work".to_owned()), CanStart::No);
        let asked = press(&mut app, KeyCode::Char('r'), KeyModifiers::CONTROL);
        assert!(matches!(asked.as_slice(), [Action::ReadChanges]), "{asked:?}");
        let asked = app.handle(Input::Done(Done::Changes(Ok(vec![bob()]))));
        assert!(matches!(asked.as_slice(), [Action::ReadVersions { .. }]), "{asked:?}");
        let [before, after] = ["one\n", "two\n"].map(|text| FileText::Text(text.to_owned()));
        let done = Done::Versions {
            author: bob().author,
            file: "a.rs".to_owned(),
            result: Ok(Versions { before, after }),
        };
        assert!(app.handle(Input::Done(done)).is_empty());
        app
    }

    #[test]
    fn a_comment_in_the_review_goes_to_the_author_and_esc_takes_it_back() {
        let mut app = reviewing();
        let shown = screen(&mut app);
        assert!(shown.contains("1 - one") && shown.contains("1 + two"), "{shown}");
        key(&mut app, KeyCode::Char('c'));
        assert!(screen(&mut app).contains("comment for bob on a.rs, line 1"));
        for c in "why?".chars() {
            assert!(key(&mut app, KeyCode::Char(c)).is_empty());
        }
        let sent = key(&mut app, KeyCode::Enter);
        let [Action::Send { to, text }] = sent.as_slice() else { panic!("{sent:?}") };
        assert_eq!((to.as_str(), text.ends_with("\n\nwhy?")), ("bob", true), "{text}");
        key(&mut app, KeyCode::Char('c'));
        key(&mut app, KeyCode::Char('x'));
        assert!(key(&mut app, KeyCode::Esc).is_empty());
        assert!(screen(&mut app).contains("nothing was sent"));
        key(&mut app, KeyCode::Esc);
        assert!(!screen(&mut app).contains("1 + two"), "the review is closed");
    }

    #[test]
    fn accepted_work_is_merged_and_the_changes_are_read_again() {
        let mut app = reviewing();
        assert!(key(&mut app, KeyCode::Char('a')).is_empty());
        let merges = key(&mut app, KeyCode::Char('a'));
        let [Action::Merge(changes)] = merges.as_slice() else { panic!("{merges:?}") };
        assert_eq!(**changes, bob());
        let (author, base) = (bob().author, "main".to_owned());
        let done = Done::Merged { author: author.clone(), result: Ok(Merged::Done { base }) };
        let asked = app.handle(Input::Done(done));
        assert!(matches!(asked.as_slice(), [Action::ReadChanges]), "{asked:?}");
        assert!(screen(&mut app).contains("main has the work of bob now"));
        let why = "bob must merge main first".to_owned();
        let done = Done::Merged { author, result: Ok(Merged::Refused { why }) };
        assert!(app.handle(Input::Done(done)).is_empty());
        assert!(screen(&mut app).contains("not merged: bob must merge main first"));
    }
}
