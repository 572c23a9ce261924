//! The check of mail: unread messages to a name that is not a member.

use pitcrew_protocol::{AgentName, MessageId, counted};
use pitcrew_team::Team;

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use crate::failure::Failure;

pub(super) async fn look(rooms: &Rooms, view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    if !view.is_ours() {
        return Ok(faults);
    }
    let team = &view.team;
    for name in rooms.files.inboxes(team.dir()).map_err(Failure::internal)? {
        let has_reader =
            view.config.members.iter().any(|member| member.name.inbox_file() == name.inbox_file());
        // The file check already reports a damaged inbox.
        let Ok(unread) = team.unread(&name).await else { continue };
        if has_reader || unread.is_empty() {
            continue;
        }
        let ids: Vec<MessageId> = unread.into_iter().map(|mail| mail.id).collect();
        let detail =
            format!("{} for {name}, which is not a member", counted(ids.len(), "unread message"));
        let finding = Finding::new("dead_mail", detail).in_team(team.dir());
        let remedy = Remedy::GiveUpMail { team: team.clone(), name, ids };
        faults.push(Fault::mended_by(remedy, "told as dead", finding));
    }
    Ok(faults)
}

pub(super) async fn give_up(
    team: &Team,
    name: &AgentName,
    ids: &[MessageId],
) -> Result<Mended, Failure> {
    team.give_up_mail_of_nobody(name, ids).await.map_err(Failure::internal)?;
    Ok(Mended::Done("told as dead".to_owned()))
}
