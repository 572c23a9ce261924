//! Determines the files that a sandboxed command is allowed to read: the working folder with its
//! git folders, system folders and toolchains. Credentials and files that `Read` deny rules match
//! are excluded.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use super::git_folder::GitFolder;
use super::{Grant, Machine, Options, key_files};

/// System folders that every program needs. Folders in which programs of all users write (`/tmp`,
/// `/run`, `/var`) are not included.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix",
    "/gnu/store",
    "/snap",
    "/run/current-system",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/cache/fontconfig",
    "/home/linuxbrew/.linuxbrew",
];

/// Devices that contain no data of other programs. The terminal is not included. A command in the
/// sandbox profile *read* shares the user's terminal session, so it could show a fake question on
/// the terminal and read the typed keys.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Toolchain folders in a home folder.
const TOOLCHAINS: &[&str] = &[
    ".cargo",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".fnm",
    ".volta",
    ".bun",
    ".deno",
    ".n",
    ".npm-global",
    ".yarn",
    ".rbenv",
    ".rvm",
    ".asdf",
    ".sdkman",
    ".jenv",
    ".jabba",
    ".ghcup",
    ".cabal/bin",
    ".cabal/packages",
    ".stack/programs",
    ".stack/snapshots",
    ".opam",
    ".elan",
    ".juliaup",
    ".julia/packages",
    ".julia/artifacts",
    ".swiftly",
    ".dotnet",
    ".nuget/packages",
    ".pub-cache",
    ".gradle/caches",
    ".gradle/wrapper",
    ".m2/repository",
    ".m2/wrapper",
    ".nix-profile",
    ".linuxbrew",
    ".conda/pkgs",
    ".conda/envs",
    "miniconda3",
    "miniforge3",
    "anaconda3",
    "mambaforge",
    "go",
    "sdk",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".local/state/nix",
];

/// Credentials in a home folder. Without the user's permission, no command is allowed to read them,
/// wherever the working folder is.
const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".bundle/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".nuget/NuGet",
    ".sdkman/etc",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".mozilla",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
];

/// Configuration files in cargo's folder that may contain a token.
const CARGO_CONFIGURATION: &[&str] = &["config.toml", "config"];

/// Names of credential files in a toolchain's folder.
const TOOLCHAIN_CREDENTIALS: &[&str] = &["credentials", "credentials.toml"];

/// Secret files and folders below the configuration root: credentials, the archive of teams, and
/// the token of the web server. Commands cannot read them.
const OF_THE_ROOT: &[&str] = &[".credentials.json", "pitcrew/archive", "pitcrew/web"];

/// System files that only the administrator is allowed to read. They are withheld even from
/// commands that run as root.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker",
    "/etc/ppp",
    "/etc/ipsec.secrets",
    "/etc/security/opasswd",
    "/etc/cloud",
    "/usr/local/etc/ssh",
];

/// The paths that a command is allowed to read, and the withheld paths below them. All of these
/// paths have symbolic links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// Files and folders that the command is allowed to read, with everything below them.
    pub(super) open: BTreeSet<PathBuf>,
    /// Paths that the command is not allowed to read, although they are below an open folder.
    pub(super) withheld: BTreeSet<PathBuf>,
}

/// The secret files of the system and the user. The list is built only once, because the search for
/// it checks many files.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(BTreeSet<PathBuf>);

impl Readable {
    /// Finds the existing paths that a command is allowed to read, and the secret paths below them
    /// that must be withheld.
    pub(super) fn find(
        machine: &Machine,
        options: &Options,
        grant: &Grant,
        git: Option<&GitFolder>,
        secrets: &Secrets,
    ) -> Self {
        let home = machine.home.as_deref();
        let mut open = BTreeSet::new();
        open.extend(SYSTEM.iter().filter_map(|path| real(Path::new(path))));
        open.extend(toolchains(machine));
        let programs = machine
            .path
            .iter()
            .flat_map(|folder| [Some(folder.clone()), with_libraries(folder)])
            .flatten();
        open.extend(programs.filter_map(|path| apart_from(home, &path)));
        let working: Vec<PathBuf> = grant.folders().filter_map(real).collect();
        open.extend(
            git.into_iter().flat_map(GitFolder::folders).filter_map(|path| apart_from(home, path)),
        );
        // A working folder inside a folder of credentials means that the user wants to work there.
        // Do not withhold that folder of credentials.
        let is_meant = |secret: &&PathBuf| working.iter().any(|folder| folder.starts_with(secret));
        let withheld = secrets.0.iter().filter(|secret| !is_meant(secret)).cloned().collect();
        open.extend(working);
        open.extend(options.read.iter().chain(&options.write).filter_map(|path| real(path)));
        Self { open, withheld }
    }

