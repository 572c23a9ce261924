//! Tests of the run's state machine. They check the actions that each input returns.

use pitcrew_protocol::{TaskId, TaskStatus};

use super::super::client_turns::TurnState;
use super::*;
use crate::run::TaskSummary;

/// Time that a client has to answer a shutdown request in these tests.
const GRACE: Duration = Duration::from_secs(30);

fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

fn told(who: &str, status: Status) -> RunInput {
    RunInput::Announced(name(who), status)
}

fn of_members(names: &[&str]) -> Reminder {
    Reminder { members: names.iter().map(|it| name(it)).collect(), ..Reminder::default() }
}

fn of_work(open: &OpenWork) -> Reminder {
    Reminder { open: open.clone(), ..Reminder::default() }
}

/// Creates open work that consists of one task without an owner.
fn open_task() -> OpenWork {
    let (id, subject) = (TaskId::from_number(1), "Do it".to_owned());
    OpenWork::of_tasks(&[TaskSummary { id, subject, status: TaskStatus::Pending, owner: None }])
}

struct Play(RunMachine);

impl Play {
    fn new(mates: &[&str]) -> Self {
        let mut play = Self(RunMachine::new(AgentName::lead(), GRACE));
        play.then(told("team-lead", Status::Active), &[]);
        for mate in mates {
            play.then(RunInput::Joined(name(mate)), &[]).then(told(mate, Status::Active), &[]);
        }
        play
    }

    /// Plays these events: the lead becomes idle, is woken, and has nothing to do. No other agent
    /// has work either.
    fn all_rest(&mut self) -> &mut Self {
        self.then(told("team-lead", Status::Idle), &[RunAction::LookAround])
            .all_quiet(&[RunAction::WakeLead])
            .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
            .all_quiet(&[RunAction::TakeStock])
    }

    /// Plays these events: the mail check finds nothing to wait for, and no agent has reported
    /// anything else.
    #[track_caller]
    fn all_quiet(&mut self, actions: &[RunAction]) -> &mut Self {
        self.then(RunInput::Looked(Vec::new()), &[RunAction::HearReports])
            .then(RunInput::ReportsHeard { is_waiting: false }, actions)
    }

    /// Plays the result of a check of the teammates: bob is in the state `bob`. The caller has
    /// brought bob and the lead to rest before.
    #[track_caller]
    fn sees(&mut self, bob: MateSeen, actions: &[RunAction]) -> &mut Self {
        self.then(RunInput::Looked(vec![bob]), actions)
    }

    /// Plays an answer of the lead, with the given fault if there is one. The lead then becomes
    /// idle.
    fn answers(&mut self, fault: Option<AnswerFault>) -> &mut Self {
        self.then(told("team-lead", Status::Active), &[])
            .then(RunInput::LeadAnswered(fault), &[])
            .all_rest()
    }

    #[track_caller]
    fn then(&mut self, inputs: RunInput, actions: &[RunAction]) -> &mut Self {
        assert_eq!(self.0.handle(inputs), actions);
        self
    }
}

#[test]
fn a_lead_alone_ends_with_its_turn_when_it_has_no_mail() {
    Play::new(&[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::TakeStock])
        .then(
            RunInput::Stock(OpenWork::default()),
            &[RunAction::EndLead("the work is done".to_owned())],
        )
        .then(RunInput::LeadEnded(Status::Completed, None), &[RunAction::Finish]);
}

#[test]
fn a_lead_that_ends_its_turn_while_a_teammate_works_waits() {
    Play::new(&["bob"])
        .then(told("team-lead", Status::Idle), &[])
        .then(told("bob", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("team-lead", Status::Active), &[]);
}

#[test]
fn a_lead_that_the_user_cut_off_is_not_called_before_it_is_told_something() {
    let mut play = Play::new(&[]);
    play.then(RunInput::Interrupted(AgentName::lead()), &[])
        .then(told("team-lead", Status::Idle), &[])
        .then(told("team-lead", Status::Active), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround]);
}

#[test]
fn a_run_waits_for_what_the_user_says_to_a_teammate_that_it_cut_off() {
    let mut play = Play::new(&["bob", "cat"]);
    play.then(told("cat", Status::Idle), &[])
        .then(told("team-lead", Status::Idle), &[])
        .then(RunInput::Interrupted(name("bob")), &[])
        .then(told("bob", Status::Idle), &[])
        // Nothing is cut off of an agent that is in no turn.
        .then(RunInput::Interrupted(name("cat")), &[])
        .then(told("bob", Status::Active), &[])
        .then(told("bob", Status::Idle), &[RunAction::LookAround])
        .then(told("bob", Status::Active), &[])
        .then(RunInput::Interrupted(name("bob")), &[])
        .then(told("bob", Status::Idle), &[])
        .then(RunInput::Left(name("bob")), &[RunAction::LookAround]);
}

