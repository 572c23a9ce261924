//! The sandbox of a run: what of the profiles holds here, and how a command is started in one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::process::Command;

use super::bubblewrap::Bubblewrap;
use super::denied::DeniedFiles;
use super::git_config::{self, GitConfigs};
use super::git_folder::GitFolder;
use super::landlock::{Landlock, Writable};
use super::places::Places;
use super::private::{PrivateFolder, Workshop};
use super::readable::{DEVICES, Readable, Secrets};
use super::syscalls::{Filters, Signals};
use super::{
    Grant, Machine, Means, OF_PITCREW, OF_TEAMS, OF_THE_USER, OPEN_OF_PITCREW, Profile, Support, capabilities,
    environment,
};
use crate::process::Job;

/// Where programs stand that only the machine's owner can replace: one in a folder of the user's could be an agent's.
const SYSTEM_PROGRAMS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];

/// How programs are told where to put their temporary files.
const TEMPORARY_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// The folder below a root that they are told when they could make nothing there.
const LENT: &str = "pitcrew/tmp";

/// Starts commands so that they can do no more than their profile says.
///
/// Cheap to clone; clones share what was found out. The default keeps nothing.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    kept: Option<Arc<Kept>>,
}

#[derive(Debug)]
struct Kept {
    machine: Machine,
    /// Variables that no command gets, besides our own table.
    withheld: Vec<String>,
    trial: Trial,
    /// What of it this machine offers; to find out takes processes and threads, so it is done when it is first asked.
    offered: OnceLock<Offered>,
    read: OnceLock<Result<Filters, String>>,
    secrets: OnceLock<Secrets>,
    workshop: OnceLock<Result<Workshop, String>>,
    git_configs: GitConfigs,
    denied: DeniedFiles,
}

/// Which means are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    Every,
    LandlockAlone,
    None,
}

/// The means that were found to work.
#[derive(Debug)]
struct Offered {
    landlock: Option<Landlock>,
    bubblewrap: Option<Bubblewrap>,
}

impl Trial {
    fn run(self) -> Offered {
        let program = || SYSTEM_PROGRAMS.iter().map(|it| Path::new(it).join("bwrap")).find(|path| path.is_file());
        match self {
            Self::Every => Offered { landlock: Landlock::probe(), bubblewrap: program().and_then(Bubblewrap::probe) },
            Self::LandlockAlone => Offered { landlock: Landlock::probe(), bubblewrap: None },
            Self::None => Offered { landlock: None, bubblewrap: None },
        }
    }
}

impl Sandbox {
    /// Holds commands to their profiles by what this machine offers, which is tried once, when it is first needed.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self::by(machine, Trial::Every)
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
        let kept = Kept {
            machine,
            withheld: Vec::new(),
            trial,
            offered: OnceLock::new(),
            read: OnceLock::new(),
            secrets: OnceLock::new(),
            workshop: OnceLock::new(),
            git_configs: GitConfigs::default(),
            denied: DeniedFiles::default(),
        };
        Self { kept: Some(Arc::new(kept)) }
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
            Profile::Work => Support::Missing { reason: "it is not offered yet".to_owned() },
            Profile::Free => kept.support_of_free(),
        }
    }

    /// What refuses a command that is started freely in this folder.
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

    /// Starts a program in the grant's folder, in a job of its own, held to a profile. `fill` adds its arguments and
    /// variables.
    ///
    /// # Errors
    /// What the system said when it could not be started, or its rights could not be given up: then it is not started.
    pub(crate) fn start(
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
            Profile::Work => Err(io::Error::from(io::ErrorKind::Unsupported)),
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
        let Some(landlock) = kept.offered().landlock.filter(|_| !places.ways.contains(folder)) else {
            return Ok(work());
        };
        apart(|| landlock.give_up(&places), work)
    }

    /// Says to the model why a command may have been refused something, when its words sound like that.
    pub(crate) fn note(&self, profile: Profile, cwd: &Path, output: &str) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let sounds_like = |words: &&str| output.contains(*words);
        match profile {
            Profile::Free => REFUSED.iter().any(sounds_like).then(|| kept.note_of_free(cwd)).flatten(),
            Profile::Read | Profile::Work => {
                REFUSED.iter().chain(REFUSED_BY_FILTER).any(sounds_like).then(|| note_of_bounded(profile))
            }
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
            "could only read (the working folder, the system and toolchains) and write to $TMPDIR, without a network"
        }
        Profile::Work => {
            "could write only below the working folder, but for .git/config, hooks and settings of agents, and to \
             $TMPDIR, with no network but its own"
        }
    };
    format!(
        "[this command ran without being asked about and {may}. If it needs more, run it again with \
         `dangerouslyDisableSandbox: true`, which asks for permission]"
    )
}

impl Kept {
    fn offered(&self) -> &Offered {
        self.offered.get_or_init(|| self.trial.run())
    }

