//! What the server keeps of the teams that were asked for lately.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pitcrew_protocol::{TeamConfig, TeamDir};
use pitcrew_team::Team;

/// Names one team. Another team can have the same folder later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TeamId {
    dir: TeamDir,
    created_at_ms: Option<i64>,
}

impl TeamId {
    pub(crate) fn of(team: &Team, config: &TeamConfig) -> Self {
        Self { dir: team.dir().clone(), created_at_ms: config.created_at_ms }
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { dir: TeamDir::of(name), created_at_ms: None }
    }
}

/// A value for each of the latest teams. The team that was asked for longest ago is forgotten first.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    most: usize,
    all: Mutex<VecDeque<(TeamId, Arc<T>)>>,
}

impl<T: Default> Recent<T> {
    /// Keeps values for at most `most` teams.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, all: Mutex::default() }
    }

    /// Returns the value of a team. It is a new one if there is none, or if `is_kept` refuses it.
    pub(crate) fn of(&self, id: TeamId, is_kept: impl FnOnce(&T) -> bool) -> Arc<T> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(there, _)| *there == id);
        let found = at.and_then(|at| all.remove(at)).map(|(_, value)| value);
        let value = found.filter(|value| is_kept(value)).unwrap_or_default();
        all.push_back((id, Arc::clone(&value)));
        while all.len() > self.most {
            all.pop_front();
        }
        value
    }
}
