//! Handles the tool calls of one turn: the permission gate judges each call, a person or the lead
//! is asked if necessary, the call runs, and its result is recorded. Consecutive read-only calls
//! run at the same time, and other calls run one by one.
//!
//! After a crash, this module handles the calls without a result again. The transcript shows how
//! far each call came. A call that must run only once is therefore not run again, and every call
//! gets a result.

use pitcrew_model::{Block, INTERRUPTED};
use pitcrew_protocol::{CallEffect, MessageId, SandboxProfile, Status, ToolTraits};
use serde_json::Value;

use super::machine::{Agent, Phase};
use super::repeats::{self, Again};
use super::{
    Answerer, Effect, Effects, Ending, Inspection, Judgement, Judging, Question, Settlement,
};
use crate::Digest;
use crate::transcript::{Grant, OpenCall, Reached, Step, ToolCall};

/// The description in a permission request that was sent before a crash and must be sent again.
const ASKED_BEFORE: &str = "it was asked about before a crash, and has no answer";

/// The stage of a tool call that has no result yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// The hooks and the permission gate are deciding about the call.
    Judging,
    /// The call waits for an answer to its permission request. The value is the id of the request,
    /// or `None` until the request is in an inbox.
    Asking(Option<String>),
    /// A crash interrupted the call, and its effects are being inspected.
    Inspecting,
    /// The call is running. The value contains the input with which it runs.
    Running(ToolCall),
}

impl Agent {
    pub(super) fn has_calls_to_make(&self) -> bool {
        !self.conversation.open_calls().is_empty()
    }

    /// Starts the next calls. If the next call is read-only, starts it together with all read-only
    /// calls directly after it. Otherwise starts only the next call.
    pub(super) fn make_calls(&mut self, fx: &mut Effects) {
        let is_read_only = |open: &&OpenCall| self.traits(&open.call.tool).is_read_only;
        let open = self.conversation.open_calls();
        let mut batch: Vec<OpenCall> = open.iter().take_while(is_read_only).cloned().collect();
        if batch.is_empty() {
            // A call that can change something runs alone. Its effects then do not mix with the
            // effects of other calls.
            batch.extend(open.first().cloned());
        }
        self.stages = batch.iter().map(|open| (open.call.id.clone(), Stage::Judging)).collect();
        for open in batch {
            self.make_call(open, fx);
        }
    }

    fn make_call(&mut self, open: OpenCall, fx: &mut Effects) {
        let OpenCall { mut call, original, reached } = open;
        if let Value::String(written) = &call.input {
            let text = format!(
                "<tool_use_error>InputValidationError: the input of {} is not a JSON object, or is nested too deeply: {}</tool_use_error>",
                call.tool,
                written.chars().take(200).collect::<String>()
            );
            return self.refuse(&call.id, text, fx);
        }
        match reached {
            Reached::Nothing => {
                // After a crash, the hooks get the input that the model wrote once more. A hook that
                // adds to the input would otherwise add to it twice.
                call.input = original.unwrap_or(call.input);
                fx.push(Effect::Judge(Judging { call, mode: self.mode }));
            }
            Reached::Asked { request } => {
                self.set_stage(&call.id, Stage::Asking(Some(request)));
                let question =
                    Question { description: ASKED_BEFORE.to_owned(), suggestions: Vec::new() };
                fx.push(Effect::AskPermission { call, question });
            }
            Reached::Granted(grant) => self.follow(call, grant, fx),
            Reached::Began => self.recover(call, fx),
        }
    }

