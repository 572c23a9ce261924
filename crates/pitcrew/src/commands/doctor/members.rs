//! The check of members: those of a team that nobody leads, and who have no process.

use pitcrew_protocol::AgentName;
use pitcrew_store::LeaseName;
use pitcrew_team::{Actor, SpawnRecord, Team};

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::{TeamView, is_led};
use crate::failure::Failure;

pub(super) async fn look(view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    if !view.is_ours() || view.is_led().await? {
        return Ok(faults);
    }
    let team = &view.team;
    let started = team.started().await?;
    for member in view.config.teammates().filter(|member| SpawnRecord::of(member).is_some()) {
        let lease = team.backend().lease_holder(team.dir(), &LeaseName::of_member(&member.name)).await;
        // One that runs without anybody having started it has joined by itself.
        if lease.map_err(Failure::internal)?.is_some() && !started.contains_key(&member.name) {
            continue;
        }
        let detail = format!("{} has no process; nobody runs the team", member.name);
        let finding = Finding::new("dead_member", detail).in_team(team.dir());
        let remedy = Remedy::RemoveMember { team: team.clone(), name: member.name.clone() };
        faults.push(Fault::mended_by(remedy, "let go, its tasks free again", finding));
    }
    Ok(faults)
}

pub(super) async fn remove(team: &Team, name: &AgentName) -> Result<Mended, Failure> {
    if is_led(team).await? {
        return Ok(Mended::Left("the team is led again".to_owned()));
    }
    let removed = team.remove_member(&Actor::User, name).await?;
    let (tasks, mail) = (removed.released.len(), removed.dead.len());
    Ok(Mended::Done(format!("removed; {tasks} tasks are free again, {mail} unread messages told as dead")))
}
