//! Changing a task: an update of the caller's fields, or a claim.

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, StatusChange, Task, TaskFacts, TaskStatus, TaskUpdateInput,
    TaskUpdated, TeamConfig,
};
use pitcrew_store::TaskChangeKind;

use super::assignment::assignment;
use super::changed;
use crate::actor::{Actor, Rank, Speaker};
use crate::delivery::is_undeliverable;
use crate::send::Recipient;
use crate::task_rules::{self, Blockers, Changed, Stamp, TaskChange};
use crate::views::task_times;
use crate::{Team, refusal};

impl Team {
    /// Changes a task. A field that is not in the input stays unchanged.
    ///
    /// # Errors
    /// - `task_not_found`.
    /// - `agent_not_found` for an unknown owner.
    /// - `circular_dependency`.
    /// - `invalid_request`.
    /// - `invalid_status` if the caller is not able to take the task. The error names the owner of
    ///   the task, or the blockers.
    /// - `invalid_status` if a teammate wants to reopen a completed task.
    pub async fn update_task(
        &self,
        actor: &Actor,
        input: TaskUpdateInput,
    ) -> Result<TaskUpdated, ApiError> {
        self.change_task(actor, input, Blockers::Count).await
    }

    /// Changes a task for the user. The user is allowed to start a task that has open blockers.
    ///
    /// # Errors
    /// The errors of [`Team::update_task`], and `permission_denied` for every caller except the
    /// user.
    pub async fn force_task(
        &self,
        actor: &Actor,
        input: TaskUpdateInput,
    ) -> Result<TaskUpdated, ApiError> {
        if *actor != Actor::User {
            return Err(refusal::denied("only the user may start a task whose blockers are open"));
        }
        self.change_task(actor, input, Blockers::Overruled).await
    }

    async fn change_task(
        &self,
        actor: &Actor,
        input: TaskUpdateInput,
        blockers: Blockers,
    ) -> Result<TaskUpdated, ApiError> {
        let config = self.config().await?;
        let speaker = Speaker::of(actor, &config)?;
        speaker.must_belong("change tasks")?;
        if let Some(subject) = &input.subject {
            refusal::check_filled("subject", subject)?;
        }
        self.check_texts(
            input.subject.as_deref(),
            input.description.as_deref(),
            input.active_form.as_deref(),
        )?;
        let metadata = input.metadata.unwrap_or_default();
        task_rules::check_metadata(&metadata)?;
        let owner = match &input.owner {
            None => None,
            Some(name) if name.trim().is_empty() => Some(None),
            Some(name) => Some(Some(self.living(&config, name).await?)),
        };
        self.count_call().await?;
        let change = TaskChange {
            subject: input.subject,
            description: input.description,
            active_form: input.active_form,
            owner,
            status: input.status,
            blocks: input.add_blocks,
            blocked_by: input.add_blocked_by,
            metadata,
        };
        let stamp = Stamp { by: speaker, at_ms: self.now_ms(), blockers };
        let (inner, id) = (stamp.clone(), input.task_id);
        let gives_up = change.status == Some(StatusChange::Deleted);
        let named = id.clone();
        let changed = match self
            .edit_tasks(move |table| task_rules::update(table, &inner, &id, &change))
            .await
        {
            // The update deletes a task whose file is gone. The journal may still list this task as
            // open. Recording the deletion in the journal closes the task there.
            Err(error) if gives_up && error.code == ErrorCode::TaskNotFound => {
                return self.give_up_lost_task(&stamp, &named, error).await;
            }
            changed => changed?,
        };
        self.tell(&stamp, &changed).await?;
        let mut facts = TaskFacts::of(&changed.task, task_times(&changed.task));
        if let Some(status) = changed.status.as_ref() {
            facts.status = Some(status.to.clone());
        }
        Ok(TaskUpdated {
            success: true,
            task_id: changed.task.id,
            updated_fields: changed.fields.into_iter().map(str::to_owned).collect(),
            status_change: changed.status,
            facts,
        })
    }

    /// Makes the caller the owner of a task and starts the task. The task is `id` if given,
    /// otherwise the ready task with the lowest id. If several callers try at the same time,
    /// exactly one of them gets the task.
    ///
    /// # Errors
    /// - `invalid_status` with the owner or the blockers, or when no task is ready.
    /// - `task_not_found`.
    /// - `permission_denied` for callers that are not allowed to own tasks.
    pub async fn claim(&self, actor: &Actor, id: Option<&str>) -> Result<Task, ApiError> {
        let speaker = Speaker::of(actor, self.config().await?.as_ref())?;
        match speaker.rank {
            Rank::Lead | Rank::Teammate => {}
            Rank::User | Rank::Outside => {
                return Err(refusal::denied("only a member can own a task"));
            }
        }
        self.count_call().await?;
        let stamp = Stamp { by: speaker, at_ms: self.now_ms(), blockers: Blockers::Count };
        let (inner, id) = (stamp.clone(), id.map(str::to_owned));
        let changed =
            self.edit_tasks(move |table| task_rules::claim(table, &inner, id.as_deref())).await?;
        self.tell(&stamp, &changed).await?;
        Ok(changed.task)
    }

    async fn living(&self, config: &TeamConfig, given: &str) -> Result<AgentName, ApiError> {
        match self.recipient(config, given).await? {
            Recipient::Member(member) => Ok(member.name),
            Recipient::Ended(name) => {
                let error = refusal::unknown_agent(config, name.as_str());
                Err(ApiError {
                    message: format!(
                        "Agent '{name}' is no longer in the team and cannot own tasks"
                    ),
                    ..error
                })
            }
        }
    }

    /// Records a change in the journal, and informs the new owner of the task.
    async fn tell(&self, stamp: &Stamp, done: &Changed) -> Result<(), ApiError> {
        if done.fields.is_empty() {
            return Ok(());
        }
        let deleted =
            done.status.as_ref().is_some_and(|status| status.to == StatusChange::Deleted.as_str());
        let completed =
            done.status.as_ref().is_some_and(|status| status.to == TaskStatus::Completed.as_str());
        let change = match (deleted, completed, done.claimed) {
            (true, _, _) => TaskChangeKind::Deleted,
            (_, true, _) => TaskChangeKind::Completed,
            (_, _, true) => TaskChangeKind::Claimed,
            (false, false, false) => TaskChangeKind::Updated,
        };
        self.note([changed(&done.task.id, &stamp.by.name, change, &done.fields)]).await;
        if !done.assigned {
            return Ok(());
        }
        let config = self.config().await?;
        let owner = AgentName::foreign(done.task.owner.as_deref().unwrap_or_default());
        if config.member(owner.as_str()).is_none() {
            // The owner ended after the config was checked and before the task was changed. Release
            // the task now. Otherwise the ended member would own the task until the next clean-up
            // of the run (`release_lost_tasks`).
            self.release_tasks(&owner).await?;
            return Err(refusal::unknown_agent(&config, owner.as_str()));
        }
        let Some(letter) = assignment(self, &config, &done.task)? else { return Ok(()) };
        match self.deliver(letter).await {
            Ok(_) => Ok(()),
            Err(error) if is_undeliverable(&error) => {
                self.release_tasks(&owner).await?;
                Err(error)
            }
            Err(error) => {
                tracing::warn!(team = %self.dir(), task = %done.task.id, %error, "cannot tell the owner of its task");
                Ok(())
            }
        }
    }
}
