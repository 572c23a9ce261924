//! Expands words like the shell: variables that the script itself sets, braces and file name
//! patterns.
//!
//! A word with any other expansion is not changed, and only a part of its value is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::script::{Assigned, Values};
use super::shell_word::{Quoting, ShellWord, Unit};

/// Maximum number of forms to which one command may expand.
const FORM_LIMIT: usize = 64;

/// Maximum number of opening braces in one word.
const BRACE_LIMIT: usize = 16;

/// Maximum number of words to which one word may expand.
const WORD_LIMIT: usize = 2_000;

/// The variables and folders known at the place where words are expanded.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Each variable that the script sets, with its possible values. `None` if not all values are
    /// known.
    variables: BTreeMap<String, Option<Vec<String>>>,
    /// The variables that are certainly set at this point of the script. Any other variable may
    /// still be unset.
    set: BTreeSet<String>,
    /// The folders in which the script may be running. Empty if the script may change files in
    /// these folders before a pattern is expanded.
    folders: Vec<PathBuf>,
}

impl Scope {
    /// Creates the scope of a script that runs in one of `folders`. Pass no folders if the script
    /// creates files, because patterns cannot be expanded then.
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        Self { variables: BTreeMap::new(), set: BTreeSet::new(), folders: folders.to_vec() }
    }

    /// Records that the script sets the variable in a way that is not evaluated.
    pub(crate) fn forget(&mut self, name: &str) {
        self.variables.insert(name.to_owned(), None);
    }

    /// Records that the script may set any variable, or split values in another way.
    pub(crate) fn forget_all(&mut self) {
        self.variables.values_mut().for_each(|values| *values = None);
    }

    /// Returns true if the script sets the variable at some point.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// Records that the script sets the variable at some point.
    pub(crate) fn assign(&mut self, assigned: &Assigned) {
        let values = match &assigned.values {
            Values::One(word) => word.exact().map(|_| vec![word.text.clone()]),
            Values::Each(words) => self.constant_list(words),
            Values::Unknown => None,
        };
        let known = self.variables.entry(assigned.name.clone()).or_insert_with(|| Some(Vec::new()));
        *known = match (known.take(), values) {
            (Some(mut known), Some(values)) => {
                known.extend(values);
                known.dedup();
                (known.len() <= FORM_LIMIT).then_some(known)
            }
            _ => None,
        };
    }

    /// Records that the variable is set from this point of the script on.
    pub(crate) fn pass(&mut self, assigned: &Assigned) {
        self.set.insert(assigned.name.clone());
    }

    /// Returns the scope for a nested shell. In a nested shell, no variable is certainly set yet.
    pub(crate) fn of_inner(&self) -> Self {
        Self { set: BTreeSet::new(), ..self.clone() }
    }

    fn constant_list(&self, words: &[ShellWord]) -> Option<Vec<String>> {
        let constant = Self { variables: BTreeMap::new(), ..self.clone() };
        let mut all = Vec::new();
        for word in words {
            for form in constant.forms_of(word)? {
                all.extend(form);
            }
        }
        Some(all)
    }

    /// Returns the forms to which a command may expand. A word that is only partly known stays
    /// unchanged in each form.
    pub(crate) fn forms(&self, words: &[ShellWord]) -> Vec<Vec<ShellWord>> {
        let mut forms: Vec<Vec<ShellWord>> = vec![Vec::new()];
        for word in words {
            let literal = |texts: Vec<String>| {
                texts.iter().map(|text| ShellWord::literal(text)).collect::<Vec<_>>()
            };
            let becomes = match word.exact() {
                Some(_) => None,
                None => self
                    .forms_of(word)
                    .map(|forms| forms.into_iter().map(literal).collect::<Vec<_>>()),
            };
            let becomes = becomes.unwrap_or_else(|| vec![vec![word.clone()]]);
            if forms.len() * becomes.len() > FORM_LIMIT {
                // There are too many forms, so leave the whole command unexpanded.
                return vec![words.to_vec()];
            }
            if let [only] = becomes.as_slice() {
                forms.iter_mut().for_each(|form| form.extend_from_slice(only));
                continue;
            }
            let joined = |form: &Vec<ShellWord>| {
                let form = form.clone();
                becomes
                    .iter()
                    .map(move |more| [form.as_slice(), more.as_slice()].concat())
                    .collect::<Vec<_>>()
            };
            forms = forms.iter().flat_map(joined).collect();
        }
        forms
    }

    /// Returns the lists of words to which a word may expand, or `None` if the lists are not known.
    fn forms_of(&self, word: &ShellWord) -> Option<Vec<Vec<String>>> {
        if word.exact().is_some() {
            return Some(vec![vec![word.text.clone()]]);
        }
        let mut forms: Vec<Vec<String>> = vec![Vec::new()];
        for braced in braces(&word.units)? {
            let mut becomes: Vec<Vec<String>> = Vec::new();
            for fields in self.fields(&braced)? {
                becomes.extend(self.matched(&fields)?);
            }
            if forms.len() * becomes.len() > FORM_LIMIT {
                return None;
            }
            let joined = |form: &Vec<String>| {
                let form = form.clone();
                becomes
                    .iter()
                    .map(move |more| [form.as_slice(), more.as_slice()].concat())
                    .collect::<Vec<_>>()
            };
            forms = forms.iter().flat_map(joined).collect();
        }
        Some(forms)
    }

    /// Replaces variables by their values, and splits unquoted values. Returns one list of fields
    /// for each combination of values.
    fn fields(&self, units: &[Unit]) -> Option<Vec<Vec<Vec<Unit>>>> {
        let mut all: Vec<Vec<Option<Unit>>> = vec![Vec::new()];
        for unit in units {
            let values: Vec<Vec<Option<Unit>>> = match unit {
                Unit::Open(_) => return None,
                Unit::Variable(name, quoting) => {
                    let values = self.variables.get(name)?.as_ref()?;
                    // A variable that may still be unset can also expand to nothing.
                    let none = (!self.set.contains(name)).then(String::new);
                    values.iter().chain(&none).map(|value| value_units(value, *quoting)).collect()
                }
                Unit::Quoted(_) | Unit::Plain(_) | Unit::Quotes => vec![vec![Some(unit.clone())]],
            };
            if all.len() * values.len() > FORM_LIMIT {
                return None;
            }
            let joined = |form: &Vec<Option<Unit>>| {
                let form = form.clone();
                values
                    .iter()
                    .map(move |more| [form.as_slice(), more.as_slice()].concat())
                    .collect::<Vec<_>>()
            };
            all = all.iter().flat_map(joined).collect();
        }
        let split = |units: &Vec<Option<Unit>>| {
            let fields = units
                .split(Option::is_none)
                .map(|field| field.iter().flatten().cloned().collect::<Vec<_>>());
            fields.filter(|field| !field.is_empty()).collect::<Vec<_>>()
        };
        Some(all.iter().map(split).collect())
    }

    /// Replaces file name patterns by the matching files. Returns one list for each folder in which
    /// the command may be running.
    fn matched(&self, fields: &[Vec<Unit>]) -> Option<Vec<Vec<String>>> {
        let tilde = |field: &Vec<Unit>| {
            field.iter().enumerate().any(|(at, unit)| {
                let before = at.checked_sub(1).and_then(|at| field.get(at));
                *unit == Unit::Plain('~') && matches!(before, None | Some(Unit::Plain('=' | ':')))
            })
        };
        if fields.iter().any(tilde) {
            return None;
        }
        if !fields.iter().any(|field| is_pattern(field)) {
            return Some(vec![fields.iter().map(|field| text(field)).collect()]);
        }
        // Without folders, the files at run time are not known, so a pattern cannot be expanded.
        if self.folders.is_empty() {
            return None;
        }
        let in_folder = |folder: &PathBuf| {
            let mut words = Vec::new();
            for field in fields {
                let found = if is_pattern(field) { files(folder, field)? } else { Vec::new() };
                // The shell leaves a pattern without matches as written.
                if found.is_empty() {
                    words.push(text(field));
                }
                words.extend(found);
                if words.len() > WORD_LIMIT {
                    return None;
                }
            }
            Some(words)
        };
        self.folders.iter().map(in_folder).collect()
    }
}

