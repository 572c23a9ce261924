//! Read-only access to everything that is stored about a team, wherever the team is: in its place or
//! in the archive. Commands and user interfaces that show a team's past read it here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_protocol::{AgentName, ApiError, Task, TeamConfig, same_name};
use pitcrew_store::{
    ArchivedTeam, JournalEntry, JournalFault, JournalOf, JournalSummary, LineCheck, LogName, Past,
    StoreError, StoredMessage,
};

use crate::conversations::{ClientConversation, ClientConversations};
use crate::document::{Document, parsed};
use crate::ended::Ended;
use crate::mail::{Mail, archived_mail};
use crate::secret_digests::SecretDigests;
use crate::{SpawnRecord, Team, Teams, named, refusal};

/// A character that every subagent's name contains, and that no member's name contains.
const SUBAGENT_MARK: char = '#';

/// What is stored about a team. Reading changes nothing.
#[derive(Clone, Debug)]
pub enum TeamRecords {
    /// A team in its place.
    Live(Team),
    /// A team in the archive.
    Archived(Teams, Box<ArchivedTeam>),
}

impl TeamRecords {
    /// The team's config.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` for a config that cannot be read.
    pub async fn config(&self) -> Result<TeamConfig, ApiError> {
        match self {
            Self::Live(team) => Ok(team.config().await?.as_ref().clone()),
            Self::Archived(_, archived) => Ok(archived.config.clone()),
        }
    }

