//! Runs one tool call in this order: the hooks before the call, the permission gate, the tool, and
//! the hooks after the call.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_agent::transcript::ToolCall;
use pitcrew_agent::{Ending, Event, Judgement, Judging, Question, Role, TurnEnd};
use pitcrew_permission::gate::{Call, Gate, Judged, Verdict};
use pitcrew_process::sandbox::Profile;
use pitcrew_protocol::{
    AgentName, CallEffect, LEAD_NAME, PermissionMode, StatusChange, TaskStatus, TeamCall,
    ToolTraits, canonical_tool, neutralised, tool_name,
};
use pitcrew_tools::{ToolContext, ToolOutcome};
use serde_json::{Value, json};

use super::agent_context::AgentContext;
use crate::events::RunEvent;
use crate::hooks::{Decision, HookKind, HookOutcome, HookScope, TaskFields, reminder};
use crate::team_tools::plan_of;

/// A call that works on a file, with the file's real path that the permission gate has checked. A
/// permission for the call is valid only for this path.
pub(super) struct JudgedCall {
    pub(super) call: ToolCall,
    pub(super) path: PathBuf,
}

/// Asks the hooks first, then the permission gate. A call of an unknown tool is refused at once,
/// without the hooks and the gate.
pub(super) async fn judge(
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    judging: Judging,
) -> (Event, Option<JudgedCall>) {
    let Judging { mut call, mode } = judging;
    if let Err(unknown) = agent_context.tools.find(canonical_tool(&call.tool)) {
        let judgement = Judgement::Deny { reason: for_the_model(unknown.text) };
        let judged =
            Event::Judged { call: call.id, replaced: None, judgement, context: Vec::new() };
        return (judged, None);
    }
    let kind = HookKind::PreToolUse {
        tool_name: call.tool.clone(),
        tool_input: call.input.clone(),
        tool_use_id: call.id.clone(),
    };
    let said = run_hooks(&agent_context, &gate, mode, &kind).await;
    let context = said.additional_context.iter().map(|text| reminder(&kind, text)).collect();
    let denied = match &said.decision {
        Some(Decision::Deny { reason }) => Some(reason.clone()),
        Some(Decision::Allow { .. } | Decision::Ask { .. }) | None => None,
    };
    if let Some(reason) = said.stop.or(denied) {
        let judgement = Judgement::Deny { reason: for_the_model(reason) };
        return (Event::Judged { call: call.id, replaced: None, judgement, context }, None);
    }
    // Everything from here on is about the input that will run: the gate's rules, the question, and
    // the checks of the file.
    let replaced = said.updated_input;
    call.input = replaced.clone().unwrap_or(call.input);
    let (judgement, path) = judge_input(&agent_context, &gate, mode, &call, said.decision).await;
    let judgement = match judgement {
        Judgement::Deny { reason } => Judgement::Deny { reason: for_the_model(reason) },
        judgement @ (Judgement::Allow { .. } | Judgement::Ask(_)) => judgement,
    };
    let event = Event::Judged { call: call.id.clone(), replaced, judgement, context };
    (event, path.map(|path| JudgedCall { call, path }))
}

/// Judges the input with which the call would run.
async fn judge_input(
    agent_context: &AgentContext,
    gate: &Gate,
    mode: PermissionMode,
    call: &ToolCall,
    decision: Option<Decision>,
) -> (Judgement, Option<PathBuf>) {
    let to_judge = to_judge(agent_context, call);
    let judged = gate.judge_path(mode, &to_judge);
    let link_refusal = judged.link_refusal();
    let submits_plan = ToolTraits::of(&call.tool).effect == CallEffect::SubmitsPlan;
    // No hook answers for a person where a rule demands that a person is asked.
    let decision = decision.filter(|decision| {
        !matches!(decision, Decision::Allow { .. }) || !gate.has_ask_rule_for(&to_judge)
    });
    let judgement = with_decision(decision, judged.verdict);
    match (judgement, judged.path, link_refusal) {
        (judgement, _, _) if agent_context.role == Role::Lead && submits_plan => {
            (own_plan(agent_context, mode, call, judgement).await, None)
        }
        (Judgement::Ask(_), _, Some(reason)) => (Judgement::Deny { reason }, None),
        (Judgement::Ask(question), Some(path), None) => {
            let pointless = pointless(agent_context, gate, &to_judge, mode, &path).await;
            (pointless.unwrap_or(Judgement::Ask(question)), Some(path))
        }
        (judgement, path, _) => (judgement, path),
    }
}

