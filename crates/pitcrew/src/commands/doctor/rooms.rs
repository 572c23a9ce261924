//! The files, teams, worktrees and panes that `pitcrew doctor` examines.

use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::Settings;
use pitcrew_process::worktree::Worktrees;
use pitcrew_protocol::{TeamConfig, TeamDir};
use pitcrew_runtime::supervision::RecordedPanes;
use pitcrew_team::store::{FileBackend, LeaseName};
use pitcrew_team::{SpawnRecord, Team, Teams};

use super::fault::Fault;
use super::report::Finding;
use crate::context::Context;
use crate::failure::Failure;

/// The files, teams, worktrees and panes that the checks examine.
pub(super) struct Rooms {
    pub(super) root: PathBuf,
    pub(super) files: FileBackend,
    pub(super) teams: Teams,
    pub(super) worktrees: Worktrees,
    pub(super) panes: RecordedPanes,
}

/// A team whose config could be read.
pub(super) struct TeamView {
    pub(super) team: Team,
    pub(super) config: Arc<TeamConfig>,
}

impl Rooms {
    /// Opens the files, teams, worktrees and panes. If the settings cannot be used, this function
    /// reports a fault and uses the default settings. Settings that pitcrew ignores are reported as
    /// notes.
    pub(super) fn open(context: &Context) -> Result<(Self, Vec<Fault>), Failure> {
        let opened = context
            .settings_for_looking()
            .and_then(|settings| Ok((context.files(&settings)?, settings)));
        let (files, settings, of_settings) = match opened {
            Ok((files, settings)) => {
                let noted = |words| Fault::note(Finding::new("unheeded_setting", words));
                let bad_rule = Gate::from_settings(&settings, context.home.as_deref()).err();
                let bad_rule = bad_rule.map(|error| Failure::unusable(error).chain());
                let bad_rule = bad_rule
                    .map(|said| Fault::left_to_a_person(Finding::new("bad_settings", said)));
                let unheeded = settings.unheeded().into_iter().map(noted).chain(bad_rule).collect();
                (files, settings, unheeded)
            }
            Err(error) => {
                // With the default settings, the doctor can still run its other checks.
                let defaults = Settings::default();
                let fault = Fault::left_to_a_person(Finding::new("bad_settings", error.chain()));
                (context.files(&defaults)?, defaults, vec![fault])
            }
        };
        let panes = RecordedPanes::below(&context.root);
        let worktrees = context.worktrees(&context.cwd).with_ignored(settings.ignored_files());
        // Other commands restore overwritten changes whenever they read a team. The doctor restores
        // them only with `--repair`.
        let files = files.putting_back_when_asked();
        let teams = Context::teams_in(Arc::new(files.clone()), &settings)?;
        Ok((Self { root: context.root.clone(), files, teams, worktrees, panes }, of_settings))
    }
}

impl TeamView {
    /// Opens the team in the folder `dir`.
    pub(super) async fn at(rooms: &Rooms, dir: &TeamDir) -> Result<Self, Failure> {
        let team = rooms.teams.open(dir.as_str()).await?;
        let config = team.config().await?;
        Ok(Self { team, config })
    }

    /// Returns whether pitcrew created the team. The members of another client's team have no
    /// leases, so pitcrew cannot know which of these members are alive.
    pub(super) fn is_ours(&self) -> bool {
        self.config.members.first().is_some_and(|lead| SpawnRecord::of(lead).is_some())
    }

    /// Returns whether a pitcrew process leads this team now.
    pub(super) async fn is_led(&self) -> Result<bool, Failure> {
        is_led(&self.team).await
    }
}

/// Returns whether a pitcrew process leads the team now.
pub(super) async fn is_led(team: &Team) -> Result<bool, Failure> {
    let holder = team.lease_holder(&LeaseName::Run).await;
    Ok(holder.map_err(Failure::internal)?.is_some())
}
