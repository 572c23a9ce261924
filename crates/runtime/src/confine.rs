//! Keeps what agents start out of the team's own files.
//!
//! A teammate's Bash runs as the user, as the lead does, so the rights of files cannot tell them apart: without more,
//! `echo >> teams/x/inboxes/lead.json` would be a message from anybody. Here the kernel is asked to refuse it. Reading
//! stays free; writing, making, removing, renaming, linking and truncating are refused below the folders that are kept,
//! for a command, all it starts, and whatever these leave behind.
//!
//! Two means, neither of which needs rights or unsafe code:
//!
//! - **Landlock** (Linux 5.19 and later): the command is started from a thread that gave up its rights; the child has the
//!   same. It only knows rights that are granted, and a right granted on a folder holds for all below it. So everything
//!   is granted but the folders on the way to the kept ones, which has a price: nothing can be made, renamed or removed
//!   *directly* in these, such as the home folder itself when the root is `~/.claude`. No renaming of a folder on the
//!   way gets around it for the same reason, and the kernel keeps such a process from tracing one that has more rights,
//!   or reaching through its `/proc/PID/root`.
//! - **bubblewrap**: the kept folders are mounted read-only in a mount namespace of the command's own. It is exact, but
//!   for anybody but root it needs a user namespace in which all files of others belong to nobody: ssh then refuses the
//!   system's configuration, and with it `git push`; some systems and most containers forbid it.
//!
//! So Landlock comes first, and bubblewrap where its price is lower: when the working folder is on the way to the kept
//! folders (the home folder, a project with the root inside) or `/tmp` is, and for root, who needs no user namespace. Each command
//! is confined afresh, because what there is to be granted changes.
//!
//! Where `/tmp` is on the way and Landlock is taken all the same, a command is told another folder for temporary files,
//! below the root: compilers and linkers need one.
//!
//! What it does not do: it is no sandbox for anything but these folders, and it cannot follow a request to a program that
//! runs outside, such as a tmux server, cron, or a daemon with a socket. Hooks run with all rights: they are the user's.
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

/// The folders of a root that only the team's own operations write into.
pub(crate) const KEPT: [&str; 2] = ["teams", "tasks"];

/// Where programs stand that only the machine's owner can replace: one in a folder of the user's could be an agent's.
const SYSTEM_PROGRAMS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];

/// How programs are told where to put their temporary files.
const TEMPORARY_VARIABLE: &str = "TMPDIR";

/// The folder below a root that they are told when they could make nothing there.
const LENT: &str = "pitcrew/tmp";

/// Keeps what is started through it out of a root's `teams/` and `tasks/`.
///
/// Cheap to clone. The default keeps nothing.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    kept: Option<Arc<Kept>>,
}

#[derive(Debug)]
struct Kept {
    folders: Vec<PathBuf>,
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
    /// A mount namespace of the command's own, in which the folders are read-only.
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
    /// Keeps commands out of the root's `teams/` and `tasks/` by what this machine offers, which is tried once, when it is
    /// first needed. `temporary` is where programs put their temporary files.
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
        let folders = KEPT.iter().map(|name| root.join(name)).collect();
        let (temporary, lent) = (temporary.to_owned(), root.join(LENT));
        Self { kept: Some(Arc::new(Kept { folders, temporary, lent, trial, offered: OnceLock::new() })) }
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
        let folders = kept.named();
        let mut warnings = Vec::new();
        match self.level() {
            Level::Off | Level::Full => {}
            Level::GateOnly => warnings.push(format!(
                "nothing on this machine keeps the commands of agents out of {folders}: the kernel offers no Landlock \
                 and bubblewrap cannot be used. Only what the permission gate sees is refused, so an agent could write \
                 messages in the name of another"
            )),
            Level::AllButTruncation => warnings.push(format!(
                "this kernel keeps the commands of agents from writing into {folders}, but not from truncating files \
                 there by name; Linux 6.2 and later do"
            )),
        }
        let places = kept.places();
        if kept.means(cwd, &places) == Means::Landlock && places.is_on_the_way(cwd) {
            warnings.push(format!(
                "commands cannot make, rename or remove anything directly in {}, because {folders} are below; in other \
                 folders there they can. With bubblewrap installed they could",
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

    /// Does work on files of a folder, without the right to change the kept ones, whatever becomes of its path meanwhile.
    ///
    /// A folder on the way to the kept ones has no rights to give up, and needs none given up: no agent can rename it.
    ///
    /// # Errors
    /// When the rights could not be given up; nothing was done then.
    pub(crate) fn work_in<T: Send>(&self, folder: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let Some(kept) = self.kept.as_ref().filter(|kept| kept.offered().landlock.is_some()) else {
            return Ok(work());
        };
        let places = kept.places();
        if places.ways.contains(folder) { Ok(work()) } else { kept.within(&places, work) }
    }

    /// Says to the model why a command may have been refused something, when its words sound like that.
    pub(crate) fn note(&self, cwd: &Path, output: &str) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let sounds_like = |words: &str| output.contains(words);
        if !["ermission denied", "EACCES", "Read-only file system", "EROFS"].into_iter().any(sounds_like) {
            return None;
        }
        let places = kept.places();
        let folders = kept.named();
        match kept.means(cwd, &places) {
            Means::Nothing => None,
            Means::Bubblewrap => Some(format!("[commands cannot write into {folders}]")),
            Means::Landlock => {
                let ways: Vec<_> = places.ways.iter().map(|way| way.display().to_string()).collect();
                let ways = ways.join(", ");
                Some(format!(
                    "[commands cannot write into {folders}, nor make, rename or remove anything directly in {ways}; in \
                     other folders below these they can, and Write can make files there]"
                ))
            }
        }
    }
}

impl Kept {
    fn offered(&self) -> &Offered {
        self.offered.get_or_init(|| self.trial.run())
    }

    fn places(&self) -> Places {
        Places::find(&self.folders)
    }

    fn named(&self) -> String {
        self.folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" and ")
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
