//! The check of a team that no process leads now: processes and panes that were started for the
//! team and still exist.

use std::time::Duration;

use pitcrew_process::identity::{Entry, ProcessIdentity, Stopped};
use pitcrew_protocol::{AgentName, TeamDir};
use pitcrew_runtime::supervision::{
    LeftRunning, PaneClosed, TaggedPane, escaped, left_by_started, left_running, own_process,
    still_running, stop_member,
};
use pitcrew_team::store::LeaseName;
use pitcrew_team::{ArchivedEscapes, Escaped, Started, Team};

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::{Rooms, TeamView, is_led};
use crate::failure::Failure;

/// How long an orphaned process has to end after SIGTERM. Then the process is killed.
const TERM_GRACE: Duration = Duration::from_secs(3);

pub(super) async fn look(rooms: &Rooms, view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let mut faults = of_escaped(&view.team).await?;
    faults.extend(suspended(&view.team).await?);
    if !view.is_ours() || view.is_led().await? {
        return Ok(faults);
    }
    let team = &view.team;
    let started = team.started().await?;
    for (owner, processes) in left_running(team).await? {
        let pids =
            processes.iter().map(|process| process.pid.to_string()).collect::<Vec<_>>().join(", ");
        let detail = format!("left running by {owner}, which is dead: {pids}");
        let finding = Finding::new("orphaned_command", detail).in_team(team.dir());
        faults.push(Fault::mended_by(Remedy::StopLeft(owner), "stopped", finding));
    }
    for pane in rooms.panes.of_team(team).await? {
        // The loop below handles a recorded pane together with its member.
        if started.values().any(|started| started.pane.as_ref() == Some(&pane.place)) {
            continue;
        }
        if let Some(agent) =
            pane.tag.agent.as_ref().filter(|agent| view.config.member(agent.as_str()).is_some())
        {
            let detail = format!(
                "pane {} of {agent} is not recorded: its lead died while it made it; {}",
                pane.place,
                help(team.dir())
            );
            faults.push(Fault::left_to_a_person(
                Finding::new("orphaned_pane", detail).in_team(team.dir()),
            ));
            continue;
        }
        let whose = pane.tag.agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
        let detail =
            format!("pane {}{whose} belongs to no member; nobody leads the team", pane.place);
        let finding = Finding::new("orphaned_pane", detail).in_team(team.dir());
        faults.push(Fault::mended_by(Remedy::ClosePane(Box::new(pane)), "closed", finding));
    }
    for (name, started) in started {
        faults.push(of_started(rooms, team, name, started).await);
    }
    Ok(faults)
}

/// Reports the processes of a team that are suspended. Nothing of such an agent goes on.
async fn suspended(team: &Team) -> Result<Vec<Fault>, Failure> {
    let host = team.lease_holder(&LeaseName::Run).await.map_err(Failure::internal)?;
    let host = host.map(|holder| ("the team".to_owned(), holder.pid));
    let started = team.started().await?;
    let members = started.into_iter().filter_map(|(name, it)| Some((name, it.process?)));
    let members = members
        .filter(|(_, process)| ProcessIdentity::from(*process).is_alive())
        .map(|(name, process)| (name.to_string(), process.pid));
    let is_suspended =
        |(_, pid): &(String, u32)| Entry::read(*pid).is_some_and(|entry| entry.is_suspended);
    let fault = |(of, pid): (String, u32)| {
        let detail = format!(
            "the process {pid} of {of} is suspended (Ctrl-Z, SIGSTOP): `kill -CONT {pid}` lets it go on"
        );
        Fault::left_to_a_person(Finding::new("suspended", detail).in_team(team.dir()))
    };
    Ok(host.into_iter().chain(members).filter(is_suspended).map(fault).collect())
}

/// Reports processes that were left by commands of killed runs and that do not have pitcrew's tags.
/// These processes are never stopped, because a record alone does not prove that they belong to
/// pitcrew.
async fn of_escaped(team: &Team) -> Result<Vec<Fault>, Failure> {
    let left = escaped(team).await?;
    let fault = |left: &LeftRunning| Fault::left_to_a_person(of_left(left).in_team(team.dir()));
    Ok(left.iter().map(fault).collect())
}

