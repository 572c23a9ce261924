//! The command line: the options that every command has, the list of commands, and the function
//! that runs one of them.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::commands::{
    agent, attach, broadcast, completions, demo, devices, doctor, export, history, inbox, join,
    log, man, member, message, models, pane, pane_exec, pane_probe, plan, prune, resume, run,
    run_host, sandbox_exec, send, serve, shutdown, start, task, team, transcript, trust, view,
};
use crate::completing;
use crate::context::{Context, Surroundings};
use crate::failure::{Failure, exit_code_table};
use crate::limits;
use crate::output::{Form, Output, shell_word};

/// Run teams of coding agents.
///
/// A lead splits a goal into tasks, spawns teammates, and they work in parallel, write to each
/// other, have plans approved and shut down cleanly. The team lives in plain files below the root,
/// which Claude Code reads and writes too.
#[derive(Debug, Parser)]
#[command(name = "pitcrew", version, arg_required_else_help = true, after_help = after_help(), after_long_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Shared {
    /// The folder teams live below [default: $CLAUDE_CONFIG_DIR, else ~/.claude]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Answer with one JSON document on stdout, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour: auto, always or never; NO_COLOR counts too
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
}

/// When the output has color.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// Use color only on a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(Box<start::Start>),
    Run(Box<run::Run>),
    Attach(attach::Attach),
    Resume(resume::Resume),
    Join(Box<join::Join>),
    Agent(Box<agent::Agent>),
    Demo(demo::Demo),
    #[command(subcommand)]
    Team(team::Team),
    #[command(subcommand)]
    Task(task::Task),
    #[command(subcommand)]
    Member(member::Member),
    #[command(subcommand)]
    Plan(plan::Plan),
    Send(send::Send),
    Broadcast(broadcast::Broadcast),
    Inbox(inbox::Inbox),
    Message(message::Message),
    Log(log::Log),
    Transcript(transcript::Transcript),
    History(history::History),
    Export(export::Export),
    View(view::View),
    Serve(serve::Serve),
    Devices(devices::Devices),
    Shutdown(shutdown::Shutdown),
    Models(models::Models),
    #[command(subcommand)]
    Trust(trust::Trust),
    Doctor(doctor::Doctor),
    Prune(prune::Prune),
    #[command(subcommand)]
    Pane(pane::Pane),
    PaneExec(pane_exec::PaneExec),
    RunHost(run_host::RunHost),
    SandboxExec(sandbox_exec::SandboxExec),
    PaneProbe(pane_probe::PaneProbe),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Start(command) => command.run(context),
            Self::Run(command) => command.run(context),
            Self::Attach(command) => command.run(context),
            Self::Resume(command) => command.run(context),
            Self::Join(command) => command.run(context),
            Self::Agent(command) => command.run(context),
            Self::Demo(command) => command.run(context),
            Self::Team(command) => command.run(context),
            Self::Task(command) => command.run(context),
            Self::Member(command) => command.run(context),
            Self::Plan(command) => command.run(context),
            Self::Send(command) => command.run(context),
            Self::Broadcast(command) => command.run(context),
            Self::Inbox(command) => command.run(context),
            Self::Message(command) => command.run(context),
            Self::Log(command) => command.run(context),
            Self::Transcript(command) => context.briefly(command.run(context)),
            Self::History(command) => context.briefly(command.run(context)),
            Self::Export(command) => context.briefly(command.run(context)),
            Self::View(command) => command.run(context),
            Self::Serve(command) => command.run(context),
            Self::Devices(command) => command.run(context),
            Self::Shutdown(command) => command.run(context),
            Self::Models(command) => command.run(context),
            Self::Trust(command) => limits::without_runtime(|| command.run(context)),
            Self::Doctor(command) => command.run(context),
            Self::Prune(command) => command.run(context),
            Self::Pane(command) => command.run(context),
            Self::PaneExec(command) => context.briefly(command.run()),
            Self::RunHost(command) => command.run(context),
            Self::SandboxExec(command) => command.run(),
            Self::PaneProbe(command) => command.run(context),
            Self::Completions(command) => limits::without_runtime(|| command.run(context)),
            Self::Man(command) => limits::without_runtime(|| command.run(context)),
        }
    }
}

/// The flags with which the command line of a teammate begins when a lead starts the teammate.
const TEAMMATE_FLAGS: [&str; 3] = ["--agent-id", "--agent-name", "--team-name"];

/// Reads the command line, runs its command, and returns the exit code.
pub(crate) fn start() -> ExitCode {
    let surroundings = Surroundings::read();
    match completing::answered(&surroundings) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(failure) => return failure.exit_code(),
    }
    let is_interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
    let args = with_command(surroundings.args.clone(), is_interactive);
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return not_understood(with_suggestions(error, &args), &args),
    };
    let output = Output::new(asked_form(&surroundings.args), cli.shared.color.into());
    surroundings.listen();
    let ended = limits::without_panic(|| {
        let context = Context::new(surroundings, &cli.shared, output)?;
        cli.command.run(&context).map_err(|failure| failure.at_root(&context))
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Some commands have already printed the failure as part of their answer.
            if !failure.is_told() {
                output.failure(&failure);
            }
            failure.exit_code()
        }
    }
}

