//! The ways a run ends, and what is open when one ends that did not do all its work.

use std::time::Duration;

use pitcrew_protocol::{AgentName, Task, TaskId, TaskStatus, counted_is};

use crate::transcript::AnswerFault;

/// The ways a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// The agent that the run was about said its last word, and nothing is open.
    Success {
        /// That word.
        text: String,
    },
    /// Nobody had anything left to do, and the work is not whole; `pitcrew run --resume` goes on from here, unless the lead
    /// deleted the team.
    Unfinished {
        /// Why.
        shortfall: Shortfall,
        /// What is open.
        open: OpenWork,
        /// The lead's last word.
        text: Option<String>,
    },
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
    },
    /// Something under it failed: the disk, the system, or pitcrew itself; `pitcrew run --resume` goes on from here.
    Broken {
        /// What.
        reason: String,
    },
    /// Its model was unavailable for longer than a call may wait; `pitcrew run --resume` goes on from here.
    Parked {
        /// Why.
        reason: String,
        /// How long the model's vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// The user stopped it; `pitcrew run --resume` goes on from here.
    Interrupted,
    /// The user ended the team.
    ShutDown,
    /// A limit was reached.
    LimitReached {
        /// Which.
        limit: Limit,
        /// The same in words.
        reason: String,
        /// What the agent said last.
        text: Option<String>,
    },
}

/// A limit at which a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Of model calls.
    Turns,
    /// Of money.
    Cost,
}

impl Limit {
    /// The flag of the command line that sets it.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Turns => "--max-turns",
            Self::Cost => "--max-cost-usd",
        }
    }
}

/// Why a run ended that did not do all its work. Where several hold, the first of this list is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortfall {
    /// The lead's model, or a filter of its vendor, refused the last answer.
    Refused,
    /// The lead's last answer was cut off at its greatest length.
    Truncated,
    /// An agent made the same call with the same result again and again.
    Looping,
    /// A teammate never started to work.
    FailedToStart,
    /// The lead's plan waits for the user, whom nobody could ask.
    PlanUnapproved,
    /// Tasks are open, or a plan waits for its answer, and nobody works on it.
    Stalled,
    /// The lead's last answer has no text, and nothing else is open.
    Empty,
}

impl Shortfall {
    /// The name that programs read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::Empty => "empty",
            Self::Looping => "looping",
            Self::FailedToStart => "failed_to_start",
            Self::PlanUnapproved => "plan_unapproved",
            Self::Stalled => "stalled",
        }
    }

    /// The same in words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Refused => AnswerFault::Refused.in_words(),
            Self::Truncated => AnswerFault::Truncated.in_words(),
            Self::Empty => AnswerFault::Empty.in_words(),
            Self::Looping => "an agent repeated the same call with the same result",
            Self::FailedToStart => "a teammate never started",
            Self::PlanUnapproved => "the plan waits for your approval, and nobody was there to ask",
            Self::Stalled => "nobody works on what is open",
        }
    }
}

/// A task, as a run leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its id.
    pub id: TaskId,
    /// Its title.
    pub subject: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The member that works on it.
    pub owner: Option<String>,
}

impl From<&Task> for TaskSummary {
    fn from(task: &Task) -> Self {
        let owner = task.owner.clone().filter(|owner| !owner.is_empty());
        Self { id: task.id.clone(), subject: task.subject.clone(), status: task.status, owner }
    }
}

impl TaskSummary {
    /// The task in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let owner = self
            .owner
            .as_deref()
            .map_or_else(|| "no owner".to_owned(), |owner| format!("owner {owner}"));
        format!("#{} {} ({}, {owner})", self.id, self.subject, self.status.as_str())
    }
}

/// Work that is not done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// The tasks that are not completed.
    pub tasks: Vec<TaskSummary>,
    /// The teammates whose plans wait for an answer of the lead.
    pub plans: Vec<AgentName>,
    /// The tasks that were open, and of which no file can be read: it was taken away, or is torn.
    pub lost: Vec<TaskId>,
    /// The teammates that could not be started, or failed before their model answered.
    pub never_started: Vec<AgentName>,
    /// The teammates that worked in an earlier run, and could not go on in this one.
    pub left_behind: Vec<AgentName>,
    /// Why teammates failed in this run. It is no open work by itself.
    pub failures: Vec<(AgentName, String)>,
}

impl OpenWork {
    /// The tasks among these that are not completed.
    #[must_use]
    pub fn of_tasks(tasks: &[TaskSummary]) -> Self {
        let open = tasks.iter().filter(|task| task.status != TaskStatus::Completed);
        Self { tasks: open.cloned().collect(), ..Self::default() }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.has_no_tasks() && self.plans.is_empty() && self.has_all_teammates()
    }

    /// Whether no task is open, and none is lost.
    #[must_use]
    pub fn has_no_tasks(&self) -> bool {
        self.tasks.is_empty() && self.lost.is_empty()
    }

    /// Whether every teammate could work.
    #[must_use]
    pub fn has_all_teammates(&self) -> bool {
        self.never_started.is_empty() && self.left_behind.is_empty()
    }

    /// Why teammates failed in this run, one line each.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        self.failures.iter().map(|(name, reason)| format!("{name} failed: {reason}")).collect()
    }

    /// What is open, one line each.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.tasks.is_empty() {
            let tasks: Vec<String> = self.tasks.iter().map(TaskSummary::in_words).collect();
            lines.push(format!(
                "{} open: {}",
                counted_is(self.tasks.len() as u64, "task"),
                tasks.join("; ")
            ));
        }
        lines.extend(self.lost.iter().map(|id| {
            format!(
                "task #{id} was open, and its file is gone or cannot be read: `pitcrew doctor` tells more, and \
                 `pitcrew task update {id} --status deleted` gives it up"
            )
        }));
        lines.extend(
            self.plans.iter().map(|name| format!("the plan of {name} waits for an answer")),
        );
        lines.extend(self.never_started.iter().map(|name| format!("{name} never started to work")));
        lines.extend(self.left_behind.iter().map(|name| format!("{name} could not go on")));
        lines
    }
}
