//! Tests the state of a team that is read from the stream of another client: the five scenarios of
//! the stream document, on its examples and on the recorded streams.

use std::fmt::Write as _;

use pitcrew_protocol::{Status, TaskStatus};
use pitcrew_view::client_stream::{ClientStream, LINE_BYTES_MOST, LinesRead};
use pitcrew_view::state::{Cleanup, Happened, Mail, Route};
use pitcrew_view::{AgentState, TeamState};
use serde_json::{Value, json};

use crate::script::name;

const GUIDE: &str = include_str!("recordings/stream-guide.ndjson");
const LIFECYCLE: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");
const ERRORS: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson");

fn read_bytes(stream: &[u8]) -> (TeamState, LinesRead) {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    reader.feed(&mut state, stream);
    reader.finish(&mut state);
    (state, reader.lines_read())
}

/// Returns the state after a stream in which every line is known.
fn after(stream: &str) -> TeamState {
    let (state, read) = read_bytes(stream.as_bytes());
    let lines = stream.lines().count() as u64;
    assert_eq!(read, LinesRead { lines, ..LinesRead::default() });
    state
}

/// Returns the state after the first lines of the stream document's examples.
fn after_guide(lines: usize) -> TeamState {
    after(&GUIDE.lines().take(lines).map(|line| format!("{line}\n")).collect::<String>())
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn of<'a>(state: &'a TeamState, agent: &str) -> &'a AgentState {
    state.agent(&name(agent)).unwrap()
}

/// Returns the cards, the tasks and the timeline as a person sees them.
fn shown(state: &TeamState) -> String {
    let cleanup = state.cleanup.as_ref().map_or_else(|| "open".to_owned(), Cleanup::to_string);
    let mut shown = format!("team {}: {cleanup}\n", state.team);
    for agent in &state.agents {
        let badges = [
            agent.color.map(|color| color.as_str()),
            agent.agent_type.as_deref(),
            agent.model.as_deref(),
            agent.mode.as_deref(),
        ];
        let badges: Vec<&str> = badges.into_iter().flatten().collect();
        writeln!(shown, "  {} [{}] {}", agent.name, badges.join(", "), agent.line()).unwrap();
    }
    for task in &state.tasks {
        let (status, owner) = (task.status.as_str(), task.owner.as_deref().unwrap_or("nobody"));
        let ids = |ids: &[pitcrew_protocol::TaskId]| ids.iter().map(|id| format!(" #{id}")).collect::<String>();
        writeln!(
            shown,
            "  #{} {} ({status}, {owner}) blocked by{}; blocks{}",
            task.id,
            task.subject,
            ids(&task.blocked_by),
            ids(&task.blocks)
        )
        .unwrap();
    }
    for entry in state.timeline.entries() {
        writeln!(shown, "  {:>2} {}", entry.line, entry.text()).unwrap();
    }
    shown
}

fn mail(state: &TeamState) -> Vec<&Mail> {
    let of = |what| match what {
        &Happened::Mail(ref mail) => Some(mail),
        _ => None,
    };
    state.timeline.entries().filter_map(|entry| of(&entry.what)).collect()
}

#[test]
fn every_recorded_line_is_read() {
    for stream in [GUIDE, LIFECYCLE, ERRORS] {
        after(stream);
    }
}

#[test]
fn a_spawn_makes_a_card_with_color_model_and_type() {
    insta::assert_snapshot!(shown(&after_guide(4)), @"");
}

#[test]
fn a_message_goes_to_a_card_and_a_broadcast_to_the_team_with_its_recipients() {
    let state = after_guide(8);
    let routes: Vec<&Route> = mail(&state).iter().map(|mail| &mail.to).collect();
    let team = Route::Team(vec![name("swift-expert"), name("rust-expert")]);
    assert_eq!(routes, [&Route::Agent(name("swift-expert")), &team]);
    let last: Vec<String> = state.timeline.entries().map(|entry| entry.text()).collect();
    insta::assert_snapshot!(last.join("\n"), @"");
}

#[test]
fn the_acknowledgement_of_a_shutdown_request_changes_the_card() {
    assert_eq!(of(&after_guide(9), "swift-expert").status, Status::Active);
    let state = after_guide(10);
    assert_eq!(of(&state, "swift-expert").line(), "shutting down");
    let last = mail(&state).last().map(|mail| (mail.kind.as_str(), mail.text.as_str()));
    let reason = "Analysis complete, thank you for the thorough report. Shutting down.";
    assert_eq!(last, Some(("shutdown_request", reason)));
}

#[test]
fn a_failed_cleanup_shows_its_error_and_the_team_stays() {
    let state = after_guide(11);
    let reason = "Cannot cleanup team with 2 active member(s): swift-expert, rust-expert. Use requestShutdown to gracefully terminate teammates first.";
    assert_eq!(state.cleanup, Some(Cleanup::Failed(reason.to_owned())));
    assert_eq!(of(&state, "swift-expert").status, Status::ShutdownRequested);
    let state = after_guide(12);
    assert_eq!(state.cleanup.as_ref().unwrap().to_string(), "cleaned_up");
    assert_eq!(of(&state, "swift-expert").line(), "ended");
}

#[test]
fn the_result_is_the_summary_of_the_session_by_model() {
    insta::assert_debug_snapshot!(after_guide(13).session.unwrap(), @"");
}

#[test]
fn a_recorded_session_is_a_team_with_tasks_and_a_timeline() {
    insta::assert_snapshot!(shown(&after(LIFECYCLE)), @"");
}

#[test]
fn a_recorded_session_with_errors_shows_only_what_happened() {
    insta::assert_snapshot!(shown(&after(ERRORS)), @"");
}
