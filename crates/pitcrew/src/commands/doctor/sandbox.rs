//! The check of the sandbox: each profile is tried, and it is said what holds here.

use std::collections::BTreeMap;

use pitcrew_runtime::sandbox::{Profile, Sandbox, Support};

use crate::context::Context;
use crate::failure::Failure;

/// What of the profiles holds on this machine, in words.
pub(super) type Held = BTreeMap<&'static str, String>;

/// Tries each profile, in a folder of its own: nothing is made below the root.
///
/// # Errors
/// When there is no place for temporary files.
pub(super) fn held(context: &Context) -> Result<Held, Failure> {
    let folder = tempfile::Builder::new().prefix("pitcrew-doctor-").tempdir_in(context.temporary());
    let folder = folder.map_err(Failure::internal)?;
    let machine = pitcrew_runtime::sandbox::Machine {
        root: folder.path().to_path_buf(),
        ..context.machine()
    };
    let sandbox = Sandbox::new(machine);
    let words = |profile| match sandbox.support(profile) {
        Support::Off => "off".to_owned(),
        Support::Held { by } => format!("held by {by}"),
        Support::Partly { gap } => format!("held, but: {gap}"),
        Support::Missing { reason } => format!("not held: {reason}"),
    };
    Ok(Profile::ALL.into_iter().map(|profile| (profile.as_str(), words(profile))).collect())
}

/// What the user should set, when git takes a folder for a repository that only looks like one: no sandbox keeps a command from
/// making one in its working folder.
pub(super) fn bare_repositories(context: &Context) -> Option<String> {
    let mut git = std::process::Command::new("git");
    // Even for the user's own settings git looks at the repository around, which may be anything.
    git.current_dir("/").env_remove("GIT_DIR");
    git.envs(context.machine().home.map(|home| ("HOME", home))).args([
        "config",
        "--global",
        "--get",
        "safe.bareRepository",
    ]);
    let said = git.stdin(std::process::Stdio::null()).output().ok()?;
    (said.stdout.trim_ascii() != b"explicit").then(|| {
        "sandbox git: a folder made by a command can pass for a bare repository and run programs when you use git in it; \
         `git config --global safe.bareRepository explicit` refuses that"
            .to_owned()
    })
}
