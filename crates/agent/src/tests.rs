//! Tests of the state machine. Each test is a list of events for an agent, and of the effects that
//! the agent must return.

use pitcrew_model::{Block, Response, StopReason, Usage};
use pitcrew_protocol::{
    AgentName, Frame, MessageId, PermissionMode, SandboxProfile, ToolSet, ToolTraits,
};
use serde_json::{Value, json};

use super::*;
use crate::transcript::{Conversation, Step};

/// An agent under test, and the steps that it has written.
pub(super) struct Play {
    pub(super) agent: Agent,
    written: Vec<Step>,
}

impl Play {
    pub(super) fn of(role: Role) -> Self {
        Self {
            agent: Agent::new(profile(role), PermissionMode::Default, Conversation::default()),
            written: Vec::new(),
        }
    }

    pub(super) fn teammate() -> Self {
        let mut play = Self::of(Role::Teammate);
        play.then(
            Event::Started { prompt: "work".to_owned() },
            &["announce running", "write told", "take mail"],
        );
        play.then(mail(&[]), &["call model"]);
        play
    }

    /// Returns the agent that resumes after a crash at this point.
    pub(super) fn crashed(&self) -> Self {
        let again = self.crashed_after(self.written.len());
        assert_eq!(
            again.agent.conversation(),
            self.agent.conversation(),
            "the transcript tells all"
        );
        again
    }

    /// Returns the agent that resumes after a crash that lost the last step.
    pub(super) fn crashed_before_the_last_step(&self) -> Self {
        self.crashed_after(self.written.len() - 1)
    }

    fn crashed_after(&self, steps: usize) -> Self {
        let written = self.written[..steps].to_vec();
        let mut conversation = Conversation::default();
        for step in &written {
            let line = serde_json::to_string(step).unwrap();
            conversation.apply(&serde_json::from_str(&line).unwrap());
        }
        let agent = Agent::new(self.agent.profile().clone(), self.agent.mode(), conversation);
        Self { agent, written }
    }

    #[track_caller]
    pub(super) fn then(&mut self, event: Event, expected: &[&str]) -> &mut Self {
        let effects = self.agent.handle(event);
        let mut told = Vec::new();
        for effect in effects {
            if let Effect::Append(steps) = &effect {
                self.written.extend(steps.iter().cloned());
            }
            told.push(in_words(&effect));
        }
        assert_eq!(told, expected);
        self
    }

    pub(super) fn last_blocks(&self) -> Vec<Block> {
        self.agent.conversation().messages().last().unwrap().blocks.clone()
    }
}

/// The traits of a tool that was added at run time and whose calls change nothing.
const READS: ToolTraits = ToolTraits { is_read_only: true, ..ToolTraits::UNKNOWN };

fn profile(role: Role) -> Profile {
    Profile {
        name: AgentName::new("worker").unwrap(),
        role,
        max_turns: None,
        tools: ToolSet::from_iter([("mcp__docs__search", READS)]),
        context: ContextBound::of(1_000, ContextBound::SHARE_PERCENT),
    }
}

