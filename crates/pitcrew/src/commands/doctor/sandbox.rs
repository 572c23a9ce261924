//! The check of the sandbox: tries each sandbox profile and reports whether it works on this
//! machine.

use std::collections::BTreeMap;

use pitcrew_process::our_git::user_setting;
use pitcrew_process::sandbox::{Profile, Sandbox, Support};

use crate::context::Context;
use crate::failure::Failure;

/// Maps the name of each sandbox profile to a text that says whether the profile works on this
/// machine.
pub(super) type Held = BTreeMap<&'static str, String>;

/// Tries each sandbox profile in a temporary folder, so that nothing is created below the root.
///
/// # Errors
/// Returns an error if the temporary folder cannot be created.
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

/// Advises the user to set `safe.bareRepository` in git, if this option is not set. Without the
/// option, git uses any folder that looks like a bare repository. A sandboxed command can always
/// create such a folder in its working folder.
pub(super) fn bare_repositories(context: &Context) -> Option<String> {
    let value = user_setting(context.home.as_deref(), "safe.bareRepository")?;
    (value != "explicit").then(|| {
        "sandbox git: a command can create a folder that looks like a bare repository; git then runs programs from it when you use git there; \
         `git config --global safe.bareRepository explicit` refuses that"
            .to_owned()
    })
}
