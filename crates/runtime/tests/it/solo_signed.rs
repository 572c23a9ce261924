//! A member in a process of its own whose lead signs: whose word it takes, and how that changes hands.

use std::process::{Child, Command};

use pitcrew_runtime::agent::Status;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::identity::ProcessIdentity;
use pitcrew_runtime::run::{RunEnd, RunHandle};
use pitcrew_team::store::{Lease, LeaseHolder, LeaseName};
use pitcrew_team::{Actor, LeadSeal, Team};

use crate::crew_setting::{Setting, finish, until};
use crate::solo_setting::{AGREES, dismiss, start, tell, until_it_is};

/// Takes the lease of the run in the name of a process, with the key it signs with.
async fn lease_of(team: &Team, process: ProcessIdentity, seal: &LeadSeal) -> Lease {
    let ProcessIdentity { pid, start_ticks } = process;
    let verify_key = Some(seal.verify_key().to_string());
    let holder = LeaseHolder { pid, start_ticks, since_ms: team.teams().now_ms(), verify_key };
    team.backend().take_lease(team.dir(), &LeaseName::Run, &holder).await.unwrap().unwrap()
}

async fn until_it_warns(handle: &mut RunHandle, of: &str) {
    until(handle, |event| matches!(event, RunEvent::Warning { text } if text.contains(of))).await;
}

/// A process that stands for a lead's, and ends when it is killed.
fn stand_in() -> (Child, ProcessIdentity) {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    let process = ProcessIdentity::of(child.id()).unwrap();
    (child, process)
}

#[tokio::test]
async fn a_new_lead_s_word_is_taken_when_the_old_lead_s_process_has_ended_and_no_sooner() {
    let setting = Setting::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let (mut old_process, identity) = stand_in();
    let (old, new) = (LeadSeal::make(team.teams()).unwrap(), LeadSeal::make(team.teams()).unwrap());
    let old_lead = team.clone().take_lead(old.clone()).await.unwrap();
    let lease = lease_of(&team, identity, &old).await;
    tell(&old_lead, "bob", "Say hello.").await;
    let mut options = setting.alone(&format!("agents:\n  bob:\n    - text: Hello.\n{AGREES}"));
    options.lead_key = old_lead.lead_keys().cloned();
    let mut handle = start(options).await;
    until_it_is(&mut handle, Status::Idle).await;

    let usurper = team.clone().sealed(new.clone());
    dismiss(&usurper, "bob").await;
    until_it_warns(&mut handle, "its signature does not fit what it says").await;
    usurper.set_mode(&Actor::Lead, &crate::solo_setting::bob(), "bypassPermissions").await.unwrap();
    until_it_warns(&mut handle, "the mode bypassPermissions in the config was refused").await;

    drop(lease);
    let lease = lease_of(&team, ProcessIdentity::own(), &new).await;
    until_it_warns(&mut handle, &format!("process {} leads the team and has not ended", identity.pid)).await;
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
async fn who_joins_a_team_that_is_run_takes_its_lead_s_key_and_a_lead_that_signs_nothing_is_told_of() {
    for signs in [true, false] {
        let setting = Setting::in_files();
        let team = setting.with_bob_in_a_pane().await;
        let seal = LeadSeal::make(team.teams()).unwrap();
        let (lead, _lease) = match signs {
            true => {
                let lease = lease_of(&team, ProcessIdentity::own(), &seal).await;
                (team.clone().take_lead(seal).await.unwrap(), lease)
            }
            false => (team.clone(), crate::solo_setting::lead_lease(&team).await),
        };
        tell(&lead, "bob", "Say hello.").await;
        let mut handle = start(setting.alone(&format!("agents:\n  bob:\n    - text: Hello.\n{AGREES}"))).await;
        let seen = until_it_is(&mut handle, Status::Idle).await;
        let caution = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("signs nothing"));
        assert_eq!(seen.iter().filter(|event| caution(event)).count(), usize::from(!signs), "{seen:?}");
        dismiss(&lead, "bob").await;
        finish(handle).await;
    }
}