#[test]
fn a_lead_that_forgets_its_team_is_reminded_once_and_then_the_team_is_shut_down() {
    let bob = || vec![name("bob")];
    let mut play = Play::new(&["bob"]);
    play.then(told("bob", Status::Idle), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::TakeStock])
        .then(RunInput::Stock(OpenWork::default()), &[RunAction::Remind(of_members(&["bob"]))])
        .then(told("team-lead", Status::Active), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::TakeStock])
        .then(RunInput::Stock(OpenWork::default()), &[RunAction::AskToShutDown(bob())])
        .then(RunInput::GraceOver, &[RunAction::Kill(bob())])
        .then(RunInput::Left(name("bob")), &[RunAction::EndLead("the work is done".to_owned())])
        .then(RunInput::LeadEnded(Status::Completed, None), &[RunAction::Finish]);
}

#[test]
fn a_lead_that_leaves_a_task_open_is_reminded_once_and_then_its_run_is_stalled() {
    let mut play = Play::new(&[]);
    play.all_rest()
        .then(RunInput::Stock(open_task()), &[RunAction::Remind(of_work(&open_task()))])
        .answers(None)
        .then(
            RunInput::Stock(open_task()),
            &[RunAction::EndLead("nobody works on the open tasks".to_owned())],
        )
        .then(RunInput::LeadEnded(Status::Completed, None), &[RunAction::Finish]);
    assert_eq!(play.0.end_reason(), Some(&EndReason::Unfinished(Shortfall::Stalled, open_task())));
    Play::new(&[])
        .all_rest()
        .then(RunInput::Stock(open_task()), &[RunAction::Remind(of_work(&open_task()))])
        .answers(None)
        .then(
            RunInput::Stock(OpenWork::default()),
            &[RunAction::EndLead("the work is done".to_owned())],
        );
}

#[test]
fn a_plan_without_an_answer_is_open_and_its_teammate_stays_for_the_next_run() {
    let mut play = Play::new(&["bob"]);
    let open = OpenWork { plans: vec![name("bob")], ..OpenWork::default() };
    play.then(told("bob", Status::AwaitingPlanApproval), &[])
        .all_rest()
        .then(
            RunInput::Stock(OpenWork::default()),
            &[RunAction::Remind(Reminder { open: open.clone(), ..of_members(&["bob"]) })],
        )
        .answers(None)
        .then(RunInput::Stock(OpenWork::default()), &[RunAction::Suspend(vec![name("bob")])])
        .then(
            RunInput::Left(name("bob")),
            &[RunAction::EndLead("nobody works on the open tasks".to_owned())],
        );
    assert_eq!(play.0.end_reason(), Some(&EndReason::Unfinished(Shortfall::Stalled, open)));
    assert!(play.0.end_reason().unwrap().is_resumable());
}

#[test]
fn a_lead_is_asked_once_more_for_an_answer_that_was_cut_off_or_empty_but_not_for_a_refused_one() {
    for (fault, shortfall) in
        [(AnswerFault::Truncated, Shortfall::Truncated), (AnswerFault::Empty, Shortfall::Empty)]
    {
        let again = Reminder { fault: Some(fault), ..Reminder::default() };
        let mut play = Play::new(&[]);
        play.then(RunInput::LeadAnswered(Some(fault)), &[])
            .all_rest()
            .then(RunInput::Stock(OpenWork::default()), &[RunAction::Remind(again.clone())])
            .answers(Some(fault))
            .then(
                RunInput::Stock(OpenWork::default()),
                &[RunAction::EndLead(shortfall.in_words().to_owned())],
            );
        assert_eq!(
            play.0.end_reason(),
            Some(&EndReason::Unfinished(shortfall, OpenWork::default()))
        );
        Play::new(&[])
            .then(RunInput::LeadAnswered(Some(fault)), &[])
            .all_rest()
            .then(RunInput::Stock(OpenWork::default()), &[RunAction::Remind(again)])
            .answers(None)
            .then(
                RunInput::Stock(OpenWork::default()),
                &[RunAction::EndLead("the work is done".to_owned())],
            );
    }
    let refused = Shortfall::Refused;
    Play::new(&[]).then(RunInput::LeadAnswered(Some(AnswerFault::Refused)), &[]).all_rest().then(
        RunInput::Stock(OpenWork::default()),
        &[RunAction::EndLead(refused.in_words().to_owned())],
    );
}

