//! How the user is notified: `pitcrew.notify`. Settings files of a project cannot set any part of
//! it, because it names a program to run, and agents can write these files.

use serde_json::Value;

use super::layers::{Layer, Settings, Source};

/// The names of the ways in which a terminal can get the user's attention, in the settings.
pub(super) const TERMINAL_SIGNALS: [&str; 3] = ["bell", "osc9", "osc777"];

/// A way in which a terminal can get the user's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    /// The bell character.
    Bell,
    /// A text in the control sequence OSC 9, which iTerm2 introduced.
    Osc9,
    /// A title and a text in the control sequence OSC 777, which rxvt introduced.
    Osc777,
}

/// How the user is notified. A field that the user did not set is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifySettings {
    /// The signals to a terminal: `terminal`.
    pub terminal: Option<Vec<TerminalSignal>>,
    /// Whether the desktop shows notifications: `desktop`.
    pub desktop: Option<bool>,
    /// The user's own program with its arguments: `command`.
    pub command: Option<Vec<String>>,
}

impl TerminalSignal {
    /// Returns the signal with this name in the settings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bell" => Some(Self::Bell),
            "osc9" => Some(Self::Osc9),
            "osc777" => Some(Self::Osc777),
            _ => None,
        }
    }
}

impl Settings {
    /// Returns how the user is notified. Only the settings of the user, the command line and the
    /// machine's policy count. If several of them set a field, the highest layer decides.
    #[must_use]
    pub fn notify(&self) -> NotifySettings {
        let is_users =
            |source: &&Source| matches!(source.layer, Layer::User | Layer::Cli | Layer::Managed);
        let said = |field: &str| {
            let of_users = self.sources().iter().filter(is_users);
            of_users.filter_map(|source| source.field(&["pitcrew", "notify", field])).next_back()
        };
        let signals = |list: &Value| {
            let names = list.as_array()?.iter().filter_map(Value::as_str);
            Some(names.filter_map(TerminalSignal::named).collect())
        };
        let words = |list: &Value| {
            let words = list.as_array()?.iter().filter_map(Value::as_str);
            Some(words.map(str::to_owned).collect())
        };
        NotifySettings {
            terminal: said("terminal").and_then(signals),
            desktop: said("desktop").and_then(Value::as_bool),
            command: said("command").and_then(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(layer: Layer, notify: Value) -> NotifySettings {
        let users =
            json!({"pitcrew": {"notify": {"terminal": ["bell"], "command": ["mine", "a b"]}}});
        let other = json!({"pitcrew": {"notify": notify}});
        Settings::merge(vec![(Layer::User, users), (layer, other)]).unwrap().notify()
    }

    #[test]
    fn only_the_users_own_layers_count() {
        let users = NotifySettings {
            terminal: Some(vec![TerminalSignal::Bell]),
            desktop: None,
            command: Some(vec!["mine".to_owned(), "a b".to_owned()]),
        };
        let theirs = json!({"terminal": ["osc9"], "desktop": true, "command": ["./evil.sh"]});
        for layer in [Layer::Project, Layer::Local] {
            assert_eq!(told(layer, theirs.clone()), users);
        }
        let of_policy = told(Layer::Managed, json!({"command": ["policy"], "desktop": false}));
        assert_eq!(
            of_policy,
            NotifySettings {
                desktop: Some(false),
                command: Some(vec!["policy".to_owned()]),
                ..users
            }
        );
        assert_eq!(Settings::default().notify(), NotifySettings::default());
    }

    #[test]
    fn an_unknown_signal_and_a_command_that_is_no_list_are_reported() {
        let notify = json!({"terminal": ["bell", "horn"], "command": "rm -rf", "desktop": 1});
        let settings =
            Settings::merge(vec![(Layer::User, json!({"pitcrew": {"notify": notify}}))]).unwrap();
        let known = NotifySettings {
            terminal: Some(vec![TerminalSignal::Bell]),
            ..NotifySettings::default()
        };
        assert_eq!(settings.notify(), known);
        let unheeded = settings.unheeded().join("\n");
        for word in ["horn", "pitcrew.notify.command", "pitcrew.notify.desktop"] {
            assert!(unheeded.contains(word), "{word}: {unheeded}");
        }
    }
}
