//! Makes spans and measurements from the events of a host and the entries of the team's journal.
//! The fold is pure: times come in the events, and ids are computed from the id of the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanKind, TraceId};
use opentelemetry::{Array, KeyValue, StringValue, Value as SpanValue};
use opentelemetry_sdk::trace::SpanData;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, Status, Task, TaskStatus};
use pitcrew_runtime::events::{
    AgentStarted, Answered, Compacted, RunEvent, RunStarted, Spending, ToolEnded,
};
use pitcrew_runtime::run::{RunEnd, RunOutcome};
use pitcrew_team::store::{Event as Noted, JournalEntry};
use pitcrew_view::host::{HostEvent, What};
use serde_json::Value;

use crate::content::Content;
use crate::conventions as key;
use crate::message_fold::{MessageFold, Persisted, Place};
use crate::model_name::ModelName;
use crate::span::{OpenSpan, Trace};

/// Maximum number of agents, and of tool calls that run at the same time. Others have no span of
/// their own.
const OPEN_MOST: usize = 10_000;

/// The finished spans and the measurements of one event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Signals {
    pub(crate) spans: Vec<SpanData>,
    pub(crate) measured: Vec<Measurement>,
}

/// A measured value.
#[derive(Debug, PartialEq)]
pub(crate) enum Measurement {
    /// A model call.
    Called {
        /// Provider and names of the model.
        attributes: Vec<KeyValue>,
        input_tokens: u64,
        output_tokens: u64,
        /// How long the call took. `None` if it is not known.
        took: Option<Duration>,
    },
    MessageSent,
    MessageDelivered,
    /// Number of tasks with each status.
    Tasks([(TaskStatus, u64); 3]),
    /// Number of permission requests that wait for a person.
    OpenQuestions(u64),
}

/// The state of a run, as far as its spans need it.
#[derive(Debug)]
pub(crate) struct RunFold {
    trace: Trace,
    content: Content,
    session: String,
    team: String,
    run: Option<OpenSpan>,
    /// The span of the run. It stays known after its end, for messages that the journal tells later.
    root: Option<SpanContext>,
    /// All agents, also those that ended.
    agents: BTreeMap<AgentName, Agent>,
    /// The tool calls that run, by agent and id.
    calls: BTreeMap<(AgentName, String), OpenSpan>,
    /// The tool calls that were refused and have no result yet.
    refused: BTreeSet<(AgentName, String)>,
    messages: MessageFold,
    open_questions: BTreeSet<String>,
}

#[derive(Debug)]
struct Agent {
    context: SpanContext,
    /// `None` if the agent ended.
    span: Option<OpenSpan>,
    model: ModelName,
}

/// A model call that ended.
struct Call<'a> {
    agent: &'a AgentName,
    /// The name of the model in the answer.
    model: &'a str,
    usage: Usage,
    cost_usd: Option<f64>,
    took: Option<Duration>,
}

impl RunFold {
    pub(crate) fn new(trace: TraceId, parent: Option<SpanContext>, content: Content) -> Self {
        Self {
            trace: Trace::new(trace, parent),
            content,
            session: String::new(),
            team: String::new(),
            run: None,
            root: None,
            agents: BTreeMap::new(),
            calls: BTreeMap::new(),
            refused: BTreeSet::new(),
            messages: MessageFold::default(),
            open_questions: BTreeSet::new(),
        }
    }

    /// Changes what the spans have of the texts, from now on.
    pub(crate) fn set_content(&mut self, content: Content) {
        self.content = content;
    }

    /// Handles an event of the host.
    pub(crate) fn happened(&mut self, HostEvent { at_ms, what, .. }: &HostEvent) -> Signals {
        let mut signals = Signals::default();
        match what {
            What::Run(event) => self.happened_in_run(event, *at_ms, &mut signals),
            What::QuestionOpened(question) => {
                self.open_questions.insert(question.id.clone());
                signals.measured.push(self.questions());
            }
            What::QuestionClosed { id, .. } => {
                self.open_questions.remove(id);
                signals.measured.push(self.questions());
            }
            What::Tasks(tasks) => signals.measured.push(counted_tasks(tasks)),
            What::Config(_) | What::Notify(_) => {}
            What::Ended(outcome) => {
                let tasks = outcome.tasks.iter().map(|task| task.status);
                signals.measured.push(counted(tasks));
                signals.spans = self.ended(Some(outcome), *at_ms);
            }
        }
        signals
    }

