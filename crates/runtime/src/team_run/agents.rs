//! The agents of a run. This module keeps everything that the loop knows about one agent in one
//! place. Data that is still needed stays after the agent's process has ended.
//!
//! A [`RunningAgent`] is removed when its agent ends. A [`KnownAgent`] stays for two reasons. The
//! outcome of the run also counts agents that have ended. And an agent that this run has not
//! started may still send a permission request.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use pitcrew_agent::Event;
use pitcrew_protocol::{
    AgentName, InboxFile, Member, MessageId, PermissionMode, Program, Status, counted,
};
use pitcrew_team::{KnownMode, Team};

use super::client_turns::ClientTurns;
use super::run_machine::EndReason;
use super::spawn_backend::AgentHandle;
use super::subagents::SubagentRun;
use super::usage_totals::Account;
use super::wake::Asked;
use crate::events::RunEvent;
use crate::run::{AgentSummary, Limit, OpenWork, RunLimits};

/// All agents of a run, by name.
#[derive(Default)]
pub(super) struct Agents {
    known: BTreeMap<AgentName, KnownAgent>,
    /// Number of accounts opened so far. An account collects the work and the usage of one agent.
    /// The accounts are listed in the order in which they were opened.
    accounts: usize,
}

/// Everything that the loop knows about one agent.
#[derive(Default)]
pub(super) struct KnownAgent {
    /// The data of the running agent. `None` if the agent does not run.
    running: Option<RunningAgent>,
    /// The agent's account (its work and usage), with the number of the account.
    account: Option<(usize, Account)>,
    /// The agent's last state and number of model calls in earlier runs.
    pub(super) before: BeforeRun,
    /// The first of the two events that make up the agent's departure, if it has happened.
    pub(super) departure: Option<Departure>,
    /// The agent's permission requests that have no answer yet, by request id.
    questions: BTreeMap<String, Asked>,
}

/// The journal's data about an agent from earlier runs.
#[derive(Default)]
pub(super) struct BeforeRun {
    /// The agent's last state, and the reason that was given for this state.
    pub(super) state: Option<(Status, Option<String>)>,
    /// Number of the agent's model calls in earlier runs.
    pub(super) turns: u32,
}

pub(super) struct RunningAgent {
    pub(super) handle: Box<dyn AgentHandle>,
    pub(super) inbox: InboxFile,
    pub(super) kind: AgentKind,
    /// The agent's permission mode, and the config entry that was last checked for a mode.
    pub(super) known_mode: Option<KnownMode>,
    /// The latest known config entry of the agent. `None` if the agent has no entry of its own.
    pub(super) member: Option<Member>,
    /// Number of the agent's model calls, in this run and in earlier runs.
    pub(super) turns: u32,
    /// Whether the agent is able to answer a shutdown request.
    pub(super) answers: Answers,
    /// The final state that the agent itself has reported, although its process has not ended yet.
    pub(super) last_words: Option<(Status, Option<String>)>,
    /// If another client runs the agent: whether the agent is in a turn, as its mail shows.
    pub(super) client_turns: ClientTurns,
    /// If the agent runs in another process: the sender of each message that the agent has not
    /// received yet.
    pub(super) senders: HashMap<MessageId, String>,
}

pub(super) enum AgentKind {
    Lead,
    Teammate { worktree: Option<PathBuf> },
    SubagentRun(Box<SubagentRun>),
}

/// Whether an agent is able to answer a shutdown request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// The agent can answer now.
    Yes,
    /// The agent can answer later. Its current model call waits until the model is available again.
    Later,
    /// The agent cannot continue, so it cannot answer.
    No,
}

/// The first of two events in a teammate's departure. One event is its goodbye message (the
/// approval of its shutdown) to the lead, and the other is its end. The lead is informed only after
/// both events, because only then has the teammate left the team.
pub(super) enum Departure {
    /// The teammate's goodbye message (the approval of its shutdown) has arrived, but the teammate
    /// has not ended.
    Said(MessageId),
    /// The teammate has ended, but its goodbye message (the approval of its shutdown) was not seen
    /// yet. Contains the text for the lead.
    Gone(String),
}

impl RunningAgent {
    /// Creates the data of an agent that has just started, without any data from the config.
    pub(super) fn new(name: &AgentName, handle: Box<dyn AgentHandle>, kind: AgentKind) -> Self {
        Self {
            handle,
            inbox: name.inbox_file(),
            kind,
            known_mode: None,
            member: None,
            turns: 0,
            answers: Answers::Yes,
            last_words: None,
            client_turns: ClientTurns::default(),
            senders: HashMap::new(),
        }
    }

    /// Returns true if another client runs the agent.
    pub(super) fn is_foreign(&self) -> bool {
        self.handle.program() != Program::Pitcrew
    }

