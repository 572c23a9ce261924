//! The commands that the user types into the composer, such as `/team`. `arguments` reads the
//! arguments of those that take a text.

mod arguments;

use pitcrew_protocol::{AgentName, PermissionMode};

pub(crate) use arguments::{ExportScope, PlanCommand};
use arguments::{agent_name, mode_of};

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
    /// Shows the permission rules in force.
    Permissions,
    /// Shows plans that wait for an answer, or answers one.
    Plan(PlanCommand),
    /// Writes a conversation or the whole run into a file.
    Export {
        /// What is written.
        scope: ExportScope,
        /// The file. `None` means a new file in the working folder.
        file: Option<String>,
    },
    /// Lists teams to go on with.
    Resume,
    /// Adds a teammate.
    Spawn {
        /// The name of the teammate.
        name: AgentName,
        /// The agent definition that the teammate runs.
        agent_type: Option<String>,
        /// The instructions for the teammate.
        prompt: String,
    },
    /// Shows the pane of a member.
    ShowPane(AgentName),
    /// Hides the pane of a member.
    HidePane(AgentName),
    /// Leaves for a new team.
    New,
    /// Asks one teammate to leave.
    StopMember(AgentName),
    /// Ends the team.
    Stop,
    /// Leaves the terminal interface.
    Quit,
}

impl Command {
    /// Whether the command acts on a team.
    pub(crate) fn needs_team(&self) -> bool {
        match self {
            Self::Help
            | Self::Team
            | Self::Tasks
            | Self::Timeline
            | Self::Review
            | Self::Peek(_)
            | Self::Cost
            | Self::New
            | Self::Resume
            | Self::Stop
            | Self::Quit => false,
            Self::Mode { .. }
            | Self::Model { .. }
            | Self::Compact(_)
            | Self::Permissions
            | Self::Plan(_)
            | Self::Export { .. }
            | Self::Spawn { .. }
            | Self::ShowPane(_)
            | Self::HidePane(_)
            | Self::Interrupt
            | Self::StopMember(_) => true,
        }
    }
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
    described("permissions", "", "the rules in force, what you granted, and what was refused"),
    described("plan", "[approve|reject NAME]", "show the plans that wait; answer one"),
    described("cost", "", "tokens and cost of the team"),
    described("export", "[run] [FILE]", "write the conversation or the whole run as markdown"),
    described("spawn", "NAME [--type TYPE] PROMPT", "add a teammate"),
    described("pane", "NAME", "show the pane of a member, and say where it is"),
    described("hide", "NAME", "hide the pane of a member; the member goes on"),
    described("interrupt", "", "interrupt the shown agent's turn, as Esc does"),
    described("new", "", "begin another team; this one goes on too"),
    described("resume", "", "choose another team to go on with; this one goes on too"),
    described("stop", "[NAME]", "end the team (twice: at once), or ask NAME to leave"),
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
    let (name, rest) = arguments::first_word(line);
    let name = as_named_here(name);
    match of_text(name, rest)? {
        Some(command) => Ok(Some(command)),
        None => of_words(name, &rest.split_whitespace().collect::<Vec<_>>()).map(Some),
    }
}

/// Reads a command that takes a text. `None` means that it is another command.
fn of_text(name: &str, rest: &str) -> Result<Option<Command>, String> {
    let command = match name {
        "plan" => arguments::plan(rest)?.map(Command::Plan),
        "spawn" => arguments::spawn(rest)?.map(|(name, agent_type, prompt)| Command::Spawn {
            name,
            agent_type,
            prompt,
        }),
        "export" => {
            let (scope, file) = arguments::export(rest);
            Some(Command::Export { scope, file })
        }
        _ => return Ok(None),
    };
    command.map(Some).ok_or_else(|| misused(name))
}

