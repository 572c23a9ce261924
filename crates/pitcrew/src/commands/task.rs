//! `pitcrew task`: creates, lists, shows, changes and claims tasks.

mod claim;
mod create;
mod get;
pub(crate) mod list;
mod update;

use pitcrew_protocol::TaskId;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;

/// Make, list, show, change and claim tasks
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
    Update(update::Update),
    Claim(claim::Claim),
}

impl Task {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(command) => context.briefly(command.run(context)),
            Self::List(command) => context.briefly(command.run(context)),
            Self::Get(command) => context.briefly(command.run(context)),
            Self::Update(command) => context.briefly(command.run(context)),
            Self::Claim(command) => context.briefly(command.run(context)),
        }
    }
}

/// Parses `KEY=VALUE`. If VALUE is not valid JSON, it is taken as plain text.
fn metadata_entry(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            let value =
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            Ok((key.to_owned(), value))
        }
        Some(_) | None => Err("write KEY=VALUE".to_owned()),
    }
}

/// Formats task ids for people, such as `#1 #2`.
fn ids(ids: &[TaskId]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(" ")
}