fn in_words(effect: &Effect) -> String {
    match effect {
        Effect::Append(steps) => {
            let kind = |step: &Step| {
                serde_json::to_value(step).unwrap()["kind"].as_str().unwrap().to_owned()
            };
            format!("write {}", steps.iter().map(kind).collect::<Vec<_>>().join(" "))
        }
        Effect::Acknowledge(ids) => {
            format!(
                "acknowledge {}",
                ids.iter().map(|id| id.0.clone()).collect::<Vec<_>>().join(" ")
            )
        }
        Effect::TakeMail => "take mail".to_owned(),
        Effect::CallModel => "call model".to_owned(),
        Effect::Compact { most: None } => "compact".to_owned(),
        Effect::Compact { most: Some(most) } => format!("compact {most} characters"),
        Effect::ReportCompaction(compaction) => {
            format!("report {} -> {} tokens", compaction.tokens_before, compaction.tokens_after)
        }
        Effect::Judge(judging) => format!("judge {} in {}", judging.call.id, judging.mode),
        Effect::AskPermission { call, .. } => format!("ask for {}", call.id),
        Effect::Settle(settlement) => format!(
            "settle {} {} ({:?})",
            settlement.call,
            settlement.refused.as_deref().unwrap_or("allowed"),
            settlement.by
        ),
        Effect::CutOff => "cut off".to_owned(),
        Effect::Run(call, _, _) => format!("run {} {}", call.id, call.input),
        Effect::Report(call, ending) => {
            format!("report {} {}", call.id, if ending.is_error { "failed" } else { "done" })
        }
        Effect::Inspect(call) => format!("inspect {}", call.id),
        Effect::EndTurn(_) => "end turn".to_owned(),
        Effect::SendIdle(report) => {
            let cause = match &report.cause {
                IdleCause::TurnOver => "available",
                IdleCause::Interrupted => "interrupted",
                IdleCause::Failed(reason) => reason,
                IdleCause::BadAnswer(fault) => fault.in_words(),
            };
            format!("send idle {cause}: {}", report.result.as_deref().unwrap_or("nothing"))
        }
        Effect::SetMode(mode) => format!("set mode {mode}"),
        Effect::StopCommands => "stop commands".to_owned(),
        Effect::Permit(updates) => format!("permit {}", Value::from(updates.clone())),
        Effect::Refer(mail) => format!("refer {}", mail.id),
        Effect::Announce(status) => format!("announce {status}"),
        Effect::ReportLimit => "report limit".to_owned(),
        Effect::Park { reason, retry_after } => {
            format!("park ({reason}, {} s)", retry_after.map_or(0, |asked| asked.as_secs()))
        }
        Effect::End { status, reason, text } => format!(
            "end {status} ({}): {}",
            reason.as_deref().unwrap_or("no reason"),
            text.as_deref().unwrap_or("nothing")
        ),
    }
}

fn letter(id: &str, text: &str) -> Mail {
    Mail {
        id: MessageId(id.to_owned()),
        from: "bob".to_owned(),
        rendered: format!("<teammate-message teammate_id=\"bob\">\n{text}\n</teammate-message>"),
        frame: Frame::detect(text),
    }
}

pub(super) fn mail(letters: &[(&str, &str)]) -> Event {
    Event::MailArrived(letters.iter().map(|(id, text)| letter(id, text)).collect())
}

pub(super) fn answer(blocks: Vec<Block>) -> Event {
    let response = Response {
        id: "msg".to_owned(),
        model: "scripted".to_owned(),
        blocks,
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    };
    Event::ModelFinished { response, cost_usd: None }
}

pub(super) fn says(text: &str) -> Event {
    answer(vec![Block::text(text)])
}

pub(super) fn calls(calls: &[(&str, &str)]) -> Event {
    answer(calls.iter().map(|(id, tool)| Block::tool_use(*id, *tool, json!({}))).collect())
}

pub(super) fn allowed(call: &str) -> Event {
    Event::Judged {
        call: call.to_owned(),
        replaced: None,
        judgement: Judgement::Allow { profile: SandboxProfile::Free },
        context: Vec::new(),
    }
}

pub(super) fn done(call: &str) -> Event {
    done_with(call, Value::Null)
}

