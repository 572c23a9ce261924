//! The course of a run, as a state machine without I/O. The state machine decides when the team's
//! mail is checked again, when the lead is woken or reminded, and when the run is over. It also
//! decides the steps in which the team is shut down. It knows only states, names and observations
//! about the mail. The team's loop carries out its decisions.

mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pitcrew_protocol::{AgentName, InboxFile, Status};

pub(super) use self::look::{ClientSeen, MateSeen};

use self::look::Wait;
use crate::run::{Limit, OpenWork, Shortfall};
use pitcrew_agent::transcript::AnswerFault;

/// The reason why a team is shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The work is done.
    Finished,
    /// The user stopped the run. A later run can resume the team.
    Interrupted,
    /// The user ended the team.
    ShutDown,
    /// All agents are idle, and the work is incomplete.
    Unfinished(Shortfall, OpenWork),
    /// The run reached a limit. The text describes the limit.
    Limit(Limit, String),
    /// A model is unavailable, and nothing can continue without this model. It is the lead's model,
    /// or the model of a teammate whose work all others wait for.
    ModelUnavailable(String),
    /// The lead cannot continue. Contains the reason.
    LeadFailed(String),
    /// Another process deleted the team.
    Gone,
}

impl EndReason {
    /// Returns the reason as text.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Finished => "the work is done".to_owned(),
            Self::Interrupted => "the user stopped the run".to_owned(),
            Self::ShutDown => "the user shut the team down".to_owned(),
            Self::Unfinished(shortfall, _) => shortfall.in_words().to_owned(),
            Self::Limit(_, reason) => reason.clone(),
            Self::ModelUnavailable(reason) => format!("a model is unavailable: {reason}"),
            Self::LeadFailed(reason) => format!("the lead cannot go on: {reason}"),
            Self::Gone => {
                "the team's files were taken away while it ran, by something else than this run"
                    .to_owned()
            }
        }
    }

    /// Returns true if a later run can resume the team. In that case, no member is removed from the
    /// team at the end.
    pub(super) fn is_resumable(&self) -> bool {
        match self {
            Self::Interrupted
            | Self::Unfinished(..)
            | Self::Limit(..)
            | Self::ModelUnavailable(_)
            | Self::LeadFailed(_) => true,
            Self::Finished | Self::ShutDown | Self::Gone => false,
        }
    }
}

/// An input of the run's state machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RunInput {
    /// A teammate was started.
    Joined(AgentName),
    /// An agent's state changed, or was reported again.
    Announced(AgentName, Status),
    /// A teammate is idle because its model is unavailable. The text is the reason.
    Unavailable(AgentName, String),
    /// A teammate has used all turns that it is allowed to take.
    UsedUp(AgentName),
    /// A teammate has left the run.
    Left(AgentName),
    /// The lead gave its last answer of a turn. Contains what is wrong with the answer, if anything
    /// is wrong.
    LeadAnswered(Option<AnswerFault>),
    /// The lead was sent a message. It will start a turn when it reads the message.
    LeadTold,
    /// The user interrupted an agent's turn.
    Interrupted(AgentName),
    /// The lead ended.
    LeadEnded(Status, Option<String>),
    /// The teammates' mail was checked. Contains what was observed, sorted by teammate name.
    Looked(Vec<MateSeen>),
    /// The loop has processed all reports that agents had sent before [`RunAction::HearReports`]
    /// was carried out.
    ReportsHeard {
        /// Whether a subagent runs in the background, or a person is asked about a plan.
        is_waiting: bool,
    },
    /// An inbox changed.
    InboxChanged(InboxFile),
    /// Some inbox may have changed, and it is unknown which one.
    MailUnsure,
    /// The run has waited long enough for a client ([`RunAction::AwaitTurn`] or
    /// [`RunAction::AwaitGoodbye`]).
    WaitOver,
    /// The open work that the team's files show, together with the teammates that never started.
    Stock(OpenWork),
    /// Somebody asked to end the run. Contains the reason for the end.
    EndAsked(EndReason),
    /// The time limit of the current shutdown step has passed.
    GraceOver,
}

