//! The shared state of a sandbox: which sandbox profiles this machine can enforce, and how to start
//! a command in each profile.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio::process::Command;

use super::bubblewrap::{Bubblewrap, Processes};
use super::confined_thread::{apart, give_up, mark};
use super::denied::DeniedFiles;
use super::git_config::{self, GitConfigs};
use super::git_folder::GitFolder;
use super::inside::InnerRights;
use super::landlock::{Bounds, Landlock, Network, Writable};
use super::passed::is_passed;
use super::pinned::other_names;
use super::places::Places;
use super::private::{PrivateFolder, Workshop, temporary_below};
use super::quarantine::{Aftermath, Appeared, Told};
use super::readable::{DEVICES, Readable, Secrets};
use super::records::Records;
use super::shared::SharedBounds;
use super::starter;
use super::syscalls::{Filters, Signals};
use super::work::{Files, INNER, Mounts, StandIns};
use super::{
    Grant, Machine, Mechanism, OF_PITCREW, OF_TEAMS, OF_THE_USER, OPEN_OF_PITCREW, Options,
    Profile, Support, Variable, environment,
};
use crate::job::Job;
use crate::own_mode;

/// Folders of programs that only the machine's administrator can replace. Programs in other folders
/// are not trusted, because an agent may have written them.
const SYSTEM_PROGRAMS: [&str; 4] =
    ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];

/// Environment variables that name the folder for temporary files.
const TEMPORARY_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Environment variables that place caches below the command's temporary folder, in the sandbox
/// profile *work*.
const CACHES: [(&str, &str); 5] = [
    ("XDG_CACHE_HOME", "/tmp/cache"),
    ("npm_config_cache", "/tmp/cache/npm"),
    ("PIP_CACHE_DIR", "/tmp/cache/pip"),
    ("GOCACHE", "/tmp/cache/go-build"),
    ("UV_CACHE_DIR", "/tmp/cache/uv"),
];

/// The state that all clones of a sandbox share.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) machine: Machine,
    pub(super) options: Options,
    trial: Trial,
    /// The sandbox mechanisms that work on this machine. They are tested on first use and not
    /// earlier, because the test starts processes and threads.
    offered: OnceLock<Offered>,
    read: OnceLock<Result<Filters, String>>,
    work: OnceLock<Result<(), String>>,
    secrets: OnceLock<Secrets>,
    workshop: OnceLock<Result<Workshop, String>>,
    git_configs: GitConfigs,
    denied: DeniedFiles,
    shared: SharedBounds,
    told: Told,
}

/// Selects which sandbox mechanisms are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    Every,
    LandlockAlone,
    None,
}

/// The sandbox mechanisms that work on this machine.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) landlock: Option<Landlock>,
    bubblewrap: Option<Bubblewrap>,
}

impl Trial {
    pub(super) fn run(self) -> Offered {
        let program = || {
            SYSTEM_PROGRAMS.iter().map(|it| Path::new(it).join("bwrap")).find(|path| path.is_file())
        };
        match self {
            Self::Every => Offered {
                landlock: Landlock::probe(),
                bubblewrap: program().and_then(Bubblewrap::probe),
            },
            Self::LandlockAlone => Offered { landlock: Landlock::probe(), bubblewrap: None },
            Self::None => Offered { landlock: None, bubblewrap: None },
        }
    }
}

impl Kept {
    pub(super) fn new(machine: Machine, options: Options, trial: Trial) -> Self {
        Self {
            machine,
            options,
            trial,
            offered: OnceLock::new(),
            read: OnceLock::new(),
            work: OnceLock::new(),
            secrets: OnceLock::new(),
            workshop: OnceLock::new(),
            git_configs: GitConfigs::default(),
            denied: DeniedFiles::default(),
            shared: SharedBounds::default(),
            told: Told::default(),
        }
    }

    pub(super) fn offered(&self) -> &Offered {
        self.offered.get_or_init(|| self.trial.run())
    }

    /// Returns the folders that the user trusts as git folders or object stores of a checkout.
    pub(super) fn trusted_git(&self) -> &[PathBuf] {
        &self.options.git
    }

