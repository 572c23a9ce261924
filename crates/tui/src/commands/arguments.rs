//! The arguments of the commands that take a text: what follows the first words is used as it was
//! typed, with its line breaks.

use pitcrew_protocol::{AgentName, PermissionMode};

/// What `/plan` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlanCommand {
    /// Shows the plans that wait for an answer.
    Show,
    /// Approves the plan of a member.
    Approve(AgentName),
    /// Sends the plan of a member back.
    Reject {
        /// The member.
        member: AgentName,
        /// What the next plan must do differently.
        remarks: Option<String>,
    },
}

/// What `/export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportScope {
    /// The conversation on the screen.
    Conversation,
    /// The whole run.
    Run,
}

/// Reads the arguments of `/plan`. `None` means that they are wrong.
///
/// # Errors
/// Returns a text for the user if the name of the member is wrong.
pub(super) fn plan(rest: &str) -> Result<Option<PlanCommand>, String> {
    let (what, rest) = first_word(rest);
    let (member, remarks) = first_word(rest);
    Ok(match (what, member, remarks) {
        ("", "", "") => Some(PlanCommand::Show),
        ("approve", member, "") if !member.is_empty() => {
            Some(PlanCommand::Approve(agent_name(member)?))
        }
        ("reject", member, remarks) if !member.is_empty() => Some(PlanCommand::Reject {
            member: agent_name(member)?,
            remarks: Some(remarks.to_owned()).filter(|remarks| !remarks.is_empty()),
        }),
        _ => None,
    })
}

/// Reads the arguments of `/spawn`: the name, the agent type if there is one, and the prompt.
/// `None` means that they are wrong.
///
/// # Errors
/// Returns a text for the user if the name is wrong.
pub(super) fn spawn(rest: &str) -> Result<Option<(AgentName, Option<String>, String)>, String> {
    let (name, rest) = first_word(rest);
    let (agent_type, prompt) = match rest.strip_prefix("--type ") {
        Some(rest) => {
            let (agent_type, prompt) = first_word(rest);
            (Some(agent_type.to_owned()), prompt)
        }
        None => (None, rest),
    };
    if name.is_empty() || prompt.is_empty() {
        return Ok(None);
    }
    Ok(Some((agent_name(name)?, agent_type, prompt.to_owned())))
}

/// Reads the arguments of `/export`: what is exported, and the file if one is named. The rest of the
/// line is one name, so that it can contain blanks.
pub(super) fn export(rest: &str) -> (ExportScope, Option<String>) {
    let (scope, file) = match first_word(rest) {
        ("run", file) => (ExportScope::Run, file),
        _ => (ExportScope::Conversation, rest.trim()),
    };
    // A file named `run` is written as `./run`.
    (scope, Some(file.to_owned()).filter(|file| !file.is_empty()))
}

/// Splits a text into its first word and the rest. Blanks around both are removed.
pub(super) fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

pub(super) fn agent_name(text: &str) -> Result<AgentName, String> {
    AgentName::new(text).map_err(|error| format!("{text} is no name of an agent: {error}"))
}

pub(super) fn mode_of(text: &str) -> Result<PermissionMode, String> {
    let names = PermissionMode::ALL.map(PermissionMode::as_str);
    PermissionMode::ALL
        .into_iter()
        .find(|mode| mode.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("no such mode; the modes are: {}", names.join(", ")))
}
