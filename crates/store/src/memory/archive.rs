//! The archive of the store in memory.

use async_trait::async_trait;
use pitcrew_protocol::{InboxFile, TeamDir};
use serde_json::Value;
use tokio::sync::broadcast;

use super::{MemoryBackend, Team, WATCH_BOUND, with_ids};
use crate::{
    ArchiveName, ArchiveStore, ArchivedTeam, JournalEntry, JournalSummary, LogName, StoreError,
    StoredMessage,
};

impl MemoryBackend {
    fn with_archived(
        &self,
        archive: &ArchiveName,
        act: impl FnOnce(&mut Team),
    ) -> Result<(), StoreError> {
        let mut shelf = self.shelf();
        let no_team = || StoreError::NoTeam { team: TeamDir::of(&archive.0) };
        act(shelf.archived.get_mut(archive).ok_or_else(no_team)?);
        Ok(())
    }
}

#[async_trait]
impl ArchiveStore for MemoryBackend {
    async fn archives(&self) -> Result<Vec<ArchiveName>, StoreError> {
        Ok(self.shelf().archived.keys().cloned().collect())
    }

    async fn archived_team(
        &self,
        archive: &ArchiveName,
    ) -> Result<Option<ArchivedTeam>, StoreError> {
        let archived = |team: &Team| ArchivedTeam {
            name: archive.clone(),
            config: team.config.clone(),
            tasks: team.tasks.tasks.values().cloned().collect(),
            archived_at_ms: team.journal.last().map(|entry| entry.at_ms),
        };
        Ok(self.shelf().archived.get(archive).map(archived))
    }

    async fn archived_journal(
        &self,
        archive: &ArchiveName,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        Ok(self.shelf().archived.get(archive).map(|team| team.journal.clone()).unwrap_or_default())
    }

    async fn archived_summary(&self, archive: &ArchiveName) -> Result<JournalSummary, StoreError> {
        Ok(JournalSummary::of(self.archived_journal(archive).await?))
    }

    async fn archived_mail(
        &self,
        archive: &ArchiveName,
        inbox: &InboxFile,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let shelf = self.shelf();
        let Some(team) = shelf.archived.get(archive) else { return Ok(Vec::new()) };
        let both = [team.past_mail.get(inbox), team.inboxes.get(inbox)];
        Ok(both.into_iter().flatten().flat_map(|messages| with_ids(messages)).collect())
    }

    async fn archived_document(
        &self,
        archive: &ArchiveName,
        name: &'static str,
    ) -> Result<Option<Value>, StoreError> {
        let shelf = self.shelf();
        Ok(shelf.archived.get(archive).and_then(|team| team.documents.get(name)).cloned())
    }

    async fn archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
    ) -> Result<Vec<String>, StoreError> {
        let shelf = self.shelf();
        let kept = shelf.archived.get(archive).and_then(|team| team.logs.get(log));
        Ok(kept.cloned().unwrap_or_default())
    }

    async fn record_archived(
        &self,
        archive: &ArchiveName,
        entries: &[JournalEntry],
    ) -> Result<(), StoreError> {
        self.with_archived(archive, |team| team.journal.extend_from_slice(entries))
    }

    async fn append_archived_log(
        &self,
        archive: &ArchiveName,
        log: &LogName,
        lines: &[String],
    ) -> Result<(), StoreError> {
        self.with_archived(archive, |team| {
            team.logs.entry(log.clone()).or_default().extend_from_slice(lines);
        })
    }

    async fn restore_team(&self, archive: &ArchiveName) -> Result<TeamDir, StoreError> {
        let mut shelf = self.shelf();
        let no_team = || StoreError::NoTeam { team: TeamDir::of(&archive.0) };
        let dir = shelf.archived.get(archive).ok_or_else(no_team)?.config.name.dir();
        if let Some(taken) = shelf.teams.get(&dir) {
            return Err(StoreError::TeamTaken { team: dir, name: taken.config.name.to_string() });
        }
        let mut team = shelf.archived.remove(archive).ok_or_else(no_team)?;
        // Watchers that were opened before the team was archived already know that the team is
        // gone. They must not get the changes of the restored team, so the restored team gets a new
        // channel.
        team.changes = broadcast::channel(WATCH_BOUND).0;
        shelf.teams.insert(dir.clone(), team);
        Ok(dir)
    }

    async fn remove_archive(&self, archive: &ArchiveName) -> Result<bool, StoreError> {
        Ok(self.shelf().archived.remove(archive).is_some())
    }
}
