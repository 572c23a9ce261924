//! Carries out requests of the user about one member: another model, a compaction, a stop, and the
//! member's pane. `control` receives the requests.

use std::sync::Arc;

use pitcrew_agent::Event;
use pitcrew_panes::{PaneError, PaneId, Panes};
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, chain};
use pitcrew_team::{Actor, Team};
use serde_json::{Value, json};

use super::agents::RunningAgent;
use super::control::tell_lead;
use super::team_loop::TeamLoop;
use crate::control_socket::Call;
use crate::events::RunEvent;
use crate::member_pane::{self, MemberPaneError};

/// Whether a pane is to be hidden or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PaneSight {
    Hidden,
    Shown,
}

impl TeamLoop {
    /// Returns a running member, the lead included.
    ///
    /// # Errors
    /// `agent_not_found` with the names of the members that run.
    fn running_member(&self, name: &AgentName) -> Result<&RunningAgent, ApiError> {
        let is_member = |running: &&RunningAgent| running.subagent().is_none();
        self.agents.running(name).filter(is_member).ok_or_else(|| {
            let lead = AgentName::lead();
            let teammates = self.agents.teammates().map(|(name, _)| name);
            let valid: Vec<&AgentName> = std::iter::once(&lead).chain(teammates).collect();
            ApiError::new(ErrorCode::AgentNotFound, format!("no member '{name}' runs in this team"))
                .with("agent", name.as_str())
                .with("valid_agents", json!(valid))
        })
    }

    /// Returns a member that runs in this process. `instead` says what the user can do about a
    /// member that runs in a process of its own.
    ///
    /// # Errors
    /// `agent_not_found`, or `invalid_status` for a member in a process of its own.
    pub(super) fn member_here(
        &self,
        name: &AgentName,
        instead: &str,
    ) -> Result<&RunningAgent, ApiError> {
        let running = self.running_member(name)?;
        if running.handle.is_elsewhere() {
            let message = format!("{name} runs in a process of its own, {instead}");
            return Err(
                ApiError::new(ErrorCode::InvalidStatus, message).with("agent", name.as_str())
            );
        }
        Ok(running)
    }

    /// Gives a member another model, which it calls from its next model call on.
    pub(super) async fn set_model_for_user(
        &mut self,
        member: &str,
        model: &str,
    ) -> Result<Value, ApiError> {
        let name = AgentName::foreign(member);
        self.member_here(
            &name,
            "whose model is fixed at its start; shut it down, and add a teammate with that model",
        )?;
        let invalid = |message: String| {
            ApiError::new(ErrorCode::InvalidRequest, message).with("model", model)
        };
        if self.limits.needs_price_of(model, &self.run_context.prices) {
            return Err(invalid(format!(
                "the price of {model} is not known, and this run ends at a cost"
            )));
        }
        let opened = self.run_context.model(model).map_err(|error| {
            let names = self.run_context.openable.split(", ").filter(|name| !name.is_empty());
            invalid(format!("cannot use the model {model}: {}", chain(&error)))
                .with("valid_models", json!(names.collect::<Vec<_>>()))
        })?;
        let context = self.run_context.context_of(opened.as_ref());
        self.run_context.team.set_model(&Actor::User, &name, model).await?;
        // The member may have ended while its config entry was written.
        self.running_member(&name)?.handle.change_model(opened, context);
        let changed = RunEvent::ModelChanged { agent: name.clone(), model: model.to_owned() };
        self.run_context.sink.tell(changed).await;
        Ok(json!({"success": true, "name": name, "model": model}))
    }

    /// Asks an agent to compact its conversation. The event `compacted` reports the result.
    pub(super) fn compact_for_user(&self, member: Option<&str>) -> Result<Value, ApiError> {
        let name = member.map_or_else(AgentName::lead, AgentName::foreign);
        let running = self
            .member_here(&name, "which compacts its conversation itself when it is nearly full")?;
        running.handle.tell(Event::CompactionAsked);
        Ok(json!({"success": true, "name": name}))
    }

    /// Ends a teammate at once and for good, without asking it.
    pub(super) async fn stop_for_user(&mut self, member: &str) -> Result<Value, ApiError> {
        let name = AgentName::foreign(member);
        let running = self.running_member(&name)?;
        if !running.is_teammate() {
            let message = "the lead ends only together with its run; stop_run or end_team ends it";
            return Err(
                ApiError::new(ErrorCode::InvalidStatus, message).with("agent", name.as_str())
            );
        }
        running.handle.end("the user stopped it");
        let text = format!("The user has stopped the teammate {name}.");
        tell_lead(&self.run_context.team, &text, "the user stopped a teammate").await;
        Ok(json!({"success": true, "name": name}))
    }

    /// Hides or shows the pane of a member. The caller gets the answer when the terminal has
    /// answered.
    pub(super) async fn place_pane_for_user(&mut self, member: &str, sight: PaneSight, call: Call) {
        let (name, panes, pane) = match self.pane_of(member).await {
            Ok(found) => found,
            Err(error) => return call.caller.answer(Err(error)).await,
        };
        let team = self.run_context.team.clone();
        // A terminal can be slow, and the loop must not wait for it.
        tokio::spawn(async move {
            let placed = placed(&team, panes.as_ref(), &pane, sight).await;
            let answer = placed.map_err(|error| pane_error(&name, error)).map(|mut answer| {
                if let Some(fields) = answer.as_object_mut() {
                    fields.insert("name".to_owned(), json!(name));
                }
                answer
            });
            call.caller.answer(answer).await;
        });
    }

    /// Returns the pane of a member, and the terminal that has the pane.
    async fn pane_of(
        &mut self,
        member: &str,
    ) -> Result<(AgentName, Arc<dyn Panes>, PaneId), ApiError> {
        let team = self.run_context.team.clone();
        let name = team.member(member).await?.name;
        let place = team.started().await?.remove(&name).and_then(|started| started.pane);
        let found = place.and_then(|place| {
            Some((self.backends.panes_named(&place.host.backend)?, PaneId(place.id)))
        });
        let (panes, pane) = found.ok_or_else(|| {
            let message = format!("{name} is not in a pane of this run");
            ApiError::new(ErrorCode::InvalidStatus, message).with("agent", name.as_str())
        })?;
        Ok((name, panes, pane))
    }
}

/// Hides or shows a pane, and returns the answer without the member's name.
async fn placed(
    team: &Team,
    panes: &dyn Panes,
    pane: &PaneId,
    sight: PaneSight,
) -> Result<Value, MemberPaneError> {
    match sight {
        PaneSight::Hidden => {
            member_pane::hide(team, panes, pane).await?;
            Ok(json!({"success": true, "pane": pane, "hidden": true}))
        }
        PaneSight::Shown => {
            let view = member_pane::show(team, panes, pane).await?;
            Ok(json!({
                "success": true, "pane": pane, "hidden": false,
                "place": view.as_ref().map(|view| &view.place),
                "command": view.as_ref().map(|view| &view.command),
                "is_shown": view.as_ref().map(|view| view.is_shown),
            }))
        }
    }
}

fn pane_error(name: &AgentName, error: MemberPaneError) -> ApiError {
    let (code, message) = match error {
        MemberPaneError::Team(error) => return error,
        MemberPaneError::Pane(PaneError::Gone { pane }) => {
            (ErrorCode::InvalidStatus, format!("{name}'s pane {pane} no longer exists"))
        }
        MemberPaneError::Pane(error) => (ErrorCode::InternalError, chain(&error)),
    };
    ApiError::new(code, message).with("agent", name.as_str())
}