    pub(super) fn places(&self) -> Places {
        Places::find(
            &self.machine.root,
            &[&OF_TEAMS[..], &OF_THE_USER[..], &OF_PITCREW[..]].concat(),
            &OPEN_OF_PITCREW,
        )
    }

    /// Returns the paths in the working folders at which a file of the user's or of a team has
    /// another name. Whoever writes there changes the protected file.
    fn other_names_of_protected(&self, grant: &Grant) -> BTreeSet<PathBuf> {
        // Plugins are left out, because their repositories share files with others.
        let kept = OF_TEAMS.iter().chain(&OF_THE_USER).filter(|name| **name != "plugins");
        let kept = kept.map(|name| self.machine.root.join(name));
        other_names(kept, grant.folders())
    }

    /// Finds the files that the deny rules match, so that they stay denied under other names.
    pub(super) fn remember_denied(&self, grant: &Grant) {
        let root = &self.machine.root;
        for rules in [&grant.denied, &grant.unwritable] {
            let _found = self.denied.find(rules, root, grant, &BTreeSet::new());
        }
    }

    /// Returns true if the rules once matched the file at the path or a folder around it.
    pub(super) fn is_remembered(&self, rules: &[String], path: &Path) -> bool {
        self.denied.is_remembered(rules, &self.machine.root, path)
    }

    pub(super) fn named(&self) -> String {
        let root = self.machine.root.display();
        format!("the {} of {root}, and its {}", OF_TEAMS.join(" and "), OF_THE_USER.join(", "))
    }

    pub(super) fn support_of_free(&self) -> Support {
        let Offered { landlock, bubblewrap } = self.offered();
        match (landlock, bubblewrap) {
            (None, None) => Support::Missing {
                reason: "the kernel offers no Landlock and bubblewrap cannot be used".to_owned(),
            },
            (Some(landlock), _) if !landlock.holds_truncation() => Support::Partly {
                gap: format!(
                    "this kernel keeps the commands of agents from writing into {}, but not from truncating files \
                     there by name; Linux 6.2 and later do",
                    self.named()
                ),
            },
            (Some(_), None) => Support::Held { by: "Landlock".to_owned() },
            (Some(_), Some(_)) => {
                Support::Held { by: "Landlock, or bubblewrap where that costs less".to_owned() }
            }
            (None, Some(_)) => Support::Held { by: "bubblewrap".to_owned() },
        }
    }

    pub(super) fn means(&self, cwd: &Path, places: &Places) -> Mechanism {
        let is_root = rustix::process::geteuid().is_root();
        let Offered { landlock, bubblewrap } = self.offered();
        let mounts = bubblewrap.is_some() && Bubblewrap::can_hold(places);
        // Bubblewrap is better if the working folder or the temporary folder is on the path to a
        // protected file. In such a folder, Landlock would refuse to create, rename or remove
        // entries, and bubblewrap allows it. Bubblewrap is also better if the user `root` runs
        // pitcrew, because bubblewrap then needs no user namespace.
        let spares = is_root
            || [cwd, &self.machine.temporary]
                .into_iter()
                .any(|folder| places.is_on_the_way(folder));
        match landlock {
            Some(landlock) if mounts && (spares || !landlock.holds_truncation()) => {
                Mechanism::Bubblewrap
            }
            Some(_) => Mechanism::Landlock,
            None if mounts => Mechanism::Bubblewrap,
            None => Mechanism::Nothing,
        }
    }

    pub(super) fn note_of_free(&self, cwd: &Path) -> Option<String> {
        let places = self.places();
        let named = self.named();
        let ways = match self.means(cwd, &places) {
            Mechanism::Nothing => return None,
            Mechanism::Bubblewrap => &places.roots,
            Mechanism::Landlock => &places.ways,
        };
        let ways = ways.iter().map(|way| way.display().to_string()).collect::<Vec<_>>().join(", ");
        Some(format!(
            "[commands cannot write into {named}, nor make, rename or remove anything directly in {ways}; in other \
             folders below these they can, and Write can make files there]"
        ))
    }