/// Inserts the name of the command into a command line without one. With a teammate's flags it is
/// `agent`: another client's lead calls pitcrew with such a command line if the user configured
/// pitcrew as the program for that client's teammates. With a goal, with an
/// option of `start`, or with nothing at a terminal, it is `start`.
fn with_command(mut args: Vec<OsString>, is_interactive: bool) -> Vec<OsString> {
    let mut at = 1;
    let mut is_json = false;
    while let Some(arg) = args.get(at).map(|arg| arg.to_string_lossy()) {
        match arg.as_ref() {
            // This loop skips the global options, because they can come before the command.
            "--root" | "--color" => at += 2,
            "--json" => {
                is_json = true;
                at += 1;
            }
            other if other.starts_with("--root=") || other.starts_with("--color=") => at += 1,
            other => {
                let name = other.split_once('=').map_or(other, |(name, _)| name);
                // Only the first word is compared. After a command, the same flags are options of
                // that command.
                if TEAMMATE_FLAGS.contains(&name) {
                    args.insert(at, "agent".into());
                } else if is_goal(other) || is_option_of_start(name) {
                    args.insert(at, start::NAME.into());
                }
                return args;
            }
        }
    }
    // An option without its value is an error, which must be reported.
    if is_interactive && !is_json && at == args.len() {
        args.push(start::NAME.into());
    }
    args
}

/// Whether the first word of a command line is a goal. A goal has several words. A single word is the
/// name of a command, perhaps a misspelled one.
fn is_goal(word: &str) -> bool {
    !word.starts_with('-') && word.trim().contains(char::is_whitespace)
}

/// Whether an option belongs to the command that opens the terminal interface, and not to every
/// command.
fn is_option_of_start(name: &str) -> bool {
    let all = definition();
    let own = all.find_subcommand(start::NAME).into_iter().flat_map(clap::Command::get_arguments);
    // The rest of a short option can be its value or further short options.
    let short = name.strip_prefix('-').and_then(|letters| letters.chars().next());
    let is_named = |argument: &clap::Arg| {
        argument.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long))
            || argument.get_short().is_some_and(|letter| short == Some(letter))
    };
    own.filter(|argument| !argument.is_global_set()).any(is_named)
}

/// Returns the output format that a command line requests. This works even if the rest of the line
/// cannot be parsed. `stream-json` counts as text, because errors before the run are printed as
/// text. An error that ends a run is in the last event of the stream.
fn asked_form(args: &[OsString]) -> Form {
    const FORMAT: &str = "--output-format";
    let (mut is_json, mut format) = (false, None);
    // Words after `--` are arguments, even if they look like options.
    let mut args = args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        if arg == "--json" {
            is_json = true;
        } else if arg == FORMAT {
            format = args.next().map(|value| value.into_owned());
        } else if let Some(value) = arg.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix('='))
        {
            format = Some(value.to_owned());
        }
    }
    match format.as_deref() {
        Some("json") => Form::Json,
        Some("text" | "stream-json") => Form::Text,
        Some(_) | None if is_json => Form::Json,
        Some(_) | None => Form::Text,
    }
}

/// Removes the hidden commands, which only pitcrew itself calls, from the suggestions in a clap
/// error. Adds the suggestion to start a team with an unknown word as its goal. In place of an unknown
/// subcommand of a command, it names the known ones.
fn with_suggestions(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidSubcommand) {
        let all = definition();
        let is_hidden =
            |name: &str| all.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
        let shown = names.iter().filter(|name| !is_hidden(name)).cloned().collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
    }
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        // The former suggestions of clap stay. This one is for a goal of a single word.
        let hint = known_subcommands(word, args).unwrap_or_else(|| {
            format!("`pitcrew {} {}` starts a team with this goal", start::NAME, shell_word(word))
        });
        let mut hints = match error.remove(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(hints)) => hints,
            Some(_) | None => Vec::new(),
        };
        hints.push(hint.into());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    }
    error
}

/// Returns the names of the subcommands of the command whose subcommand `unknown` would be. Returns
/// `None` if `unknown` is in the place of a command.
fn known_subcommands(unknown: &str, args: &[OsString]) -> Option<String> {
    let all = definition();
    let before = args.iter().take_while(|arg| *arg != unknown);
    let command = before.fold(&all, |command, arg| command.find_subcommand(arg).unwrap_or(command));
    if command.get_name() == all.get_name() {
        return None;
    }
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let names: Vec<_> = shown.map(|it| format!("'{}'", it.get_name())).collect();
    Some(format!("the subcommands of '{}' are {}", command.get_name(), names.join(", ")))
}