    /// The team's tasks, without the internal tasks of the reference client.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn tasks(&self) -> Result<Vec<Task>, ApiError> {
        let mut tasks = match self {
            Self::Live(team) => of_store(team.all_tasks().await)?.to_vec(),
            Self::Archived(_, archived) => archived.tasks.clone(),
        };
        tasks.retain(|task| !task.is_internal());
        Ok(tasks)
    }

    /// Returns all entries of the journal. For a team in its place, also returns the position for
    /// [`Team::journal_since`].
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn journal(&self) -> Result<(Vec<JournalEntry>, u64), ApiError> {
        self.journal_since(0).await
    }

    /// Returns the entries of the journal after a position, as [`Team::journal_since`] does. For an
    /// archived team, returns all entries.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn journal_since(&self, position: u64) -> Result<(Vec<JournalEntry>, u64), ApiError> {
        match self {
            Self::Live(team) => of_store(team.journal_since(position).await),
            Self::Archived(teams, archived) => {
                let entries = teams.backend().archived_journal(&archived.name).await;
                Ok((of_store(entries)?, 0))
            }
        }
    }

    /// Returns the path of the journal and what is wrong with it. Returns `None` if nothing is wrong,
    /// if the store has no files, or if another client made the team and so there is no journal.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn journal_fault(
        &self,
        check: LineCheck,
    ) -> Result<Option<(PathBuf, JournalFault)>, ApiError> {
        let (teams, journal) = match self {
            Self::Live(team) => (team.teams(), JournalOf::Team(team.dir())),
            Self::Archived(teams, archived) => (teams, JournalOf::Archive(&archived.name)),
        };
        let Some(files) = teams.backend().files() else { return Ok(None) };
        let path = match journal {
            JournalOf::Team(dir) => files.paths().journal(dir),
            JournalOf::Archive(archive) => files.paths().archived_journal(archive),
        };
        let Some(fault) = of_store(files.journal_fault(journal, check).await)? else {
            return Ok(None);
        };
        let config = self.config().await?;
        let is_ours = config.members.iter().any(|member| SpawnRecord::of(member).is_some());
        let is_no_fault = fault == JournalFault::Missing && !is_ours;
        Ok((!is_no_fault).then_some((path, fault)))
    }

    /// Returns the paths of the unreadable task files, whose tasks are missing in [`Self::tasks`]. The
    /// list is empty if the store has no files.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn torn_tasks(&self) -> Result<Vec<PathBuf>, ApiError> {
        let (teams, of) = match self {
            Self::Live(team) => (team.teams(), JournalOf::Team(team.dir())),
            Self::Archived(teams, archived) => (teams, JournalOf::Archive(&archived.name)),
        };
        let Some(files) = teams.backend().files() else { return Ok(Vec::new()) };
        of_store(files.torn_tasks(of).await)
    }

    /// Returns the summary of the journal.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn summary(&self) -> Result<JournalSummary, ApiError> {
        match self {
            Self::Live(team) => Ok(of_store(team.journal_summary().await)?.0),
            Self::Archived(teams, archived) => {
                of_store(teams.backend().archived_summary(&archived.name).await)
            }
        }
    }

    /// Returns all known mail of a member, each message once. The messages that left the inbox come
    /// first. Use the result for display only.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn mail(&self, name: &AgentName) -> Result<Vec<Mail>, ApiError> {
        let mut mail = match self {
            Self::Live(team) => team.shown_mail(name, Some(Past::All)).await?,
            Self::Archived(teams, archived) => {
                let inbox = name.inbox_file();
                let stored = teams.backend().archived_mail(&archived.name, &inbox).await;
                let stored: Vec<StoredMessage> = of_store(stored)?;
                let ended: Ended = self.document().await?;
                archived_mail(name, stored, &archived.config, &ended)
            }
        };
        let mut seen = BTreeSet::new();
        mail.retain(|mail| seen.insert(mail.id.0.clone()));
        Ok(mail)
    }

    /// Returns the config with the members that have left the team, after those that are in it.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` if the config cannot be read. Former members that cannot
    /// be read are left out.
    pub async fn config_with_former(&self) -> Result<TeamConfig, ApiError> {
        let mut config = self.config().await?;
        let ended = match self {
            Self::Live(team) => team.ended().await,
            Self::Archived(..) => self.document().await,
        };
        let former = ended.unwrap_or_default().members.into_iter().filter_map(|it| it.member);
        let former: Vec<_> =
            former.filter(|member| config.member(member.name.as_str()).is_none()).collect();
        config.members.extend(former);
        if let Self::Live(team) = self {
            let seen = team.seen_members(&config);
            config.members.extend(seen);
        }
        Ok(config)
    }

    /// Returns the lines of a member's transcript. The list is empty if pitcrew never ran the member.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn transcript(&self, name: &AgentName) -> Result<Vec<String>, ApiError> {
        let log = LogName::Transcript(name.clone());
        match self {
            Self::Live(team) => of_store(team.log(&log).await),
            Self::Archived(teams, archived) => {
                of_store(teams.backend().archived_log(&archived.name, &log).await)
            }
        }
    }

    /// Returns the recorded conversation of a member that another client runs.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn client_conversation(
        &self,
        name: &AgentName,
    ) -> Result<Option<ClientConversation>, ApiError> {
        let all: ClientConversations = match self {
            Self::Live(team) => team.read_document().await?,
            Self::Archived(..) => self.document().await?,
        };
        Ok(all.of(name).cloned())
    }

    /// Returns the digests of the secret values in the environment of the team's runs.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn secret_digests(&self) -> Result<SecretDigests, ApiError> {
        match self {
            Self::Live(team) => team.secret_digests().await,
            Self::Archived(..) => self.document().await,
        }
    }

    /// Returns the names of all members and former members, the lead first. The config names the
    /// members, and the journal names the former members. If the journal cannot be read, the former
    /// members are not known.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn all_members(&self) -> Result<Vec<AgentName>, ApiError> {
        let config = self.config().await?;
        let seen = match self {
            Self::Live(team) => team.seen_members(&config),
            Self::Archived(..) => Vec::new(),
        };
        let mut names: Vec<AgentName> =
            config.members.into_iter().chain(seen).map(|member| member.name).collect();
        for name in self.summary().await.unwrap_or_default().members.into_keys() {
            // Subagents are in the journal too, but are no members.
            if !name.as_str().contains(SUBAGENT_MARK) && !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Finds the member or former member that `given` means. Accepted forms are the name in any
    /// letter case, `@name` and `name@team`.
    ///
    /// # Errors
    /// `agent_not_found` with the valid names and a similar name.
    pub async fn member(&self, given: &str) -> Result<AgentName, ApiError> {
        let config = self.config().await?;
        let names = self.all_members().await?;
        let bare = named::bare_name(given, &config);
        if let Some(name) = names.iter().find(|name| same_name(name.as_str(), bare)) {
            return Ok(name.clone());
        }
        let valid: Vec<&str> = names.iter().map(AgentName::as_str).collect();
        Err(refusal::no_agent_ever(&config, given, &valid))
    }

    async fn document<D: Document>(&self) -> Result<D, ApiError> {
        let Self::Archived(teams, archived) = self else { return Ok(D::default()) };
        let stored = of_store(teams.backend().archived_document(&archived.name, D::NAME).await)?;
        parsed(stored.as_ref(), D::NAME)
    }
}

fn of_store<T>(read: Result<T, StoreError>) -> Result<T, ApiError> {
    read.map_err(refusal::of_store)
}
