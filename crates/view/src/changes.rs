//! The changes of each member of a team, for a person who reviews them. The changes of a member with
//! a worktree are those of its branch. The changes of another member are the files that it wrote.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pitcrew_protocol::{
    AgentName, ApiError, Color, LEAD_NAME, Member, SendMessageInput, TeamConfig, chain,
};
use pitcrew_team::{Actor, Team, TeamRecords};

use crate::conversation::Conversation;
use crate::fold::color_of;
use crate::text::printable;

pub use pitcrew_process::worktree::{
    BranchState, FileText, Merged, Versions, WorktreeError, Worktrees,
};

/// Maximum number of characters of the line that a comment quotes.
const QUOTED_CHARS: usize = 200;

/// The changes of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChanges {
    /// The member that made the changes.
    pub author: AgentName,
    /// The color of the member. A lead has no color.
    pub color: Option<Color>,
    /// The folder in which the lead works. Its repository has the branch of the member.
    pub repository: Option<PathBuf>,
    /// The folder of the files: the member's worktree, or the folder in which it works.
    pub folder: PathBuf,
    /// The state of the branch, for a member with a worktree.
    pub branch: Option<BranchState>,
    /// The changed files, as paths below the folder. A file elsewhere has its whole path.
    pub files: Vec<String>,
    /// Why the changes are not known, if they could not be read.
    pub failure: Option<String>,
}

/// Reads the changes of all members and former members of a team, also of those that have changed
/// nothing. A run keeps the worktree of a member that left with changes.
///
/// # Errors
/// `team_not_found`, or `internal_error` for files of the team that cannot be read.
pub async fn of_team(
    records: &TeamRecords,
    worktrees: &Worktrees,
) -> Result<Vec<MemberChanges>, ApiError> {
    let (config, with_former) = (records.config().await?, records.config_with_former().await?);
    let mut all = Vec::new();
    for member in with_former.members {
        let is_former = config.member(member.name.as_str()).is_none();
        let mut changes =
            MemberChanges::of(member, repository(&config), records, worktrees).await?;
        if is_former && changes.branch.is_none() && changes.failure.take().is_some() {
            // Its worktree had no changes, and is removed.
            changes.files.clear();
        }
        all.push(changes);
    }
    Ok(all)
}

/// Reads the changes of one member or former member of a team. Returns `None` if there is none of
/// this name.
///
/// # Errors
/// The errors of [`of_team`].
pub async fn of_member(
    records: &TeamRecords,
    name: &AgentName,
    worktrees: &Worktrees,
) -> Result<Option<MemberChanges>, ApiError> {
    let config = records.config_with_former().await?;
    let repository = repository(&config);
    let Some(member) = config.members.into_iter().find(|member| member.name == *name) else {
        return Ok(None);
    };
    MemberChanges::of(member, repository, records, worktrees).await.map(Some)
}

/// Whether a worktree was made after the team was archived. A later run with the team's name has it.
fn is_of_later_run(records: &TeamRecords, worktree: &Path) -> bool {
    let TeamRecords::Archived(_, archived) = records else { return false };
    let made = std::fs::metadata(worktree).and_then(|meta| meta.created()).ok();
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made_ms = made.and_then(|made| i64::try_from(made.as_millis()).ok());
    made_ms.zip(archived.archived_at_ms).is_some_and(|(made, archived)| made > archived)
}

/// Returns the folder in which the lead works.
fn repository(config: &TeamConfig) -> Option<PathBuf> {
    config.member(LEAD_NAME).and_then(|lead| lead.cwd.as_ref()).map(PathBuf::from)
}

/// Returns both versions of a file that a member changed.
///
/// # Errors
/// If git fails, or if the file cannot be read.
pub async fn versions(
    changes: &MemberChanges,
    file: &str,
    worktrees: &Worktrees,
) -> Result<Versions, WorktreeError> {
    match changes.branch {
        Some(_) => changes.manager(worktrees).versions(&changes.folder, file).await,
        None => {
            let there = worktrees.in_repository_of(changes.folder.clone());
            there.versions_in_checkout(file).await
        }
    }
}