    /// Returns a copy that keeps only the withheld paths that are inside `concerned` or contain
    /// `concerned`. All other withheld paths are readable in the copy. A ruleset for the copy
    /// therefore needs only few rules, each for a whole folder.
    pub(super) fn whole_folders(&self, concerned: &Path) -> Self {
        let mut open = BTreeSet::new();
        let mut withheld = self.withheld.clone();
        withheld.retain(|path| path.starts_with(concerned) || concerned.starts_with(path));
        // A path inside another readable folder needs no rule of its own, unless something in that
        // folder is withheld.
        for path in &self.open {
            let is_inside =
                withheld.is_empty() && path.ancestors().skip(1).any(|above| open.contains(above));
            if !is_inside {
                open.insert(path.clone());
            }
        }
        Self { open, withheld }
    }
}

/// The withheld paths as a tree of names. During a walk through folders, one lookup per name shows
/// whether the name itself or anything below it is withheld.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    /// True if this path itself is withheld, with everything below it.
    pub(super) is_whole: bool,
    below: BTreeMap<OsString, Self>,
}

impl Exceptions {
    pub(super) fn of(withheld: &BTreeSet<PathBuf>) -> Self {
        let mut all = Self::default();
        for path in withheld {
            let node = names(path)
                .fold(&mut all, |node, name| node.below.entry(name.to_owned()).or_default());
            node.is_whole = true;
        }
        all
    }

    /// Returns the withheld paths at or below a path, or `None` if no such path is withheld.
    pub(super) fn at(&self, path: &Path) -> Option<&Self> {
        let mut node = self;
        for name in names(path) {
            if node.is_whole {
                break;
            }
            node = node.below(name)?;
        }
        Some(node)
    }

    /// Returns the withheld paths at or below a name in this folder, or `None` if no such path is
    /// withheld.
    pub(super) fn below(&self, name: &OsStr) -> Option<&Self> {
        self.below.get(name)
    }
}

/// Returns the component names of a path without symbolic links.
fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    })
}

/// Returns the installation folder that contains a folder of programs. Returns `None` if the
/// installation folder does not also contain libraries.
fn with_libraries(programs: &Path) -> Option<PathBuf> {
    const PROGRAMS: [&str; 3] = ["bin", "sbin", "shims"];
    const LIBRARIES: [&str; 3] = ["lib", "libexec", "pyvenv.cfg"];
    let all = programs.parent().filter(|_| PROGRAMS.iter().any(|name| programs.ends_with(name)))?;
    // `~/.local` contains the data of many programs, so it does not count as the folder of one
    // installation.
    let is_one = !all.ends_with(".local") && LIBRARIES.iter().any(|name| all.join(name).exists());
    is_one.then(|| all.to_path_buf())
}

/// Returns a path with symbolic links resolved, or `None` if the path does not exist.
fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// Returns a path with symbolic links resolved. Returns `None` if the path is relative, does not
/// exist, is `/` or contains the home folder.
fn apart_from(home: Option<&Path>, path: &Path) -> Option<PathBuf> {
    let path = real(path).filter(|_| path.is_absolute())?;
    let home = home.and_then(real);
    // `/` or a folder that contains the home folder would make all private files readable.
    let is_too_much = path.parent().is_none() || home.is_some_and(|home| home.starts_with(&path));
    (!is_too_much).then_some(path)
}

