//! Tests for the review.

use std::collections::BTreeSet;

use pitcrew_protocol::Color;
use pitcrew_view::changes::BranchState;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::theme::ThemeKind;

fn names(files: &[&str]) -> BTreeSet<String> {
    files.iter().map(|file| (*file).to_owned()).collect()
}

fn bob() -> MemberChanges {
    let branch = BranchState {
        branch: "pitcrew/probe/bob".to_owned(),
        tip: "c0ffee".to_owned(),
        base: "main".to_owned(),
        ahead: 2,
        behind: 1,
        files: names(&["a.rs", "b.rs"]),
        uncommitted: names(&["b.rs"]),
        has_more_files: false,
    };
    MemberChanges {
        author: AgentName::new("bob").unwrap(),
        color: Some(Color::Blue),
        repository: Some("/work".into()),
        folder: "/trees/bob".into(),
        branch: Some(branch),
        files: vec!["a.rs".to_owned(), "b.rs".to_owned()],
        failure: None,
    }
}

fn lead() -> MemberChanges {
    MemberChanges {
        author: AgentName::new("team-lead").unwrap(),
        color: None,
        repository: Some("/work".into()),
        folder: "/work".into(),
        branch: None,
        files: vec!["notes.md".to_owned()],
        failure: None,
    }
}

fn versions(before: &str, after: &str) -> Versions {
    let text = |text: &str| FileText::Text(text.to_owned());
    Versions { before: text(before), after: text(after) }
}

/// A review on a screen.
struct Screen {
    view: ReviewView,
    terminal: Terminal<TestBackend>,
}

impl Screen {
    fn new(all: Vec<MemberChanges>) -> Self {
        let terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
        Self { view: ReviewView::new(all), terminal }
    }

    /// Gives the view the versions of the file that it wants.
    fn load(&mut self, before: &str, after: &str) {
        let (changes, file) = self.view.wanted().unwrap();
        let (author, file) = (changes.author.clone(), file.to_owned());
        self.view.loaded(&author, &file, Ok(versions(before, after)));
        self.draw();
    }

    fn draw(&mut self) -> String {
        let theme = Theme::new(ThemeKind::Dark);
        let view = &mut self.view;
        let drawn = self.terminal.draw(|frame| view.draw(frame, frame.area(), &theme)).unwrap();
        let rows = drawn.buffer.content.chunks(usize::from(drawn.buffer.area.width));
        let row = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            text.trim_end().to_owned()
        };
        rows.map(row).collect::<Vec<_>>().join("\n")
    }

    fn key(&mut self, code: KeyCode) -> ReviewAct {
        let act = self.view.key(KeyEvent::new(code, KeyModifiers::NONE));
        self.draw();
        act
    }
}