/// An action that the loop must carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunAction {
    /// Check the mail of the teammates. The loop then answers with [`RunInput::Looked`].
    LookAround,
    /// Tell a teammate that there may be mail in its inbox.
    Ring(AgentName),
    /// A client may have begun a turn. Wait for the time within which the config would show that
    /// turn. The loop then answers with [`RunInput::WaitOver`].
    AwaitTurn,
    /// Wait for a client's answer to a shutdown request, at most for this time. The loop then
    /// answers with [`RunInput::WaitOver`].
    AwaitGoodbye(Duration),
    /// Process all reports that agents have already sent. The loop then answers with
    /// [`RunInput::ReportsHeard`].
    HearReports,
    /// Wake the lead. The lead then starts a turn, or reports again that it is idle.
    WakeLead,
    /// Collect the open work. The loop then answers with [`RunInput::Stock`].
    TakeStock,
    /// Remind the lead of what it must still do before the run ends.
    Remind(Reminder),
    /// Send a shutdown request to each of these teammates, and start the time limit of this
    /// shutdown step.
    AskToShutDown(Vec<AgentName>),
    /// Stop these teammates immediately, and start the time limit of this shutdown step. A later
    /// run can resume the teammates.
    Suspend(Vec<AgentName>),
    /// End these teammates for good, and start the time limit of this shutdown step.
    Kill(Vec<AgentName>),
    /// Cancel these teammates immediately. A later run can resume them.
    Drop(Vec<AgentName>),
    /// Cancel the lead's current work, and let the lead begin nothing new. The lead still receives
    /// news about teammates that leave.
    HoldLead,
    /// Let the lead end at its next pause between two steps, and start the time limit of this
    /// shutdown step. Contains the reason for the end.
    EndLead(String),
    /// Cancel the lead.
    DropLead,
    /// End the run, because it is over.
    Finish,
}

/// A reminder for a lead that is about to end its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reminder {
    /// The teammates that the lead has not shut down.
    pub(super) members: Vec<AgentName>,
    /// The tasks and plans that are still open.
    pub(super) open: OpenWork,
    /// What is wrong with the lead's last answer, if anything is wrong.
    pub(super) fault: Option<AnswerFault>,
}

/// The kinds of reminders that the lead has already received. Each kind is given only once for a
/// team.
#[derive(Clone, Copy, Debug, Default)]
struct Reminded {
    of_members: bool,
    of_work: bool,
    of_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Asking,
    Stopping,
    EndingLead,
    Over,
}

#[derive(Debug)]
pub(super) struct RunMachine {
    phase: Phase,
    lead: AgentName,
    lead_status: Status,
    mates: BTreeMap<AgentName, Status>,
    /// The teammates whose model is unavailable, each with the reason.
    unavailable: BTreeMap<AgentName, String>,
    /// The teammates that have used all their turns. They are not in `unavailable`, because they
    /// wait for more turns and not for their model.
    used_up: BTreeSet<AgentName>,
    /// Whether the lead was woken and found nothing to do, and since then no teammate has joined or
    /// changed its state.
    lead_has_looked: bool,
    is_calling: bool,
    reminded: Reminded,
    /// What is wrong with the lead's last answer, if anything is wrong.
    fault: Option<AnswerFault>,
    /// The agents that the user interrupted, until each has another turn. The user will say how to
    /// continue. During that time nobody wakes the lead, and the run does not end by itself.
    held: BTreeSet<AgentName>,
    /// The inbox whose next change makes the loop check the teammates' mail again. `None` if no
    /// change of an inbox can end what the run waits for.
    looks_again_at: Option<InboxFile>,
    /// Time that a client has to answer a shutdown request.
    grace: Duration,
    end_reason: Option<EndReason>,
}

impl RunMachine {
    pub(super) fn new(lead: AgentName, grace: Duration) -> Self {
        Self {
            phase: Phase::Working,
            lead,
            lead_status: Status::Pending,
            mates: BTreeMap::new(),
            unavailable: BTreeMap::new(),
            used_up: BTreeSet::new(),
            lead_has_looked: false,
            is_calling: false,
            reminded: Reminded::default(),
            fault: None,
            held: BTreeSet::new(),
            looks_again_at: None,
            grace,
            end_reason: None,
        }
    }

