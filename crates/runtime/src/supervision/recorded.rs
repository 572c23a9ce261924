//! Closing panes that another process opened, by what the team recorded of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_protocol::{AgentName, ApiError, PaneHost, chain};
use pitcrew_team::{PanePlace, Team};

use crate::hosting::root_word;
use crate::panes::{
    ITerm2, ITerm2Options, PaneError, PaneId, PaneProgram, PaneTag, Panes, Tmux, TmuxOptions,
};

/// The panes of the teams below one root, as they are recorded.
#[derive(Clone, Debug)]
pub struct RecordedPanes {
    root: PathBuf,
    programs: Programs,
}

/// Whether the programs of the pane protocol that teams have recorded are run: a record is a file, and running what stands
/// in it is for a user to ask, by naming the team.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Programs {
    Left,
    /// Those only that the user names elsewhere too.
    Named(Vec<Vec<String>>),
}

/// What came of closing a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneClosed {
    /// It is gone.
    Closed,
    /// It is still there.
    Left {
        /// Why.
        reason: String,
    },
    /// Whether it is there is not known: what shows it cannot be asked.
    NotAsked {
        /// Why.
        reason: String,
    },
}

impl RecordedPanes {
    /// The panes of the teams below `root`, but for those that a recorded program shows.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), programs: Programs::Left }
    }

    /// Those of `named` programs too, and of no other one: a record can name any program.
    #[must_use]
    pub fn with_named_programs(self, named: Vec<Vec<String>>) -> Self {
        Self { programs: Programs::Named(named), ..self }
    }

    /// The tag of a member's panes, or of all of a team.
    #[must_use]
    pub fn tag(&self, team: &Team, member: Option<&AgentName>) -> PaneTag {
        PaneTag { root: root_word(&self.root), team: team.dir().clone(), agent: member.cloned() }
    }

    /// Closes the pane of a member when it is there and carries our tag. A pane that is another's by now is left alone: ours
    /// is gone then.
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

    /// Finds every pane that carries the team's tag, wherever its panes were made: also one that its lead died over before
    /// it was recorded. A terminal that is gone has none.
    ///
    /// # Errors
    /// When it cannot be read where they were made.
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

    /// Panes that can be looked for and closed, but not made; none of a kind that is not known, or left alone.
    fn open(&self, host: &PaneHost) -> Option<Arc<dyn Panes>> {
        let (launcher, temporary) = (Vec::new(), PathBuf::new());
        match host.backend.as_str() {
            "tmux" => Some(Arc::new(Tmux::new(TmuxOptions {
                program: PathBuf::from("tmux"),
                socket: host.socket.as_ref().map(PathBuf::from),
                config: None,
                beside: None,
                session: String::new(),
                launcher,
                temporary,
            }))),
            "iterm2" => {
                let program = PathBuf::from("it2");
                Some(Arc::new(ITerm2::new(ITerm2Options {
                    program,
                    beside: None,
                    launcher,
                    temporary,
                })))
            }
            "pane" if !host.command.is_empty() && self.programs.include(&host.command) => {
                Some(Arc::new(PaneProgram::new(host.command.clone())))
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

/// Why what shows a pane is not asked.
fn not_opened(host: &PaneHost) -> String {
    match host.command.is_empty() {
        true => format!("panes of the kind {:?} are not known", host.backend),
        false => format!(
            "only a record names the program {:?}; it is run when `pitcrew.teammateMode` in the settings or --teammate-mode of a run names it",
            host.command.join(" ")
        ),
    }
}

/// A pane that carries a team's tag.
#[derive(Clone, Debug)]
pub struct TaggedPane {
    /// Where it is.
    pub place: PanePlace,
    /// Whose it is.
    pub tag: PaneTag,
    panes: Arc<dyn Panes>,
}

impl TaggedPane {
    /// Closes it, with what runs in it.
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
