//! A member in its own process, whose lead signs its commands. The tests check which commands the
//! member obeys, and how the member accepts a new lead.

use std::process::{Child, Command};

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::Status;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Entry, RunEnd, RunHandle, SoloOptions};
use pitcrew_team::store::{Event, Lease, LeaseHolder, LeaseName};
use pitcrew_team::{Actor, LeadSigner, Team};

use crate::solo_env::{AGREES, dismiss, start, tell, until_it_is};
use crate::team_env::{TestRun, finish, until};

/// Takes the lease of the team's run for `process`. The lease contains the public key with which
/// others verify the signatures of `seal`.
async fn lease_of(team: &Team, process: ProcessIdentity, seal: &LeadSigner) -> Lease {
    let ProcessIdentity { pid, start_ticks } = process;
    let verify_key = Some(seal.verify_key().to_string());
    let holder = LeaseHolder {
        pid,
        start_ticks,
        since_ms: team.teams().now_ms(),
        verify_key,
        prepares: false,
    };
    team.backend().take_lease(team.dir(), &LeaseName::Run, &holder).await.unwrap().unwrap()
}

async fn until_it_warns(handle: &mut RunHandle, of: &str) {
    until(handle, |event| matches!(event, RunEvent::Warning { text } if text.contains(of))).await;
}

/// Starts a process that plays the role of a lead's process. It runs until a test kills it.
fn stand_in() -> (Child, ProcessIdentity) {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    let process = ProcessIdentity::of(child.id()).unwrap();
    (child, process)
}

#[tokio::test]
async fn a_new_lead_s_word_is_taken_when_the_old_lead_s_process_has_ended_and_no_sooner() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let (mut old_process, identity) = stand_in();
    let (old, new) =
        (LeadSigner::make(team.teams()).unwrap(), LeadSigner::make(team.teams()).unwrap());
    let old_lead = team.clone().take_lead(old.clone()).await.unwrap();
    let lease = lease_of(&team, identity, &old).await;
    tell(&old_lead, "bob", "Say hello.").await;
    let mut options = setting.alone(&format!("agents:\n  bob:\n    - text: Hello.\n{AGREES}"));
    options.lead_key = old_lead.lead_keys().cloned();
    let mut handle = start(options).await;
    until_it_is(&mut handle, Status::Idle).await;

    let usurper = team.clone().sealed(new.clone());
    dismiss(&usurper, "bob").await;
    until_it_warns(&mut handle, "its signature does not match its content").await;
    usurper.set_mode(&Actor::Lead, &crate::solo_env::bob(), "bypassPermissions").await.unwrap();
    until_it_warns(&mut handle, "the mode bypassPermissions in the config was refused").await;

    drop(lease);
    let lease = lease_of(&team, ProcessIdentity::own(), &new).await;
    until_it_warns(
        &mut handle,
        &format!("process {} leads the team and has not ended", identity.pid),
    )
    .await;
    old_process.kill().unwrap();
    old_process.wait().unwrap();
    drop(lease);
    let _lease = lease_of(&team, ProcessIdentity::own(), &new).await;
    until_it_is(&mut handle, Status::Idle).await;
    let new_lead = team.clone().take_lead(new).await.unwrap();
    dismiss(&new_lead, "bob").await;
    assert!(matches!(finish(handle).await.outcome.end, RunEnd::Success { .. }));
}

#[tokio::test]
async fn who_joins_a_team_that_is_run_takes_its_lead_s_key_and_a_lead_that_signs_nothing_is_told_of()
 {
    for signs in [true, false] {
        let setting = TestRun::in_files();
        let team = setting.with_bob_in_a_pane().await;
        let seal = LeadSigner::make(team.teams()).unwrap();
        let (lead, _lease) = match signs {
            true => {
                let lease = lease_of(&team, ProcessIdentity::own(), &seal).await;
                (team.clone().take_lead(seal).await.unwrap(), lease)
            }
            false => (team.clone(), crate::solo_env::lead_lease(&team).await),
        };
        tell(&lead, "bob", "Say hello.").await;
        let mut handle =
            start(setting.alone(&format!("agents:\n  bob:\n    - text: Hello.\n{AGREES}"))).await;
        let seen = until_it_is(&mut handle, Status::Idle).await;
        let caution = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("signs nothing"));
        assert_eq!(
            seen.iter().filter(|event| caution(event)).count(),
            usize::from(!signs),
            "{seen:?}"
        );
        dismiss(&lead, "bob").await;
        finish(handle).await;
    }
}

#[tokio::test]
async fn who_joins_while_nobody_leads_takes_the_word_of_the_lead_that_was_and_of_nobody_else() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let (mut process, identity) = stand_in();
    let seal = LeadSigner::make(team.teams()).unwrap();
    let _lead = team.clone().take_lead(seal.clone()).await.unwrap();
    drop(lease_of(&team, identity, &seal).await);
    process.kill().unwrap();
    process.wait().unwrap();
    let script = "agents:\n  guest:\n    - text: Ready.\n    - text: Still here.\n";
    let guest = SoloOptions {
        name: "guest".to_owned(),
        entry: Entry::Joins,
        model: Some("script:test.yaml".to_owned()),
        ..setting.alone(script)
    };
    let mut handle = start(guest).await;
    until_it_is(&mut handle, Status::Idle).await;
    let usurper = team.clone().sealed(LeadSigner::make(team.teams()).unwrap());
    dismiss(&usurper, "guest").await;
    until_it_warns(&mut handle, "its signature does not match its content").await;
    handle.stopper().kill();
    assert!(matches!(finish(handle).await.outcome.end, RunEnd::Interrupted));
}