    pub(super) fn start_freely(
        &self,
        grant: &Grant,
        program: &str,
        fill: impl FnOnce(&mut Command),
        spawn: fn(&mut Command) -> io::Result<Job>,
    ) -> io::Result<Job> {
        let aftermath = self.allow(&grant.decided);
        let job = self.start_free(grant, program, fill, spawn)?;
        Ok(match aftermath {
            Some(aftermath) => job.with_aftermath(aftermath),
            None => job,
        })
    }

    /// Records that a command is allowed to change protected files. Commands in the sandbox profile
    /// *work* that run meanwhile did not make these files.
    fn allow(&self, decided: &[PathBuf]) -> Option<Aftermath> {
        if decided.is_empty() {
            return None;
        }
        let allowed = Records::lock_existing(&self.machine.root)
            .and_then(|records| records.map(|it| it.allow(decided.to_vec())).transpose());
        match allowed {
            Ok(allowed) => allowed.map(|(record, appeared)| {
                self.told.tell(appeared);
                Aftermath::new(Some(record), self.told.clone())
            }),
            Err(problem) => {
                tracing::warn!(%problem, "files that a command may change could be put aside");
                None
            }
        }
    }

    fn start_free(
        &self,
        grant: &Grant,
        program: &str,
        fill: impl FnOnce(&mut Command),
        spawn: fn(&mut Command) -> io::Result<Job>,
    ) -> io::Result<Job> {
        self.make_open_folders();
        self.remember_denied(grant);
        let cwd = &grant.cwd;
        let places = self.places().holding(&self.other_names_of_protected(grant));
        let means = self.means(cwd, &places);
        let bubblewrap =
            self.offered().bubblewrap.as_ref().filter(|_| means == Mechanism::Bubblewrap);
        let mut command = match bubblewrap {
            Some(bubblewrap) => {
                let mut command = self.in_mounts(bubblewrap, &places, cwd)?;
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(cwd);
        fill(&mut command);
        self.withhold(Profile::Free, &mut command);
        match (means, self.offered().landlock) {
            (Mechanism::Landlock, Some(landlock)) => {
                self.lend(&mut command, &places);
                apart(|| landlock.give_up(&places).and_then(|()| mark()), || spawn(&mut command))?
            }
            // A set-user-ID bubblewrap does not gain its rights after a filter is applied.
            // Therefore start it without the filter that marks an agent's command.
            (Mechanism::Bubblewrap, _) if bubblewrap.is_some_and(Bubblewrap::gains_rights) => {
                spawn(&mut command)
            }
            (Mechanism::Landlock | Mechanism::Bubblewrap | Mechanism::Nothing, _) => {
                apart(mark, || spawn(&mut command))?
            }
        }
    }

    /// Returns the start of a bubblewrap command line with mounts that protect the protected files
    /// in `places`.
    ///
    /// Processes outside the sandbox see the file system without these mounts, and expose it at
    /// `/proc/PID/root`. A normal user's command cannot inspect these processes, because they are
    /// in another user namespace. A command of the user `root` can inspect some of these processes,
    /// for example bubblewrap itself, which waits for the command without any capability. Therefore
    /// a command of the user `root` gives up the access to other processes by Landlock. If this is
    /// not possible, the command sees only the processes that it started.
    fn in_mounts(
        &self,
        bubblewrap: &Bubblewrap,
        places: &Places,
        cwd: &Path,
    ) -> io::Result<Command> {
        if !rustix::process::geteuid().is_root() {
            return Ok(bubblewrap.before(places, cwd, Processes::All));
        }
        match (self.offered().landlock, self.inner()) {
            (Some(landlock), Ok((own, arguments))) if Path::new(own).is_file() => {
                let order = serde_json::to_string(&InnerRights::OtherProcesses(landlock))?;
                let mut command = bubblewrap.before(places, cwd, Processes::All);
                command.arg(own).args(arguments).arg(order);
                Ok(command)
            }
            (Some(_) | None, Ok(_) | Err(_)) => Ok(bubblewrap.before(places, cwd, Processes::Own)),
        }
    }

    /// Creates the folders below the configuration root in which commands are allowed to write.
    /// This must be done before the command starts, because the command cannot create these folders
    /// from inside the sandbox.
    fn make_open_folders(&self) {
        if !self.machine.root.is_dir() {
            return;
        }
        for folder in OPEN_OF_PITCREW.map(|name| self.machine.root.join(name)) {
            if let Err(error) = own_mode::create_folders(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "commands have no such folder");
            }
        }
    }

    /// Gives a command another folder for temporary files, if the command is not able to create
    /// files in the usual folder.
    fn lend(&self, command: &mut Command, places: &Places) {
        let [variable, ..] = TEMPORARY_VARIABLES;
        let set = command.as_std().get_envs().find(|(name, _)| *name == variable);
        let usual = set.and_then(|(_, value)| value).map_or(&*self.machine.temporary, Path::new);
        if !places.is_on_the_way(usual) {
            return;
        }
        match temporary_below(&self.machine.root) {
            Ok(lent) => _ = command.env(variable, &lent),
            Err(error) => tracing::warn!(%error, "no place for temporary files"),
        }
    }

    /// Removes variables from a command's environment: keys and tokens, and in *read* and *work* also
    /// inherited ones that nobody has named as harmless. Somebody set the others for the command, so
    /// they only lose keys and tokens.
    pub(super) fn withhold(&self, profile: Profile, command: &mut Command) {
        let given: Vec<Variable> = command
            .as_std()
            .get_envs()
            .map(|(name, value)| {
                let value = value.unwrap_or_default();
                Variable::of(&name.to_string_lossy(), &value.to_string_lossy())
            })
            .collect();
        let is_given = |name: &String| given.iter().any(|variable| variable.name == *name);
        let inherited = self.withheld_variables(profile).into_iter().filter(|it| !is_given(it));
        let secret = given.iter().filter(|it| self.is_secret(profile, it));
        let names: BTreeSet<String> =
            inherited.chain(secret.map(|variable| variable.name.clone())).collect();
        let ours = environment::OF_PROVIDERS.iter().map(|name| (*name).to_owned());
        for name in names.into_iter().chain(ours).chain(self.options.withheld.iter().cloned()) {
            command.env_remove(name);
        }
    }

    /// Returns the names of the variables that commands of a profile do not inherit, sorted.
    pub(super) fn withheld_variables(&self, profile: Profile) -> Vec<String> {
        let is_passed = |variable: &Variable| match profile {
            Profile::Free => true,
            Profile::Read | Profile::Work => {
                is_passed(&variable.name) || self.options.passed.contains(&variable.name)
            }
        };
        let is_withheld = |variable: &&Variable| {
            self.options.withheld.contains(&variable.name)
                || self.is_secret(profile, variable)
                || !is_passed(variable)
        };
        let names = self.machine.variables.iter().filter(is_withheld).map(|it| it.name.clone());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns true if a variable's name or value looks secret to the commands of a profile.
    fn is_secret(&self, profile: Profile, variable: &Variable) -> bool {
        let is_of_a_provider = environment::OF_PROVIDERS.contains(&variable.name.as_str());
        match profile {
            Profile::Free => is_of_a_provider,
            Profile::Read | Profile::Work => {
                is_of_a_provider
                    || !self.options.passed.contains(&variable.name)
                        && (variable.holds_secret || environment::is_secret(&variable.name))
            }
        }
    }

    /// Returns the system call filters of the sandbox profile *read*, or the reason why this
    /// machine cannot enforce *read*.
    pub(super) fn read(&self) -> Result<&Filters, &String> {
        self.read.get_or_init(|| self.try_reading()).as_ref()
    }

    fn workshop(&self) -> io::Result<&Workshop> {
        let opened = self.workshop.get_or_init(|| {
            Workshop::open(&self.machine.root).map_err(|problem| problem.to_string())
        });
        opened.as_ref().map_err(|problem| {
            io::Error::other(format!("no folder for temporary files: {problem}"))
        })
    }

    fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of(&self.machine))
    }

