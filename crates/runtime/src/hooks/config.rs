//! Reads the `hooks` sections of the settings. A hook that cannot be read and that may guard
//! something becomes a hook that refuses what it would have matched.

use std::path::Path;
use std::time::Duration;

use pitcrew_permission::gate::CallCondition;
use pitcrew_permission::settings::{HookSection, Settings, SourcedRule};
use pitcrew_protocol::nearest;
use serde_json::{Map, Value};

use super::known::{CLIENT_VERSION, Known, Place, Treatment, known, names};
use super::matcher::Matcher;
use super::program::{Form, HookProgram, Shell};

/// The time limit of a hook whose settings contain no timeout.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

/// The longest time limit that a hook can have, whatever its settings say.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3_600);

/// The hooks that the settings define, in the order of the settings.
#[derive(Debug, Default)]
pub(super) struct Defined {
    pub(super) hooks: Vec<Hook>,
    pub(super) warnings: Vec<String>,
}

/// One hook.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) event: &'static str,
    pub(super) matcher: Matcher,
    pub(super) condition: Option<Condition>,
    /// The hook's command and its settings file, for messages.
    pub(super) name: String,
    /// Why the hook can allow nothing. `None` if it can.
    pub(super) cannot_allow: Option<String>,
    pub(super) action: Action,
}

/// The `if` of a hook.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) rule: CallCondition,
}

/// What a hook does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Runs a program.
    Runs(HookProgram),
    /// Refuses, because the hook cannot be read.
    Refuses { reason: String },
}

impl Defined {
    /// Reads the hooks of all layers that count.
    pub(super) fn read(settings: &Settings, home: Option<&Path>) -> Self {
        let mut defined = Self::default();
        for section in settings.hook_sections() {
            let Value::Object(events) = section.value else { continue };
            for (event, groups) in events {
                let Some(event) = defined.event(event, &section) else { continue };
                let mut reader = Reader { event, section, home, defined: &mut defined };
                match groups {
                    Value::Array(groups) => groups.iter().for_each(|group| reader.group(group)),
                    Value::Null => {}
                    _ => reader.unreadable(Matcher::Everything, None, "is no list of hooks"),
                }
            }
        }
        defined
    }

    /// Returns the entry of an event for which pitcrew runs hooks. Other events become a warning.
    fn event(&mut self, name: &str, section: &HookSection<'_>) -> Option<&'static Known> {
        let origin = section.origin();
        let warning = match known(Place::Event, name) {
            Some(event) if event.treatment != Treatment::Named => return Some(event),
            Some(_) => format!(
                "hooks for the event `{name}` in the {origin} are not run: pitcrew has no such event"
            ),
            None => {
                let meant = nearest(name, names(Place::Event));
                let meant = meant.map(|near| format!("; did you mean `{near}`?"));
                format!(
                    "hooks for the unknown event `{name}` in the {origin} are not run{}",
                    meant.unwrap_or_default()
                )
            }
        };
        self.warnings.push(warning);
        None
    }
}

/// Reads the hooks of one event of one layer.
struct Reader<'a> {
    event: &'static Known,
    section: HookSection<'a>,
    home: Option<&'a Path>,
    defined: &'a mut Defined,
}

