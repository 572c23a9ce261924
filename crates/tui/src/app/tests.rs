//! The application as a person uses it: keys and news of the host go in, the screen and the actions
//! come out.

use std::path::Path;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use insta::assert_snapshot;
use pitcrew_permission::gate::{Call, Gate};
use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{AskedCall, PermissionQuestion};
use pitcrew_view::client::News;
use pitcrew_view::conversation::Conversation;
use pitcrew_view::host::{HostEvent, HostState, OpenQuestion, What};
use pitcrew_view::{TeamState, ViewEvent, fold};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::{Action, App, Begin, CanStart, CompletedTeam, Done, Input, Left, Onward};
use crate::theme::ThemeKind;

mod asked;
mod ends;
mod mouse;
mod questions;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);

/// The application, and all actions that it asked for and that nobody looked at yet.
struct Person {
    app: App,
    actions: Vec<Action>,
    now: Instant,
}

/// The time that a person needs to look at the screen before a key.
const LOOKS: Duration = Duration::from_secs(1);

impl Person {
    /// A person at an interface that asks for a goal.
    fn new() -> Self {
        Self::at(App::new(ThemeKind::NoColor, None, CanStart::Yes))
    }

    /// A person at an interface that follows the team `work`, with the lead and bob.
    fn with_team() -> Self {
        let app = App::new(ThemeKind::NoColor, Some("work".to_owned()), CanStart::No);
        let mut person = Self::at(app);
        person.hears(News::Open(env!("CARGO_PKG_VERSION").to_owned()));
        let state = HostState { team: team(), ..HostState::default() };
        person.hears(News::Snapshot(Box::new(state)));
        person
    }

    fn at(app: App) -> Self {
        Self { app, actions: Vec::new(), now: Instant::now() }
    }

    fn gives(&mut self, input: Input) {
        let actions = self.app.handle(input);
        self.actions.extend(actions);
    }

    fn hears(&mut self, news: News) {
        self.gives(Input::Host(news));
    }

    fn happens(&mut self, what: What) {
        self.hears(News::Event(Box::new(HostEvent { seq: 0, at_ms: 0, what })));
    }