    pub(super) fn start_reading(
        &self,
        grant: &Grant,
        program: &str,
        fill: impl FnOnce(&mut Command),
    ) -> io::Result<Job> {
        let filters = self.read().map_err(|reason| io::Error::other(reason.clone()))?;
        let landlock = self.offered().landlock.ok_or(io::ErrorKind::Unsupported)?;
        let temporary = self.workshop()?.lasting(BTreeSet::new())?.folder("tmp")?;
        let (readable, _git, config) = self.readable(grant)?;
        let mut command = Command::new(program);
        command.current_dir(&grant.cwd);
        fill(&mut command);
        self.withhold(Profile::Read, &mut command);
        bounded_variables(&mut command, &temporary, &config);
        command.envs(git_config::READING);
        let all_private = self.workshop()?.path();
        let shared = self.shared.of(
            landlock,
            grant.folders().map(Path::to_path_buf).collect(),
            &readable,
            all_private,
        )?;
        let own = only_reading(landlock, &readable.whole_folders(all_private), &temporary)?;
        let job =
            apart(|| give_up(landlock, filters, &[&own, &shared]), || Job::spawn(&mut command))??;
        Ok(job.with_aftermath(Aftermath::new(None, self.told.clone())))
    }

    /// Returns the files that a command is allowed to read, the git folders of the command's
    /// working folder, and the path of the git configuration written for the command.
    fn readable(&self, grant: &Grant) -> io::Result<(Readable, Option<GitFolder>, PathBuf)> {
        let git = GitFolder::of(&grant.cwd, &self.options.git);
        let mut readable =
            Readable::find(&self.machine, &self.options, grant, git.as_ref(), self.secrets());
        let denied = self.denied.find(&grant.denied, &self.machine.root, grant, &readable.open);
        readable.withheld.extend(denied);
        let config = self.git_configs.of(
            &grant.cwd,
            self.machine.home.as_deref(),
            self.workshop()?.path(),
        )?;
        readable.open.extend(config.parent().map(Path::to_path_buf));
        Ok((readable, git, config))
    }

