//! The agents of a run: everything that the loop knows of one agent is in one place, and outlives
//! its process where it must.
//!
//! A [`RunningAgent`] ends with its agent. A [`KnownAgent`] stays: the outcome of the run counts an
//! agent that has ended, and an agent may ask something that this run has not started.

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
    /// How many accounts were opened; they are told in that order.
    accounts: usize,
}

/// Everything that is known of one agent.
#[derive(Default)]
pub(super) struct KnownAgent {
    /// The agent, as long as it runs.
    running: Option<RunningAgent>,
    /// What it did and used, with the number of its account.
    account: Option<(usize, Account)>,
    /// Its state and its model calls in the runs before this one.
    pub(super) before: BeforeRun,
    /// How much of its departure was seen.
    pub(super) departure: Option<Departure>,
    /// Its permission requests that somebody is being asked about, by their ids.
    questions: BTreeMap<String, Asked>,
}

/// What the journal says of an agent from the runs before this one.
#[derive(Default)]
pub(super) struct BeforeRun {
    /// Its last state, and the reason that was given.
    pub(super) state: Option<(Status, Option<String>)>,
    /// Its model calls.
    pub(super) turns: u32,
}

/// An agent that runs.
pub(super) struct RunningAgent {
    pub(super) handle: Box<dyn AgentHandle>,
    pub(super) inbox: InboxFile,
    pub(super) kind: AgentKind,
    /// Its mode, as far as the config may decide that.
    pub(super) known_mode: Option<KnownMode>,
    /// Its entry in the config, as it was seen last; none for an agent that has no entry of its
    /// own.
    pub(super) member: Option<Member>,
    /// Its model calls, in this run and in those before.
    pub(super) turns: u32,
    /// Whether the agent can answer a shutdown request.
    pub(super) answers: Answers,
    /// Its final state by its own report; its process has not ended yet.
    pub(super) last_words: Option<(Status, Option<String>)>,
    /// The turns of another client, by its mail.
    pub(super) client_turns: ClientTurns,
    /// Who sent the messages that are on their way to it, where it lives elsewhere.
    pub(super) senders: HashMap<MessageId, String>,
}

/// The kind of an agent.
pub(super) enum AgentKind {
    Lead,
    Teammate { worktree: Option<PathBuf> },
    SubagentRun(Box<SubagentRun>),
}

/// Whether an agent can answer a shutdown request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// It can.
    Yes,
    /// The agent can answer once its model is available again. Its call waits for that.
    Later,
    /// It cannot go on.
    No,
}

/// A teammate that shuts down writes to the lead, and it ends. The lead learns of it when both are
/// seen, so that it finds the team without the teammate.
pub(super) enum Departure {
    /// Its message has arrived, but the agent has not ended.
    Said(MessageId),
    /// It has ended, and its message was not seen; the text for the lead.
    Gone(String),
}

impl RunningAgent {
    /// An agent that has just been started, of which the config says nothing.
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

    /// Whether another client runs the agent.
    pub(super) fn is_foreign(&self) -> bool {
        self.handle.program() != Program::Pitcrew
    }

    /// Whether the agent is one of ours elsewhere, so that its states and costs are read in the
    /// journal.
    pub(super) fn keeps_journal(&self) -> bool {
        self.handle.is_elsewhere() && !self.is_foreign()
    }

    /// Switches the agent to another permission mode and returns the event to show. An agent in
    /// another process reads its mode from the config. Another client ignores a mode change there
    /// while it runs.
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

    /// The agent as a subagent.
    pub(super) fn subagent(&self) -> Option<&SubagentRun> {
        match &self.kind {
            AgentKind::SubagentRun(subagent) => Some(subagent),
            AgentKind::Lead | AgentKind::Teammate { .. } => None,
        }
    }

    /// The agent as a subagent, to change it.
    pub(super) fn subagent_mut(&mut self) -> Option<&mut SubagentRun> {
        match &mut self.kind {
            AgentKind::SubagentRun(subagent) => Some(subagent),
            AgentKind::Lead | AgentKind::Teammate { .. } => None,
        }
    }

    /// The worktree of a teammate.
    pub(super) fn worktree(self) -> Option<PathBuf> {
        match self.kind {
            AgentKind::Teammate { worktree } => worktree,
            AgentKind::Lead | AgentKind::SubagentRun(_) => None,
        }
    }

    /// Counts a model call.
    pub(super) fn made_call(&mut self) {
        self.turns += 1;
        self.answers = Answers::Yes;
    }

    /// Stops a teammate that cannot answer a request to shut down. Answers whether it was stopped.
    pub(super) fn stopped_unasked(&self) -> bool {
        let stops = self.is_teammate() && self.answers == Answers::No;
        if stops {
            self.handle.end("it could not answer the request to shut down");
        }
        stops
    }