impl Secrets {
    /// Finds the secret files of a machine's user and administrator.
    pub(super) fn of(machine: &Machine) -> Self {
        let of_home =
            machine.home.iter().flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
        let of_root = OF_THE_ROOT.iter().map(|name| machine.root.join(name));
        let of_system = SYSTEM_SECRETS.iter().map(PathBuf::from);
        let mut secrets: BTreeSet<_> =
            of_home.chain(of_root).chain(of_system).filter_map(|path| real(&path)).collect();
        let of_toolchains = machine
            .toolchains
            .iter()
            .flat_map(|it| TOOLCHAIN_CREDENTIALS.iter().map(|name| it.join(name)));
        secrets.extend(of_toolchains.filter_map(|path| real(&path)));
        let cargo = machine
            .home
            .iter()
            .map(|home| home.join(".cargo"))
            .chain(machine.toolchains.iter().cloned());
        let of_cargo =
            cargo.flat_map(|folder| CARGO_CONFIGURATION.iter().map(move |name| folder.join(name)));
        secrets.extend(of_cargo.filter(|file| mentions_token(file)).filter_map(|file| real(&file)));
        secrets
            .extend(toolchains(machine).iter().flat_map(|folder| key_files::in_toolchain(folder)));
        secrets.extend(closed_entries("/etc"));
        secrets.extend(closed_entries("/etc/ssh"));
        Self(secrets)
    }
}

/// Returns the existing toolchain folders of the user, with symbolic links resolved.
fn toolchains(machine: &Machine) -> Vec<PathBuf> {
    let home = machine.home.as_deref();
    let of_home = home.into_iter().flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name)));
    let all = of_home.chain(machine.toolchains.iter().cloned());
    all.filter_map(|path| apart_from(home, &path)).collect()
}

/// Returns true if a cargo configuration file contains a token. Some older configuration files
/// contain one.
fn mentions_token(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| {
        let names = |line: &str| line.split('=').next().is_some_and(|name| name.contains("token"));
        text.lines().any(|line| names(line.trim_start()))
    })
}

/// Returns the entries of a folder that are sockets, and the entries that not all users are allowed
/// to read. They are withheld even from commands that run as root.
fn closed_entries(folder: &str) -> Vec<PathBuf> {
    const READ_BY_ALL: u32 = 0o004;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_closed = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|it| {
            !it.is_symlink() && (it.mode() & READ_BY_ALL == 0 || it.file_type().is_socket())
        })
    };
    entries.map(|entry| entry.path()).filter(is_closed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_found_at_above_and_below_what_is_withheld() {
        let withheld = ["/a/b/key", "/a/c", "/a/c/inner", "/d"].map(PathBuf::from).into();
        let all = Exceptions::of(&withheld);
        let is_whole = |path: &str| all.at(Path::new(path)).map(|it| it.is_whole);
        for (path, expected) in [
            ("/", Some(false)),
            ("/a", Some(false)),
            ("/a/b", Some(false)),
            ("/a/b/key", Some(true)),
            ("/a/b/keys", None),
            ("/a/c/inner", Some(true)),
            ("/a/c/other/deep", Some(true)),
            ("/d/e", Some(true)),
            ("/dd", None),
        ] {
            assert_eq!(is_whole(path), expected, "{path}");
        }
    }
    #[test]
    fn whole_folders_keep_only_the_exceptions_that_concern_a_folder() {
        let paths =
            |paths: &[&str]| -> BTreeSet<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        let private = Path::new("/home/u/.root/tmp");
        let check = |withheld: &[&str], open: &[&str], kept: &[&str]| {
            let all = Readable {
                open: paths(&["/home/u", "/home/u/bin", "/usr"]),
                withheld: paths(withheld),
            };
            let expected = Readable { open: paths(open), withheld: paths(kept) };
            assert_eq!(all.whole_folders(private), expected, "{withheld:?}");
        };
        check(&["/home/u/.ssh", "/etc/shadow", "/home/u/.root/other"], &["/home/u", "/usr"], &[]);
        check(&["/home/u/.root"], &["/home/u", "/home/u/bin", "/usr"], &["/home/u/.root"]);
        check(
            &["/home/u/.root/tmp/x"],
            &["/home/u", "/home/u/bin", "/usr"],
            &["/home/u/.root/tmp/x"],
        );
    }
}
