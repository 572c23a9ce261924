//! Subagents: how they are built, how a caller learns of their end, and which ended subagents can
//! be resumed.
//!
//! A subagent does one job for one caller, in the caller's permission mode and folder. The team's
//! loop runs the subagents of the lead and of the teammates that run in the loop's own process. A
//! teammate in another process runs its own subagents (`solo`).

use std::collections::VecDeque;
use std::path::PathBuf;

use pitcrew_agent::Role;
use pitcrew_agent::transcript::Conversation;
use pitcrew_model::Block;
use pitcrew_permission::gate::DEFAULT_TYPE;
use pitcrew_protocol::{AgentName, PermissionMode, SpawnInput, Status, chain, neutralised};
use pitcrew_tools::ToolOutcome;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::agent_spec::{AgentSpec, BuiltAgent};
use super::run_context::RunContext;
use super::spawn::{unknown_mode, unknown_type};
use super::wake::LoopHandle;
use crate::definitions::AgentDefinition;
use crate::events::AgentStarted;
use crate::run::RunLimits;

/// Number of ended subagents that stay in memory, so that their caller can resume them.
const REMEMBERED: usize = 16;

/// The model value in a definition that means "the same model as the caller".
pub(super) const INHERIT: &str = "inherit";

/// Beginning of the tool result for a call that starts a background subagent. The subagent's id
/// follows this text.
const LAUNCHED: &str = "Async agent launched successfully.\nagentId: ";

/// A call that starts a subagent.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) input: SpawnInput,
    /// The id of the tool call. No other call in the team has the same id.
    pub(crate) call: String,
    /// The agent that makes the call. The fields `mode` and `cwd` are the permission mode and the
    /// folder of this agent.
    pub(crate) caller: AgentName,
    pub(crate) mode: PermissionMode,
    pub(crate) cwd: PathBuf,
    /// The caller's model, if the caller is a teammate.
    pub(crate) callers_model: Option<String>,
}

#[derive(Debug)]
pub(crate) struct SubagentRun {
    pub(crate) caller: AgentName,
    pub(crate) answer: SubagentAnswer,
    mode: PermissionMode,
    made_of: MadeOf,
    conversation: Option<Conversation>,
}

/// Where the last message of a subagent goes.
#[derive(Debug)]
pub(crate) enum SubagentAnswer {
    /// The subagent's last message becomes the result of the call that started the subagent.
    Call(oneshot::Sender<ToolOutcome>),
    /// The subagent's last message goes into the caller's conversation as a notice. The caller
    /// continues its own work while the subagent runs.
    Notice,
}

/// The data from which a subagent is built. It is stored, so that the subagent can be built again.
#[derive(Clone, Debug)]
struct MadeOf {
    definition: AgentDefinition,
    model: String,
}

/// The subagents of a run: how many were started, and which ended recently.
#[derive(Debug, Default)]
pub(crate) struct SubagentRuns {
    sent_out: u32,
    ended: VecDeque<(AgentName, SubagentRun)>,
}

impl SubagentRun {
    /// Stores the subagent's conversation when it ends.
    pub(crate) fn remember(&mut self, conversation: Conversation) {
        self.conversation = Some(conversation);
    }

    /// Restricts the subagent after its caller's mode has changed to `callers`. A subagent is never
    /// allowed to do more than its caller. If the caller is in plan mode, the subagent is also not
    /// allowed to do what plan mode forbids. Returns the new mode of the subagent, or `None` if its
    /// current mode is strict enough.
    pub(crate) fn narrowed(&mut self, callers: PermissionMode) -> Option<PermissionMode> {
        let plans = callers == PermissionMode::Plan;
        let mode = if plans { callers } else { callers.handed_down() };
        let is_narrower = plans || mode.freedom() < self.mode.freedom();
        let narrowed =
            (is_narrower && self.mode != mode && self.mode != PermissionMode::Plan).then_some(mode);
        self.mode = narrowed.unwrap_or(self.mode);
        narrowed
    }

