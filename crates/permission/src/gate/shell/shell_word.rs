//! One word of a command: its text as far as it is known before the shell expands it.

/// A word and what expansion may still do to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// As written, quotes and all.
    pub raw: String,
    /// Without quotes; up to the first expansion when there is one.
    pub text: String,
    /// How the word becomes its final form.
    pub fate: Fate,
    /// What it consists of, for its expansion.
    pub(super) units: Vec<Unit>,
}

/// What expansion makes of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It is its text.
    #[default]
    Exact,
    /// It is one word that begins with its text.
    Begins,
    /// Any number of words, of which the first begins with its text.
    Anything,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A quoted character: it stands for itself.
    Quoted(char),
    /// An unquoted character, which may be special.
    Plain(char),
    /// Quotes with nothing between them: the word is there even if it is empty.
    Quotes,
    /// A variable's value.
    Variable(String, Quoting),
    /// Something that is known only when the command runs.
    Open(Quoting),
}

/// Whether an expansion is between double quotes, and so is one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Double,
    None,
}

impl ShellWord {
    /// A word of this text.
    pub(crate) fn literal(text: &str) -> Self {
        let units = text.chars().map(Unit::Quoted).collect();
        Self { raw: text.to_owned(), text: text.to_owned(), fate: Fate::Exact, units }
    }

    /// A word that was never written, such as what `xargs` adds.
    pub(crate) fn unknown(raw: &str) -> Self {
        Self::from_units(raw.to_owned(), vec![Unit::Open(Quoting::None)])
    }

    /// The word that was written so and consists of these units.
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

    /// The word, when it is known whole.
    pub(crate) fn exact(&self) -> Option<&str> {
        (self.fate == Fate::Exact).then_some(self.text.as_str())
    }

    /// Whether a command may take it, or a part of it, for a flag.
    pub(crate) fn may_be_flag(&self) -> bool {
        match self.fate {
            Fate::Exact => self.text.starts_with('-'),
            Fate::Begins => self.text.is_empty() || self.text.starts_with('-'),
            Fate::Anything => true,
        }
    }
}

/// What an unquoted character at this place does to its word.
fn plain_fate(c: char, at: usize, units: &[Unit]) -> Fate {
    let before = at.checked_sub(1).and_then(|at| units.get(at));
    let after = units.get(at + 1);
    match c {
        '*' | '?' => Fate::Anything,
        '[' if units.len() > 1 => Fate::Anything,
        // `{}` is two letters.
        '{' if after != Some(&Unit::Plain('}')) => Fate::Anything,
        // The home of somebody, or a folder of the shell's own.
        '~' if before.is_none() && !matches!(after, None | Some(Unit::Plain('/'))) => {
            Fate::Anything
        }
        // It expands in what looks like an assignment.
        '~' if matches!(before, Some(Unit::Plain('=' | ':'))) => Fate::Anything,
        _ => Fate::Exact,
    }
}
