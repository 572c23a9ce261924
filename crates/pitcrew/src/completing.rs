//! Shell completions. The candidates complete the word that the user types, such as a command, an
//! option or the name of a team.
//!
//! The shell runs this binary with the current command line, and clap's completion engine handles
//! the call. Errors are not reported, because a completion can print only candidates.

use pitcrew_protocol::PermissionMode;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use pitcrew_model::{ALIASES, PriceTable};
use pitcrew_team::{PlanState, SystemClock};
use pitcrew_web::Devices;

use crate::cli::{self, Color, Shared};
use crate::context::{Context, Surroundings};
use crate::failure::Failure;
use crate::live::face::names_of_files;
use crate::output::{Form, Output};
use crate::selection::{self, Purpose};

/// The environment variable that a shell sets to its own name when it requests completions.
const VARIABLE: &str = "PITCREW_COMPLETE";

/// The program name that the completion script completes.
const NAME: &str = "pitcrew";

/// Prints completions if a shell requests them. Returns whether a shell requested them.
pub(crate) fn answered(surroundings: &Surroundings) -> Result<bool, Failure> {
    if !surroundings.environment.contains_key(VARIABLE) {
        return Ok(false);
    }
    let completer =
        CompleteEnv::with_factory(cli::shown_definition).var(VARIABLE).bin(NAME).completer(NAME);
    let folder = std::env::current_dir().ok();
    completer
        .try_complete(surroundings.args.iter().cloned(), folder.as_deref())
        .map_err(Failure::internal)
}

/// Returns the script that registers the completions with a shell.
///
/// # Errors
/// Returns an error if the shell is not supported.
pub(crate) fn script(shell: &str) -> Result<String, Failure> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(shell)
        .ok_or_else(|| Failure::usage(format!("there are no completions for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, NAME, NAME, NAME, &mut script)
        .map_err(Failure::internal)?;
    Ok(String::from_utf8_lossy(&script).trim().to_owned())
}

/// Completes permission modes.
pub(crate) fn modes(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, PermissionMode::ALL.map(|mode| mode.as_str().to_owned()))
}

/// Completes task statuses, and `deleted`, which removes a task.
pub(crate) fn statuses(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, ["pending", "in_progress", "completed", "deleted"].map(str::to_owned))
}

/// Completes teammate modes.
pub(crate) fn teammate_modes(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, ["auto", "in-process", "tmux", "iterm2", "pane:"].map(str::to_owned))
}

/// Completes models whose price is known, aliases of models, and prefixes of model names: `script:`
/// for scripted models, `ollama/` and `openai/`.
pub(crate) fn models(typed: &OsStr) -> Vec<CompletionCandidate> {
    let short = ALIASES.iter().map(|(alias, _)| (*alias).to_owned());
    let open = ["ollama/", "openai/", "script:"].map(str::to_owned);
    candidates(typed, short.chain(PriceTable::list().names()).chain(open))
}

/// Completes the existing teams.
pub(crate) fn teams(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = asked(async |context: &Context, _: Option<&str>| {
        let teams = context.teams()?.folders().await.map_err(Failure::internal)?;
        Ok(teams.iter().map(ToString::to_string).collect())
    });
    candidates(typed, names)
}

/// Completes the paired devices.
pub(crate) fn devices(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = asked(async |context: &Context, _: Option<&str>| {
        let files = context.files(&context.usable_settings())?;
        let devices = Devices::new(files, Arc::new(SystemClock)).list().await;
        let devices = devices.map_err(Failure::internal)?;
        Ok(devices.into_iter().map(|device| device.name).collect())
    });
    candidates(typed, names)
}

/// Completes the names of teams that can be resumed: existing teams and archived teams.
pub(crate) fn resumable_teams(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = teams(typed);
    let names: Vec<String> = asked(async |context: &Context, _: Option<&str>| {
        let archived = context.teams()?.archived().await?;
        Ok(archived
            .into_iter()
            .filter_map(|entry| Some(entry.team.ok()?.config.name.to_string()))
            .collect())
    });
    let more = candidates(typed, names)
        .into_iter()
        .filter(|it| !found.iter().any(|there| there.get_value() == it.get_value()));
    let mut more: Vec<CompletionCandidate> = more.collect();
    more.sort_by(|one, other| one.get_value().cmp(other.get_value()));
    more.dedup_by(|one, other| one.get_value() == other.get_value());
    found.append(&mut more);
    found
}