    /// Returns true if the caller continues its own work while the subagent runs.
    pub(crate) fn is_in_background(&self) -> bool {
        matches!(self.answer, SubagentAnswer::Notice)
    }
}

impl SubagentRuns {
    /// Creates a name that no agent of this run or of an earlier run has. The name only identifies
    /// the subagent. No agent can send mail to this name.
    fn name(
        &mut self,
        caller: &AgentName,
        agent_type: &str,
        before: impl Fn(&str) -> bool,
    ) -> AgentName {
        loop {
            self.sent_out += 1;
            let number = self.sent_out;
            let name = match caller == &AgentName::lead() {
                true => format!("{agent_type}#{number}"),
                false => format!("{caller}/{agent_type}#{number}"),
            };
            if !before(&name) {
                return AgentName::foreign(&name);
            }
        }
    }

    /// Stores an ended subagent, so that its caller can resume it.
    pub(crate) fn keep(&mut self, name: &AgentName, subagent: SubagentRun) {
        if subagent.conversation.is_some() {
            self.ended.push_back((name.clone(), subagent));
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
    }

    /// Removes an ended subagent from the stored subagents and returns it, because its caller
    /// resumes it.
    fn take(
        &mut self,
        id: &str,
        caller: &AgentName,
    ) -> Result<(AgentName, SubagentRun), ToolOutcome> {
        let is_it = |(name, subagent): &(AgentName, SubagentRun)| {
            name.as_str() == id && subagent.caller == *caller
        };
        let found = self.ended.iter().position(is_it).and_then(|at| self.ended.remove(at));
        found.ok_or_else(|| {
            let own = self.ended.iter().filter(|(_, subagent)| subagent.caller == *caller).map(|(name, _)| name.as_str());
            let own: Vec<&str> = own.collect();
            let there = if own.is_empty() { "none".to_owned() } else { own.join(", ") };
            ToolOutcome::refused(format_args!(
                "No subagent {id} of yours has ended in this run and is remembered (there are: {there}). Leave out `resume`, \
                 and tell a new one in `prompt` what it has to know"
            ))
        })
    }
}

impl RunContext {
    /// Returns a subagent's permission mode. The mode in the call comes first, then the mode in the
    /// definition, then the caller's mode. A subagent does not inherit the modes `plan` and
    /// `delegate`.
    fn subagent_mode(
        &self,
        sending: &Sending,
        definition: &AgentDefinition,
    ) -> Result<PermissionMode, ToolOutcome> {
        let asked = match &sending.input.mode {
            Some(asked) => Some(PermissionMode::named(asked).ok_or_else(|| unknown_mode(asked))?),
            None => definition.permission_mode,
        };
        let bypass = PermissionMode::BypassPermissions;
        match asked {
            Some(mode) if mode == bypass && ![self.mode, sending.mode].contains(&bypass) => {
                Err(ToolOutcome::refused("Only the user can let an agent bypass permissions"))
            }
            Some(mode) => Ok(mode),
            None => Ok(sending.mode.handed_down()),
        }
    }

    /// Returns the subagent that a call asks for. This is a new subagent, or an ended one that is
    /// resumed.
    fn wanted(
        &self,
        sending: &Sending,
        subagents: &mut SubagentRuns,
        before: impl Fn(&str) -> bool,
    ) -> Result<(AgentName, MadeOf, Option<Conversation>), ToolOutcome> {
        let kind = sending.input.subagent_type.as_deref().unwrap_or(DEFAULT_TYPE);
        if let Some(id) = &sending.input.resume {
            let (name, subagent) = subagents.take(id, &sending.caller)?;
            let is_of = subagent.made_of.definition.name.clone();
            if is_of == kind && sending.input.model.is_none() {
                return Ok((name, subagent.made_of, subagent.conversation));
            }
            subagents.keep(&name, subagent);
            return Err(ToolOutcome::refused(format_args!(
                "{name} goes on as it was: give `subagent_type` \"{is_of}\", and no `model`"
            )));
        }
        let definition =
            self.definitions.get(kind).cloned().map_err(|error| unknown_type(kind, &error))?;
        let named = sending
            .input
            .model
            .as_deref()
            .or(definition.model.as_deref())
            .filter(|name| *name != INHERIT);
        let model =
            named.or(sending.callers_model.as_deref()).unwrap_or(&self.teammate_model).to_owned();
        Ok((
            subagents.name(&sending.caller, &definition.name, before),
            MadeOf { definition, model },
            None,
        ))
    }

