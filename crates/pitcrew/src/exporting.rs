//! Makes documents of runs and conversations, and writes them into files. The command `export` and
//! `/export` of the terminal interface use it.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_permission::gate::expand_home;
use pitcrew_process::protected::is_guarded;
use pitcrew_protocol::{AgentName, TeamConfig};
use pitcrew_team::TeamRecords;
use pitcrew_tui::ExportOf;
use pitcrew_view::agent_now::AgentNow;
use pitcrew_view::markdown_export::{
    self, AgentConversation, AgentRow, Detail, Exported, RunRecord, masked_in_words,
};
use pitcrew_view::masking::{Masked, Masker};
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::missing_records::missing;
use pitcrew_view::running::Running;

use crate::archive::day_and_time;
use crate::commands::{log, transcript};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::visible;
use crate::past_runs::PastRun;
use crate::when::time_of_day;

mod file;
mod replay_file;

pub(crate) use file::Existing;
use file::{Placed, place};
pub(crate) use replay_file::{ReplayFile, replay_file};

/// The maximum number of free names that are tried for a file without a given name.
const NAMES_MOST: u32 = 1_000;

/// Makes a document from the records of a team.
///
/// # Errors
/// Returns an error if the records cannot be read, or if no conversation of the agent is recorded.
pub(crate) async fn document(
    context: &Context,
    records: &TeamRecords,
    of: &ExportOf,
    detail: Detail,
) -> Result<Exported, Failure> {
    let config = records.config().await?;
    let masker = masker(records).await?;
    match of {
        ExportOf::Conversation(agent) => {
            let Some(recorded) = recorded(context, records, &config, agent).await? else {
                return Err(transcript::none_recorded(agent, config.name.as_str()));
            };
            Ok(markdown_export::conversation(config.name.as_str(), &recorded, detail, masker))
        }
        ExportOf::Run => {
            let record = run_record(context, records, &config).await?;
            Ok(markdown_export::run(&record, detail, masker))
        }
    }
}

/// Returns a masker that knows the forms of secrets, and the secret values in the environment of the
/// team's runs. [`Masker::value`] masks all texts of a JSON value.
///
/// # Errors
/// Returns an error if the record of the values cannot be read. Then nothing is exported.
pub(crate) async fn masker(records: &TeamRecords) -> Result<Masker, Failure> {
    Ok(Masker::knowing(records.secret_digests().await?))
}

async fn recorded(
    context: &Context,
    records: &TeamRecords,
    config: &TeamConfig,
    agent: &AgentName,
) -> Result<Option<AgentConversation>, Failure> {
    let recorded = transcript::conversation(context, records, config, agent).await?;
    Ok(recorded.map(|(_, conversation)| AgentConversation { agent: agent.clone(), conversation }))
}

async fn run_record(
    context: &Context,
    records: &TeamRecords,
    config: &TeamConfig,
) -> Result<RunRecord, Failure> {
    let (mut conversations, mut unread) = (Vec::new(), Vec::new());
    for agent in records.all_members().await? {
        match recorded(context, records, config, &agent).await {
            Ok(recorded) => conversations.extend(recorded),
            // The rest of the run is worth a document.
            Err(error) => {
                let reason = error.chain();
                unread.push(format!("the conversation of {agent} cannot be read: {reason}"));
            }
        }
    }
    let processes = match records {
        TeamRecords::Live(team) => {
            let running = Running::of(team, config).await?;
            MemberStatus::of(team, config, &running).await?
        }
        TeamRecords::Archived(..) => Vec::new(),
    };
    let agents = AgentNow::of_team(records, &processes, &context.root).await?;
    let past = PastRun::of(String::new(), records).await?;
    let (log, of_log) = log::entries(records.clone()).await?;
    unread.extend(of_log);
    unread.extend(missing(records, config).await);
    let with_former = records.config_with_former().await?;
    let time = |at_ms: i64| time_of_day(at_ms).unwrap_or_default();
    Ok(RunRecord {
        team: config.name.to_string(),
        facts: past.as_ref().map(facts).unwrap_or_default(),
        agents: agents.into_iter().map(|agent| row(agent, &with_former)).collect(),
        tasks: records.tasks().await?,
        log: log
            .into_iter()
            .filter(|entry| !entry.kind.is_detail())
            .map(|entry| (time(entry.at_ms), entry))
            .collect(),
        conversations,
        unread,
    })
}

