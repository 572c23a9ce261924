//! The list of teams from which the user chooses one to go on with.

use crossterm::event::KeyEvent;

use super::{Action, App, Left, Onward, Stage};
use crate::panels::{PanelAct, Picker, PickerItem};

/// A team to go on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamItem {
    /// The name of the team's folder, or the id of its archive.
    pub id: String,
    /// The team as the list shows it.
    pub item: PickerItem,
}

/// A team whose work is done. The first message of the user continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedTeam {
    /// The name of the team's folder, or the id of its archive.
    pub id: String,
    /// The team's name.
    pub name: String,
    /// Whether the team is in the archive.
    pub is_archived: bool,
}

/// The list while it is open.
#[derive(Debug)]
pub(super) struct Choosing {
    pub(super) picker: Picker,
    pub(super) items: Vec<PickerItem>,
    ids: Vec<String>,
}

impl App {
    /// Asks for the list of teams.
    pub(super) fn choose_team(&mut self) -> Vec<Action> {
        if self.is_starting() {
            self.problem("the team is being started; choose another one when it runs");
            return Vec::new();
        }
        vec![Action::ListTeams]
    }

    /// Leaves for a new team.
    pub(super) fn new_team(&mut self) -> Vec<Action> {
        if self.is_starting() {
            self.problem("the team is being started; begin another one when it runs");
            return Vec::new();
        }
        vec![Action::Leave(Left::Onward(Onward::NewTeam))]
    }

    /// Leaves for the display of the completed team that waits for a message, if there is one.
    pub(super) fn view_completed(&self) -> Option<Vec<Action>> {
        let id = self.completed_here()?.id.clone();
        Some(vec![Action::Leave(Left::Onward(Onward::Records { id }))])
    }

    /// Returns the completed team that the next message continues.
    pub(super) fn completed_here(&self) -> Option<&CompletedTeam> {
        self.completed.as_ref().filter(|_| matches!(self.stage, Stage::Goal))
    }

    /// A run that is being started ends if its starter leaves.
    fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting(_))
    }

    pub(super) fn teams_listed(&mut self, result: Result<Vec<TeamItem>, String>) -> Vec<Action> {
        match result {
            Ok(teams) if teams.is_empty() => {
                self.tell("no other team runs or can be resumed");
            }
            Ok(teams) => {
                let (ids, items) = teams.into_iter().map(|it| (it.id, it.item)).unzip();
                let picker = Picker::new("teams to go on with");
                self.choosing = Some(Choosing { picker, items, ids });
            }
            Err(reason) => self.problem(format!("the teams are not known: {reason}")),
        }
        Vec::new()
    }

    /// Handles a key while the list is open. Returns `None` if it is not open.
    pub(super) fn choosing_key(&mut self, key: KeyEvent) -> Option<Vec<Action>> {
        let choosing = self.choosing.as_mut()?;
        match choosing.picker.key(key) {
            PanelAct::Chosen(index) => {
                let id = choosing.ids.get(index).cloned()?;
                self.choosing = None;
                return Some(vec![Action::Leave(Left::Onward(Onward::Team { id }))]);
            }
            PanelAct::Close => self.choosing = None,
            PanelAct::None
            | PanelAct::Redraw
            | PanelAct::Peek(_)
            | PanelAct::OpenPane(_)
            | PanelAct::Message(_) => {}
        }
        Some(Vec::new())
    }
}
