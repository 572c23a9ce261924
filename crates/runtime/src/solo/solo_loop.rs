//! The loop of a member that runs alone: the events that wake the loop, and how the loop handles
//! them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, Aborted, BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use pitcrew_agent::transcript::{Grant, ToolCall};
use pitcrew_agent::{Event, Question};
use pitcrew_model::in_dollars;
use pitcrew_protocol::{AgentName, InboxFile, Member, PermissionMode, Status, chain};
use pitcrew_team::store::{Change, Event as Noted, Lease, LeaseName, Watch};
use pitcrew_team::{KnownMode, ModeLook, RefusedMode, Team};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::ends::DropReason;
use super::lead::{Lead, Look};
use super::options::Entry;
use crate::driver::{AgentSender, Announcement, Driver, Report, ReportKind, Start};
use crate::events::{AgentStarted, RunEvent, RunStarted, Spending, waiting_for_model};
use crate::refused_entries::RefusedEntries;
use crate::run::{AnswerReceipt, Asks, Limit, RunEnd, RunLimits, RunOutcome, Stopper, Taken};
use crate::team_run::{
    Account, InProcess, LoopHandle, Pending, PersonSaid, Request, RunContext, SubagentRun,
    SubagentRuns, UsageTotals,
};

/// Time after a member's config entry was restored in which a second removal of the entry counts as
/// intended: another client does not want the member in the team. A member whose removal is
/// intended ends.
const MEANT_WITHIN: Duration = Duration::from_secs(10);

/// The loop of one member, with all the state that the loop owns.
pub(super) struct SoloLoop {
    pub(super) run_context: RunContext,
    pub(super) member: AgentName,
    /// The latest config entry of the member, and the time when this entry was last restored.
    pub(super) entry_seen: EntrySeen,
    pub(super) inbox: InboxFile,
    pub(super) entry: Entry,
    /// Whether a pitcrew lead placed the member. If the process of that lead is gone, such a member
    /// has no lead.
    pub(super) is_placed_by_us: bool,
    pub(super) link: AgentSender,
    pub(super) here: InProcess,
    /// The work and the usage of the member and its subagents.
    pub(super) account: Account,
    pub(super) usage_totals: UsageTotals,
    pub(super) limits: RunLimits,
    pub(super) grace: Duration,
    pub(super) began: Instant,
    pub(super) turns: u32,
    /// The member's permission mode, and the config entry that was last checked for a mode.
    pub(super) known_mode: KnownMode,
    /// The mode that was in the config at the start, if this mode was refused.
    pub(super) refused_mode: Option<RefusedMode>,
    /// Whether the member is in a turn, as last written to the config.
    pub(super) is_active: Option<bool>,
    /// Whether the agent must wait, because the former lead or the expected lead is gone.
    pub(super) parks: bool,
    /// Whether the agent has been told to wait until there is a lead.
    pub(super) is_parked: bool,
    /// The calls about which both the lead and a person at this terminal are being asked, by call
    /// id.
    pub(super) asked: HashMap<String, AbortHandle>,
    /// The running subagents.
    pub(super) at_work: BTreeMap<AgentName, (AgentSender, SubagentRun)>,
    pub(super) subagents: SubagentRuns,
    pub(super) loop_handle: LoopHandle,
    /// The reason why the agent was cancelled. `None` if the agent was not cancelled.
    pub(super) why: Option<DropReason>,
    pub(super) end: Option<RunEnd>,
    pub(super) sources: EventSources,
    /// The lease that keeps other processes from running the member. The lease is released when
    /// this field is dropped.
    pub(super) _lease: Lease,
}

/// What this process knows about the member's own config entry.
#[derive(Debug)]
pub(super) struct EntrySeen {
    pub(super) member: Member,
    /// When the entry was last restored.
    pub(super) put_back_at: Option<Instant>,
}

/// The agent that is ready to start, and the start events for the user interface.
pub(super) struct Beginning {
    pub(super) run: RunStarted,
    pub(super) joins: AgentStarted,
    pub(super) driver: Driver,
    pub(super) start: Start,
    /// A warning about transcript lines that cannot be read.
    pub(super) passed_over: Option<String>,
}

/// The answer of the person at the member's terminal to a permission request.
pub(super) struct SaidHere {
    grant: Grant,
    /// The permission that the person also granted for later calls, as text. The flag says whether
    /// the permission is still valid after a resume.
    always: Option<(String, bool)>,
    receipt: AnswerReceipt,
}

/// The id of a call, and the answer that the person at this terminal gave. `None` means that the
/// person leaves the answer to the lead.
type LocalAnswer = (String, Option<SaidHere>);

