//! The display as a person sees it: the five scenarios of the stream document on its examples and on
//! a recorded stream.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use insta::assert_snapshot;
use pitcrew_protocol::Color;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::*;

mod limits;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

const GUIDE: &str = include_str!("../../../view/tests/it/recordings/stream-guide.ndjson");
const LIFECYCLE: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");

/// A person who watches a stream, and what the display asked for.
struct Person {
    viewer: Viewer,
    actions: Vec<ViewerAction>,
}

impl Person {
    fn watching(stream: &str) -> Self {
        let viewer = Viewer::of_stream(ThemeKind::NoColor, "session.ndjson");
        let mut person = Self { viewer, actions: Vec::new() };
        person.gets(stream.as_bytes());
        person
    }

    /// A person who watches the first examples of the stream document.
    fn watching_guide(lines: usize) -> Self {
        let first = GUIDE.lines().take(lines).map(|line| format!("{line}\n"));
        Self::watching(&first.collect::<String>())
    }

    fn gives(&mut self, input: ViewerInput) {
        let actions = self.viewer.handle(input);
        self.actions.extend(actions);
    }

    fn gets(&mut self, bytes: &[u8]) {
        self.gives(ViewerInput::Bytes(bytes.to_vec()));
    }

    fn ends(&mut self, end: End) {
        self.gives(ViewerInput::Ended(end));
    }

    fn presses(&mut self, code: KeyCode) {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        self.gives(ViewerInput::Terminal(Event::Key(key)));
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|c| self.presses(KeyCode::Char(c)));
    }

    fn sees(&mut self, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| self.viewer.draw(frame)).unwrap();
        let screen = terminal.backend().to_string();
        let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn said(text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": content}})
}

fn spawned(agent: &str) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": "c", "content": "done"}]);
    let data =
        json!({"status": "teammate_spawned", "teammate_id": format!("{agent}@t"), "color": "red"});
    json!({"type": "user", "message": {"role": "user", "content": content}, "tool_use_result": data})
}

