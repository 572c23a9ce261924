use crossterm::event::KeyCode;
use insta::assert_snapshot;
use pitcrew_view::state::{Happened, Route};
use serde_json::json;

use super::*;
use crate::panels::sample::{happened, key, mail, name, screen, session, team};
use crate::theme::{Theme, ThemeKind};

fn drawn(view: &mut TimelineView, size: (u16, u16), state: &TeamState) -> String {
    let theme = Theme::new(ThemeKind::Dark);
    screen(size, |frame, area| view.draw(frame, area, state, &theme, true))
}

fn keys(view: &mut TimelineView, text: &str) {
    for c in text.chars() {
        view.key(key(KeyCode::Char(c)));
    }
}

/// A team whose timeline has `count` numbered messages of bob to the lead.
fn numbered(count: usize) -> TeamState {
    let to = Route::Agent(name("team-lead"));
    happened(team(), (0..count).map(|n| mail("bob", to.clone(), &format!("message {n}."))))
}

#[test]
fn the_timeline_shows_mail_tasks_and_agents_in_order() {
    let state = happened(team(), session());
    assert_snapshot!(drawn(&mut TimelineView::new(), (80, 24), &state), @"
    timeline ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    agent  team crew created
    agent  ann started (general-purpose, haiku)
    agent  bob started (general-purpose, haiku)
    mail   team-lead to team (ann, bob): Please begin.
    task   bob: task #2 in progress
    text   bob: I read the parser first.
    mail   bob to team-lead: Found it
    mail   team-lead to ann, shutdown request
    agent  session ended: success













    /: search  f: mail  o: whole texts
    ");
}

#[test]
fn the_log_of_a_team_of_pitcrew_is_shown_with_clock_times() {
    let entry =
        |minute: i64, kind: &str, agent: Option<&str>, text: &str, content: Option<&str>| {
            let at_ms = 1_795_168_800_000 + minute * 60_000;
            let entry = json!({
                "at_ms": at_ms, "kind": kind, "event": "e", "agent": agent, "to": ["ann"],
                "text": text, "content": content,
            });
            Happened::Logged(serde_json::from_value(entry).unwrap())
        };
    let entries = [
        entry(0, "run", None, "the run starts: mend it", None),
        entry(1, "mail", Some("bob"), "writes to ann: look", Some("look\nat the parser")),
        entry(61, "permission", Some("bob"), "asks permission for Bash", None),
        entry(62, "task", Some("a\u{1b}[2J"), "claims task #1", None),
    ];
    let state = happened(team(), entries);
    let mut view = TimelineView::new();
    keys(&mut view, "o");
    assert_snapshot!(drawn(&mut view, (60, 8), &state), @"
    timeline ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    agent  10:00 the run starts: mend it
    mail   10:01 bob writes to ann
      look
      at the parser
    ask    11:01 bob asks permission for Bash
    task   11:02 a�[2J claims task #1
    /: search  f: mail  o: short texts
    ");
    keys(&mut view, "/@ann parser");
    let found = drawn(&mut view, (60, 8), &state);
    assert!(found.contains("at the parser") && !found.contains("asks permission"), "{found}");
}

#[test]
fn whole_texts_are_opened_and_folded_by_key() {
    let state = happened(team(), session());
    let mut view = TimelineView::new();
    assert_eq!(view.key(key(KeyCode::Char('o'))), PanelAct::Redraw);
    assert_snapshot!(drawn(&mut view, (40, 24), &state), @"
    timeline ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    team crew created
    ann started (general-purpose, haiku)
    bob started (general-purpose, haiku)
    team-lead to team (ann, bob):
      Please begin.
    bob: task #2 in progress
    bob: I read the parser first.
    bob to team-lead: Found it
      I found it: the loop ends one line too
      early.
      The test is in parser.rs.�[2J
    team-lead to ann, shutdown request
    session ended: success









    /: search  f: mail  o: short texts
    ");
    view.key(key(KeyCode::Char('o')));
    assert!(!drawn(&mut view, (40, 24), &state).contains("parser.rs"));
}

#[test]
fn a_filter_shows_one_kind_and_a_search_finds_words_and_agents() {
    let state = happened(team(), session());
    let mut view = TimelineView::new();
    keys(&mut view, "f");
    assert_snapshot!(drawn(&mut view, (60, 8), &state), @"
    timeline  mail ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    mail   team-lead to team (ann, bob): Please begin.
    mail   bob to team-lead: Found it
    mail   team-lead to ann, shutdown request



    /: search  f: tasks  o: whole texts
    ");
    keys(&mut view, "/@bob EARLY");
    assert!(view.is_searching());
    assert_snapshot!(drawn(&mut view, (60, 8), &state), @"
    timeline  mail: @bob EARLY ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    mail   bob to team-lead: Found it





    /@bob EARLY_
    ");
    keys(&mut view, "x");
    assert!(drawn(&mut view, (60, 8), &state).contains("nothing found"));
    assert_eq!(view.key(key(KeyCode::Esc)), PanelAct::Redraw);
    assert!(drawn(&mut view, (60, 8), &state).contains("Please begin."));
    assert_eq!(view.key(key(KeyCode::Esc)), PanelAct::Redraw, "the kind is reset too");
    assert_eq!(view.key(key(KeyCode::Esc)), PanelAct::Close);
}

#[test]
fn a_timeline_at_its_end_follows_and_another_one_stays() {
    let mut view = TimelineView::new();
    drawn(&mut view, (60, 10), &numbered(100));
    assert!(drawn(&mut view, (60, 10), &numbered(101)).contains("message 100."));
    view.key(key(KeyCode::PageUp));
    let before = drawn(&mut view, (60, 10), &numbered(101));
    assert!(before.contains("(End follows it)") && !before.contains("message 100."), "{before}");
    assert_eq!(drawn(&mut view, (60, 10), &numbered(150)), before);
    view.key(key(KeyCode::End));
    assert!(drawn(&mut view, (60, 10), &numbered(150)).contains("message 149."));
    view.key(key(KeyCode::Home));
    assert!(drawn(&mut view, (60, 10), &numbered(150)).contains("message 0."));
}

#[test]
fn a_filtered_timeline_stays_where_it_is_while_others_write() {
    let state = numbered(40);
    let mut view = TimelineView::new();
    keys(&mut view, "/@bob");
    drawn(&mut view, (60, 10), &state);
    view.key(key(KeyCode::PageUp));
    let before = drawn(&mut view, (60, 10), &state);
    let to = Route::Agent(name("ann"));
    let others = (0..30).map(|_| mail("carl", to.clone(), "for ann"));
    let state = happened(state, others);
    assert_eq!(drawn(&mut view, (60, 10), &state), before);
    let state = happened(state, [mail("bob", to, "one more")]);
    assert_eq!(drawn(&mut view, (60, 10), &state), before);
    view.key(key(KeyCode::End));
    let end = drawn(&mut view, (60, 10), &state);
    assert!(end.contains("one more") && !end.contains("for ann"), "{end}");
}

#[test]
fn entries_that_left_the_timeline_are_gone_from_the_screen() {
    let most = pitcrew_view::state::Timeline::ENTRIES_MOST;
    let state = numbered(most);
    let mut view = TimelineView::new();
    drawn(&mut view, (60, 10), &state);
    view.key(key(KeyCode::Home));
    assert!(drawn(&mut view, (60, 10), &state).contains("message 0."));
    let said = |n| Happened::Said { agent: name("ann"), text: format!("text {n}") };
    let state = happened(state, (0..50).map(said));
    let shown = drawn(&mut view, (60, 10), &state);
    assert!(shown.contains("message 50.") && !shown.contains("message 49."), "{shown}");
}

#[test]
fn the_timeline_of_another_run_begins_at_its_end() {
    let mut view = TimelineView::new();
    drawn(&mut view, (60, 10), &numbered(100));
    view.key(key(KeyCode::Home));
    drawn(&mut view, (60, 10), &numbered(100));
    let other = happened(team(), session());
    assert!(drawn(&mut view, (60, 10), &other).contains("session ended: success"));
}

#[test]
fn a_drawing_looks_only_at_the_entries_that_it_needs() {
    let state = numbered(10_000);
    let mut view = TimelineView::new();
    drawn(&mut view, (60, 10), &state);
    assert!(view.matches.count() < 20, "{}", view.matches.count());
    keys(&mut view, "/mess");
    drawn(&mut view, (60, 10), &state);
    assert!(view.matches.count() < 20, "{}", view.matches.count());
}

#[test]
fn a_tiny_area_and_an_empty_timeline_are_drawn_too() {
    let state = happened(team(), session());
    for size in [(1, 1), (2, 2), (7, 3), (80, 1)] {
        let mut view = TimelineView::new();
        drawn(&mut view, size, &state);
        keys(&mut view, "o");
        drawn(&mut view, size, &state);
    }
    assert!(drawn(&mut TimelineView::new(), (40, 5), &team()).contains("nothing happened yet"));
}