fn to_judge<'a>(agent_context: &'a AgentContext, call: &'a ToolCall) -> Call<'a> {
    Call {
        tool: &call.tool,
        input: &call.input,
        cwd: &agent_context.context.cwd,
        plan_file: Some(&agent_context.plan_file),
    }
}

/// Refuses a call that would fail even if it was allowed, so that no person is asked about such a
/// call.
///
/// The text of the refusal reveals something about the file. This function therefore checks only a
/// file that the agent is allowed to read without asking. It also checks only the file that the
/// permission request is about.
async fn pointless(
    agent_context: &AgentContext,
    gate: &Gate,
    call: &Call<'_>,
    mode: PermissionMode,
    judged: &Path,
) -> Option<Judgement> {
    let reading = json!({"file_path": judged});
    let Judged { verdict, path, .. } =
        gate.judge_path(mode, &Call { tool: tool_name::READ, input: &reading, ..*call });
    if !matches!(verdict, Verdict::Allow { .. }) || path.as_deref() != Some(judged) {
        return None;
    }
    let context = ToolContext { judged: path, ..agent_context.context.clone() };
    let outcome = agent_context
        .tools
        .find(canonical_tool(call.tool))
        .ok()?
        .refusal(call.input, &context)
        .await?;
    Some(Judgement::Deny { reason: outcome.text })
}

/// Judges the lead's own plan. Even if rules and hooks allow the call, the user decides about the
/// plan.
async fn own_plan(
    agent_context: &AgentContext,
    mode: PermissionMode,
    call: &ToolCall,
    judgement: Judgement,
) -> Judgement {
    if let Judgement::Deny { .. } = judgement {
        return judgement;
    }
    if mode != PermissionMode::Plan {
        return Judgement::Deny {
            reason: "You are not in plan mode, and need no approval".to_owned(),
        };
    }
    match plan_of(&call.input, &agent_context.plan_file, agent_context.context.limits.file_bytes)
        .await
    {
        Ok(_plan) => {
            Judgement::Ask(Question { description: String::new(), suggestions: Vec::new() })
        }
        Err(reason) => Judgement::Deny { reason },
    }
}

/// Runs the hooks for an event, and shows problems of the hooks in the user interface.
async fn run_hooks(
    agent_context: &AgentContext,
    gate: &Gate,
    mode: PermissionMode,
    kind: &HookKind,
) -> HookOutcome {
    let scope = HookScope {
        gate: Some(gate),
        background: Some(&agent_context.background_hooks),
        cancel: &agent_context.context.cancel,
    };
    let event = agent_context.hook_event(mode, kind.clone());
    let mut said = agent_context.hooks.run(&event, scope).await;
    for text in std::mem::take(&mut said.warnings) {
        agent_context.sink.tell(RunEvent::Warning { text }).await;
    }
    said
}

/// Returns the texts of the hooks that ran in the background and have ended, and shows their
/// problems in the user interface.
async fn late_texts(agent_context: &AgentContext) -> Vec<String> {
    let mut texts = Vec::new();
    for outcome in agent_context.background_hooks.ended() {
        for text in outcome.warnings {
            agent_context.sink.tell(RunEvent::Warning { text }).await;
        }
        texts.extend(outcome.additional_context);
    }
    texts
}

/// Combines the decision of the hooks with the verdict of the permission gate. A hook can skip the
/// permission request or demand one. A denial by the gate always stays.
fn with_decision(decision: Option<Decision>, verdict: Verdict) -> Judgement {
    match (verdict, decision) {
        (Verdict::Deny { reason }, _) | (_, Some(Decision::Deny { reason })) => {
            Judgement::Deny { reason }
        }
        (Verdict::Allow { profile }, None | Some(Decision::Allow { .. })) => {
            Judgement::Allow { profile }
        }
        // The user configured the hook, so the hook's decision counts as the user's decision. Like
        // a rule of the user's, it means the command and not what a repository makes of it.
        (Verdict::Ask { is_about_repository: false, .. }, Some(Decision::Allow { .. })) => {
            Judgement::Allow { profile: Profile::Free }
        }
        (Verdict::Ask { description, suggestions, .. }, _) => {
            Judgement::Ask(Question { description, suggestions })
        }
        (Verdict::Allow { .. }, Some(Decision::Ask { reason })) => {
            Judgement::Ask(Question { description: reason, suggestions: Vec::new() })
        }
    }
}