    /// Handles a call that had already started when a crash came.
    fn recover(&mut self, call: ToolCall, fx: &mut Effects) {
        match self.effect(&call.tool) {
            CallEffect::WritesFile | CallEffect::EditsFile => {
                self.set_stage(&call.id, Stage::Inspecting);
                fx.push(Effect::Inspect(call));
            }
            CallEffect::None
            | CallEffect::SubmitsPlan
            | CallEffect::SendsMessage
            | CallEffect::StartsAgent
            | CallEffect::CreatesTask
            | CallEffect::ChangesTask
            | CallEffect::ChecksTasks
            | CallEffect::EndsTeam => {
                let text = format!(
                    "{INTERRUPTED} The run ended while {} was at work. It may have run in part: look before you run it again.",
                    call.tool
                );
                self.refuse(&call.id, text, fx);
            }
        }
    }

    pub(super) fn inspected(&mut self, id: &str, inspection: Inspection, fx: &mut Effects) {
        let Some(call) = self.open_at(id, &Stage::Inspecting) else { return };
        match inspection {
            Inspection::Done { text, seen } => {
                let ending =
                    Ending { text, data: Value::Null, is_error: false, context: Vec::new(), seen };
                self.close(&call, ending, fx);
            }
            Inspection::Undone => self.run(call, SandboxProfile::Free, fx),
            Inspection::Unknown => {
                let text = format!(
                    "{INTERRUPTED} The run ended while {} was at work. Read the file before you go on.",
                    call.tool
                );
                self.refuse(id, text, fx);
            }
        }
    }

    /// Replaces the input of a call that is being judged by the input that a hook gave. The step is
    /// written before the call is asked about or started, so that a resumed agent asks about and
    /// runs the same input.
    pub(super) fn replace_input(&mut self, id: &str, replaced: Option<Value>, fx: &mut Effects) {
        if self.stage(id) != Some(&Stage::Judging) {
            return;
        }
        let Some(open) = self.conversation.open_calls().iter().find(|open| open.call.id == id)
        else {
            return;
        };
        // If the hooks replace nothing this time, an earlier replacement of a run that crashed does
        // not count either.
        if let Some(input) = replaced.or_else(|| open.original.clone())
            && input != open.call.input
        {
            self.write(vec![Step::Replaced { call: id.to_owned(), input }], fx);
        }
    }

    pub(super) fn judged(
        &mut self,
        id: &str,
        judgement: Judgement,
        remarks: Vec<String>,
        fx: &mut Effects,
    ) {
        let Some(call) = self.open_at(id, &Stage::Judging) else { return };
        if !remarks.is_empty() {
            self.remarks.push((id.to_owned(), remarks));
        }
        let judgement = match (self.repeats.before(&call), judgement) {
            (Again::Stop, _) => {
                self.repeats.has_stopped = true;
                return self.finish(Status::Failed, Some(repeats::stopped(&call)), fx);
            }
            (Again::Ask, Judgement::Allow { .. }) => {
                let description = format!(
                    "{} once more: the same call had the same result ten times in a row",
                    call.tool
                );
                Judgement::Ask(Question { description, suggestions: Vec::new() })
            }
            (Again::Ask, judgement @ Judgement::Deny { .. }) => {
                self.repeats.answered(&call);
                judgement
            }
            (Again::Ask, judgement @ Judgement::Ask(_)) | (Again::Fine, judgement) => judgement,
        };
        match judgement {
            Judgement::Allow { profile } => self.run(call, profile, fx),
            Judgement::Deny { reason } => self.refuse(id, reason, fx),
            Judgement::Ask(question) => {
                self.set_stage(id, Stage::Asking(None));
                fx.push(Effect::AskPermission { call, question });
            }
        }
    }

    pub(super) fn asked(&mut self, id: &str, request: String, fx: &mut Effects) {
        let is_news = match self.stage(id) {
            Some(Stage::Asking(None)) => true,
            Some(Stage::Asking(Some(known))) => *known != request,
            Some(Stage::Judging | Stage::Inspecting | Stage::Running(_)) | None => false,
        };
        if is_news && self.open_call(id).is_some() {
            self.set_stage(id, Stage::Asking(Some(request.clone())));
            self.write(vec![Step::Asked { call: id.to_owned(), request }], fx);
            // An answer arrived before its permission request was on disk, and stayed unread. Read
            // it now.
            if std::mem::take(&mut self.has_early_answer) {
                fx.push(Effect::TakeMail);
            }
        }
    }