/// All event sources of the loop.
pub(super) struct EventSources {
    stopper: Stopper,
    reports: mpsc::Receiver<Report>,
    requests: mpsc::Receiver<Request>,
    pub(super) watch: Option<Watch>,
    refused_entries: RefusedEntries,
    lead: Lead,
    answers: FuturesUnordered<BoxFuture<'static, Result<LocalAnswer, Aborted>>>,
    /// The check of this machine's capabilities. `None` after the check has finished.
    machine: Option<JoinHandle<Vec<String>>>,
    pub(super) grace: Option<Pin<Box<Sleep>>>,
    was_stopped: bool,
    was_killed: bool,
}

/// The event that woke the loop.
enum Wake {
    /// The agent or one of its subagents sent a report.
    Reported(Box<Report>),
    /// The agent requests a new subagent.
    Requested(Request),
    /// The team's files changed.
    Changed(Change),
    /// The lead's process has ended, or another process is becoming the lead.
    LeadLookDue,
    /// The check of the machine has finished.
    MachineKnown(Vec<String>),
    /// The permission request at this terminal is over: the person answered, or the lead answered
    /// first.
    Answered(Result<LocalAnswer, Aborted>),
    /// The user interrupts the turn.
    Interrupted,
    /// The user asks for an orderly end.
    StopAsked,
    /// The user ends the run at once.
    Killed,
    /// The agent had a limited time to end, and this time has passed.
    GraceOver,
    /// The disk refused entries of the journal, or it is time to write them again.
    EntriesRefused,
}

impl EventSources {
    pub(super) fn new(
        team: &Team,
        stopper: Stopper,
        (reports, requests): (mpsc::Receiver<Report>, mpsc::Receiver<Request>),
        watch: Watch,
        lead: Lead,
    ) -> Self {
        Self {
            stopper,
            reports,
            requests,
            watch: Some(watch),
            refused_entries: RefusedEntries::of(team),
            lead,
            answers: FuturesUnordered::new(),
            machine: None,
            grace: None,
            was_stopped: false,
            was_killed: false,
        }
    }

    async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = self.stopper.killed(), if !self.was_killed => Wake::Killed,
            () = self.stopper.stopped(), if !self.was_stopped => Wake::StopAsked,
            () = self.stopper.interrupted() => Wake::Interrupted,
            Some(report) = self.reports.recv() => Wake::Reported(Box::new(report)),
            Some(request) = self.requests.recv() => Wake::Requested(request),
            Some(answer) = self.answers.next() => Wake::Answered(answer),
            // If an event source is `None`, it never wakes the loop.
            Some(change) = OptionFuture::from(self.watch.as_mut().map(StreamExt::next)) => Wake::Changed(change.unwrap_or(Change::Gone)),
            () = self.lead.next_look() => Wake::LeadLookDue,
            Some(known) = OptionFuture::from(self.machine.as_mut()) => Wake::MachineKnown(known.unwrap_or_default()),
            Some(()) = OptionFuture::from(self.grace.as_mut()) => Wake::GraceOver,
            () = self.refused_entries.next() => Wake::EntriesRefused,
        }
    }
}

impl SoloLoop {
    /// Runs until the agent has ended.
    pub(super) async fn live(mut self, beginning: Beginning) -> RunOutcome {
        self.begin(beginning).await;
        let end = loop {
            if let Some(end) = self.end.take() {
                break end;
            }
            let wake = self.sources.next().await;
            self.woken(wake).await;
            if let Some(text) = self.sources.refused_entries.look().await {
                self.warn(text.to_owned()).await;
            }
        };
        self.close(end).await
    }

    async fn begin(&mut self, beginning: Beginning) {
        let Beginning { run, joins, driver, start, passed_over } = beginning;
        self.run_context.sink.tell(RunEvent::Started(run)).await;
        // Check the machine in the background, because the agent can start without the result.
        self.sources.machine = Some(self.run_context.look_at_machine());
        for text in self.run_context.warnings().into_iter().chain(passed_over) {
            self.warn(text).await;
        }
        self.run_context.sink.tell(RunEvent::AgentStarted(joins)).await;
        self.lead_changed().await;
        let config = self.run_context.team.config().await;
        let trust = self.sources.lead.trust().borrow().clone();
        if let Some(text) = config.ok().and_then(|config| trust.caution(&config)) {
            self.warn(text).await;
        }
        self.tell_refused_mode().await;
        self.here.run(&self.member, driver, start);
    }

