//! Names of teams and agents, and the forms they take in paths and ids.
//!
//! A folder form replaces what a path must not hold, counted as the reference client counts: by UTF-16 unit, so that an
//! emoji becomes two dashes. Two names can share one form; refusing that is `team`'s.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inject::{is_invisible, joins_emoji};

/// The longest team or agent name, in characters. Longer ones make file names that not every file system takes.
const NAME_MAX_CHARS: usize = 100;

/// A name cannot be given to a team or an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("a name cannot be empty")]
    Empty,
    /// The name is longer than a file name can carry.
    #[error("the name has {chars} characters; at most {NAME_MAX_CHARS} are allowed")]
    TooLong {
        /// How many characters it has.
        chars: usize,
    },
    /// The name has a character that nobody sees: a control character, such as NUL or a line break, or an invisible one.
    #[error("the name {name:?} has a control or an invisible character")]
    Hidden {
        /// The name as given.
        name: String,
    },
    /// The name has no ASCII letter or digit, so its folder form would be dashes only.
    #[error("the name {name:?} has no letter a-z and no digit")]
    NothingToKeep {
        /// The name as given.
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

/// Whether two names are one: upper and lower case do not tell names apart.
///
/// Teams compare names all the time, so names in ASCII, nearly all, are compared where they are.
#[must_use]
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}

/// Replaces every UTF-16 unit that `keep` refuses by a dash.
fn dashed(name: &str, keep: impl Fn(char) -> bool) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut out, c| {
        if keep(c) {
            out.push(c);
        } else {
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
            /// The text of it.
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
    /// A team's name as given, such as `My Team.x`.
    #[derive(Deserialize)]
    TeamName
}
text_type! {
    /// The folder of a team below `teams/` and `tasks/`: lower case ASCII letters, digits and dashes only. It is made by
    /// [`TeamDir::of`] and never read from a file.
    TeamDir
}
text_type! {
    /// An agent's name, unique in its team; never holds `@`.
    #[derive(Deserialize)]
    AgentName
}
text_type! {
    /// The stem of an agent's inbox file: ASCII letters, digits, `_` and `-` only. It is made by
    /// [`AgentName::inbox_file`] and never read from a file.
    InboxFile
}
text_type! {
    /// An agent's id, `name@team`.
    #[derive(Deserialize)]
    AgentId
}

impl TeamName {
    /// Accepts a name for a new team.
    ///
    /// # Errors
    /// [`NameError`] for a name that is empty, too long, has control characters, or nothing a folder form would keep.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The folder of the team.
    #[must_use]
    pub fn dir(&self) -> TeamDir {
        TeamDir::of(&self.0)
    }
}

impl TeamDir {
    /// The folder form of any text; what reads with it never leaves the root.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(dashed(name, |c| c.is_ascii_alphanumeric()).to_ascii_lowercase())
    }
}

impl AgentName {
    /// Accepts a name for a new agent; `@` becomes `-`, as the reference does at spawn.
    ///
    /// # Errors
    /// [`NameError`], as for teams.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check(name)?;
        Ok(Self(name.replace('@', "-")))
    }

    /// The name of an agent that somebody else named, whatever it holds; for members read from a config.
    #[must_use]
    pub fn foreign(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The lead's name, `team-lead`.
    #[must_use]
    pub fn lead() -> Self {
        Self(crate::LEAD_NAME.to_owned())
    }

    /// The stem of the agent's inbox file.
    #[must_use]
    pub fn inbox_file(&self) -> InboxFile {
        InboxFile(dashed(&self.0, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-'))
    }

    /// The agent's id in `team`.
    #[must_use]
    pub fn id_in(&self, team: &TeamName) -> AgentId {
        AgentId(format!("{}@{team}", self.0))
    }

    /// The name itself, or `name-2`, `name-3`, ... when `taken` says that it is taken.
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
    /// The id as found on the wire.
    #[must_use]
    pub fn foreign(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// The agent's and the team's name in an id: they meet at the first `@`, since an agent's name never holds one and a
    /// team's may. None for a text without an `@`.
    #[must_use]
    pub fn split(id: &str) -> Option<(&str, &str)> {
        id.split_once('@')
    }

    /// The agent's name: what stands before the first `@`, or all of it.
    #[must_use]
    pub fn name(&self) -> AgentName {
        AgentName(Self::split(&self.0).map_or(self.0.as_str(), |(name, _)| name).to_owned())
    }
}

/// The colors in the order in which they are handed out.
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
    /// All colors, in the order of the reference.
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

    /// The color of the `n`th teammate of a team, from 0, around again after the eighth.
    #[must_use]
    pub fn of_teammate(n: usize) -> Self {
        Self::ALL.get(n % Self::ALL.len()).copied().unwrap_or(Self::Blue)
    }

    /// The name on the wire.
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
