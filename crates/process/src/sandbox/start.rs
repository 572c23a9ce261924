//! The sandbox of a run: what of the profiles holds here, and how a command is started in one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::process::Command;

use super::kept::{Kept, Trial, apart};
use super::quarantine::Appeared;
use super::{Grant, Machine, Mechanism, Options, Profile, Support};
use crate::job::Job;

/// Starts commands so that they can do no more than their profile says.
///
/// Cheap to clone; clones share what was found out. The default keeps nothing.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    kept: Option<Arc<Kept>>,
}

impl Sandbox {
    /// Holds commands to their profiles by what this machine offers, which is tried once, when it is first needed.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self::with_options(machine, Options::default())
    }

    /// The same, as the user's settings have it.
    #[must_use]
    pub fn with_options(machine: Machine, options: Options) -> Self {
        Self { kept: Some(Arc::new(Kept::new(machine, options, Trial::Every))) }
    }

    /// The same by Landlock only, for those who know what they want: the support says whether it is there.
    #[must_use]
    pub fn by_landlock(machine: Machine) -> Self {
        Self::by(machine, Trial::LandlockAlone)
    }

    /// The same by nothing, as on a machine whose kernel offers nothing.
    #[must_use]
    pub fn by_nothing(machine: Machine) -> Self {
        Self::by(machine, Trial::None)
    }

    fn by(machine: Machine, trial: Trial) -> Self {
        Self { kept: Some(Arc::new(Kept::new(machine, Options::default(), trial))) }
    }

    /// Whether a profile holds on this machine, found by trying.
    #[must_use]
    pub fn support(&self, profile: Profile) -> Support {
        let Some(kept) = &self.kept else { return Support::Off };
        match profile {
            Profile::Read => match kept.read() {
                Ok(_) => Support::Held { by: "Landlock and seccomp".to_owned() },
                Err(reason) => Support::Missing { reason: reason.clone() },
            },
            Profile::Work => match kept.work() {
                Ok(()) => Support::Held { by: "bubblewrap, Landlock and seccomp".to_owned() },
                Err(reason) => Support::Missing { reason: reason.clone() },
            },
            Profile::Free => kept.support_of_free(),
        }
    }

    /// Whether a profile holds for a working folder.
    #[must_use]
    pub fn support_in(&self, profile: Profile, cwd: &Path) -> Support {
        let obstacle = self
            .kept
            .as_ref()
            .filter(|_| profile == Profile::Work)
            .and_then(|kept| kept.obstacle(cwd));
        obstacle.map_or_else(|| self.support(profile), |reason| Support::Missing { reason })
    }

    /// What commands made that decides rights or runs by itself, put aside or not; told once.
    #[must_use]
    pub fn take_appeared(&self) -> Appeared {
        self.kept.as_ref().map(|kept| kept.take_told()).unwrap_or_default()
    }

    /// Has the user told at once of what a command made and could not be put aside.
    pub fn alarm_by(&self, alarm: impl Fn(String) + Send + Sync + 'static) {
        if let Some(kept) = &self.kept {
            kept.alarm_by(alarm);
        }
    }

    /// What refuses a command that is started freely in this folder.
    #[must_use]
    pub fn means(&self, cwd: &Path) -> Mechanism {
        self.kept.as_ref().map_or(Mechanism::Nothing, |kept| kept.means(cwd, &kept.places()))
    }

    /// What the user has to know before agents work in this folder, in sentences.
    #[must_use]
    pub fn warnings(&self, cwd: &Path) -> Vec<String> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let named = kept.named();
        let mut warnings = Vec::new();
        if let Err(reason) = kept.read() {
            warnings.push(format!(
                "this machine cannot hold commands to reading ({reason}): nothing but a few builtins of the shell runs \
                 without being asked about"
            ));
        }
        match kept.support_of_free() {
            Support::Off | Support::Held { .. } => {}
            Support::Missing { reason } => warnings.push(format!(
                "nothing on this machine keeps the commands of agents out of {named}: {reason}. Only what the permission \
                 gate sees is refused, so an agent could write messages in the name of another, or give itself every right"
            )),
            Support::Partly { gap } => warnings.push(gap),
        }
        let places = kept.places();
        let is_fixed = match kept.means(cwd, &places) {
            Mechanism::Nothing => false,
            Mechanism::Landlock => places.is_on_the_way(cwd),
            Mechanism::Bubblewrap => places.is_root(cwd),
        };
        if is_fixed {
            let hint =
                if places.is_root(cwd) { "" } else { ". With bubblewrap installed they could" };
            warnings.push(format!(
                "commands cannot make, rename or remove anything directly in {}, because they are kept out of {named}; \
                 in other folders there they can{hint}",
                cwd.display()
            ));
        }
        warnings
    }

    /// Starts a program in the grant's folder, in a job of its own, held to a profile. `fill` adds its arguments and
    /// variables.
    ///
    /// # Errors
    /// What the system said when it could not be started, or its rights could not be given up: then it is not started.
    pub fn start(
        &self,
        profile: Profile,
        grant: &Grant,
        program: &str,
        fill: impl FnOnce(&mut Command),
    ) -> io::Result<Job> {
        let Some(kept) = &self.kept else {
            let mut command = Command::new(program);
            fill(command.current_dir(&grant.cwd));
            return Job::spawn(&mut command);
        };
        match profile {
            Profile::Free => kept.start_freely(&grant.cwd, program, fill),
            Profile::Read => kept.start_reading(grant, program, fill),
            Profile::Work => kept.start_working(grant, program, fill),
        }
    }

    /// Refuses a file that is kept: nothing is made for it.
    ///
    /// # Errors
    /// When the file is kept.
    pub fn check_free(&self, file: &Path) -> io::Result<()> {
        match &self.kept {
            Some(kept) if kept.places().is_kept(file) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Does work on a file of a folder, without the right to change what is kept, whatever becomes of its path meanwhile.
    ///
    /// A folder on the way to what is kept has no rights to give up. No agent can rename it, so the name of the file tells
    /// whether it is kept.
    ///
    /// # Errors
    /// When the file is kept, or the rights could not be given up; nothing was done then.
    pub fn work_on<T: Send>(
        &self,
        file: &Path,
        folder: &Path,
        work: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        let Some(kept) = &self.kept else {
            return Ok(work());
        };
        let places = kept.places();
        if places.is_kept(file) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let Some(landlock) = kept.offered().landlock.filter(|_| !places.ways.contains(folder))
        else {
            return Ok(work());
        };
        apart(|| landlock.give_up(&places), work)
    }

    /// Whether a file is a plan: it lies below the root then, and is for its user only, as a transcript is.
    pub fn is_plan(&self, file: &Path) -> bool {
        self.kept.as_ref().is_some_and(|kept| {
            let root = &kept.machine.root;
            let real = std::fs::canonicalize(root);
            [Some(root.as_path()), real.as_deref().ok()]
                .into_iter()
                .flatten()
                .any(|it| file.starts_with(it.join("plans")))
        })
    }

    /// Says to the model why a command may have been refused something, when its words sound like that.
    pub fn note(&self, profile: Profile, cwd: &Path, output: &str) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let sounds_like = |words: &&str| output.contains(*words);
        match profile {
            Profile::Free => {
                REFUSED.iter().any(sounds_like).then(|| kept.note_of_free(cwd)).flatten()
            }
            Profile::Read | Profile::Work => REFUSED
                .iter()
                .chain(REFUSED_BY_FILTER)
                .any(sounds_like)
                .then(|| note_of_bounded(profile)),
        }
    }
}

/// What programs say when a file is refused.
const REFUSED: &[&str] = &["ermission denied", "EACCES", "Read-only file system", "EROFS"];

/// What they say when a system call is.
const REFUSED_BY_FILTER: &[&str] =
    &["peration not permitted", "EPERM", "unreachable", "resolve host", "name resolution"];

fn note_of_bounded(profile: Profile) -> String {
    let may = match profile {
        Profile::Read | Profile::Free => {
            "could only read (the working folder, the system and toolchains) and write to $TMPDIR, which lasts until this \
             run ends, without a network"
        }
        Profile::Work => {
            "could write only below the working folder, but for .git/config, hooks and settings of agents, and to /tmp, \
             /var/tmp and ~/.cache, which are private folders that last until this run ends, with no network but its own"
        }
    };
    format!(
        "[this command ran without being asked about and {may}. If it needs more, run it again with \
         `dangerouslyDisableSandbox: true`, which asks for permission]"
    )
}