#[test]
fn a_spawn_makes_a_card_with_color_model_and_type() {
    let mut person = Person::watching_guide(4);
    person.presses(KeyCode::Down);
    person.sees(SMALL);
    person.presses(KeyCode::Down);
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew codebase-gap-analysis  2 working
    team  2 working ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    working (2)
    * team-lead     thinks                                               -         -
    * swift-expert  thinks                                               -         -









    Enter: conversation
    swift-expert ───────────────────────────────────────────────────────────────────
    state  thinks
    type   general-purpose, blue
    model  claude-opus-4-6
    mode   default
    task   -
    used   nothing is known
     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  4 lines; more can come                      ?: keys  q: leaves
    ");
    assert_snapshot!(person.sees(LARGE), @r"
     pitcrew codebase-gap-analysis  2 working
     team-lead ──────────────────────────────────────────────────────────────── team  2 working ━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ● Teammate                                                                  working (2)
      operation: spawnTeam                                                      * team-lead    thinks
      team_name: codebase-gap-analysis                                          * swift-expe…  thinks
      description: Analyze Swift/Rust codebase for implementation gaps and
        missing features
      agent_type: architect
      └ Team created.

    ● Task swift-expert: SwiftUI expert gap analysis
      prompt: You are a **Senior SwiftUI Expert** ...
      subagent_type: general-purpose
      team_name: codebase-gap-analysis
      run_in_background: true
      max_turns: 60
      └ Spawned successfully.













                                                                                Enter: conversation
                                                                                swift-expert ───────────────────────────────
                                                                                state  thinks
                                                                                type   general-purpose, blue
                                                                                model  claude-opus-4-6
                                                                                mode   default
                                                                                task   -
                                                                                used   nothing is known
     read-only: it sends no messages and no answers ────────────────────────────────────────────────────────────────────────
     session.ndjson  4 lines; more can come                                                              ?: keys  q: leaves
    ");
}

#[test]
fn the_name_of_an_agent_has_its_color() {
    let mut viewer = Viewer::of_stream(ThemeKind::Dark, "s");
    let _none = viewer.handle(ViewerInput::Bytes(lines(&[spawned("bob")]).into_bytes()));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| viewer.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let red = Theme::new(ThemeKind::Dark).agent(Some(Color::Red)).fg;
    let reds = buffer.content().iter().filter(|cell| Some(cell.fg) == red);
    let shown: String = reds.map(|cell| cell.symbol()).collect();
    assert!(shown.contains("bob"), "{shown}");
}

#[test]
fn a_broadcast_is_shown_to_the_whole_team_with_its_recipients() {
    let mut person = Person::watching_guide(8);
    person.types("4");
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew codebase-gap-analysis  2 working
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to fil…
    timeline ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    agent  team codebase-gap-analysis created
    agent  swift-expert started (general-purpose, claude-opus-4-6)
    mail   team-lead to swift-expert: Requesting Swift analysis report
    mail   team-lead to team (swift-expert, rust-expert): URGENT: Write findings to…














    /: search  f: mail  o: whole texts
     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  8 lines; more can come                      ?: keys  q: leaves
    ");
    assert_snapshot!(person.sees(LARGE), @r"
     pitcrew codebase-gap-analysis  2 working
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to file now
     team-lead ──────────────────────────────────────────────────────────────── timeline ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    ● Teammate                                                                  team codebase-gap-analysis created
      operation: spawnTeam                                                      swift-expert started (general-purpose, clau…
      team_name: codebase-gap-analysis                                          team-lead to swift-expert: Requesting Swift…
      description: Analyze Swift/Rust codebase for implementation gaps and      team-lead to team (swift-expert, rust-expert
        missing features
      agent_type: architect
      └ Team created.

    ● Task swift-expert: SwiftUI expert gap analysis
      prompt: You are a **Senior SwiftUI Expert** ...
      subagent_type: general-purpose
      team_name: codebase-gap-analysis
      run_in_background: true
      max_turns: 60
      └ Spawned successfully.

    ● SendMessage
      type: message
      recipient: swift-expert
      content: Please wrap up your analysis...
      summary: Requesting Swift analysis report
      └ Message sent.

    ● SendMessage
      type: broadcast
      content: URGENT: Please immediately send me whatever findings you have
        so far...
      summary: URGENT: Write findings to file now
      └ Broadcast sent.





                                                                                /: search  f: mail  o: whole texts
     read-only: it sends no messages and no answers ────────────────────────────────────────────────────────────────────────
     session.ndjson  8 lines; more can come                                                              ?: keys  q: leaves
    ");
}

#[test]
fn a_message_is_in_the_conversation_of_its_receiver() {
    let mut person = Person::watching_guide(8);
    person.sees(SMALL);
    person.presses(KeyCode::Down);
    person.presses(KeyCode::Enter);
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew codebase-gap-analysis  2 working
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to fil…
     swift-expert ──────────────────────────────────────────────────────────────────
    team-lead:
      You are a **Senior SwiftUI Expert** ...

    team-lead:
      Please wrap up your analysis...

    team-lead:
      URGENT: Please immediately send me whatever findings you have so far...











     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  8 lines; more can come                      ?: keys  q: leaves
    ");
}

#[test]
fn the_acknowledgement_of_a_shutdown_request_changes_the_card() {
    assert!(!Person::watching_guide(9).sees(SMALL).contains("shutting down"));
    let mut person = Person::watching_guide(10);
    for size in [SMALL, LARGE] {
        let screen = person.sees(size);
        assert!(screen.contains("* swift-exp"), "{screen}");
        assert!(screen.contains("  shutting down"), "{screen}");
    }
}

#[test]
fn a_failed_cleanup_shows_its_error_and_a_successful_one_ends_the_team() {
    let mut person = Person::watching_guide(11);
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew codebase-gap-analysis  1 working, 1 asked to leave  not cleaned up
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to fil…
    team  2 working ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    working (2)
    * team-lead     thinks                                               -         -
    * swift-expert  shutting down                                        -         -






    Enter: conversation
    team-lead ──────────────────────────────────────────────────────────────────────
    state  thinks
    type   -
    model  -
    mode   -
    task   -
    used   5 turns, 5 calls
    team not cleaned up: Cannot cleanup team with 2 active member(s): swift-expert,
    rust-expert. Use requestShutdown to gracefully terminate teammates first.
     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  11 lines; more can come                     ?: keys  q: leaves
    ");
    let large = person.sees(LARGE);
    assert!(large.contains("not cleaned up") && large.contains("gracefully terminate"), "{large}");
    let mut person = Person::watching_guide(12);
    for size in [SMALL, LARGE] {
        let screen = person.sees(size);
        assert!(screen.lines().next().unwrap().contains("cleaned_up"), "{screen}");
        assert!(!screen.contains("not cleaned up"), "{screen}");
    }
}

#[test]
fn the_result_is_the_summary_of_the_session_by_model() {
    let mut person = Person::watching_guide(13);
    person.ends(End::Reached);
    person.types("5");
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew codebase-gap-analysis  cleaned_up  ended: success
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to fil…
    session ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    team cleaned_up
    success, lasted 10.7 s, model calls 20 min 4 s, 2 turns, $8.56
    claude-haiku-4-5-20251001                                                  $0.16
      25.1k in, 5.6k out, 412.7k from the cache, 52.6k into it
    claude-opus-4-6                                                            $8.40
      793 in, 55.7k out, 6.9M from the cache, 565.4k into it

    Team cleaned up. The complete analysis is in the report above...











     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  13 lines; the stream has ended              ?: keys  q: leaves
    ");
    assert_snapshot!(person.sees(LARGE), @r"
     pitcrew codebase-gap-analysis  cleaned_up  ended: success
     team-lead to @team (swift-expert, rust-expert): URGENT: Write findings to file now
     team-lead ──────────────────────────────────────────────────────────────── session ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        missing features                                                        team cleaned_up
      agent_type: architect                                                     success, lasted 10.7 s, model calls 20 min 4
      └ Team created.                                                           s, 2 turns, $8.56
                                                                                claude-haiku-4-5-20251001              $0.16
    ● Task swift-expert: SwiftUI expert gap analysis                              25.1k in, 5.6k out, 412.7k from the cache,
      prompt: You are a **Senior SwiftUI Expert** ...                             52.6k into it
      subagent_type: general-purpose                                            claude-opus-4-6                        $8.40
      team_name: codebase-gap-analysis                                            793 in, 55.7k out, 6.9M from the cache,
      run_in_background: true                                                     565.4k into it
      max_turns: 60
      └ Spawned successfully.                                                   Team cleaned up. The complete analysis is in
                                                                                the report above...
    ● SendMessage
      type: message
      recipient: swift-expert
      content: Please wrap up your analysis...
      summary: Requesting Swift analysis report
      └ Message sent.

    ● SendMessage
      type: broadcast
      content: URGENT: Please immediately send me whatever findings you have
        so far...
      summary: URGENT: Write findings to file now
      └ Broadcast sent.

    ● SendMessage
      type: shutdown_request
      recipient: swift-expert
      content: Analysis complete, thank you for the thorough report. Shutting
         down.
      └ Shutdown request sent.

    the session ended: success

     read-only: it sends no messages and no answers ────────────────────────────────────────────────────────────────────────
     session.ndjson  13 lines; the stream has ended                                                      ?: keys  q: leaves
    ");
}

#[test]
fn a_recorded_session_is_read_from_its_first_call_to_its_end() {
    let mut person = Person::watching(LIFECYCLE);
    person.types("2");
    assert_snapshot!(person.sees(SMALL), @r#"
     pitcrew probe  1 asked to leave  not cleaned up  ended: success
     team-lead to @team (worker): greeting everyone
     team-lead ─────────────────────────────────────────────────────────────────────
        /home/dev/.claude/tasks/probe/2.json

    ● TeamDelete
      └ {
          "success": false,
          "message": "Cannot cleanup team with 1 active member(s): worker. Use
        requestShutdown to gracefully terminate teammates first.",
          "team_name": "probe"
        }

    ● SendMessage type: shutdown_request, recipient: worker, content: please stop
      └ Shutdown request sent to worker. Request ID: shutdown-1795174923028@worker

    waiting for shutdown

    the session ended: success

    team not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use
    requestShutdown to gracefully terminate teammates first.
     read-only: it sends no messages and no answers ────────────────────────────────
     session.ndjson  29 lines; more can come                     ?: keys  q: leaves
    "#);
    person.presses(KeyCode::Home);
    let first = person.sees(SMALL);
    assert!(first.contains("● TeamCreate"), "{first}");
    person.types("3");
    assert_snapshot!(person.sees(LARGE), @r#"
     pitcrew probe  1 asked to leave  not cleaned up  ended: success
     team-lead to @team (worker): greeting everyone
     team-lead ──────────────────────────────────────────────────────────────── tasks  0 of 2 completed ━━━━━━━━━━━━━━━━━━━━
    ● TeamCreate                                                                in progress (1)
      team_name: probe                                                          * #1 Do A                           worker
      description: probe team                                                   blocked (1)
      agent_type: architect                                                     . #2 Do B             waits for #1
      └ {
          "team_name": "probe",
          "team_file_path": "/home/dev/.claude/teams/probe/config.json",
          "lead_agent_id": "team-lead@probe"
        }

    ● TaskCreate
      subject: Do A
      description: desc A
      activeForm: Doing A
      metadata:
        {
          "p": 1
        }
      └ Task #1 created successfully: Do A

    ● TaskCreate subject: Do B, description: desc B
      └ Task #2 created successfully: Do B

    ● TaskUpdate taskId: 2, addBlockedBy: ["1"]
      └ Updated task #2 blockedBy

    ● Task worker: worker one
      prompt: ROLE:worker please do it
      subagent_type: general-purpose
      team_name: probe
      run_in_background: true
      └ Spawned successfully.

    team not cleaned up: Cannot cleanup team with 1 active member(s): worker. Use requestShutdown to gracefully terminate
    teammates first.
     read-only: it sends no messages and no answers ────────────────────────────────────────────────────────────────────────
     session.ndjson  29 lines; more can come                                                             ?: keys  q: leaves
    "#);
}

#[test]
fn a_file_that_is_begun_again_shows_only_its_new_content() {
    let mut person = Person::watching_guide(8);
    person.presses(KeyCode::Char('4'));
    assert!(person.sees(LARGE).contains("8 lines"));
    person.ends(End::BegunAgain);
    person.gets(lines(&[said("a new beginning")]).as_bytes());
    let screen = person.sees(LARGE);
    assert!(screen.contains("the file was begun again, and this is its new content"), "{screen}");
    assert!(screen.contains("1 line; more can come"), "{screen}");
    assert!(!screen.contains("swift-expert"), "{screen}");
    assert!(screen.contains("a new beginning"), "{screen}");
}
