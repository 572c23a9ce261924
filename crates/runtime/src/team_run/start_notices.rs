//! Texts for the user and the lead about what an earlier run left behind.

use pitcrew_protocol::{AgentName, neutralised};
use pitcrew_team::{Escaped, Team};

use crate::supervision::{LeftRunning, escaped, forget_ended};

/// The maximum number of characters of a goal in the journal.
const GOAL_CHARS: usize = 500;

/// Returns the text for the lead about teammates that are still members, although the lead's
/// conversation says that they ended. For example, a full disk may have prevented pitcrew from
/// recording an end in the team's files.
pub(super) fn goes_on_after_all(members: &[AgentName]) -> String {
    let names = members.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let text = format!(
        "You were told that these teammates had ended. They are still in the team and go on: {names}."
    );
    format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text))
}

/// Returns notices about processes that the commands of a killed run left running. Also removes the
/// records of processes that have ended.
pub(super) async fn left_running(team: &Team) -> Vec<String> {
    let left = match escaped(team).await {
        Ok(left) => left,
        // Do not report this error here. The code that reads all of the team's records reports it.
        Err(error) => {
            tracing::debug!(%error, "what commands left running is not known");
            return Vec::new();
        }
    };
    if let Err(error) = forget_ended(team).await {
        tracing::warn!(%error, "records of ended processes stay");
    }
    let words = |left: LeftRunning| {
        let (process, Escaped { member, command, .. }) = (left.in_words(), &left.record);
        format!(
            "{process} still runs: a command of {member} ({command}) left it behind in a run that was killed; it is left to you"
        )
    };
    left.into_iter().map(words).collect()
}

/// Returns notices about unreadable entries in the team's own files.
pub(super) async fn passed_over(team: Team, of_transcript: Option<String>) -> Vec<String> {
    let mut said: Vec<String> = of_transcript.into_iter().collect();
    for (document, unread) in team.unread_entries().await {
        match unread {
            Ok(unread) if unread.is_empty() => {}
            Ok(unread) => {
                let shown: Vec<&str> = unread.iter().map(|it| it.entry.as_str()).collect();
                said.push(format!(
                    "entries of the team's {document}.json that cannot be parsed are ignored ({}); `pitcrew doctor --repair` removes them",
                    shown.join(", ")
                ));
            }
            Err(error) => said.push(format!("a record of the team cannot be read: {error}")),
        }
    }
    said
}

/// Returns the beginning of a goal, for the journal. The whole goal is in the lead's transcript.
pub(super) fn recorded_goal(goal: &str) -> String {
    goal.chars().take(GOAL_CHARS).collect()
}
