//! The check of members. The check makes two kinds of notes: a team that no process leads and whose
//! members wait for the next run, and a member that joined by itself and whose process has ended.
//! Such a team or member was stopped or crashed and can be resumed, so it is not a fault.

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{AgentName, LEAD_NAME, Member};
use pitcrew_team::SpawnRecord;
use pitcrew_team::store::LeaseName;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::TeamView;
use crate::failure::Failure;
use crate::output::shell_word;

pub(super) async fn look(view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let is_ours =
        |member: &&Member| SpawnRecord::of(member).is_some() && !member.is_called(LEAD_NAME);
    let (joined, spawned): (Vec<&Member>, Vec<&Member>) =
        view.config.members.iter().filter(is_ours).partition(|member| member.prompt.is_none());
    let mut notes = Vec::new();
    for member in joined {
        notes.extend(of_joined(view, &member.name).await?);
    }
    if view.is_ours() && !view.is_led().await? {
        let (team, lease) = (&view.team, LeaseName::Run);
        let ran = team.last_holder(&lease).await.map_err(Failure::internal)?.is_some();
        // A team that was never run has nothing to resume. Such a team gets no note.
        notes.extend((ran || !spawned.is_empty()).then(|| of_stopped(view, &spawned)));
    }
    Ok(notes)
}

/// Builds a note about a member that joined by itself and whose process has ended. The member's
/// lease names that process.
async fn of_joined(view: &TeamView, name: &AgentName) -> Result<Option<Fault>, Failure> {
    let (team, lease) = (&view.team, LeaseName::of_member(name));
    let last = team.last_holder(&lease).await.map_err(Failure::internal)?;
    let Some(process) = last
        .as_ref()
        .map(|holder| ProcessIdentity::from(holder.process()))
        .filter(|process| !process.is_alive())
    else {
        return Ok(None);
    };
    let dir = team.dir();
    let detail = format!(
        "{process}, which ran {name}, is gone; {name} had joined by itself: `pitcrew join {dir} --as {name}` goes on with it, \
         `pitcrew member remove {name} --team {dir}` takes it out of the team"
    );
    Ok(Some(Fault::note(Finding::new("member_gone", detail).in_team(dir))))
}

/// Builds a note about a team that no process leads.
fn of_stopped(view: &TeamView, waiting: &[&Member]) -> Fault {
    let names = match waiting {
        [] => "its lead".to_owned(),
        waiting => waiting.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", "),
    };
    let word = shell_word(view.config.name.as_str());
    let detail = format!(
        "nobody runs it; `pitcrew run --resume {word}` goes on with {names}, `pitcrew team delete {word} --force` ends it"
    );
    Fault::note(Finding::new("stopped", detail).in_team(view.team.dir()))
}
