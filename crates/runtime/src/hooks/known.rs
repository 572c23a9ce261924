//! The events and fields of hooks that the reference client knows, and what pitcrew does with each.
//! `docs/hooks.md` shows this table, and a test keeps both equal. Another test holds the events and
//! the fields against the client itself (`crates/pitcrew/tests/it/interop/hooks.rs`).

/// The place of a name in the settings or in a hook's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An event, as a key of the `hooks` section.
    Event,
    /// The type of a hook.
    Type,
    /// A field of a settings file.
    Settings,
    /// A field beside a `matcher`.
    Group,
    /// A field of one hook of the type `command`.
    Hook,
    /// A field of a hook's answer in JSON.
    Answer,
    /// A field of `hookSpecificOutput` in a hook's answer.
    Specific,
}

/// How pitcrew treats an event or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// pitcrew does what the client does, with the restrictions that [`Known::does`] states.
    Honoured,
    /// As [`Treatment::Honoured`]. The hooks of this event can refuse an action, so that a hook that
    /// cannot be read refuses it.
    Guards,
    /// pitcrew knows the name and does not act on it. It says so in a warning.
    Named,
}

/// An event or a field that the client knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The place of the name.
    pub place: Place,
    /// The name.
    pub name: &'static str,
    /// How pitcrew treats it.
    pub treatment: Treatment,
    /// What pitcrew does, as a sentence.
    pub does: &'static str,
    /// How the client's behaviour is known.
    pub source: &'static str,
}

/// The client printed the name among its valid values.
const LISTED: &str = "list in the client's `doctor`";
/// The client refused a wrong value of the field in its settings.
const CHECKED: &str = "check in the client's `doctor`";
/// The effect was watched in a sealed session of the client.
const WATCHED: &str = "watched";

const fn raised(name: &'static str, does: &'static str) -> Known {
    Known { place: Place::Event, name, treatment: Treatment::Honoured, does, source: LISTED }
}

const fn guarding(name: &'static str, does: &'static str) -> Known {
    Known { place: Place::Event, name, treatment: Treatment::Guards, does, source: LISTED }
}

const fn not_raised(name: &'static str) -> Known {
    let does = "pitcrew has no such event: its hooks are not run, and a warning says so.";
    Known { place: Place::Event, name, treatment: Treatment::Named, does, source: LISTED }
}

const fn honoured(
    place: Place,
    name: &'static str,
    does: &'static str,
    source: &'static str,
) -> Known {
    Known { place, name, treatment: Treatment::Honoured, does, source }
}

const fn named(
    place: Place,
    name: &'static str,
    does: &'static str,
    source: &'static str,
) -> Known {
    Known { place, name, treatment: Treatment::Named, does, source }
}

/// A type of hook that pitcrew does not run.
const fn not_run(name: &'static str) -> Known {
    let does = "It is not run, and counts as a hook that cannot be read.";
    Known { place: Place::Type, name, treatment: Treatment::Named, does, source: LISTED }
}

/// The client version from which the names of this table are.
pub const CLIENT_VERSION: &str = "2.1.332";

