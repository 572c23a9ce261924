//! The course of a run, as a pure state machine: when the lead is called, when it is reminded, when the team is shut
//! down and in which steps, and when all is over. It knows states and names only; the loop carries its orders out.

use std::collections::{BTreeMap, BTreeSet};

use pitcrew_protocol::AgentName;

use crate::agent::Status;

/// Why a team is shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The work is done.
    Finished,
    /// The user stopped the run; the team goes on in a later one.
    Interrupted,
    /// The user ended the team.
    ShutDown,
    /// A limit was reached.
    Limit(String),
    /// A model without which nothing goes on is unavailable: the lead's, or a teammate's for which all others wait.
    ModelUnavailable(String),
    /// The lead cannot go on.
    LeadFailed(String),
    /// The team was deleted by somebody else.
    Gone,
}

impl Why {
    /// The reason in words.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Finished => "the work is done".to_owned(),
            Self::Interrupted => "the user stopped the run".to_owned(),
            Self::ShutDown => "the user shut the team down".to_owned(),
            Self::Limit(reason) => reason.clone(),
            Self::ModelUnavailable(reason) => format!("a model is unavailable: {reason}"),
            Self::LeadFailed(reason) => format!("the lead cannot go on: {reason}"),
            Self::Gone => "the team's files were taken away while it ran, by something else than this run".to_owned(),
        }
    }

    /// Whether a later run may go on where this one stops, so that nobody is taken out of the team who did not leave.
    pub(super) fn is_resumable(&self) -> bool {
        match self {
            Self::Interrupted | Self::Limit(_) | Self::ModelUnavailable(_) | Self::LeadFailed(_) => true,
            Self::Finished | Self::ShutDown | Self::Gone => false,
        }
    }
}

/// Something that the course of a run depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// A teammate was started.
    Joined(AgentName),
    /// An agent's state changed, or was told once more.
    Announced(AgentName, Status),
    /// A teammate is idle since its model is unavailable, for this reason.
    Unavailable(AgentName, String),
    /// A teammate has used all its turns.
    UsedUp(AgentName),
    /// A teammate is no more.
    Left(AgentName),
    /// The lead was told something, and starts a turn when it hears it.
    LeadTold,
    /// The user cut the lead's turn off.
    LeadInterrupted,
    /// The lead is no more.
    LeadEnded(Status, Option<String>),
    /// A look around found nothing unread.
    AllQuiet,
    /// The run is to end.
    EndAsked(Why),
    /// The time for the present step of the shutdown is over.
    GraceOver,
}

/// Something the loop is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// See whether there is unread mail anywhere; answered by [`News::AllQuiet`] if not.
    LookAround,
    /// Call the lead; it starts a turn, or announces once more that it is idle.
    WakeLead,
    /// Remind the lead to shut its team down.
    Remind(Vec<AgentName>),
    /// Ask every teammate to shut down, and start the grace.
    AskToShutDown(Vec<AgentName>),
    /// Stop every teammate where it stands, to go on in a later run, and start the grace: one of another client, which keeps
    /// no conversation, is asked to shut down first.
    Suspend(Vec<AgentName>),
    /// End every teammate for good, and start the grace.
    Kill(Vec<AgentName>),
    /// Drop every teammate where it stands, so that it can be resumed.
    Drop(Vec<AgentName>),
    /// Let the lead begin nothing more and drop what it is at; it still hears of who leaves.
    HoldLead,
    /// Let the lead end at its next boundary, and start the grace.
    EndLead(String),
    /// Drop the lead.
    DropLead,
    /// All is over.
    Finish,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Asking,
    Stopping,
    EndingLead,
    Over,
}

/// The course of one run.
#[derive(Debug)]
pub(super) struct Course {
    phase: Phase,
    lead: AgentName,
    lead_status: Status,
    mates: BTreeMap<AgentName, Status>,
    /// The teammates whose model is unavailable, with the reason.
    unavailable: BTreeMap<AgentName, String>,
    /// The teammates that have used all their turns: it is not the model that keeps them.
    used_up: BTreeSet<AgentName>,
    /// The lead was called since anything changed, and had nothing to do.
    lead_has_looked: bool,
    is_calling: bool,
    was_reminded: bool,
    /// The user cut the lead off and has not said how to go on: nobody calls the lead, and the run does not end by itself.
    is_held: bool,
    why: Option<Why>,
}

impl Course {
    pub(super) fn new(lead: AgentName) -> Self {
        Self {
            phase: Phase::Working,
            lead,
            lead_status: Status::Pending,
            mates: BTreeMap::new(),
            unavailable: BTreeMap::new(),
            used_up: BTreeSet::new(),
            lead_has_looked: false,
            is_calling: false,
            was_reminded: false,
            is_held: false,
            why: None,
        }
    }