/// Reports such processes of archived teams. The end of a team does not end them.
pub(super) async fn in_archive(rooms: &Rooms) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for ArchivedEscapes { archive, escaped } in rooms.teams.escaped_in_archive().await? {
        let path = rooms.files.paths().archived(&archive);
        match escaped {
            Ok(records) => {
                let left = still_running(records).await;
                let fault = |left: &LeftRunning| Fault::left_to_a_person(of_left(left).at(&path));
                faults.extend(left.iter().map(fault));
            }
            Err(error) => {
                let said = format!("what its commands left running is not known: {error}");
                faults.push(Fault::note(Finding::new("unchecked", said).at(&path)));
            }
        }
    }
    Ok(faults)
}

fn of_left(left: &LeftRunning) -> Finding {
    let (process, Escaped { member, command, .. }) = (left.in_words(), &left.record);
    let detail = format!(
        "{process} still runs: by a record a command of {member} ({command}) left it behind when its run was killed; \
         the process does not carry the member's tag"
    );
    Finding::new("escaped", detail)
}

/// Reports a member's process or pane. If the process still runs and belongs to pitcrew, a repair
/// does not change it, because the member may be working and a resumed run takes the process over.
/// Otherwise, a repair removes the record and the pane. It also stops processes that a dead process
/// left running.
async fn of_started(rooms: &Rooms, team: &Team, name: AgentName, started: Started) -> Fault {
    let is_alive =
        started.process.map(ProcessIdentity::from).is_some_and(|process| process.is_alive());
    let is_ours = own_process(&rooms.panes, team, &name, &started).is_some();
    let left = left_by_started(&rooms.panes, team, &name, &started).await;
    let process = started.process.map(|process| format!("process {}", process.pid));
    let pane = started.pane.as_ref().map(|pane| format!("pane {pane}"));
    let what = process.into_iter().chain(pane).collect::<Vec<_>>().join(" in ");
    let (state, does) = match (is_alive, is_ours, left.is_empty()) {
        (true, true, _) => {
            let detail =
                format!("{what} of {name} runs on; nobody leads the team: {}", help(team.dir()));
            return Fault::left_to_a_person(
                Finding::new("orphaned_process", detail).in_team(team.dir()),
            );
        }
        (true, false, _) => (
            "does not carry the tag of the member".to_owned(),
            "left alone, and its record and pane cleared away",
        ),
        (false, _, true) => {
            ("has ended and is not cleared away".to_owned(), "its record and pane cleared away")
        }
        (false, _, false) => {
            let pids =
                left.iter().map(|process| process.pid.to_string()).collect::<Vec<_>>().join(", ");
            (
                format!("has ended, and left running: {pids}"),
                "what it left running stopped, its record and pane cleared away",
            )
        }
    };
    let detail = format!("{what} of {name} {state}; nobody leads the team");
    let finding = Finding::new("orphaned_process", detail).in_team(team.dir());
    let remedy = Remedy::ClearAway { team: team.clone(), name, started: Box::new(started) };
    Fault::mended_by(remedy, does, finding)
}

/// Names the commands that resume or stop a team whose members run without a lead.
fn help(dir: &TeamDir) -> String {
    format!("`pitcrew run --resume {dir}` goes on with it, `pitcrew shutdown {dir}` stops it")
}

/// Cleans up after a member whose recorded process is dead or does not belong to pitcrew.
pub(super) async fn clear_away(
    rooms: &Rooms,
    team: &Team,
    name: AgentName,
    started: Started,
) -> Result<Mended, Failure> {
    if is_led(team).await? {
        return Ok(Mended::Left("the team is led again".to_owned()));
    }
    if own_process(&rooms.panes, team, &name, &started).is_some() {
        return Ok(Mended::Left(format!("it runs: {}", help(team.dir()))));
    }
    let stopped = stop_member(team, &rooms.panes, TERM_GRACE, (name, started)).await?;
    Ok(match (stopped.is_gone(), stopped.pane_left) {
        (true, _) => Mended::Done("cleared away".to_owned()),
        (false, Some(why)) => Mended::Left(why),
        (false, None) => Mended::Left("it cannot be killed".to_owned()),
    })
}

pub(super) async fn close(pane: &TaggedPane) -> Mended {
    match pane.close().await {
        PaneClosed::Closed => Mended::Done("closed".to_owned()),
        PaneClosed::Left { reason } | PaneClosed::NotAsked { reason } => Mended::Left(reason),
    }
}

pub(super) async fn stop_left(owner: ProcessIdentity) -> Mended {
    match owner.stop(TERM_GRACE).await {
        Stopped::WasGone | Stopped::Ended => Mended::Done("stopped".to_owned()),
        Stopped::StillRunning => Mended::Left("some of it cannot be killed".to_owned()),
    }
}
