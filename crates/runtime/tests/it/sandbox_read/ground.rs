//! The test environment for commands in the sandbox profile `read`: a working folder, files beside
//! it, a home folder with secrets, and a process outside the sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::{Machine, Profile, Sandbox, Support};
use pitcrew_tools::ToolContext;
use serde_json::json;

use crate::tools_env::TestEnv;

/// The files outside the working folder: those in the home folder, and those beside the working
/// folder. Each entry is a path and the content.
const HOME_FILES: &[(&str, &str)] = &[
    ("home/.ssh/id_rsa", "SECRET"),
    ("home/notes", "SECRET"),
    ("home/notes-SECRET", ""),
    ("home/.cargo/credentials.toml", "SECRET"),
    ("home/.cargo/bin/tool", "#!/bin/sh\necho works"),
    ("home/.config/gh/hosts.yml", "SECRET"),
    ("home/.nvm/versions/node/v20/etc/npmrc", "SECRET"),
    ("home/miniconda3/.condarc", "SECRET"),
    ("home/.pyenv/versions/3.12/pip.conf", "SECRET"),
    ("home/go/pkg/mod/cache/vcs/0a/config", "url = https://u:SECRET@git.example/x"),
    ("home/.cargo/git/db/x/FETCH_HEAD", "0a of https://u:SECRET@git.example/x"),
    ("home/.local/share/pnpm/global/5/.npmrc", "SECRET"),
    ("home/.rbenv/x/.gem/credentials", "SECRET"),
    ("home/.asdf/plugins/p/.env", "SECRET"),
    ("home/.gitconfig", "[user]\nname = Known\nemail = k@x\n[credential]\nhelper = SECRET\n"),
    ("outside/secret", "SECRET"),
    // `moved` is the folder of a toolchain. An environment variable names this folder, as
    // `RUSTUP_HOME` does.
    ("moved/settings.toml", "default_toolchain = 'stable'"),
    ("moved/credentials.toml", "SECRET"),
    ("moved/config.toml", "[registry]\ntoken = 'SECRET'"),
];

/// The state of a file: its mode, owner, times, number of hard links and content.
pub(crate) type FileState = (u32, u32, i64, i64, u64, Vec<u8>);

/// A working folder with files beside it, and a home folder.
pub(crate) struct Ground {
    pub(crate) setting: TestEnv,
    pub(crate) base: PathBuf,
    pub(crate) sandbox: Sandbox,
    pub(crate) other: Child,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _gone = self.other.kill();
        let _reaped = self.other.wait();
    }
}

/// Returns the path of the program that pitcrew runs inside bubblewrap and that restricts itself
/// further. The program is an example of this crate.
pub(crate) fn inner() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let inner = deps.ancestors().nth(2).unwrap().join("examples/sandbox_exec");
    assert!(inner.is_file(), "{} is built with the tests", inner.display());
    inner
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let output =
        Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

impl Ground {
    /// Makes the folders. Returns `None` if this machine cannot enforce the sandbox profile `read`.
    pub(crate) fn new() -> Option<Self> {
        let ground = Self::with(Sandbox::new);
        if let Support::Missing { reason } = ground.sandbox.support(Profile::Read) {
            eprintln!(
                "\n!!! SKIPPED: {reason}. Nothing was proved about *read* on this machine. !!!\n"
            );
            return None;
        }
        Some(ground)
    }

    pub(crate) fn with(sandbox: impl FnOnce(Machine) -> Sandbox) -> Self {
        let mut setting = TestEnv::new();
        let base = setting.context.cwd.parent().unwrap().to_path_buf();
        let home = base.join("home");
        make_home(&base);
        make_work(&setting);
        let mut other = Command::new("sleep");
        other.arg("1000").env("SECRET", "SECRET").current_dir(base.join("outside"));
        let other = other.process_group(0).spawn().unwrap();
        let path = std::env::var("PATH").unwrap();
        let tools = home.join(".cargo/bin");
        let variables = [
            ("HOME_", home.display().to_string()),
            ("HOME", home.display().to_string()),
            ("OUT", base.join("outside").display().to_string()),
            ("OTHER", other.id().to_string()),
            ("PATH", format!("{path}:{}", tools.display())),
        ];
        setting.context.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        add_secrets(&mut setting.context.env);
        let settings = json!({"permissions": {"deny": ["Read(./denied/**)", "Read(**/.env)"]}});
        let settings = Settings::merge(vec![(Layer::User, settings)]).unwrap();
        setting.context.gate = Arc::new(Gate::from_settings(&settings, Some(&home)).unwrap());
        let machine = Machine {
            root: home.join(".claude"),
            temporary: tempfile::env::temp_dir(),
            path: std::env::split_paths(&path).chain([tools]).collect(),
            toolchains: vec![base.join("moved")],
            home: Some(home),
            inner: Some(vec![inner().into_os_string()]),
            ..Machine::default()
        };
        setting.context.profile = Profile::Read;
        let sandbox = sandbox(machine);
        setting.context.sandbox = sandbox.clone();
        Self { setting, base, sandbox, other }
    }

