//! Repairs the list of members after another program wrote an outdated config. Such a config can
//! lack a running member, or contain a member that has ended.
//!
//! A program that ignores the locks can write an older config at any time. The older config lacks
//! the members that were spawned after it, and contains the members that were removed after it.
//! Before pitcrew removes a member from the config, it records the removal in `ended.json`. pitcrew
//! never uses a name twice. Two conclusions follow:
//!
//! - If a running member is in neither the config nor `ended.json`, another program dropped it by
//!   mistake.
//! - If a pitcrew member is in the config and `ended.json` records its end, another program
//!   restored it by mistake.
//!
//! If another client leads the team, pitcrew accepts the removals that this client makes. This
//! client removes a member only after the member agreed to shut down, so the member no longer runs.

use std::collections::BTreeSet;

use pitcrew_protocol::{AgentName, ApiError, Member, TeamConfig};
use pitcrew_store::{Event, Overwritten};

use crate::Team;
use crate::ours::SpawnRecord;

/// The repairs of a config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersMended {
    /// The running members that were missing from the config and were added again.
    pub put_back: Vec<AgentName>,
    /// The ended members that were in the config and were removed again.
    pub taken_out: Vec<AgentName>,
}

impl Team {
    /// Repairs the list of members in the config. It adds running members that another program
    /// dropped, but no member that pitcrew itself removed. It removes pitcrew's members that had
    /// already ended.
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
            // The config may have changed since it was read above, so check each member again.
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