/// Returns the characters of a variable's value, with `None` at each place where the shell splits
/// the value.
fn value_units(value: &str, quoting: Quoting) -> Vec<Option<Unit>> {
    let unit = |c: char| match quoting {
        Quoting::Double => Some(Unit::Quoted(c)),
        Quoting::None if matches!(c, ' ' | '\t' | '\n') => None,
        Quoting::None if matches!(c, '*' | '?' | '[' | ']' | '/') => Some(Unit::Plain(c)),
        Quoting::None => Some(Unit::Quoted(c)),
    };
    value.chars().map(unit).collect()
}

fn text(units: &[Unit]) -> String {
    let letter = |unit: &Unit| match unit {
        Unit::Plain(c) | Unit::Quoted(c) => Some(*c),
        Unit::Quotes | Unit::Variable(..) | Unit::Open(_) => None,
    };
    units.iter().filter_map(letter).collect()
}

fn is_pattern(units: &[Unit]) -> bool {
    units.iter().any(|unit| matches!(unit, Unit::Plain('*' | '?' | '[')))
}

/// Expands `{a,b}`. Returns `None` for nested braces, ranges and unusual forms.
fn braces(units: &[Unit]) -> Option<Vec<Vec<Unit>>> {
    if units.iter().filter(|unit| **unit == Unit::Plain('{')).count() > BRACE_LIMIT {
        return None;
    }
    let is = |at: usize, c: char| units.get(at) == Some(&Unit::Plain(c));
    let Some(open) = (0..units.len()).find(|at| is(*at, '{') && !is(at + 1, '}')) else {
        return Some(vec![units.to_vec()]);
    };
    let close = (open + 1..units.len()).find(|at| is(*at, '}'))?;
    let inside = units.get(open + 1..close)?;
    let is_odd =
        |unit: &Unit| matches!(unit, Unit::Plain('{') | Unit::Open(_) | Unit::Variable(..));
    if inside.iter().any(is_odd)
        || text(inside).contains("..") && !inside.contains(&Unit::Plain(','))
    {
        return None;
    }
    let (before, after) = (units.get(..open)?, units.get(close + 1..)?);
    if !inside.contains(&Unit::Plain(',')) {
        // Braces without a comma are ordinary characters.
        return braces(after)?
            .into_iter()
            .map(|rest| Some([units.get(..=close)?, &rest].concat()))
            .collect();
    }
    let mut all = Vec::new();
    for piece in inside.split(|unit| *unit == Unit::Plain(',')) {
        for rest in braces(after)? {
            all.push([before, piece, &rest].concat());
        }
    }
    (all.len() <= FORM_LIMIT).then_some(all)
}