/// Returns the real path that a call works on. If the permission gate has already judged the call,
/// this is the judged path. Otherwise the gate judges the call now, so that denied calls stay
/// denied. Two kinds of calls are not judged yet: calls repeated after a crash, and calls whose
/// input a person changed when allowing them.
pub(super) fn judged_path(
    agent_context: &AgentContext,
    gate: &Gate,
    mode: PermissionMode,
    call: &ToolCall,
    judged: Option<JudgedCall>,
) -> Result<Option<PathBuf>, String> {
    if !Gate::is_about_file(&call.tool) {
        return Ok(None);
    }
    if let Some(judged) = judged.filter(|judged| judged.call == *call) {
        return Ok(Some(judged.path));
    }
    let judged = gate.judge_path(mode, &to_judge(agent_context, call));
    let link_refusal = judged.link_refusal();
    match (judged.verdict, link_refusal) {
        (Verdict::Deny { reason }, _) | (Verdict::Ask { .. }, Some(reason)) => Err(reason),
        (Verdict::Allow { .. }, _) | (Verdict::Ask { .. }, None) => Ok(judged.path),
    }
}

/// Runs a call that is already allowed.
pub(super) async fn run(
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    mode: PermissionMode,
    call: ToolCall,
    profile: Profile,
    judged: Option<JudgedCall>,
) -> Event {
    let started = RunEvent::ToolStarted {
        agent: agent_context.name.clone(),
        call: call.id.clone(),
        tool: call.tool.clone(),
        input: call.input.clone(),
    };
    agent_context.sink.tell(started).await;
    let path = match task_hooks(&agent_context, &gate, mode, &call).await {
        Some(reason) => Err(reason),
        None => judged_path(&agent_context, &gate, mode, &call, judged),
    };
    let outcome = match path {
        Err(reason) => ToolOutcome::refused(reason),
        Ok(judged) => {
            let call_name = call_name(&agent_context.name, &call);
            let context = ToolContext {
                call: call_name,
                gate: gate.clone(),
                mode,
                profile,
                judged,
                ..agent_context.context.clone()
            };
            agent_context.tools.call(canonical_tool(&call.tool), call.input.clone(), &context).await
        }
    };
    let kind = HookKind::PostToolUse {
        tool_name: call.tool.clone(),
        tool_input: call.input,
        tool_response: outcome.data.clone(),
        tool_use_id: call.id.clone(),
    };
    let said = run_hooks(&agent_context, &gate, mode, &kind).await;
    let late = late_texts(&agent_context).await;
    let context = said
        .feedback
        .iter()
        .chain(&said.additional_context)
        .chain(&late)
        .map(|text| reminder(&kind, text))
        .collect();
    let seen = agent_context.context.reads.take_news();
    let ending = Ending {
        text: for_the_model(outcome.text),
        data: outcome.data,
        is_error: outcome.is_error,
        context,
        seen,
    };
    Event::ToolFinished { call: call.id, ending }
}

/// Added to a result in which a tag was rewritten. Without it, a model that writes the whole file
/// anew would change the tag in the file.
const REWRITTEN: &str = "\n\n(Above, `&lt;` before the name of a tag of this conversation stands for the sign itself. Edit reads it \
    so in `old_string` and `new_string`; elsewhere write the sign.)";

/// Rewrites the tags of the conversation in the text of a result. A file, an output of a command or
/// a task may contain them, and the model would read them as messages or as notes of pitcrew.
fn for_the_model(text: String) -> String {
    match neutralised(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(rewritten) => rewritten + REWRITTEN,
    }
}

/// Returns a name for the call that is unique in the team. By this name, the team recognises a call
/// that it has already carried out.
pub(crate) fn call_name(agent: &AgentName, call: &ToolCall) -> String {
    format!("{agent}:{}", call.key)
}

