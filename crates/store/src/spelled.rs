//! Types for the text values in journal entries. If a newer version of pitcrew wrote a value that
//! this version does not know, the value is kept unchanged. Therefore the entry can still be read.

use std::fmt;

use pitcrew_protocol::{Program, Status};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What changed about a member, as a journal entry records it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberChange {
    /// The member was added to the team.
    Spawned,
    /// The member joined the team itself; no lead spawned it.
    Joined,
    /// The state of the member changed to this state.
    Status(Status),
    /// The member is no longer in the team.
    Removed,
    /// The permission mode of the member changed.
    Mode,
    /// The permission mode in the member's config was refused, because nobody confirmed it.
    ModeRefused,
    /// A value that only a newer version knows.
    Other(String),
}

/// What changed about a task, as a journal entry records it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskChangeKind {
    /// The task was created.
    Created,
    /// Some fields of the task changed.
    Updated,
    /// An agent claimed the task.
    Claimed,
    /// The task was completed.
    Completed,
    /// The owner of the task ended, so other agents can claim the task again.
    Released,
    /// The task was removed.
    Deleted,
    /// A value that only a newer version knows.
    Other(String),
}

/// What has happened to a permission request so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PermissionOutcome {
    /// The permission was requested, and there is no answer yet.
    Asked,
    /// The permission was granted.
    Allowed,
    /// The permission was denied.
    Denied,
    /// A value that only a newer version knows.
    Other(String),
}

/// The program that was started to run a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StartedProgram {
    /// A program that this version knows.
    Known(Program),
    /// A program that only a newer version knows.
    Other(String),
}

/// Implements the conversion between an enum and its text values in the journal. The arguments are
/// the unit variants with their texts. One more variant is possible, whose inner type converts
/// itself with `named` and `as_str`. The enum must have the variant `Other(String)`.
macro_rules! spelled {
    ($type:ident { $($word:literal => $variant:ident),* } $($known:ident($inner:ident))?) => {
        impl $type {
            /// Returns the text that stands for this value in the journal.
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
    /// Returns the new state of the member. Returns `None` if the state of the member did not
    /// change.
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
    /// Returns [`Self::Allowed`] for a permission request that was approved, and [`Self::Denied`]
    /// for one that was not.
    #[must_use]
    pub fn of_answer(is_approved: bool) -> Self {
        if is_approved { Self::Allowed } else { Self::Denied }
    }
}

impl StartedProgram {
    /// Returns the program, or `None` if this version does not know the program.
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

    /// Parses a journal line and serializes it again.
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