    pub(super) fn freely(&self) -> ToolContext {
        ToolContext { sandbox: Sandbox::default(), ..self.setting.context.clone() }
    }

    pub(crate) async fn bash(&self, command: &str) -> String {
        self.setting.call("Bash", json!({ "command": command })).await.text
    }

    /// Returns the state of every file that is outside pitcrew's root folder.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, FileState> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.base.clone()];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() && path != self.base.join("home/.claude") {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let what = (
                metadata.mode(),
                metadata.uid(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.nlink(),
                content,
            );
            found.insert(path, what);
        }
        found
    }
}

/// Makes the home folder and the folders beside the working folder.
fn make_home(base: &Path) {
    for folder in [
        "home/.ssh",
        "home/.config/gh",
        "home/.cargo/bin",
        "home/bin",
        "home/.claude",
        "outside",
        "moved",
    ] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    HOME_FILES.iter().for_each(|(file, text)| write(&base.join(file), text));
    fs::set_permissions(base.join("home/.cargo/bin/tool"), fs::Permissions::from_mode(0o755))
        .unwrap();
}

/// Makes the content of the working folder: files, links, an archive, and a repository with a
/// worktree.
fn make_work(setting: &TestEnv) {
    for (file, text) in [
        ("kept", "kept\n"),
        ("list", "kept\n"),
        ("sub/inner", "kept"),
        ("denied/key", "SECRET"),
        ("deep/er/.env", "SECRET"),
        ("script", "#!/bin/sh\necho x > new\n"),
        ("repo/f", "x"),
    ] {
        setting.write(file, text);
    }
    let cwd = &setting.context.cwd;
    fs::set_permissions(cwd.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(cwd.join("empty")).unwrap();
    symlink("kept", cwd.join("link")).unwrap();
    symlink("../outside", cwd.join("link-out")).unwrap();
    symlink(cwd.join("../home/.ssh/id_rsa"), cwd.join("link-key")).unwrap();
    symlink("deep/er/.env", cwd.join("link-env")).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["cf", "packed.tar", "sub"]).current_dir(cwd);
    assert!(tar.status().unwrap().success());
    git(&cwd.join("repo"), &["init", "-q"]);
    git(&cwd.join("repo"), &["add", "f"]);
    git(&cwd.join("repo"), &["commit", "-q", "-m", "first"]);
    // The git folder of the repository `repo` is outside the worktree, so git needs access to both
    // folders.
    git(&cwd.join("repo"), &["worktree", "add", "-q", "../tree"]);
}

/// Adds environment variables that hold secrets, with many different names.
fn add_secrets(env: &mut Vec<(String, String)>) {
    let named = [
        "FORGE_TOKEN",
        "ANTHROPIC_API_KEY",
        "DBPASS",
        "MYSQL_PWD",
        "GH_PAT",
        "JWT",
        "KEY",
        "STRIPE_SK",
        "SENTRY_DSN",
        "CONNECTION_STRING",
    ];
    env.extend(named.map(|name| (name.to_owned(), "SECRET".to_owned())));
    let proxied = ["HTTPS_PROXY", "PIP_INDEX_URL", "UV_INDEX", "BROKER", "DBURL"];
    env.extend(proxied.map(|name| (name.to_owned(), "any://me:SECRET@host/x".to_owned())));
    env.retain(|(name, _)| name != "GIT_CONFIG_GLOBAL");
}
