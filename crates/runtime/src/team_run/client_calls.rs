//! Counts the model calls of teammates that another client runs. A supervisor reads the calls from
//! the client's own conversation and writes them to the journal. The loop counts the calls from the
//! journal, as it does for pitcrew's own teammates in other processes.
//!
//! The number of calls that the journal already contains tells which calls of the conversation are
//! new. Each call is therefore counted once, even across runs.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use pitcrew_model::PriceTable;
use pitcrew_protocol::{AgentName, Program, Status};
use pitcrew_team::Team;
use pitcrew_team::store::{Event as Noted, JournalSummary, Turn};

use super::remote::{RemoteEvent, RemoteSpec, RemoteSupervisor, TURN_SHOWS_WITHIN};
use super::run_machine::RunInput;
use super::team_loop::TeamLoop;
use crate::client_conversation::has_open_turn;
use crate::client_usage::{ClientCall, UsageReader};
use crate::events::RunEvent;
use crate::hosting::LaunchStage;
use crate::run::Limit;

/// Interval at which a client's conversation is read while the client is in a turn. The file is not
/// watched, so no event reports that the conversation has grown.
const CALLS_LOOK: Duration = Duration::from_secs(1);

/// The known model calls of one client.
#[derive(Debug, Default)]
pub(super) struct ClientCalls {
    reader: Option<(String, UsageReader)>,
    /// Whether the loop already knows that the calls cannot be read.
    is_told: bool,
    /// When this process first looked at the client, in milliseconds since 1970.
    began_ms: Option<i64>,
}

/// The result of reading a client's conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallsSeen {
    /// All new calls are in the journal.
    Noted,
    /// There is no conversation that can be read.
    NoConversation,
}

impl ClientCalls {
    /// Reads the client's conversation, and writes to the journal all model calls that the journal
    /// does not contain yet.
    pub(super) async fn note(
        &mut self,
        team: &Team,
        root: &Path,
        name: &AgentName,
        prices: &PriceTable,
    ) -> CallsSeen {
        self.began_ms.get_or_insert_with(|| team.teams().now_ms());
        let Ok(Some(known)) = team.client_conversation(name).await else {
            return CallsSeen::NoConversation;
        };
        let reader = self.reader.take().filter(|(id, _)| *id == known.id).map(|(_, reader)| reader);
        let is_first_look = reader.is_none();
        let (root, id) = (root.to_owned(), known.id.clone());
        let read = move || {
            let mut reader = reader.or_else(|| UsageReader::of(&root, &id))?;
            let calls = reader.read_on();
            Some((id, reader, calls))
        };
        let Ok(Some((id, reader, calls))) = tokio::task::spawn_blocking(read).await else {
            return CallsSeen::NoConversation;
        };
        let mut noted_before = JournalSummary::default();
        if is_first_look && !calls.is_empty() {
            match team.journal_summary().await {
                Ok((summary, _)) => noted_before = summary,
                Err(error) => {
                    // The next check reads these calls again and writes them to the journal.
                    tracing::warn!(agent = %name, %error, "its model calls cannot be noted");
                    return CallsSeen::Noted;
                }
            }
        }
        self.reader = Some((id, reader));
        let turns =
            |name: &AgentName| noted_before.members.get(name).map_or(0, |member| member.turns);
        let is_noted = |call: &ClientCall| match &call.subagent {
            Some(_) => call.nth <= turns(&caller(name, call)),
            None => call.nth <= turns(name).saturating_sub(known.calls_before),
        };
        team.note(
            calls.iter().filter(|call| !is_noted(call)).map(|call| noted(name, call, prices)),
        )
        .await;
        CallsSeen::Noted
    }
}

/// Returns the name under which a call is counted: the client's name, or the name of one of its
/// subagents.
fn caller(name: &AgentName, call: &ClientCall) -> AgentName {
    match &call.subagent {
        Some(id) => AgentName::foreign(&format!("{name}#{id}")),
        None => name.clone(),
    }
}

fn noted(name: &AgentName, call: &ClientCall, prices: &PriceTable) -> Noted {
    let usage = &call.usage;
    Noted::TurnEnded(Turn {
        input_tokens: usage.input_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens,
        output_tokens: usage.output_tokens,
        cost_usd: prices.cost(&call.model, usage),
        cache_read_tokens: usage.cache_read_input_tokens,
        cache_creation_tokens: usage.cache_creation_input_tokens,
        tool_calls: call.tool_calls,
        ..Turn::new(caller(name, call), call.model.clone())
    })
}