/// Handles a clap error. Help and version are printed as answers. Every other clap error is
/// reported as a usage error, in the output format that the command line requests.
fn not_understood(error: clap::Error, args: &[OsString]) -> ExitCode {
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_answer || asked_form(args) == Form::Text {
        return match error.print() {
            // If stdout is a closed pipe, printing help or the version still counts as a success.
            Err(failed) if is_answer && failed.kind() != io::ErrorKind::BrokenPipe => {
                let failure = Failure::internal(failed);
                Output::new(Form::Text, anstream::ColorChoice::Auto).failure(&failure);
                failure.exit_code()
            }
            Ok(()) | Err(_) if is_answer => ExitCode::SUCCESS,
            Ok(()) | Err(_) => Failure::usage("").exit_code(),
        };
    }
    let said = error.render().to_string();
    let failure = Failure::usage(said.trim_start_matches("error: ").trim_end());
    Output::new(Form::Json, anstream::ColorChoice::Never).failure(&failure);
    failure.exit_code()
}

/// The definition of the command line for clap, used for the manual pages.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// The command line without the hidden commands, which only pitcrew itself calls.
pub(crate) fn shown_definition() -> clap::Command {
    let all = definition();
    let shown: Vec<clap::Command> =
        all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let bare = clap::Command::new("pitcrew").version(env!("CARGO_PKG_VERSION"));
    <Shared as clap::Args>::augment_args(bare).subcommand_required(true).subcommands(shown)
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

fn after_help() -> String {
    format!(
        "Examples:
  pitcrew                                        open the terminal interface, which asks for a goal
  pitcrew \"make the tests pass\"                  open it with a goal
  pitcrew demo                                   watch a scripted team mend a small crate
  pitcrew run \"make the tests pass\"              run a team on the repository you stand in
  pitcrew run --detach \"make the tests pass\"     the same without this terminal
  pitcrew attach                                 watch it, answer it and write to it
  pitcrew resume                                 choose a team that runs or was stopped
  pitcrew team show                              the team, its members and its tasks
  pitcrew send bob \"look at parser.rs first\"     write to a teammate while it works
  pitcrew inbox team-lead --follow               read along
  pitcrew run --resume myteam                    go on after a crash

Exit codes:
{}",
        exit_code_table()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_answer_is_known_of_a_command_line_that_is_not_understood() {
        let form =
            |line: &str| asked_form(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for json in [
            "run --json --nope",
            "run --output-format json",
            "run --output-format=json x",
            "--json run",
        ] {
            assert_eq!(form(json), Form::Json, "{json}");
        }
        for text in [
            "run x",
            "run -- --json",
            "run --json --output-format stream-json",
            "run --output-format=text",
        ] {
            assert_eq!(form(text), Form::Text, "{text}");
        }
    }

    #[test]
    fn the_flags_of_a_teammate_without_a_command_are_those_of_an_agent() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (given, meant) in [
            ("mate --agent-id bob@crew", "mate agent --agent-id bob@crew"),
            (
                "pitcrew --agent-name=bob --team-name crew",
                "pitcrew agent --agent-name=bob --team-name crew",
            ),
            (
                "mate --root /r --json --color=never --team-name crew",
                "mate --root /r --json --color=never agent --team-name crew",
            ),
            ("pitcrew agent --agent-id bob@crew", "pitcrew agent --agent-id bob@crew"),
            ("pitcrew --json send --agent-id bob@crew", "pitcrew --json send --agent-id bob@crew"),
            ("pitcrew -- --agent-id bob@crew", "pitcrew -- --agent-id bob@crew"),
            ("pitcrew --root", "pitcrew --root"),
        ] {
            assert_eq!(with_command(words(given), false), words(meant), "{given}");
        }
    }

    #[test]
    fn a_goal_or_nothing_at_a_terminal_opens_the_terminal_interface() {
        let words = |line: &str| line.split(',').map(OsString::from).collect::<Vec<_>>();
        for (given, at_terminal, elsewhere) in [
            ("pitcrew", "pitcrew,start", "pitcrew"),
            ("pitcrew,--root,/r", "pitcrew,--root,/r,start", "pitcrew,--root,/r"),
            ("pitcrew,--root", "pitcrew,--root", "pitcrew,--root"),
            ("pitcrew,--json", "pitcrew,--json", "pitcrew,--json"),
            ("pitcrew,atach", "pitcrew,atach", "pitcrew,atach"),
            ("pitcrew,--help", "pitcrew,--help", "pitcrew,--help"),
            ("pitcrew,-t,x,mend", "pitcrew,start,-t,x,mend", "pitcrew,start,-t,x,mend"),
            ("pitcrew,-tx,mend", "pitcrew,start,-tx,mend", "pitcrew,start,-tx,mend"),
            ("pitcrew,-y,mend it", "pitcrew,start,-y,mend it", "pitcrew,start,-y,mend it"),
            ("pitcrew,-h", "pitcrew,-h", "pitcrew,-h"),
            ("pitcrew,-", "pitcrew,-", "pitcrew,-"),
            ("pitcrew,mend it,--yes", "pitcrew,start,mend it,--yes", "pitcrew,start,mend it,--yes"),
        ] {
            assert_eq!(with_command(words(given), true), words(at_terminal), "{given}");
            assert_eq!(with_command(words(given), false), words(elsewhere), "{given}");
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }
}
