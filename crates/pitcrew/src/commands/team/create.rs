//! `pitcrew team create`: creates a team.

use clap_complete::engine::ArgValueCompleter;
use pitcrew_protocol::TeamCreateInput;
use pitcrew_team::{CreateTeam, MadeBy, OnTaken};

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::run_options;

/// The model that the config names for a lead that was never started.
const INHERITED: &str = "inherit";

/// Create a team with a lead and an empty task list
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pitcrew team create backend --description \"fix the build\"")]
pub(crate) struct Create {
    /// The team's name; with lower case letters, digits and dashes the folder has the same name
    name: String,
    /// The purpose of the team
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// The agent type of the team's lead
    #[arg(long, value_name = "TYPE")]
    agent_type: Option<String>,
    /// The model of the team's lead, recorded in the config for its readers
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
}

impl Create {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        run_options::teams_must_be_on(context)?;
        let input = TeamCreateInput {
            team_name: self.name,
            description: self.description,
            agent_type: self.agent_type,
        };
        let wanted = CreateTeam {
            input,
            cwd: context.cwd.display().to_string(),
            model: self.model.unwrap_or_else(|| INHERITED.to_owned()),
            session_id: uuid::Uuid::new_v4().to_string(),
            on_taken: OnTaken::Refuse,
            made_by: MadeBy::Caller,
            first_run: None,
        };
        let (_, created) = context.teams()?.create(wanted).await?;
        context.output.answer(&created, |made| {
            format!("made team {} in {}", made.team_name, made.team_file_path)
        })
    }
}
