//! Members that a stale config drops, and members that one brings back.
//!
//! A program that honours no lock can write an older config at any time: a member that was spawned meanwhile is missing
//! then, and one that was removed is there again. Every removal of ours is noted in `ended.json` before the config
//! changes, and names are never given twice. So a member that runs, is missing, and is not noted there was dropped; and a
//! member of ours that is noted there as done was brought back. What another client removes is obeyed where that client
//! leads: its member has agreed to shut down first, and no longer runs.

use std::collections::BTreeSet;

use pitcrew_protocol::{AgentName, ApiError, Member, TeamConfig};
use pitcrew_store::{Event, Overwritten};

use crate::Team;
use crate::ours::SpawnRecord;

/// What was mended in a config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersMended {
    /// Members that are in the config again.
    pub put_back: Vec<AgentName>,
    /// Members that had ended, and are out of the config again.
    pub taken_out: Vec<AgentName>,
}

impl Team {
    /// Puts members back that run, and that another program dropped from the config; one that was removed by an operation
    /// of ours stays away. Takes members of ours out again that ended before.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn mend_members(&self, running: Vec<Member>) -> Result<MembersMended, ApiError> {
        let ended = self.ended().await?;
        let before = self.config().await?;
        let missing: Vec<Member> = running
            .into_iter()
            .filter(|member| ended.member(member.name.as_str()).is_none())
            .filter(|member| before.member(member.name.as_str()).is_none())
            .collect();
        let settled: BTreeSet<AgentName> = ended
            .members
            .into_iter()
            .filter(|member| member.settled)
            .map(|member| member.name)
            .collect();
        let is_back = move |member: &Member| {
            settled.contains(&member.name) && SpawnRecord::of(member).is_some()
        };
        let mended = MembersMended {
            put_back: missing.iter().map(|member| member.name.clone()).collect(),
            taken_out: before
                .teammates()
                .filter(|member| is_back(member))
                .map(|member| member.name.clone())
                .collect(),
        };
        if mended == MembersMended::default() {
            return Ok(mended);
        }
        self.edit_config(move |config: &mut TeamConfig| {
            config.members.retain(|member| !is_back(member));
            for member in &missing {
                if config.member(member.name.as_str()).is_none() {
                    config.members.push(member.clone());
                }
            }
            Ok(())
        })
        .await?;
        let names =
            mended.put_back.iter().chain(&mended.taken_out).map(|name| format!("members.{name}"));
        let told = Overwritten {
            file: "config.json".to_owned(),
            put_back: names.collect(),
            kept: Vec::new(),
        };
        self.note([Event::Overwritten(told)]).await;
        Ok(mended)
    }
}