/// Returns the files in a folder that match a pattern. The result may contain more files than the
/// shell finds. Returns `None` if there are too many files.
fn files(folder: &Path, pattern: &[Unit]) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let pieces: Vec<&[Unit]> =
        pattern.split(|unit| matches!(unit, Unit::Plain('/') | Unit::Quoted('/'))).collect();
    for (at, piece) in pieces.iter().enumerate() {
        let slash = if at + 1 < pieces.len() { "/" } else { "" };
        let mut next = Vec::new();
        for begun in &found {
            if !is_pattern(piece) {
                next.push(format!("{begun}{}{slash}", text(piece)));
                continue;
            }
            for name in names(&folder.join(begun), piece) {
                next.push(format!("{begun}{name}{slash}"));
            }
            if next.len() > WORD_LIMIT {
                return None;
            }
        }
        found = next;
    }
    Some(found.into_iter().filter(|path| folder.join(path).symlink_metadata().is_ok()).collect())
}

fn names(folder: &Path, piece: &[Unit]) -> Vec<String> {
    let pattern = tokens(piece);
    let with_dot = matches!(pattern.first(), Some(Token::Letter('.')));
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let own = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // In older shells a pattern can also match `.` and `..`.
    let dots = [".", ".."].map(str::to_owned);
    let mut all: Vec<String> =
        own.chain(dots).filter(|name| with_dot || !name.starts_with('.')).collect();
    all.retain(|name| matches(&pattern, &name.chars().collect::<Vec<_>>()));
    all.sort();
    all
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Letter(char),
    One,
    Any,
}

/// Returns the position of the `]` that ends a character set. Returns `None` if the set contains
/// special characters.
fn set_end(inside: &[Unit]) -> Option<usize> {
    let is_plain = |unit: &Unit| matches!(unit, Unit::Plain(c) if c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let end = inside.iter().position(|unit| *unit == Unit::Plain(']'))?;
    inside.get(..end).filter(|set| !set.is_empty() && set.iter().all(is_plain)).map(|_| end)
}

/// Splits a pattern into tokens. A character set becomes the token for any single character, which
/// matches more than the set does.
fn tokens(piece: &[Unit]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = piece.iter().enumerate();
    while let Some((at, unit)) = rest.next() {
        match unit {
            Unit::Plain('*') => tokens.push(Token::Any),
            Unit::Plain('?') => tokens.push(Token::One),
            Unit::Plain('[') => match set_end(piece.get(at + 1..).unwrap_or_default()) {
                Some(end) => {
                    tokens.push(Token::One);
                    rest.nth(end);
                }
                None => {
                    tokens.push(Token::Any);
                    return tokens;
                }
            },
            Unit::Plain(c) | Unit::Quoted(c) => tokens.push(Token::Letter(*c)),
            Unit::Quotes | Unit::Variable(..) | Unit::Open(_) => {}
        }
    }
    tokens
}

fn matches(pattern: &[Token], name: &[char]) -> bool {
    // Each element of `places` says whether this position in the pattern can be reached after the
    // characters of the name that were read so far.
    let skip_any = |places: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            let is_any = places.get(at) == Some(&true) && pattern.get(at) == Some(&Token::Any);
            if let Some(place) = places.get_mut(at + 1).filter(|_| is_any) {
                *place = true;
            }
        }
    };
    let mut places = vec![false; pattern.len() + 1];
    if let Some(first) = places.first_mut() {
        *first = true;
    }
    skip_any(&mut places);
    for letter in name {
        let mut next = vec![false; pattern.len() + 1];
        for (at, token) in pattern.iter().enumerate() {
            if places.get(at) != Some(&true) {
                continue;
            }
            let to = match token {
                Token::Any => at,
                Token::One => at + 1,
                Token::Letter(c) if c == letter => at + 1,
                Token::Letter(_) => continue,
            };
            if let Some(place) = next.get_mut(to) {
                *place = true;
            }
        }
        skip_any(&mut next);
        places = next;
    }
    places.last() == Some(&true)
}