/// All events and fields that the client knows, in the order of the documentation.
pub const KNOWN: &[Known] = &[
    guarding("PreToolUse", "Before a tool call."),
    raised("PostToolUse", "After a tool call, whether it succeeded or failed."),
    not_raised("PostToolUseFailure"),
    not_raised("PostToolBatch"),
    not_raised("Notification"),
    guarding("UserPromptSubmit", "Before the goal of a run reaches the lead."),
    not_raised("UserPromptExpansion"),
    raised("SessionStart", "When a run begins or is resumed."),
    raised("SessionEnd", "When a run ends. An `async` hook is waited for."),
    raised(
        "Stop",
        "When the lead's turn ends. After 8 refusals in a row the turn ends all the same.",
    ),
    not_raised("StopFailure"),
    not_raised("SubagentStart"),
    raised("SubagentStop", "When a subagent's turn ends, with the same limit of 8."),
    not_raised("PreCompact"),
    not_raised("PostCompact"),
    not_raised("PreModelSwitch"),
    not_raised("PostModelSwitch"),
    not_raised("PermissionRequest"),
    not_raised("PermissionDenied"),
    not_raised("Setup"),
    raised("TeammateIdle", "When a teammate's turn ends, with the same limit of 8."),
    guarding("TaskCreated", "Before a task is created."),
    guarding("TaskCompleted", "Before a task is completed."),
    not_raised("Elicitation"),
    not_raised("ElicitationResult"),
    not_raised("ConfigChange"),
    not_raised("WorktreeCreate"),
    not_raised("WorktreeRemove"),
    not_raised("InstructionsLoaded"),
    not_raised("CwdChanged"),
    not_raised("FileChanged"),
    not_raised("DirectoryAdded"),
    not_raised("MessageDisplay"),
    not_raised("PreSkillShellCommand"),
    honoured(
        Place::Settings,
        "disableAllHooks",
        "The machine's policy silences all hooks, the user and the command line their own and the project's, a project only its own.",
        WATCHED,
    ),
    honoured(
        Place::Settings,
        "allowManagedHooksOnly",
        "In the machine's policy: no other hooks count. Elsewhere it does nothing.",
        "documentation of the client",
    ),
    honoured(
        Place::Group,
        "matcher",
        "A name, names separated by `|` or `,`, or a regular expression.",
        WATCHED,
    ),
    honoured(Place::Group, "hooks", "The hooks of this matcher.", CHECKED),
    honoured(Place::Type, "command", "A command.", LISTED),
    not_run("prompt"),
    not_run("agent"),
    not_run("http"),
    not_run("mcp_tool"),
    honoured(Place::Hook, "type", "One of the types.", CHECKED),
    honoured(Place::Hook, "command", "The text for a shell, or with `args` the program.", WATCHED),
    honoured(
        Place::Hook,
        "args",
        "The program runs with these arguments and without a shell. `${CLAUDE_PROJECT_DIR}` is replaced in it and in them.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "if",
        "A permission rule. The hook runs if the rule may match a part of the call, and its allowance counts only if the rule matches all of it. For an event without a tool the hook never runs.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "async",
        "Nothing waits for the hook, and it decides nothing. Its texts reach the agent with a later tool call.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "asyncRewake",
        "Without `async` the hook is waited for, as in the client without a terminal. It wakes nobody.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "once",
        "Nothing: the client too runs such a hook of a settings file each time.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "timeout",
        "The time limit in seconds, at most an hour; without it 10 minutes. A hook that takes longer is killed and decides nothing.",
        WATCHED,
    ),
    honoured(
        Place::Hook,
        "shell",
        "`bash` or `powershell` (the program `pwsh`). Without it, `sh` reads the command.",
        CHECKED,
    ),
    honoured(Place::Hook, "statusMessage", "Nothing: no face shows it.", CHECKED),
    honoured(Place::Answer, "continue", "`false` stops what the agent is doing.", WATCHED),
    honoured(Place::Answer, "stopReason", "The reason for `continue: false`.", WATCHED),
    honoured(
        Place::Answer,
        "suppressOutput",
        "Nothing: no face shows the output.",
        "documentation of the client",
    ),
    honoured(Place::Answer, "systemMessage", "A warning for the user.", WATCHED),
    honoured(Place::Answer, "decision", "`block` refuses, `approve` allows a tool call.", WATCHED),
    honoured(Place::Answer, "reason", "The reason for the decision.", WATCHED),
    honoured(Place::Answer, "hookSpecificOutput", "The fields for one event.", WATCHED),
    named(
        Place::Answer,
        "async",
        "Only the settings put a hook into the background. A hook that answers this is waited for.",
        WATCHED,
    ),
    honoured(
        Place::Specific,
        "hookEventName",
        "Must be the name of the event, or the answer allows nothing.",
        WATCHED,
    ),
    honoured(
        Place::Specific,
        "permissionDecision",
        "`deny`, `ask` or `allow`. `allow` skips no deny rule and no ask rule. `defer` asks a person.",
        WATCHED,
    ),
    honoured(Place::Specific, "permissionDecisionReason", "The reason for the decision.", WATCHED),
    honoured(
        Place::Specific,
        "updatedInput",
        "Replaces the input of the call before it is judged, asked about and run. The last hook's counts. An `allow` of a hook that saw another input does not count.",
        WATCHED,
    ),
    honoured(Place::Specific, "additionalContext", "A text for the agent.", WATCHED),
];

/// Returns the entry for a name in a place.
pub(super) fn known(place: Place, name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.place == place && known.name == name)
}

/// Returns the names of a place, in the order of the table.
pub fn names(place: Place) -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(move |known| known.place == place).map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> String {
        let row = |known: &Known| {
            let place = match known.place {
                Place::Event => "event",
                Place::Type => "type of a hook",
                Place::Settings => "settings file",
                Place::Group => "beside `matcher`",
                Place::Hook => "hook",
                Place::Answer => "answer",
                Place::Specific => "`hookSpecificOutput`",
            };
            let treatment = match known.treatment {
                Treatment::Honoured => "honoured",
                Treatment::Guards => "honoured, guards",
                Treatment::Named => "not honoured",
            };
            format!(
                "| {place} | `{}` | {treatment} | {} | {} |\n",
                known.name, known.does, known.source
            )
        };
        let head =
            "| place | name | | what pitcrew does | known by |\n| --- | --- | --- | --- | --- |\n";
        std::iter::once(head.to_owned()).chain(KNOWN.iter().map(row)).collect()
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let page = include_str!("../../../../docs/hooks.md");
        assert!(page.contains(&table()), "docs/hooks.md lacks this table:\n{}", table());
        assert!(page.contains(CLIENT_VERSION));
    }

    #[test]
    fn every_name_is_once_in_its_place_and_there_are_34_events() {
        for known in KNOWN {
            let same = |other: &&Known| other.place == known.place && other.name == known.name;
            assert_eq!(KNOWN.iter().filter(same).count(), 1, "{known:?}");
        }
        assert_eq!(names(Place::Event).count(), 34);
    }
}
