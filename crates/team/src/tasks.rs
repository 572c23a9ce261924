//! The team's tasks: creating, changing, claiming and listing them. The module `task_rules`
//! decides, under the lock of the tasks, which changes are allowed.

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, Foreign, MessageId, StatusChange, Task, TaskAssignment,
    TaskCreateInput, TaskFacts, TaskId, TaskStatus, TaskUpdateInput, TaskUpdated, TeamConfig,
};
use pitcrew_store::{Event, RateScope, TaskChangeKind, TaskTable};

use crate::actor::{Actor, Rank, Speaker};
use crate::clock::wire_time;
use crate::delivery::{OutgoingMessage, is_undeliverable};
use crate::entropy::made_id;
use crate::ours::TaskRecord;
use crate::send::Recipient;
use crate::task_rules::{self, Blockers, Changed, Stamp, TaskChange};
use crate::views::task_times;
use crate::{Team, refusal};

impl Team {
    /// Creates a task. If the same caller repeats `call`, the result is the task that the first
    /// attempt created.
    ///
    /// # Errors
    /// `invalid_request` for texts over the limit, `rate_limit`, `permission_denied` for outside
    /// writers.
    pub async fn create_task(
        &self,
        actor: &Actor,
        input: TaskCreateInput,
        call: Option<&str>,
    ) -> Result<Task, ApiError> {
        let speaker = Speaker::of(actor, self.config().await?.as_ref())?;
        speaker.must_belong("make tasks")?;
        refusal::check_filled("subject", &input.subject)?;
        self.check_texts(
            Some(&input.subject),
            Some(&input.description),
            input.active_form.as_deref(),
        )?;
        task_rules::check_metadata(&input.metadata.clone().unwrap_or_default())?;
        self.count_call().await?;
        let record = TaskRecord {
            call: call.map(str::to_owned),
            created_by: Some(speaker.name),
            created_at: Some(self.now_ms()),
            updated_at: Some(self.now_ms()),
            ..TaskRecord::default()
        };
        if let Some(made) =
            self.ask(self.all_tasks()).await?.iter().find(|task| is_made_by(task, &record))
        {
            return Ok(made.clone());
        }
        self.take_slot(RateScope::TaskCreation(self.dir().clone())).await?;
        let limit = self.limits().tasks;
        let by = record.created_by.clone().unwrap_or_default();
        let task = self.edit_tasks(move |table| insert(table, &input, &record, limit)).await?;
        self.note([changed(&task.id, &by, TaskChangeKind::Created, &[])]).await;
        Ok(task)
    }

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