#[test]
fn a_lead_that_says_nothing_while_tasks_are_open_lost_or_unknown_is_stalled_and_not_empty() {
    let lost = OpenWork { lost: vec![TaskId::from_number(1)], ..OpenWork::default() };
    let unknown =
        OpenWork { unread: Some("no space left on device".to_owned()), ..OpenWork::default() };
    for open in [open_task(), lost, unknown] {
        let mut play = Play::new(&[]);
        let again = Reminder { fault: Some(AnswerFault::Empty), ..of_work(&open) };
        play.then(RunInput::LeadAnswered(Some(AnswerFault::Empty)), &[])
            .all_rest()
            .then(RunInput::Stock(open.clone()), &[RunAction::Remind(again)])
            .answers(Some(AnswerFault::Empty))
            .then(
                RunInput::Stock(open.clone()),
                &[RunAction::EndLead(Shortfall::Stalled.in_words().to_owned())],
            );
        assert_eq!(play.0.end_reason(), Some(&EndReason::Unfinished(Shortfall::Stalled, open)));
    }
}

#[test]
fn a_run_whose_teammate_never_started_is_not_completed_and_the_gravest_reason_is_named() {
    let without_bob = || OpenWork { never_started: vec![name("bob")], ..OpenWork::default() };
    let mut play = Play::new(&[]);
    let said = Shortfall::FailedToStart.in_words().to_owned();
    play.all_rest().then(RunInput::Stock(without_bob()), &[RunAction::EndLead(said)]);
    let mut play = Play::new(&[]);
    let both = || OpenWork { never_started: vec![name("bob")], ..open_task() };
    play.all_rest()
        .then(RunInput::Stock(both()), &[RunAction::Remind(of_work(&open_task()))])
        .answers(Some(AnswerFault::Refused))
        .then(
            RunInput::Stock(both()),
            &[RunAction::EndLead(Shortfall::Refused.in_words().to_owned())],
        );
    assert_eq!(play.0.end_reason(), Some(&EndReason::Unfinished(Shortfall::Refused, both())));
}

#[test]
fn a_lead_that_was_told_of_open_tasks_when_it_deleted_its_team_is_not_told_again() {
    let mut play = Play::new(&[]);
    assert!(play.0.reminds_of(&open_task()));
    assert!(!play.0.reminds_of(&open_task()));
    let said = Shortfall::Stalled.in_words().to_owned();
    play.all_rest().then(RunInput::Stock(open_task()), &[RunAction::EndLead(said)]);
}

#[test]
fn a_stopped_run_is_not_stalled_whatever_is_open() {
    let mut play = Play::new(&[]);
    play.then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .then(RunInput::EndAsked(EndReason::Interrupted), &[RunAction::DropLead])
        .then(RunInput::Stock(open_task()), &[]);
    assert_eq!(play.0.end_reason(), Some(&EndReason::Interrupted));
}

#[test]
fn what_changes_after_the_lead_has_looked_makes_it_look_again() {
    Play::new(&["bob"])
        .then(told("bob", Status::Idle), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("bob", Status::Active), &[])
        .then(told("team-lead", Status::Idle), &[])
        .then(told("bob", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead]);
}

