//! The check of the sandbox: tries each profile and reports whether it works on this machine.

use std::collections::BTreeMap;

use pitcrew_process::sandbox::{Profile, Sandbox, Support};

use crate::context::Context;
use crate::failure::Failure;

/// For each profile name, a text that says whether the profile works on this machine.
pub(super) type Held = BTreeMap<&'static str, String>;

/// Tries each profile in a temporary folder, so that nothing is created below the root.
///
/// # Errors
/// When there is no place for temporary files.
pub(super) fn held(context: &Context) -> Result<Held, Failure> {
    let folder = tempfile::Builder::new().prefix("pitcrew-doctor-").tempdir_in(context.temporary());
    let folder = folder.map_err(Failure::internal)?;
    let machine = pitcrew_process::sandbox::Machine {
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

/// Advises the user to set `safe.bareRepository` in git, if it is not set. Without it git accepts a
/// folder that only looks like a bare repository, and no sandbox prevents a command from creating
/// one in its working folder.
pub(super) fn bare_repositories(context: &Context) -> Option<String> {
    let mut git = std::process::Command::new("git");
    // Run git in `/`, because even with `--global` git looks at the surrounding repository, which
    // is not trusted.
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
