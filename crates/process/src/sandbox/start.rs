//! The sandbox of a run: which sandbox profiles this machine can enforce, and how to start a
//! command in a profile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::process::Command;

use super::confined_thread::apart;
use super::git_folder::GitFolder;
use super::kept::{Kept, Trial};
use super::quarantine::Appeared;
use super::{GitLock, Grant, Machine, Mechanism, Options, Profile, Support};
use crate::job::Job;

/// Starts commands and limits each command to what its sandbox profile allows.
///
/// Cloning is cheap. All clones of a sandbox share the results of testing the machine. The default
/// sandbox has no limits.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    pub(super) kept: Option<Arc<Kept>>,
}

impl Sandbox {
    /// Creates a sandbox that uses the mechanisms of this machine. The mechanisms are tested once,
    /// on first use.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self::with_options(machine, Options::default())
    }

    /// Creates a sandbox with the options in the user's settings.
    #[must_use]
    pub fn with_options(machine: Machine, options: Options) -> Self {
        Self { kept: Some(Arc::new(Kept::new(machine, options, Trial::Every))) }
    }

    /// Creates a sandbox that uses only Landlock. [`Self::support`] returns whether Landlock is
    /// available.
    #[must_use]
    pub fn by_landlock(machine: Machine) -> Self {
        Self::by(machine, Trial::LandlockAlone)
    }

    /// Creates a sandbox without any mechanism. It behaves as on a machine whose kernel offers no
    /// mechanism.
    #[must_use]
    pub fn by_nothing(machine: Machine) -> Self {
        Self::by(machine, Trial::None)
    }

    fn by(machine: Machine, trial: Trial) -> Self {
        Self { kept: Some(Arc::new(Kept::new(machine, Options::default(), trial))) }
    }

    /// Returns the folders outside of a checkout that commands may use as its git folder or object
    /// store.
    #[must_use]
    pub fn trusted_git(&self) -> &[PathBuf] {
        self.kept.as_ref().map_or(&[], |kept| kept.trusted_git())
    }

    /// Tests whether this machine can enforce a sandbox profile.
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

    /// Returns the names of the variables that commands of a profile do not inherit, sorted.
    #[must_use]
    pub fn withheld_variables(&self, profile: Profile) -> Vec<String> {
        self.kept.as_ref().map(|kept| kept.withheld_variables(profile)).unwrap_or_default()
    }

    /// Tests whether this machine can enforce a sandbox profile for commands in a working folder.
    #[must_use]
    pub fn support_in(&self, profile: Profile, cwd: &Path) -> Support {
        let obstacle = self
            .kept
            .as_ref()
            .filter(|_| profile == Profile::Work)
            .and_then(|kept| kept.obstacle(cwd));
        obstacle.map_or_else(|| self.support(profile), |reason| Support::Missing { reason })
    }

    /// Returns the files that commands created in protected places. Files in these places control
    /// permissions or run automatically. Each file is returned only once.
    #[must_use]
    pub fn take_appeared(&self) -> Appeared {
        self.kept.as_ref().map(|kept| kept.take_told()).unwrap_or_default()
    }

    /// Sets the function that warns the user at once if a file that a command created in a
    /// protected place cannot be renamed.
    pub fn alarm_by(&self, alarm: impl Fn(String) + Send + Sync + 'static) {
        if let Some(kept) = &self.kept {
            kept.alarm_by(alarm);
        }
    }

    /// Returns the first git folder or object store outside of the checkout around `folder` that
    /// the checkout's files name and that the user does not trust.
    #[must_use]
    pub fn untrusted_git(&self, folder: &Path) -> Option<PathBuf> {
        let trusted = self.kept.as_ref().map(|kept| kept.trusted_git()).unwrap_or_default();
        let mut claims = GitFolder::claims(folder).into_iter().map(|claim| claim.folder);
        claims.find(|folder| !trusted.contains(folder))
    }

    /// Returns true if the rules with these texts once matched the file at the path or a folder around it, under
    /// whatever name. The path must not contain symbolic links.
    #[must_use]
    pub fn is_remembered(&self, rules: &[String], path: &Path) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_remembered(rules, path))
    }

    /// Returns the mechanism that limits a command in the sandbox profile *free* in this folder.
    #[must_use]
    pub fn means(&self, cwd: &Path) -> Mechanism {
        self.kept.as_ref().map_or(Mechanism::Nothing, |kept| kept.means(cwd, &kept.places()))
    }

    /// Returns warnings for the user about how agents that work in this folder are limited. Each
    /// warning is a sentence.
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

    /// Starts a program as a new job in the working folder of the grant. The sandbox profile limits
    /// the program. `fill` adds the program's arguments and environment variables.
    ///
    /// # Errors
    /// If the program cannot be started, or if rights cannot be given up. In both cases the program
    /// does not run.
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
            Profile::Free => kept.start_freely(grant, program, fill, Job::spawn),
            Profile::Read => kept.start_reading(grant, program, fill),
            Profile::Work => kept.start_working(grant, program, fill),
        }
    }

    /// Checks that a file is not protected. Call this function before any folder is created for the
    /// file. Otherwise new folders would be created for a file that is then refused.
    ///
    /// # Errors
    /// If the file is protected.
    pub fn check_free(&self, file: &Path) -> io::Result<()> {
        match &self.kept {
            Some(kept) if kept.places().is_kept(file) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Calls `work`, which changes a file in a folder. While `work` runs, its thread has no right
    /// to change protected files. The protected files are therefore safe even if the file's path is
    /// changed meanwhile.
    ///
    /// If the folder is on the path to a protected file, the thread keeps its rights, because
    /// otherwise it could not change the file either. In this case the path alone shows whether the
    /// file is protected, because no agent can rename the folder.
    ///
    /// # Errors
    /// If the file is protected, or if rights cannot be given up. In both cases `work` is not run.
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

    /// Calls `write`, which writes `content` to the file at the real path `file`. Call this function
    /// for each change that a tool makes itself: a person or a rule allowed it, so the file is not
    /// put aside when a command in the sandbox profile *work* ends that ran meanwhile.
    ///
    /// # Errors
    /// If a command in *work* had created the file, or a folder on the way to it. It is renamed,
    /// and `write` is not called.
    pub fn decide<T, E>(
        &self,
        file: &Path,
        content: &[u8],
        write: impl FnOnce() -> Result<T, E>,
    ) -> io::Result<Result<T, E>> {
        match &self.kept {
            Some(kept) => kept.decide(file, content, write),
            None => Ok(write()),
        }
    }

    /// Returns true if a file is a plan file, which means that it is below `plans` in the
    /// configuration root. Like a transcript, a plan file is readable only by its user.
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

    /// Returns a note about lock files of git, after a command that could leave some behind.
    #[must_use]
    pub fn note_of_locks(&self, profile: Profile, cwd: &Path) -> Option<String> {
        let can_write = self.kept.is_some() && profile == Profile::Work;
        let locks = if can_write { GitLock::all_in(cwd) } else { Vec::new() };
        let said: Vec<String> = locks.iter().map(GitLock::said).collect();
        (!said.is_empty()).then(|| format!("[{}]", said.join("\n")))
    }

    /// Returns a note for the model if the command's output looks like a refusal by the sandbox.
    /// The note says why the command may have failed.
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

/// Texts that programs print if access to a file is refused.
const REFUSED: &[&str] = &["ermission denied", "EACCES", "Read-only file system", "EROFS"];

/// Texts that programs print if a system call is refused.
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
