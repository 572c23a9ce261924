//! Reads the `hooks` section of the settings and runs all commands that match an event.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use pitcrew_permission::settings::Settings;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::event::{HookEvent, HookKind};
use super::outcome::HookOutcome;
use crate::user_program;

/// The time limit of a hook whose settings contain no timeout.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);

/// The longest time limit that a hook can have, whatever its settings say.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3_600);

/// The events for which pitcrew runs hooks.
const EVENTS: [&str; 10] = [
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
];

/// The hooks that the settings define.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    by_event: BTreeMap<String, Vec<Hook>>,
    env: BTreeMap<String, String>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Hook {
    matcher: Matcher,
    command: String,
    deadline: Duration,
}

#[derive(Clone, Debug)]
enum Matcher {
    Everything,
    OneOf(Vec<String>),
    Pattern(Regex),
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    hooks: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    command: String,
    /// The time limit of the hook in seconds.
    #[serde(default)]
    timeout: Option<f64>,
}

impl Hooks {
    /// Reads the hooks from the settings. An invalid part becomes a warning, and the other hooks
    /// are still used.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        let mut hooks = Self { env: settings.env(), ..Self::default() };
        let sections = settings.hooks().and_then(Value::as_object);
        for (event, groups) in sections.into_iter().flatten() {
            if !EVENTS.contains(&event.as_str()) {
                hooks.warnings.push(format!("hooks for the unknown event `{event}` are not run"));
                continue;
            }
            match groups {
                Value::Array(groups) => {
                    groups.iter().for_each(|group| hooks.add_group(event, group))
                }
                Value::Null => {}
                _ => hooks
                    .warnings
                    .push(format!("the hooks for {event} are no list and are not run")),
            }
        }
        hooks
    }

    /// Returns the problems found in the `hooks` section.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Runs all hooks that match the event. They run at the same time, and their answers are joined
    /// in the order of the settings. A command that occurs twice runs once. Cancelling kills the
    /// hooks and their child processes.
    pub async fn run(&self, event: &HookEvent, cancel: &CancellationToken) -> HookOutcome {
        let mut hooks: Vec<&Hook> = Vec::new();
        for hook in self.matching(&event.kind) {
            // If several matchers select the same command, run the command only once for the event.
            if !hooks.iter().any(|known| known.command == hook.command) {
                hooks.push(hook);
            }
        }
        if hooks.is_empty() {
            return HookOutcome::default();
        }
        let payload = match serde_json::to_string(event) {
            Ok(payload) => payload,
            Err(error) => return HookOutcome::warning(format!("hooks were not run: {error}")),
        };
        let runs = hooks.iter().map(|hook| async {
            let cwd = &event.session.cwd;
            let mut command = Command::new("sh");
            command.args(["-c", &hook.command]).envs(&self.env).env("CLAUDE_PROJECT_DIR", cwd);
            let run = user_program::run(command, &payload, cwd, hook.deadline, cancel);
            HookOutcome::of(&event.kind, &hook.command, run.await)
        });
        join_all(runs).await.into_iter().fold(HookOutcome::default(), HookOutcome::join)
    }

    fn matching(&self, kind: &HookKind) -> impl Iterator<Item = &Hook> {
        let subject = kind.subject().map(str::to_owned);
        let hooks = self.by_event.get(kind.name()).into_iter().flatten();
        hooks.filter(move |hook| {
            subject.as_ref().is_none_or(|subject| hook.matcher.matches(subject))
        })
    }

    fn add_group(&mut self, event: &str, group: &Value) {
        let group = match Group::deserialize(group) {
            Ok(group) => group,
            Err(error) => {
                self.warnings.push(format!("a hook for {event} is malformed: {error}"));
                return;
            }
        };
        let matcher = match Matcher::parse(group.matcher.as_deref().unwrap_or_default()) {
            Ok(matcher) => matcher,
            Err(error) => {
                self.warnings
                    .push(format!("the matcher of a hook for {event} is malformed: {error}"));
                return;
            }
        };
        for entry in group.hooks {
            let entry = match Entry::deserialize(entry) {
                Ok(entry) => entry,
                Err(error) => {
                    self.warnings.push(format!("a hook for {event} is malformed: {error}"));
                    continue;
                }
            };
            if entry.kind != "command" || entry.command.trim().is_empty() {
                self.warnings
                    .push(format!("a hook of type `{}` for {event} is not run", entry.kind));
                continue;
            }
            let hook = Hook {
                matcher: matcher.clone(),
                command: entry.command,
                deadline: deadline(entry.timeout),
            };
            self.by_event.entry(event.to_owned()).or_default().push(hook);
        }
    }
}