    /// Returns the specification of the subagent that a call starts. `before` returns true for a
    /// name that an earlier subagent already had.
    ///
    /// # Errors
    /// Returns the tool result that refuses the call.
    pub(crate) fn subagent(
        &mut self,
        sending: Sending,
        subagents: &mut SubagentRuns,
        limits: &RunLimits,
        before: impl Fn(&str) -> bool,
        cancel: CancellationToken,
    ) -> Result<SubagentSpec, ToolOutcome> {
        let (name, made_of, remembers) = self.wanted(&sending, subagents, before)?;
        let mode = self.subagent_mode(&sending, &made_of.definition)?;
        if limits.needs_price_of(&made_of.model, &self.prices) {
            return Err(no_price(&made_of.model));
        }
        let openable = self.openable.clone();
        let model = self
            .model(&made_of.model)
            .map_err(|error| unusable(&made_of.model, &error, &openable))?;
        let before_turns = remembers.as_ref().map_or(0, Conversation::turns);
        let most_turns = sending.input.max_turns.into_iter().chain(limits.max_turns).min();
        let call = sending
            .call
            .split_once(':')
            .map_or(sending.call.as_str(), |(_caller, id)| id)
            .to_owned();
        let spec = AgentSpec {
            name,
            role: Role::Subagent,
            definition: Some(made_of.definition.clone()),
            model,
            mode,
            cwd: sending.cwd,
            parent_call: Some(call),
            max_turns: most_turns.map(|most| most.saturating_add(before_turns)),
            prompt: Some(sending.input.prompt),
            remembers,
            cancel,
        };
        Ok(SubagentSpec { spec, caller: sending.caller, made_of })
    }
}

/// The specification of a subagent that is about to be built.
pub(crate) struct SubagentSpec {
    pub(crate) spec: AgentSpec,
    caller: AgentName,
    made_of: MadeOf,
}

impl SubagentSpec {
    /// Returns the event for the user interface that reports the subagent's start.
    pub(crate) fn announcement(&self) -> AgentStarted {
        let agent_type = Some(self.made_of.definition.name.clone());
        self.spec.announcement(agent_type, None, &self.made_of.model)
    }

