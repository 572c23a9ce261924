//! Finds values whose names say that they are secret: settings, fields of JSON, environment
//! variables, parameters of addresses, headers and options of commands.
//!
//! A value is found whole: to its closing quote, to the end of its header, or to the end of its
//! word.

use std::sync::LazyLock;

use pitcrew_process::sandbox::is_secret_name as is_secret_variable;
use regex::{Captures, Regex};

use super::Found;
use super::decoded::Decoded;

/// The kind of a quoted value, or of another value that certainly is one.
pub(super) const NAMED: &str = "named secret";

/// The kind of an unquoted value in a line of a settings file. Code has such lines too.
pub(super) const SETTING: &str = "secret setting";

/// The minimum number of characters of an unquoted setting.
const SETTING_CHARS: usize = 6;

/// A name with a sign after it, or an option of a command, up to the value.
const BEGINNINGS: &str = r#"(?x)
    (?:
        (?P<before> -- | [?&] | ["'] )?
        (?P<name> [A-Za-z0-9_] [A-Za-z0-9_.-]* )
        (?P<quote> \\* ["'] \]? )? (?P<sign> [\x20\t]* (?: := | => | [:=] ) [\x20\t]* )
    |
        -- (?P<option> [A-Za-z0-9_] [A-Za-z0-9_.-]* ) [\x20\t]+
    )
    (?P<open> \\* ["'] )?"#;

/// The maximum number of bytes of a header and of a setting with blanks. A line without end and with
/// many names would otherwise be read for each of them.
const HEADER_BYTES: usize = 4 * 1024;
const SETTING_BYTES: usize = 512;

/// Names that are secret although none of their words is.
const PAIRS: &str = r"(?xi)
    (?: api | app | access | account | auth | deploy | encryption | master | private | secret
        | shared | signing | ssh | storage ) [_.-]? keys? $";

/// Words that make a variable secret, but are ordinary words in texts and in code.
const ORDINARY: &[&str] = &[
    "display",
    "tmux",
    "auth",
    "bearer",
    "hmac",
    "jwt",
    "key",
    "keys",
    "keystore",
    "otp",
    "pat",
    "pem",
    "pepper",
    "phrase",
    "pin",
    "priv",
    "private",
    "rsa",
    "salt",
    "sas",
    "sk",
    "tokens",
    "signature",
    "signing",
];

/// Headers whose whole rest is secret.
const HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"];

static BEGINNING: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(BEGINNINGS).ok());
static PAIR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PAIRS).ok());

/// Returns the places of the values that are secret by their names, in order.
pub(super) fn find(text: &str) -> Vec<Found> {
    let Some(beginning) = BEGINNING.as_ref() else { return Vec::new() };
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(found) = beginning.captures_at(text, at) {
        let end_of = |group| found.name(group).map(|it| it.end());
        // The next name can begin where this value begins: `file: password: x`.
        let after_name = end_of("sign").or_else(|| end_of("option")).unwrap_or(text.len());
        at = after_name;
        if let Some(value) = value(text, &found) {
            at = value.range.end.max(after_name);
            all.push(value);
        }
    }
    all
}

/// Returns the places of values whose names have escapes or colours in or after them, in order.
pub(super) fn find_encoded(text: &Decoded) -> Vec<Found> {
    let found = find(text.words()).into_iter();
    found.map(|Found { kind, range }| Found { kind, range: text.place(range) }).collect()
}

fn value(text: &str, found: &Captures<'_>) -> Option<Found> {
    let group = |name| found.name(name).map(|it| it.as_str());
    let whole = found.get(0)?;
    let name = group("name").or_else(|| group("option"))?;
    let rest = text.get(whole.end()..)?;
    let is_option = group("option").is_some() || group("before") == Some("--");
    let header = HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it));
    if header && group("sign").is_some_and(|sign| sign.trim() == ":") && group("quote").is_none() {
        return in_header(rest, group("before"), group("open")).and_then(|(skipped, length)| {
            let begin = whole.end() + skipped;
            let range = begin..begin + length;
            could_be(text.get(range.clone())?, Form::Word)
                .then_some(Found { kind: NAMED.into(), range })
        });
    }
    if !is_secret_name(name) {
        return None;
    }
    let (length, form) = match group("open") {
        Some(open) => (quoted_length(rest, open), Form::Quoted(is_password(name))),
        None => {
            let is_plain = group("sign").is_some_and(|sign| sign == "=");
            let is_sure = is_option
                || is_plain && (is_variable(name) || matches!(group("before"), Some("?" | "&")));
            match is_sure {
                true => {
                    (word_length(rest, &['"', '\'', '`', '&', ';', '|', '<', '>', ')']), Form::Sure)
                }
                false if is_ordinary(name) => return None,
                false => (setting_length(rest, is_plain), Form::Setting),
            }
        }
    };
    let range = whole.end()..whole.end() + length;
    let kind = if form == Form::Setting { SETTING } else { NAMED };
    could_be(text.get(range.clone())?, form).then_some(Found { kind: kind.into(), range })
}

/// The form of a value, on which depends what can be no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In quotes. The flag says whether a number can be the secret.
    Quoted(bool),
    /// In a place where no code and no ordinary text is.
    Sure,
    /// After a name, as in code too.
    Setting,
    /// In a header.
    Word,
}