/// Reads a command whose arguments are words.
fn of_words(name: &str, arguments: &[&str]) -> Result<Command, String> {
    let lead = AgentName::lead;
    Ok(match (name, arguments) {
        ("help", []) => Command::Help,
        ("team", []) => Command::Team,
        ("tasks", []) => Command::Tasks,
        ("timeline", []) => Command::Timeline,
        ("review", []) => Command::Review,
        ("peek", [agent]) => Command::Peek(agent_name(agent)?),
        ("lead", []) => Command::Peek(lead()),
        ("mode", [mode]) => Command::Mode { member: lead(), mode: mode_of(mode)? },
        ("mode", [mode, member]) => {
            Command::Mode { member: agent_name(member)?, mode: mode_of(mode)? }
        }
        ("model", [model]) => Command::Model { member: lead(), model: (*model).into() },
        ("model", [model, member]) => {
            Command::Model { member: agent_name(member)?, model: (*model).into() }
        }
        ("compact", []) => Command::Compact(lead()),
        ("compact", [member]) => Command::Compact(agent_name(member)?),
        ("permissions", []) => Command::Permissions,
        ("cost", []) => Command::Cost,
        ("pane", [member]) => Command::ShowPane(agent_name(member)?),
        ("hide", [member]) => Command::HidePane(agent_name(member)?),
        ("interrupt", []) => Command::Interrupt,
        ("new", []) => Command::New,
        ("resume", []) => Command::Resume,
        ("stop", []) => Command::Stop,
        ("stop", [member]) => Command::StopMember(agent_name(member)?),
        ("quit", []) => Command::Quit,
        (name, _) => return Err(misused(name)),
    })
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
    fn a_command_that_takes_a_text_keeps_it_as_it_was_typed() {
        let bob = || AgentName::new("bob").unwrap();
        let rejects = Command::Plan(PlanCommand::Reject {
            member: bob(),
            remarks: Some("leave  the API\nas it is".to_owned()),
        });
        assert_eq!(parse("/plan reject bob leave  the API\nas it is"), Ok(Some(rejects)));
        let spawn = |agent_type: Option<&str>, prompt: &str| Command::Spawn {
            name: bob(),
            agent_type: agent_type.map(str::to_owned),
            prompt: prompt.to_owned(),
        };
        let of_type = spawn(Some("Explore"), "look at\n  it");
        assert_eq!(parse("/spawn bob --type Explore look at\n  it"), Ok(Some(of_type)));
        assert_eq!(parse("/spawn bob Explore it"), Ok(Some(spawn(None, "Explore it"))));
        let export = |scope, file: Option<&str>| {
            Ok(Some(Command::Export { scope, file: file.map(str::to_owned) }))
        };
        assert_eq!(parse("/export"), export(ExportScope::Conversation, None));
        assert_eq!(parse("/export run"), export(ExportScope::Run, None));
        let (scope, file) = (ExportScope::Conversation, Some("my run.md"));
        assert_eq!(parse("/export my run.md"), export(scope, file));
    }

    #[test]
    fn a_wrong_command_names_the_right_ones() {
        assert_eq!(parse("/mode").unwrap_err(), "usage: /mode MODE [NAME]");
        assert_eq!(parse("/model").unwrap_err(), "usage: /model MODEL [NAME]");
        assert_eq!(parse("/spawn bob").unwrap_err(), "usage: /spawn NAME [--type TYPE] PROMPT");
        let usage = "usage: /plan [approve|reject NAME]";
        assert_eq!(parse("/plan approve bob now").unwrap_err(), usage);
        assert_eq!(parse("/plan bob").unwrap_err(), usage);
        assert!(parse("/taks").unwrap_err().contains("/tasks"));
        assert!(parse("/mode fast").unwrap_err().ends_with("dontAsk, bypassPermissions"));
    }

    #[test]
    fn each_described_command_is_understood() {
        for command in COMMANDS {
            let arguments = command.arguments.replace("[approve|reject NAME]", "reject bob no");
            let arguments = arguments.replace("[--type TYPE] ", "").replace("[run] [FILE]", "run");
            let arguments = arguments.replace("[NAME]", "bob").replace("NAME", "bob");
            let arguments = arguments.replace("MODEL", "openai/x").replace("MODE", "plan");
            let line = format!("/{} {arguments}", command.name);
            assert!(matches!(parse(&line), Ok(Some(_))), "{line}");
        }
    }
}
