//! Keeps what agents start out of the team's own files, and of what decides what agents may do.
//!
//! A teammate's Bash runs as the user, as the lead does, so the rights of files cannot tell them apart: without more,
//! `echo >> teams/x/inboxes/lead.json` would be a message from anybody. The same goes for the user's settings: rules and
//! hooks in them are what the next agent is given, and hooks run with all rights. Here the kernel is asked to refuse it.
//! Reading stays free; writing, making, removing, renaming, linking and truncating are refused for what is kept and
//! everything below, for a command, all it starts, and whatever these leave behind.
//!
//! Two means, neither of which needs rights or unsafe code:
//!
//! - **Landlock** (Linux 5.19 and later): the command is started from a thread that gave up its rights; the child has the
//!   same. It only knows rights that are granted, and a right granted on a folder holds for all below it. So everything
//!   is granted but the folders on the way to what is kept, which has a price: nothing can be made, renamed or removed
//!   *directly* in these, such as the home folder itself when the root is `~/.claude`. No renaming of a folder on the
//!   way gets around it for the same reason, and the kernel keeps such a process from tracing one that has more rights,
//!   or reaching through its `/proc/PID/root`.
//! - **bubblewrap**: the root is mounted read-only in a mount namespace of the command's own, and what is not kept of it
//!   writable again. It has that price in the root alone, but for anybody but root it needs a user namespace in which all files of others belong to nobody: ssh then refuses the
//!   system's configuration, and with it `git push`; some systems and most containers forbid it.
//!
//! By either means nothing can be made directly in the root, so a settings file that is not there yet is kept as well.
//!
//! So Landlock comes first, and bubblewrap where its price is lower: when the working folder is on the way to what is
//! kept (the home folder, a project with the root inside) or `/tmp` is, and for root, who needs no user namespace. Each command
//! is confined afresh, because what there is to be granted changes.
//!
//! Where `/tmp` is on the way and Landlock is taken all the same, a command is told another folder for temporary files,
//! below the root: compilers and linkers need one.
//!
//! What it does not do: it is no sandbox for anything but these, and it cannot follow a request to a program that
//! runs outside, such as a tmux server, cron, or a daemon with a socket. Hooks run with all rights: they are the user's,
//! and a hook that runs a file of the project runs what agents wrote there. The project's own settings are not kept: by
//! Landlock nothing could be made in the project's folder then. Changes to them that the gate sees are asked for.
//! Landlock knows no right to change the mode, owner, times or locks of a file: a command can make files there
//! unreadable or be in the way of a lock, but put no word into them.
//! What the gate can see is refused before, in words that help; that is `gate`'s.

mod bubblewrap;
mod landlock;
mod places;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::process::Command;

use crate::process::Job;
use bubblewrap::Bubblewrap;
use landlock::Landlock;
use places::Places;

/// What of a root only the team's own operations write into.
pub(crate) const OF_TEAMS: [&str; 2] = ["teams", "tasks"];

/// What of a root only the user writes: what decides what agents may do, and what a client runs with all rights.
/// `settings.local.json` is read where the project is the home folder; `hooks` is where the programs of hooks stand by
/// custom, and `plugins` are the reference client's, which can be a teammate.
pub(crate) const OF_THE_USER: [&str; 5] = ["settings.json", "settings.local.json", "agents", "hooks", "plugins"];

/// Where programs stand that only the machine's owner can replace: one in a folder of the user's could be an agent's.
const SYSTEM_PROGRAMS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];

/// How programs are told where to put their temporary files.
const TEMPORARY_VARIABLE: &str = "TMPDIR";

/// The folder below a root that they are told when they could make nothing there.
const LENT: &str = "pitcrew/tmp";

/// Keeps what is started through it out of a root's teams and tasks, and its user's settings, agents and hooks.
///
/// Cheap to clone. The default keeps nothing.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    kept: Option<Arc<Kept>>,
}

#[derive(Debug)]
struct Kept {
    root: PathBuf,
    /// Where commands put their temporary files.
    temporary: PathBuf,
    /// Where they are told to when they could make nothing there.
    lent: PathBuf,
    /// What is tried.
    trial: Trial,
    /// What of it this machine offers; to find out takes processes and threads, so it is done when it is first asked.
    offered: OnceLock<Offered>,
}

/// Which means are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    Every,
    LandlockAlone,
}

/// The means that were found to work.
#[derive(Debug)]
struct Offered {
    landlock: Option<Landlock>,
    bubblewrap: Option<Bubblewrap>,
}