impl Reader<'_> {
    /// Reads a matcher with its hooks.
    fn group(&mut self, group: &Value) {
        let Value::Object(fields) = group else {
            return self.unreadable(Matcher::Everything, None, "is no object");
        };
        let matcher = match fields.get("matcher") {
            None => Ok(Matcher::Everything),
            Some(Value::String(text)) => Matcher::parse(text).map_err(|error| last_line(&error)),
            Some(_) => Err("it is no text".to_owned()),
        };
        let matcher = match matcher {
            Ok(matcher) => matcher,
            Err(error) => {
                let fault = format!("has a matcher that cannot be read: {error}");
                return self.unreadable(Matcher::Everything, None, &fault);
            }
        };
        let Some(Value::Array(entries)) = fields.get("hooks") else {
            return self.unreadable(matcher, None, "has no list of hooks");
        };
        let unknown = unknown_fields(Place::Group, fields);
        for entry in entries {
            self.entry(&matcher, entry, unknown.clone());
        }
    }

    fn entry(&mut self, matcher: &Matcher, entry: &Value, unknown: Option<String>) {
        let Value::Object(fields) = entry else {
            return self.unreadable(matcher.clone(), None, "is no object");
        };
        let label = label(fields);
        let condition = match self.condition(fields) {
            Ok(condition) => condition,
            Err(fault) => return self.unreadable_hook(matcher.clone(), None, label, &fault),
        };
        let program = match program(fields) {
            Ok(program) => program,
            Err(fault) => return self.unreadable_hook(matcher.clone(), condition, label, &fault),
        };
        let name = self.name_of(label);
        let event = self.event.name;
        if condition.is_some() && !has_tool(event) {
            self.defined.warnings.push(format!(
                "the {event} hook {name} is never run: it has an `if`, and the event has no tool"
            ));
            return;
        }
        let unknown = unknown_fields(Place::Hook, fields).or(unknown);
        if let Some(unknown) = &unknown {
            self.defined.warnings.push(format!(
                "the {event} hook {name} can allow nothing: {unknown}, which pitcrew does not know"
            ));
        }
        self.defined.hooks.push(Hook {
            event,
            matcher: matcher.clone(),
            condition,
            name,
            cannot_allow: unknown,
            action: Action::Runs(program),
        });
    }

    /// Reads the `if` of a hook. An error contains what is wrong with it.
    fn condition(&self, fields: &Map<String, Value>) -> Result<Option<Condition>, String> {
        let Some(value) = fields.get("if") else { return Ok(None) };
        let Some(text) = value.as_str() else {
            return Err("has an `if` that is no text".to_owned());
        };
        let rule = SourcedRule {
            text: text.to_owned(),
            layer: self.section.layer(),
            origin: self.section.origin(),
            base: self.section.base().map(Path::to_path_buf),
        };
        match CallCondition::parse(&rule, self.home) {
            Ok(rule) => Ok(Some(Condition { text: text.to_owned(), rule })),
            Err(error) => Err(format!("has an `if` that cannot be read: {}", error.fault)),
        }
    }

    fn unreadable(&mut self, matcher: Matcher, condition: Option<Condition>, fault: &str) {
        self.unreadable_hook(matcher, condition, String::new(), fault);
    }

    /// Notes a hook that cannot be read. If its event can refuse an action, what the hook would
    /// have matched is refused, because the hook may be there to refuse it.
    fn unreadable_hook(
        &mut self,
        matcher: Matcher,
        condition: Option<Condition>,
        label: String,
        fault: &str,
    ) {
        let event = self.event.name;
        let name = self.name_of(label);
        let problem = format!("the {event} hook {name} {fault}");
        if self.event.treatment != Treatment::Guards {
            self.defined.warnings.push(format!("{problem}; it is not run"));
            return;
        }
        self.defined.warnings.push(format!("{problem}; what it would match is refused"));
        let reason = format!(
            "{problem}. It may be a guard, so this is refused until the hook is mended or removed"
        );
        self.defined.hooks.push(Hook {
            event,
            matcher,
            condition,
            name,
            cannot_allow: None,
            action: Action::Refuses { reason },
        });
    }

    fn name_of(&self, label: String) -> String {
        let space = if label.is_empty() { "" } else { " " };
        format!("{label}{space}of the {}", self.section.origin())
    }
}

/// Returns the problem of a regular expression. The lines before it show the expression.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Returns what identifies a hook for its author: its command, or the type of another hook.
fn label(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let args = fields.get("args").and_then(Value::as_array);
    match (text("command"), text("type")) {
        (Some(command), _) => {
            let args = args.into_iter().flatten().map(|arg| format!(" {arg}"));
            format!("`{command}{}`", args.collect::<String>())
        }
        (None, Some(kind)) => format!("of the type `{kind}`"),
        (None, None) => String::new(),
    }
}

