//! `pitcrew member spawn`: adds a teammate to a running team.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::control_socket::ControlRequest;
use pitcrew_team::Team;
use pitcrew_view::lead;
use pitcrew_view::running::Running;
use serde_json::{Map, Value};

use crate::commands::send;
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::TeammateProgram;
use crate::output::{printable, shell_word};
use crate::selection::TeamChoice;

/// If the user gives no description, this many characters of the prompt become the description.
const DESCRIPTION_CHARS: usize = 60;

/// Add a teammate to a team that runs, as its lead would
///
/// The process that leads the team starts the teammate with the permissions that the lead may
/// grant, and the lead learns of it. The answer comes after the teammate was started. If the name
/// is taken, the teammate's name gets -2, -3 and so on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew member spawn reviewer \"Review the diff of main\" --type Explore
  pitcrew member spawn ci-fix - --mode acceptEdits --model sonnet <goal.md
  pitcrew member spawn bob \"Mend the parser\" --worktree --json")]
pub(crate) struct Spawn {
    /// The name of the teammate
    name: String,
    /// The instructions for the teammate; - reads them from stdin
    prompt: String,
    /// The agent definition that the teammate runs
    #[arg(
        long = "type",
        alias = "agent-type",
        value_name = "TYPE",
        default_value = "general-purpose"
    )]
    agent_type: String,
    /// The teammate's job in a few words [default: the start of the prompt]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The teammate's model [default: the one from its definition or from the run]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// The teammate's permission mode; plan makes it submit a plan first [default: the one from its
    /// definition or from the run]
    #[arg(long, alias = "permission-mode", value_name = "MODE", add = ArgValueCompleter::new(completing::modes))]
    mode: Option<String>,
    /// The number of model calls after which the teammate ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Give the teammate a git worktree of its own
    #[arg(long)]
    worktree: bool,
    /// Where the teammate runs: in-process, or the kind of panes that the run uses
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// The program that runs the teammate
    #[arg(long, value_name = "PROGRAM")]
    program: Option<TeammateProgram>,
    #[command(flatten)]
    team: TeamChoice,
}

impl Spawn {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let team = self.team.open(context).await?;
        let request = ControlRequest::Spawn { input: self.input()? };
        let Some(answer) = lead::ask(&team, &request).await? else {
            return Err(nobody_to_ask(&team).await?);
        };
        context.output.answer(&answer, |answer| {
            let of = |key: &str| {
                printable(answer.get(key).and_then(Value::as_str).unwrap_or("?")).into_owned()
            };
            format!("{} ({}) is started in team {}", of("name"), of("agentType"), of("team_name"))
        })
    }

    /// Builds the JSON input for the lead's spawn tool. The fields are the same as in a call of
    /// that tool by a model.
    fn input(self) -> Result<Value, Failure> {
        let prompt = send::content(self.prompt)?;
        if prompt.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty")
                .hint("say what the teammate is to do; - reads it from stdin"));
        }
        let description =
            self.description.unwrap_or_else(|| prompt.chars().take(DESCRIPTION_CHARS).collect());
        let mut input = Map::new();
        let mut give = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                input.insert(key.to_owned(), value);
            }
        };
        give("name", Some(self.name.into()));
        give("prompt", Some(prompt.into()));
        give("description", Some(description.into()));
        give("subagent_type", Some(self.agent_type.into()));
        give("model", self.model.map(Value::from));
        give("mode", self.mode.map(Value::from));
        give("max_turns", self.max_turns.map(Value::from));
        give("isolation", self.worktree.then(|| "worktree".into()));
        give("backend", self.backend.map(Value::from));
        give("program", self.program.map(|program| program.as_str().into()));
        Ok(input.into())
    }
}

/// Builds the error for a team that no pitcrew process leads. No teammate can be spawned in such a
/// team.
async fn nobody_to_ask(team: &Team) -> Result<Failure, Failure> {
    let config = team.config().await?;
    let running = Running::of(team, &config).await?;
    let word = shell_word(team.name().as_str()).into_owned();
    let said = format!(
        "team '{}' is {}; only the pitcrew process that leads a team adds teammates",
        team.name(),
        running.text()
    );
    let failure = Failure::from(
        ApiError::new(ErrorCode::InvalidStatus, said).with("team_name", team.name().as_str()),
    );
    Ok(match running {
        Running::No | Running::Stale { .. } => {
            failure.hint(format!("`pitcrew run --resume {word}` starts its lead again"))
        }
        Running::BySession { .. } | Running::Elsewhere { .. } | Running::Unknown => {
            failure.hint(format!("`pitcrew join {word} --as NAME` adds an agent of pitcrew to it"))
        }
        Running::ByPitcrew { .. } => failure.hint("the process that runs it does not lead it"),
    })
}