    /// Why the team is being shut down, once it is.
    pub(super) fn why(&self) -> Option<&Why> {
        self.why.as_ref()
    }

    /// How many teammates there are.
    pub(super) fn mates(&self) -> usize {
        self.mates.len()
    }

    /// Takes the news and answers with what is to be done, in order.
    #[must_use]
    pub(super) fn hear(&mut self, news: News) -> Vec<Order> {
        match news {
            News::Joined(name) => {
                self.mates.insert(name, Status::Pending);
                self.lead_has_looked = false;
                Vec::new()
            }
            News::Announced(name, status) => self.announced(&name, status),
            News::Unavailable(name, reason) => {
                if !self.used_up.contains(&name) {
                    self.unavailable.insert(name, reason);
                }
                Vec::new()
            }
            News::UsedUp(name) => {
                self.unavailable.remove(&name);
                self.used_up.insert(name);
                Vec::new()
            }
            News::Left(name) => {
                self.mates.remove(&name);
                self.unavailable.remove(&name);
                self.lead_has_looked = false;
                self.after_a_loss()
            }
            News::LeadTold => {
                self.lead_has_looked = false;
                self.is_calling = false;
                Vec::new()
            }
            News::LeadInterrupted => {
                self.is_held = self.lead_status != Status::Idle;
                Vec::new()
            }
            News::LeadEnded(status, reason) => self.lead_ended(status, reason),
            News::AllQuiet => self.quiet(),
            News::EndAsked(why) => self.shut_down(why),
            News::GraceOver => self.grace_over(),
        }
    }

    fn announced(&mut self, name: &AgentName, status: Status) -> Vec<Order> {
        if *name == self.lead {
            // Only the answer to a call counts: an agent that is at work takes no call.
            self.lead_has_looked = std::mem::take(&mut self.is_calling) && status == Status::Idle;
            self.lead_status = status;
            self.is_held &= status == Status::Idle;
        } else if let Some(known) = self.mates.get_mut(name) {
            *known = status;
            self.lead_has_looked = false;
            if status == Status::Active {
                self.unavailable.remove(name);
            }
        }
        self.look_around()
    }

    fn is_at_rest(&self) -> bool {
        let rests = |status: &Status| matches!(status, Status::Idle | Status::AwaitingPlanApproval);
        let lead_rests = self.lead_status == Status::Idle && !self.is_held;
        self.phase == Phase::Working && lead_rests && self.mates.values().all(rests)
    }

    fn look_around(&self) -> Vec<Order> {
        if self.is_at_rest() && !self.is_calling { vec![Order::LookAround] } else { Vec::new() }
    }

    fn quiet(&mut self) -> Vec<Order> {
        if !self.is_at_rest() || self.is_calling {
            return Vec::new();
        }
        if !self.lead_has_looked {
            self.is_calling = true;
            return vec![Order::WakeLead];
        }
        if let Some((name, reason)) = self.unavailable.first_key_value() {
            // It has work that it could not do, and nobody else has any.
            return self.shut_down(Why::ModelUnavailable(format!("{name}: {reason}")));
        }
        if self.mates.is_empty() || self.was_reminded {
            return self.shut_down(Why::Finished);
        }
        self.was_reminded = true;
        self.lead_has_looked = false;
        vec![Order::Remind(self.names())]
    }

    fn names(&self) -> Vec<AgentName> {
        self.mates.keys().cloned().collect()
    }

    fn shut_down(&mut self, why: Why) -> Vec<Order> {
        if self.phase != Phase::Working {
            return if why == Why::Interrupted { self.cut_short() } else { Vec::new() };
        }
        let holds = matches!(why, Why::Interrupted | Why::ShutDown) && !self.lead_status.is_over();
        let (phase, order) = match &why {
            Why::LeadFailed(_) | Why::Gone => (Phase::Stopping, Order::Drop(self.names())),
            Why::Interrupted | Why::Limit(_) | Why::ModelUnavailable(_) => {
                (Phase::Stopping, Order::Suspend(self.names()))
            }
            Why::Finished | Why::ShutDown => (Phase::Asking, Order::AskToShutDown(self.names())),
        };
        (self.why, self.phase) = (Some(why), phase);
        if self.mates.is_empty() {
            return self.after_a_loss();
        }
        holds.then_some(Order::HoldLead).into_iter().chain([order]).collect()
    }