/// Reads the program of a hook. The error says what is wrong, in words that follow the hook's name.
fn program(fields: &Map<String, Value>) -> Result<HookProgram, String> {
    match fields.get("type").map(|kind| kind.as_str().and_then(|name| known(Place::Type, name))) {
        Some(Some(kind)) if kind.treatment != Treatment::Named => {}
        Some(Some(_)) => return Err("is of a type that pitcrew does not run".to_owned()),
        Some(None) => {
            return Err(format!("is of a type that client {CLIENT_VERSION} does not know either"));
        }
        None => return Err("has no type".to_owned()),
    }
    let fault = |name: &str, expected: &str| format!("has `{name}` that is not {expected}");
    let command = fields.get("command").and_then(Value::as_str).map(str::trim);
    let Some(command) = command.filter(|command| !command.is_empty()) else {
        return Err("has no command".to_owned());
    };
    let truth = |name: &str| match fields.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| fault(name, "true or false")),
    };
    truth("once")?;
    truth("asyncRewake")?;
    if fields.get("statusMessage").is_some_and(|message| !message.is_string()) {
        return Err(fault("statusMessage", "a text"));
    }
    let shell = match fields.get("shell").map(Value::as_str) {
        None => Shell::Sh,
        Some(Some("bash")) => Shell::Bash,
        Some(Some("powershell")) => Shell::Pwsh,
        Some(_) => return Err(fault("shell", "`bash` or `powershell`")),
    };
    let args = fields.get("args").map(|args| {
        let args = args.as_array()?;
        args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    let form = match args {
        None => Form::Shell(shell),
        Some(Some(args)) => Form::Exec(args),
        Some(None) => return Err(fault("args", "a list of texts")),
    };
    Ok(HookProgram {
        command: command.to_owned(),
        form,
        deadline: deadline(fields.get("timeout"))
            .ok_or_else(|| fault("timeout", "a number of seconds above 0"))?,
        is_async: truth("async")?,
    })
}

/// Returns the time limit of a hook. Returns `None` if the settings contain an invalid one.
fn deadline(timeout: Option<&Value>) -> Option<Duration> {
    let Some(timeout) = timeout else { return Some(DEFAULT_DEADLINE) };
    let seconds = timeout.as_f64().filter(|seconds| *seconds > 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_DEADLINE).min(LONGEST_DEADLINE))
}

/// Names the fields that the table does not have, in words such as "it has the field `x`".
fn unknown_fields(place: Place, fields: &Map<String, Value>) -> Option<String> {
    let unknown: Vec<String> = fields
        .keys()
        .filter(|name| known(place, name).is_none())
        .map(|name| format!("`{name}`"))
        .collect();
    let word = if unknown.len() == 1 { "field" } else { "fields" };
    (!unknown.is_empty()).then(|| format!("it has the {word} {}", unknown.join(", ")))
}

