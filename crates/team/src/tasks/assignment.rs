//! Messages that inform the owner of a task about the assignment.

use pitcrew_protocol::{
    ApiError, Foreign, MessageId, Task, TaskAssignment, TaskStatus, TeamConfig,
};

use crate::Team;
use crate::clock::wire_time;
use crate::delivery::{OutgoingMessage, is_undeliverable};
use crate::entropy::made_id;
use crate::ours::TaskRecord;

impl Team {
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
}

/// Builds the message that informs a task's owner. The result is `None` if the owner is not a
/// member, or if pitcrew did not assign the task. It is also `None` if another client leads the
/// team and the lead assigned the task, because that client signs the lead's frames itself.
pub(super) fn assignment(
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
