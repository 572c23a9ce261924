//! The default limits, from the API reference. Settings can raise a limit.

use serde::{Deserialize, Serialize};

/// The limits for all resources. A rate limit is a count within a number of seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Maximum number of teams under one root folder (the folder that contains all teams).
    pub teams: u32,
    /// Maximum number of agents in one team, including the lead.
    pub agents: u32,
    /// Maximum number of tasks in one team.
    pub tasks: u32,
    /// Maximum number of unread messages in one inbox. If an inbox has reached this number, a
    /// further text message is refused. For a message from the user, only the user's own unread
    /// messages are counted. Frames are never refused because of this limit. The limit is ours and
    /// not in the API reference. It exists because each send rewrites the whole inbox.
    pub unread_messages: u32,
    /// Maximum length of a message's content, in characters.
    pub content_chars: u32,
    /// Maximum length of a message's summary, in characters.
    pub summary_chars: u32,
    /// Maximum length of a task's subject, in characters.
    pub subject_chars: u32,
    /// Maximum length of a task's description, in characters.
    pub description_chars: u32,
    /// Rate limit for creating teams under one root folder.
    pub team_rate: Rate,
    /// Rate limit for spawning agents into one team.
    pub spawn_rate: Rate,
    /// Rate limit for creating tasks in one team.
    pub task_rate: Rate,
    /// Rate limit for broadcasts in one team.
    pub broadcast_rate: Rate,
    /// Rate limit for API calls under one root folder.
    pub call_rate: Rate,
}

/// A rate limit: at most `count` in any `seconds` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The maximum number of actions in the time window.
    pub count: u32,
    /// The length of the time window, in seconds.
    pub seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let rate = |count, seconds| Rate { count, seconds };
        Self {
            teams: 100,
            agents: 50,
            tasks: 1000,
            unread_messages: 10_000,
            content_chars: 10_000,
            summary_chars: 100,
            subject_chars: 200,
            description_chars: 5000,
            team_rate: rate(10, 3600),
            spawn_rate: rate(50, 3600),
            task_rate: rate(1000, 86_400),
            broadcast_rate: rate(1, 5),
            call_rate: rate(1000, 60),
        }
    }
}