impl Trial {
    fn run(self) -> Offered {
        let program = match self {
            Self::Every => SYSTEM_PROGRAMS.iter().map(|it| Path::new(it).join("bwrap")).find(|path| path.is_file()),
            Self::LandlockAlone => None,
        };
        Offered { landlock: Landlock::probe(), bubblewrap: program.and_then(Bubblewrap::probe) }
    }
}

/// What refuses a command that tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Nothing does.
    Nothing,
    /// The rights the command's process gave up.
    Landlock,
    /// A mount namespace of the command's own, in which what is kept is read-only.
    Bubblewrap,
}

/// What holds on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nothing was to be kept.
    Off,
    /// The kernel offers nothing that could be used: only what the gate sees is refused.
    GateOnly,
    /// The kernel refuses everything but one thing: cutting a file short by its name (Linux before 6.2).
    AllButTruncation,
    /// The kernel refuses every change.
    Full,
}

impl Confinement {
    /// Keeps commands out of what is kept of the root by what this machine offers, which is tried once, when it is first
    /// needed. `temporary` is where programs put their temporary files.
    #[must_use]
    pub fn of_root(root: &Path, temporary: &Path) -> Self {
        Self::by(root, temporary, Trial::Every)
    }

    /// The same by one means only, for those who know what they want: the level says whether it is there.
    #[must_use]
    pub fn by_landlock(root: &Path, temporary: &Path) -> Self {
        Self::by(root, temporary, Trial::LandlockAlone)
    }

    fn by(root: &Path, temporary: &Path, trial: Trial) -> Self {
        let (root, temporary, lent) = (root.to_owned(), temporary.to_owned(), root.join(LENT));
        Self { kept: Some(Arc::new(Kept { root, temporary, lent, trial, offered: OnceLock::new() })) }
    }

    /// What holds on this machine.
    #[must_use]
    pub fn level(&self) -> Level {
        let Some(kept) = &self.kept else { return Level::Off };
        let Offered { landlock, bubblewrap } = kept.offered();
        match (landlock, bubblewrap) {
            (None, None) => Level::GateOnly,
            (Some(landlock), _) if !landlock.holds_truncation() => Level::AllButTruncation,
            (Some(_), _) | (None, Some(_)) => Level::Full,
        }
    }

    /// What refuses a command that is started in this folder.
    #[must_use]
    pub fn means(&self, cwd: &Path) -> Means {
        self.kept.as_ref().map_or(Means::Nothing, |kept| kept.means(cwd, &kept.places()))
    }