    /// Why the run ends, when the agent has made all the model calls that the run gives to each
    /// agent.
    pub(super) fn used_up(&self, name: &AgentName, limits: RunLimits) -> Option<EndReason> {
        let most = limits.max_turns.filter(|most| self.turns >= *most)?;
        let reason = format!("{name} has used all of its {}", counted(most, "turn"));
        Some(EndReason::Limit(Limit::Turns, reason))
    }

    /// The limit of another client that has made all the model calls that it may make. It counts
    /// none itself: it goes on when its latest call ended in calls of tools.
    pub(super) fn client_used_up(&self, limits: RunLimits, tool_calls: u32) -> Option<u32> {
        let member = self.member.as_ref().filter(|_| self.is_foreign())?;
        let most = limits.turns_of(member)?;
        (self.turns > most || (self.turns == most && tool_calls > 0)).then_some(most)
    }
}

impl KnownAgent {
    /// Takes its questions back: it has ended, and nobody is asked for it any more.
    pub(super) fn ask_no_more(&mut self) {
        for asked in std::mem::take(&mut self.questions).into_values() {
            asked.question.abort();
        }
    }

    /// Keeps a question of its.
    pub(super) fn asks(&mut self, request: String, asked: Asked) {
        self.questions.insert(request, asked);
    }

    /// Forgets everything that belongs to a deleted team. The agent and its account belong to the
    /// run.
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
    /// An agent that runs.
    pub(super) fn running(&self, name: &AgentName) -> Option<&RunningAgent> {
        self.known.get(name)?.running.as_ref()
    }

    /// An agent that runs, to change it.
    pub(super) fn running_mut(&mut self, name: &AgentName) -> Option<&mut RunningAgent> {
        self.known.get_mut(name)?.running.as_mut()
    }

    pub(super) fn is_running(&self, name: &AgentName) -> bool {
        self.running(name).is_some()
    }

    /// All agents that run, by name.
    pub(super) fn all_running(&self) -> impl Iterator<Item = (&AgentName, &RunningAgent)> {
        self.known.iter().filter_map(|(name, known)| Some((name, known.running.as_ref()?)))
    }

    /// All agents that run, by name, to change them.
    pub(super) fn all_running_mut(
        &mut self,
    ) -> impl Iterator<Item = (&AgentName, &mut RunningAgent)> {
        self.known.iter_mut().filter_map(|(name, known)| Some((name, known.running.as_mut()?)))
    }

    /// The teammates that run, by name.
    pub(super) fn teammates(&self) -> impl Iterator<Item = (&AgentName, &RunningAgent)> {
        self.all_running().filter(|(_, running)| running.is_teammate())
    }

    /// Takes note that an agent runs from now on.
    pub(super) fn start(&mut self, name: &AgentName, running: RunningAgent) {
        self.of(name).running = Some(running);
    }

    /// Takes note that an agent runs no more.
    pub(super) fn end(&mut self, name: &AgentName) -> Option<RunningAgent> {
        self.known.get_mut(name)?.running.take()
    }

    /// What is known of an agent, also of one that does not run.
    pub(super) fn of(&mut self, name: &AgentName) -> &mut KnownAgent {
        self.known.entry(name.clone()).or_default()
    }

    /// What the journal says of an agent from the runs before.
    pub(super) fn before(&self, name: &AgentName) -> Option<&BeforeRun> {
        self.known.get(name).map(|known| &known.before)
    }

    /// Whether a teammate has said goodbye and has not ended.
    pub(super) fn has_said_goodbye(&self, name: &AgentName) -> bool {
        let departure = self.known.get(name).and_then(|known| known.departure.as_ref());
        matches!(departure, Some(Departure::Said(_)))
    }

    /// Tells the lead something, if it runs.
    pub(super) fn tell_lead(&self, event: Event) {
        self.tell(&AgentName::lead(), event);
    }

    /// Tells an agent something, if it runs in this process.
    pub(super) fn tell(&self, name: &AgentName, event: Event) {
        if let Some(running) = self.running(name) {
            running.handle.tell(event);
        }
    }

    /// Does the same to each of these agents that runs.
    pub(super) fn to_all(&self, names: &[AgentName], act: impl Fn(&dyn AgentHandle)) {
        let running = names.iter().filter_map(|name| self.running(name));
        running.for_each(|running| act(running.handle.as_ref()));
    }

    /// Lets whoever reads that inbox look into it.
    pub(super) fn ring(&self, inbox: &InboxFile) {
        if let Some((_, running)) = self.all_running().find(|(_, running)| running.inbox == *inbox)
        {
            running.handle.ring();
        }
    }