/// A team with an old and a new lead. The old lead starts the process of `bob`, but the new lead
/// already holds the lease.
struct BetweenLeads {
    setting: TestRun,
    team: Team,
    old_lead: Team,
    new_lead: Team,
    old_process: (Child, ProcessIdentity),
    lease: Option<Lease>,
}

impl BetweenLeads {
    async fn new() -> Self {
        let setting = TestRun::in_files();
        let team = setting.with_bob_in_a_pane().await;
        let (old, new) =
            (LeadSigner::make(team.teams()).unwrap(), LeadSigner::make(team.teams()).unwrap());
        let old_process = stand_in();
        let old_lead = team.clone().take_lead(old.clone()).await.unwrap();
        tell(&old_lead, "bob", "Say hello.").await;
        let lease = lease_of(&team, ProcessIdentity::own(), &new).await;
        let new_lead = team.clone().take_lead(new).await.unwrap();
        Self { setting, team, old_lead, new_lead, old_process, lease: Some(lease) }
    }

    /// Starts `bob` with the options that the old lead would pass.
    async fn start(&self) -> RunHandle {
        let mut options = self.setting.alone(&format!("agents:\n  bob:{AGREES}"));
        options.lead_key = self.old_lead.lead_keys().cloned();
        options.lead_process = Some(self.old_process.1);
        start(options).await
    }

    fn old_lead_ends(&mut self) {
        self.old_process.0.kill().unwrap();
        self.old_process.0.wait().unwrap();
    }

    async fn refused(&self) -> usize {
        let journal = self.team.backend().journal_since(self.team.dir(), 0).await.unwrap().0;
        journal.iter().filter(|entry| matches!(entry.event, Event::FrameRefused { .. })).count()
    }
}

#[tokio::test]
async fn a_member_whose_lead_died_before_it_was_looked_for_follows_the_next() {
    let mut between = BetweenLeads::new().await;
    between.old_lead_ends();
    let mut handle = between.start().await;
    until_it_is(&mut handle, Status::Idle).await;
    dismiss(&between.new_lead, "bob").await;
    assert!(matches!(finish(handle).await.outcome.end, RunEnd::Success { .. }));
}

#[tokio::test]
async fn a_member_follows_the_next_lead_as_soon_as_the_old_one_has_ended_though_the_lease_does_not_change_any_more()
 {
    let mut between = BetweenLeads::new().await;
    let mut handle = between.start().await;
    until_it_warns(&mut handle, "leads the team and has not ended").await;
    between.old_lead_ends();
    until_it_is(&mut handle, Status::Idle).await;
    dismiss(&between.new_lead, "bob").await;
    assert!(matches!(finish(handle).await.outcome.end, RunEnd::Success { .. }));
}

#[tokio::test]
async fn what_a_new_lead_signs_before_it_is_known_is_taken_afterwards_and_forgeries_are_refused_at_once()
 {
    let mut between = BetweenLeads::new().await;
    // `bob` reads no messages while no lead runs. So the test itself reads the inbox, and trusts
    // the same lead as `bob`.
    let reader = between.team.clone().trusting(between.old_lead.trust().clone());
    let bob = crate::solo_env::bob();
    dismiss(&between.new_lead, "bob").await;
    let stranger = between.team.clone().sealed(LeadSigner::make(between.team.teams()).unwrap());
    dismiss(&stranger, "bob").await;
    let collected = reader.collect(&bob).await.unwrap();
    assert_eq!(
        collected.mail.iter().filter(|mail| mail.frame.is_some()).count(),
        0,
        "{collected:?}"
    );
    assert_eq!(collected.refused.len(), 1, "only the stranger's: {collected:?}");
    between.new_lead.set_mode(&Actor::Lead, &bob, "acceptEdits").await.unwrap();

    let mut handle = between.start().await;
    until_it_warns(&mut handle, "leads the team and has not ended").await;
    between.new_lead.set_mode(&Actor::Lead, &bob, "bypassPermissions").await.unwrap();
    between.old_lead_ends();
    let is_changed = |event: &RunEvent| matches!(event, RunEvent::ModeChanged { mode, .. } if mode.as_str() == "bypassPermissions");
    until(&mut handle, is_changed).await;
    assert!(
        matches!(finish(handle).await.outcome.end, RunEnd::Success { .. }),
        "the request to shut down was taken"
    );
    assert_eq!(between.refused().await, 1);
}

#[tokio::test]
async fn what_a_lead_signed_that_died_before_it_was_known_counts_under_the_one_after_it() {
    let mut between = BetweenLeads::new().await;
    dismiss(&between.new_lead, "bob").await;
    let third = LeadSigner::make(between.team.teams()).unwrap();
    between.lease = None;
    between.lease = Some(lease_of(&between.team, ProcessIdentity::own(), &third).await);
    let _third_lead = between.team.clone().take_lead(third).await.unwrap();
    between.old_lead_ends();
    let handle = between.start().await;
    assert!(
        matches!(finish(handle).await.outcome.end, RunEnd::Success { .. }),
        "the second lead's request was taken"
    );
    assert_eq!(between.refused().await, 0);
}
