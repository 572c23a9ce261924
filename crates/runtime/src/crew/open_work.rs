//! What is open when nobody works any more: it is read from the team's files, and the lead is reminded of it.

use pitcrew_protocol::{AgentName, TeamDeleted, neutralised};

use super::course::Reminder;
use super::start::Adopted;
use super::team_loop::TeamLoop;
use crate::agent::Event;
use crate::driver::chain;
use crate::prompts::Prompt;
use crate::run::{OpenWork, TaskSummary};
use crate::team_tools::answer;
use crate::tools::ToolOutcome;
use crate::transcript::AnswerFault;

impl TeamLoop {
    /// What is open by the task list and by the accounts of the teammates.
    pub(super) async fn open_work(&mut self) -> OpenWork {
        self.remove_unremoved().await;
        let tasks = self.tasks_now().await;
        OpenWork { never_started: self.ledger.never_started(), ..OpenWork::of_tasks(&tasks) }
    }

    /// The tasks of the team; of one that its lead has deleted as they were then.
    pub(super) async fn tasks_now(&mut self) -> Vec<TaskSummary> {
        if self.adopted == Adopted::Deleted {
            return self.deleted_tasks.clone().unwrap_or_default();
        }
        match self.quarters.team.tasks().await {
            Ok(tasks) => tasks.iter().map(TaskSummary::from).collect(),
            Err(error) => {
                self.warn(format!("it cannot be seen which tasks are open: {}", chain(&error))).await;
                Vec::new()
            }
        }
    }

    /// Tells a lead that is about to delete its team of the tasks in it that are open, once.
    pub(super) async fn reminded_at_deletion(&mut self) -> Option<ToolOutcome> {
        let tasks = self.tasks_now().await;
        let open = OpenWork::of_tasks(&tasks);
        self.deleted_tasks = Some(tasks);
        let team = self.quarters.team.name().as_str();
        let refused = || TeamDeleted::refused_for_open_work(team, &open.in_words().join("; "));
        self.course.reminds_of(&open).then(|| answer(&refused().into()))
    }

    /// Reminds the lead of what is left to do before its run may end.
    pub(super) fn remind(&self, reminder: &Reminder) {
        let mut texts = Vec::new();
        let mut add = |prompt: Prompt, values: &[(&str, &str)]| match prompt.render(values) {
            Ok(text) => texts.push(text),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        };
        match reminder.fault {
            Some(AnswerFault::Truncated) => add(Prompt::AnswerCutOff, &[]),
            Some(AnswerFault::Empty) => add(Prompt::AnswerEmpty, &[]),
            // Who has refused is not asked the same again.
            Some(AnswerFault::Refused) | None => {}
        }
        let open: Vec<String> = reminder.open.in_words().iter().map(|line| format!("- {line}")).collect();
        if !open.is_empty() {
            add(Prompt::OpenWork, &[("open", &open.join("\n"))]);
        }
        let members = reminder.members.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
        if !members.is_empty() {
            add(Prompt::HeadlessShutdown, &[("members", &members)]);
        }
        let text = format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&texts.join("\n\n")));
        self.tell_lead(Event::Told { text });
    }
}