    /// Returns true if pitcrew runs the agent in another process. The states and costs of such an
    /// agent are read from the journal.
    pub(super) fn keeps_journal(&self) -> bool {
        self.handle.is_elsewhere() && !self.is_foreign()
    }

    /// Switches the agent to another permission mode and returns the event for the user interface.
    /// An agent in another process reads its mode from the config. A running agent of another
    /// client ignores a mode change in the config.
    pub(super) fn switch(&self, name: &AgentName, mode: PermissionMode) -> RunEvent {
        let agent = name.clone();
        if self.is_foreign() {
            return RunEvent::ModeRecorded { agent, mode };
        }
        self.handle.tell(Event::ModeChanged(mode));
        RunEvent::ModeChanged { agent, mode }
    }

    pub(super) fn is_teammate(&self) -> bool {
        matches!(self.kind, AgentKind::Teammate { .. })
    }

    /// Returns the subagent's data, if the agent is a subagent.
    pub(super) fn subagent(&self) -> Option<&SubagentRun> {
        match &self.kind {
            AgentKind::SubagentRun(subagent) => Some(subagent),
            AgentKind::Lead | AgentKind::Teammate { .. } => None,
        }
    }

    /// Returns mutable access to the subagent's data, if the agent is a subagent.
    pub(super) fn subagent_mut(&mut self) -> Option<&mut SubagentRun> {
        match &mut self.kind {
            AgentKind::SubagentRun(subagent) => Some(subagent),
            AgentKind::Lead | AgentKind::Teammate { .. } => None,
        }
    }

    /// Returns the path of the git worktree, if the agent is a teammate that has one.
    pub(super) fn worktree(self) -> Option<PathBuf> {
        match self.kind {
            AgentKind::Teammate { worktree } => worktree,
            AgentKind::Lead | AgentKind::SubagentRun(_) => None,
        }
    }

    /// Adds one model call to the agent's count.
    pub(super) fn made_call(&mut self) {
        self.turns += 1;
        self.answers = Answers::Yes;
    }

    /// Stops a teammate that cannot answer a shutdown request. Returns true if the teammate was
    /// stopped.
    pub(super) fn stopped_unasked(&self) -> bool {
        let stops = self.is_teammate() && self.answers == Answers::No;
        if stops {
            self.handle.end("it could not answer the request to shut down");
        }
        stops
    }

    /// If the agent has made all the model calls that the run allows each agent, returns the reason
    /// to end the run.
    pub(super) fn used_up(&self, name: &AgentName, limits: RunLimits) -> Option<EndReason> {
        let most = limits.max_turns.filter(|most| self.turns >= *most)?;
        let reason = format!("{name} has used all of its {}", counted(most, "turn"));
        Some(EndReason::Limit(Limit::Turns, reason))
    }

    /// If another client runs the agent and the agent has reached its limit on model calls, returns
    /// the limit. The client itself does not count model calls, so this run must stop the agent. If
    /// the last allowed model call made no tool calls, returns `None`: in this case, the client
    /// makes no further model call by itself.
    pub(super) fn client_used_up(&self, limits: RunLimits, tool_calls: u32) -> Option<u32> {
        let member = self.member.as_ref().filter(|_| self.is_foreign())?;
        let most = limits.turns_of(member)?;
        (self.turns > most || (self.turns == most && tool_calls > 0)).then_some(most)
    }
}

impl KnownAgent {
    /// Withdraws all open permission requests of the agent.
    pub(super) fn ask_no_more(&mut self) {
        for asked in std::mem::take(&mut self.questions).into_values() {
            asked.question.abort();
        }
    }

    /// Stores a permission request of the agent.
    pub(super) fn asks(&mut self, request: String, asked: Asked) {
        self.questions.insert(request, asked);
    }

    /// Removes all data that belongs to the deleted team. The agent itself and its account stay,
    /// because they belong to the run.
    fn forget_team(&mut self) {
        self.ask_no_more();
        (self.before, self.departure) = (BeforeRun::default(), None);
        if let Some(running) = &mut self.running {
            running.last_words = None;
            running.client_turns = ClientTurns::default();
            running.senders.clear();
        }
    }
}

impl Agents {
    /// Returns the data of an agent, if the agent runs.
    pub(super) fn running(&self, name: &AgentName) -> Option<&RunningAgent> {
        self.known.get(name)?.running.as_ref()
    }

    /// Returns mutable access to the data of an agent, if the agent runs.
    pub(super) fn running_mut(&mut self, name: &AgentName) -> Option<&mut RunningAgent> {
        self.known.get_mut(name)?.running.as_mut()
    }

    pub(super) fn is_running(&self, name: &AgentName) -> bool {
        self.running(name).is_some()
    }