    /// Returns `Ok` if this machine can enforce the sandbox profile *work*, otherwise the reason.
    /// The machine is tested only once.
    pub(super) fn work(&self) -> Result<(), &String> {
        self.work.get_or_init(|| self.try_working()).as_ref().copied()
    }

    /// Returns the reason why no machine can enforce the sandbox profile *work* for a working
    /// folder. The only such reason is that the working folder contains the home folder. Otherwise
    /// returns `None`.
    pub(super) fn obstacle(&self, cwd: &Path) -> Option<String> {
        let (home, cwd) =
            (fs::canonicalize(self.machine.home.as_ref()?).ok()?, fs::canonicalize(cwd).ok()?);
        home.starts_with(&cwd).then(|| {
            format!(
                "{} contains the home folder, and with it files that programs run by themselves",
                cwd.display()
            )
        })
    }

    pub(super) fn start_working(
        &self,
        grant: &Grant,
        program: &str,
        fill: impl FnOnce(&mut Command),
    ) -> io::Result<Job> {
        self.work().map_err(|reason| io::Error::other(reason.clone()))?;
        if let Some(obstacle) = self.obstacle(&grant.cwd) {
            return Err(io::Error::other(obstacle));
        }
        let seen = self.readable(grant)?;
        let unread = seen.0.withheld.clone();
        let records = Records::lock(&self.machine.root)?;
        // Look at the protected places without the files that other commands have created there.
        let folders = self.open_folders(grant, seen.1.as_ref());
        self.told.tell(records.put_aside_in(&folders));
        let covered = records.covered_in(&folders);
        let (mut command, mounts) = self.working(grant, seen, &covered)?;
        // Before the command starts, write a record of the protected places that no mount covers.
        // If this process is killed, a later pitcrew process reads the record and checks these
        // places.
        let record = records.begin(&mounts.opened, mounts.uncovered, mounts.covered, &unread)?;
        drop(records);
        command.arg(program);
        fill(&mut command);
        self.withhold(Profile::Work, &mut command);
        // Dropping `aftermath` checks the protected places. This happens even if the command does
        // not start.
        let aftermath = Aftermath::new(Some(record), self.told.clone());
        Ok(starter::start(command)?.with_aftermath(aftermath))
    }

