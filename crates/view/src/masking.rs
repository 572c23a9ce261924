//! Masks texts that look like secrets: keys with a known beginning, private keys, tokens of
//! requests, passwords in addresses, and values whose names say that they are secret.
//!
//! A [`Masker`] can also know the secret values of a run's environment, by their digests. It then
//! masks these values wherever they are.
//!
//! This is a net with holes: a password without a name and without a form of its own looks like any
//! other word. A person must still read a text before it is published.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pitcrew_team::SecretDigests;
use serde::Serialize;
use serde_json::{Map, Value};

mod by_value;
mod decoded;
mod forms;
mod named;
mod secret_texts;

use by_value::KnownValues;
use decoded::Decoded;
use forms::FORMS;
use named::{NAMED, is_secret_name};

pub use secret_texts::secret_texts;

/// The least number of different characters in a secret. `********` is no secret.
const DIFFERENT_LEAST: usize = 3;

/// How many secrets of a kind were masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Masked {
    /// The kind of the secrets, such as `GitHub token` or `value of DEPLOY_KEY`.
    pub kind: Cow<'static, str>,
    /// The number of places where they were masked.
    pub count: usize,
}

/// Masks secrets, and counts them.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    counts: BTreeMap<Cow<'static, str>, usize>,
    known: Option<Arc<KnownValues>>,
}

/// The names of the fields of a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// A program made the names. Without them, a document has no meaning.
    Ours,
    /// An agent chose the names.
    OfAgent,
}

/// The place of a secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    kind: Cow<'static, str>,
    range: Range<usize>,
}

impl Masker {
    /// Returns a masker that has masked nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a masker that also masks the values with these digests.
    #[must_use]
    pub fn knowing(digests: SecretDigests) -> Self {
        Self { counts: BTreeMap::new(), known: KnownValues::of(digests).map(Arc::new) }
    }

    /// Replaces each secret in a text by its kind in brackets.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        // Values come first: a pattern can match a part of a value, and the rest would stay.
        let found = self.known_values(text);
        let mut masked = self.replaced(Cow::Borrowed(text), found);
        // A part of a key with an escape in it looks like a whole key.
        let found = Decoded::of(&masked).map(|decoded| forms::find_encoded(&decoded));
        masked = self.replaced(masked, found.unwrap_or_default());
        for form in FORMS.iter() {
            let (replaced, count) = form.mask(&masked);
            if count > 0 {
                *self.counts.entry(form.kind.into()).or_default() += count;
                masked = Cow::Owned(replaced);
            }
        }
        let found = named::find(&masked);
        masked = self.replaced(masked, found);
        // Without its escapes, the end of a value in quotes is not known. So this comes last.
        let found = Decoded::of(&masked).map(|decoded| named::find_encoded(&decoded));
        self.replaced(masked, found.unwrap_or_default())
    }

    fn known_values(&self, text: &str) -> Vec<Found> {
        self.known.as_ref().map(|known| known.find(text)).unwrap_or_default()
    }

    /// Replaces these places of a text.
    fn replaced<'a>(&mut self, text: Cow<'a, str>, found: Vec<Found>) -> Cow<'a, str> {
        if found.is_empty() {
            return text;
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for Found { kind, range } in found {
            masked.push_str(text.get(at..range.start).unwrap_or_default());
            masked.push_str(&sign(&kind));
            *self.counts.entry(kind).or_default() += 1;
            at = range.end;
        }
        masked.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// Masks the texts in a JSON value. The text in a field whose name says that it is secret is
    /// masked whole. The names of our own fields stay, also if a secret is the same word.
    #[must_use]
    pub fn value(&mut self, value: &Value) -> Value {
        self.value_in(value, Names::Ours)
    }

    fn value_in(&mut self, value: &Value, names: Names) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.value_in(item, names)).collect(),
            Value::Object(fields) => self.fields(fields, names),
            Value::Number(number) => {
                let text = number.to_string();
                match self.known_values(&text) {
                    found if found.is_empty() => value.clone(),
                    found => Value::String(self.replaced(text.into(), found).into_owned()),
                }
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, names: Names) -> Value {
        let mut all = Map::new();
        for (name, value) in fields {
            let value = match value {
                Value::String(text) if is_secret_name(name) && is_secret(text) => {
                    *self.counts.entry(NAMED.into()).or_default() += 1;
                    Value::String(sign(NAMED))
                }
                value => self.value_in(value, names.below(name)),
            };
            let name = match names.has(name) {
                true => name.clone(),
                false => self.text(name).into_owned(),
            };
            // Two secret names can have the same sign. Neither field is lost.
            let others = (2..).map(|number| format!("{name} ({number})"));
            let free = std::iter::once(name.clone()).chain(others).find(|it| !all.contains_key(it));
            all.insert(free.unwrap_or(name), value);
        }
        Value::Object(all)
    }

    /// Returns what was masked so far, by kind.
    #[must_use]
    pub fn masked(&self) -> Vec<Masked> {
        self.counts
            .iter()
            .map(|(kind, count)| Masked { kind: kind.clone(), count: *count })
            .collect()
    }
}

impl Names {
    /// Returns whose names are in the field of this name: the input of a call and the metadata of a
    /// task have any fields.
    fn below(self, name: &str) -> Self {
        if matches!(name, "input" | "metadata") { Self::OfAgent } else { self }
    }

    /// Whether this is the name of a field of ours.
    fn has(self, name: &str) -> bool {
        self == Self::Ours && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
    }
}

/// Returns the sign in place of a secret.
fn sign(kind: &str) -> String {
    format!("[masked: {kind}]")
}

/// Whether a text can be a secret. Numbers, placeholders and references to variables are none.
fn is_secret(text: &str) -> bool {
    can_be_password(text) && !text.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether a text can be a password, which can be a number. Placeholders and references to variables
/// are none.
fn can_be_password(text: &str) -> bool {
    let mut different: Vec<char> = Vec::new();
    for c in text.chars() {
        if !different.contains(&c) {
            different.push(c);
        }
        if different.len() >= DIFFERENT_LEAST {
            break;
        }
    }
    let is_reference = is_variable_reference(text) || text.starts_with(['<', '{', '%', '[']);
    different.len() >= DIFFERENT_LEAST && !is_reference
}

/// Whether a text refers to a variable of a shell, such as `$TOKEN`, `${TOKEN}` and `$(cat token)`.
fn is_variable_reference(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|name| {
        name.starts_with(['{', '(']) || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests;
