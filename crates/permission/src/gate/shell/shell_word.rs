//! One word of a command, with the part of its text that is known before the shell expands it.

use super::super::overlap::Piece;

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

    /// Returns the pieces of the text to which the word may expand.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (at, unit) in self.units.iter().enumerate() {
            match unit {
                Unit::Quotes => {}
                Unit::Quoted(c) => pieces.push(Piece::Letter(*c)),
                Unit::Plain(c) => match plain_fate(*c, at, &self.units) {
                    Fate::Exact => pieces.push(Piece::Letter(*c)),
                    // What braces become is not written in this order.
                    _ if *c == '{' => return vec![Piece::Anything],
                    _ => pieces.push(Piece::Anything),
                },
                Unit::Variable(_, Quoting::Double) | Unit::Open(Quoting::Double) => {
                    pieces.push(Piece::WithinWord);
                }
                Unit::Variable(_, Quoting::None) | Unit::Open(Quoting::None) => {
                    pieces.push(Piece::Anything);
                }
            }
        }
        pieces
    }

    /// Returns true if the word may expand to no word at all.
    pub(crate) fn may_vanish(&self) -> bool {
        let is_open = |unit: &Unit| {
            matches!(unit, Unit::Variable(_, Quoting::None) | Unit::Open(Quoting::None))
        };
        self.fate == Fate::Anything && self.units.iter().all(is_open)
    }

    /// Returns the program's name without its folder, if all of the name is known. The folder may
    /// be an expansion in quotes, or a variable that the environment sets (`is_set` says whether
    /// the script sets it).
    pub(crate) fn program_name(&self, is_set: impl Fn(&str) -> bool) -> Option<String> {
        if let Some(text) = self.exact() {
            return Some(text.rsplit('/').next().unwrap_or(text).to_owned());
        }
        let is_slash = |unit: &Unit| matches!(unit, Unit::Plain('/') | Unit::Quoted('/'));
        let slash = self.units.iter().rposition(is_slash)?;
        let (folder, name) = self.units.split_at_checked(slash + 1)?;
        let is_one_word = |unit: &Unit| match unit {
            Unit::Open(quoting) => *quoting == Quoting::Double,
            Unit::Variable(name, Quoting::None) => {
                name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !is_set(name)
            }
            Unit::Plain(c) => *c != '{',
            Unit::Variable(_, Quoting::Double) | Unit::Quoted(_) | Unit::Quotes => true,
        };
        let name = Self::from_units(String::new(), name.to_vec());
        let is_known = folder.iter().all(is_one_word) && !name.text.is_empty();
        name.exact().filter(|_| is_known).map(str::to_owned)
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