    async fn woken(&mut self, wake: Wake) {
        match wake {
            Wake::Reported(report) if report.agent == self.member => {
                self.reported(report.kind).await
            }
            Wake::Reported(report) => self.subagent_reported(report.agent, report.kind).await,
            Wake::Requested(request) => self.requested(request).await,
            Wake::Changed(change) => self.changed(change).await,
            Wake::LeadLookDue => self.lead_changed().await,
            Wake::MachineKnown(warnings) => {
                self.sources.machine = None;
                for text in warnings {
                    self.warn(text).await;
                }
            }
            Wake::Answered(Ok((call, Some(said)))) => self.answered_here(call, said).await,
            Wake::Answered(Ok((_, None)) | Err(Aborted)) => {}
            Wake::Interrupted => {
                self.link.tell(Event::Interrupted);
                self.drop_subagents();
            }
            Wake::StopAsked => {
                self.sources.was_stopped = true;
                self.drop_agent(DropReason::Interrupted);
            }
            Wake::Killed => {
                (self.sources.was_stopped, self.sources.was_killed) = (true, true);
                self.drop_agent(DropReason::Interrupted);
            }
            Wake::GraceOver => self.end = Some(self.end_of_drop()),
            // The loop looks at the refused entries after each event.
            Wake::EntriesRefused => {}
        }
    }

    pub(super) async fn warn(&mut self, text: String) {
        tracing::warn!("{text}");
        self.run_context.sink.tell(RunEvent::Warning { text }).await;
    }

    /// Checks who leads the team. A new lead may have signed mail and modes before this process
    /// knew its key. Such mail and modes are verified again before the agent continues, because the
    /// new lead may have revoked permissions that the former lead gave.
    async fn lead_changed(&mut self) {
        if self.look_for_lead().await {
            self.link.ring();
            let Ok(config) = self.run_context.team.config().await else { return };
            if let Some(member) = config.member(self.member.as_str()) {
                let look = self.known_mode.look_again(&self.as_reader(), member);
                self.heed_mode(look).await;
            }
        }
        self.park_or_go_on();
        self.tell_refused_mode().await;
    }

    /// Makes the agent wait while the former lead or the expected lead is gone. Lets the agent
    /// continue when there is a lead.
    fn park_or_go_on(&mut self) {
        if self.parks != self.is_parked {
            self.is_parked = self.parks;
            self.link.tell(if self.parks { Event::Parked } else { Event::Unparked });
        }
    }

    /// Reports that a mode in the config was refused at the start. While the lead is changing, this
    /// function reports nothing, because the mode may still be accepted.
    async fn tell_refused_mode(&mut self) {
        if self.sources.lead.is_changing() {
            return;
        }
        if let Some(refused) = self.refused_mode.take().filter(|_| self.known_mode.is_refused()) {
            self.refuse_mode(&refused).await;
        }
    }

    /// Returns the team handle that verifies signatures with the currently trusted keys.
    fn as_reader(&self) -> Team {
        self.run_context.team.clone().trusting(self.sources.lead.trust().borrow().clone())
    }

    /// Checks who leads the team, and whether the agent must wait. Returns true if the set of
    /// trusted keys has changed.
    async fn look_for_lead(&mut self) -> bool {
        let trust = self.sources.lead.trust();
        let before = trust.borrow().clone();
        let was_led = self.sources.lead.is_known();
        let is_led = match self.sources.lead.look(&self.run_context.team).await {
            Ok(Look::Led) => true,
            Ok(Look::Nobody) => false,
            Ok(Look::Refused(refused)) => {
                self.warn(format!("the new lead is not followed: {refused}")).await;
                false
            }
            Err(error) => {
                self.warn(format!("the team's lead cannot be determined: {}", chain(&error))).await;
                return false;
            }
        };
        self.parks = !is_led && (self.is_parked || was_led || self.is_placed_by_us);
        *trust.borrow() != before
    }

    async fn changed(&mut self, change: Change) {
        match change {
            Change::Inbox(inbox) if inbox == self.inbox => self.link.ring(),
            Change::Config => self.config_changed().await,
            Change::Lease(LeaseName::Run) => self.lead_changed().await,
            Change::Inbox(_)
            | Change::Tasks
            | Change::Journal
            | Change::Lease(LeaseName::Member(_)) => {}
            Change::Unsure => {
                self.link.ring();
                self.lead_changed().await;
                self.config_changed().await;
            }
            Change::Unwatched { reason } => {
                self.warn(format!("{reason}; changes are looked for every second")).await
            }
            Change::Gone => {
                self.sources.watch = None;
                self.drop_agent(DropReason::Gone);
            }
        }
    }

