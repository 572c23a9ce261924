//! The check of members: a team that nobody leads, and whose members wait for the next run. That is no fault: it was stopped,
//! or crashed, and can go on.

use pitcrew_protocol::AgentName;
use pitcrew_store::LeaseName;
use pitcrew_team::SpawnRecord;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::TeamView;
use crate::failure::Failure;

pub(super) async fn look(view: &TeamView) -> Result<Vec<Fault>, Failure> {
    if !view.is_ours() || view.is_led().await? {
        return Ok(Vec::new());
    }
    let team = &view.team;
    let started = team.started().await?;
    let mut waiting: Vec<&AgentName> = Vec::new();
    for member in view.config.teammates().filter(|member| SpawnRecord::of(member).is_some()) {
        let lease = team.backend().lease_holder(team.dir(), &LeaseName::of_member(&member.name)).await;
        // One that runs without anybody having started it has joined by itself.
        let has_joined = lease.map_err(Failure::internal)?.is_some() && !started.contains_key(&member.name);
        if !has_joined {
            waiting.push(&member.name);
        }
    }
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let names = waiting.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let dir = team.dir();
    let detail = format!(
        "nobody runs it; `pitcrew run --resume {dir}` goes on with {names}, `pitcrew team delete {dir} --force` ends it"
    );
    Ok(vec![Fault::note(Finding::new("stopped", detail).in_team(dir))])
}
