//! Tests the present state of agents that is computed from the journal's summary.

use pitcrew_protocol::Status;
use pitcrew_team::store::{Event, JournalEntry, JournalSummary, MemberChange, Turn};
use pitcrew_view::agent_now::{AgentNow, Spending};

use crate::script::name;

fn summary(events: Vec<Event>) -> JournalSummary {
    JournalSummary::of((1..).zip(events).map(|(at_ms, event)| JournalEntry { at_ms, event }))
}

fn changed(state: MemberChange, detail: Option<&str>) -> Event {
    Event::MemberChanged { member: name("bob"), state, detail: detail.map(str::to_owned) }
}

fn turn(cost_usd: Option<f64>) -> Event {
    let turn = Turn::new(name("bob"), "m");
    Event::TurnEnded(Turn { input_tokens: 700, output_tokens: 50, tool_calls: 2, cost_usd, ..turn })
}

#[track_caller]
fn check(events: Vec<Event>, line: &str, spending: Spending) {
    let summary = summary(events);
    let member = &summary.members[&name("bob")];
    let agent = AgentNow::of(name("bob"), member, &summary.runs, &[]);
    assert_eq!((agent.line().as_str(), agent.spending), (line, spending));
    assert_eq!(Spending::of_team(&summary), spending);
}

#[test]
fn an_agent_is_shown_with_its_last_state_and_reason() {
    let none = Spending::default();
    check(vec![changed(MemberChange::Spawned, Some("team-lead"))], "-", none);
    check(vec![changed(Status::Idle.into(), None)], "idle", none);
    check(vec![changed(Status::ShutdownRequested.into(), None)], "shutting down", none);
    check(vec![changed(Status::Active.into(), None)], "stopped in a turn", none);
    let events = vec![
        changed(Status::Active.into(), None),
        changed(MemberChange::Mode, Some("plan")),
        changed(Status::Failed.into(), Some("no \u{1b}key\nat all")),
    ];
    check(events, "failed: no \u{fffd}key | at all", none);
}

#[test]
fn an_agent_that_the_end_of_its_run_cancelled_can_be_resumed() {
    let ended = |state: Status, end: &str| {
        let end = Event::RunEnded { end: Some(end.to_owned()), reason: None };
        vec![Event::RunStarted { goal: None, head: None }, changed(state.into(), None), end]
    };
    let none = Spending::default();
    let resumable = "stopped: it was stopped, and can be resumed";
    check(ended(Status::Idle, "stalled"), resumable, none);
    check(ended(Status::Active, "interrupted"), resumable, none);
    check(ended(Status::Idle, "completed"), "idle", none);
    check(ended(Status::Completed, "stalled"), "ended", none);
    let mut resumed = ended(Status::Idle, "stalled");
    resumed.push(Event::RunStarted { goal: None, head: None });
    check(resumed, "idle", none);
}

#[test]
fn a_permission_request_is_open_until_its_answer_or_the_next_run() {
    let permission = |outcome: &str, request: &str| Event::Permission {
        request: request.to_owned(),
        member: name("bob"),
        tool: "Write".to_owned(),
        telling: None,
        outcome: outcome.to_owned().into(),
    };
    let (asked, answered) = (permission("asked", "one"), permission("denied", "one"));
    let open = |events: &[Event]| -> Vec<String> {
        let asks = summary(events.to_vec()).members[&name("bob")].asks.clone();
        asks.into_iter().map(|open| open.request).collect()
    };
    assert_eq!(open(&[asked.clone(), permission("asked", "two")]), ["one", "two"]);
    assert_eq!(open(&[asked.clone(), asked.clone()]), ["one"]);
    let none: [&str; 0] = [];
    assert_eq!(open(&[asked.clone(), answered]), none);
    assert_eq!(open(&[asked.clone(), changed(Status::Idle.into(), None)]), none);
    assert_eq!(open(&[asked.clone(), Event::RunStarted { goal: None, head: None }]), none);
    // The process of the run is needed to show the request.
    check(vec![asked], "-", Spending::default());
}

#[test]
fn the_cost_is_known_as_far_as_prices_are() {
    let used = |turns: u32, cost_usd| Spending {
        turns,
        tool_calls: 2 * turns,
        tokens: 750 * u64::from(turns),
        cost_usd,
    };
    check(vec![turn(None)], "-", used(1, None));
    check(vec![turn(None), turn(Some(0.5))], "-", used(2, Some(0.5)));
    assert_eq!(used(1, None).cost_in_words(), "-");
    assert_eq!(used(1, Some(0.5)).cost_in_words(), "$0.50");
    assert_eq!(used(1, Some(0.0042)).cost_in_words(), "$0.0042");
}
