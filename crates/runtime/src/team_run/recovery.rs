//! Cleans up after teammates that died. An earlier lead may have crashed before it completed all
//! steps for an ended teammate; this module completes these steps. It also breaks locks that no
//! other process would break.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, Status, TeamConfig, chain};
use pitcrew_team::store::StoreError;
use pitcrew_team::{Actor, MemberRemoved};

use super::ends::released;
use super::team_loop::TeamLoop;

/// Time from the death of a process until its locks are broken. A lock counts as left behind after
/// 10 s without a refresh; the additional second is a margin.
const TIDY_AFTER: Duration = Duration::from_secs(11);

/// First pause before the loop tries a failed write again. The pause doubles with each try up to
/// [`TRY_AT_MOST`]. The first pause is short because a late write can do harm: for example, an
/// ended member that is not removed yet still gets mail that nobody reads.
pub(crate) const TRY_AFTER: Duration = Duration::from_millis(250);

/// Longest pause between two tries of a failed write.
pub(crate) const TRY_AT_MOST: Duration = Duration::from_secs(10);

/// The members that ended but could not be removed from the team yet, each with its worktree.
#[derive(Debug, Default)]
pub(super) struct Unremoved {
    members: BTreeMap<AgentName, Option<PathBuf>>,
    tries: u32,
}

impl TeamLoop {
    /// Schedules a cleanup after a process died. The cleanup breaks the locks that the process may
    /// have left, and releases the tasks that are still assigned to the dead member. If another
    /// process dies before the cleanup, the waiting time starts again. A process that needs one of
    /// these locks earlier breaks the lock itself.
    pub(super) fn tidy_later(&mut self) {
        self.sources.tidying = Some(Box::pin(tokio::time::sleep(TIDY_AFTER)));
    }

    /// Schedules another try to remove an ended member from the team, because the removal could not
    /// be written to disk now.
    pub(super) fn remove_later(&mut self, name: &AgentName, worktree: Option<&Path>) {
        self.unremoved.members.insert(name.clone(), worktree.map(Path::to_owned));
        let pause =
            TRY_AFTER.saturating_mul(2_u32.saturating_pow(self.unremoved.tries)).min(TRY_AT_MOST);
        self.sources.removing = Some(Box::pin(tokio::time::sleep(pause)));
    }

    /// Removes the members that could not be removed from the team when they ended.
    pub(super) async fn remove_unremoved(&mut self) {
        self.sources.removing = None;
        let unremoved = std::mem::take(&mut self.unremoved);
        self.unremoved.tries = unremoved.tries.saturating_add(1);
        for (name, worktree) in unremoved.members {
            // A new teammate has this name now, so the name must stay in the team.
            if self.agents.is_running(&name) {
                continue;
            }
            match self.run_context.team.remove_member(&Actor::Lead, &name).await {
                Ok(_) | Err(ApiError { code: ErrorCode::AgentNotFound, .. }) => {}
                Err(error) => {
                    tracing::warn!(agent = %name, %error, "a member that ended is not removed yet");
                    self.remove_later(&name, worktree.as_deref());
                    continue;
                }
            }
            if let Some(path) = worktree {
                self.clear_worktree(&name, &path).await;
            }
        }
        if self.unremoved.members.is_empty() {
            self.unremoved.tries = 0;
        }
    }

    pub(super) async fn tidy(&mut self) {
        self.sources.tidying = None;
        self.remove_unremoved().await;
        self.break_locks_of_the_dead().await;
        match self.run_context.team.release_lost_tasks().await {
            Ok(_) | Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => {}
            Err(error) => {
                self.warn(format!("tasks of the dead cannot be released: {}", chain(&error))).await
            }
        }
    }

    /// Writes journal entries again that the disk refused, and tells the user about it. An action
    /// that only the journal shows would otherwise fail without a word.
    pub(super) async fn look_at_journal(&mut self) {
        if let Some(text) = self.sources.refused_entries.look().await {
            self.warn(text.to_owned()).await;
        }
    }

    /// Breaks the locks that killed processes left in the team's files.
    pub(super) async fn break_locks_of_the_dead(&mut self) {
        let team = &self.run_context.team;
        match team.break_stale_locks().await {
            Ok(_) | Err(StoreError::NoTeam { .. }) => {}
            Err(error) => {
                self.warn(format!("locks of the dead cannot be broken: {}", chain(&error))).await
            }
        }
    }

    /// Removes this team's git worktrees that belong to no member. Returns the teammates whose end
    /// is not yet in the lead's conversation, and the text that tells the lead about these ends.
    pub(super) async fn finish_departures(
        &mut self,
        removed: &BTreeMap<AgentName, MemberRemoved>,
        known: &BTreeSet<AgentName>,
        config: &TeamConfig,
    ) -> Option<(Vec<AgentName>, String)> {
        let mut kept = self.clear_lost_worktrees(config).await;
        let mut ended = match self.run_context.team.ended_members().await {
            Ok(ended) => ended,
            Err(error) => {
                self.warn(format!(
                    "the members that left the team cannot be determined: {}",
                    chain(&error)
                ))
                .await;
                Vec::new()
            }
        };
        ended.retain(|name| !known.contains(name));
        let mut texts = Vec::new();
        for name in &ended {
            let before = self.agents.before(name).and_then(|before| before.state.clone());
            let (status, reason) = before.unwrap_or((Status::Completed, None));
            let tasks = removed.get(name).and_then(|removed| released(&removed.released));
            let worktree = kept.remove(name.inbox_file().as_str()).unwrap_or_default();
            texts.push(
                self.departure(name, status, reason, tasks.into_iter().chain(worktree).collect())
                    .await,
            );
        }
        (!ended.is_empty()).then(|| (ended, texts.join("\n\n")))
    }

    /// Removes git worktrees that belong to no member. Returns notes about the worktrees that were
    /// kept, by member name.
    async fn clear_lost_worktrees(&mut self, config: &TeamConfig) -> BTreeMap<String, Vec<String>> {
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let live: Vec<PathBuf> = config
            .members
            .iter()
            .filter_map(|member| member.worktree_path.as_ref())
            .map(PathBuf::from)
            .collect();
        let worktrees = self.worktrees();
        // An error is only logged. It occurs, for example, if there is no repository, and a folder
        // without a repository has no git worktrees to recover.
        if let Err(error) = worktrees.recover().await {
            tracing::debug!(error = %chain(&error), "no worktree that was being made is looked for");
        }
        let mut lost = worktrees.orphans(&live).await.unwrap_or_default();
        lost.retain(|worktree| worktree.team == self.run_context.team.dir().as_str());
        for worktree in lost {
            let member = AgentName::foreign(&worktree.member);
            let said = self.clear_worktree(&member, &worktree.path).await;
            kept.entry(worktree.member).or_default().extend(said);
        }
        kept
    }
}