    /// Returns the folders that a command in the sandbox profile *work* can write, with symbolic
    /// links resolved. Temporary folders are not included.
    fn open_folders(&self, grant: &Grant, git: Option<&GitFolder>) -> BTreeSet<PathBuf> {
        let of_git = git.into_iter().flat_map(|git| [git.common.as_path(), git.own.as_path()]);
        let written = self.options.write.iter().map(PathBuf::as_path);
        let folders = grant.folders().chain(written).chain(of_git);
        folders.filter_map(|path| fs::canonicalize(path).ok()).collect()
    }

    /// Returns the mounts and the command line for the sandbox profile *work*. The command line
    /// does not contain the program yet. The second argument is the result of [`Self::readable`],
    /// and `covered` are the protected files that running commands cannot change.
    fn working(
        &self,
        grant: &Grant,
        (readable, git, config): (Readable, Option<GitFolder>, PathBuf),
        covered: &BTreeSet<PathBuf>,
    ) -> io::Result<(Command, Mounts)> {
        let Offered { landlock: Some(landlock), bubblewrap: Some(bubblewrap) } = self.offered()
        else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (own, arguments) = self.inner().map_err(io::Error::other)?;
        let workshop = self.workshop()?;
        let (empty_file, empty_folder) = workshop.stand_ins()?;
        let stand_ins = StandIns { workshop, empty_file: &empty_file, empty_folder: &empty_folder };
        let root = &self.machine.root;
        let mut closed = self.denied.find(&grant.unwritable, root, grant, &BTreeSet::new());
        closed.extend(grant.unwritable.exact().cloned());
        closed.extend(self.other_names_of_protected(grant));
        let files = Files { readable: &readable, closed: &closed, covered };
        let mounts =
            Mounts::lay_out(&self.machine, &self.options, grant, git.as_ref(), files, stand_ins)?;
        let order = InnerRights::Work { writable: mounts.writable.clone(), landlock: *landlock };
        let mut command = bubblewrap.apart(self.options.network);
        command
            .args(mounts.arguments(Path::new(own)))
            .arg("--chdir")
            .arg(fs::canonicalize(&grant.cwd)?);
        command.arg("--").arg(INNER).args(arguments).arg(serde_json::to_string(&order)?);
        bounded_variables(&mut command, Path::new("/tmp"), &config);
        command.envs(CACHES);
        Ok((command, mounts))
    }

    /// Returns the path of our own program, and the first arguments to start it with.
    fn inner(&self) -> Result<(&OsString, &[OsString]), String> {
        let inner = self.machine.inner.as_deref().unwrap_or_default();
        inner.split_first().ok_or_else(|| "it has no command to start itself inside".to_owned())
    }

    /// Tests the sandbox profile *work* with a command that writes twice. Writing inside its
    /// working folder must succeed, and writing outside must fail.
    fn try_working(&self) -> Result<(), String> {
        self.inner()?;
        let landlock = self.offered().landlock.ok_or("the kernel offers no Landlock")?;
        if !landlock.holds_truncation() {
            return Err("the kernel's Landlock is older than version 3 (Linux 6.2)".to_owned());
        }
        if self.offered().bubblewrap.is_none() {
            return Err(
                "bubblewrap (bwrap) is not installed or may not be used, and without mounts of its own a command \
                        cannot be kept from parts of its working folder"
                    .to_owned(),
            );
        }
        self.try_a_command().map_err(|problem| problem.to_string())
    }