    /// Returns the reason for the shutdown, if a shutdown has begun.
    pub(super) fn end_reason(&self) -> Option<&EndReason> {
        self.end_reason.as_ref()
    }

    /// Returns the number of teammates in the run.
    pub(super) fn mates(&self) -> usize {
        self.mates.len()
    }

    /// Resets the reminders, because the lead has created another team.
    pub(super) fn begin_another_team(&mut self) {
        (self.reminded, self.looks_again_at) = (Reminded::default(), None);
    }

    /// Processes one input and returns the actions to carry out, in order.
    #[must_use]
    pub(super) fn handle(&mut self, inputs: RunInput) -> Vec<RunAction> {
        match inputs {
            RunInput::Joined(name) => {
                self.mates.insert(name, Status::Pending);
                self.lead_has_looked = false;
                Vec::new()
            }
            RunInput::Announced(name, status) => self.announced(&name, status),
            RunInput::Unavailable(name, reason) => {
                if !self.used_up.contains(&name) {
                    self.unavailable.insert(name, reason);
                }
                Vec::new()
            }
            RunInput::UsedUp(name) => {
                self.unavailable.remove(&name);
                self.used_up.insert(name);
                Vec::new()
            }
            RunInput::Left(name) => {
                self.mates.remove(&name);
                self.unavailable.remove(&name);
                self.held.remove(&name);
                self.lead_has_looked = false;
                self.after_a_loss()
            }
            RunInput::LeadAnswered(fault) => {
                self.fault = fault;
                Vec::new()
            }
            RunInput::LeadTold => {
                self.lead_has_looked = false;
                self.is_calling = false;
                Vec::new()
            }
            RunInput::Interrupted(name) => {
                let status = self.mates.get(&name).copied();
                let status = if name == self.lead { Some(self.lead_status) } else { status };
                // An agent that is in no turn has nothing to interrupt.
                if status.is_some_and(|status| status != Status::Idle) {
                    self.held.insert(name);
                }
                Vec::new()
            }
            RunInput::LeadEnded(status, reason) => self.lead_ended(status, reason),
            RunInput::Looked(mates) => self.looked(&mates),
            RunInput::ReportsHeard { is_waiting: true } => Vec::new(),
            RunInput::ReportsHeard { is_waiting: false } => self.quiet(),
            RunInput::InboxChanged(file) if self.looks_again_at.as_ref() == Some(&file) => {
                self.look_around()
            }
            RunInput::MailUnsure if self.looks_again_at.is_some() => self.look_around(),
            RunInput::InboxChanged(_) | RunInput::MailUnsure => Vec::new(),
            RunInput::WaitOver => self.look_around(),
            RunInput::Stock(open) => self.took_stock(open),
            RunInput::EndAsked(end_reason) => self.shut_down(end_reason),
            RunInput::GraceOver => self.grace_over(),
        }
    }

    fn announced(&mut self, name: &AgentName, status: Status) -> Vec<RunAction> {
        if *name == self.lead {
            // If the lead was woken and its first report after that is idle, the lead found nothing
            // to do. Any other report of the lead says that it has work, or does not answer a
            // wake-up.
            self.lead_has_looked = std::mem::take(&mut self.is_calling) && status == Status::Idle;
            self.lead_status = status;
        } else if let Some(known) = self.mates.get_mut(name) {
            *known = status;
            self.lead_has_looked = false;
            if status == Status::Active {
                self.unavailable.remove(name);
            }
        }
        if status != Status::Idle {
            self.held.remove(name);
        }
        self.look_around()
    }

    fn is_at_rest(&self) -> bool {
        let rests = |status: &Status| matches!(status, Status::Idle | Status::AwaitingPlanApproval);
        let lead_rests = self.lead_status == Status::Idle && self.held.is_empty();
        self.phase == Phase::Working && lead_rests && self.mates.values().all(rests)
    }

    fn look_around(&self) -> Vec<RunAction> {
        if self.is_at_rest() && !self.is_calling { vec![RunAction::LookAround] } else { Vec::new() }
    }

