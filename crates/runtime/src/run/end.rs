//! The ways in which a run can end, and the work that is still open if a run ends early.

use std::time::Duration;

use pitcrew_agent::transcript::AnswerFault;
use pitcrew_protocol::{AgentName, Task, TaskId, TaskStatus, counted_is};
use serde::{Deserialize, Serialize};

use crate::events::optional_ms;

/// The reason for the end of an agent that was cancelled and can be resumed.
pub const RESUMABLE: &str = "it was stopped, and can be resumed";

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEnd {
    /// The main agent of the run gave its final answer, and no work is open.
    Success {
        /// The final answer.
        text: String,
    },
    /// No agent had anything left to do, but the work is not complete. Unless the lead deleted the
    /// team, `pitcrew run --resume` continues the run.
    Unfinished {
        /// The reason why the work is not complete.
        shortfall: Shortfall,
        /// The work that is still open.
        open: OpenWork,
        /// The lead's last answer.
        text: Option<String>,
    },
    /// The run could not continue.
    Failed {
        /// The reason why the run could not continue.
        reason: String,
    },
    /// A disk error, a system error or an error in pitcrew stopped the run. `pitcrew run --resume`
    /// continues the run.
    Broken {
        /// The error, as text.
        reason: String,
    },
    /// The model was unavailable for longer than a call is allowed to wait. `pitcrew run --resume`
    /// continues the run.
    Parked {
        /// The reason why the model was unavailable.
        reason: String,
        /// The time after which the model's provider accepts calls again, if the provider named
        /// one.
        #[serde(rename = "retry_after_ms", with = "optional_ms", default)]
        retry_after: Option<Duration>,
    },
    /// The user stopped the run. `pitcrew run --resume` continues the run.
    Interrupted,
    /// The user ended the team.
    ShutDown,
    /// The run reached a limit.
    LimitReached {
        /// The limit that was reached.
        limit: Limit,
        /// A description of the limit, for people.
        reason: String,
        /// The last text of the run's main agent.
        text: Option<String>,
    },
}

/// A limit at which a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The limit on the number of model calls.
    Turns,
    /// The limit on the cost.
    Cost,
}

impl Limit {
    /// Returns the command-line flag that sets this limit.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Turns => "--max-turns",
            Self::Cost => "--max-cost-usd",
        }
    }
}

/// Why a run ended before all its work was done. If several reasons apply, the variant that comes
/// first in this enum is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// The lead's model did not give the last answer, because the model itself or a filter of its
    /// provider refused it.
    Refused,
    /// The lead's last answer was cut off at the maximum length.
    Truncated,
    /// An agent repeated the same call with the same result many times.
    Looping,
    /// A teammate never started to work.
    FailedToStart,
    /// The lead's plan waits for the user's approval, but no user was there to decide.
    PlanUnapproved,
    /// Tasks are open, or a plan waits for an answer, but no agent works any more.
    Stalled,
    /// The lead's last answer has no text, and nothing else is open.
    Empty,
}

impl Shortfall {
    /// Returns the reason's name in output for programs.
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

    /// Returns a description of the reason, for people.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Refused => AnswerFault::Refused.in_words(),
            Self::Truncated => AnswerFault::Truncated.in_words(),
            Self::Empty => AnswerFault::Empty.in_words(),
            Self::Looping => "an agent repeated the same call with the same result",
            Self::FailedToStart => "a teammate never started",
            Self::PlanUnapproved => "the plan waits for your approval, and the run asked nobody",
            Self::Stalled => "nobody works on the open tasks",
        }
    }
}

/// The state of a task at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// The task's id.
    pub id: TaskId,
    /// The task's title.
    pub subject: String,
    /// The task's status.
    pub status: TaskStatus,
    /// The member that works on the task.
    pub owner: Option<String>,
}

impl From<&Task> for TaskSummary {
    fn from(task: &Task) -> Self {
        let owner = task.owner.clone().filter(|owner| !owner.is_empty());
        Self { id: task.id.clone(), subject: task.subject.clone(), status: task.status, owner }
    }
}

impl TaskSummary {
    /// Describes the task in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let owner = self
            .owner
            .as_deref()
            .map_or_else(|| "no owner".to_owned(), |owner| format!("owner {owner}"));
        // A line break in the subject would look like the start of another line.
        let subject = self.subject.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("#{} {subject} ({}, {owner})", self.id, self.status.as_str())
    }
}

/// Work that is not done at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWork {
    /// The tasks that are not completed.
    pub tasks: Vec<TaskSummary>,
    /// The teammates whose plans wait for an answer from the lead.
    pub plans: Vec<AgentName>,
    /// The tasks that were open but whose file is missing or damaged.
    pub lost: Vec<TaskId>,
    /// Why the tasks cannot be read, for example because the disk is full. It is then not known
    /// whether all tasks are completed, so that counts as open work.
    pub unread: Option<String>,
    /// The teammates that could not be started, and the teammates that failed before the first
    /// answer of their model.
    pub never_started: Vec<AgentName>,
    /// The teammates that worked in an earlier run but could not continue in this run.
    pub left_behind: Vec<AgentName>,
    /// The teammates that failed in this run, each with the reason. A failure alone does not count
    /// as open work.
    pub failures: Vec<(AgentName, String)>,
}

impl OpenWork {
    /// Collects the tasks in `tasks` that are not completed.
    #[must_use]
    pub fn of_tasks(tasks: &[TaskSummary]) -> Self {
        let open = tasks.iter().filter(|task| task.status != TaskStatus::Completed);
        Self { tasks: open.cloned().collect(), ..Self::default() }
    }

    /// Returns true if no work is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.has_no_tasks() && self.plans.is_empty() && self.has_all_teammates()
    }

    /// Returns true if it is known that every task is completed and no task is lost.
    #[must_use]
    pub fn has_no_tasks(&self) -> bool {
        self.tasks.is_empty() && self.lost.is_empty() && self.unread.is_none()
    }

    /// Returns true if every teammate was able to start its work and to continue it.
    #[must_use]
    pub fn has_all_teammates(&self) -> bool {
        self.never_started.is_empty() && self.left_behind.is_empty()
    }

    /// Returns the reasons why teammates failed in this run, one line for each teammate.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        self.failures.iter().map(|(name, reason)| format!("{name} failed: {reason}")).collect()
    }

    /// Describes the open work, one line for each item.
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
        lines
            .extend(self.unread.iter().map(|reason| format!("the tasks cannot be read: {reason}")));
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

impl RunEnd {
    /// Returns the name of this end in output for programs and in the journal.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Success { .. } => "completed",
            Self::Unfinished { shortfall, .. } => shortfall.as_str(),
            Self::Failed { .. } => "failed",
            Self::Broken { .. } => "broken",
            Self::Parked { .. } => "model_unavailable",
            Self::Interrupted => "interrupted",
            Self::ShutDown => "shut_down",
            Self::LimitReached { limit: Limit::Turns, .. } => "max_turns",
            Self::LimitReached { limit: Limit::Cost, .. } => "max_cost",
        }
    }

    /// Returns the reason for this end. Returns `None` if the name of the end explains itself.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed { reason }
            | Self::Broken { reason }
            | Self::Parked { reason, .. }
            | Self::LimitReached { reason, .. } => Some(reason),
            Self::Unfinished { shortfall, .. } => Some(shortfall.in_words()),
            Self::Success { .. } | Self::Interrupted | Self::ShutDown => None,
        }
    }
}