#[test]
fn a_lead_that_was_told_something_is_called_again_before_anything_ends() {
    Play::new(&[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(RunInput::LeadTold, &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead]);
}

#[test]
fn a_stopped_run_asks_nobody_and_keeps_everybody_for_the_next_one() {
    let both = || vec![name("ann"), name("bob")];
    Play::new(&["ann", "bob"])
        .then(
            RunInput::EndAsked(EndReason::Interrupted),
            &[RunAction::HoldLead, RunAction::Suspend(both())],
        )
        .then(RunInput::EndAsked(EndReason::Limit(Limit::Cost, "too much".to_owned())), &[])
        .then(RunInput::Left(name("ann")), &[])
        .then(RunInput::GraceOver, &[RunAction::Drop(vec![name("bob")])])
        .then(RunInput::Left(name("bob")), &[RunAction::DropLead])
        .then(RunInput::LeadEnded(Status::Killed, None), &[RunAction::Finish]);
}

#[test]
fn a_team_that_the_user_shuts_down_is_asked_to_leave_and_who_does_not_is_ended() {
    let both = || vec![name("ann"), name("bob")];
    Play::new(&["ann", "bob"])
        .then(
            RunInput::EndAsked(EndReason::ShutDown),
            &[RunAction::HoldLead, RunAction::AskToShutDown(both())],
        )
        .then(RunInput::Left(name("ann")), &[])
        .then(RunInput::GraceOver, &[RunAction::Kill(vec![name("bob")])])
        .then(RunInput::Left(name("bob")), &[RunAction::DropLead])
        .then(RunInput::LeadEnded(Status::Killed, None), &[RunAction::Finish]);
}

#[test]
fn a_stopped_lead_without_a_team_is_dropped_at_once_and_one_that_reached_a_limit_ends_its_step() {
    Play::new(&[])
        .then(RunInput::EndAsked(EndReason::Interrupted), &[RunAction::DropLead])
        .then(RunInput::LeadEnded(Status::Killed, None), &[RunAction::Finish]);
    Play::new(&[])
        .then(
            RunInput::EndAsked(EndReason::Limit(Limit::Cost, "too much".to_owned())),
            &[RunAction::EndLead("too much".to_owned())],
        )
        .then(RunInput::GraceOver, &[RunAction::DropLead])
        .then(RunInput::LeadEnded(Status::Killed, None), &[RunAction::Finish]);
}

#[test]
fn when_the_leads_model_is_unavailable_the_team_is_suspended_so_that_it_can_be_resumed() {
    let mut play = Play::new(&["bob"]);
    let parked = RunInput::LeadEnded(Status::Parked, Some("come later".to_owned()));
    play.then(parked, &[RunAction::Suspend(vec![name("bob")])])
        .then(RunInput::Left(name("bob")), &[RunAction::Finish]);
    assert_eq!(play.0.end_reason(), Some(&EndReason::ModelUnavailable("come later".to_owned())));
    assert!(play.0.end_reason().unwrap().is_resumable());
}

#[test]
fn a_run_in_which_all_wait_for_a_teammates_model_parks_and_keeps_its_team() {
    let mut play = Play::new(&["bob"]);
    play.then(told("bob", Status::Idle), &[])
        .then(RunInput::Unavailable(name("bob"), "come later".to_owned()), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::Suspend(vec![name("bob")])])
        .then(RunInput::Left(name("bob")), &[RunAction::DropLead]);
    assert_eq!(
        play.0.end_reason(),
        Some(&EndReason::ModelUnavailable("bob: come later".to_owned()))
    );
}

#[test]
fn a_run_that_is_stopped_while_it_asks_its_team_to_leave_waits_for_nobody() {
    let mut play = Play::new(&["bob"]);
    play.then(
        RunInput::EndAsked(EndReason::ShutDown),
        &[RunAction::HoldLead, RunAction::AskToShutDown(vec![name("bob")])],
    )
    .then(RunInput::EndAsked(EndReason::Interrupted), &[RunAction::Suspend(vec![name("bob")])])
    .then(RunInput::Left(name("bob")), &[RunAction::DropLead]);
    assert!(play.0.end_reason().unwrap().is_resumable());
}

#[test]
fn without_a_lead_nobody_goes_on() {
    Play::new(&["bob"])
        .then(
            RunInput::LeadEnded(Status::Failed, Some("no key".to_owned())),
            &[RunAction::Drop(vec![name("bob")])],
        )
        .then(RunInput::Left(name("bob")), &[RunAction::Finish]);
    Play::new(&[])
        .then(RunInput::LeadEnded(Status::Failed, Some("no key".to_owned())), &[RunAction::Finish]);
}

/// Creates the observations about a pitcrew teammate that is quiet, so that the run does not wait
/// for it.
fn mate(who: &str) -> MateSeen {
    MateSeen { name: name(who), has_unread: false, has_said_goodbye: false, client: None }
}

/// Creates the observations about a teammate that another client runs.
fn client(who: &str, seen: ClientSeen) -> MateSeen {
    MateSeen { client: Some(seen), ..mate(who) }
}

/// Returns the time at the given second, in the format that messages use.
fn at(second: u32) -> Option<String> {
    Some(format!("2026-11-20T13:10:{second:02}.000Z"))
}

/// Creates a run in which bob and the lead are idle. The next step of this run is a check of the
/// mail.
fn at_rest() -> Play {
    let mut play = Play::new(&["bob"]);
    play.then(told("bob", Status::Idle), &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround]);
    play
}

#[test]
fn unread_mail_keeps_a_run_until_its_inbox_changes() {
    at_rest()
        .sees(MateSeen { has_unread: true, ..mate("bob") }, &[RunAction::Ring(name("bob"))])
        .then(RunInput::InboxChanged(AgentName::lead().inbox_file()), &[])
        .then(RunInput::InboxChanged(name("bob").inbox_file()), &[RunAction::LookAround])
        .sees(mate("bob"), &[RunAction::HearReports])
        .then(RunInput::InboxChanged(name("bob").inbox_file()), &[]);
}