fn deadline(timeout_s: Option<f64>) -> Duration {
    let asked = timeout_s
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // `asked` is `None` if the settings contain no timeout, or an invalid one, such as a negative
    // number. The default applies then.
    asked.unwrap_or(DEFAULT_DEADLINE).min(LONGEST_DEADLINE)
}

impl Matcher {
    /// Parses a matcher: a name, several names separated by `|`, or a regular expression. The
    /// matcher is compared with a text of the event, such as the name of the tool. A name must be
    /// equal to the whole text, and a regular expression may match any part of it. An empty matcher
    /// or `*` matches everything.
    fn parse(text: &str) -> Result<Self, regex::Error> {
        if text.is_empty() || text == "*" {
            return Ok(Self::Everything);
        }
        // A plain name must match the whole subject. If `Edit` were used as a regular expression,
        // it would also match `NotebookEdit`.
        if text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '|' | '-')) {
            return Ok(Self::OneOf(text.split('|').map(str::to_owned).collect()));
        }
        Regex::new(text).map(Self::Pattern)
    }

    fn matches(&self, subject: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::OneOf(names) => names.iter().any(|name| name == subject),
            Self::Pattern(pattern) => pattern.is_match(subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pitcrew_permission::settings::Layer;

    fn hooks(section: Value) -> Hooks {
        Hooks::from_settings(
            &Settings::merge(vec![(Layer::Project, json!({ "hooks": section }))]).unwrap(),
        )
    }

    #[test]
    fn matchers_match_as_in_the_reference() {
        for (matcher, subject, expected) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            ("Edit|Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("mcp__.*", "mcp__x__y", true),
            ("Notebook.*", "Bash", false),
            ("^Task", "TaskUpdate", true),
        ] {
            assert_eq!(
                Matcher::parse(matcher).unwrap().matches(subject),
                expected,
                "{matcher} on {subject}"
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_warned_about_and_the_rest_works() {
        let hooks = hooks(json!({
            "FutureEvent": [{"hooks": [{"type": "command", "command": "a"}]}],
            "Stop": [
                {"hooks": [{"type": "prompt", "prompt": "b"}, {"type": "command", "command": "c"}]},
                {"hooks": 3},
                {"hooks": [{"type": "command", "command": "d", "timeout": "long"}, 7, {"type": "command", "command": "e"}]},
                {"matcher": "(", "hooks": []},
            ],
        }));
        assert_eq!(hooks.by_event.len(), 1);
        assert_eq!(hooks.by_event.get("Stop").unwrap().len(), 2);
        assert_eq!(hooks.warnings().len(), 6);
        insta::assert_snapshot!(hooks.warnings().first().unwrap(), @"hooks for the unknown event `FutureEvent` are not run");
    }

    #[test]
    fn deadlines_are_bounded() {
        assert_eq!(deadline(None), DEFAULT_DEADLINE);
        assert_eq!(deadline(Some(0.5)), Duration::from_millis(500));
        assert_eq!(deadline(Some(-1.0)), DEFAULT_DEADLINE);
        assert_eq!(deadline(Some(f64::NAN)), DEFAULT_DEADLINE);
        assert_eq!(deadline(Some(1e300)), DEFAULT_DEADLINE);
        assert_eq!(deadline(Some(1e9)), LONGEST_DEADLINE);
    }
}