/// Merges the changes of a member with a worktree, as they were shown, and tells the member.
///
/// # Errors
/// If git fails.
pub async fn accept(
    team: &Team,
    changes: &MemberChanges,
    worktrees: &Worktrees,
) -> Result<Merged, WorktreeError> {
    match &changes.branch {
        Some(branch) => {
            let merging = changes.manager(worktrees).merge(&changes.folder, &branch.tip).await;
            if let Ok(Merged::Done { base }) = &merging {
                tell_merged(team, &changes.author, base).await;
            }
            merging
        }
        None => {
            let author = &changes.author;
            let why = format!("{author} has no worktree, so its files are in the folder already");
            Ok(Merged::Refused { why })
        }
    }
}

/// Tells a member that its branch is merged. It may wait for a review, and its work goes on from there.
async fn tell_merged(team: &Team, member: &AgentName, base: &str) {
    let (recipient, content) =
        (member.to_string(), format!("I have merged your branch into {base}."));
    let summary = Some("your branch is merged".to_owned());
    let message = SendMessageInput::Message { recipient, content, summary };
    if let Err(error) = team.send(&Actor::User, message, None).await {
        // The merge counts. A member that has left needs to know nothing.
        tracing::info!(error = chain(&error), %member, "the member is not told of the merge");
    }
}

/// Returns the message for a comment on a line of a changed file. `line` is the number of the line,
/// and `quoted` its text.
#[must_use]
pub fn comment(file: &str, line: Option<usize>, quoted: &str, text: &str) -> String {
    let place = line.map(|line| format!(", line {line}")).unwrap_or_default();
    let quoted: String = printable(quoted.trim_end()).chars().take(QUOTED_CHARS).collect();
    let quoted = if quoted.is_empty() { String::new() } else { format!("\n> {quoted}") };
    format!("Review of {file}{place}:{quoted}\n\n{text}")
}

impl MemberChanges {
    /// Whether there is something to review.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let has_commits = self.branch.as_ref().is_some_and(|branch| branch.ahead > 0);
        has_commits || !self.files.is_empty() || self.failure.is_some()
    }

    /// Reads the changes of a member.
    async fn of(
        member: Member,
        repository: Option<PathBuf>,
        records: &TeamRecords,
        worktrees: &Worktrees,
    ) -> Result<Self, ApiError> {
        let mut changes = Self {
            author: member.name,
            color: member.color.as_deref().and_then(color_of),
            repository,
            folder: PathBuf::new(),
            branch: None,
            files: Vec::new(),
            failure: None,
        };
        match member.worktree_path {
            Some(path) if is_of_later_run(records, Path::new(&path)) => {
                changes.folder = path.into()
            }
            Some(path) => changes.in_worktree(PathBuf::from(path), worktrees).await,
            None => {
                changes.in_folder(PathBuf::from(member.cwd.unwrap_or_default()), records).await?;
            }
        }
        Ok(changes)
    }

    /// Returns the manager of the worktrees of the lead's repository.
    fn manager(&self, worktrees: &Worktrees) -> Worktrees {
        match &self.repository {
            Some(folder) => worktrees.in_repository_of(folder.clone()),
            None => worktrees.clone(),
        }
    }

    async fn in_worktree(&mut self, folder: PathBuf, worktrees: &Worktrees) {
        match self.manager(worktrees).branch_state(&folder).await {
            Ok(branch) => {
                self.files = branch.files.iter().cloned().collect();
                self.branch = Some(branch);
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
        self.folder = folder;
    }

    async fn in_folder(&mut self, folder: PathBuf, records: &TeamRecords) -> Result<(), ApiError> {
        let lines = records.transcript(&self.author).await?;
        match Conversation::of_transcript(&lines) {
            Ok(conversation) => {
                let files = conversation.files_changed().into_keys();
                self.files = files.map(|file| below(&file, &folder)).collect();
            }
            Err(newer) => self.failure = Some(newer.to_string()),
        }
        self.folder = folder;
        Ok(())
    }
}

fn below(file: &str, folder: &Path) -> String {
    let path = Path::new(file);
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}
