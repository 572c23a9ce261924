//! Asks the user whether a project's files are trusted, with a list of what the files would do, and
//! reports the parts that are ignored.
//!
//! `pitcrew_runtime::trust` determines what the files would do and which of them take effect. This
//! module prints the list and asks the question.

use std::path::{Path, PathBuf};

use pitcrew_permission::trust::{
    Answer, LeftOut, Project, TRUSTED_ITEMS, Trust, TrustState, WhyLeftOut,
};
use pitcrew_runtime::question::{TrustQuestion, TrustedBefore};
use serde_json::{Map, Value, json};

use crate::context::{Context, Loaded};
use crate::failure::{Failure, FailureKind};
use crate::live::trust_prompt;
use crate::output::{self, visible};

/// The most names of ignored entries that are printed. For the remaining entries only their number
/// is printed.
const MOST_KEYS: usize = 12;

/// The most characters that are printed of one name.
const KEY_CHARS: usize = 60;

/// Trusts what a project's files would do now, for this run only. The trust is stored in the layer
/// of settings that comes from the command line, because teammates in panes get this layer too.
///
/// # Errors
/// When the files cannot be read.
pub(crate) fn for_this_run(
    context: &Context,
    folder: &Path,
    layer: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let project = read(context, folder)?;
    let digests: Vec<&str> = project.items().iter().map(|item| item.digest.as_str()).collect();
    // A project without such files needs no trust.
    if digests.is_empty() {
        return Ok(());
    }
    if let Value::Object(ours) = layer.entry("pitcrew").or_insert_with(|| json!({})) {
        ours.insert(TRUSTED_ITEMS.to_owned(), json!(digests));
    }
    Ok(())
}

/// Asks the user at the terminal whether a project is trusted, unless that was answered before, and
/// stores the answer.
///
/// # Errors
/// When the files cannot be read, or the answer cannot be stored.
pub(crate) fn ask(context: &Context, folder: &Path) -> Result<(), Failure> {
    let project = read(context, folder)?;
    // If the earlier answers cannot be read, a new one cannot be stored either. The run reports the
    // error.
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

/// Prints a short list of the parts of a project's files that are ignored.
pub(crate) fn say(loaded: &Loaded) {
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
        // The hint about trust helps only for entries that trust would let take effect.
        can_be_trusted |= *why != WhyLeftOut::Never;
        output::remark(&format!(
            "left out of {}: {} ({because})",
            visible(&file.display().to_string()),
            few(keys)
        ));
    }
    if can_be_trusted {
        output::remark(
            "`pitcrew trust show` shows it, `pitcrew trust add` trusts it, --trust for one run",
        );
    }
    for warning in &loaded.warnings {
        output::remark(&format!("warning: {}", visible(warning)));
    }
}

/// Reads the project in a folder, by default the working folder. Also returns the top folder of the
/// project's repository.
///
/// # Errors
/// When the folder does not exist, or the project's files cannot be read.
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

/// Reads the files of a project that need trust.
///
/// # Errors
/// When the files cannot be read.
pub(crate) fn read(context: &Context, folder: &Path) -> Result<Project, Failure> {
    context.project(folder)
}

/// Stores the user's answer for a project.
///
/// # Errors
/// When the answer cannot be written.
#[expect(clippy::disallowed_methods, reason = "an answer is kept with its time")]
pub(crate) fn keep(context: &Context, project: &Project, answer: Answer) -> Result<(), Failure> {
    let now = jiff::Timestamp::now().to_string();
    Trust::answer(&context.root, project, answer, &now).map_err(Failure::unusable)
}

/// The effects of a project's files, one per line, and then the settings that never take effect
/// from a project.
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
