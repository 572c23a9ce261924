//! Runs all hooks that match an event.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use pitcrew_permission::gate::{Call, Gate};
use pitcrew_permission::settings::Settings;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::config::{Action, Defined, Hook};
use super::event::{HookEvent, HookKind};
use super::outcome::{Decision, HookOutcome, HookRun};
use super::program::HookProgram;
use crate::user_program;

/// Maximum number of hooks of one agent that run in the background. A further one is not started,
/// and a warning says so.
const MOST_IN_BACKGROUND: usize = 32;

/// The hooks that the settings define.
#[derive(Debug, Default)]
pub struct Hooks {
    hooks: Vec<Hook>,
    env: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// The hooks of one agent that nothing waits for. Dropping it kills them.
#[derive(Debug, Default)]
pub struct BackgroundHooks(Mutex<JoinSet<HookOutcome>>);

impl BackgroundHooks {
    /// Returns the outcomes of the hooks that have ended since the last call.
    #[must_use]
    pub fn ended(&self) -> Vec<HookOutcome> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::iter::from_fn(|| running.try_join_next());
        ended
            .map(|joined| {
                joined.unwrap_or_else(|error| {
                    HookOutcome::warning(format!("a hook in the background was lost: {error}"))
                })
            })
            .collect()
    }

    fn start(&self, run: impl Future<Output = HookOutcome> + Send + 'static) -> bool {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = running.len() < MOST_IN_BACKGROUND;
        if has_room {
            running.spawn(run);
        }
        has_room
    }
}

/// What hooks need beside the event.
#[derive(Clone, Copy, Debug)]
pub struct HookScope<'a> {
    /// The gate that matches the `if` of hooks with calls. An event about a tool needs it.
    pub gate: Option<&'a Gate>,
    /// Holds the hooks that nothing waits for. `None` if the event ends the session: all hooks are
    /// waited for then.
    pub background: Option<&'a BackgroundHooks>,
    /// Kills the hooks that are waited for.
    pub cancel: &'a CancellationToken,
}

impl Hooks {
    /// Reads the hooks from the settings. `home` is what `~` means in the rules of hooks.
    #[must_use]
    pub fn from_settings(settings: &Settings, home: Option<&Path>) -> Self {
        let Defined { hooks, warnings } = Defined::read(settings, home);
        Self { hooks, env: settings.env(), warnings }
    }

    /// Returns the problems found in the `hooks` sections.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Runs all hooks that match the event. They run at the same time, and their answers are joined
    /// in the order of the settings. A hook that occurs twice runs once. Cancelling kills the
    /// hooks and their child processes.
    pub async fn run(&self, event: &HookEvent, scope: HookScope<'_>) -> HookOutcome {
        let matching = self.matching(event, scope.gate);
        if matching.is_empty() {
            return HookOutcome::default();
        }
        let payload = match serde_json::to_string(event) {
            Ok(payload) => payload,
            Err(error) => return HookOutcome::warning(format!("hooks were not run: {error}")),
        };
        let runs = matching.iter().map(|hook| self.run_one(hook, event, &payload, scope));
        let outcomes = join_all(runs).await;
        joined(&event.kind, matching.iter().map(|hook| hook.name.as_str()).zip(outcomes).collect())
    }

    fn matching(&self, event: &HookEvent, gate: Option<&Gate>) -> Vec<&Hook> {
        let mut matching: Vec<&Hook> = Vec::new();
        for hook in self.hooks.iter().filter(|hook| hook.event == event.kind.name()) {
            let fits = event.kind.subject().is_none_or(|subject| hook.matcher.matches(subject));
            let is_met = || match (&hook.condition, gate, event.kind.call()) {
                (None, _, _) => true,
                (Some(condition), Some(gate), Some((tool, input))) => {
                    gate.may_meet(&condition.rule, &call(event, tool, input))
                }
                (Some(_), None, _) | (Some(_), _, None) => false,
            };
            // If several matchers select the same hook, run it only once for the event.
            if fits && is_met() && !matching.iter().any(|known| is_same(known, hook)) {
                matching.push(hook);
            }
        }
        matching
    }