    /// Decides what to do after a check of the teammates' mail. If the run must wait for a
    /// teammate, for example because the teammate has unread mail, returns the actions for this
    /// wait. Otherwise returns the action that processes all reports. A teammate reports that it
    /// works before it marks mail as read. So if no mail is unread, every working teammate has
    /// already sent its report.
    fn looked(&mut self, mates: &[MateSeen]) -> Vec<RunAction> {
        let wait = mates.iter().find_map(|mate| mate.waits(self.grace));
        self.looks_again_at = wait.as_ref().and_then(Wait::inbox);
        wait.map_or_else(|| vec![RunAction::HearReports], |wait| wait.actions())
    }

    fn quiet(&mut self) -> Vec<RunAction> {
        if !self.is_at_rest() || self.is_calling {
            return Vec::new();
        }
        if !self.lead_has_looked {
            self.is_calling = true;
            return vec![RunAction::WakeLead];
        }
        if let Some((name, reason)) = self.unavailable.first_key_value() {
            // This teammate has work that it cannot do without its model, and no other agent has
            // any work.
            return self.shut_down(EndReason::ModelUnavailable(format!("{name}: {reason}")));
        }
        vec![RunAction::TakeStock]
    }

    /// Handles the list of open work. At this time every agent is idle and has checked its mail.
    /// Reminds the lead of what it must still do, otherwise ends the run.
    fn took_stock(&mut self, mut open: OpenWork) -> Vec<RunAction> {
        if !self.is_at_rest() || self.is_calling || !self.lead_has_looked {
            return Vec::new();
        }
        let with_plan =
            self.mates.iter().filter(|(_, status)| **status == Status::AwaitingPlanApproval);
        let with_plan: Vec<AgentName> = with_plan
            .map(|(name, _)| name.clone())
            .filter(|name| !open.plans.contains(name))
            .collect();
        open.plans.extend(with_plan);
        let reminder = self.reminder(&open);
        if reminder != Reminder::default() {
            self.lead_has_looked = false;
            return vec![RunAction::Remind(reminder)];
        }
        match self.shortfall(&open) {
            Some(shortfall) => self.shut_down(EndReason::Unfinished(shortfall, open)),
            None => self.shut_down(EndReason::Finished),
        }
    }

    /// Returns the reminder that the lead gets now. If the lead needs no reminder, the result is
    /// empty.
    fn reminder(&mut self, open: &OpenWork) -> Reminder {
        let mut reminder = Reminder::default();
        if !self.mates.is_empty() && !std::mem::replace(&mut self.reminded.of_members, true) {
            reminder.members = self.names();
        }
        if self.reminds_of(open) {
            // Leave out the teammates that never started. The lead already learned about each of
            // them when its start failed.
            reminder.open = OpenWork {
                never_started: Vec::new(),
                left_behind: Vec::new(),
                failures: Vec::new(),
                ..open.clone()
            };
        }
        let is_mended =
            |fault: &AnswerFault| matches!(fault, AnswerFault::Truncated | AnswerFault::Empty);
        if let Some(fault) = self.fault.filter(is_mended)
            && !std::mem::replace(&mut self.reminded.of_answer, true)
        {
            reminder.fault = Some(fault);
        }
        reminder
    }

    /// Returns true if the lead must be reminded of open tasks and plans now. Returns true only
    /// once.
    pub(super) fn reminds_of(&mut self, open: &OpenWork) -> bool {
        let is_open = !open.has_no_tasks() || !open.plans.is_empty();
        is_open && !std::mem::replace(&mut self.reminded.of_work, true)
    }

    /// Returns the reason why the work is incomplete. Returns `None` if the work is complete.
    fn shortfall(&self, open: &OpenWork) -> Option<Shortfall> {
        let of_answer = self.fault.map(|fault| match fault {
            AnswerFault::Refused => Shortfall::Refused,
            AnswerFault::Truncated => Shortfall::Truncated,
            AnswerFault::Empty => Shortfall::Empty,
        });
        let of_work = if !open.has_all_teammates() {
            Some(Shortfall::FailedToStart)
        } else if open.is_empty() {
            None
        } else {
            Some(Shortfall::Stalled)
        };
        // Report the reason that explains more. For example, if the lead's answer is empty because
        // the lead waits for open work, report the open work.
        of_answer.into_iter().chain(of_work).min()
    }