    /// Iterates over all running agents, sorted by name.
    pub(super) fn all_running(&self) -> impl Iterator<Item = (&AgentName, &RunningAgent)> {
        self.known.iter().filter_map(|(name, known)| Some((name, known.running.as_ref()?)))
    }

    /// Iterates over all running agents with mutable access, sorted by name.
    pub(super) fn all_running_mut(
        &mut self,
    ) -> impl Iterator<Item = (&AgentName, &mut RunningAgent)> {
        self.known.iter_mut().filter_map(|(name, known)| Some((name, known.running.as_mut()?)))
    }

    /// Iterates over the running teammates, sorted by name.
    pub(super) fn teammates(&self) -> impl Iterator<Item = (&AgentName, &RunningAgent)> {
        self.all_running().filter(|(_, running)| running.is_teammate())
    }

    /// Stores an agent that has started.
    pub(super) fn start(&mut self, name: &AgentName, running: RunningAgent) {
        self.of(name).running = Some(running);
    }

    /// Removes an ended agent from the running agents, and returns its data.
    pub(super) fn end(&mut self, name: &AgentName) -> Option<RunningAgent> {
        self.known.get_mut(name)?.running.take()
    }

    /// Returns the data about an agent. If there is none yet, creates empty data.
    pub(super) fn of(&mut self, name: &AgentName) -> &mut KnownAgent {
        self.known.entry(name.clone()).or_default()
    }

    /// Returns the journal's data about an agent from earlier runs.
    pub(super) fn before(&self, name: &AgentName) -> Option<&BeforeRun> {
        self.known.get(name).map(|known| &known.before)
    }

    /// Returns true if a teammate has sent its goodbye message (the approval of its shutdown) but
    /// has not ended.
    pub(super) fn has_said_goodbye(&self, name: &AgentName) -> bool {
        let departure = self.known.get(name).and_then(|known| known.departure.as_ref());
        matches!(departure, Some(Departure::Said(_)))
    }

    /// Sends an event to the lead, if the lead runs.
    pub(super) fn tell_lead(&self, event: Event) {
        self.tell(&AgentName::lead(), event);
    }

    /// Sends an event to an agent, if the agent runs in this process.
    pub(super) fn tell(&self, name: &AgentName, event: Event) {
        if let Some(running) = self.running(name) {
            running.handle.tell(event);
        }
    }

    /// Calls `act` for each agent in `names` that is running.
    pub(super) fn to_all(&self, names: &[AgentName], act: impl Fn(&dyn AgentHandle)) {
        let running = names.iter().filter_map(|name| self.running(name));
        running.for_each(|running| act(running.handle.as_ref()));
    }

    /// Tells the agent that reads this inbox that there may be new mail.
    pub(super) fn ring(&self, inbox: &InboxFile) {
        if let Some((_, running)) = self.all_running().find(|(_, running)| running.inbox == *inbox)
        {
            running.handle.ring();
        }
    }

    /// Returns true if pitcrew runs this agent in another process.
    pub(super) fn keeps_journal(&self, name: &AgentName) -> bool {
        self.running(name).is_some_and(RunningAgent::keeps_journal)
    }

    /// Returns true if another client runs this agent.
    pub(super) fn is_foreign(&self, name: &AgentName) -> bool {
        self.running(name).is_some_and(RunningAgent::is_foreign)
    }

    /// Returns true if the model calls of this agent must be counted from the journal. That is the
    /// case for a teammate in another process and for a subagent of another client.
    pub(super) fn is_counted_by_journal(&self, name: &AgentName) -> bool {
        let parent = name.as_str().split_once('#').map(|(parent, _)| AgentName::foreign(parent));
        self.keeps_journal(name)
            || self.is_foreign(name)
            || parent.is_some_and(|parent| self.is_foreign(&parent))
    }

    /// Returns true if the journal must be read, because an agent runs in another process or waits
    /// for an answer to a permission request.
    pub(super) fn needs_journal(&self) -> bool {
        let needs = |known: &KnownAgent| {
            !known.questions.is_empty()
                || known.running.as_ref().is_some_and(|running| running.handle.is_elsewhere())
        };
        self.known.values().any(needs)
    }

    /// Checks whether the agents of other clients are in a turn. The loop does this at each change
    /// of an inbox, so that it sees the changes in their order.
    pub(super) async fn look_at_clients(&mut self, team: &Team) {
        for (name, running) in self.all_running_mut() {
            if !running.is_foreign() {
                continue;
            }
            // A client takes its mail first, and sends an idle notice to the lead later. Read the
            // lead's inbox before the client's inbox. For each idle notice that is found, the
            // client's inbox then already shows which mail the client took before the notice.
            let Ok(of_lead) = team.mail(&AgentName::lead()).await else { return };
            let Ok(inbox) = team.mail(name).await else { continue };
            running.client_turns.look(name, &of_lead, &inbox);
        }
    }