    /// Whether an agent is one of ours in a process of its own.
    pub(super) fn keeps_journal(&self, name: &AgentName) -> bool {
        self.running(name).is_some_and(RunningAgent::keeps_journal)
    }

    /// Whether an agent is another client's.
    pub(super) fn is_foreign(&self, name: &AgentName) -> bool {
        self.running(name).is_some_and(RunningAgent::is_foreign)
    }

    /// Whether a model call in the journal belongs to a teammate in another process, or to a
    /// client's subagent.
    pub(super) fn is_counted_by_journal(&self, name: &AgentName) -> bool {
        let parent = name.as_str().split_once('#').map(|(parent, _)| AgentName::foreign(parent));
        self.keeps_journal(name)
            || self.is_foreign(name)
            || parent.is_some_and(|parent| self.is_foreign(&parent))
    }

    /// Whether something of an agent is to be read in the journal.
    pub(super) fn needs_journal(&self) -> bool {
        let needs = |known: &KnownAgent| {
            !known.questions.is_empty()
                || known.running.as_ref().is_some_and(|running| running.handle.is_elsewhere())
        };
        self.known.values().any(needs)
    }

    /// Looks at the turns of other clients, at each change of an inbox, so that the order of
    /// changes is seen.
    pub(super) async fn look_at_clients(&mut self, team: &Team) {
        for (name, running) in self.all_running_mut() {
            if !running.is_foreign() {
                continue;
            }
            // The lead's inbox is read first: a notice in it follows on mail that is taken.
            let Ok(of_lead) = team.mail(&AgentName::lead()).await else { return };
            let Ok(inbox) = team.mail(name).await else { continue };
            running.client_turns.look(name, &of_lead, &inbox);
        }
    }

    /// Cancels the subagents of an agent that match `which`.
    pub(super) fn drop_subagents(&self, caller: &AgentName, which: impl Fn(&SubagentRun) -> bool) {
        for (_, running) in self.all_running() {
            if running.subagent().is_some_and(|it| it.caller == *caller && which(it)) {
                running.handle.cancel();
            }
        }
    }

    /// Restricts an agent's subagents to what the agent itself may do in its new mode.
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

    /// Whether any background subagent is running.
    pub(super) fn has_subagents_in_background(&self) -> bool {
        self.all_running().any(|(_, it)| it.subagent().is_some_and(SubagentRun::is_in_background))
    }

    /// Forgets the members, the mail and the requests of a deleted team.
    pub(super) fn forget_team(&mut self) {
        self.known.values_mut().for_each(KnownAgent::forget_team);
    }
}

/// The permission requests of all agents; an id is one agent's.
impl Agents {
    /// The request of that id, while it has no answer.
    pub(super) fn question(&self, request: &str) -> Option<&Asked> {
        self.known.values().find_map(|known| known.questions.get(request))
    }

    /// The ids of all that have no answer, in order.
    pub(super) fn open_questions(&self) -> Vec<&str> {
        let ids = self.known.values().flat_map(|known| known.questions.keys());
        let mut ids: Vec<&str> = ids.map(String::as_str).collect();
        ids.sort_unstable();
        ids
    }

    /// Takes the request of that id, which has its answer, and nobody else is asked.
    pub(super) fn answered(&mut self, request: &str) -> Option<Asked> {
        let asked = self.known.values_mut().find_map(|known| known.questions.remove(request))?;
        asked.question.abort();
        Some(asked)
    }
}

/// The accounts of all agents, in the order in which they were opened.
impl Agents {
    /// The account of an agent, which is opened when there is none.
    pub(super) fn account(&mut self, name: &AgentName) -> &mut Account {
        let known = self.known.entry(name.clone()).or_default();
        let (_, account) = known.account.get_or_insert_with(|| {
            self.accounts += 1;
            (self.accounts, Account::new(name))
        });
        account
    }

    /// Whether an account of that name exists, from this run or an earlier one.
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

    /// What of the work is open by the accounts: teammates that did not start, and failures.
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

    /// Whether no model has answered yet.
    pub(super) fn are_untouched(&self) -> bool {
        self.accounts().all(|account| account.summary.turns == 0)
    }

    /// Corrects the accounts after the team was deleted: nobody can be resumed any more.
    pub(super) fn nobody_can_be_resumed(&mut self) {
        let accounts = self.known.values_mut().filter_map(|known| known.account.as_mut());
        accounts.for_each(|(_, account)| account.cannot_be_resumed());
    }

    /// The summaries of all agents that ever ran, in order of their start.
    pub(super) fn summaries(self) -> Vec<AgentSummary> {
        let accounts = self.known.into_values().filter_map(|known| known.account);
        let in_order: BTreeMap<usize, Account> = accounts.collect();
        in_order.into_values().map(|account| account.summary).collect()
    }
}