fn has_tool(event: &str) -> bool {
    matches!(event, "PreToolUse" | "PostToolUse")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pitcrew_permission::settings::Layer;

    fn read(section: &Value) -> Defined {
        let settings = Settings::merge(vec![(Layer::User, json!({ "hooks": section }))]).unwrap();
        Defined::read(&settings, None)
    }

    #[test]
    fn what_cannot_be_used_is_warned_about_and_the_rest_works() {
        let defined = read(&json!({
            "FutureEvent": [{"hooks": [{"type": "command", "command": "a"}]}],
            "PreTolUse": [],
            "Notification": [{"hooks": [{"type": "command", "command": "a"}]}],
            "PostToolUse": {"hooks": []},
            "Stop": [
                {"hooks": [{"type": "prompt", "prompt": "b"}, {"type": "command", "command": "c"}]},
                {"hooks": 3},
                {"hooks": [{"type": "command", "command": "d", "timeout": "long"}, 7, {"type": "command", "command": "e"}]},
                {"matcher": "(", "hooks": []},
                {"hooks": [{"type": "command", "command": "f", "if": "Bash"}]},
                {"hooks": [{"type": "command", "command": "g", "later": 1}]},
            ],
        }));
        let ran: Vec<&str> = defined.hooks.iter().map(|hook| hook.name.as_str()).collect();
        assert_eq!(
            ran,
            ["`c` of the user settings", "`e` of the user settings", "`g` of the user settings"]
        );
        insta::assert_snapshot!(defined.warnings.join("\n"), @r"
        hooks for the unknown event `FutureEvent` in the user settings are not run
        hooks for the unknown event `PreTolUse` in the user settings are not run; did you mean `PreToolUse`?
        hooks for the event `Notification` in the user settings are not run: pitcrew has no such event
        the PostToolUse hook of the user settings is no list of hooks; it is not run
        the Stop hook of the type `prompt` of the user settings is of a type that pitcrew does not run; it is not run
        the Stop hook of the user settings has no list of hooks; it is not run
        the Stop hook `d` of the user settings has `timeout` that is not a number of seconds above 0; it is not run
        the Stop hook of the user settings is no object; it is not run
        the Stop hook of the user settings has a matcher that cannot be read: unclosed group; it is not run
        the Stop hook `f` of the user settings is never run: it has an `if`, and the event has no tool
        the Stop hook `g` of the user settings can allow nothing: it has the field `later`, which pitcrew does not know
        ");
    }

    #[test]
    fn a_guard_that_cannot_be_read_refuses_what_it_would_match() {
        let command = |more: Value| {
            let mut hook = json!({"type": "command", "command": "guard"});
            hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"matcher": "Bash", "hooks": [hook]})
        };
        let hook = |hook: Value| json!({"matcher": "Bash", "hooks": [hook]});
        // The last value is whether a call of another tool is refused too.
        for (group, everything) in [
            (hook(json!({"type": "prompt", "prompt": "x"})), false),
            (hook(json!({"type": "http", "url": "https://a.b"})), false),
            (hook(json!({"type": "nonsense", "command": "x"})), false),
            (hook(json!({"command": "x"})), false),
            (hook(json!({"type": "command"})), false),
            (hook(json!({"type": "command", "command": " "})), false),
            (hook(json!(7)), false),
            (command(json!({"args": "x"})), false),
            (command(json!({"args": [1]})), false),
            (command(json!({"args": null})), false),
            (command(json!({"timeout": "long"})), false),
            (command(json!({"timeout": -1})), false),
            (command(json!({"timeout": 0})), false),
            (command(json!({"async": "yes"})), false),
            (command(json!({"asyncRewake": 1})), false),
            (command(json!({"once": 1})), false),
            (command(json!({"shell": "fish"})), false),
            (command(json!({"statusMessage": 1})), false),
            (command(json!({"if": "Bash("})), false),
            (command(json!({"if": 3})), false),
            (json!({"matcher": "Bash", "hooks": 3}), false),
            (json!({"matcher": "Bash"}), false),
            (json!({"matcher": "(", "hooks": []}), true),
            (json!({"matcher": 3, "hooks": []}), true),
            (json!({"matcher": null, "hooks": []}), true),
            (json!("x"), true),
        ] {
            for event in names(Place::Event) {
                let defined = read(&json!({ event: [group] }));
                let refuses = defined.hooks.iter().filter(|hook| {
                    matches!(hook.action, Action::Refuses { .. }) && hook.matcher.matches("Bash")
                });
                let guards = known(Place::Event, event).unwrap().treatment == Treatment::Guards;
                assert_eq!(refuses.count(), usize::from(guards), "{event} {group}");
                assert_eq!(defined.warnings.len(), 1, "{event} {group} {:?}", defined.warnings);
                let others = defined.hooks.iter().any(|hook| hook.matcher.matches("Read"));
                assert_eq!(others, guards && everything, "{event} {group}");
            }
        }
    }

    #[test]
    fn deadlines_are_bounded() {
        let seconds = |value: Value| deadline(Some(&value));
        assert_eq!(deadline(None), Some(DEFAULT_DEADLINE));
        assert_eq!(seconds(json!(0.5)), Some(Duration::from_millis(500)));
        assert_eq!(seconds(json!(-1.0)), None);
        assert_eq!(seconds(json!("1")), None);
        assert_eq!(seconds(json!(1e300)), Some(LONGEST_DEADLINE));
        assert_eq!(seconds(json!(1e9)), Some(LONGEST_DEADLINE));
    }
}