    /// Whether some call without a result can still send a permission request. After a crash, an
    /// answer can arrive before its request is sent again.
    pub(super) fn may_yet_ask(&self) -> bool {
        self.conversation.open_calls().iter().any(|open| open.reached == Reached::Nothing)
    }

    /// Whether some call without a result has possibly sent a plan with this request id.
    pub(super) fn may_yet_send_plan(&self, request: &str) -> bool {
        let sends_plan = |open: &OpenCall| self.effect(&open.call.tool) == CallEffect::SubmitsPlan;
        self.conversation.plan() != Some(request)
            && self.conversation.open_calls().iter().any(sends_plan)
    }

    /// Whether one of the calls without a result approves the agent's shutdown. If this call
    /// succeeds, the agent ends.
    pub(super) fn is_agreeing_to_shut_down(&self) -> bool {
        let agrees = |open: &OpenCall| {
            self.effect(&open.call.tool) == CallEffect::SendsMessage
                && shutdown_answer(&open.call.input) == Some(true)
        };
        self.conversation.open_calls().iter().any(agrees)
    }

    /// Whether one of the last calls approved the shutdown and succeeded. If so, a crash came
    /// before the agent's end was written.
    pub(super) fn has_agreed_to_shut_down(&self) -> bool {
        self.has_just_called(|effect, input| {
            effect == CallEffect::SendsMessage && shutdown_answer(input) == Some(true)
        })
    }

    /// Whether the last calls of the model sent a message, and the model has written nothing since.
    pub(super) fn has_just_sent(&self) -> bool {
        self.has_just_called(|effect, _| effect == CallEffect::SendsMessage)
    }

    /// Whether the conversation ends with the results of tool calls, and one of these calls
    /// satisfies `is_meant` and succeeded.
    fn has_just_called(&self, is_meant: impl Fn(CallEffect, &Value) -> bool) -> bool {
        let [.., turn, results] = self.conversation.messages() else { return false };
        let has_succeeded = |call: &str| {
            results.blocks.iter().any(
                |block| matches!(block, Block::ToolResult { tool_use_id, is_error: false, .. } if tool_use_id == call),
            )
        };
        turn.blocks.iter().any(|block| match block {
            Block::ToolUse { id, name, input, .. } => {
                is_meant(self.effect(name), input) && has_succeeded(id)
            }
            _ => false,
        })
    }

    /// Returns the id of the call that waits for the answer to the permission request `request`.
    ///
    /// After a crash, the call is possibly not in progress yet. The transcript still contains the
    /// request.
    pub(super) fn call_asked_in(&self, request: &str) -> Option<String> {
        let waits = |open: &&OpenCall| matches!(&open.reached, Reached::Asked { request: asked } if asked == request);
        self.conversation.open_calls().iter().find(waits).map(|open| open.call.id.clone())
    }

    /// Checks an answer to a permission request about the call `id`. If the answer allows the call,
    /// but the digest shows that it was given for another call, returns a refusal. Otherwise
    /// returns the answer unchanged.
    pub(super) fn if_for(&self, id: &str, grant: Grant, digest: Option<&Digest>) -> Grant {
        let is_other = |call: ToolCall| {
            digest.is_some_and(|shown| *shown != Digest::of_call(&call.tool, &call.input))
        };
        match grant {
            Grant::Allowed { .. } if self.open_call(id).is_some_and(is_other) => Grant::Denied {
                reason: "the person who allowed it was shown a different call".to_owned(),
            },
            Grant::Allowed { .. } | Grant::Denied { .. } => grant,
        }
    }