    /// Cancels the subagents of this caller for which `which` returns true.
    pub(super) fn drop_subagents(&self, caller: &AgentName, which: impl Fn(&SubagentRun) -> bool) {
        for (_, running) in self.all_running() {
            if running.subagent().is_some_and(|it| it.caller == *caller && which(it)) {
                running.handle.cancel();
            }
        }
    }

    /// Restricts an agent's subagents to what the agent itself is allowed to do in its new mode.
    pub(super) fn narrow_subagents(&mut self, caller: &AgentName, mode: PermissionMode) {
        for (_, running) in self.all_running_mut() {
            if let Some(subagent) = running.subagent_mut()
                && subagent.caller == *caller
                && let Some(mode) = subagent.narrowed(mode)
            {
                running.handle.tell(Event::ModeChanged(mode));
            }
        }
    }

    /// Returns true if a subagent is running in the background.
    pub(super) fn has_subagents_in_background(&self) -> bool {
        self.all_running().any(|(_, it)| it.subagent().is_some_and(SubagentRun::is_in_background))
    }

    /// Removes the data about the deleted team's members, mail and requests.
    pub(super) fn forget_team(&mut self) {
        self.known.values_mut().for_each(KnownAgent::forget_team);
    }
}

/// The permission requests of all agents. Each request id belongs to only one agent.
impl Agents {
    /// Returns the permission request with this id, if it has no answer yet.
    pub(super) fn question(&self, request: &str) -> Option<&Asked> {
        self.known.values().find_map(|known| known.questions.get(request))
    }

    /// Returns the ids of all unanswered permission requests, sorted.
    pub(super) fn open_questions(&self) -> Vec<&str> {
        let ids = self.known.values().flat_map(|known| known.questions.keys());
        let mut ids: Vec<&str> = ids.map(String::as_str).collect();
        ids.sort_unstable();
        ids
    }

    /// Removes and returns the permission request with this id, because it was answered. A person
    /// who is still being asked about this request is no longer asked.
    pub(super) fn answered(&mut self, request: &str) -> Option<Asked> {
        let asked = self.known.values_mut().find_map(|known| known.questions.remove(request))?;
        asked.question.abort();
        Some(asked)
    }
}

/// The accounts of all agents, in the order in which the accounts were opened. An account collects
/// the work and the usage of one agent.
impl Agents {
    /// Returns the account of an agent. If the agent has no account, opens one.
    pub(super) fn account(&mut self, name: &AgentName) -> &mut Account {
        let known = self.known.entry(name.clone()).or_default();
        let (_, account) = known.account.get_or_insert_with(|| {
            self.accounts += 1;
            (self.accounts, Account::new(name))
        });
        account
    }

    /// Returns true if the agent `name` has an account, from this run or from an earlier run.
    pub(super) fn has_account(&self, name: &str) -> bool {
        let known = self.known.get(&AgentName::foreign(name));
        known.is_some_and(|known| known.account.is_some())
    }

    fn accounts(&self) -> impl Iterator<Item = &Account> {
        let accounts = self.known.values().filter_map(|known| known.account.as_ref());
        let in_order: BTreeMap<usize, &Account> =
            accounts.map(|(number, account)| (*number, account)).collect();
        in_order.into_values()
    }

    /// Returns the open work that the accounts show: teammates that did not start, and teammates
    /// that failed.
    pub(super) fn open_work(&self) -> OpenWork {
        let not_started = self.accounts().filter(|account| account.has_not_started());
        let (before, never): (Vec<_>, Vec<_>) =
            not_started.partition(|account| account.summary.turns > 0);
        let names = |accounts: Vec<&Account>| {
            accounts.into_iter().map(|account| account.summary.name.clone()).collect()
        };
        OpenWork {
            left_behind: names(before),
            never_started: names(never),
            failures: self.accounts().filter_map(Account::failure).collect(),
            ..OpenWork::default()
        }
    }

    /// Returns true if no model has answered yet in any run of the team.
    pub(super) fn are_untouched(&self) -> bool {
        self.accounts().all(|account| account.summary.turns == 0)
    }

    /// Changes the accounts after the team was deleted: an agent that counted as stopped and
    /// resumable now counts as stopped for good.
    pub(super) fn nobody_can_be_resumed(&mut self) {
        let accounts = self.known.values_mut().filter_map(|known| known.account.as_mut());
        accounts.for_each(|(_, account)| account.cannot_be_resumed());
    }

    /// Returns the summaries of all agents, in the order in which their accounts were opened.
    pub(super) fn summaries(self) -> Vec<AgentSummary> {
        let accounts = self.known.into_values().filter_map(|known| known.account);
        let in_order: BTreeMap<usize, Account> = accounts.collect();
        in_order.into_values().map(|account| account.summary).collect()
    }
}
