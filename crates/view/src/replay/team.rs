//! The replay of a team, from its records.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_agent::transcript::{Step, read};
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, Task, TeamConfig};
use pitcrew_team::store::JournalEntry;
use pitcrew_team::{Mail, TeamRecords, sent_at_ms};
use tokio::task::spawn_blocking;

use super::first_modes::FirstModes;
use super::journal::{JournalFold, is_state_of};
use super::recorder::{Limits, Recorder};
use super::step_times::StepTimes;
use super::{Clock, Replay};
use crate::client_mail::{client_members, mail_of};
use crate::conversation::Conversation;
use crate::recorded::Recorded;
use crate::running::Running;
use crate::state::{Happened, TeamState, TimelineEntry};
use crate::team_log::{LogEntry, TeamLog};

/// The records of a team from which its replay is made.
struct Records {
    recorded: Recorded,
    config: TeamConfig,
    journal: Vec<JournalEntry>,
    tasks: Vec<Task>,
    log: Vec<LogEntry>,
    steps: Vec<(AgentName, Vec<(i64, Step)>)>,
    /// The members that another client runs, and their mail.
    clients: (BTreeSet<AgentName>, Vec<(AgentName, Mail)>),
    /// Whether a pitcrew process runs the team.
    is_running: bool,
}

