//! Asks the user whether a project's files are trusted, and shows a list of what the files would
//! do. This module also reports the parts of the files that are ignored.
//!
//! `pitcrew_runtime::trust` determines what the files would do and which of their parts take
//! effect.

use std::path::{Path, PathBuf};

use pitcrew_permission::trust::{
    Answer, LeftOut, Project, TRUSTED_ITEMS, Trust, TrustState, WhyLeftOut,
};
use pitcrew_runtime::question::{TrustQuestion, TrustedBefore};
use serde_json::{Map, Value, json};

use crate::context::{Context, Loaded};
use crate::failure::{Failure, FailureKind};
use crate::live::trust_prompt;
use crate::output::visible;

/// The maximum number of ignored entries whose names are printed. For the remaining entries only
/// their number is printed.
const MOST_KEYS: usize = 12;

/// The maximum number of characters that are printed of one name.
const KEY_CHARS: usize = 60;

/// Trusts, for this run only, everything that a project's files would do now. The trust is stored
/// in the layer of settings that comes from the command line, because teammates in panes get this
/// layer too.
///
/// # Errors
/// Returns an error if the files cannot be read.
pub(crate) fn for_this_run(
    context: &Context,
    folder: &Path,
    layer: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let project = read(context, folder)?;
    let digests: Vec<&str> = project.items().iter().map(|item| item.digest.as_str()).collect();
    // The project has no files that need trust.
    if digests.is_empty() {
        return Ok(());
    }
    if let Value::Object(ours) = layer.entry("pitcrew").or_insert_with(|| json!({})) {
        ours.insert(TRUSTED_ITEMS.to_owned(), json!(digests));
    }
    Ok(())
}

/// Asks the user at the terminal whether a project is trusted, and stores the answer. Does not ask
/// if the files need no trust, or if the user has already answered for what the files would do now.
///
/// # Errors
/// Returns an error if the files cannot be read, or if the answer cannot be stored.
pub(crate) fn ask(context: &Context, folder: &Path) -> Result<(), Failure> {
    let project = read(context, folder)?;
    // If the earlier answers cannot be read, a new answer cannot be stored. The user is not asked,
    // and the run reports the error.
    let Ok(trust) = Trust::load(&context.root) else { return Ok(()) };
    let before = match trust.state(&project) {
        TrustState::UsersOwn
        | TrustState::NothingToTrust
        | TrustState::Trusted
        | TrustState::Declined => return Ok(()),
        TrustState::NotTrusted => TrustedBefore::Never,
        TrustState::Grown => TrustedBefore::Less,
    };
    let stopped = "stopped: nothing was answered, and nothing was run";
    match trust_prompt::ask(&TrustQuestion::of(&project, before), stopped)
        .map_err(Failure::internal)?
    {
        Some(answer) => keep(context, &project, answer),
        None => Ok(()),
    }
}

/// Returns a short list of the ignored parts of a project's files, as lines for the user.
pub(crate) fn texts(loaded: &Loaded) -> Vec<String> {
    let mut texts = Vec::new();
    let top =
        loaded.top.as_deref().map(|top| visible(&top.display().to_string())).unwrap_or_default();
    let mut can_be_trusted = false;
    for LeftOut { file, keys, why } in &loaded.left_out {
        let because = match why {
            WhyLeftOut::NotTrusted => format!("{top} is not trusted"),
            WhyLeftOut::Declined => format!("you said no to trusting {top}"),
            WhyLeftOut::Grown => format!("it would do more than when you trusted {top}"),
            WhyLeftOut::Never => "no project may set it".to_owned(),
        };
        // The hint about trust is printed only if at least one ignored entry would take effect with
        // trust.
        can_be_trusted |= *why != WhyLeftOut::Never;
        texts.push(format!(
            "left out of {}: {} ({because})",
            visible(&file.display().to_string()),
            few(keys)
        ));
    }
    if can_be_trusted {
        texts.push(
            "`pitcrew trust show` shows it, `pitcrew trust add` trusts it, --trust for one run"
                .to_owned(),
        );
    }
    texts.extend(loaded.warnings.iter().map(|warning| format!("warning: {}", visible(warning))));
    texts
}

/// Reads the project in `folder`, or in the working folder if `folder` is `None`. Also returns the
/// top folder of the project's repository.
///
/// # Errors
/// Returns an error if the folder does not exist, or if the project's files cannot be read.
pub(crate) fn find(
    context: &Context,
    folder: Option<&Path>,
) -> Result<(Project, PathBuf), Failure> {
    let folder = folder.map_or_else(|| context.cwd.clone(), |folder| context.cwd.join(folder));
    let project = read(context, &folder)?;
    match project.top().map(Path::to_path_buf) {
        Some(top) => Ok((project, top)),
        None => {
            let said = format!("there is no folder {}", visible(&folder.display().to_string()));
            Err(Failure::new(FailureKind::NotFound, said))
        }
    }
}

/// Reads the files of a project that take effect only if the project is trusted.
///
/// # Errors
/// Returns an error if the files cannot be read.
pub(crate) fn read(context: &Context, folder: &Path) -> Result<Project, Failure> {
    context.project(folder)
}

/// Stores the user's answer for a project.
///
/// # Errors
/// Returns an error if the answer cannot be written.
#[expect(clippy::disallowed_methods, reason = "an answer is kept with its time")]
pub(crate) fn keep(context: &Context, project: &Project, answer: Answer) -> Result<(), Failure> {
    let now = jiff::Timestamp::now().to_string();
    Trust::answer(&context.root, project, answer, &now).map_err(Failure::unusable)
}

/// Lists the effects of a project's files, one per line. The list ends with the settings that never
/// take effect from a project.
pub(crate) fn list(project: &Project) -> String {
    let lines = TrustQuestion::list(project);
    lines.iter().map(|line| format!("  {}", line.text)).collect::<Vec<_>>().join("\n")
}

fn few(keys: &[String]) -> String {
    let short = |key: &String| match key.char_indices().nth(KEY_CHARS) {
        Some((at, _)) => format!("{}...", visible(key.get(..at).unwrap_or_default())),
        None => visible(key),
    };
    let mut said = keys.iter().take(MOST_KEYS).map(short).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = keys.len().checked_sub(MOST_KEYS) {
        said += &format!(" and {more} more");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_a_number() {
        let keys: Vec<String> = (0..15).map(|number| format!("env.V{number}")).collect();
        assert!(few(&keys).ends_with("env.V11 and 3 more"), "{}", few(&keys));
        assert_eq!(few(&["x".repeat(70)]), format!("{}...", "x".repeat(60)));
    }
}
