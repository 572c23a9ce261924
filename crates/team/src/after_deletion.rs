//! Records the rest of a run whose lead deleted the team. Such a run ends later than its team. The
//! rest of its journal and of the lead's logs is appended in the archive.

use pitcrew_store::{LogName, StoreError};

use crate::Team;

impl Team {
    /// Writes the events since the deletion of the team to the journal in the archive. Does nothing
    /// if the team was not deleted through this handle. A failure goes to the log.
    pub async fn record_rest(&self) {
        let Some((archive, rest)) = self.life.take_rest() else { return };
        if rest.is_empty() {
            return;
        }
        if let Err(error) = self.backend().record_archived(&archive, &rest).await {
            tracing::warn!(%archive, error = &error as &dyn std::error::Error, "cannot write the journal");
        }
    }

    /// Appends lines to a log of the deleted team, in the archive.
    ///
    /// # Errors
    /// [`StoreError::NoTeam`] if the team was not deleted through this handle or the archive no
    /// longer exists, and the errors of the store.
    pub async fn append_log_of_deleted(
        &self,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        match self.life.deleted() {
            Some(deleted) => self.backend().append_archived_log(&deleted.archive, log, lines).await,
            None => Err(StoreError::NoTeam { team: self.dir().clone() }),
        }
    }
}