    /// Handles an entry of the team's journal. The journal has the messages of all senders, also
    /// of those in other processes.
    pub(crate) fn noted(&mut self, JournalEntry { at_ms, event }: &JournalEntry) -> Signals {
        let mut signals = Signals::default();
        match event {
            Noted::MessagePersisted { id, from, to, frame, author: _ } => {
                let Some(parent) = self.context_of(from) else { return signals };
                let place = Place { parent: &parent, session: &self.session };
                let message = Persisted { id, from, to, frame: frame.as_deref() };
                if self.messages.persisted(&mut self.trace, &place, &message, *at_ms) {
                    signals.measured.push(Measurement::MessageSent);
                }
            }
            Noted::MessageInjected { id, to } => {
                let Some(parent) = self.context_of(to.as_str()) else { return signals };
                let place = Place { parent: &parent, session: &self.session };
                if self.messages.delivered(&mut self.trace, &place, (id, to), *at_ms) {
                    signals.measured.push(Measurement::MessageDelivered);
                }
            }
            Noted::MessageAcknowledged { id, .. } => {
                signals.spans = self.messages.acknowledged(id, *at_ms);
            }
            Noted::MessageDead { id, .. } => {
                signals.spans = self.messages.failed(id, "dead", *at_ms);
            }
            Noted::FrameRefused { id, .. } => {
                signals.spans = self.messages.failed(id, "refused", *at_ms);
            }
            Noted::TeamCreated { .. }
            | Noted::TeamDeleted { .. }
            | Noted::TeamArchived { .. }
            | Noted::TaskChanged { .. }
            | Noted::Overwritten(_)
            | Noted::MemberChanged { .. }
            | Noted::Started { .. }
            | Noted::Stopped { .. }
            | Noted::Permission { .. }
            | Noted::AllowedAlways { .. }
            | Noted::ConversationCompacted { .. }
            | Noted::TurnEnded(_)
            | Noted::RunStarted { .. }
            | Noted::RunEnded { .. }
            | Noted::EarlierTeams { .. } => {}
        }
        signals
    }

    /// Finishes all spans that are still open.
    pub(crate) fn close(&mut self, at_ms: i64) -> Vec<SpanData> {
        let mut spans = self.messages.close(at_ms);
        spans.extend(self.ended(None, at_ms));
        spans
    }

