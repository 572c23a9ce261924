//! Names of teams and agents, and their forms in paths and ids.
//!
//! The folder form of a name has a dash for each character that a path must not contain. Such
//! characters are counted in UTF-16 units, as in the reference client. An emoji therefore becomes
//! two dashes. Two names can have the same folder form. The crate `team` then refuses the second
//! name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inject::{is_invisible, joins_emoji};

/// Maximum length of a team or agent name, in characters. Longer names produce file names that some
/// file systems reject.
const NAME_MAX_CHARS: usize = 100;

/// The reason why a name is not allowed for a team or an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// The name is too long for a file name.
    #[error("the name has {chars} characters; at most {NAME_MAX_CHARS} are allowed")]
    TooLong {
        /// The name's length in characters.
        chars: usize,
    },
    /// The name contains a character that is not visible: a control character (such as NUL or a
    /// line break), or an invisible character.
    #[error("the name {name:?} has a control or an invisible character")]
    Hidden {
        /// The name that was refused.
        name: String,
    },
    /// The name has no ASCII letter or digit, so its folder form would contain only dashes.
    #[error("the name {name:?} has no letter a-z and no digit")]
    NothingToKeep {
        /// The name that was refused.
        name: String,
    },
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    let chars = name.chars().count();
    if chars > NAME_MAX_CHARS {
        return Err(NameError::TooLong { chars });
    }
    let mut before = None;
    let is_hidden = |c: char| {
        let last = before.replace(c);
        // The invisible characters that join the parts of an emoji are allowed, because the emoji
        // is visible.
        c.is_control() || (is_invisible(c) && !joins_emoji(last, c))
    };
    if name.chars().any(is_hidden) {
        return Err(NameError::Hidden { name: name.to_owned() });
    }
    if !name.chars().any(|c| c.is_ascii_alphanumeric()) {
        return Err(NameError::NothingToKeep { name: name.to_owned() });
    }
    Ok(())
}

/// Whether two names are equal, ignoring case.
///
/// Teams compare names very often. Most names are ASCII, and two ASCII names are compared without
/// allocating.
#[must_use]
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}

/// Replaces each character for which `keep` returns false with one dash per UTF-16 unit.
fn dashed(name: &str, keep: impl Fn(char) -> bool) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut out, c| {
        if keep(c) {
            out.push(c);
        } else {
            // JavaScript, and therefore the reference client, counts a character in UTF-16 units.
            out.extend(std::iter::repeat_n('-', c.len_utf16()));
        }
        out
    })
}

macro_rules! text_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Returns this value's text as a string slice.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text_type! {
    /// A team's name as its creator gave it, such as `My Team.x`.
    #[derive(Deserialize)]
    TeamName
}
text_type! {
    /// The name of a team's folder below `teams/` and `tasks/`: only lower case ASCII letters,
    /// digits and dashes. [`TeamDir::of`] makes this name. It is never read from a file.
    TeamDir
}
text_type! {
    /// An agent's name. It is unique in the agent's team and never contains `@`.
    #[derive(Deserialize)]
    AgentName
}
text_type! {
    /// The name of an agent's inbox file without the extension: only ASCII letters, digits, `_` and
    /// `-`. [`AgentName::inbox_file`] makes this name. It is never read from a file.
    InboxFile
}
text_type! {
    /// An agent's id, `name@team`.
    #[derive(Deserialize)]
    AgentId
}

impl TeamName {
    /// Creates a name for a new team, after checking it.
    ///
    /// # Errors
    /// [`NameError`] if the name is empty or too long, contains control or invisible characters, or
    /// has no letter or digit for its folder form.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Returns the folder name of the team.
    #[must_use]
    pub fn dir(&self) -> TeamDir {
        TeamDir::of(&self.0)
    }
}

impl TeamDir {
    /// Returns the folder form of any text. A path with this folder name never leaves the root
    /// folder.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(dashed(name, |c| c.is_ascii_alphanumeric()).to_ascii_lowercase())
    }
}