    /// The user stops a run that is about to end: nobody is waited for any more.
    fn cut_short(&mut self) -> Vec<Order> {
        match self.phase {
            Phase::Asking => {
                (self.why, self.phase) = (Some(Why::Interrupted), Phase::Stopping);
                vec![Order::Suspend(self.names())]
            }
            Phase::EndingLead => {
                self.why = Some(Why::Interrupted);
                vec![Order::DropLead]
            }
            Phase::Working | Phase::Stopping | Phase::Over => Vec::new(),
        }
    }

    /// Goes on with a shutdown when the last teammate has left.
    fn after_a_loss(&mut self) -> Vec<Order> {
        match self.phase {
            Phase::Working => self.look_around(),
            Phase::Asking | Phase::Stopping if self.mates.is_empty() => {
                if self.lead_status.is_over() {
                    return self.finish();
                }
                self.phase = Phase::EndingLead;
                vec![match &self.why {
                    // Who stops a run does not wait for an answer of a model.
                    Some(Why::Interrupted | Why::ShutDown | Why::ModelUnavailable(_)) => Order::DropLead,
                    why => Order::EndLead(why.as_ref().map(Why::in_words).unwrap_or_default()),
                }]
            }
            Phase::Asking | Phase::Stopping | Phase::EndingLead | Phase::Over => Vec::new(),
        }
    }

    fn grace_over(&mut self) -> Vec<Order> {
        match self.phase {
            Phase::Asking => {
                self.phase = Phase::Stopping;
                vec![Order::Kill(self.names())]
            }
            Phase::Stopping => vec![Order::Drop(self.names())],
            Phase::EndingLead => vec![Order::DropLead],
            Phase::Working | Phase::Over => Vec::new(),
        }
    }

    fn lead_ended(&mut self, status: Status, reason: Option<String>) -> Vec<Order> {
        self.lead_status = if status.is_over() { status } else { Status::Killed };
        let reason = || reason.unwrap_or_else(|| format!("it {status}"));
        match self.phase {
            Phase::Working if status == Status::Parked => self.shut_down(Why::ModelUnavailable(reason())),
            Phase::Working => self.shut_down(Why::LeadFailed(reason())),
            Phase::Asking | Phase::Stopping => self.after_a_loss(),
            Phase::EndingLead => self.finish(),
            Phase::Over => Vec::new(),
        }
    }