#[test]
fn the_first_teammate_that_keeps_the_run_decides_when_to_look_again() {
    let unread = |who| MateSeen { has_unread: true, ..mate(who) };
    let mates = vec![mate("ann"), unread("bob"), unread("cleo")];
    at_rest()
        .then(RunInput::Looked(mates), &[RunAction::Ring(name("bob"))])
        .then(RunInput::InboxChanged(name("cleo").inbox_file()), &[])
        .then(RunInput::InboxChanged(name("bob").inbox_file()), &[RunAction::LookAround]);
}

#[test]
fn when_changes_of_mail_may_be_lost_a_run_that_waits_for_mail_looks_again() {
    at_rest()
        .then(RunInput::MailUnsure, &[])
        .sees(MateSeen { has_unread: true, ..mate("bob") }, &[RunAction::Ring(name("bob"))])
        .then(RunInput::MailUnsure, &[RunAction::LookAround]);
}

#[test]
fn nobody_is_looked_at_while_somebody_works() {
    let mut play = at_rest();
    play.sees(MateSeen { has_unread: true, ..mate("bob") }, &[RunAction::Ring(name("bob"))])
        .then(told("bob", Status::Active), &[])
        .then(RunInput::InboxChanged(name("bob").inbox_file()), &[])
        .then(RunInput::WaitOver, &[])
        .then(told("bob", Status::Idle), &[RunAction::LookAround]);
}

#[test]
fn a_report_that_is_heard_after_the_look_keeps_the_run() {
    at_rest()
        .sees(mate("bob"), &[RunAction::HearReports])
        .then(told("bob", Status::Active), &[])
        .then(RunInput::ReportsHeard { is_waiting: false }, &[]);
}

#[test]
fn a_run_is_not_quiet_while_a_subagent_works_in_the_background() {
    at_rest()
        .sees(mate("bob"), &[RunAction::HearReports])
        .then(RunInput::ReportsHeard { is_waiting: true }, &[])
        .then(RunInput::LeadTold, &[])
        .then(told("team-lead", Status::Idle), &[RunAction::LookAround])
        .all_quiet(&[RunAction::WakeLead]);
}

#[test]
fn after_a_goodbye_the_end_of_the_teammate_comes_next() {
    at_rest()
        .sees(MateSeen { has_said_goodbye: true, ..mate("bob") }, &[])
        .then(RunInput::InboxChanged(AgentName::lead().inbox_file()), &[])
        .then(RunInput::Left(name("bob")), &[RunAction::LookAround]);
}

#[test]
fn a_client_owes_a_notice_after_what_it_was_sent_and_after_each_turn() {
    let lead = || RunInput::InboxChanged(AgentName::lead().inbox_file());
    let sent = ClientSeen { last_sent: at(2), last_notice: at(1), ..ClientSeen::default() };
    let never = ClientSeen { last_notice: None, ..sent.clone() };
    let told = ClientSeen { last_notice: at(3), ..sent.clone() };
    let in_turn = ClientSeen { turn: TurnState::Turn, ..told.clone() };
    for seen in [sent, never, in_turn] {
        at_rest().sees(client("bob", seen), &[]).then(lead(), &[RunAction::LookAround]);
    }
    at_rest().sees(client("bob", told), &[RunAction::HearReports]);
    at_rest().sees(client("bob", ClientSeen::default()), &[RunAction::HearReports]);
}

#[test]
fn a_client_that_may_begin_a_turn_has_time_to_show_it() {
    let unclear = ClientSeen { turn: TurnState::Unclear, ..ClientSeen::default() };
    at_rest()
        .sees(client("bob", unclear), &[RunAction::AwaitTurn])
        .then(RunInput::WaitOver, &[RunAction::LookAround])
        .sees(client("bob", ClientSeen::default()), &[RunAction::HearReports]);
}

#[test]
fn a_client_that_was_asked_to_leave_is_waited_for_until_its_time_is_over() {
    let asked = |ago| ClientSeen { asked_to_leave: Some(ago), ..ClientSeen::default() };
    let (second, left) = (Duration::from_secs(1), Duration::from_secs(29));
    at_rest()
        .sees(client("bob", asked(second)), &[RunAction::AwaitGoodbye(left)])
        .then(RunInput::WaitOver, &[RunAction::LookAround])
        .sees(client("bob", asked(GRACE)), &[RunAction::HearReports]);
    at_rest().sees(client("bob", asked(GRACE + second)), &[RunAction::HearReports]);
}