    pub(super) fn granted(
        &mut self,
        id: &str,
        ids: Vec<MessageId>,
        grant: Grant,
        fx: &mut Effects,
    ) {
        let Some(call) = self.open_call(id) else { return };
        let is_up = matches!(self.stage(id), Some(Stage::Asking(_)));
        // An answer without message ids did not come by mail: a person gave it at the agent's own
        // terminal, for example. It counts only while the call waits for an answer. If both a
        // person and the lead answer, the first answer counts.
        if ids.is_empty() && !is_up {
            return;
        }
        self.repeats.answered(&call);
        let by = if ids.is_empty() { Answerer::Here } else { Answerer::Lead };
        let request = self.asked_for(id);
        self.write(
            vec![Step::Granted { ids: ids.clone(), call: id.to_owned(), grant: grant.clone() }],
            fx,
        );
        if !ids.is_empty() {
            fx.push(Effect::Acknowledge(ids));
        }
        if let Grant::Allowed { updates, .. } = &grant
            && !updates.is_empty()
        {
            fx.push(Effect::Permit(updates.clone()));
        }
        if let Some(request) = request {
            let refused = match &grant {
                Grant::Allowed { .. } => None,
                Grant::Denied { reason } => Some(reason.clone()),
            };
            fx.push(Effect::Settle(Settlement { call: id.to_owned(), request, by, refused }));
        }
        if is_up {
            self.follow(call, grant, fx);
        }
    }

    fn follow(&mut self, mut call: ToolCall, grant: Grant, fx: &mut Effects) {
        match grant {
            Grant::Allowed { input, .. } => {
                call.input = input.unwrap_or(call.input);
                self.run(call, SandboxProfile::Free, fx);
            }
            Grant::Denied { reason } => {
                let text = format!("Permission denied for {}: {reason}", call.tool);
                self.refuse(&call.id, text, fx);
            }
        }
    }

    fn run(&mut self, call: ToolCall, profile: SandboxProfile, fx: &mut Effects) {
        let ToolTraits { effect, is_read_only, is_repeatable, .. } = self.traits(&call.tool);
        // The call that starts a subagent must not be repeated after a crash, because the team
        // cannot recognise a subagent that the first attempt started. The team recognises a
        // teammate by its name.
        let starts_subagent = effect == CallEffect::StartsAgent && call.input.get("name").is_none();
        if !(is_read_only || is_repeatable) || starts_subagent {
            self.write(vec![Step::Began { call: call.id.clone() }], fx);
        }
        self.set_stage(&call.id, Stage::Running(call.clone()));
        fx.push(Effect::Run(call, profile, effect));
    }

    fn refuse(&mut self, id: &str, text: String, fx: &mut Effects) {
        if let Some(call) = self.open_call(id) {
            let data = Value::String(format!("Error: {text}"));
            let ending =
                Ending { text, data, is_error: true, context: Vec::new(), seen: Vec::new() };
            self.close(&call, ending, fx);
        }
    }

    pub(super) fn ended(&mut self, id: &str, ending: Ending, fx: &mut Effects) {
        if let Some(Stage::Running(call)) = self.stage(id).cloned() {
            self.close(&call, ending, fx);
        }
    }

    /// Records the result of a call. If all calls that were started together with this call have
    /// results, enters the next boundary (the moment between two steps of a turn).
    fn close(&mut self, call: &ToolCall, mut ending: Ending, fx: &mut Effects) {
        if let Some(at) = self.remarks.iter().position(|(id, _)| *id == call.id) {
            let (_, remarks) = self.remarks.swap_remove(at);
            ending.context.splice(..0, remarks);
        }
        let effect = self.effect(&call.tool);
        if self.repeats.note(call, effect, &ending.text) {
            ending.context.push(repeats::TOLD.to_owned());
        }
        let mut steps = vec![Step::Result {
            call: call.id.clone(),
            text: ending.text.clone(),
            is_error: ending.is_error,
            context: ending.context.clone(),
            seen: ending.seen.clone(),
        }];
        let meaning =
            if ending.is_error { Meaning::Nothing } else { Meaning::of(effect, call, &ending) };
        match &meaning {
            Meaning::PlanSent(request) => steps.push(Step::PlanSent { request: request.clone() }),
            Meaning::ShutdownRefused => steps.push(Step::ShutdownRefused),
            Meaning::ShutdownApproved | Meaning::Nothing => {}
        }
        self.stages.retain(|(id, _)| *id != call.id);
        self.write(steps, fx);
        fx.push(Effect::Report(call.clone(), ending));
        // The approval is already in the transcript. If a crash comes before the agent ends, the
        // resumed agent finds the approval there.
        if meaning == Meaning::ShutdownApproved {
            self.finish(Status::Completed, None, fx);
        } else if self.stages.is_empty() {
            self.boundary(Phase::Boundary, fx);
        }
    }

