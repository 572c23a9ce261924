//! `pitcrew member spawn`.

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

/// How many characters of the prompt stand for a description that is not given.
const DESCRIPTION_CHARS: usize = 60;

/// Add a teammate to a team that runs, as its lead would
///
/// The process that leads the team starts it, with the rights that the lead may give, and the lead is told. The answer comes when
/// the teammate has been started. A name that is taken gets -2, -3 and so on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew member spawn reviewer \"Review the diff of main\" --type Explore
  pitcrew member spawn ci-fix - --mode acceptEdits --model sonnet <goal.md
  pitcrew member spawn bob \"Mend the parser\" --worktree --json")]
pub(crate) struct Spawn {
    /// What it is called
    name: String,
    /// What it is to do; - reads it from stdin
    prompt: String,
    /// The agent definition it runs
    #[arg(
        long = "type",
        alias = "agent-type",
        value_name = "TYPE",
        default_value = "general-purpose"
    )]
    agent_type: String,
    /// The errand in a few words [default: the beginning of the prompt]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Its model [default: as its definition or the run says]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// Its permission mode; plan asks for a plan first [default: as its definition or the run says]
    #[arg(long, alias = "permission-mode", value_name = "MODE", add = ArgValueCompleter::new(completing::modes))]
    mode: Option<String>,
    /// Model calls after which it ends
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// Give it a git worktree of its own
    #[arg(long)]
    worktree: bool,
    /// Where it is to run: in-process, or the kind of panes that the run has
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// What is to run it
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

    /// The input of the lead's own tool for it.
    fn input(self) -> Result<Value, Failure> {
        let prompt = send::content(self.prompt)?;
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

/// Why nobody can be spawned: no process of ours leads the team.
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
            failure.hint(format!("`pitcrew join {word} --as NAME` puts an agent of ours on it"))
        }
        Running::ByPitcrew { .. } => failure.hint("the process that runs it does not lead it"),
    })
}