    fn happened_in_run(&mut self, event: &RunEvent, at_ms: i64, signals: &mut Signals) {
        match event {
            RunEvent::Started(started) => self.run_started(started, at_ms, signals),
            RunEvent::AgentStarted(started) => self.agent_started(started, at_ms, signals),
            RunEvent::AgentChanged { agent, status, .. } if status.is_over() => {
                signals.spans.extend(self.agent_ended(agent, *status, at_ms));
            }
            RunEvent::Answered(answered) => self.answered(answered, at_ms, signals),
            RunEvent::TurnEnded { agent, spending } => {
                let Spending { model, usage, cost_usd, took, tool_calls: _ } = spending;
                let (usage, cost_usd, took) = (*usage, *cost_usd, Some(*took));
                self.called(&Call { agent, model, usage, cost_usd, took }, at_ms, signals, |_| {});
            }
            RunEvent::Compacted(compacted) => self.compacted(compacted, at_ms, signals),
            RunEvent::ToolStarted { agent, call, tool, input } => {
                self.tool_started((agent, call), (tool, input), at_ms);
            }
            RunEvent::ToolEnded(ended) => signals.spans.extend(self.tool_ended(ended, at_ms)),
            RunEvent::PermissionAnswered { agent, call, refused: Some(_), .. } => {
                if self.refused.len() < OPEN_MOST {
                    self.refused.insert((agent.clone(), call.clone()));
                }
            }
            RunEvent::ModelChanged { agent, model } => {
                if let Some(agent) = self.agents.get_mut(agent) {
                    agent.model = ModelName::of(model);
                }
            }
            RunEvent::ModelWaits { agent, delay, .. } => {
                let wait_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                let wait = vec![KeyValue::new(key::WAIT_MS, wait_ms)];
                if let Some(span) = self.agents.get_mut(agent).and_then(|it| it.span.as_mut()) {
                    span.event("pitcrew.model.waits", at_ms, wait);
                }
            }
            RunEvent::AgentChanged { .. }
            | RunEvent::AgentLaunched { .. }
            | RunEvent::TaskChanged { .. }
            | RunEvent::PlanHandedIn { .. }
            | RunEvent::TextDelta { .. }
            | RunEvent::ModelSilent { .. }
            // The journal has the messages, with their exact times.
            | RunEvent::MailDelivered { .. }
            | RunEvent::PermissionAsked { .. }
            | RunEvent::PermissionAnswered { .. }
            | RunEvent::AllowedAlways { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModeRecorded { .. }
            | RunEvent::ShuttingDown { .. }
            | RunEvent::Warning { .. } => {}
        }
    }

    fn run_started(&mut self, started: &RunStarted, at_ms: i64, signals: &mut Signals) {
        // A lead that deletes its team and makes another one begins a new run.
        signals.spans.extend(self.ended(None, at_ms));
        self.session.clone_from(&started.session_id);
        self.team.clone_from(&started.team);
        let mut run = self.trace.root(format!("{} {}", key::INVOKE_WORKFLOW, started.team), at_ms);
        run.set(key::OPERATION, key::INVOKE_WORKFLOW);
        run.name(key::WORKFLOW, &started.team);
        run.name(key::TEAM, &started.team);
        run.name(key::CONVERSATION, &started.session_id);
        run.set(key::RESUMED, started.resumed);
        let parent = run.context().clone();
        self.root = Some(parent.clone());
        self.run = Some(run);
        self.begin_agent(&started.agent, &started.model, &parent, at_ms, |_| {});
    }

    fn agent_started(&mut self, started: &AgentStarted, at_ms: i64, signals: &mut Signals) {
        // An agent that is started again has a new span.
        signals.spans.extend(self.agent_ended(&started.agent, Status::Completed, at_ms));
        let of_call = started.parent_call.as_ref().and_then(|parent| {
            let call = self.calls.iter().find(|((_, call), _)| call == parent)?;
            Some(call.1.context().clone())
        });
        let Some(parent) = of_call.or_else(|| self.root.clone()) else { return };
        self.begin_agent(&started.agent, &started.model, &parent, at_ms, |span| {
            if let Some(agent_type) = &started.agent_type {
                span.name(key::AGENT_TYPE, agent_type);
            }
        });
    }

    fn begin_agent(
        &mut self,
        name: &AgentName,
        model: &str,
        parent: &SpanContext,
        at_ms: i64,
        describe: impl FnOnce(&mut OpenSpan),
    ) {
        if self.agents.len() >= OPEN_MOST && !self.agents.contains_key(name) {
            return;
        }
        let model = ModelName::of(model);
        let title = format!("{} {name}", key::INVOKE_AGENT);
        let mut span = self.trace.child(title, SpanKind::Internal, parent, at_ms);
        span.set(key::OPERATION, key::INVOKE_AGENT);
        span.set(key::PROVIDER, model.provider);
        span.name(key::REQUEST_MODEL, &model.name);
        self.name_agent(&mut span, name);
        describe(&mut span);
        let context = span.context().clone();
        self.agents.insert(name.clone(), Agent { context, span: Some(span), model });
    }

    fn name_agent(&self, span: &mut OpenSpan, agent: &AgentName) {
        span.name(key::AGENT_NAME, agent.as_str());
        span.name(key::AGENT_ID, &format!("{agent}@{}", self.team));
        span.name(key::CONVERSATION, &self.session);
        span.name(key::TEAM, &self.team);
    }

    fn agent_ended(&mut self, name: &AgentName, end: Status, at_ms: i64) -> Option<SpanData> {
        let mut span = self.agents.get_mut(name)?.span.take()?;
        span.set(key::AGENT_END, end.as_str());
        match end {
            Status::Failed | Status::Killed => span.fail(end.as_str()),
            Status::Pending
            | Status::Active
            | Status::Idle
            | Status::AwaitingPlanApproval
            | Status::Parked
            | Status::ShutdownRequested
            | Status::Completed => {}
        }
        Some(span.end(at_ms))
    }

    fn answered(&mut self, it: &Answered, at_ms: i64, signals: &mut Signals) {
        let (usage, cost_usd, took) = (it.usage, it.cost_usd, Some(it.took));
        let call = Call { agent: &it.agent, model: &it.model, usage, cost_usd, took };
        let output = self.content.of_answer(it);
        self.called(&call, at_ms, signals, |span| {
            span.name(key::RESPONSE_ID, &it.message_id);
            let reason = StringValue::from(it.stop.as_str().to_owned());
            span.set(key::FINISH_REASONS, SpanValue::Array(Array::from(vec![reason])));
            span.extend(output);
        });
    }

    fn compacted(&mut self, it: &Compacted, at_ms: i64, signals: &mut Signals) {
        let (usage, cost_usd) = (it.usage, it.cost_usd);
        let call = Call { agent: &it.agent, model: &it.model, usage, cost_usd, took: None };
        self.called(&call, at_ms, signals, |span| span.set(key::IS_COMPACTION, true));
    }

    /// Adds the span and the measurement of a model call.
    fn called(
        &mut self,
        call: &Call<'_>,
        at_ms: i64,
        signals: &mut Signals,
        describe: impl FnOnce(&mut OpenSpan),
    ) {
        let known = self.agents.get(call.agent);
        let model = known.map_or_else(|| ModelName::of(call.model), |it| it.model.clone());
        let Some(parent) = self.context_of(call.agent.as_str()) else { return };
        let answered = ModelName::in_answer(call.model);
        let Usage { input_tokens, output_tokens, .. } = call.usage;
        let Usage { cache_creation_input_tokens, cache_read_input_tokens, .. } = call.usage;
        // The conventions count cached tokens as input too.
        let input_tokens = input_tokens
            .saturating_add(cache_creation_input_tokens)
            .saturating_add(cache_read_input_tokens);
        let began_ms = at_ms.saturating_sub(milliseconds(call.took.unwrap_or_default()));
        let title = format!("{} {}", key::CHAT, model.name);
        let mut span = self.trace.child(title, SpanKind::Client, &parent, began_ms);
        span.set(key::OPERATION, key::CHAT);
        span.set(key::PROVIDER, model.provider);
        span.name(key::REQUEST_MODEL, &model.name);
        span.name(key::RESPONSE_MODEL, &answered);
        span.set(key::INPUT_TOKENS, whole(input_tokens));
        span.set(key::OUTPUT_TOKENS, whole(output_tokens));
        span.set(key::CACHE_READ_TOKENS, whole(cache_read_input_tokens));
        span.set(key::CACHE_CREATION_TOKENS, whole(cache_creation_input_tokens));
        if let Some(cost_usd) = call.cost_usd {
            span.set(key::COST, cost_usd);
        }
        self.name_agent(&mut span, call.agent);
        describe(&mut span);
        signals.spans.push(span.end(at_ms));
        let attributes = vec![
            KeyValue::new(key::OPERATION, key::CHAT),
            KeyValue::new(key::PROVIDER, model.provider),
            KeyValue::new(key::REQUEST_MODEL, model.name),
            KeyValue::new(key::RESPONSE_MODEL, answered),
        ];
        let took = call.took;
        signals.measured.push(Measurement::Called {
            attributes,
            input_tokens,
            output_tokens,
            took,
        });
    }

    fn tool_started(
        &mut self,
        (agent, call): (&AgentName, &str),
        (tool, input): (&str, &Value),
        at_ms: i64,
    ) {
        if self.calls.len() >= OPEN_MOST {
            return;
        }
        let Some(mut span) = self.tool_span((agent, call), tool, at_ms) else { return };
        span.extend(self.content.of_input(input));
        self.calls.insert((agent.clone(), call.to_owned()), span);
    }

    fn tool_span(
        &mut self,
        (agent, call): (&AgentName, &str),
        tool: &str,
        at_ms: i64,
    ) -> Option<OpenSpan> {
        let parent = self.context_of(agent.as_str())?;
        let title = format!("{} {tool}", key::EXECUTE_TOOL);
        let mut span = self.trace.child(title, SpanKind::Internal, &parent, at_ms);
        span.set(key::OPERATION, key::EXECUTE_TOOL);
        span.name(key::TOOL_NAME, tool);
        span.set(key::TOOL_TYPE, "function");
        span.name(key::TOOL_CALL_ID, call);
        self.name_agent(&mut span, agent);
        Some(span)
    }

    fn tool_ended(&mut self, ended: &ToolEnded, at_ms: i64) -> Option<SpanData> {
        let id = (ended.agent.clone(), ended.call.clone());
        let was_refused = self.refused.remove(&id);
        let started = self.calls.remove(&id);
        let has_run = started.is_some();
        // A call that was refused, or was not possible, never started.
        let mut span = match started {
            Some(span) => span,
            None => self.tool_span((&ended.agent, &ended.call), &ended.tool, at_ms)?,
        };
        span.extend(self.content.of_result(&ended.text));
        if ended.is_error {
            span.fail(match (was_refused, has_run) {
                (true, _) => "permission_denied",
                (false, true) => "tool_error",
                (false, false) => "not_run",
            });
        }
        Some(span.end(at_ms))
    }

    /// Finishes the spans of the run and of its agents.
    fn ended(&mut self, outcome: Option<&RunOutcome>, at_ms: i64) -> Vec<SpanData> {
        let calls = std::mem::take(&mut self.calls).into_values();
        let mut spans: Vec<SpanData> = calls
            .map(|mut span| {
                span.fail("interrupted");
                span.end(at_ms)
            })
            .collect();
        self.refused.clear();
        let names: Vec<AgentName> = self.agents.keys().cloned().collect();
        for name in names {
            let summary = outcome.and_then(|it| it.agents.iter().find(|it| it.name == name));
            let end = summary.map_or(Status::Completed, |summary| summary.state);
            spans.extend(self.agent_ended(&name, end, at_ms));
        }
        spans.extend(self.run_ended(outcome, at_ms));
        spans
    }

    fn run_ended(&mut self, outcome: Option<&RunOutcome>, at_ms: i64) -> Option<SpanData> {
        let mut run = self.run.take()?;
        if let Some(outcome) = outcome {
            let (end, is_failure) = in_a_word(&outcome.end);
            run.set(key::RUN_END, end);
            if is_failure {
                run.fail(end);
            }
        }
        Some(run.end(at_ms))
    }

    fn questions(&self) -> Measurement {
        Measurement::OpenQuestions(self.open_questions.len() as u64)
    }

    /// Returns the span of an agent. Of the user, and of other programs, returns the span of the
    /// run.
    fn context_of(&self, name: &str) -> Option<SpanContext> {
        let agent = self.agents.get(&AgentName::foreign(name));
        agent.map(|agent| agent.context.clone()).or_else(|| self.root.clone())
    }
}

/// Counts the tasks by status. The internal tasks of the reference client do not count.
pub(crate) fn counted_tasks(tasks: &[Task]) -> Measurement {
    counted(tasks.iter().filter(|task| !task.is_internal()).map(|task| task.status))
}

fn counted(tasks: impl Iterator<Item = TaskStatus>) -> Measurement {
    let mut counts =
        [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed].map(|it| (it, 0));
    for task in tasks {
        let of_status = counts.iter_mut().filter(|(status, _)| *status == task);
        of_status.for_each(|(_, count)| *count += 1);
    }
    Measurement::Tasks(counts)
}

/// Returns the end of a run as a word, and whether it is a failure.
fn in_a_word(end: &RunEnd) -> (&'static str, bool) {
    match end {
        RunEnd::Success { .. } => ("success", false),
        RunEnd::Unfinished { .. } => ("unfinished", false),
        RunEnd::Failed { .. } => ("failed", true),
        RunEnd::Broken { .. } => ("broken", true),
        RunEnd::Parked { .. } => ("parked", true),
        RunEnd::Interrupted => ("interrupted", false),
        RunEnd::ShutDown => ("shut_down", false),
        RunEnd::LimitReached { .. } => ("limit_reached", false),
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