    /// Returns the id of the permission request to the lead about this call, if it is still open.
    pub(super) fn asked_for(&self, id: &str) -> Option<String> {
        let open = self.conversation.open_calls().iter().find(|open| open.call.id == id)?;
        match &open.reached {
            Reached::Asked { request } => Some(request.clone()),
            Reached::Nothing | Reached::Granted(_) | Reached::Began => None,
        }
    }

    fn traits(&self, tool: &str) -> ToolTraits {
        self.profile.tools.traits(tool)
    }

    fn effect(&self, tool: &str) -> CallEffect {
        self.traits(tool).effect
    }

    fn open_call(&self, id: &str) -> Option<ToolCall> {
        self.conversation
            .open_calls()
            .iter()
            .find(|open| open.call.id == id)
            .map(|open| open.call.clone())
    }

    fn open_at(&self, id: &str, stage: &Stage) -> Option<ToolCall> {
        self.open_call(id).filter(|_| self.stage(id) == Some(stage))
    }

    fn stage(&self, id: &str) -> Option<&Stage> {
        self.stages.iter().find(|(known, _)| known == id).map(|(_, stage)| stage)
    }

    fn set_stage(&mut self, id: &str, stage: Stage) {
        if let Some(entry) = self.stages.iter_mut().find(|(known, _)| known == id) {
            entry.1 = stage;
        }
    }
}

/// What a successful tool call means for the state of the agent.
#[derive(Debug, PartialEq)]
enum Meaning {
    /// The call sent a plan to the lead. The value is the id of the approval request.
    PlanSent(String),
    /// With the call, the agent approved its shutdown.
    ShutdownApproved,
    /// With the call, the agent refused its shutdown.
    ShutdownRefused,
    /// The call does not change the state of the agent.
    Nothing,
}

impl Meaning {
    fn of(effect: CallEffect, call: &ToolCall, ending: &Ending) -> Self {
        match effect {
            CallEffect::SubmitsPlan => {
                let request = ending.data.get("requestId").and_then(Value::as_str);
                request.map_or(Self::Nothing, |request| Self::PlanSent(request.to_owned()))
            }
            CallEffect::SendsMessage => match shutdown_answer(&call.input) {
                Some(true) => Self::ShutdownApproved,
                Some(false) => Self::ShutdownRefused,
                None => Self::Nothing,
            },
            CallEffect::None
            | CallEffect::WritesFile
            | CallEffect::EditsFile
            | CallEffect::StartsAgent
            | CallEffect::CreatesTask
            | CallEffect::ChangesTask
            | CallEffect::ChecksTasks
            | CallEffect::EndsTeam => Self::Nothing,
        }
    }
}

/// Returns the answer to a shutdown request if the input of SendMessage contains one. The answer is
/// either an object in the field `message`, or the input itself.
fn shutdown_answer(input: &Value) -> Option<bool> {
    let body = input.get("message").filter(|message| message.is_object()).unwrap_or(input);
    let is_answer = body.get("type").and_then(Value::as_str) == Some("shutdown_response");
    body.get("approve").and_then(Value::as_bool).filter(|_| is_answer)
}