    /// Builds the subagent.
    ///
    /// # Errors
    /// Returns the reason for the failure, as a tool result for the calling model.
    pub(crate) async fn built(
        self,
        run_context: &mut RunContext,
        loop_handle: &LoopHandle,
    ) -> Result<(BuiltAgent, Sent), ToolOutcome> {
        let Self { spec, caller, made_of } = self;
        let (name, mode) = (spec.name.clone(), spec.mode);
        let built = run_context
            .spec(spec, loop_handle)
            .await
            .map_err(|error| ToolOutcome::failed(chain(&error)))?;
        Ok((built, Sent { name, caller, mode, made_of }))
    }
}

/// A subagent that is built. Its caller still has to decide where its last message goes.
pub(crate) struct Sent {
    pub(crate) name: AgentName,
    caller: AgentName,
    mode: PermissionMode,
    made_of: MadeOf,
}

impl Sent {
    pub(crate) fn answering(self, answer: SubagentAnswer) -> SubagentRun {
        SubagentRun {
            caller: self.caller,
            answer,
            mode: self.mode,
            made_of: self.made_of,
            conversation: None,
        }
    }
}

/// Returns the result of a call that starts a background subagent.
pub(crate) fn launched(name: &AgentName, input: &SpawnInput) -> ToolOutcome {
    let text = format!(
        "{LAUNCHED}{name}\nThe agent is working in the background. You will be told when it has ended, with its last message. \
         Go on with other work. TaskStop stops it by this id."
    );
    let data = json!({
        "isAsync": true,
        "status": "async_launched",
        "agentId": name,
        "description": input.description,
        "prompt": input.prompt,
    });
    ToolOutcome::done(text, data)
}

/// Returns the tool result for the call that started a subagent, after the subagent has ended.
pub(crate) fn outcome(
    name: &AgentName,
    status: Status,
    reason: Option<String>,
    text: Option<String>,
) -> ToolOutcome {
    match (status, text) {
        (Status::Completed, Some(text)) => {
            let content = json!([{"type": "text", "text": text}]);
            let shown =
                format!("{text}\n\nagentId: {name} (give it as `resume` to go on with this agent)");
            ToolOutcome::done(
                shown,
                json!({"status": "completed", "agentId": name, "content": content}),
            )
        }
        (Status::Completed, None) => ToolOutcome::failed("the subagent ended without a word"),
        (_, _) => {
            ToolOutcome::failed(reason.unwrap_or_else(|| "the subagent was stopped".to_owned()))
        }
    }
}

/// Returns the notice about the end of a background subagent, for its caller's conversation.
pub(super) fn notice(
    name: &AgentName,
    status: Status,
    reason: Option<String>,
    text: Option<String>,
) -> String {
    let guard = |text: &str| text.replace('<', "&lt;").replace('>', "&gt;");
    let (id, outcome) = (guard(name.as_str()), outcome(name, status, reason, text));
    let (state, verb) = match (status, outcome.is_error) {
        (Status::Killed, _) => (Status::Killed, "was stopped"),
        (_, true) => (Status::Failed, "failed"),
        (_, false) => (Status::Completed, "has done its job"),
    };
    format!(
        "<task_notification>\n<task_id>{id}</task_id>\n<status>{state}</status>\n<message>Subagent \"{id}\" {verb}.</message>\n\
         </task_notification>\n{}",
        neutralised(&outcome.text)
    )
}

/// Returns a notice for a caller that is resumed. The notice lists the background subagents that
/// ended together with the previous run. Returns `None` if there were no such subagents.
pub(super) fn lost_in_background(conversation: &Conversation) -> Option<String> {
    let (mut launched, mut told) = (Vec::new(), String::new());
    for block in conversation.messages().iter().flat_map(|message| &message.blocks) {
        match block {
            Block::ToolResult { content: Some(content), .. } => {
                let text = content.text();
                let id = text.strip_prefix(LAUNCHED).and_then(|rest| rest.lines().next());
                launched.extend(id.map(str::to_owned));
            }
            block => told.extend(block.as_text()),
        }
    }
    let is_lost = |id: &&String| !told.contains(&format!("<task_id>{id}</task_id>"));
    let lost: Vec<String> =
        launched.iter().filter(is_lost).map(|id| format!("<task_id>{id}</task_id>")).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "<task_notification>\n{}\n<status>killed</status>\n<message>These subagents in the background ended with the run \
             before. Send them out again if their jobs are still to be done.</message>\n</task_notification>",
            lost.join("\n")
        )
    })
}

/// Returns the tool result that refuses a model because its price is unknown and the run has a cost
/// limit.
pub(super) fn no_price(model: &str) -> ToolOutcome {
    ToolOutcome::refused(format_args!(
        "What {model} costs is not known, and this run ends at a cost. Leave the model out, or name one with a price"
    ))
}

/// Returns the tool result that refuses a model because it cannot be opened.
pub(super) fn unusable(
    model: &str,
    error: &pitcrew_model::ModelError,
    openable: &str,
) -> ToolOutcome {
    let there_are = if openable.is_empty() {
        String::new()
    } else {
        format!(". This run can open: {openable}")
    };
    ToolOutcome::refused(format_args!("cannot use the model {model}: {}{there_are}", chain(error)))
}