/// Something that the records of a team tell.
enum Fact<'a> {
    Journal(&'a JournalEntry),
    Step(&'a AgentName, &'a Step),
    Logged(Box<LogEntry>),
    /// A member that another client runs joined the team.
    Joined(&'a AgentName),
    /// A member that another client runs sent or got a message.
    Mailed(&'a (AgentName, Mail)),
}

impl Replay {
    /// Reads the replay of a team: of one in the archive, one that was stopped, or up to now of one
    /// that runs. It has the conversations of the agents that pitcrew runs.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` if the config or the members cannot be read.
    pub async fn of_records(records: &TeamRecords) -> Result<Self, ApiError> {
        let read = Records::read(records).await?;
        // A long run takes seconds. Other tasks of this thread do not wait for that.
        spawn_blocking(|| read.replay()).await.map_err(|error| {
            ApiError::new(ErrorCode::InternalError, format!("the replay was not made: {error}"))
        })
    }
}

impl Records {
    async fn read(records: &TeamRecords) -> Result<Self, ApiError> {
        let mut recorded = Recorded::read(records).await?;
        recorded.check_records(records).await?;
        let config = records.config_with_former().await?;
        // What cannot be read was named by `Recorded`.
        let (journal, _) = records.journal().await.unwrap_or_default();
        let tasks = records.tasks().await.unwrap_or_default();
        let mut log = TeamLog::default();
        log.know_tasks(&tasks);
        let mut named = Recorded::default();
        let log = named.log(records, log, !journal.is_empty()).await?;
        let steps = steps(records, &journal).await?;
        let members = client_members(&config.members, |name| {
            journal.iter().any(|entry| is_state_of(&entry.event, name))
        });
        let mail = mail_of(records, &members).await;
        let is_running = runs(records, &config).await;
        Ok(Self {
            recorded,
            config,
            journal,
            tasks,
            log,
            steps,
            clients: (members, mail),
            is_running,
        })
    }

    fn replay(self) -> Replay {
        let Self { mut recorded, config, journal, tasks, log, steps, clients, is_running } = self;
        let mut facts: Vec<(i64, Fact<'_>)> = journal
            .iter()
            .map(|entry| (entry.at_ms, Fact::Journal(entry)))
            .chain(log.into_iter().map(|entry| (entry.at_ms, Fact::Logged(Box::new(entry)))))
            .collect();
        let mut modes = FirstModes::of(&config, &journal);
        for (name, steps) in &steps {
            steps.iter().for_each(|(_, step)| modes.read_calls(step));
            facts.extend(steps.iter().map(|(at_ms, step)| (*at_ms, Fact::Step(name, step))));
        }
        let (members, mail) = clients;
        facts.extend(mail.iter().map(|mail| (sent_at_ms(&mail.1), Fact::Mailed(mail))));
        let times = || facts.iter().map(|(at_ms, _)| *at_ms);
        let (first_ms, last_ms) =
            (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        let of_clients = config.members.iter().filter(|member| members.contains(&member.name));
        let joined = of_clients.map(|member| {
            let at_ms = member.joined_at_ms.unwrap_or_default();
            (at_ms.clamp(first_ms, last_ms), Fact::Joined(&member.name))
        });
        facts.splice(..0, joined.collect::<Vec<_>>());
        // Facts of the same time keep their order: the state, then the log, then the conversations.
        facts.sort_by_key(|(at_ms, _)| *at_ms);
        let mut recorder = Recorder::new(Limits::default());
        let mut fold = JournalFold::new(&config, &tasks, (&journal, modes), &members);
        tell(&mut recorder, &mut fold, facts);
        if is_running {
            go_on(&mut recorded.state, &fold.state);
        }
        for agent in &mut recorded.state.agents {
            let last = fold.state.agent(&agent.name);
            agent.mode = agent.mode.take().or_else(|| last?.mode.clone());
        }
        // The records have the end, also where the journal has gaps.
        recorder.state(last_ms, &recorded.state);
        recorder.into_replay(config.name.to_string(), Clock::Recorded, recorded.unread)
    }
}

/// Whether a pitcrew process runs the team. A lease that cannot be read is none.
async fn runs(records: &TeamRecords, config: &TeamConfig) -> bool {
    match records {
        TeamRecords::Live(team) => {
            matches!(Running::of(team, config).await, Ok(Running::ByPitcrew { .. }))
        }
        TeamRecords::Archived(..) => false,
    }
}

/// Changes the last state of a team to that of a team that runs: its agents still do what they did
/// last, as `now` says.
fn go_on(last: &mut TeamState, now: &TeamState) {
    for agent in &mut last.agents {
        if let Some(now) = now.agent(&agent.name) {
            agent.asks.clone_from(&now.asks);
            agent.doing.clone_from(&now.doing);
        }
    }
}

fn tell(recorder: &mut Recorder, fold: &mut JournalFold, facts: Vec<(i64, Fact<'_>)>) {
    let mut conversations: BTreeMap<AgentName, Conversation> = BTreeMap::new();
    let mut entries = 0;
    if let Some((at_ms, _)) = facts.first() {
        recorder.state(*at_ms, &fold.state);
    }
    for (at_ms, fact) in facts {
        match fact {
            Fact::Journal(entry) => {
                fold.add(entry);
                recorder.state(at_ms, &fold.state);
            }
            Fact::Logged(entry) => {
                entries += 1;
                let what = Happened::Logged(entry);
                recorder.happened(at_ms, TimelineEntry { line: entries, what });
            }
            Fact::Joined(name) => {
                fold.known(name);
                recorder.state(at_ms, &fold.state);
            }
            Fact::Mailed(mail) => {
                fold.add_mail(mail);
                recorder.state(at_ms, &fold.state);
            }
            Fact::Step(name, step) => {
                let conversation = conversations.entry(name.clone()).or_default();
                conversation.add_step(step);
                recorder.conversation(at_ms, name, conversation);
            }
        }
    }
}

/// Reads the steps of all transcripts, with their times.
async fn steps(
    records: &TeamRecords,
    journal: &[JournalEntry],
) -> Result<Vec<(AgentName, Vec<(i64, Step)>)>, ApiError> {
    let mut times = StepTimes::of(journal);
    let mut names = records.all_members().await?;
    // Subagents have a conversation and are no members.
    names.extend(times.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
    let mut all = Vec::new();
    for name in names {
        // `Recorded` has named the conversations that cannot be read.
        let Ok(lines) = records.transcript(&name).await else { continue };
        let Ok(read) = read(&lines) else { continue };
        let steps = read.entries.into_iter().map(|entry| entry.step).collect();
        all.push((name.clone(), times.remove(&name).unwrap_or_default().timed(steps)));
    }
    Ok(all)
}
