//! The changes of a member, for a person who reviews and accepts them.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pitcrew_protocol::chain;
use pitcrew_team::TeamRecords;
use pitcrew_view::changes::{self, FileText, MemberChanges, Merged, Versions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::app::{App, Shared};
use crate::etag::tagged;
use crate::failure::{Failure, code};

/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// The maximum number of files whose differences are in an answer.
const FILES_MOST: usize = 200;

/// The number of bytes of differences in an answer from which on no further file is added.
const DIFF_BYTES_MOST: usize = 4 << 20;

/// The maximum time to search for the shortest diff of a file. After this time, a longer diff is
/// accepted.
const EFFORT: Duration = Duration::from_millis(100);

/// A changed file.
#[derive(Debug, Serialize)]
struct File {
    path: String,
    status: FileStatus,
    /// The unified diff. Null if the content cannot be shown.
    diff: Option<String>,
    /// Why the content cannot be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_shown: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum FileStatus {
    Added,
    Changed,
    Deleted,
    Unknown,
}

/// `GET /api/teams/{team}/members/{name}/changes`
pub(super) async fn list(
    State(app): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let records = app.records(&team).await?;
    let member = records.member(&name).await?;
    let of_all = changes::of_team(&records, &app.worktrees).await?;
    let count = |it: &MemberChanges| json!({"member": it.author, "files": it.files.len()});
    let changed = of_all.iter().filter(|it| it.is_any());
    let counts: Vec<Value> = changed.map(count).collect();
    let Some(all) = of_all.into_iter().find(|it| it.author == member) else {
        // The member has left the team.
        let nothing =
            json!({"member": member, "branch": null, "files": [], "left_out": 0, "counts": counts});
        return tagged(&headers, &nothing);
    };
    let (mut files, mut bytes) = (Vec::new(), 0);
    for path in all.files.iter().take(FILES_MOST) {
        if bytes >= DIFF_BYTES_MOST {
            break;
        }
        let file = file(&app, &all, path).await?;
        bytes += file.diff.as_ref().map_or(0, String::len);
        files.push(file);
    }
    let branch = all.branch.as_ref().map(|branch| {
        json!({
            "name": branch.branch,
            "commit": branch.tip,
            "base": branch.base,
            "ahead": branch.ahead,
            "behind": branch.behind,
            "uncommitted": branch.uncommitted,
        })
    });
    tagged(
        &headers,
        &json!({
            "member": member,
            "folder": all.folder,
            "branch": branch,
            "left_out": all.files.len().saturating_sub(files.len()),
            "files": files,
            "problem": all.failure,
            "counts": counts,
        }),
    )
}

async fn file(app: &App, all: &MemberChanges, path: &str) -> Result<File, Failure> {
    let path = path.to_owned();
    match changes::versions(all, &path, &app.worktrees).await {
        Ok(Versions { before, after }) => {
            // Long files take long to compare. Other requests do not wait for that.
            let compared = tokio::task::spawn_blocking(|| compared(path, before, after)).await;
            compared.map_err(|error| Failure::internal(&error))
        }
        Err(error) => {
            let (status, not_shown) = (FileStatus::Unknown, Some(chain(&error)));
            Ok(File { path, status, diff: None, not_shown })
        }
    }
}

fn compared(path: String, before: FileText, after: FileText) -> File {
    let status = match (&before, &after) {
        (FileText::Missing, FileText::Missing) => FileStatus::Unknown,
        (FileText::Missing, _) => FileStatus::Added,
        (_, FileText::Missing) => FileStatus::Deleted,
        _ => FileStatus::Changed,
    };
    let text = |version| match version {
        FileText::Missing => Ok(String::new()),
        FileText::Text(text) => Ok(text),
        FileText::NotShown(why) => Err(why),
    };
    match (text(before), text(after)) {
        (Ok(before), Ok(after)) => {
            let diff = TextDiff::configure().timeout(EFFORT).diff_lines(&before, &after);
            let diff = diff.unified_diff().context_radius(CONTEXT_LINES).to_string();
            File { path, status, diff: Some(diff), not_shown: None }
        }
        (Err(why), _) | (_, Err(why)) => File { path, status, diff: None, not_shown: Some(why) },
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Merge {
    /// The commit that the person saw.
    commit: String,
}

/// `POST /api/teams/{team}/members/{name}/merge`
pub(super) async fn merge(
    State(app): State<Shared>,
    Path((team, name)): Path<(String, String)>,
    body: crate::body::Body,
) -> Result<Json<Value>, Failure> {
    let Merge { commit } = body.read()?;
    let (team, member) = app.member(&team, &name).await?;
    let records = TeamRecords::Live(team.clone());
    let all = changes::of_member(&records, &member, &app.worktrees).await?;
    let refused = |why: String| Failure::new(StatusCode::CONFLICT, code::CHANGED, why);
    let Some(all) = all.filter(MemberChanges::is_any) else {
        return Err(refused(format!("{member} has no changes")));
    };
    // Only the commit that was shown is merged.
    if let Some(branch) = all.branch.as_ref().filter(|branch| branch.tip != commit) {
        let message = format!("the branch of {member} has another commit now; look at it again");
        return Err(refused(message).with("commit", branch.tip.as_str()));
    }
    match changes::accept(&team, &all, &app.worktrees).await {
        Ok(Merged::Done { base }) => Ok(Json(json!({"success": true, "branch": base}))),
        Ok(Merged::Refused { why }) => Err(refused(why)),
        Err(error) => Err(Failure::internal(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn files_without_a_common_order_are_compared_in_a_limited_time() {
        let text = |lines: &mut dyn Iterator<Item = u32>| {
            FileText::Text(lines.map(|line| format!("{line}\n")).collect())
        };
        let (begin, lines) = (Instant::now(), 150_000);
        let file = compared("a".to_owned(), text(&mut (0..lines)), text(&mut (0..lines).rev()));
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        assert!(file.diff.is_some_and(|diff| diff.contains("\n+7\n") && diff.contains("\n-7\n")));
    }
}
