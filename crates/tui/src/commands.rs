//! The commands that the user types into the composer, such as `/team`.

use pitcrew_protocol::{AgentName, PermissionMode};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Shows the keys and the commands.
    Help,
    /// Shows the team.
    Team,
    /// Shows the tasks.
    Tasks,
    /// Shows the timeline.
    Timeline,
    /// Shows what each member has changed.
    Review,
    /// Shows the conversation of an agent, to whom the next messages go.
    Peek(AgentName),
    /// Changes the permission mode of an agent.
    Mode {
        /// The agent.
        member: AgentName,
        /// The new mode.
        mode: PermissionMode,
    },
    /// Changes the model of an agent.
    Model {
        /// The agent.
        member: AgentName,
        /// The name of the new model.
        model: String,
    },
    /// Replaces the conversation of an agent by a summary.
    Compact(AgentName),
    /// Tells tokens and cost of each agent.
    Cost,
    /// Interrupts the turn of the agent whose conversation is shown.
    Interrupt,
    /// Ends the team.
    Stop,
    /// Leaves the terminal interface.
    Quit,
}

/// A command as the help shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    /// The name, without the slash.
    pub(crate) name: &'static str,
    /// The arguments.
    pub(crate) arguments: &'static str,
    /// The effect.
    pub(crate) about: &'static str,
}

const fn described(name: &'static str, arguments: &'static str, about: &'static str) -> Described {
    Described { name, arguments, about }
}

/// All commands.
pub(crate) const COMMANDS: &[Described] = &[
    described("help", "", "keys and commands"),
    described("team", "", "the agents: who needs you, who works, who is idle"),
    described("tasks", "", "the task board"),
    described("timeline", "", "what happened in the team"),
    described("review", "", "what each member has changed: comment, merge, send back"),
    described("peek", "NAME", "show an agent's conversation; messages then go to it"),
    described("lead", "", "go back to the conversation with the lead"),
    described("mode", "MODE [NAME]", "change the permission mode of the lead or of NAME"),
    described(
        "model",
        "MODEL [NAME]",
        "give the lead or NAME another model, from its next call on",
    ),
    described("compact", "[NAME]", "replace an agent's conversation by a summary"),
    described("cost", "", "tokens and cost of the team"),
    described("interrupt", "", "interrupt the shown agent's turn, as Esc does"),
    described("stop", "", "ask every teammate to leave, and end the team"),
    described("quit", "", "leave; asks what becomes of a team at work"),
];

/// Reads a command. `None` means that the text is a message: it does not begin with `/`. A message
/// that must begin with `/` begins with two of them.
///
/// # Errors
/// Returns a text for the user if the command is unknown, or if an argument is missing or wrong.
pub(crate) fn parse(text: &str) -> Result<Option<Command>, String> {
    let Some(line) = text.strip_prefix('/').filter(|line| !line.starts_with('/')) else {
        return Ok(None);
    };
    let mut words = line.split_whitespace();
    let name = as_named_here(words.next().unwrap_or_default());
    let arguments: Vec<&str> = words.collect();
    let command = match (name, arguments.as_slice()) {
        ("help", []) => Command::Help,
        ("team", []) => Command::Team,
        ("tasks", []) => Command::Tasks,
        ("timeline", []) => Command::Timeline,
        ("review", []) => Command::Review,
        ("peek", [agent]) => Command::Peek(agent_name(agent)?),
        ("lead", []) => Command::Peek(AgentName::lead()),
        ("mode", [mode]) => Command::Mode { member: AgentName::lead(), mode: mode_of(mode)? },
        ("mode", [mode, member]) => {
            Command::Mode { member: agent_name(member)?, mode: mode_of(mode)? }
        }
        ("model", [model]) => Command::Model { member: AgentName::lead(), model: (*model).into() },
        ("model", [model, member]) => {
            Command::Model { member: agent_name(member)?, model: (*model).into() }
        }
        ("compact", []) => Command::Compact(AgentName::lead()),
        ("compact", [member]) => Command::Compact(agent_name(member)?),
        ("cost", []) => Command::Cost,
        ("interrupt", []) => Command::Interrupt,
        ("stop", []) => Command::Stop,
        ("quit", []) => Command::Quit,
        (name, _) => return Err(misused(name)),
    };
    Ok(Some(command))
}

/// Returns the name that a command has here, if other agents' terminals call it otherwise.
fn as_named_here(name: &str) -> &str {
    match name {
        "diff" => "review",
        "exit" => "quit",
        name => name,
    }
}

/// Returns a message without the second slash that [`parse`] asks for.
pub(crate) fn message(text: &str) -> &str {
    text.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(text)
}

fn misused(name: &str) -> String {
    if let Some(command) = COMMANDS.iter().find(|command| command.name == name) {
        let usage = format!("/{name} {}", command.arguments);
        return format!("usage: {}", usage.trim_end());
    }
    let names: Vec<String> = COMMANDS.iter().map(|command| format!("/{}", command.name)).collect();
    format!("no such command; the commands are: {}", names.join(" "))
}

fn agent_name(text: &str) -> Result<AgentName, String> {
    AgentName::new(text).map_err(|error| format!("{text} is no name of an agent: {error}"))
}

fn mode_of(text: &str) -> Result<PermissionMode, String> {
    let names = PermissionMode::ALL.map(PermissionMode::as_str);
    PermissionMode::ALL
        .into_iter()
        .find(|mode| mode.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("no such mode; the modes are: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_slash_is_a_command_and_any_other_text_a_message() {
        assert_eq!(parse("/tasks"), Ok(Some(Command::Tasks)));
        assert_eq!(parse("look at a/b"), Ok(None));
        assert_eq!(
            (parse("//etc is a folder"), message("//etc is a folder")),
            (Ok(None), "/etc is a folder")
        );
        let bob = AgentName::new("bob").unwrap();
        let mode = PermissionMode::AcceptEdits;
        assert_eq!(parse("/mode acceptedits bob"), Ok(Some(Command::Mode { member: bob, mode })));
        assert_eq!(parse("/lead"), Ok(Some(Command::Peek(AgentName::lead()))));
        assert_eq!(parse("/exit"), Ok(Some(Command::Quit)));
    }

    #[test]
    fn a_wrong_command_names_the_right_ones() {
        assert_eq!(parse("/mode").unwrap_err(), "usage: /mode MODE [NAME]");
        assert_eq!(parse("/model").unwrap_err(), "usage: /model MODEL [NAME]");
        assert!(parse("/taks").unwrap_err().contains("/tasks"));
        assert!(parse("/mode fast").unwrap_err().ends_with("dontAsk, bypassPermissions"));
    }

    #[test]
    fn each_described_command_is_understood() {
        for command in COMMANDS {
            let arguments = command.arguments.replace("[NAME]", "bob").replace("NAME", "bob");
            let arguments = arguments.replace("MODEL", "openai/x").replace("MODE", "plan");
            let line = format!("/{} {arguments}", command.name);
            assert!(matches!(parse(&line), Ok(Some(_))), "{line}");
        }
    }
}
