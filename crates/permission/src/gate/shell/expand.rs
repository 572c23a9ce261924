//! What words become when the shell expands them: variables of the script itself, braces and file names.
//!
//! A word that holds anything else stays as it is, and so is known only in part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::script::{Assigned, Values};
use super::shell_word::{Quoting, ShellWord, Unit};

/// How many forms one command may take.
const FORM_LIMIT: usize = 64;

/// How many braces one word may have.
const BRACE_LIMIT: usize = 16;

/// How many words one word may become.
const WORD_LIMIT: usize = 2_000;

/// What is known where words are expanded.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Each variable that the script sets, with the values it may have, if all of them are known.
    variables: BTreeMap<String, Option<Vec<String>>>,
    /// Those that surely have one of them by now. Others may have none yet.
    set: BTreeSet<String>,
    /// The folders it may run in; none when the files in them may be others by then.
    folders: Vec<PathBuf>,
}

impl Scope {
    /// A script that runs in one of these folders and changes no file before it is done.
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        Self { variables: BTreeMap::new(), set: BTreeSet::new(), folders: folders.to_vec() }
    }

    /// Notes a variable that is set somewhere.
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

    /// Notes that the variable has been set.
    pub(crate) fn pass(&mut self, assigned: &Assigned) {
        self.set.insert(assigned.name.clone());
    }

    /// The same in a shell of its own, which has no variables yet.
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

    /// The forms that a command may take. A word that is not known whole stays as it is in each of them.
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

    /// The lists of words that a word may become; None when that is not known.
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

    /// Puts the values of variables in, and splits what is not quoted: one list of fields for each set of values.
    fn fields(&self, units: &[Unit]) -> Option<Vec<Vec<Vec<Unit>>>> {
        let mut all: Vec<Vec<Option<Unit>>> = vec![Vec::new()];
        for unit in units {
            let values: Vec<Vec<Option<Unit>>> = match unit {
                Unit::Open(_) => return None,
                Unit::Variable(name, quoting) => {
                    let values = self.variables.get(name)?.as_ref()?;
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

    /// Replaces patterns by the files they match: one list for each folder it may be in.
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
        if self.folders.is_empty() {
            return None;
        }
        let in_folder = |folder: &PathBuf| {
            let mut words = Vec::new();
            for field in fields {
                let found = if is_pattern(field) { files(folder, field)? } else { Vec::new() };
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

/// A variable's value; None is where it is split.
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

/// Expands `{a,b}`. None for what is nested, a range, or odd.
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
        // Without a comma the braces are letters.
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

/// The files that a pattern matches in a folder, and perhaps some more. None when there are too many.
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
    // Older shells match these, too.
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

/// Where a set in brackets ends; None where that is not plain.
fn set_end(inside: &[Unit]) -> Option<usize> {
    let is_plain = |unit: &Unit| matches!(unit, Unit::Plain(c) if c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let end = inside.iter().position(|unit| *unit == Unit::Plain(']'))?;
    inside.get(..end).filter(|set| !set.is_empty() && set.iter().all(is_plain)).map(|_| end)
}

/// A set in brackets counts as any letter: that is more than it matches.
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
    // The places in the pattern that the letters so far may have led to.
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