    async fn run_one(
        &self,
        hook: &Hook,
        event: &HookEvent,
        payload: &str,
        scope: HookScope<'_>,
    ) -> HookOutcome {
        let program = match &hook.action {
            Action::Refuses { reason } => {
                return HookOutcome::refused(&event.kind, &hook.name, reason.clone());
            }
            Action::Runs(program) => program,
        };
        if let Some(background) = scope.background.filter(|_| program.is_async) {
            return self.run_later(hook, program, event, payload, background);
        }
        let cwd = &event.session.cwd;
        let mut command = program.command(cwd);
        command.envs(&self.env);
        let run = user_program::run(command, payload, cwd, program.deadline, scope.cancel);
        let narrow = self.too_wide(hook, event, scope.gate);
        let cannot_allow = hook.cannot_allow.as_deref().or(narrow.as_deref());
        let hook = HookRun { kind: &event.kind, name: &hook.name, cannot_allow };
        HookOutcome::of(hook, run.await)
    }

    /// Returns why the hook cannot allow this call, if its `if` matches only a part of it.
    fn too_wide(&self, hook: &Hook, event: &HookEvent, gate: Option<&Gate>) -> Option<String> {
        let condition = hook.condition.as_ref()?;
        let (gate, (tool, input)) = (gate?, event.kind.call()?);
        let is_met = gate.surely_meets(&condition.rule, &call(event, tool, input));
        (!is_met).then(|| format!("its `if` {} does not match the whole call", condition.text))
    }

    /// Starts a hook that nothing waits for.
    fn run_later(
        &self,
        hook: &Hook,
        program: &HookProgram,
        event: &HookEvent,
        payload: &str,
        background: &BackgroundHooks,
    ) -> HookOutcome {
        let (cwd, deadline) = (event.session.cwd.clone(), program.deadline);
        let mut command = program.command(&cwd);
        command.envs(&self.env);
        let (kind, name, payload) = (event.kind.clone(), hook.name.clone(), payload.to_owned());
        let run = async move {
            let never = CancellationToken::new();
            let run = user_program::run(command, &payload, &cwd, deadline, &never).await;
            HookOutcome::of(HookRun { kind: &kind, name: &name, cannot_allow: None }, run)
                .too_late()
        };
        if background.start(run) {
            return HookOutcome::default();
        }
        HookOutcome::warning(format!(
            "the {} hook {} was not started: {MOST_IN_BACKGROUND} hooks run in the background",
            event.kind.name(),
            hook.name
        ))
    }
}

fn call<'a>(event: &'a HookEvent, tool: &'a str, input: &'a serde_json::Value) -> Call<'a> {
    Call { tool, input, cwd: &event.session.cwd, plan_file: None }
}

fn is_same(one: &Hook, other: &Hook) -> bool {
    let condition = |hook: &Hook| hook.condition.as_ref().map(|it| it.text.clone());
    let program = |hook: &Hook| match &hook.action {
        Action::Runs(program) => Some(program.clone()),
        Action::Refuses { .. } => None,
    };
    program(one).is_some()
        && program(one) == program(other)
        && condition(one) == condition(other)
        && one.cannot_allow == other.cannot_allow
}

/// Joins the outcomes of all hooks of an event. A hook allows the input that it saw or gave. If
/// another hook gives another input, the allowance does not count.
fn joined(kind: &HookKind, outcomes: Vec<(&str, HookOutcome)>) -> HookOutcome {
    let input = outcomes.iter().rev().find_map(|(_, outcome)| outcome.updated_input.clone());
    let mut all = HookOutcome::default();
    for (name, mut outcome) in outcomes {
        let allows = matches!(outcome.decision, Some(Decision::Allow { .. }));
        if allows && outcome.updated_input != input {
            outcome.disallow(kind, name, "another hook replaced the input that it allowed");
        }
        all = all.join(outcome);
    }
    all
}
