//! The team's tasks: creating and listing them. The modules below change, claim, assign and release
//! tasks. The module `task_rules` decides, under the lock of the tasks, which changes are allowed.

use pitcrew_protocol::{ApiError, Foreign, Task, TaskCreateInput, TaskId, TaskStatus};
use pitcrew_store::{Event, RateScope, TaskChangeKind, TaskTable};

use crate::actor::{Actor, Speaker};
use crate::ours::TaskRecord;
use crate::task_rules;
use crate::{Team, refusal};

mod assignment;
mod changes;
mod lost;
mod release;

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
