//! One word of a command, with the part of its text that is known before the shell expands it.

/// A word, with the ways in which expansion may still change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The word as written, including quotes.
    pub raw: String,
    /// The text without quotes. If the word has an expansion, this is only the text before the
    /// first expansion.
    pub text: String,
    /// States how expansion may change the word.
    pub fate: Fate,
    /// The pieces of the word. They are used to expand the word.
    pub(super) units: Vec<Unit>,
}

/// The result of expanding a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// The result is exactly the known text.
    #[default]
    Exact,
    /// The word expands to one word that begins with the known text.
    Begins,
    /// The word expands to any number of words. The first of them begins with the known text.
    Anything,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A quoted character, which has no special meaning.
    Quoted(char),
    /// An unquoted character, which may have a special meaning.
    Plain(char),
    /// Empty quotes. They produce a word even if the rest of the word is empty.
    Quotes,
    /// The value of a variable.
    Variable(String, Quoting),
    /// An expansion whose value is known only when the command runs.
    Open(Quoting),
}

/// States whether an expansion is inside double quotes. If it is, the shell does not split the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Double,
    None,
}

impl ShellWord {
    /// Creates a word with exactly this text.
    pub(crate) fn literal(text: &str) -> Self {
        let units = text.chars().map(Unit::Quoted).collect();
        Self { raw: text.to_owned(), text: text.to_owned(), fate: Fate::Exact, units }
    }

    /// Creates a word whose value is not known because it is not in the source, such as an argument
    /// that `xargs` adds.
    pub(crate) fn unknown(raw: &str) -> Self {
        Self::from_units(raw.to_owned(), vec![Unit::Open(Quoting::None)])
    }

    pub(super) fn from_units(raw: String, units: Vec<Unit>) -> Self {
        let mut word = Self { raw, ..Self::default() };
        for (at, unit) in units.iter().enumerate() {
            let fate = match unit {
                Unit::Quotes | Unit::Quoted(_) => Fate::Exact,
                Unit::Plain(c) => plain_fate(*c, at, &units),
                Unit::Variable(_, Quoting::Double) | Unit::Open(Quoting::Double) => Fate::Begins,
                Unit::Variable(_, Quoting::None) | Unit::Open(Quoting::None) => Fate::Anything,
            };
            word.fate = word.fate.max(fate);
            if let (Unit::Plain(c) | Unit::Quoted(c), Fate::Exact) = (unit, word.fate) {
                word.text.push(*c);
            }
        }
        word.units = units;
        word
    }

    /// Returns the text if the whole word is known, otherwise `None`.
    pub(crate) fn exact(&self) -> Option<&str> {
        (self.fate == Fate::Exact).then_some(self.text.as_str())
    }

    /// Returns true if a command may read the word, or a word to which it expands, as a flag.
    pub(crate) fn may_be_flag(&self) -> bool {
        match self.fate {
            Fate::Exact => self.text.starts_with('-'),
            Fate::Begins => self.text.is_empty() || self.text.starts_with('-'),
            Fate::Anything => true,
        }
    }
}

/// Returns how an unquoted character at this position affects the expansion of its word.
fn plain_fate(c: char, at: usize, units: &[Unit]) -> Fate {
    let before = at.checked_sub(1).and_then(|at| units.get(at));
    let after = units.get(at + 1);
    match c {
        '*' | '?' => Fate::Anything,
        '[' if units.len() > 1 => Fate::Anything,
        // `{}` is not a brace expansion but two ordinary characters.
        '{' if after != Some(&Unit::Plain('}')) => Fate::Anything,
        // `~name` expands to another user's home folder. `~+` and `~-` expand to folders that only
        // the shell knows.
        '~' if before.is_none() && !matches!(after, None | Some(Unit::Plain('/'))) => {
            Fate::Anything
        }
        // A tilde also expands after `=` or `:` in a word that looks like an assignment.
        '~' if matches!(before, Some(Unit::Plain('=' | ':'))) => Fate::Anything,
        _ => Fate::Exact,
    }
}