    fn names(&self) -> Vec<AgentName> {
        self.mates.keys().cloned().collect()
    }

    fn shut_down(&mut self, end_reason: EndReason) -> Vec<RunAction> {
        if self.phase != Phase::Working {
            return if end_reason == EndReason::Interrupted {
                self.cut_short()
            } else {
                Vec::new()
            };
        }
        let holds = matches!(end_reason, EndReason::Interrupted | EndReason::ShutDown)
            && !self.lead_status.is_over();
        let (phase, action) = match &end_reason {
            EndReason::LeadFailed(_) | EndReason::Gone => {
                (Phase::Stopping, RunAction::Drop(self.names()))
            }
            EndReason::Interrupted
            | EndReason::Unfinished(..)
            | EndReason::Limit(..)
            | EndReason::ModelUnavailable(_) => (Phase::Stopping, RunAction::Suspend(self.names())),
            EndReason::Finished | EndReason::ShutDown => {
                (Phase::Asking, RunAction::AskToShutDown(self.names()))
            }
        };
        (self.end_reason, self.phase) = (Some(end_reason), phase);
        if self.mates.is_empty() {
            return self.after_a_loss();
        }
        holds.then_some(RunAction::HoldLead).into_iter().chain([action]).collect()
    }

    /// Shortens a shutdown that is already in progress, because the user stopped the run. The run
    /// then waits for no agent any more.
    fn cut_short(&mut self) -> Vec<RunAction> {
        match self.phase {
            Phase::Asking => {
                (self.end_reason, self.phase) = (Some(EndReason::Interrupted), Phase::Stopping);
                vec![RunAction::Suspend(self.names())]
            }
            Phase::EndingLead => {
                self.end_reason = Some(EndReason::Interrupted);
                vec![RunAction::DropLead]
            }
            Phase::Working | Phase::Stopping | Phase::Over => Vec::new(),
        }
    }

    /// Returns the actions after a teammate or the lead has ended. If the run is not shutting down,
    /// the mail is checked. During a shutdown, the lead is ended as soon as no teammate is left.
    fn after_a_loss(&mut self) -> Vec<RunAction> {
        match self.phase {
            Phase::Working => self.look_around(),
            Phase::Asking | Phase::Stopping if self.mates.is_empty() => {
                if self.lead_status.is_over() {
                    return self.finish();
                }
                self.phase = Phase::EndingLead;
                vec![match &self.end_reason {
                    // Do not wait for an answer of the lead's model: the user stopped the run or
                    // ended the team, or a model is unavailable.
                    Some(
                        EndReason::Interrupted
                        | EndReason::ShutDown
                        | EndReason::ModelUnavailable(_),
                    ) => RunAction::DropLead,
                    end_reason => RunAction::EndLead(
                        end_reason.as_ref().map(EndReason::in_words).unwrap_or_default(),
                    ),
                }]
            }
            Phase::Asking | Phase::Stopping | Phase::EndingLead | Phase::Over => Vec::new(),
        }
    }

    fn grace_over(&mut self) -> Vec<RunAction> {
        match self.phase {
            Phase::Asking => {
                self.phase = Phase::Stopping;
                vec![RunAction::Kill(self.names())]
            }
            Phase::Stopping => vec![RunAction::Drop(self.names())],
            Phase::EndingLead => vec![RunAction::DropLead],
            Phase::Working | Phase::Over => Vec::new(),
        }
    }

    fn lead_ended(&mut self, status: Status, reason: Option<String>) -> Vec<RunAction> {
        self.lead_status = if status.is_over() { status } else { Status::Killed };
        let reason = || reason.unwrap_or_else(|| format!("it {status}"));
        match self.phase {
            Phase::Working if status == Status::Parked => {
                self.shut_down(EndReason::ModelUnavailable(reason()))
            }
            Phase::Working => self.shut_down(EndReason::LeadFailed(reason())),
            Phase::Asking | Phase::Stopping => self.after_a_loss(),
            Phase::EndingLead => self.finish(),
            Phase::Over => Vec::new(),
        }
    }

    fn finish(&mut self) -> Vec<RunAction> {
        self.phase = Phase::Over;
        vec![RunAction::Finish]
    }
}

#[cfg(test)]
mod tests;
