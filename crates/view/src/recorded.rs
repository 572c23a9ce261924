//! The state of a team from its records alone: what a user interface shows of a run that has ended,
//! of a stopped team, and of a team in the archive.
//!
//! This module only reads. Nothing in the records is trusted: a part that cannot be read is left out
//! and named. `present` adds what the processes of the team tell.

mod present;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, chain};
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{JournalFault, JournalSummary, LineCheck, LogName, Spent};

use crate::agent_now::Spending;
use crate::conversation::Conversation;
use crate::fold::{ViewEvent, fold};
use crate::missing_records::missing;
use crate::state::{Happened, ModelUse, SessionSummary, TeamState, TimelineEntry};
use crate::team_log::{LogEntry, TeamLog, merged};

use present::Present;
pub use present::of_files;

/// About how many bytes at the end of a transcript are read.
const TRANSCRIPT_BYTES: u64 = 1024 * 1024;

/// The outcome of a run whose end is not recorded.
const NO_END: &str = "the end of the last run is not recorded";

/// A team, as its records show it.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The state of the team, with its timeline and the summary of its runs.
    pub state: TeamState,
    /// What could not be read, as texts for a person.
    pub unread: Vec<String>,
}

impl Recorded {
    /// Reads the records of a team.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` if the config cannot be read.
    pub async fn read(records: &TeamRecords) -> Result<Self, ApiError> {
        let mut recorded = Self::default();
        let config = records.config().await?;
        let present = Present::of(records, &config).await.unwrap_or_default();
        let mut state = present::all_members(records, &config).await?;
        let mut log = TeamLog::default();
        if let Some(tasks) = recorded.known("the tasks", records.tasks().await) {
            state = fold(state, &ViewEvent::Tasks(&tasks));
            log.know_tasks(&tasks);
        }
        let has_journal = match records.journal_fault(LineCheck::Whole).await? {
            Some((path, fault)) => {
                recorded.unread.push(fault_in_words(&path, &fault));
                matches!(fault, JournalFault::BadLines(_))
            }
            None => true,
        };
        let summary = match has_journal {
            true => recorded.known("the journal", records.summary().await),
            false => None,
        };
        let known = summary.clone().unwrap_or_default();
        present.add_clients(&mut state, records, (&config, &known)).await;
        if let Some(summary) = summary {
            present.add_journal(&mut state, &summary);
        }
        for entry in recorded.log(records, log, has_journal).await? {
            if !entry.kind.is_detail() {
                add_entry(&mut state, entry);
            }
        }
        state.lead = lead_of(&state);
        present::add_result(&mut state, records).await;
        Ok(Self { state, ..recorded })
    }

    /// Looks for lines of the members' transcripts that cannot be read, and for conversations and
    /// tasks that are not there.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` if the members cannot be read.
    pub async fn check_records(&mut self, records: &TeamRecords) -> Result<(), ApiError> {
        for name in records.all_members().await? {
            let what = format!("the conversation of {name}");
            let lines = records.transcript(&name).await;
            let Some(lines) = self.known(&what, lines) else { continue };
            match Conversation::of_transcript(&lines) {
                Ok(read) => self.unread.extend(read.unread_in_words(&name)),
                Err(newer) => self.unread.push(format!("{what} cannot be read: {newer}")),
            }
        }
        let config = records.config().await?;
        self.unread.extend(missing(records, &config).await);
        Ok(())
    }

    /// Reads the log of the team from its journal and mail.
    pub(crate) async fn log(
        &mut self,
        records: &TeamRecords,
        mut log: TeamLog,
        has_journal: bool,
    ) -> Result<Vec<LogEntry>, ApiError> {
        let journal = match has_journal {
            true => self.known("the journal", records.journal().await),
            false => None,
        };
        let (journal, _) = journal.unwrap_or_default();
        // A former member of another client's team is in the journal only as a receiver.
        let members = records.all_members().await?;
        let names: BTreeSet<_> = members.into_iter().chain(log.lacks_mail_of(&journal)).collect();
        for name in names {
            let what = format!("the mail of {name}");
            if let Some(mail) = self.known(&what, records.mail(&name).await) {
                log.know_mail(&name, mail);
            }
        }
        let entries = log.entries(&journal);
        Ok(merged(entries, log.unrecorded_mail()))
    }

    /// Returns what was read. Otherwise the error becomes a text for a person.
    fn known<T>(&mut self, what: &str, read: Result<T, ApiError>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                self.unread.push(format!("{what} cannot be read: {}", chain(&error)));
                None
            }
        }
    }
}

