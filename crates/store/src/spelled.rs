//! The words of the journal: one spelling each. A word of a newer version is kept as it is, so that
//! the entry can be read.

use std::fmt;

use pitcrew_protocol::{Program, Status};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an entry says of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberChange {
    /// It was added to the team.
    Spawned,
    /// It joined by itself.
    Joined,
    /// It has this state now.
    Status(Status),
    /// It is no member any more.
    Removed,
    /// It has another permission mode.
    Mode,
    /// A mode that its config names was not taken, since nobody vouches for it.
    ModeRefused,
    /// A word of a newer version.
    Other(String),
}

/// What was done to a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskChangeKind {
    /// It was made.
    Created,
    /// Some of its fields changed.
    Updated,
    /// Somebody took it.
    Claimed,
    /// It was completed.
    Completed,
    /// Its owner ended, and it is free again.
    Released,
    /// It was removed.
    Deleted,
    /// A word of a newer version.
    Other(String),
}

/// What became of a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PermissionOutcome {
    /// It was asked.
    Asked,
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// A word of a newer version.
    Other(String),
}

/// What was started to run a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StartedProgram {
    /// A program that this version knows.
    Known(Program),
    /// One of a newer version.
    Other(String),
}

/// Spells a type by its unit variants and their words, by one variant of words that `named` and
/// `as_str` know, and `Other`.
macro_rules! spelled {
    ($type:ident { $($word:literal => $variant:ident),* } $($known:ident($inner:ident))?) => {
        impl $type {
            /// The word, as the journal spells it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    $(Self::$known(known) => known.as_str(),)?
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $type {
            fn from(word: String) -> Self {
                $(if let Some(known) = $inner::named(&word) {
                    return Self::$known(known);
                })?
                match word.as_str() {
                    $($word => Self::$variant,)*
                    _ => Self::Other(word),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        $(impl From<$inner> for $type {
            fn from(known: $inner) -> Self {
                Self::$known(known)
            }
        })?
    };
}

spelled!(MemberChange {
    "spawned" => Spawned,
    "joined" => Joined,
    "removed" => Removed,
    "mode" => Mode,
    "mode_refused" => ModeRefused
} Status(Status));

spelled!(TaskChangeKind {
    "created" => Created,
    "updated" => Updated,
    "claimed" => Claimed,
    "completed" => Completed,
    "released" => Released,
    "deleted" => Deleted
});

spelled!(PermissionOutcome { "asked" => Asked, "allowed" => Allowed, "denied" => Denied });

spelled!(StartedProgram {} Known(Program));

impl MemberChange {
    /// The state that the member has since then, where the change is about its state.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Status(status) => Some(*status),
            Self::Spawned
            | Self::Joined
            | Self::Removed
            | Self::Mode
            | Self::ModeRefused
            | Self::Other(_) => None,
        }
    }
}

impl PermissionOutcome {
    /// The outcome of an answer.
    #[must_use]
    pub fn of_answer(is_approved: bool) -> Self {
        if is_approved { Self::Allowed } else { Self::Denied }
    }
}

impl StartedProgram {
    /// The program, where this version knows it.
    #[must_use]
    pub fn known(&self) -> Option<Program> {
        match self {
            Self::Known(program) => Some(*program),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::JournalEntry;

    /// Reads a line and writes it again.
    fn written_again(line: &Value) -> Value {
        let entry: JournalEntry = serde_json::from_value(line.clone()).unwrap();
        assert!(!format!("{entry:?}").contains("Other(") || line.to_string().contains("newer"));
        serde_json::to_value(entry).unwrap()
    }

    #[test]
    fn every_word_is_read_and_written_as_it_was() {
        let states = "spawned joined pending running idle awaiting_plan_approval parked shutdown_requested completed failed \
                      killed removed mode mode_refused newer_state";
        for state in states.split_whitespace() {
            let line =
                json!({"at_ms": 1, "event": "member_changed", "member": "bob", "state": state});
            assert_eq!(written_again(&line), line);
        }
        for change in "created updated claimed completed released deleted newer_change".split(' ') {
            let line = json!({"at_ms": 1, "event": "task_changed", "task": "1", "by": "bob", "change": change});
            assert_eq!(written_again(&line), line);
        }
        for outcome in ["asked", "allowed", "denied", "newer_outcome"] {
            let line = json!({"at_ms": 1, "event": "permission", "request": "r", "member": "bob", "tool": "Bash",
                              "outcome": outcome});
            assert_eq!(written_again(&line), line);
        }
        for program in ["pitcrew", "claude", "newer_program"] {
            let line = json!({"at_ms": 1, "event": "started", "member": "bob", "program": program, "owner": 7});
            assert_eq!(written_again(&line), line);
        }
    }
}