    fn runs(&mut self, event: Value) {
        self.happens(What::Run(run_event(event)));
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|c| self.presses(KeyCode::Char(c)));
    }

    fn presses(&mut self, code: KeyCode) {
        self.now += LOOKS;
        self.presses_at_once(code);
    }

    fn presses_at_once(&mut self, code: KeyCode) {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        self.gives(Input::Terminal(Event::Key(key), self.now));
    }

    fn presses_ctrl(&mut self, letter: char) {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        self.gives(Input::Terminal(Event::Key(key), self.now));
    }

    fn reads(&mut self, agent: &str, lines: &[Value]) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let recorded = Some(Conversation::of_transcript(&lines).unwrap());
        self.gives(Input::Done(Done::Read { agent: name(agent), recorded }));
    }

    /// Returns the actions since the last call.
    fn took(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    fn sees(&mut self, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| self.app.draw(frame)).unwrap();
        self.app.is_on_screen(self.now);
        let screen = terminal.backend().to_string();
        let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

fn run_event(event: Value) -> RunEvent {
    serde_json::from_value(event).unwrap()
}

fn team() -> TeamState {
    let started = json!({
        "event": "started", "agent": "team-lead", "team": "work", "team_file": "/t/config.json",
        "session_id": "s", "cwd": "/work", "model": "opus", "mode": "default", "tools": [],
        "agents": [], "resumed": false,
    });
    let bob = json!({
        "event": "agent_started", "agent": "bob", "parent_call": null, "agent_type": "general",
        "model": "haiku", "color": "blue", "cwd": "/work", "mode": "acceptEdits",
    });
    [started, bob, changed("team-lead", "running")]
        .into_iter()
        .fold(TeamState::default(), |state, event| fold(state, &ViewEvent::Run(&run_event(event))))
}

fn changed(agent: &str, status: &str) -> Value {
    json!({"event": "agent_changed", "agent": agent, "status": status, "detail": null})
}

fn answered(agent: &str, blocks: Value) -> Value {
    json!({
        "event": "answered", "agent": agent, "parent_call": null, "message_id": "m",
        "model": "opus", "blocks": blocks, "stop": "end_turn",
        "usage": {"input_tokens": 1200, "output_tokens": 30}, "cost_usd": 0.02, "took_ms": 10,
    })
}

fn question(id: &str, command: &str) -> OpenQuestion {
    let (folder, input) = (Path::new("/work"), json!({"command": command}));
    let call = Call { tool: "Bash", input: &input, cwd: folder, plan_file: None };
    let question = PermissionQuestion::of(AskedCall {
        asker: &name("bob"),
        tool: "Bash",
        input: &input,
        folder,
        file: None,
        reason: command,
        says: None,
        rules: Gate::default().allowing_rules(&call),
    });
    OpenQuestion { id: id.to_owned(), since_ms: 0, question, input }
}

#[test]
fn an_empty_interface_asks_for_the_goal_and_starts_a_team_with_it() {
    let mut person = Person::new();
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew new team



















    What shall the team do? /help shows keys and commands.
    ────────────────────────────────────────────────────────────────────────────────
    >  the goal of the team
                                                                   /help  Tab: team
    ");
    person.types("mend the parser");
    person.presses(KeyCode::Enter);
    let took = person.took();
    let [Action::Start(Begin::New { goal })] = took.as_slice() else { panic!("{took:?}") };
    assert_eq!(goal, "mend the parser");
    assert!(person.sees(SMALL).contains("starting the team"));
    // A second message has no team to go to yet, and is not lost.
    person.types("and test it");
    person.presses(KeyCode::Enter);
    assert!(person.took().is_empty());
    assert!(person.sees(SMALL).contains("> and test it"));
}

#[test]
fn a_goal_that_could_not_be_started_can_be_corrected() {
    let mut person = Person::new();
    person.types("mend it");
    person.presses(KeyCode::Enter);
    let refused = Err("no model is configured; `pitcrew models` lists them".to_owned());
    person.gives(Input::Done(Done::Started(refused)));
    let screen = person.sees(SMALL);
    assert!(screen.contains("not started: no model is configured"), "{screen}");
    assert!(screen.contains("> mend it"), "{screen}");
}

#[test]
fn an_answer_is_shown_while_it_is_written_and_once_after_it_is_in_the_transcript() {
    let mut person = Person::with_team();
    person.reads("team-lead", &[json!({"seq": 1, "kind": "told", "text": "Mend the parser."})]);
    let delta = |text: &str| json!({"event": "text_delta", "agent": "team-lead", "text": text});
    person.runs(delta("I look at "));
    person.runs(delta("the **parser**."));
    let text = "I look at the **parser**.";
    let call = json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}});
    let blocks = json!([{"type": "text", "text": text}, call]);
    let shown = |person: &mut Person| {
        let screen = person.sees(SMALL);
        assert_eq!(screen.matches("I look at the parser.").count(), 1, "{screen}");
    };
    shown(&mut person);
    person.runs(answered("team-lead", blocks.clone()));
    shown(&mut person);
    person.took();
    // The transcript has the answer when its tool call begins.
    let started = json!({
        "event": "tool_started", "agent": "team-lead", "call": "c1", "tool": "Bash",
        "input": {"command": "ls"},
    });
    person.runs(started);
    let took = person.took();
    assert!(matches!(took.as_slice(), [Action::Read(agent)] if agent.as_str() == "team-lead"));
    let usage = json!({"input_tokens": 1200, "output_tokens": 30});
    person.reads(
        "team-lead",
        &[
            json!({"seq": 1, "kind": "told", "text": "Mend the parser."}),
            json!({"seq": 2, "kind": "assistant", "blocks": blocks, "usage": usage}),
            json!({"seq": 3, "kind": "result", "call": "c1", "text": "parser.rs", "is_error": false}),
        ],
    );
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew work  1 working, 1 starting











    you:
      Mend the parser.

    I look at the parser.

    ● Bash
      │ ls
      └ parser.rs

    ────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
     team-lead  opus  default  1.2k tokens  $0.02                  /help  Tab: team
    ");
    assert_snapshot!(person.sees(LARGE), @r"
     pitcrew work  1 working, 1 starting
                                                                                                                                                                team  1 working  1 idle ────────────────────
                                                                                                                                                                working (1)
                                                                                                                                                                * team-lead  Bash(ls)
                                                                                                                                                                idle (1)
                                                                                                                                                                - bob        pending










































    you:
      Mend the parser.

    I look at the parser.

    ● Bash
      │ ls
      └ parser.rs

    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
     team-lead  opus  default  1.2k tokens  $0.02                                                                                                                                          /help  Tab: team
    ");
}