    /// What the user has to know before agents work in this folder, in sentences.
    #[must_use]
    pub fn warnings(&self, cwd: &Path) -> Vec<String> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let named = kept.named();
        let mut warnings = Vec::new();
        match self.level() {
            Level::Off | Level::Full => {}
            Level::GateOnly => warnings.push(format!(
                "nothing on this machine keeps the commands of agents out of {named}: the kernel offers no Landlock \
                 and bubblewrap cannot be used. Only what the permission gate sees is refused, so an agent could write \
                 messages in the name of another, or give itself every right"
            )),
            Level::AllButTruncation => warnings.push(format!(
                "this kernel keeps the commands of agents from writing into {named}, but not from truncating files \
                 there by name; Linux 6.2 and later do"
            )),
        }
        let places = kept.places();
        let is_fixed = match kept.means(cwd, &places) {
            Means::Nothing => false,
            Means::Landlock => places.is_on_the_way(cwd),
            Means::Bubblewrap => places.is_root(cwd),
        };
        if is_fixed {
            let hint = if places.is_root(cwd) { "" } else { ". With bubblewrap installed they could" };
            warnings.push(format!(
                "commands cannot make, rename or remove anything directly in {}, because they are kept out of {named}; \
                 in other folders there they can{hint}",
                cwd.display()
            ));
        }
        warnings
    }

    /// Starts a program in a folder, in a job of its own, kept out. `fill` adds its arguments and variables.
    ///
    /// # Errors
    /// What the system said when it could not be started, or its rights could not be given up: then it is not started.
    pub(crate) fn start(&self, cwd: &Path, program: &str, fill: impl FnOnce(&mut Command)) -> io::Result<Job> {
        let places = self.kept.as_ref().map(|kept| (kept, kept.places()));
        let means = places.as_ref().map_or(Means::Nothing, |(kept, places)| kept.means(cwd, places));
        let mut command = match (means, &places) {
            (Means::Bubblewrap, Some((kept, places))) => {
                kept.offered().bubblewrap.as_ref().map(|it| it.before(places, cwd))
            }
            (Means::Bubblewrap | Means::Landlock | Means::Nothing, _) => None,
        }
        .map_or_else(
            || Command::new(program),
            |mut command| {
                command.arg(program);
                command
            },
        );
        command.current_dir(cwd);
        fill(&mut command);
        match (means, &places) {
            (Means::Landlock, Some((kept, places))) => {
                kept.lend(&mut command, places);
                kept.within(places, || Job::spawn(&mut command))?
            }
            (Means::Landlock | Means::Bubblewrap | Means::Nothing, _) => Job::spawn(&mut command),
        }
    }

    /// Does work on a file of a folder, without the right to change what is kept, whatever becomes of its path meanwhile.
    ///
    /// A folder on the way to what is kept has no rights to give up. No agent can rename it, so the name of the file tells
    /// whether it is kept.
    ///
    /// # Errors
    /// When the file is kept, or the rights could not be given up; nothing was done then.
    pub(crate) fn work_on<T: Send>(
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
        if kept.offered().landlock.is_none() || places.ways.contains(folder) {
            return Ok(work());
        }
        kept.within(&places, work)
    }

    /// Says to the model why a command may have been refused something, when its words sound like that.
    pub(crate) fn note(&self, cwd: &Path, output: &str) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let sounds_like = |words: &str| output.contains(words);
        if !["ermission denied", "EACCES", "Read-only file system", "EROFS"].into_iter().any(sounds_like) {
            return None;
        }
        let places = kept.places();
        let named = kept.named();
        let ways = match kept.means(cwd, &places) {
            Means::Nothing => return None,
            Means::Bubblewrap => &places.roots,
            Means::Landlock => &places.ways,
        };
        let ways = ways.iter().map(|way| way.display().to_string()).collect::<Vec<_>>().join(", ");
        Some(format!(
            "[commands cannot write into {named}, nor make, rename or remove anything directly in {ways}; in other \
             folders below these they can, and Write can make files there]"
        ))
    }
}

impl Kept {
    fn offered(&self) -> &Offered {
        self.offered.get_or_init(|| self.trial.run())
    }

    fn places(&self) -> Places {
        Places::find(&self.root, &[&OF_TEAMS[..], &OF_THE_USER[..]].concat())
    }

    fn named(&self) -> String {
        let root = self.root.display();
        format!("the {} of {root}, and its {}", OF_TEAMS.join(" and "), OF_THE_USER.join(", "))
    }

    fn means(&self, cwd: &Path, places: &Places) -> Means {
        let is_root = rustix::process::geteuid().is_root();
        let Offered { landlock, bubblewrap } = self.offered();
        let mounts = bubblewrap.is_some() && Bubblewrap::can_hold(places);
        let spares = is_root || [cwd, &self.temporary].into_iter().any(|folder| places.is_on_the_way(folder));
        match landlock {
            Some(landlock) if mounts && (spares || !landlock.holds_truncation()) => Means::Bubblewrap,
            Some(_) => Means::Landlock,
            None if mounts => Means::Bubblewrap,
            None => Means::Nothing,
        }
    }

    /// Gives a command a folder for temporary files when it could make none where it would.
    fn lend(&self, command: &mut Command, places: &Places) {
        let set = command.as_std().get_envs().find(|(name, _)| *name == TEMPORARY_VARIABLE);
        let usual = set.and_then(|(_, value)| value).map_or(&*self.temporary, Path::new);
        if !places.is_on_the_way(usual) {
            return;
        }
        match fs::create_dir_all(&self.lent) {
            Ok(()) => _ = command.env(TEMPORARY_VARIABLE, &self.lent),
            Err(error) => tracing::warn!(folder = %self.lent.display(), %error, "no place for temporary files"),
        }
    }

    /// Does work on a thread of its own that gave up its rights: a thread never gets them back.
    fn within<T: Send>(&self, places: &Places, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let runtime = tokio::runtime::Handle::try_current().ok();
        let landlock = self.offered().landlock.as_ref();
        std::thread::scope(|scope| {
            let confined = std::thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, || {
                let _inside = runtime.as_ref().map(tokio::runtime::Handle::enter);
                landlock.map_or(Ok(()), |landlock| landlock.give_up(places))?;
                Ok(work())
            })?;
            confined.join().unwrap_or_else(|_panic| Err(io::Error::other("the confined thread broke down")))
        })
    }
}
