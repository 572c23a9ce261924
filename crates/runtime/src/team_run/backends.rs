//! The spawn backends of a run. One backend runs agents in this process, and the others run agents
//! in panes.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_panes::{PaneTag, Panes};
use pitcrew_protocol::{AgentName, BACKEND_IN_PROCESS, Member};
use tokio::sync::mpsc;

use super::in_process::InProcess;
use super::pane_backend::PaneBackend;
use super::remote::RemoteReport;
use super::spawn_backend::SpawnBackend;
use crate::hosting::Hosting;

/// The places where a run can start members.
pub(super) struct Backends {
    pub(super) here: InProcess,
    pub(super) hosting: Hosting,
    /// Path of the file that contains the settings from the command line. Teammates in panes read
    /// this file.
    pub(super) settings_file: Option<PathBuf>,
    /// The tag of the team's panes.
    pub(super) tag: PaneTag,
    /// The channel on which supervisors report. A supervisor watches one agent in another process.
    pub(super) reports: mpsc::Sender<RemoteReport>,
}

impl Backends {
    /// Returns the backend that runs a member according to the member's config entry. Returns
    /// `None` if this run does not have that backend.
    pub(super) fn of(&self, member: &Member) -> Option<Box<dyn SpawnBackend>> {
        if lives_elsewhere(member) {
            return Some(Box::new(self.in_panes(self.panes_of(member)?)));
        }
        Some(Box::new(self.here.clone()))
    }

    /// Returns the spawn backend for the given panes.
    pub(super) fn in_panes(&self, panes: Arc<dyn Panes>) -> PaneBackend {
        PaneBackend {
            panes,
            hosting: self.hosting.clone(),
            settings_file: self.settings_file.clone(),
            tag: self.tag.clone(),
            reports: self.reports.clone(),
            here: self.here.clone(),
        }
    }

    /// Returns the pane backend that runs a member according to the member's config entry. Returns
    /// `None` if neither this run nor the known earlier run uses that pane backend.
    pub(super) fn panes_of(&self, member: &Member) -> Option<Arc<dyn Panes>> {
        self.panes_named(member.backend_type.as_deref()?)
    }

    /// Returns the pane backend with this name. Returns `None` if neither this run nor the known
    /// earlier run uses that pane backend.
    pub(super) fn panes_named(&self, backend: &str) -> Option<Arc<dyn Panes>> {
        let known = [&self.hosting.panes, &self.hosting.former_panes];
        known.into_iter().flatten().find(|panes| panes.backend_type() == backend).cloned()
    }

    /// Returns the tag of one member's panes.
    pub(super) fn tag_of(&self, name: &AgentName) -> PaneTag {
        PaneTag { agent: Some(name.clone()), ..self.tag.clone() }
    }
}

/// Returns true if a member runs in its own process, according to the member's config entry.
pub(super) fn lives_elsewhere(member: &Member) -> bool {
    member.backend_type.as_deref().is_some_and(|backend| backend != BACKEND_IN_PROCESS)
}