    fn finish(&mut self) -> Vec<Order> {
        self.phase = Phase::Over;
        vec![Order::Finish]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> AgentName {
        AgentName::new(name).unwrap()
    }

    fn told(who: &str, status: Status) -> News {
        News::Announced(name(who), status)
    }

    struct Play(Course);

    impl Play {
        fn new(mates: &[&str]) -> Self {
            let mut play = Self(Course::new(AgentName::lead()));
            play.then(told("team-lead", Status::Active), &[]);
            for mate in mates {
                play.then(News::Joined(name(mate)), &[]).then(told(mate, Status::Active), &[]);
            }
            play
        }

        #[track_caller]
        fn then(&mut self, news: News, orders: &[Order]) -> &mut Self {
            assert_eq!(self.0.hear(news), orders);
            self
        }
    }

    #[test]
    fn a_lead_alone_ends_with_its_turn_when_it_has_no_mail() {
        Play::new(&[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::EndLead("the work is done".to_owned())])
            .then(News::LeadEnded(Status::Completed, None), &[Order::Finish]);
    }

    #[test]
    fn a_lead_that_ends_its_turn_while_a_teammate_works_waits() {
        Play::new(&["bob"])
            .then(told("team-lead", Status::Idle), &[])
            .then(told("bob", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("team-lead", Status::Active), &[]);
    }

    #[test]
    fn a_lead_that_the_user_cut_off_is_not_called_before_it_is_told_something() {
        let mut play = Play::new(&[]);
        play.then(News::LeadInterrupted, &[])
            .then(told("team-lead", Status::Idle), &[])
            .then(told("team-lead", Status::Active), &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround]);
    }

    #[test]
    fn a_lead_that_forgets_its_team_is_reminded_once_and_then_the_team_is_shut_down() {
        let bob = || vec![name("bob")];
        let mut play = Play::new(&["bob"]);
        play.then(told("bob", Status::Idle), &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::Remind(bob())])
            .then(told("team-lead", Status::Active), &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::AskToShutDown(bob())])
            .then(News::GraceOver, &[Order::Kill(bob())])
            .then(News::Left(name("bob")), &[Order::EndLead("the work is done".to_owned())])
            .then(News::LeadEnded(Status::Completed, None), &[Order::Finish]);
    }

    #[test]
    fn what_changes_after_the_lead_has_looked_makes_it_look_again() {
        Play::new(&["bob"])
            .then(told("bob", Status::Idle), &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("bob", Status::Active), &[])
            .then(told("team-lead", Status::Idle), &[])
            .then(told("bob", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead]);
    }

    #[test]
    fn a_lead_that_was_told_something_is_called_again_before_anything_ends() {
        Play::new(&[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(News::LeadTold, &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead]);
    }

    #[test]
    fn a_stopped_run_asks_nobody_and_keeps_everybody_for_the_next_one() {
        let both = || vec![name("ann"), name("bob")];
        Play::new(&["ann", "bob"])
            .then(News::EndAsked(Why::Interrupted), &[Order::HoldLead, Order::Suspend(both())])
            .then(News::EndAsked(Why::Limit("too much".to_owned())), &[])
            .then(News::Left(name("ann")), &[])
            .then(News::GraceOver, &[Order::Drop(vec![name("bob")])])
            .then(News::Left(name("bob")), &[Order::DropLead])
            .then(News::LeadEnded(Status::Killed, None), &[Order::Finish]);
    }

    #[test]
    fn a_team_that_the_user_shuts_down_is_asked_to_leave_and_who_does_not_is_ended() {
        let both = || vec![name("ann"), name("bob")];
        Play::new(&["ann", "bob"])
            .then(News::EndAsked(Why::ShutDown), &[Order::HoldLead, Order::AskToShutDown(both())])
            .then(News::Left(name("ann")), &[])
            .then(News::GraceOver, &[Order::Kill(vec![name("bob")])])
            .then(News::Left(name("bob")), &[Order::DropLead])
            .then(News::LeadEnded(Status::Killed, None), &[Order::Finish]);
    }

    #[test]
    fn a_stopped_lead_without_a_team_is_dropped_at_once_and_one_that_reached_a_limit_ends_its_step() {
        Play::new(&[])
            .then(News::EndAsked(Why::Interrupted), &[Order::DropLead])
            .then(News::LeadEnded(Status::Killed, None), &[Order::Finish]);
        Play::new(&[])
            .then(News::EndAsked(Why::Limit("too much".to_owned())), &[Order::EndLead("too much".to_owned())])
            .then(News::GraceOver, &[Order::DropLead])
            .then(News::LeadEnded(Status::Killed, None), &[Order::Finish]);
    }

    #[test]
    fn when_the_leads_model_is_unavailable_the_team_is_suspended_so_that_it_can_be_resumed() {
        let mut play = Play::new(&["bob"]);
        let parked = News::LeadEnded(Status::Parked, Some("come later".to_owned()));
        play.then(parked, &[Order::Suspend(vec![name("bob")])]).then(News::Left(name("bob")), &[Order::Finish]);
        assert_eq!(play.0.why(), Some(&Why::ModelUnavailable("come later".to_owned())));
        assert!(play.0.why().unwrap().is_resumable());
    }

    #[test]
    fn a_run_in_which_all_wait_for_a_teammates_model_parks_and_keeps_its_team() {
        let mut play = Play::new(&["bob"]);
        play.then(told("bob", Status::Idle), &[])
            .then(News::Unavailable(name("bob"), "come later".to_owned()), &[])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::WakeLead])
            .then(told("team-lead", Status::Idle), &[Order::LookAround])
            .then(News::AllQuiet, &[Order::Suspend(vec![name("bob")])])
            .then(News::Left(name("bob")), &[Order::DropLead]);
        assert_eq!(play.0.why(), Some(&Why::ModelUnavailable("bob: come later".to_owned())));
    }

    #[test]
    fn a_run_that_is_stopped_while_it_asks_its_team_to_leave_waits_for_nobody() {
        let mut play = Play::new(&["bob"]);
        play.then(News::EndAsked(Why::ShutDown), &[Order::HoldLead, Order::AskToShutDown(vec![name("bob")])])
            .then(News::EndAsked(Why::Interrupted), &[Order::Suspend(vec![name("bob")])])
            .then(News::Left(name("bob")), &[Order::DropLead]);
        assert!(play.0.why().unwrap().is_resumable());
    }

    #[test]
    fn without_a_lead_nobody_goes_on() {
        Play::new(&["bob"])
            .then(News::LeadEnded(Status::Failed, Some("no key".to_owned())), &[Order::Drop(vec![name("bob")])])
            .then(News::Left(name("bob")), &[Order::Finish]);
        Play::new(&[]).then(News::LeadEnded(Status::Failed, Some("no key".to_owned())), &[Order::Finish]);
    }
}