    fn try_a_command(&self) -> io::Result<()> {
        const TRIAL: &str = "echo x > inside && { echo x > \"$1\" || true; } 2> /dev/null";
        let folder = self.workshop()?.private()?;
        let outside = folder.path().with_extension("outside");
        let grant = Grant::at(folder.path());
        let (command, _mounts) = self.working(&grant, self.readable(&grant)?, &BTreeSet::new())?;
        let output = command.into_std().args(["sh", "-c", TRIAL, "sh"]).arg(&outside).output()?;
        if !output.status.success() || !folder.path().join("inside").exists() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!("a trial in bubblewrap failed: {said}")));
        }
        // If the sandbox works, it refused to create the file `outside`, so there is no file to
        // remove.
        match fs::remove_file(&outside) {
            Ok(()) => {
                Err(io::Error::other("a trial in bubblewrap wrote outside of its working folder"))
            }
            Err(_never_made) => Ok(()),
        }
    }

    /// Calls `write`, which writes `content` to `file` because a person or a rule allowed it, and
    /// records that commands in the sandbox profile *work* did not make the file.
    pub(super) fn decide<T, E>(
        &self,
        file: &Path,
        content: &[u8],
        write: impl FnOnce() -> Result<T, E>,
    ) -> io::Result<Result<T, E>> {
        match Records::lock_existing(&self.machine.root) {
            Ok(Some(records)) => {
                records.decide(file, content, |appeared| self.told.tell(appeared), write)
            }
            Ok(None) => Ok(write()),
            Err(problem) => {
                // Any program can take the lock. Do not keep agents from writing because of that.
                tracing::warn!(%problem, "a file is written without a record of the decision");
                Ok(write())
            }
        }
    }

    /// Returns the files that commands created in protected places since the last call.
    pub(super) fn take_told(&self) -> Appeared {
        self.told.take()
    }

    pub(super) fn alarm_by(&self, alarm: impl Fn(String) + Send + Sync + 'static) {
        self.told.alarm_by(Box::new(alarm));
    }

    /// Tests the sandbox profile *read* on a thread that writes twice. Writing to its private
    /// folder must succeed, and writing elsewhere must fail.
    fn try_reading(&self) -> Result<Filters, String> {
        let landlock = self.offered().landlock.ok_or("the kernel offers no Landlock")?;
        if !landlock.holds_truncation() {
            return Err("the kernel's Landlock is older than version 3 (Linux 6.2)".to_owned());
        }
        let signals = if landlock.scopes_signals() { Signals::Scoped } else { Signals::OwnGroup };
        let filters = Filters::of(Profile::Read, signals)
            .map_err(|problem| format!("no filter of system calls: {problem}"))?;
        let folder =
            self.workshop().and_then(Workshop::private).map_err(|problem| problem.to_string())?;
        let outside = folder.path().with_extension("outside");
        let tried = try_out(landlock, &filters, &folder, &outside);
        let _never_made = fs::remove_file(&outside);
        tried.map(|()| filters).map_err(|problem| problem.to_string())
    }
}

/// Sets environment variables of a command in the sandbox profile *read* or *work*. The variables
/// name the command's temporary folder and its git configuration, and restrict what git does.
fn bounded_variables(command: &mut Command, private: &Path, config: &Path) {
    for variable in TEMPORARY_VARIABLES {
        command.env(variable, private);
    }
    command.env(git_config::VARIABLE, config).env("GIT_TERMINAL_PROMPT", "0");
    // With this variable, `git status` does not write the index. Writing the index could run a hook
    // of the repository.
    command.env("GIT_OPTIONAL_LOCKS", "0");
}

/// Creates Landlock rules that allow only reading `readable` and writing one folder.
pub(super) fn only_reading(
    landlock: Landlock,
    readable: &Readable,
    folder: &Path,
) -> io::Result<Bounds> {
    let folders = [folder];
    let writable =
        Writable { folders: &folders, devices: DEVICES, terminals: &[], network: Network::Refused };
    landlock.bounds(readable, &writable)
}

fn try_out(
    landlock: Landlock,
    filters: &Filters,
    folder: &PrivateFolder,
    outside: &Path,
) -> io::Result<()> {
    let readable =
        Readable { open: BTreeSet::from([PathBuf::from("/usr")]), ..Readable::default() };
    let bounds = only_reading(landlock, &readable, folder.path())?;
    let work = || {
        fs::write(folder.path().join("inside"), "")?;
        if fs::write(outside, "").is_ok() {
            return Err(io::Error::other("the kernel lets a thread write that gave up its rights"));
        }
        if std::os::unix::net::UnixDatagram::unbound().is_ok() {
            return Err(io::Error::other(
                "the kernel lets a thread make sockets that gave up its rights",
            ));
        }
        Ok(())
    };
    apart(|| give_up(landlock, filters, &[&bounds]), work)?
}