#[test]
fn an_answer_that_the_model_begins_again_is_not_shown_twice() {
    let mut person = Person::with_team();
    person.runs(json!({"event": "text_delta", "agent": "team-lead", "text": "One half"}));
    let waits =
        json!({"event": "model_waits", "agent": "team-lead", "reason": "busy", "delay_ms": 1});
    person.runs(waits);
    person.runs(json!({"event": "text_delta", "agent": "team-lead", "text": "One whole"}));
    let screen = person.sees(SMALL);
    assert!(screen.contains("One whole") && !screen.contains("One half"), "{screen}");
}

#[test]
fn every_agent_that_has_not_ended_is_counted_in_the_header() {
    let mut person = Person::with_team();
    for (status, says) in [
        ("awaiting_plan_approval", "1 working, 1 with a plan to answer"),
        ("shutdown_requested", "1 working, 1 asked to leave"),
        ("failed", "1 working, 1 failed"),
        ("completed", "work  1 working"),
    ] {
        person.runs(changed("bob", status));
        let screen = person.sees(SMALL);
        assert!(screen.lines().next().unwrap().ends_with(says), "{screen}");
    }
}

#[test]
fn the_names_of_agents_and_modes_are_completed_in_commands() {
    let mut person = Person::with_team();
    for (typed, line) in [("/peek bo", "> /peek bob"), ("/mode acc", "> /mode acceptEdits")] {
        person.types(typed);
        person.presses(KeyCode::Tab);
        let screen = person.sees(SMALL);
        assert!(screen.contains(line) && !screen.contains("team  "), "{screen}");
        person.presses_ctrl('u');
    }
    // Without a completion, Tab leaves the command where it is.
    person.types("/peek zz");
    person.presses(KeyCode::Tab);
    assert!(person.sees(SMALL).contains("No conversation is recorded yet."));
    person.types("y");
    assert!(person.sees(SMALL).contains("> /peek zzy"));
}

#[test]
fn a_message_waits_on_the_screen_until_its_receiver_has_read_it() {
    let mut person = Person::with_team();
    person.types("use nextest");
    person.presses(KeyCode::Enter);
    let took = person.took();
    let is_it = |action: &Action| matches!(action, Action::Send { to, text } if to.as_str() == "team-lead" && text == "use nextest");
    assert!(took.iter().any(is_it), "{took:?}");
    assert!(person.sees(SMALL).contains("waits to be read: use nextest"));
    let (to, text) = (name("team-lead"), "use nextest".to_owned());
    let result = Ok(MessageId("m1".to_owned()));
    person.gives(Input::Done(Done::Sent { to, text, result }));
    assert!(person.sees(SMALL).contains("waits to be read: use nextest"));
    let delivered =
        json!({"event": "mail_delivered", "agent": "team-lead", "from": ["user"], "ids": ["m1"]});
    person.runs(delivered);
    assert!(!person.sees(SMALL).contains("waits to be read"));
}

#[test]
fn the_conversation_of_a_teammate_is_shown_and_answered() {
    let mut person = Person::with_team();
    person.types("/peek bob");
    person.presses(KeyCode::Enter);
    assert!(matches!(person.took().last(), Some(Action::Read(agent)) if agent.as_str() == "bob"));
    person.reads("bob", &[json!({"seq": 1, "kind": "told", "text": "Write tests."})]);
    let screen = person.sees(SMALL);
    assert!(screen.contains("bob: Esc goes back to the lead"), "{screen}");
    assert!(screen.contains("Write tests."), "{screen}");
    person.types("begin with the lexer");
    person.presses(KeyCode::Enter);
    assert!(matches!(person.took().last(), Some(Action::Send { to, .. }) if to.as_str() == "bob"));
    person.presses(KeyCode::Esc);
    assert!(!person.sees(SMALL).contains("Esc goes back"));
    person.types("/peek bop");
    person.presses(KeyCode::Enter);
    assert!(person.sees(SMALL).contains("no agent bop; the agents are: team-lead, bob"));
}