    /// Returns the tasks that are open in the journal, but whose file is missing or unreadable
    /// although no operation deleted the task.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn lost_tasks(&self) -> Result<Vec<TaskId>, ApiError> {
        let there = self.tasks().await?;
        let (summary, _) = self.ask(self.backend().journal_summary(self.dir())).await?;
        let is_lost = |id: &TaskId| there.iter().all(|task| task.id != *id);
        Ok(summary.open_tasks.into_iter().filter(is_lost).collect())
    }

    /// Records that a task is deleted. This is for a task whose file is missing or unreadable.
    async fn give_up_lost_task(
        &self,
        stamp: &Stamp,
        id: &str,
        missing: ApiError,
    ) -> Result<TaskUpdated, ApiError> {
        let Some(task_id) = self.lost_tasks().await?.into_iter().find(|lost| lost.as_str() == id)
        else {
            return Err(missing);
        };
        self.note([changed(&task_id, &stamp.by.name, TaskChangeKind::Deleted, &["deleted"])]).await;
        let facts = TaskFacts {
            status: Some(StatusChange::Deleted.as_str().to_owned()),
            ..TaskFacts::default()
        };
        let updated_fields = vec!["deleted".to_owned()];
        Ok(TaskUpdated { success: true, task_id, updated_fields, status_change: None, facts })
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

    /// Returns one task.
    ///
    /// # Errors
    /// `task_not_found` with the existing ids.
    pub async fn task(&self, id: &str) -> Result<Task, ApiError> {
        let tasks = self.ask(self.all_tasks()).await?;
        task_rules::find(tasks.iter(), id).cloned()
    }

    /// Returns all tasks sorted by id, without the internal tasks of the reference client.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn tasks(&self) -> Result<Vec<Task>, ApiError> {
        Ok(self
            .ask(self.all_tasks())
            .await?
            .iter()
            .filter(|task| !task.is_internal())
            .cloned()
            .collect())
    }

    /// Sends the messages about task assignments that are still missing after a crash. Each message
    /// informs the owner of a task. Returns the ids of the sent messages.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn finish_assignments(&self) -> Result<Vec<MessageId>, ApiError> {
        let (journal, _) = self.ask(self.backend().journal_summary(self.dir())).await?;
        let config = self.config().await?;
        let mut finished = Vec::new();
        for task in self.tasks().await? {
            let open = task.status != TaskStatus::Completed;
            let Some(letter) = assignment(self, &config, &task)?.filter(|_| open) else { continue };
            // Look into the journal, not into the inbox. The message may have been sent and may
            // have left the inbox already.
            if journal.assignments.contains(&letter.id) {
                continue;
            }
            match self.deliver(letter).await {
                Ok(receipt) => finished.push(receipt.id),
                Err(error) if is_undeliverable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(finished)
    }

    /// Releases the tasks of ended members and returns the ids of these tasks. A member can end
    /// between the check of a new owner and the assignment. Such a member then owns a task after
    /// its end.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn release_lost_tasks(&self) -> Result<Vec<TaskId>, ApiError> {
        let (config, mut released) = (self.config().await?, Vec::new());
        let tasks = self.ask(self.all_tasks()).await?;
        for gone in self.ended_members().await? {
            let is_lost = |task: &Task| {
                task.status != TaskStatus::Completed && task.owner.as_deref() == Some(gone.as_str())
            };
            if config.member(gone.as_str()).is_none() && tasks.iter().any(is_lost) {
                released.extend(self.release_tasks(&gone).await?);
            }
        }
        Ok(released)
    }

    /// Releases the tasks of an owner that is not a member, and returns the ids of these tasks.
    ///
    /// # Errors
    /// `invalid_status` if the owner is a member, `team_not_found`, `internal_error`.
    pub async fn release_tasks_of_stranger(
        &self,
        owner: &AgentName,
    ) -> Result<Vec<TaskId>, ApiError> {
        if self.config().await?.member(owner.as_str()).is_some() {
            return Err(refusal::wrong_state(format!(
                "'{owner}' is a member, and keeps its tasks"
            )));
        }
        self.release_tasks(owner).await
    }

    pub(crate) async fn release_tasks(&self, owner: &AgentName) -> Result<Vec<TaskId>, ApiError> {
        let (gone, at_ms) = (owner.clone(), self.now_ms());
        let released =
            self.edit_tasks(move |table| task_rules::release(table, &gone, at_ms)).await?;
        self.note(
            released.iter().map(|id| {
                changed(id, owner.as_str(), TaskChangeKind::Released, &["owner", "status"])
            }),
        )
        .await;
        Ok(released)
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

    fn check_texts(
        &self,
        subject: Option<&str>,
        description: Option<&str>,
        active_form: Option<&str>,
    ) -> Result<(), ApiError> {
        let limits = self.limits();
        refusal::check_length("subject", subject.unwrap_or_default(), limits.subject_chars)?;
        refusal::check_length("activeForm", active_form.unwrap_or_default(), limits.subject_chars)?;
        refusal::check_length(
            "description",
            description.unwrap_or_default(),
            limits.description_chars,
        )
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

/// Builds the message that informs a task's owner. The result is `None` if the owner is not a
/// member, or if pitcrew did not assign the task. It is also `None` if another client leads the
/// team and the lead assigned the task, because that client signs the lead's frames itself.
fn assignment(
    team: &Team,
    config: &TeamConfig,
    task: &Task,
) -> Result<Option<OutgoingMessage>, ApiError> {
    let record = TaskRecord::of(task);
    let (Some(owner), Some(by), Some(at_ms)) =
        (&task.owner, record.assigned_by, record.assigned_at)
    else {
        return Ok(None);
    };
    let Some(owner) = config.member(owner) else { return Ok(None) };
    let sender = config.member(&by);
    if config.is_session_dialect()
        && sender.is_none_or(|m| m.is_called(pitcrew_protocol::LEAD_NAME))
    {
        return Ok(None);
    }
    let id = made_id(&[
        team.dir().as_str(),
        "task",
        task.id.as_str(),
        owner.name.as_str(),
        &at_ms.to_string(),
        &by,
    ]);
    let frame = TaskAssignment {
        kind: TaskAssignment::TYPE.into(),
        task_id: task.id.to_string(),
        subject: Some(task.subject.clone()),
        description: Some(task.description.clone()),
        assigned_by: Some(by.clone()),
        timestamp: Some(wire_time(at_ms)),
        foreign: Foreign::default(),
    };
    let letter = OutgoingMessage::of_frame(id, &by, &owner.name, frame)?;
    Ok(Some(OutgoingMessage { color: sender.and_then(|m| m.color.clone()), ..letter }))
}

fn insert(
    table: &mut TaskTable,
    input: &TaskCreateInput,
    record: &TaskRecord,
    limit: u32,
) -> Result<Task, ApiError> {
    if let Some(made) = table.tasks.values().find(|task| is_made_by(task, record)) {
        return Ok(made.clone());
    }
    refusal::check_count(
        "tasks",
        limit,
        table.tasks.values().filter(|task| !task.is_internal()).count(),
    )?;
    let mut task = Task {
        id: TaskId::from_number(table.next_id),
        subject: input.subject.clone(),
        description: input.description.clone(),
        active_form: input.active_form.clone(),
        owner: None,
        status: TaskStatus::Pending,
        blocks: Vec::new(),
        blocked_by: Vec::new(),
        metadata: input.metadata.clone(),
        foreign: Foreign::default(),
    };
    record.put_on(&mut task)?;
    table.tasks.insert(task.id.clone(), task.clone());
    table.next_id += 1;
    Ok(task)
}

fn is_made_by(task: &Task, record: &TaskRecord) -> bool {
    let noted = TaskRecord::of(task);
    record.call.is_some() && noted.call == record.call && noted.created_by == record.created_by
}

fn changed(task: &TaskId, by: &str, change: TaskChangeKind, fields: &[&str]) -> Event {
    Event::TaskChanged {
        task: task.clone(),
        by: by.to_owned(),
        change,
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
    }
}