pub(super) fn done_with(call: &str, data: Value) -> Event {
    let ending = Ending {
        text: format!("{call} done"),
        data,
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    Event::ToolFinished { call: call.to_owned(), ending }
}

pub(super) fn question() -> Judgement {
    Judgement::Ask(Question { description: "Run it".to_owned(), suggestions: Vec::new() })
}

pub(super) fn replaced(call: &str, command: &str, judgement: Judgement) -> Event {
    Event::Judged {
        call: call.to_owned(),
        replaced: Some(json!({ "command": command })),
        judgement,
        context: Vec::new(),
    }
}

#[test]
fn a_call_runs_with_the_input_by_which_a_hook_replaced_it() {
    let free = || Judgement::Allow { profile: SandboxProfile::Free };
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(
            replaced("a", "ls", free()),
            &["write replaced", "write began", r#"run a {"command":"ls"}"#],
        );
    let mut asked = Play::teammate();
    asked
        .then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(replaced("a", "ls", question()), &["write replaced", "ask for a"]);
    let open = &asked.agent.conversation().open_calls()[0];
    assert_eq!(open.call.input, json!({"command": "ls"}));
    assert_eq!(open.original, Some(json!({})));
}

#[test]
fn a_teammate_works_a_turn_and_goes_idle() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[]), &["call model"])
        .then(says("all done"), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &["send idle available: all done", "write rested", "announce idle"],
        );
}

#[test]
fn mail_is_delivered_between_two_calls_of_a_turn_and_marked_read_after_it_is_written() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash"), ("b", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[("m1", "hello")]), &["write mail", "acknowledge m1", "judge b in default"]);
    assert!(play.agent.conversation().holds(&MessageId("m1".to_owned())));
}

