//! Closes panes that another process opened. The team's records say where these panes are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_panes::launch::Launcher;
use pitcrew_panes::{
    ITerm2, ITerm2Options, PaneError, PaneId, PaneProgram, PaneTag, Panes, Tmux, TmuxOptions,
};
use pitcrew_protocol::{AgentName, ApiError, PaneHost, chain};
use pitcrew_team::{PanePlace, Team};

use crate::hosting::root_word;

/// Finds and closes the recorded panes of the teams below one root folder.
#[derive(Clone, Debug)]
pub struct RecordedPanes {
    root: PathBuf,
    programs: Programs,
}

/// Which of the recorded pane programs are allowed to run. A record is only a file, and anybody
/// could have written a program's name into it. A recorded program therefore runs only if the user
/// has named it too.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Programs {
    Left,
    /// Only the programs that the user also names outside the record are allowed to run.
    Named(Vec<Vec<String>>),
}

/// The result of closing a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneClosed {
    /// The pane is gone.
    Closed,
    /// The pane still exists.
    Left {
        /// The reason why the pane still exists.
        reason: String,
    },
    /// It is unknown whether the pane still exists, because its terminal gave no answer or was not
    /// asked.
    NotAsked {
        /// The reason why the terminal gave no answer or was not asked.
        reason: String,
    },
}

impl RecordedPanes {
    /// Selects the panes of the teams below `root`. Leaves out the panes that a recorded pane
    /// program manages.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), programs: Programs::Left }
    }

    /// Also selects the panes that one of the `named` programs manages. A record can name any
    /// program, so no other program is run.
    #[must_use]
    pub fn with_named_programs(self, named: Vec<Vec<String>>) -> Self {
        Self { programs: Programs::Named(named), ..self }
    }

    /// Returns the tag of a member's panes. If `member` is `None`, returns the tag of all panes of
    /// the team.
    #[must_use]
    pub fn tag(&self, team: &Team, member: Option<&AgentName>) -> PaneTag {
        PaneTag { root: root_word(&self.root), team: team.dir().clone(), agent: member.cloned() }
    }

    /// Closes a member's pane if the pane exists and has the member's tag. Without that tag, the
    /// pane now belongs to somebody else. The pane then stays open, and the member's pane counts as
    /// gone.
    pub async fn close(&self, team: &Team, member: &AgentName, pane: &PanePlace) -> PaneClosed {
        let Some(panes) = self.open(&pane.host) else {
            return match self.programs {
                Programs::Left => {
                    let by = format!("`pitcrew shutdown {} --force`", team.dir());
                    PaneClosed::Left {
                        reason: format!(
                            "the pane {pane} is closed by a command that names its team: {by}"
                        ),
                    }
                }
                Programs::Named(_) => PaneClosed::NotAsked { reason: not_opened(&pane.host) },
            };
        };
        let is_program = !pane.host.command.is_empty();
        match stop(&*panes, &PaneId(pane.id.clone()), &self.tag(team, Some(member))).await {
            PaneClosed::Left { reason } if is_program => PaneClosed::NotAsked { reason },
            closed => closed,
        }
    }

    /// Finds all panes with the team's tag in every terminal that the team has used. The result
    /// also includes a pane that is not recorded, for example because the lead died before it wrote
    /// the record. A terminal that has ended has no panes.
    ///
    /// # Errors
    /// If the record of the terminals cannot be read.
    pub async fn of_team(&self, team: &Team) -> Result<Vec<TaggedPane>, ApiError> {
        let mut found = Vec::new();
        for host in team.pane_hosts().await? {
            let Some(panes) = self.open(&host) else { continue };
            match panes.tagged(&self.tag(team, None)).await {
                Ok(tagged) => found.extend(tagged.into_iter().map(|(id, tag)| TaggedPane {
                    place: PanePlace { host: host.clone(), id: id.0 },
                    tag,
                    panes: panes.clone(),
                })),
                Err(error) => {
                    tracing::debug!(?host, error = %chain(&error), "its panes cannot be looked for")
                }
            }
        }
        Ok(found)
    }

    /// Opens a pane backend that finds and closes panes but does not create them. Returns `None` if
    /// the backend is unknown or its program is not allowed to run.
    fn open(&self, host: &PaneHost) -> Option<Arc<dyn Panes>> {
        // No pane is started here.
        let launcher = Launcher::default();
        match host.backend.as_str() {
            "tmux" => Some(Arc::new(Tmux::new(TmuxOptions {
                program: PathBuf::from("tmux"),
                socket: host.socket.as_ref().map(PathBuf::from),
                config: None,
                beside: None,
                session: String::new(),
                launcher,
            }))),
            "iterm2" => {
                let program = PathBuf::from("it2");
                Some(Arc::new(ITerm2::new(ITerm2Options { program, beside: None, launcher })))
            }
            "pane" if !host.command.is_empty() && self.programs.include(&host.command) => {
                Some(Arc::new(PaneProgram::new(host.command.clone(), launcher)))
            }
            _ => None,
        }
    }
}

impl Programs {
    fn include(&self, command: &Vec<String>) -> bool {
        match self {
            Self::Left => false,
            Self::Named(named) => named.contains(command),
        }
    }
}

/// Explains why pitcrew does not ask the terminal of a pane.
fn not_opened(host: &PaneHost) -> String {
    match host.command.is_empty() {
        true => format!("panes of the kind {:?} are not known", host.backend),
        false => format!(
            "only a record names the program {:?}; it is run when `pitcrew.teammateMode` in the settings or --teammate-mode of a run names it",
            host.command.join(" ")
        ),
    }
}

/// A pane that has a team's tag.
#[derive(Clone, Debug)]
pub struct TaggedPane {
    /// Where the pane is.
    pub place: PanePlace,
    /// The tag of the pane's owner.
    pub tag: PaneTag,
    panes: Arc<dyn Panes>,
}

impl TaggedPane {
    /// Closes the pane and ends the program in it.
    pub async fn close(&self) -> PaneClosed {
        stop(&*self.panes, &PaneId(self.place.id.clone()), &self.tag).await
    }
}

async fn stop(panes: &dyn Panes, pane: &PaneId, tag: &PaneTag) -> PaneClosed {
    match panes.stop(pane, tag).await {
        Ok(()) | Err(PaneError::Foreign { .. } | PaneError::Gone { .. }) => PaneClosed::Closed,
        Err(error) => PaneClosed::Left { reason: chain(&error) },
    }
}
