//! The filter of a timeline: a kind of entries, and a search.

use std::fmt;

use pitcrew_view::state::{Happened, Mail, Route, TimelineEntry};
use pitcrew_view::team_log::LogKind;

use crate::panels::query::{Query, Searched, begins_with, contains};

/// The name of the whole team as the receiver of a message.
const TEAM: &str = "team";

/// The kinds of entries that can be shown alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    All,
    Mail,
    Tasks,
    Texts,
    /// Plans and permission requests.
    Requests,
    /// The starts and ends of the team and its agents.
    Agents,
}

impl Kind {
    /// Returns the kind after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::All => Self::Mail,
            Self::Mail => Self::Tasks,
            Self::Tasks => Self::Texts,
            Self::Texts => Self::Requests,
            Self::Requests => Self::Agents,
            Self::Agents => Self::All,
        }
    }

    /// Returns the kind that contains an entry, beside [`Kind::All`].
    pub(super) fn of(entry: &TimelineEntry) -> Self {
        match &entry.what {
            Happened::Mail(_) => Self::Mail,
            Happened::Task { .. } => Self::Tasks,
            Happened::Said { .. } => Self::Texts,
            Happened::Logged(entry) => match entry.kind {
                LogKind::Mail | LogKind::Delivery => Self::Mail,
                LogKind::Task => Self::Tasks,
                LogKind::Turn => Self::Texts,
                LogKind::Plan | LogKind::Permission => Self::Requests,
                LogKind::Run | LogKind::Member | LogKind::State => Self::Agents,
            },
            Happened::TeamCreated { .. }
            | Happened::Spawned { .. }
            | Happened::CleanedUp
            | Happened::CleanupFailed { .. }
            | Happened::SessionEnded { .. } => Self::Agents,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "everything",
            Self::Mail => "mail",
            Self::Tasks => "tasks",
            Self::Texts => "texts",
            Self::Requests => "requests",
            Self::Agents => "agents",
        })
    }
}

/// Selects entries of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Kind,
    pub(super) query: Query,
}

impl Filter {
    pub(super) fn selects(&self, entry: &TimelineEntry) -> bool {
        let is_of_kind = match self.kind {
            Kind::All => true,
            Kind::Mail | Kind::Tasks | Kind::Texts | Kind::Requests | Kind::Agents => {
                self.kind == Kind::of(entry)
            }
        };
        is_of_kind && self.query.finds(&Fields(entry))
    }

    /// Whether this filter selects only entries that `earlier` selects too.
    pub(super) fn narrows(&self, earlier: &Self) -> bool {
        let narrows_kind = earlier.kind == Kind::All || self.kind == earlier.kind;
        narrows_kind && self.query.narrows(&earlier.query)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.query.is_empty() {
            write!(f, ": {}", self.query.text())?;
        }
        Ok(())
    }
}

/// The texts of an entry.
struct Fields<'a>(&'a TimelineEntry);

impl Searched for Fields<'_> {
    fn has_name(&self, beginning: &str) -> bool {
        let begins = |name: &str| begins_with(name, beginning);
        match &self.0.what {
            Happened::Mail(Mail { from, to, .. }) => {
                begins(from)
                    || match to {
                        Route::Agent(name) => begins(name.as_str()),
                        Route::Team(names) => {
                            begins(TEAM) || names.iter().any(|name| begins(name.as_str()))
                        }
                    }
            }
            Happened::Spawned { agent, .. }
            | Happened::Said { agent, .. }
            | Happened::Task { by: agent, .. } => begins(agent.as_str()),
            Happened::Logged(entry) => entry.agent.iter().chain(&entry.to).any(|name| begins(name)),
            Happened::TeamCreated { .. }
            | Happened::CleanedUp
            | Happened::CleanupFailed { .. }
            | Happened::SessionEnded { .. } => false,
        }
    }

    fn has_text(&self, part: &str) -> bool {
        let has = |text: &str| contains(text, part);
        match &self.0.what {
            Happened::Mail(Mail { from, to, kind, summary, text }) => {
                let has_summary = summary.as_deref().is_some_and(has);
                let has_receiver = match to {
                    Route::Agent(name) => has(name.as_str()),
                    Route::Team(_) => has(TEAM),
                };
                has_summary || has(text) || has(from) || has(kind) || has_receiver
            }
            Happened::Spawned { agent, agent_type, model, .. } => {
                let more = [agent_type, model].into_iter().flatten();
                has(agent.as_str()) || has("started") || more.into_iter().any(|text| has(text))
            }
            Happened::Said { agent, text } => has(text) || has(agent.as_str()),
            Happened::Task { id, by, change } => {
                has(change) || has(by.as_str()) || has("task") || has(id.as_str())
            }
            Happened::Logged(entry) => {
                let names = entry.agent.iter().chain(&entry.to);
                has(&entry.text) || names.chain(&entry.content).any(|text| has(text))
            }
            Happened::TeamCreated { .. }
            | Happened::CleanedUp
            | Happened::CleanupFailed { .. }
            | Happened::SessionEnded { .. } => has(&self.0.text()),
        }
    }
}