/// Reads the end of an agent's conversation that pitcrew recorded. Returns `None` if there is none,
/// or if it cannot be read.
pub async fn conversation(records: &TeamRecords, agent: &AgentName) -> Option<Conversation> {
    let lines = match records {
        TeamRecords::Live(team) => {
            team.log_end(&LogName::Transcript(agent.clone()), TRANSCRIPT_BYTES).await.ok()?
        }
        TeamRecords::Archived(..) => last_of(records.transcript(agent).await.ok()?),
    };
    Conversation::of_transcript(&lines).ok().filter(|conversation| !conversation.parts.is_empty())
}

/// Returns the last lines of a transcript, up to [`TRANSCRIPT_BYTES`].
fn last_of(mut lines: Vec<String>) -> Vec<String> {
    let mut bytes = 0_u64;
    let is_kept = |line: &&String| {
        bytes = bytes.saturating_add(line.len() as u64);
        bytes <= TRANSCRIPT_BYTES
    };
    let kept = lines.iter().rev().take_while(is_kept).count();
    lines.split_off(lines.len() - kept.max(1).min(lines.len()))
}

/// Returns the name of the lead. The lead of another client's team has no spawn in the journal.
fn lead_of(state: &TeamState) -> Option<AgentName> {
    let lead = state.agents.iter().find(|agent| agent.name.as_str() == LEAD_NAME);
    lead.map(|lead| lead.name.clone())
}

fn add_entry(state: &mut TeamState, entry: LogEntry) {
    let line = state.timeline.count() + 1;
    state.timeline.push(TimelineEntry { line, what: Happened::Logged(Box::new(entry)) });
}

/// Returns the summary of all runs of the team.
fn session(summary: &JournalSummary) -> SessionSummary {
    let ended = summary.runs.ended.as_ref();
    let outcome = ended.and_then(|ended| ended.end.clone()).unwrap_or_else(|| NO_END.to_owned());
    let all = Spending::of_team(summary);
    let mut models: BTreeMap<&String, ModelUse> = BTreeMap::new();
    for (model, spent) in summary.members.values().flat_map(|member| &member.spent) {
        let used = models.entry(model).or_default();
        used.model.clone_from(model);
        used.usage += usage_of(spent);
        if spent.turns > spent.unpriced_turns {
            *used.cost_usd.get_or_insert(0.0) += spent.cost_usd();
        }
    }
    let api_ms = summary.members.values().flat_map(|it| it.spent.values()).map(|it| it.model_ms);
    let lasted = ended.zip(summary.runs.began_ms).map(|(ended, began)| ended.at_ms - began);
    SessionSummary {
        is_error: !matches!(outcome.as_str(), "completed" | "shut_down"),
        outcome,
        result: ended.and_then(|ended| ended.reason.clone()).unwrap_or_default(),
        duration_ms: lasted.and_then(|ms| u64::try_from(ms).ok()),
        duration_api_ms: Some(api_ms.fold(0, u64::saturating_add)),
        turns: Some(all.turns.into()),
        cost_usd: all.cost_usd,
        usage: models.values().fold(Usage::default(), |sum, model| sum + model.usage),
        models: models.into_values().collect(),
    }
}

/// Returns tokens as a model counts them. The journal counts cached tokens as input too.
#[must_use]
pub fn usage_of(spent: &Spent) -> Usage {
    let cached = spent.cache_read_tokens.saturating_add(spent.cache_creation_tokens);
    Usage {
        input_tokens: spent.input_tokens.saturating_sub(cached),
        output_tokens: spent.output_tokens,
        cache_creation_input_tokens: spent.cache_creation_tokens,
        cache_read_input_tokens: spent.cache_read_tokens,
    }
}

/// Returns what of the journal and of the tasks cannot be read, as texts for a person. The lines of
/// the journal are checked at their ends only, so that this is fast.
///
/// # Errors
/// `team_not_found`, or `internal_error` if the config or the folder of the tasks cannot be read.
pub async fn unread(records: &TeamRecords) -> Result<Vec<String>, ApiError> {
    let journal = records.journal_fault(LineCheck::Ends).await?;
    let mut unread: Vec<String> =
        journal.iter().map(|(path, fault)| fault_in_words(path, fault)).collect();
    for path in records.torn_tasks().await? {
        unread.push(format!("the task file {} cannot be read", path.display()));
    }
    Ok(unread)
}

fn fault_in_words(path: &Path, fault: &JournalFault) -> String {
    let said = match fault {
        JournalFault::Missing => "it is missing".to_owned(),
        JournalFault::Unreadable(reason) => format!("it cannot be read: {reason}"),
        JournalFault::BadLines(lines) => format!("{lines} of its lines cannot be read"),
    };
    format!("the journal {}: {said}", path.display())
}
