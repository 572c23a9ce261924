//! Reads the numbers of one team from its files. The host of a running team tells its open questions
//! and the states of its agents.

use std::collections::BTreeMap;
use std::time::Duration;

use pitcrew_protocol::{Status, TaskStatus, TeamDir};
use pitcrew_team::store::{JournalSummary, Spent};
use pitcrew_team::{Team, TeamRecords, sent_at_ms};
use pitcrew_view::host::HostState;
use pitcrew_view::recorded::of_files;

use super::exposition::label;
use super::journal_counts::{JournalCounts, MessageCounts};
use crate::failure::Failure;
use crate::records::{self, OfHost};

/// How long a host may take for its state. After that the files alone are read.
const HOST_PATIENCE: Duration = Duration::from_secs(2);

/// The maximum number of models of a team that have their own series.
const MODELS_MOST: usize = 20;

/// The name for all further models of a team.
const FURTHER_MODELS: &str = "other";

/// The numbers of one team.
#[derive(Debug)]
pub(super) struct TeamReading {
    pub(super) folder: TeamDir,
    /// The agents of a running team by state. `None` if the team does not run.
    pub(super) agents: Option<BTreeMap<&'static str, u64>>,
    pub(super) tasks: BTreeMap<&'static str, u64>,
    /// The open questions. `None` if the team's process does not answer: only it knows them.
    pub(super) questions: Option<Waiting>,
    pub(super) unread: Waiting,
    pub(super) messages: MessageCounts,
    pub(super) used: BTreeMap<String, Spent>,
}

/// Things that wait: their number and the time of the oldest one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) count: u64,
    oldest_ms: Option<i64>,
}

impl Waiting {
    fn add(&mut self, since_ms: i64) {
        self.count = self.count.saturating_add(1);
        // A message without a time has the time 0.
        if since_ms > 0 {
            self.oldest_ms = Some(self.oldest_ms.map_or(since_ms, |oldest| oldest.min(since_ms)));
        }
    }

    fn of(since_ms: impl Iterator<Item = i64>) -> Self {
        let mut waiting = Self::default();
        since_ms.for_each(|since_ms| waiting.add(since_ms));
        waiting
    }

    /// Returns the age of the oldest one in seconds. It is 0 if nothing waits.
    pub(super) fn oldest_seconds(&self, now_ms: i64) -> f64 {
        let age_ms = self.oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest));
        Duration::from_millis(u64::try_from(age_ms).unwrap_or_default()).as_secs_f64()
    }
}

/// Adds up by model what the members used.
fn used_by_model(summary: &JournalSummary) -> BTreeMap<String, Spent> {
    let mut all: BTreeMap<String, Spent> = BTreeMap::new();
    for (model, spent) in summary.members.values().flat_map(|member| &member.spent) {
        let model = label(model);
        let is_further = all.len() >= MODELS_MOST && !all.contains_key(&model);
        let model = if is_further { FURTHER_MODELS.to_owned() } else { model };
        all.entry(model).or_default().add_all(spent);
    }
    all
}

/// Reads the numbers of a team.
///
/// # Errors
/// If a file of the team cannot be read.
pub(super) async fn read(
    counts: &JournalCounts,
    (team, is_running): &(Team, bool),
) -> Result<TeamReading, Failure> {
    let records = TeamRecords::Live(team.clone());
    let config = records.config().await?;
    let (host, questions) = match is_running {
        true => state(&records).await?,
        false => (None, Some(Waiting::default())),
    };
    let mut unread = Waiting::default();
    for member in &config.members {
        team.unread(&member.name).await?.iter().for_each(|mail| unread.add(sent_at_ms(mail)));
    }
    let mut tasks = BTreeMap::from(ALL_TASK_STATES.map(|status| (status.as_str(), 0)));
    for task in records.tasks().await? {
        *tasks.entry(task.status.as_str()).or_default() += 1;
    }
    Ok(TeamReading {
        folder: team.dir().clone(),
        questions,
        agents: host.as_ref().map(agents_by_state),
        tasks,
        unread,
        messages: counts.of(team, config.created_at_ms).await?,
        used: used_by_model(&records.summary().await?),
    })
}

/// All states of tasks, so that a state without tasks has the value 0.
const ALL_TASK_STATES: [TaskStatus; 3] =
    [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed];

/// Asks the host for the state of its team and its open questions. Reads the files if the host does
/// not answer; then the questions are `None`.
async fn state(records: &TeamRecords) -> Result<(Option<HostState>, Option<Waiting>), Failure> {
    let (state, is_silent) = match records::of_host(records, HOST_PATIENCE).await? {
        OfHost::State(state) => (*state, false),
        OfHost::NoHost => (of_files(records).await?, false),
        OfHost::Silent => (of_files(records).await?, true),
    };
    let questions = Waiting::of(state.questions.iter().map(|open| open.since_ms));
    Ok((Some(state), (!is_silent).then_some(questions)))
}

fn agents_by_state(host: &HostState) -> BTreeMap<&'static str, u64> {
    let mut agents = BTreeMap::from(Status::ALL.map(|status| (status.as_str(), 0)));
    for agent in &host.team.agents {
        *agents.entry(agent.status.as_str()).or_default() += 1;
    }
    agents
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::AgentName;

    use super::*;

    #[test]
    fn the_number_of_models_is_bounded_and_no_token_is_lost() {
        let spent = Spent { input_tokens: 10, cache_read_tokens: 4, ..Spent::default() };
        let mut summary = JournalSummary::default();
        let of_bob = summary.members.entry(AgentName::foreign("bob")).or_default();
        for model in 0..100 {
            of_bob.spent.insert(format!("model-{model:03}"), spent);
        }
        let used = used_by_model(&summary);
        assert_eq!(used.len(), MODELS_MOST + 1);
        assert_eq!(used.values().map(|it| it.input_tokens).sum::<u64>(), 1_000);
        assert_eq!(used.values().map(|it| it.cache_read_tokens).sum::<u64>(), 400);
    }

    #[test]
    fn the_oldest_one_gives_the_age() {
        let waiting = Waiting::of([0, 7_000, 5_000].into_iter());
        assert_eq!((waiting.count, waiting.oldest_seconds(6_500)), (3, 1.5));
        assert_eq!(waiting.oldest_seconds(0), 0.0, "a clock that was set back");
        assert_eq!(Waiting::default().oldest_seconds(6_500), 0.0);
    }
}