    fn places(&self) -> Places {
        Places::find(&self.machine.root, &[&OF_TEAMS[..], &OF_THE_USER[..], &OF_PITCREW[..]].concat(), &OPEN_OF_PITCREW)
    }

    fn named(&self) -> String {
        let root = self.machine.root.display();
        format!("the {} of {root}, and its {}", OF_TEAMS.join(" and "), OF_THE_USER.join(", "))
    }

    fn support_of_free(&self) -> Support {
        let Offered { landlock, bubblewrap } = self.offered();
        match (landlock, bubblewrap) {
            (None, None) => {
                Support::Missing { reason: "the kernel offers no Landlock and bubblewrap cannot be used".to_owned() }
            }
            (Some(landlock), _) if !landlock.holds_truncation() => Support::Partly {
                gap: format!(
                    "this kernel keeps the commands of agents from writing into {}, but not from truncating files \
                     there by name; Linux 6.2 and later do",
                    self.named()
                ),
            },
            (Some(_), None) => Support::Held { by: "Landlock".to_owned() },
            (Some(_), Some(_)) => Support::Held { by: "Landlock, or bubblewrap where that costs less".to_owned() },
            (None, Some(_)) => Support::Held { by: "bubblewrap".to_owned() },
        }
    }

    fn means(&self, cwd: &Path, places: &Places) -> Means {
        let is_root = rustix::process::geteuid().is_root();
        let Offered { landlock, bubblewrap } = self.offered();
        let mounts = bubblewrap.is_some() && Bubblewrap::can_hold(places);
        let spares = is_root || [cwd, &self.machine.temporary].into_iter().any(|folder| places.is_on_the_way(folder));
        match landlock {
            Some(landlock) if mounts && (spares || !landlock.holds_truncation()) => Means::Bubblewrap,
            Some(_) => Means::Landlock,
            None if mounts => Means::Bubblewrap,
            None => Means::Nothing,
        }
    }

    fn note_of_free(&self, cwd: &Path) -> Option<String> {
        let places = self.places();
        let named = self.named();
        let ways = match self.means(cwd, &places) {
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

    fn start_freely(&self, cwd: &Path, program: &str, fill: impl FnOnce(&mut Command)) -> io::Result<Job> {
        self.make_open_folders();
        let places = self.places();
        let means = self.means(cwd, &places);
        let bubblewrap = self.offered().bubblewrap.as_ref().filter(|_| means == Means::Bubblewrap);
        let mut command = bubblewrap.map_or_else(
            || Command::new(program),
            |it| {
                let mut command = it.before(&places, cwd);
                command.arg(program);
                command
            },
        );
        command.current_dir(cwd);
        fill(&mut command);
        self.withhold(Profile::Free, &mut command);
        match (means, self.offered().landlock) {
            (Means::Landlock, Some(landlock)) => {
                self.lend(&mut command, &places);
                apart(|| landlock.give_up(&places), || Job::spawn(&mut command))?
            }
            (Means::Landlock | Means::Bubblewrap | Means::Nothing, _) => Job::spawn(&mut command),
        }
    }

    /// What commands may write of the root must be there: nobody can make it from inside.
    fn make_open_folders(&self) {
        if !self.machine.root.is_dir() {
            return;
        }
        for folder in OPEN_OF_PITCREW.map(|name| self.machine.root.join(name)) {
            if let Err(error) = fs::create_dir_all(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "commands have no such folder");
            }
        }
    }

    /// Gives a command a folder for temporary files when it could make none where it would.
    fn lend(&self, command: &mut Command, places: &Places) {
        let [variable, ..] = TEMPORARY_VARIABLES;
        let set = command.as_std().get_envs().find(|(name, _)| *name == variable);
        let usual = set.and_then(|(_, value)| value).map_or(&*self.machine.temporary, Path::new);
        if !places.is_on_the_way(usual) {
            return;
        }
        let lent = self.machine.root.join(LENT);
        match fs::create_dir_all(&lent) {
            Ok(()) => _ = command.env(variable, &lent),
            Err(error) => tracing::warn!(folder = %lent.display(), %error, "no place for temporary files"),
        }
    }

    /// Takes keys and tokens out of a command's variables, those that it inherits and those it was given.
    fn withhold(&self, profile: Profile, command: &mut Command) {
        let given: Vec<String> =
            command.as_std().get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        let ours = environment::OF_PROVIDERS.iter().map(|name| (*name).to_owned());
        let is_withheld = |name: &&String| match profile {
            Profile::Free => environment::OF_PROVIDERS.contains(&name.as_str()),
            Profile::Read | Profile::Work => environment::is_secret(name),
        };
        let inherited = self.machine.variables.iter().chain(&given).filter(is_withheld).cloned();
        for name in inherited.chain(ours).chain(self.withheld.iter().cloned()).collect::<BTreeSet<_>>() {
            command.env_remove(name);
        }
    }

    /// The filters of *read*, when it holds here.
    fn read(&self) -> Result<&Filters, &String> {
        self.read.get_or_init(|| self.try_reading()).as_ref()
    }

    fn workshop(&self) -> io::Result<&Workshop> {
        let opened = self
            .workshop
            .get_or_init(|| Workshop::open(&self.machine.root.join(LENT)).map_err(|problem| problem.to_string()));
        opened.as_ref().map_err(|problem| io::Error::other(format!("no folder for temporary files: {problem}")))
    }

    fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of(&self.machine))
    }

    fn start_reading(&self, grant: &Grant, program: &str, fill: impl FnOnce(&mut Command)) -> io::Result<Job> {
        let filters = self.read().map_err(|reason| io::Error::other(reason.clone()))?;
        let landlock = self.offered().landlock.ok_or(io::ErrorKind::Unsupported)?;
        let workshop = self.workshop()?;
        let private = workshop.private()?;
        let git = GitFolder::of(&grant.cwd);
        let mut readable = Readable::find(&self.machine, grant, git.as_ref(), self.secrets());
        readable.withheld.extend(self.denied.find(grant, &readable.open));
        let config = self.git_configs.of(&grant.cwd, self.machine.home.as_deref(), workshop.path())?;
        readable.open.extend(config.parent().map(Path::to_path_buf));
        let mut command = Command::new(program);
        command.current_dir(&grant.cwd);
        fill(&mut command);
        self.withhold(Profile::Read, &mut command);
        bounded_variables(&mut command, private.path(), &config);
        command.envs(git_config::READING);
        let folders = [private.path()];
        let writable = Writable { folders: &folders, devices: DEVICES };
        let job = apart(|| give_up(landlock, filters, &readable, &writable), || Job::spawn(&mut command))??;
        Ok(job.with_folder(private))
    }

    /// Tries *read* on a thread: what it must refuse, and what it must not.
    fn try_reading(&self) -> Result<Filters, String> {
        let landlock = self.offered().landlock.ok_or("the kernel offers no Landlock")?;
        if !landlock.holds_truncation() {
            return Err("the kernel's Landlock is older than version 3 (Linux 6.2)".to_owned());
        }
        let signals = if landlock.scopes_signals() { Signals::Scoped } else { Signals::OwnGroup };
        let filters =
            Filters::of(Profile::Read, signals).map_err(|problem| format!("no filter of system calls: {problem}"))?;
        let folder = self.workshop().and_then(Workshop::private).map_err(|problem| problem.to_string())?;
        let outside = folder.path().with_extension("outside");
        let tried = try_out(landlock, &filters, &folder, &outside);
        let _never_made = fs::remove_file(&outside);
        tried.map(|()| filters).map_err(|problem| problem.to_string())
    }
}

