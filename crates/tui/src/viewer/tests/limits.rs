//! What the display does not do, and streams that nobody should trust.

use super::*;

const ERRORS: &str =
    include_str!("../../../../../fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson");

#[test]
fn a_recorded_session_with_errors_is_shown_at_every_size() {
    let mut person = Person::watching(ERRORS);
    for focus in 1..=5 {
        person.types(&focus.to_string());
        for size in [SMALL, LARGE, (200, 60), (40, 10), (20, 4), (3, 2), (1, 1)] {
            person.sees(size);
        }
    }
    person.types("1");
    let screen = person.sees(SMALL);
    assert!(screen.contains("worker-2"), "{screen}");
    assert!(screen.contains("23 lines; more can come"), "{screen}");
}

#[test]
fn the_display_sends_nothing_and_says_so() {
    let mut person = Person::watching(LIFECYCLE);
    for focus in ["1", "2", "3", "5"] {
        person.types(focus);
        person.types("x");
        let screen = person.sees(SMALL);
        assert!(screen.contains("sends no messages and no answers; ? shows the keys"), "{screen}");
    }
    person.types("1om");
    person.gives(ViewerInput::Terminal(Event::Paste("hello".to_owned())));
    assert!(person.sees(SMALL).contains("? shows the keys"));
    assert_eq!(person.actions, []);
    person.types("?");
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew probe  1 asked to leave  not cleaned up  ended: success
     team-lead to @team (worker): greeting everyone
     Tab, Shift-Tab, 1 to 5  team, conversation, tasks, timeline, session
     Ctrl-T, Ctrl-K, Ctrl-L  team, tasks, timeline; again: the conversation
     Up, Down, j, k          scroll, or select; PageUp, PageDown, Home, End too
     Enter                   the agent's conversation, or the task's details
     f, /, o                 timeline: a kind of entries, a search, whole texts
     Ctrl-O                  long outputs whole, or their beginnings
     Esc                     back to the team
     Ctrl-Z                  suspend
     q, Ctrl-C               leave









    team not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use
    requestShutdown to gracefully terminate teammates first.
     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  29 lines; more can come                     ?: keys  q: leaves
    ");
    person.types("q");
    assert_eq!(person.actions, [ViewerAction::Leave]);
}

#[test]
fn a_search_of_the_timeline_gets_the_letters_that_are_keys_elsewhere() {
    let mut person = Person::watching(LIFECYCLE);
    person.types("4/qq?1");
    assert!(person.sees(SMALL).contains("/qq?1_"));
    assert_eq!(person.actions, []);
    person.presses(KeyCode::Esc);
    person.presses(KeyCode::Tab);
    person.presses(KeyCode::BackTab);
    assert!(person.sees(SMALL).contains("/: search"));
}

#[test]
fn lines_that_cannot_be_used_are_counted_on_the_screen() {
    let stream = format!(
        "{{\"type\":\"stream_event\"}}\nno json\n\0\0\0\n\u{fffd}\n{}",
        lines(&[said("Hello.")])
    );
    let mut person = Person::watching(&stream);
    person.gets(b"{\"type\":\"assi");
    person.ends(End::ForNow);
    let screen = person.sees(SMALL);
    assert!(screen.contains("5 lines, 1 unknown, 3 unreadable; the last line is not"), "{screen}");
    person.ends(End::Reached);
    let screen = person.sees(LARGE);
    let counted = "6 lines, 1 unknown, 3 unreadable, 1 incomplete; the stream has ended";
    assert!(screen.contains(counted), "{screen}");
}

#[test]
fn the_last_line_of_a_file_is_shown_before_its_line_break_comes() {
    let both = lines(&[said("first"), said("second")]);
    let mut person = Person::watching(both.trim_end());
    person.types("2");
    assert!(!person.sees(SMALL).contains("second"));
    person.ends(End::ForNow);
    assert!(person.sees(SMALL).contains("second"));
    person.gets(format!("\n{}", lines(&[said("third")])).as_bytes());
    let screen = person.sees(SMALL);
    assert!(screen.contains("third") && screen.contains("3 lines;"), "{screen}");
    assert_eq!(screen.matches("second").count(), 1, "{screen}");
}

#[test]
fn a_stream_that_cannot_be_read_any_more_says_why() {
    let mut person = Person::watching(LIFECYCLE);
    person.ends(End::Broken("the file was begun again\u{1b}[2J".to_owned()));
    let screen = person.sees(LARGE);
    assert!(screen.contains("29 lines; the file was begun again\u{fffd}[2J"), "{screen}");
}

#[test]
fn no_text_of_a_stream_controls_the_terminal() {
    let evil = "a\u{1b}[2J\u{7}\0\u{202e}b\u{9b}31m";
    let mut spawn = spawned("bob");
    let data = &mut spawn["tool_use_result"];
    (data["model"], data["agent_type"]) = (json!(evil), json!(evil));
    data["team_name"] = json!(evil);
    let call = json!({"type": "tool_use", "id": "c1", "name": evil, "input": {"command": evil}});
    let calls = json!({"type": "assistant", "message": {"content": [call]}});
    let end = json!({"type": "result", "subtype": evil, "result": evil, "modelUsage": {evil: {}}});
    let mut person = Person::watching(&lines(&[said(evil), spawn, calls, end]));
    for focus in 1..=5 {
        person.types(&focus.to_string());
        for size in [SMALL, LARGE] {
            let screen = person.sees(size);
            let is_bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!screen.contains(is_bad), "{screen:?}");
        }
    }
}

#[test]
fn a_long_conversation_keeps_its_latest_parts() {
    let mut person = Person::watching("");
    let text = "x".repeat(60_000);
    for n in 0..200 {
        person.gets(lines(&[said(&format!("number {n} {text}"))]).as_bytes());
    }
    person.types("2");
    person.sees(SMALL);
    let Feed::Stream(stream, _) = &person.viewer.feed else { panic!("a stream") };
    let (conversation, changes) = stream.conversation(&AgentName::lead()).unwrap();
    assert!(conversation.parts.len() < 40 && changes >= 200, "{}", conversation.parts.len());
    person.presses(KeyCode::Home);
    assert!(person.sees(SMALL).contains("earlier parts are not shown"));
}

#[test]
fn the_records_of_a_team_are_shown_with_the_conversation_that_is_read() {
    let mut recorded = Recorded::default();
    recorded.state.team = "work".to_owned();
    recorded.unread.push("the mail of bob cannot be read".to_owned());
    let (viewer, actions) = Viewer::of_records(ThemeKind::NoColor, "team work", recorded);
    assert_eq!(actions, [ViewerAction::Read(AgentName::lead())]);
    let mut person = Person { viewer, actions: Vec::new() };
    assert!(person.sees(SMALL).contains("the mail of bob cannot be read"));
    person.types("2");
    assert!(person.sees(SMALL).contains("No conversation is recorded."));
    let told = [json!({"seq": 1, "kind": "told", "text": "Mend the parser."}).to_string()];
    let conversation = Conversation::of_transcript(&told).ok();
    person.gives(ViewerInput::Read { agent: AgentName::lead(), conversation });
    assert!(person.sees(SMALL).contains("Mend the parser."));
    let other = AgentName::new("bob").unwrap();
    person.gives(ViewerInput::Read { agent: other, conversation: None });
    assert!(person.sees(SMALL).contains("Mend the parser."), "bob is not on the screen");
}