fn could_be(value: &str, form: Form) -> bool {
    // Part of the value is masked already.
    if value.contains("[masked: ") {
        return false;
    }
    match form {
        Form::Quoted(true) if value.chars().all(|c| c.is_ascii_digit()) => value.len() >= 4,
        Form::Quoted(_) | Form::Sure => super::is_secret(value),
        Form::Word => super::is_secret(value) && !is_prose(value),
        Form::Setting => {
            value.len() >= SETTING_CHARS && super::is_secret(value) && !is_prose(value)
        }
    }
}

/// Whether a value is a word or a name in code: it has neither a digit nor a sign that names do not
/// have. Sums of tokens are no secrets either.
fn is_prose(value: &str) -> bool {
    let is_sum = |c: char| c.is_ascii_digit() || ".,/%_".contains(c);
    value.chars().all(is_sum)
        || !value.contains(|c: char| c.is_ascii_digit() || "-+/=@#$%^~".contains(c))
}

/// Returns where the secret of a header begins, and its length. The scheme stays.
fn in_header(rest: &str, before: Option<&str>, open: Option<&str>) -> Option<(usize, usize)> {
    let line = line_of(rest, HEADER_BYTES);
    let end = match (open, before) {
        (Some(open), _) => quoted_length(line, open),
        (None, Some(quote @ ("\"" | "'"))) => quoted_length(line, quote),
        (None, _) => line.find(['"', '\'', '`']).unwrap_or(line.len()),
    };
    let value = line.get(..end)?.trim_end();
    let schemes = ["bearer ", "basic ", "token ", "digest ", "apikey "];
    let is_scheme = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    let skipped = schemes.iter().find(is_scheme).map_or(0, |scheme| scheme.len());
    Some((skipped, value.len() - skipped))
}

/// Returns the length of a text up to the quote that closes it. Without that quote it is the rest of
/// the line: the text was cut.
fn quoted_length(rest: &str, open: &str) -> usize {
    let quote = open.chars().last().unwrap_or('"');
    let escapes = open.len().saturating_sub(1);
    let mut backslashes = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '\n' => return at,
            '\\' => {
                backslashes += 1;
                continue;
            }
            c if c == quote && is_closed(backslashes, escapes) => {
                return at - backslashes.min(escapes);
            }
            _ => {}
        }
        backslashes = 0;
    }
    rest.len()
}

/// Whether a quote after some backslashes is the closing one. In a text with escaped quotes, an inner
/// quote has more backslashes than the closing one.
fn is_closed(backslashes: usize, escapes: usize) -> bool {
    match escapes {
        0 => backslashes.is_multiple_of(2),
        escapes => backslashes <= escapes,
    }
}

/// Returns the rest of the line, up to a limit.
fn line_of(rest: &str, bytes: usize) -> &str {
    let most = rest.get(..rest.floor_char_boundary(bytes)).unwrap_or(rest);
    most.lines().next().unwrap_or_default()
}

fn word_length(rest: &str, ends: &[char]) -> usize {
    rest.find(|c: char| c.is_whitespace() || ends.contains(&c)).unwrap_or(rest.len())
}

/// Returns the length of a setting. It is a word if the sign is directly before it, or if there is a
/// sign of code after it. Otherwise it is the rest of the line.
fn setting_length(rest: &str, is_plain: bool) -> usize {
    const CODE: [char; 13] = ['"', '\'', '`', '$', '<', '>', '(', ')', '{', '}', '[', ']', '\\'];
    const QUOTES: [char; 4] = ['"', '\'', '`', '\\'];
    let line = line_of(rest, SETTING_BYTES);
    if !line.contains(char::is_whitespace) && !line.contains(CODE) {
        return word_length(rest, &['&', ';', ',']);
    }
    let value = line.split(" #").next().unwrap_or_default().trim_end_matches([' ', '\t', ',', ';']);
    let first = word_length(value, &['&', ';', ',']);
    if value.contains(CODE) {
        let word = value.get(..first).unwrap_or_default();
        return match word.find(CODE) {
            // A call or an index of code: `token = parser.token(1)`.
            Some(at) if !word.get(at..).is_some_and(|sign| sign.starts_with(QUOTES)) => 0,
            // The end of a string that has the setting: `{"said": "password=..."}`.
            Some(at) => at,
            None => first,
        };
    }
    if is_plain { first } else { value.len() }
}

/// Whether a name is written like an environment variable.
fn is_variable(name: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(is_upper) && name.contains(|c: char| c.is_ascii_uppercase())
}

fn is_password(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("pass") || name.ends_with("pwd")
}

/// Whether a name says that its value is secret. In upper case these are the names of the variables
/// that commands do not inherit. In other names, ordinary words do not count.
pub(super) fn is_secret_name(name: &str) -> bool {
    if is_variable(name) {
        return is_secret_variable(name) && !name.ends_with("TOKENS");
    }
    if PAIR.as_ref().is_some_and(|pair| pair.is_match(name)) {
        return true;
    }
    let name = name.to_ascii_lowercase();
    let mut words = name.split(['_', '-', '.']);
    if words.clone().any(|word| word == "secret" || word.starts_with("passw")) {
        return true;
    }
    let last = words.next_back().unwrap_or_default();
    let is_word = is_ordinary(last) || name == "pass" || last.ends_with("tokens");
    !is_word && is_secret_variable(last)
}

fn is_ordinary(word: &str) -> bool {
    ORDINARY.iter().any(|ordinary| word.eq_ignore_ascii_case(ordinary))
}
