//! What the user's other processes ask of the lead, through the door of its process.

use std::time::Duration;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode, SendMessageInput};
use pitcrew_team::{Actor, SentView};
use serde_json::{Value, json};

use super::course::{News, Why};
use super::team_loop::TeamLoop;
use super::wake::Decision;
use crate::door::{Call, Door, ENDING, Knock};
use crate::driver::chain;
use crate::question::Digest;
use crate::transcript::Grant;

/// How much of the time that a caller waits for the end of a team is left for what follows when its teammates have left.
const END_TAKES: Duration = Duration::from_secs(5);

impl TeamLoop {
    /// Opens the door, where the team has a folder to put it into. A run without one goes on: only other processes miss it.
    pub(super) async fn open_door(&mut self) {
        let team = &self.quarters.team;
        let Some(folder) = team.backend().own_folder(team.dir()) else { return };
        match Door::open(&folder) {
            Ok(door) => self.wakers.door = Some(door),
            Err(error) => {
                self.warn(format!("other processes cannot ask the lead for anything: {}", chain(&error))).await;
            }
        }
    }

    /// Opens the door again when its socket was removed, as with the folder it was in.
    pub(super) async fn keep_door_open(&mut self) {
        if self.wakers.door.as_ref().is_some_and(|door| !door.is_in_place()) {
            // The old one takes its socket away when it is dropped, which must not be the new one's.
            self.wakers.door = None;
            self.open_door().await;
        }
    }

    pub(super) async fn visited(&mut self, call: Call) -> Vec<News> {
        let mut news = Vec::new();
        let answer = match call.knock.clone() {
            Knock::EndTeam { wait_seconds } => {
                let wait = wait_seconds.map(|wait| Duration::from_secs(wait.into()).saturating_sub(END_TAKES));
                self.asking_grace = wait.map_or(self.grace, |wait| wait.max(self.grace));
                news.push(News::EndAsked(Why::ShutDown));
                Ok(json!({"success": true, (ENDING): self.ending_otherwise()}))
            }
            Knock::Shutdown { member, reason } => self.shut_down_for_user(member, reason).await,
            Knock::Mode { member, mode } => self.set_mode_for_user(&member, &mode).await,
            Knock::Permission { request, allow, reason, digest } => {
                self.permit_for_user(request, allow, reason, digest).await
            }
        };
        call.answer(answer).await;
        news
    }

    /// Why the run was ending before it was asked to end the team, in words: what its teammates do then was decided by that.
    fn ending_otherwise(&self) -> Option<String> {
        self.course.why().filter(|why| !matches!(why, Why::ShutDown)).map(Why::in_words)
    }

    async fn shut_down_for_user(&mut self, member: String, reason: Option<String>) -> Result<Value, ApiError> {
        let input = SendMessageInput::ShutdownRequest { recipient: member, content: reason };
        let sent = self.quarters.team.send(&Actor::User, input, None).await?;
        Ok(json!(SentView(&sent)))
    }

    async fn set_mode_for_user(&mut self, member: &str, mode: &str) -> Result<Value, ApiError> {
        self.quarters.team.set_mode(&Actor::User, &AgentName::foreign(member), mode).await?;
        Ok(json!({"success": true, "name": member, "mode": mode}))
    }

    /// Answers a request in place of whoever is being asked about it; the first answer counts.
    async fn permit_for_user(
        &mut self,
        request: String,
        allow: bool,
        reason: Option<String>,
        digest: Option<Digest>,
    ) -> Result<Value, ApiError> {
        let Some(asked) = self.asked.get(&request) else {
            let open: Vec<&str> = self.asked.keys().map(String::as_str).collect();
            let error = ApiError::new(ErrorCode::InvalidStatus, format!("there is no permission request '{request}'"));
            return Err(error.with("request_id", request.as_str()).with("open_requests", open));
        };
        if digest.is_some_and(|digest| digest != asked.digest) {
            let message = format!("the permission request '{request}' is about another call than this answer");
            return Err(ApiError::new(ErrorCode::InvalidStatus, message).with("request_id", request.as_str()));
        }
        let grant = match allow {
            true => Grant::Allowed { input: None, updates: Vec::new() },
            false => Grant::Denied { reason: reason.unwrap_or_else(|| "the user said no".to_owned()) },
        };
        self.decided(Decision::ByMail { request: request.clone(), decided: grant.into() }).await;
        Ok(json!({"success": true, "request_id": request, "allowed": allow}))
    }
}
