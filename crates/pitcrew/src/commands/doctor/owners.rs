//! The check of the owners of a team's folders. Only a person knows whether a folder is supposed to
//! belong to another user.

use std::path::Path;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::TeamView;
use crate::owners::Foreign;

pub(super) fn look(root: &Path, view: &TeamView) -> Vec<Fault> {
    let foreign = Foreign::of_team(root, view.team.dir());
    let found = foreign.iter().map(|it| {
        Finding::new("foreign_owner", it.in_words()).in_team(view.team.dir()).at(&it.path)
    });
    found.map(Fault::left_to_a_person).collect()
}
