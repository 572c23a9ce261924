//! Confines the programs that pitcrew runs for itself on files of somebody else. Today this is git
//! on a working copy.
//!
//! Such a program reads all that the user reads, because it needs the user's configuration. It
//! changes only what its grant names, whatever the user's settings say about the commands of
//! agents. Landlock enforces the grant for files. Seccomp refuses sockets, and changes of modes,
//! owners and times, which Landlock does not control.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as BlockingCommand};
use std::sync::OnceLock;

use tokio::process::Command;

use super::confined_thread::{apart, give_up};
use super::kept::{Offered, Trial};
use super::landlock::{Landlock, Network, OwnChanges};
use super::syscalls::{Filters, Signals};
use super::{Grant, Profile, Sandbox, environment};
use crate::job::Job;

/// What a program of pitcrew's own may reach beyond reading files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The files of the grant. It has no sockets and changes no modes.
    #[default]
    Files,
    /// The files of the grant, and their modes. Git needs this in a repository that several users
    /// share (`core.sharedRepository`).
    SharedFiles,
    /// The files of the grant, their modes, and the network. Filters of the user need this, such as
    /// git-lfs.
    Network,
}

/// The files that a program of pitcrew's own may change.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnGrant {
    /// Files, and folders with everything below them.
    pub(crate) write: Vec<PathBuf>,
    /// Folders from which empty folders may be removed.
    pub(crate) emptied: Vec<PathBuf>,
    /// What the program may reach beyond files.
    pub(crate) reach: Reach,
}

impl Sandbox {
    /// Returns the mechanism that confines pitcrew's own programs, or the reason why there is none.
    fn own_means(&self) -> Result<Landlock, &'static str> {
        static OF_THE_MACHINE: OnceLock<Offered> = OnceLock::new();
        let offered = match &self.kept {
            Some(kept) => kept.offered(),
            None => OF_THE_MACHINE.get_or_init(|| Trial::LandlockAlone.run()),
        };
        match offered.landlock {
            Some(landlock) if landlock.holds_truncation() => Ok(landlock),
            Some(_) => Err("the kernel's Landlock is older than version 3 (Linux 6.2)"),
            None => Err("the kernel offers no Landlock"),
        }
    }

    /// Returns the reason why pitcrew's own programs run unconfined on this machine, or `None` if
    /// they run confined.
    pub(crate) fn leaves_own_programs_free(&self) -> Option<&'static str> {
        self.own_means().err()
    }

    /// Returns the git folders and object stores outside a checkout that the user trusts.
    pub(crate) fn trusted_git_folders(&self) -> &[PathBuf] {
        self.kept.as_ref().map_or(&[], |kept| &kept.options.git)
    }

    /// Returns the user's home folder.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.kept.as_ref()?.machine.home.as_deref()
    }

    /// Starts a program of pitcrew's own as a new job in the folder `cwd`. `fill` adds the
    /// program's arguments and environment variables.
    ///
    /// # Errors
    /// If the program cannot be started, or if rights cannot be given up. In both cases the program
    /// does not run.
    pub(crate) fn start_own(
        &self,
        cwd: &Path,
        grant: &OwnGrant,
        program: &str,
        fill: impl FnOnce(&mut Command),
    ) -> io::Result<Job> {
        let home = self.kept.as_ref().and_then(|kept| kept.machine.home.as_ref());
        let fill = |command: &mut Command| {
            command.envs(home.map(|home| ("HOME", home)));
            fill(command);
        };
        let mut command = Command::new(program);
        match (&self.kept, self.own_means()) {
            // The files of teams stay protected, where bubblewrap or nothing does that.
            (Some(kept), Err(_no_landlock)) => {
                return kept.start_freely(&Grant::at(cwd), program, fill, Job::spawn_git);
            }
            (Some(kept), Ok(_)) => {
                fill(command.current_dir(cwd));
                kept.withhold(Profile::Free, &mut command);
            }
            (None, Ok(_) | Err(_)) => {
                fill(command.current_dir(cwd));
                environment::OF_PROVIDERS.iter().for_each(|name| _ = command.env_remove(name));
            }
        }
        self.on_own_thread(grant, || Job::spawn_git(&mut command))
    }

    /// Starts a program of pitcrew's own, for a caller that waits for it without an async runtime.
    /// The program changes nothing.
    ///
    /// # Errors
    /// As [`Self::start_own`].
    pub(crate) fn spawn_own_reader(&self, command: &mut BlockingCommand) -> io::Result<Child> {
        self.on_own_thread(&OwnGrant::default(), || command.spawn())
    }

    /// Calls `start` on a thread that has given up what the grant does not include.
    fn on_own_thread<T: Send>(
        &self,
        grant: &OwnGrant,
        start: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let Ok(landlock) = self.own_means() else { return start() };
        let network = match grant.reach {
            Reach::Files | Reach::SharedFiles => Network::Refused,
            Reach::Network => Network::AsIs,
        };
        let OwnGrant { write, emptied, reach } = grant;
        let bounds = landlock.changing(OwnChanges { write, emptied, network })?;
        let signals = if landlock.scopes_signals() { Signals::Scoped } else { Signals::OwnGroup };
        let filters = filters(*reach, signals)?;
        apart(|| give_up(landlock, filters, &[&bounds]), start)?
    }
}

/// Returns the system call filters for a reach. They are compiled once.
fn filters(reach: Reach, signals: Signals) -> io::Result<&'static Filters> {
    static COMPILED: [OnceLock<Filters>; 3] = [const { OnceLock::new() }; 3];
    let [files, shared_files, network] = &COMPILED;
    let compiled = match reach {
        Reach::Files => files,
        Reach::SharedFiles => shared_files,
        Reach::Network => network,
    };
    if let Some(filters) = compiled.get() {
        return Ok(filters);
    }
    let filters = Filters::of_own(reach, signals).map_err(io::Error::other)?;
    Ok(compiled.get_or_init(|| filters))
}