    /// Tells the agent about mode changes that another process made. Ends the agent if it was
    /// removed from the team.
    async fn config_changed(&mut self) {
        let Ok(config) = self.run_context.team.config().await else { return };
        let Some(member) = config.member(self.member.as_str()) else {
            return self.is_missing().await;
        };
        self.entry_seen.member = member.clone();
        // A new lead may have signed the mode of this member. A new lead takes the lease of the run
        // before it signs anything, so read that lease now.
        if !self.as_reader().vouches_for_mode(member) {
            if self.look_for_lead().await {
                self.link.ring();
            }
            if self.sources.lead.is_changing() {
                return self.park_or_go_on();
            }
        }
        let look = self.known_mode.look_again(&self.as_reader(), member);
        self.heed_mode(look).await;
        self.park_or_go_on();
    }

    /// Handles the case that the member's config entry is missing. Usually another client wrote an
    /// outdated copy of the config, so this function restores the entry. But another client can
    /// also remove a member on purpose, and it records no reason for that. The member therefore
    /// also ends if it has approved its shutdown, or if no pitcrew lead placed it and its entry
    /// disappears again soon after it was restored.
    async fn is_missing(&mut self) {
        let is_leaving = self.account.summary.state == Status::ShutdownRequested;
        let is_meant = self.entry_seen.put_back_at.is_some_and(|at| at.elapsed() < MEANT_WITHIN)
            && !self.is_placed_by_us;
        if !is_leaving && !is_meant {
            match self.run_context.team.mend_members(vec![self.entry_seen.member.clone()]).await {
                Ok(mended) if !mended.put_back.is_empty() => {
                    self.entry_seen.put_back_at = Some(Instant::now());
                    let text = "another program wrote an older config.json and so dropped this member; it is put back";
                    return self.warn(text.to_owned()).await;
                }
                Ok(_) => {}
                Err(error) => {
                    return self
                        .warn(format!("the members of the team cannot be read: {error}"))
                        .await;
                }
            }
            // The lead may have restored the entry already.
            let config = self.run_context.team.config().await;
            if config.is_ok_and(|config| config.member(self.member.as_str()).is_some()) {
                return;
            }
        }
        self.link.tell(Event::Killed { reason: "it was removed from the team".to_owned() });
    }

    async fn heed_mode(&mut self, look: ModeLook) {
        match look {
            ModeLook::Same => {}
            ModeLook::Changed(mode) => {
                if let Some(mode) = PermissionMode::named(&mode) {
                    self.link.tell(Event::ModeChanged(mode));
                    self.narrow_subagents(mode);
                    self.run_context
                        .sink
                        .tell(RunEvent::ModeChanged { agent: self.member.clone(), mode })
                        .await;
                }
            }
            ModeLook::Refused(refused) => self.refuse_mode(&refused).await,
        }
    }

    /// Warns the user that a member's mode in the config was refused, and writes this to the
    /// journal.
    async fn refuse_mode(&mut self, refused: &RefusedMode) {
        self.run_context.team.note_refused_mode(&self.member, refused).await;
        self.warn(refused.to_string()).await;
    }

    async fn reported(&mut self, kind: ReportKind) {
        match kind {
            ReportKind::Announced(announcement) => self.announced(announcement).await,
            ReportKind::WaitsForModel { reason, delay } => {
                // Write to the journal that the member waits for its model. The lead's process
                // reads this there.
                let detail = waiting_for_model(&reason, delay);
                self.run_context.note_state(&self.member, Status::Active, Some(detail)).await;
            }
            ReportKind::Spent(spending) => {
                self.turns += 1;
                self.spent(&spending).await;
            }
            // A teammate receives no frame (structured message) that the loop must handle. Only
            // tell the agent that nothing more is done with this message.
            ReportKind::Referred(mail) => self.link.tell(Event::Settled(vec![mail.id])),
            ReportKind::Asks { call, question, folder } => self.ask_here(call, question, folder),
            // Only subagents are resumed from memory, so the member's own conversation is not
            // stored here.
            ReportKind::Remembers(_) => {}
            ReportKind::Settled { call, refused } => {
                if let Some(question) = self.asked.remove(&call) {
                    question.abort();
                }
                let agent = self.member.clone();
                self.run_context
                    .sink
                    .tell(RunEvent::PermissionAnswered { agent, call, refused, would_allow: None })
                    .await;
            }
            ReportKind::UsedUp => self.used_up(),
            ReportKind::Broke { reason } => {
                self.ended(Status::Failed, Some(reason.clone()), None).await;
                self.end = Some(RunEnd::Broken { reason });
            }
            ReportKind::Looped { reason, text } => {
                self.ended(Status::Failed, Some(reason), text).await
            }
            ReportKind::Ended { status, reason, text } => self.ended(status, reason, text).await,
            // Only a lead can be resumed after its model was unavailable. A member counts as
            // failed.
            ReportKind::Parked { reason, .. } => {
                self.ended(Status::Failed, Some(reason), None).await
            }
            ReportKind::Dropped => self.end = Some(self.end_of_drop()),
        }
    }