#[test]
fn the_changes_of_a_member_are_a_diff_with_the_state_of_its_branch() {
    let mut screen = Screen::new(vec![bob(), lead()]);
    screen.load("fn a() {\n    1\n}\n", "fn a() {\n    2\n}\n");
    insta::assert_snapshot!(screen.draw(), @r"
    bob (1 of 2)  pitcrew/probe/bob: 2 commits ahead of main, 1 behind, 1 file is
    not committed
    a.rs (1 of 2)
    1   fn a() {
    2 -     1
    2 +     2
    3   }




    [c] comment  [x] send back  [a] accept  [←→] file  [Tab] member  [Esc] close
    ");
}

#[test]
fn a_list_of_files_that_is_not_whole_says_so() {
    let mut many = bob();
    many.branch.as_mut().unwrap().has_more_files = true;
    let shown = Screen::new(vec![many]).draw();
    assert!(shown.contains("only 2 changed files can be listed here"), "{shown}");
}

#[test]
fn a_comment_on_a_line_becomes_a_message_to_its_author() {
    let mut screen = Screen::new(vec![bob()]);
    screen.load("fn a() {\n    1\n}\n", "fn a() {\n    2\n}\n");
    screen.key(KeyCode::Down);
    screen.key(KeyCode::Down);
    let act = screen.key(KeyCode::Char('c'));
    assert_eq!(act, ReviewAct::Write("comment for bob on a.rs, line 2".to_owned()));
    let act = screen.view.written("why 2?\n");
    let text = "Review of a.rs, line 2:\n> +     2\n\nwhy 2?".to_owned();
    assert_eq!(act, ReviewAct::Send { to: AgentName::new("bob").unwrap(), text });
    assert_eq!(screen.view.written("again"), ReviewAct::None);
    screen.key(KeyCode::Char('x'));
    let ReviewAct::Send { text, .. } = screen.view.written("tests are missing") else {
        panic!("nothing is sent")
    };
    assert_eq!(text, "Your changes were reviewed and need more work:\n\ntests are missing");
    screen.key(KeyCode::Char('x'));
    assert!(matches!(screen.view.written("  "), ReviewAct::Refused(_)));
}

#[test]
fn changes_are_merged_only_after_a_second_key() {
    let mut screen = Screen::new(vec![bob(), lead()]);
    assert_eq!(screen.key(KeyCode::Char('a')), ReviewAct::Redraw);
    assert!(screen.draw().contains("a again merges pitcrew/probe/bob into main"));
    assert_eq!(screen.key(KeyCode::Down), ReviewAct::Redraw);
    assert_eq!(screen.key(KeyCode::Char('a')), ReviewAct::Redraw);
    assert_eq!(screen.key(KeyCode::Char('a')), ReviewAct::Accept(Box::new(bob())));
    assert_eq!(screen.key(KeyCode::Tab), ReviewAct::Load);
    let ReviewAct::Refused(why) = screen.key(KeyCode::Char('a')) else { panic!("accepted") };
    assert_eq!(why, "team-lead has no worktree: its files are in the folder already");
}

#[test]
fn files_and_members_are_opened_one_after_the_other() {
    let mut screen = Screen::new(vec![bob(), lead()]);
    screen.load("", "a\n");
    assert_eq!(screen.key(KeyCode::Right), ReviewAct::Load);
    let wanted = |screen: &Screen| {
        screen.view.wanted().map(|(changes, file)| format!("{} {file}", changes.author))
    };
    assert_eq!(wanted(&screen).as_deref(), Some("bob b.rs"));
    let bob = AgentName::new("bob").unwrap();
    screen.view.loaded(&bob, "a.rs", Ok(versions("", "late\n")));
    assert!(!screen.draw().contains("late"), "the versions of another file are dropped");
    screen.view.loaded(&bob, "b.rs", Err("git is missing".to_owned()));
    assert!(screen.draw().contains("the file cannot be read: git is missing"));
    assert_eq!(screen.key(KeyCode::Tab), ReviewAct::Load);
    assert_eq!(wanted(&screen).as_deref(), Some("team-lead notes.md"));
    let not_shown = FileText::NotShown("it is no text".to_owned());
    let versions = Versions { before: FileText::Missing, after: not_shown };
    screen.view.loaded(&AgentName::new("team-lead").unwrap(), "notes.md", Ok(versions));
    assert!(screen.draw().contains("after the change: it is no text"));
    assert_eq!(screen.key(KeyCode::BackTab), ReviewAct::Load);
    assert_eq!(wanted(&screen).as_deref(), Some("bob a.rs"));
    assert_eq!(screen.key(KeyCode::Esc), ReviewAct::Close);
}

#[test]
fn the_selected_row_stays_on_the_screen() {
    let mut screen = Screen::new(vec![lead()]);
    let text: String = (1..=100).map(|number| format!("line {number}\n")).collect();
    screen.load("", &text);
    screen.key(KeyCode::End);
    assert!(screen.draw().contains("line 100"));
    for _ in 0..50 {
        screen.key(KeyCode::Up);
    }
    assert!(screen.draw().contains("line 50"));
    screen.key(KeyCode::Home);
    assert!(screen.draw().contains("  1 + line 1\n"));
    assert_eq!(screen.key(KeyCode::Char('z')), ReviewAct::None);
}

#[test]
fn without_changes_the_review_says_so() {
    let mut screen = Screen::new(Vec::new());
    assert!(screen.draw().contains("nobody has changed a file yet"));
    for code in [KeyCode::Char('a'), KeyCode::Char('c'), KeyCode::Char('x')] {
        assert_eq!(screen.key(code), ReviewAct::None);
    }
    for code in [KeyCode::Tab, KeyCode::Right, KeyCode::End] {
        assert_eq!(screen.key(code), ReviewAct::Redraw);
    }
}
