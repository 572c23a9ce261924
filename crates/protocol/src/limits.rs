//! The limits of the API reference, as one table of defaults that settings can raise.

use serde::{Deserialize, Serialize};

/// How much of everything there may be. A rate is a count and the seconds it is counted over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Teams under one root.
    pub teams: u32,
    /// Agents in one team, the lead included.
    pub agents: u32,
    /// Tasks in one team.
    pub tasks: u32,
    /// Unread messages in one inbox. It is ours, not the API reference's: each send writes the whole inbox anew. A text past
    /// it is refused; for the user's texts only the user's unread ones count. Frames have no limit.
    pub unread_messages: u32,
    /// Characters of a message's content.
    pub content_chars: u32,
    /// Characters of a message's summary.
    pub summary_chars: u32,
    /// Characters of a task's subject.
    pub subject_chars: u32,
    /// Characters of a task's description.
    pub description_chars: u32,
    /// Teams made under one root.
    pub team_rate: Rate,
    /// Agents spawned into one team.
    pub spawn_rate: Rate,
    /// Tasks made in one team.
    pub task_rate: Rate,
    /// Broadcasts in one team.
    pub broadcast_rate: Rate,
    /// Calls of the API under one root.
    pub call_rate: Rate,
}

/// At most `count` in any `seconds` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
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