    /// Writes a model call of the member or of its subagent to the journal, where the lead reads
    /// the member's cost. Adds the call to the totals, and cancels the agent if the cost limit is
    /// reached.
    pub(super) async fn spent(&mut self, spending: &Spending) {
        self.run_context.note_turn(&self.member, spending).await;
        self.account.spend(spending, &mut self.usage_totals);
        if let Some(most) =
            self.limits.max_cost_usd.filter(|most| self.usage_totals.cost_usd() >= *most)
        {
            self.drop_agent(DropReason::Limit(
                Limit::Cost,
                format!("it has reached its cost limit of {}", in_dollars(most)),
            ));
        }
    }

    async fn announced(&mut self, announcement: Announcement) {
        let Announcement { status, detail, fault: _, until_noted } = announcement;
        self.account.note_state(status, detail.clone());
        // A member that has reached its limit becomes idle, but the lead must not believe that the
        // work is finished. The real reason is reported when the member ends.
        if matches!(self.why, Some(DropReason::Limit(..))) {
            return;
        }
        self.run_context.note_state(&self.member, status, detail).await;
        drop(until_noted);
        match status {
            Status::Active | Status::ShutdownRequested => self.set_active(true).await,
            Status::Idle | Status::AwaitingPlanApproval | Status::Parked => {
                self.set_active(false).await
            }
            Status::Pending | Status::Completed | Status::Failed | Status::Killed => {}
        }
    }

    /// Records in the config whether the member is in a turn, because other clients read this from
    /// the config.
    pub(super) async fn set_active(&mut self, is_active: bool) {
        if self.is_active == Some(is_active) {
            return;
        }
        match self.run_context.team.set_active(&self.member, is_active).await {
            Ok(()) => self.is_active = Some(is_active),
            Err(error) => {
                tracing::debug!(agent = %self.member, %error, "the config does not say whether it is active")
            }
        }
    }

    /// Handles the answer of the person at this terminal. A permission for later calls applies to
    /// this member only, and the lead learns of this permission from the journal.
    async fn answered_here(&mut self, call: String, said: SaidHere) {
        let SaidHere { grant, always, mut receipt } = said;
        if let Some((what, lasts)) = always {
            let member = self.member.clone();
            // Write the permission to the journal before the answer is passed on. After the answer,
            // the lead may have no reason to read the journal again.
            self.run_context
                .team
                .note([Noted::AllowedAlways { member: member.clone(), what: what.clone(), lasts }])
                .await;
            self.run_context.sink.tell(RunEvent::AllowedAlways { agent: member, what }).await;
        }
        self.link.tell(Event::Answered { call, grant });
        receipt.give(Ok(Taken::Written));
    }

    /// Gets an answer to a permission request on this side too: from the person at this terminal,
    /// or from the policy [`Asks::Allow`]. The lead has already received the request by mail. With
    /// [`Asks::Deny`], only the lead answers.
    fn ask_here(&mut self, call: ToolCall, question: Question, folder: PathBuf) {
        let pending = Pending::of_ours(self.member.clone(), &call, question, folder);
        let id = call.id.clone();
        let asking = self.run_context.asking.clone();
        let answer: BoxFuture<'static, LocalAnswer> = match asking.asks().clone() {
            Asks::Deny => return,
            Asks::Allow => {
                let grant = Grant::Allowed { input: None, updates: Vec::new() };
                Box::pin(async move {
                    (id, Some(SaidHere { grant, always: None, receipt: AnswerReceipt::default() }))
                })
            }
            Asks::Person(person) => Box::pin(async move {
                let tool = pending.tool.clone();
                let said = asking.ask(person, pending).await;
                let here = |PersonSaid { grant, always, receipt }| SaidHere {
                    grant,
                    receipt,
                    always: always.map(|it| (it.allows(&tool), it.lasts())),
                };
                (id, said.map(here))
            }),
        };
        let (handle, registration) = AbortHandle::new_pair();
        self.asked.insert(call.id, handle);
        self.sources.answers.push(Box::pin(Abortable::new(answer, registration)));
    }
}