impl AgentName {
    /// Creates a name for a new agent, after checking it. Each `@` becomes `-`, as in the reference
    /// client.
    ///
    /// # Errors
    /// [`NameError`], for the same reasons as for a team's name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check(name)?;
        Ok(Self(name.replace('@', "-")))
    }

    /// Creates an agent's name without checking it. Use this function for the names of members that
    /// were read from a config.
    #[must_use]
    pub fn foreign(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the lead's name, `team-lead`.
    #[must_use]
    pub fn lead() -> Self {
        Self(crate::LEAD_NAME.to_owned())
    }

    /// Returns the name of the agent's inbox file, without its extension.
    #[must_use]
    pub fn inbox_file(&self) -> InboxFile {
        InboxFile(dashed(&self.0, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-'))
    }

    /// Returns the agent's id in `team`.
    #[must_use]
    pub fn id_in(&self, team: &TeamName) -> AgentId {
        AgentId(format!("{}@{team}", self.0))
    }

    /// Returns this name if it is not in use. Otherwise returns the first name of `name-2`,
    /// `name-3`, ... that is not in use. `taken` returns whether a name is in use.
    #[must_use]
    pub fn deduplicated(&self, taken: impl Fn(&Self) -> bool) -> Self {
        if !taken(self) {
            return self.clone();
        }
        let numbered = |n: u32| Self(format!("{}-{n}", self.0));
        (2..).map(numbered).find(|name| !taken(name)).unwrap_or_else(|| self.clone())
    }
}

impl AgentId {
    /// Creates an agent id from a text of a file or message, without checking it.
    #[must_use]
    pub fn foreign(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// Splits an agent id at the first `@` into the agent's name and the team's name. An agent's
    /// name never contains `@`, but a team's name can. Returns `None` if the id has no `@`.
    #[must_use]
    pub fn split(id: &str) -> Option<(&str, &str)> {
        id.split_once('@')
    }

    /// Returns the agent's name: the part before the first `@`, or the whole id if it has no `@`.
    #[must_use]
    pub fn name(&self) -> AgentName {
        AgentName(Self::split(&self.0).map_or(self.0.as_str(), |(name, _)| name).to_owned())
    }
}

/// The colors of teammates, in the order in which teammates get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the colors")]
pub enum Color {
    Blue,
    Green,
    Yellow,
    Purple,
    Orange,
    Pink,
    Cyan,
    Red,
}

impl Color {
    /// All colors, in the order of the reference client.
    pub const ALL: [Self; 8] = [
        Self::Blue,
        Self::Green,
        Self::Yellow,
        Self::Purple,
        Self::Orange,
        Self::Pink,
        Self::Cyan,
        Self::Red,
    ];

    /// Returns the color of the `n`th teammate of a team, counted from 0. The colors repeat after
    /// the eighth teammate.
    #[must_use]
    pub fn of_teammate(n: usize) -> Self {
        Self::ALL.get(n % Self::ALL.len()).copied().unwrap_or(Self::Blue)
    }

    /// Returns the color's name, as files spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Purple => "purple",
            Self::Orange => "orange",
            Self::Pink => "pink",
            Self::Cyan => "cyan",
            Self::Red => "red",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_forms_are_those_of_the_reference() {
        for (name, dir) in
            [("My Team.x", "my-team-x"), ("../evil/x", "---evil-x"), ("a😀", "a--"), ("ä", "-")]
        {
            assert_eq!(TeamDir::of(name).as_str(), dir);
        }
        for (name, file) in
            [("x y", "x-y"), ("d/../e", "d----e"), ("UPPER", "UPPER"), ("a_b-c", "a_b-c")]
        {
            assert_eq!(AgentName::foreign(name).inbox_file().as_str(), file);
        }
    }

    #[test]
    fn a_name_that_no_path_can_carry_is_refused() {
        for name in ["", "..", "😀", "a\0b", "a\nb", &"x".repeat(300)] {
            assert!(TeamName::new(name).is_err(), "{name:?}");
            assert!(AgentName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(AgentName::new("a@b").unwrap().as_str(), "a-b");
    }

    #[test]
    fn an_agent_id_is_split_at_its_first_at_sign() {
        for (id, parts) in
            [("bob@crew", ("bob", "crew")), ("bob@a@b", ("bob", "a@b")), ("bob@", ("bob", ""))]
        {
            assert_eq!(AgentId::split(id), Some(parts));
            assert_eq!(AgentId::foreign(id).name().as_str(), "bob");
        }
        let team = TeamName::new("proj@2").unwrap();
        let id = AgentName::new("bob@x").unwrap().id_in(&team);
        assert_eq!(AgentId::split(id.as_str()), Some(("bob-x", "proj@2")));
        assert_eq!(AgentId::split("bob"), None);
    }

    #[test]
    fn a_taken_name_gets_the_next_number() {
        let taken = ["worker", "worker-2"];
        let name = AgentName::new("Worker").unwrap();
        let free = name.deduplicated(|n| taken.contains(&n.as_str().to_lowercase().as_str()));
        assert_eq!(free.as_str(), "Worker-3");
    }
}