#[test]
fn mail_that_comes_while_a_call_runs_waits_for_the_boundary() {
    let mut play = Play::teammate();
    play.then(calls(&[("a", "Bash")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(Event::MailWaiting, &["take mail"])
        .then(mail(&[("m1", "hello")]), &[])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[("m1", "hello")]), &["write mail", "acknowledge m1", "call model"]);
}

#[test]
fn mail_wakes_an_idle_teammate_at_once() {
    let mut play = idle_teammate();
    play.then(Event::MailWaiting, &["take mail"]).then(
        mail(&[("m1", "hello")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
}

pub(super) fn idle_teammate() -> Play {
    let mut play = Play::teammate();
    play.then(says("ready"), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &["send idle available: ready", "write rested", "announce idle"],
        );
    play
}

#[test]
fn a_message_that_was_delivered_before_a_crash_is_only_marked_read_after_it() {
    let mut play = idle_teammate();
    play.then(
        mail(&[("m1", "hello")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    );
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", "hello")]), &["acknowledge m1", "call model"]);
}

#[test]
fn a_tool_that_came_at_run_time_runs_beside_others_when_it_changes_nothing() {
    let tools = [("a", "mcp__docs__search"), ("b", "Read"), ("c", "mcp__docs__write")];
    let mut play = Play::teammate();
    play.then(calls(&tools), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default", "judge b in default"])
        .then(allowed("a"), &["run a {}"])
        .then(allowed("b"), &["run b {}"])
        .then(done("a"), &["write result", "report a done"])
        .then(done("b"), &["write result", "report b done", "take mail"])
        .then(mail(&[]), &["judge c in default"])
        .then(allowed("c"), &["write began", "run c {}"]);
}

#[test]
fn read_only_calls_run_side_by_side_and_the_others_one_by_one() {
    let mut play = Play::teammate();
    play.then(
        calls(&[("a", "Read"), ("b", "Grep"), ("c", "Write"), ("d", "Read")]),
        &["write assistant", "take mail"],
    )
    .then(mail(&[]), &["judge a in default", "judge b in default"])
    .then(allowed("b"), &["run b {}"])
    .then(allowed("a"), &["run a {}"])
    .then(done("b"), &["write result", "report b done"])
    .then(done("a"), &["write result", "report a done", "take mail"])
    .then(mail(&[]), &["judge c in default"])
    .then(allowed("c"), &["write began", "run c {}"])
    .then(done("c"), &["write result", "report c done", "take mail"])
    .then(mail(&[]), &["judge d in default"]);
}

#[test]
fn a_teammate_that_approves_its_shutdown_ends() {
    let request = r#"{"type":"shutdown_request","requestId":"s-1","from":"team-lead"}"#;
    let mut play = idle_teammate();
    play.then(
        mail(&[("m1", request)]),
        &[
            "announce shutdown_requested",
            "write shutdown_asked mail",
            "acknowledge m1",
            "call model",
        ],
    );
    let input = json!({"type": "shutdown_response", "request_id": "s-1", "approve": true});
    play.then(
        answer(vec![Block::tool_use("a", "SendMessage", input)]),
        &["write assistant", "take mail"],
    )
    .then(mail(&[]), &["judge a in default"])
    .then(
        allowed("a"),
        &[r#"run a {"type":"shutdown_response","request_id":"s-1","approve":true}"#],
    )
    .then(
        done("a"),
        &[
            "write result",
            "report a done",
            "write ended",
            "announce completed",
            "end completed (no reason): nothing",
        ],
    )
    .then(Event::MailWaiting, &[]);
    let mut again = play.crashed();
    again.then(Event::Resumed, &["announce completed", "end completed (no reason): nothing"]);
}

#[test]
fn an_input_that_is_no_object_is_refused_without_running() {
    let mut play = Play::teammate();
    play.then(
        answer(vec![Block::tool_use("a", "Bash", json!("{\"comm"))]),
        &["write assistant", "take mail"],
    )
    .then(mail(&[]), &["write result", "report a failed", "take mail"])
    .then(mail(&[]), &["call model"]);
}

#[test]
fn idle_notices_wait_for_the_next_turn_of_the_lead_and_messages_do_not() {
    let idle = r#"{"type":"idle_notification","from":"bob","idleReason":"available"}"#;
    let failed = r#"{"type":"idle_notification","from":"bob","idleReason":"failed","failureReason":"no model"}"#;
    let lead = || {
        let mut play = Play::of(Role::Lead);
        play.then(
            Event::Started { prompt: "go".to_owned() },
            &["announce running", "write told", "take mail"],
        )
        .then(mail(&[]), &["call model"])
        .then(says("waiting"), &["write assistant", "take mail"])
        .then(mail(&[("m1", idle)]), &["end turn"])
        .then(Event::HookAnswered { keep_going: None }, &["write rested", "announce idle"]);
        play
    };
    lead()
        .then(Event::Wake, &["take mail"])
        .then(mail(&[]), &["announce running", "write mail", "acknowledge m1", "call model"])
        .then(says("noted"), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(Event::HookAnswered { keep_going: None }, &["write rested", "announce idle"])
        .then(Event::Wake, &["take mail"])
        .then(mail(&[]), &["announce idle"]);
    lead().then(
        mail(&[("m2", failed)]),
        &["announce running", "write mail", "acknowledge m1 m2", "call model"],
    );
    lead().then(
        Event::Told { text: "bob has shut down.".to_owned() },
        &["announce running", "write told mail", "acknowledge m1", "call model"],
    );
}

#[test]
fn questions_and_goodbyes_go_to_the_crew_and_stay_unread_until_it_has_dealt_with_them() {
    let ask = r#"{"type":"permission_request","request_id":"perm-1","agent_id":"bob","tool_name":"Bash"}"#;
    let goodbye = r#"{"type":"shutdown_approved","requestId":"s-1","from":"bob"}"#;
    let ids = |id: &str| vec![MessageId(id.to_owned())];
    let mut play = Play::of(Role::Lead);
    play.then(
        Event::Started { prompt: "go".to_owned() },
        &["announce running", "write told", "take mail"],
    )
    .then(mail(&[("m1", ask), ("m2", goodbye)]), &["refer m1", "refer m2", "call model"])
    .then(mail(&[("m1", ask), ("m2", goodbye)]), &[])
    .then(Event::Settled(ids("m1")), &["write mail", "acknowledge m1"])
    .then(
        Event::Parted {
            members: vec![AgentName::foreign("bob")],
            ids: ids("m2"),
            text: "bob has shut down.".to_owned(),
        },
        &[],
    );
    assert_eq!(play.last_blocks(), [Block::text("go")]);
    play.then(says("well"), &["write assistant", "take mail"])
        .then(mail(&[("m2", goodbye)]), &["write parted", "acknowledge m2", "call model"]);
    assert_eq!(play.last_blocks(), [Block::text("bob has shut down.")]);
}

#[test]
fn a_hook_can_keep_a_teammate_going() {
    let mut play = Play::teammate();
    play.then(says("done"), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: Some("run the tests first".to_owned()) },
            &["write told", "take mail"],
        )
        .then(mail(&[]), &["call model"]);
}

#[test]
fn a_turn_that_a_crash_cut_off_before_the_idle_notice_sends_it_after() {
    let mut play = Play::teammate();
    play.then(says("the report"), &["write assistant", "take mail"]);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &["send idle available: the report", "write rested", "announce idle"],
        );
    idle_teammate()
        .crashed()
        .then(Event::Resumed, &["take mail", "announce idle"])
        .then(mail(&[]), &[]);
}

#[test]
fn an_agent_that_used_its_turns_calls_no_model_any_more() {
    let mut play = Play::teammate();
    play.agent.profile.max_turns = Some(1);
    play.then(calls(&[("a", "Read")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(
            mail(&[]),
            &["send idle it has used all of its 1 turn: nothing", "report limit", "announce idle"],
        );
}

#[test]
fn a_failed_model_ends_a_teammate_and_the_lead_is_told() {
    Play::teammate().then(
        Event::ModelFailed { reason: "no such model".to_owned(), failure: ModelFailure::Other },
        &[
            "send idle no such model: nothing",
            "write ended",
            "announce failed",
            "end failed (no such model): nothing",
        ],
    );
}

#[test]
fn a_conversation_that_is_too_long_is_cut_and_sent_again_until_nothing_is_left_to_cut() {
    let too_long =
        || Event::ModelFailed { reason: "too long".to_owned(), failure: ModelFailure::TooLong };
    let mut play = Play::teammate();
    let ending = Ending {
        text: "x".repeat(500),
        data: Value::Null,
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    let done = |call: &str| Event::ToolFinished { call: call.to_owned(), ending: ending.clone() };
    play.then(calls(&[("a", "Read"), ("b", "Read")]), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default", "judge b in default"])
        .then(allowed("a"), &["run a {}"])
        .then(allowed("b"), &["run b {}"])
        .then(done("a"), &["write result", "report a done"])
        .then(done("b"), &["write result", "report b done", "take mail"])
        .then(mail(&[]), &["call model"])
        .then(too_long(), &["write cut", "call model"])
        .then(too_long(), &["compact"]);
    let whole = play
        .last_blocks()
        .iter()
        .filter(|block| **block == Block::tool_result("b", "x".repeat(500)))
        .count();
    assert_eq!(whole, 1, "the newest result is whole");
}

#[test]
fn a_stopped_agent_ends_at_the_next_boundary() {
    let stop = || Event::StopAsked { reason: "the run is over".to_owned() };
    let end = ["write ended", "announce completed", "end completed (the run is over): ready"];
    idle_teammate().then(stop(), &end);
    let mut play = Play::teammate();
    play.then(stop(), &[])
        .then(says("ready"), &["write assistant", "take mail"])
        .then(mail(&[]), &end);
    // An agent that must end does not call its model again. Check that a message that arrives
    // before the end is not marked as read.
    let mut play = Play::teammate();
    play.then(stop(), &[])
        .then(says("ready"), &["write assistant", "take mail"])
        .then(mail(&[("m1", "late")]), &end);
}

#[test]
fn a_subagent_reads_no_mail_and_ends_with_its_turn() {
    let mut play = Play::of(Role::Subagent);
    play.then(
        Event::Started { prompt: "look".to_owned() },
        &["announce running", "write told", "call model"],
    )
    .then(calls(&[("a", "Read")]), &["write assistant", "judge a in default"])
    .then(allowed("a"), &["run a {}"])
    .then(done("a"), &["write result", "report a done", "call model"])
    .then(says("found it"), &["write assistant", "end turn"])
    .then(
        Event::HookAnswered { keep_going: None },
        &["announce completed", "end completed (no reason): found it"],
    );
}