fn facts(run: &PastRun) -> Vec<(&'static str, String)> {
    let end = run.end.as_deref().map(|end| end.replace('_', " "));
    let end = end.map(|end| match &run.reason {
        Some(reason) => format!("{end}: {reason}"),
        None => end,
    });
    let place = run.repository.as_ref().map(|place| place.display().to_string());
    [
        ("goal", run.goal.clone()),
        ("repository", place),
        ("began", day_and_time(run.began_at_ms)),
        ("last event", day_and_time(run.latest_at_ms)),
        ("end", end),
        ("tasks completed", Some(format!("{} of {}", run.tasks_completed, run.tasks))),
        ("tokens", Some(run.spending.tokens_in_words())),
        ("cost", Some(run.spending.cost_in_words())),
    ]
    .into_iter()
    .filter_map(|(name, fact)| Some((name, fact?)))
    .collect()
}

fn row(agent: AgentNow, config: &TeamConfig) -> AgentRow {
    let model = config.member(agent.name.as_str()).and_then(|member| member.model.clone());
    AgentRow { model, state: agent.line(), spending: agent.spending, agent: agent.name }
}

/// Returns the name of a file for a document without a given name.
pub(crate) fn stem(team: &str, of: &ExportOf) -> String {
    // A name of a team holds only letters, digits, `-` and `_`, but a config can say anything.
    let plain = |text: &str| -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        text.chars().filter(is_plain).take(60).collect()
    };
    match of {
        ExportOf::Conversation(agent) => {
            format!("pitcrew-{}-{}", plain(team), plain(agent.as_str()))
        }
        ExportOf::Run => format!("pitcrew-{}", plain(team)),
    }
}

/// Writes a document into a file, and returns its path.
///
/// # Errors
/// Returns an error if the file would be a guarded one, if it exists and is kept, or if it cannot be
/// written.
pub(crate) fn write(
    context: &Context,
    name: &str,
    text: &str,
    existing: Existing,
) -> Result<PathBuf, Failure> {
    let path = context.cwd.join(expand_home(name, context.home.as_deref()));
    let path = writable_target(context, &path)?;
    match place(&path, text, existing)? {
        Placed::Yes => Ok(path),
        Placed::Exists => {
            let said = format!("{} exists, and is not overwritten", shown(&path));
            let failure = Failure::new(FailureKind::Conflict, said).hint("name another file");
            Err(match existing {
                Existing::Kept(Some(replacing)) => failure.hint(replacing),
                Existing::Kept(None) | Existing::Replaced => failure,
            })
        }
    }
}

/// Writes a document into a new file in the working folder, and returns its path. The name of the
/// file begins with `stem`.
///
/// # Errors
/// As for [`write()`]. An existing file is never changed.
pub(crate) fn write_new(context: &Context, stem: &str, text: &str) -> Result<PathBuf, Failure> {
    let first = std::iter::once(format!("{stem}.md"));
    let more = (2..NAMES_MOST).map(|number| format!("{stem}-{number}.md"));
    for name in first.chain(more) {
        let path = writable_target(context, &context.cwd.join(name))?;
        if place(&path, text, Existing::Kept(None))? == Placed::Yes {
            return Ok(path);
        }
    }
    let said = format!("{} has too many documents", shown(&context.cwd));
    Err(Failure::new(FailureKind::Conflict, said).hint("name the file"))
}

/// Describes a document that was written.
pub(crate) fn in_words(path: &Path, masked: &[Masked]) -> String {
    let masked = masked_in_words(masked).map_or_else(
        || "nothing in it looked like a secret".to_owned(),
        |it| format!("masked: {it}"),
    );
    format!("written to {}; {masked}; read it before you publish it", shown(path))
}

fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

/// Returns the path of a new document, with the real path of its folder.
///
/// # Errors
/// Returns an error if the folder does not exist, or if the document would be a guarded file: one
/// below the root, one with a guarded name, or one in a guarded folder.
pub(crate) fn writable_target(context: &Context, path: &Path) -> Result<PathBuf, Failure> {
    let wrong = |said: String| Err(Failure::usage(said));
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return wrong(format!("{} is no name of a file", shown(path)));
    };
    let folder = fs::canonicalize(folder).map_err(|error| {
        Failure::usage(format!("the folder {} cannot be used: {error}", shown(folder)))
    })?;
    // The real path counts: an agent may have replaced a folder by a link.
    let root = fs::canonicalize(&context.root).unwrap_or_else(|_| context.root.clone());
    if folder.starts_with(&root) || is_guarded(&folder) {
        return wrong(format!(
            "no document is written to {}: files there can grant rights or run by themselves",
            shown(&folder)
        ));
    }
    if is_guarded(&folder.join(name)) {
        let said = format!(
            "no document is written to {}: agents obey files of this name, or programs run them",
            shown(&folder.join(name))
        );
        return Err(Failure::usage(said).hint("name another file, such as run.md"));
    }
    Ok(folder.join(name))
}