/// Variables of a command in *read* or *work*: its temporary folder, and the git configuration it can read.
fn bounded_variables(command: &mut Command, private: &Path, config: &Path) {
    for variable in TEMPORARY_VARIABLES {
        command.env(variable, private);
    }
    command.env(git_config::VARIABLE, config).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
}

/// Gives up all rights of this thread but those of *read*.
fn give_up(landlock: Landlock, filters: &Filters, readable: &Readable, writable: &Writable<'_>) -> io::Result<()> {
    capabilities::give_up()?;
    landlock.only_read(readable, writable)?;
    filters.apply()
}

fn try_out(landlock: Landlock, filters: &Filters, folder: &PrivateFolder, outside: &Path) -> io::Result<()> {
    let folders = [folder.path()];
    let writable = Writable { folders: &folders, devices: DEVICES };
    let readable = Readable { open: BTreeSet::from([PathBuf::from("/usr")]), ..Readable::default() };
    let work = || {
        fs::write(folder.path().join("inside"), "")?;
        if fs::write(outside, "").is_ok() {
            return Err(io::Error::other("the kernel lets a thread write that gave up its rights"));
        }
        if std::os::unix::net::UnixDatagram::unbound().is_ok() {
            return Err(io::Error::other("the kernel lets a thread make sockets that gave up its rights"));
        }
        Ok(())
    };
    apart(|| give_up(landlock, filters, &readable, &writable), work)?
}

/// Does work on a thread of its own that gave up rights first: a thread never gets them back.
fn apart<T: Send>(give_up: impl FnOnce() -> io::Result<()> + Send, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let runtime = tokio::runtime::Handle::try_current().ok();
    std::thread::scope(|scope| {
        let confined = std::thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, || {
            let _inside = runtime.as_ref().map(tokio::runtime::Handle::enter);
            give_up()?;
            Ok(work())
        })?;
        confined.join().unwrap_or_else(|_panic| Err(io::Error::other("the confined thread broke down")))
    })
}