/// Completes the names of files in the working folder, and of teams.
pub(crate) fn files_and_teams(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = asked(async |context: &Context, _: Option<&str>| {
        Ok(names_of_files(&context.cwd, &typed.to_string_lossy()))
    });
    let mut found = candidates(typed, names);
    found.extend(resumable_teams(typed));
    found
}

/// Completes the members of the team that the command line names, otherwise of the default team.
pub(crate) fn members(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = asked(async |context: &Context, team: Option<&str>| {
        let config = selection::open(context, team, Purpose::Look).await?.config().await?;
        Ok(config.members.iter().map(|member| member.name.to_string()).collect())
    });
    candidates(typed, names)
}

/// Completes the members whose plans wait for an answer. The team is the one that the command line
/// names, otherwise the default team.
pub(crate) fn plans(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = asked(async |context: &Context, team: Option<&str>| {
        let plans = selection::open(context, team, Purpose::Look).await?.plans().await?;
        let open = plans.into_iter().filter(|plan| plan.state == PlanState::Open);
        Ok(open.map(|plan| plan.member.to_string()).collect())
    });
    candidates(typed, names)
}

/// Returns the names that begin with the typed text. A name that a shell could take for more than
/// one plain word is left out: the shell inserts a candidate without quotes, and agents choose
/// names such as `$(command)`.
fn candidates(typed: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    names
        .into_iter()
        .filter(|name| name.starts_with(typed.as_ref()) && is_plain_word(name))
        .map(CompletionCandidate::new)
        .collect()
}

/// Returns whether every shell takes the text as one word, without a special meaning.
fn is_plain_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,%".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Calls `ask` with the context and with the team that the command line names, if any. Returns no
/// candidates if `ask` fails.
fn asked(
    ask: impl AsyncFnOnce(&Context, Option<&str>) -> Result<Vec<String>, Failure>,
) -> Vec<String> {
    let surroundings = Surroundings::read();
    let line = surroundings.args.clone();
    let root = given(&line, &["--root"]).map(PathBuf::from);
    let team = given(&line, &["--team", "-t"]).and_then(|team| team.into_string().ok());
    let shared = Shared { root, json: false, color: Color::Never };
    // The context needs an `Output`, but completions are printed in another way.
    let output = Output::new(Form::Text, anstream::ColorChoice::Never);
    let answer = Context::new(surroundings, &shared, output)
        .map(|context| context.quiet())
        .and_then(|context| context.briefly(async { ask(&context, team.as_deref()).await }));
    answer.unwrap_or_default()
}

/// Returns the value of an option, if the unfinished command line contains the option.
fn given(line: &[OsString], names: &[&str]) -> Option<OsString> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else { continue };
        if names.contains(&text) {
            return words.next().filter(|value| !value.is_empty()).cloned();
        }
        if let Some((name, value)) = text.split_once('=')
            && names.contains(&name)
        {
            return Some(value.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_shell_would_run_is_no_candidate() {
        let bad = [
            "$(touch$IFS/tmp/x)",
            "`id`",
            "a b",
            "a;b",
            "x\u{1b}[2J",
            "a\nb",
            "~x",
            "-rf",
            "é",
            "",
        ];
        let names = bad.into_iter().chain(["bob", "openai/gpt-5.4", "pane:", "my_team.2"]);
        let found = candidates(OsStr::new(""), names.map(str::to_owned));
        let found: Vec<_> = found.iter().map(|it| it.get_value().to_str().unwrap()).collect();
        assert_eq!(found, ["bob", "openai/gpt-5.4", "pane:", "my_team.2"]);
    }

    #[test]
    fn the_value_of_an_option_is_found_on_the_line() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            given(&line("pitcrew send --team crew b"), &["--team", "-t"]),
            Some("crew".into())
        );
        assert_eq!(given(&line("pitcrew send -t crew b"), &["--team", "-t"]), Some("crew".into()));
        assert_eq!(given(&line("pitcrew --root=/x send b"), &["--root"]), Some("/x".into()));
        assert_eq!(given(&line("pitcrew send --team"), &["--team"]), None);
    }
}
