//! The check of a team's config: the config must list members, one member must be the lead, and no
//! two members may share an inbox. Only a person can decide how to correct a config.

use std::collections::HashSet;

use pitcrew_protocol::LEAD_NAME;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::TeamView;

pub(super) fn look(view: &TeamView) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut say = |detail: String| {
        let finding =
            Finding::new("bad_members", detail).in_team(view.team.dir()).at(&view.team.file());
        faults.push(Fault::left_to_a_person(finding));
    };
    if view.config.members.is_empty() {
        say("it names no member, not even a lead".to_owned());
    } else if view.config.member(LEAD_NAME).is_none() {
        say("none of its members is the lead".to_owned());
    }
    let mut known = HashSet::new();
    for member in &view.config.members {
        if !known.insert(member.name.inbox_file().as_str().to_lowercase()) {
            say(format!("two of its members share the inbox of {}", member.name));
        }
    }
    faults
}