impl RemoteSupervisor {
    /// Writes the client's model calls to the journal. While the client is in a turn, also
    /// schedules the next check. Does nothing for pitcrew's own agents.
    pub(super) async fn note_calls(&mut self) {
        let RemoteSpec { team, root, member, program, prices, .. } = &self.spec;
        if *program != Program::Claude {
            return;
        }
        let seen = self.calls.note(team, root, &member.name, prices).await;
        let status = self.seen.1;
        self.calls_due =
            (status == Status::Active).then(|| Box::pin(tokio::time::sleep(CALLS_LOOK)));
        // A client has written its conversation by the end of its first turn. If the conversation
        // is still missing then, the calls cannot be counted.
        if seen == CallsSeen::NoConversation
            && status == Status::Idle
            && !std::mem::replace(&mut self.calls.is_told, true)
        {
            self.report(RemoteEvent::CallsUnknown).await;
        }
    }

    /// Whether the client's conversation shows a turn that the config does not show. In a conversation
    /// of an earlier run, a crash left a turn open that nobody goes on with.
    async fn has_open_turn(&self) -> bool {
        let known = self.spec.team.client_conversation(self.name()).await;
        let Ok(Some(known)) = known else { return false };
        let began_ms = self.calls.began_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
        let since = UNIX_EPOCH + Duration::from_millis(began_ms.unwrap_or_default());
        let (root, id) = (self.spec.root.clone(), known.id);
        let look = move || has_open_turn(&root, &id, since);
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Reports whether the reference client (Claude Code) is in a turn. `taken` is the number of
    /// messages that the client has taken so far. The client takes mail, begins a turn, and records
    /// the turn in the config a little later. A client that has just taken mail therefore counts as
    /// being in a turn.
    pub(super) async fn guess(&mut self, taken: usize) {
        let Ok(config) = self.spec.team.config().await else { return };
        let is_active = config.member(self.name().as_str()).and_then(|member| member.is_active);
        let took = taken > std::mem::replace(&mut self.seen.0, taken);
        let status = match is_active {
            Some(true) => Status::Active,
            Some(false) | None if took => {
                self.turn_due = Some(Box::pin(tokio::time::sleep(TURN_SHOWS_WITHIN)));
                Status::Active
            }
            Some(false) | None if self.turn_due.is_some() => Status::Active,
            // The next check comes with that of the model calls.
            Some(false) if self.seen.1 == Status::Active && self.has_open_turn().await => {
                Status::Active
            }
            Some(false) => Status::Idle,
            None => return,
        };
        if is_active == Some(true) {
            self.turn_due = None;
        }
        if std::mem::replace(&mut self.seen.1, status) == status {
            return;
        }
        if status == Status::Active {
            self.reach(LaunchStage::Working).await;
            self.calls_due = Some(Box::pin(tokio::time::sleep(CALLS_LOOK)));
        }
        let changed = RunEvent::AgentChanged { agent: self.name().clone(), status, detail: None };
        self.spec.sink.tell(changed).await;
        self.report(RemoteEvent::State(status)).await;
    }
}

impl TeamLoop {
    /// Handles a client that has made all the model calls that it is allowed to make. Depending on
    /// the limit, this ends the whole run or only the client.
    pub(super) fn client_used_up(&self, agent: &AgentName, tool_calls: u32) -> Vec<RunInput> {
        let Some(running) = self.agents.running(agent) else { return Vec::new() };
        let Some(most) = running.client_used_up(self.limits, tool_calls) else {
            return Vec::new();
        };
        let of_run = self.used_up(agent);
        if of_run.is_empty() {
            let most = pitcrew_protocol::counted(most, "turn");
            running.handle.end(&format!("it has used all of its {most}"));
        }
        std::iter::once(RunInput::UsedUp(agent.clone())).chain(of_run).collect()
    }

    /// Warns the user about the limits that cannot be enforced for a client, because its calls
    /// cannot be read.
    pub(super) async fn calls_unknown(&mut self, agent: &AgentName) {
        let limits = [
            self.limits.max_turns.map(|_| Limit::Turns.flag()),
            self.limits.max_cost_usd.map(|_| Limit::Cost.flag()),
        ];
        let limits: Vec<&str> = limits.into_iter().flatten().collect();
        if limits.is_empty() {
            return;
        }
        let do_not = if limits.len() > 1 { "do not" } else { "does not" };
        let limits = limits.join(" and ");
        let text = format!(
            "the model calls of {agent} are not known, as its client keeps no conversation: {limits} {do_not} bound it"
        );
        self.run_context.sink.tell(RunEvent::Warning { text }).await;
    }
}