/// Runs the hooks that come before a task is created or completed. If a hook objects, this function
/// returns the objection, and the call does not run.
async fn task_hooks(
    agent_context: &AgentContext,
    gate: &Gate,
    mode: PermissionMode,
    call: &ToolCall,
) -> Option<String> {
    let teammate = (agent_context.role == Role::Teammate).then(|| agent_context.name.to_string());
    let fields = |task_id, task_subject, task_description| TaskFields {
        task_id,
        task_subject,
        task_description,
        teammate_name: teammate.clone(),
        team_name: Some(agent_context.team.name().to_string()),
    };
    let kind = match TeamCall::parse(&call.tool, call.input.clone())? {
        Ok(TeamCall::TaskCreate(input)) => {
            HookKind::TaskCreated(fields(String::new(), input.subject, input.description))
        }
        Ok(TeamCall::TaskUpdate(input))
            if input.status == Some(StatusChange::To(TaskStatus::Completed)) =>
        {
            let task = agent_context.team.task(&input.task_id).await.ok()?;
            HookKind::TaskCompleted(fields(task.id.to_string(), task.subject, task.description))
        }
        Ok(_) | Err(_) => return None,
    };
    run_hooks(agent_context, gate, mode, &kind).await.feedback
}

/// The number of times in a row that hooks can keep an agent from ending its turn. The number is
/// the reference client's.
const MOST_STOPS_REFUSED: u32 = 8;

/// Runs the hooks that the settings define for the end of a turn. `refused` is how often in a row
/// hooks have kept the agent going already.
pub(super) async fn end_turn(
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    mode: PermissionMode,
    end: TurnEnd,
    refused: u32,
) -> Event {
    let stop_hook_active = refused > 0;
    let kind = match agent_context.role {
        Role::Lead => HookKind::Stop { stop_hook_active },
        Role::Teammate => HookKind::TeammateIdle {
            teammate_name: agent_context.name.to_string(),
            team_name: agent_context.team.name().to_string(),
            stop_hook_active,
        },
        Role::Subagent => HookKind::SubagentStop {
            stop_hook_active,
            agent_id: agent_context.name.to_string(),
            agent_transcript_path: agent_context.transcript_file.clone(),
            agent_type: agent_context.agent_type.clone().unwrap_or_default(),
        },
    };
    let said = run_hooks(&agent_context, &gate, mode, &kind).await;
    tracing::debug!(agent = %agent_context.name, text = end.text.as_deref().unwrap_or_default(), "a turn ends");
    let mut keep_going = said.feedback.filter(|_| said.stop.is_none());
    if keep_going.is_some() && refused >= MOST_STOPS_REFUSED {
        keep_going = None;
        let text = format!(
            "{} was kept going {MOST_STOPS_REFUSED} times in a row, and its turn ends now: the {} hook {} refuses each time, also when `stop_hook_active` is true",
            agent_context.name,
            kind.name(),
            said.refused_by.join(" and ")
        );
        agent_context.sink.tell(RunEvent::Warning { text }).await;
    }
    Event::HookAnswered { keep_going: keep_going.map(|text| reminder(&kind, &text)) }
}

/// If the call sent a message to another teammate, returns a summary of this message. The notice
/// that tells the lead that the agent is idle contains the summary. Returns `None` for all other
/// calls.
pub(super) fn peer_mail(call: &ToolCall, ending: &Ending) -> Option<String> {
    const SHOWN_CHARS: usize = 80;
    let sends = ToolTraits::of(&call.tool).effect == CallEffect::SendsMessage;
    let is_sent = sends && !ending.is_error && ending.data.get("recipients").is_none();
    let routing = ending.data.get("routing").filter(|_| is_sent)?;
    let text = |field: &str| {
        routing.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    };
    let peer = text("target")?.trim_start_matches('@');
    let about = text("summary").or_else(|| text("content"))?;
    let about: String = about.chars().take(SHOWN_CHARS).collect();
    (peer != LEAD_NAME).then(|| format!("[to {peer}] {about}"))
}

/// Formats a call and its result as text for the agent's output file, which people and the lead
/// read.
pub(super) fn in_words(call: &ToolCall, ending: &Ending) -> String {
    const SHOWN_CHARS: usize = 2_000;
    let input = match &call.input {
        Value::Object(fields) => fields
            .get("command")
            .or_else(|| fields.get("file_path"))
            .and_then(Value::as_str)
            .map_or_else(|| call.input.to_string(), str::to_owned),
        other => other.to_string(),
    };
    let shown: String = ending.text.chars().take(SHOWN_CHARS).collect();
    let mark = if ending.is_error { "failed: " } else { "" };
    format!("> {}: {input}\n{mark}{shown}\n", call.tool)
}