#[test]
fn esc_interrupts_the_lead_and_clears_a_typed_text_first() {
    let mut person = Person::with_team();
    person.types("wait");
    person.presses(KeyCode::Esc);
    assert!(person.took().iter().all(|action| !matches!(action, Action::Interrupt(_))));
    assert!(!person.sees(SMALL).contains("> wait"));
    person.presses(KeyCode::Esc);
    assert!(
        matches!(person.took().last(), Some(Action::Interrupt(agent)) if agent.as_str() == "team-lead")
    );
}

#[test]
fn leaving_a_team_at_work_asks_what_becomes_of_it() {
    let mut person = Person::with_team();
    person.presses_ctrl('c');
    assert!(person.sees(SMALL).contains("Ctrl-C again leaves"));
    person.presses_ctrl('c');
    let question = "team work is at work: [l]eave it running, [s]top it, Esc stays here";
    assert!(person.sees(SMALL).contains(question));
    person.presses(KeyCode::Esc);
    assert!(!person.sees(SMALL).contains(question));
    person.types("/quit");
    person.presses(KeyCode::Enter);
    person.took();
    person.presses(KeyCode::Char('l'));
    let took = person.took();
    let [Action::Leave(Left::ByUser { team })] = took.as_slice() else { panic!("{took:?}") };
    assert_eq!(team.as_deref(), Some("work"));
    let mut person = Person::with_team();
    person.presses_ctrl('c');
    person.presses_ctrl('c');
    person.took();
    person.presses(KeyCode::Char('s'));
    assert!(matches!(person.took().as_slice(), [Action::EndTeam]));
}

#[test]
fn an_interface_without_a_team_is_left_without_a_question() {
    let mut person = Person::new();
    person.presses_ctrl('c');
    person.presses_ctrl('c');
    assert!(matches!(person.took().as_slice(), [Action::Leave(Left::ByUser { team: None })]));
}

#[test]
fn a_killed_host_is_reported_and_its_questions_go() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.hears(News::Nobody);
    let screen = person.sees(SMALL);
    assert!(screen.contains("the process of team work is gone"), "{screen}");
    assert!(!screen.contains("cargo test"), "{screen}");
    person.hears(News::Open(env!("CARGO_PKG_VERSION").to_owned()));
    assert!(person.sees(SMALL).contains("team work is run again"));
}

#[test]
fn the_panels_are_drawn_in_place_of_the_conversation_or_beside_it() {
    let mut person = Person::with_team();
    person.presses_ctrl('t');
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew work  1 working, 1 starting
    team  1 working  1 idle ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    working (1)
    * team-lead  thinks                                                  -         -
    idle (1)
    - bob        pending                                                 -         -














    Enter: conversation  m: message  o: pane
    ────────────────────────────────────────────────────────────────────────────────
    >  Esc goes back to the conversation
     team-lead  opus  default                                      /help  Tab: team
    ");
    person.presses(KeyCode::Tab);
    person.presses(KeyCode::Tab);
    person.presses(KeyCode::Tab);
    assert!(person.sees(SMALL).contains("No conversation is recorded yet."));
    person.types("/help");
    person.presses(KeyCode::Enter);
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew work  1 working, 1 starting
    keys and commands: 1-19 of 30, PageDown scrolls, Esc closes ━━━━━━━━━━━━━━━━━━━━
    Enter                 send; Alt-Enter or Ctrl-J breaks the line
    Esc                   close, clear a typed text, or interrupt the agent's turn
    Ctrl-C twice, Ctrl-Z  leave (it asks about a team at work); suspend
    Tab, Ctrl-T -K -L -R  the next panel; team, tasks, timeline, review
    Ctrl-O                long outputs whole, or their beginnings
    PageUp/Down, Up/Down  scroll; earlier messages
    @ and /               names of files and commands; Tab completes
    /team                 the agents: who needs you, who works, who is idle
    /tasks                the task board
    /timeline             what happened in the team
    /review               what each member has changed: comment, merge, send back
    /peek NAME            show an agent's conversation; messages then go to it
    /lead                 go back to the conversation with the lead
    /mode MODE [NAME]     change the permission mode of the lead or of NAME
    /model MODEL [NAME]   give the lead or NAME another model, from its next call on
    /compact [NAME]       replace an agent's conversation by a summary
    /permissions          the rules in force, what you granted, and what was refused
    /plan [approve|reject NAME]
                          show the plans that wait; answer one
    ────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
     team-lead  opus  default                                      /help  Tab: team
    ");
}
