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
use std::sync::LazyLock;

use pitcrew_team::SecretDigests;
use regex::{Captures, Regex};
use serde::Serialize;
use serde_json::Value;

mod by_value;
mod named;
mod secret_texts;

use by_value::KnownValues;
use named::{NAMED, is_secret_name};

pub use secret_texts::secret_texts;

/// The least number of different characters in a secret. `********` is no secret.
const DIFFERENT_LEAST: usize = 3;

/// The name of the group of a pattern that is masked. Without this group, all is masked.
const SECRET: &str = "secret";

/// The kinds of secrets that follow an ordinary word. A text without a digit is a word too.
const BEARER: &str = "bearer token";
const BASIC: &str = "basic credentials";
const IN_ADDRESS: &str = "token in an address";

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

/// The place of a secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    kind: Cow<'static, str>,
    range: Range<usize>,
}

/// A form of secrets.
struct Form {
    kind: &'static str,
    regex: Regex,
    /// Whether a match counts only if it does not look like a placeholder.
    is_checked: bool,
}

/// The forms of secrets. A form comes before another one that would match a part of it.
const FORMS: &[(&str, &str)] = &[
    (
        "private key",
        r"(?x) -----BEGIN\x20 [A-Z0-9\x20]* PRIVATE\x20KEY (?:\x20BLOCK)? -----
            [\s\S]*?
            (?: -----END\x20 [A-Z0-9\x20]* PRIVATE\x20KEY (?:\x20BLOCK)? ----- | \z)",
    ),
    ("private key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{16,}"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{8,}"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"),
    ("GitLab token", r"\bgl(?:pat|cbt|dt|rt|soat)-[A-Za-z0-9_.-]{16,}"),
    ("Slack token", r"\bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}"),
    (
        "Slack webhook",
        r"https://hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/_-]{16,})",
    ),
    ("AWS key id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    (
        "Google key",
        r"\b(?:AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,})",
    ),
    ("Stripe key", r"\b(?:[sr]k_(?:live|test)_[0-9A-Za-z]{10,}|whsec_[0-9A-Za-z+/=]{16,})"),
    (
        "package registry token",
        r"(?x) \b (?:
            npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,} | cio[A-Za-z0-9]{32}\b
            | dckr_pat_[A-Za-z0-9_-]{20,} )",
    ),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("SendGrid key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("Vault token", r"\bhv[sbr]\.[A-Za-z0-9_-]{8,}"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{32,}"),
    ("API key", r"\b(?:sk-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,})"),
    ("web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    // The beginning of a key in a text that was cut.
    (
        "cut key",
        r"(?x) \b (?: sk- | gh[pousr]_ | github_pat_ | glpat- | xox[abeoprs]- | AKIA | AIza
            | npm_ | pypi- | hf_ | eyJ )
            [A-Za-z0-9_.-]{4,} …",
    ),
    (BEARER, r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{12,}=*)"),
    (BASIC, r"(?i)\bbasic\s+(?P<secret>[A-Za-z0-9+/]{12,}={0,2})"),
    ("password in an address", r#"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<secret>[^\s/"'<>]{3,})@"#),
    (IN_ADDRESS, r"\bhttps?://(?P<secret>[^\s/:@\x22'<>\[\]]{8,})@"),
    (
        "password of a command",
        r#"(?x) \bcurl\b [^\n]*? \s (?: -u | --user | --proxy-user ) [\x20=]* ["']? [^\s:"']+ :
            (?P<secret> [^\s"']{3,} )"#,
    ),
];

static COMPILED: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let form = |(kind, pattern): &(&'static str, &str)| {
        let regex = Regex::new(pattern).ok()?;
        let is_checked = regex.capture_names().flatten().any(|name| name == SECRET);
        Some(Form { kind, regex, is_checked })
    };
    FORMS.iter().filter_map(form).collect()
});

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
        for form in COMPILED.iter() {
            let mut count = 0;
            let replaced = form.regex.replace_all(&masked, |found: &Captures<'_>| {
                let whole = found.get(0).map_or("", |whole| whole.as_str());
                let secret = found.name(SECRET).map_or(whole, |secret| secret.as_str());
                if form.is_checked && !form.is_secret(secret) {
                    return whole.to_owned();
                }
                count += 1;
                masked_in(found, form.kind)
            });
            if count > 0 {
                let replaced = replaced.into_owned();
                *self.counts.entry(form.kind.into()).or_default() += count;
                masked = Cow::Owned(replaced);
            }
        }
        let found = named::find(&masked);
        self.replaced(masked, found)
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
    /// masked whole.
    #[must_use]
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let masked = fields.iter().map(|(name, value)| {
                    let value = match value {
                        Value::String(text) if is_secret_name(name) && is_secret(text) => {
                            *self.counts.entry(NAMED.into()).or_default() += 1;
                            Value::String(sign(NAMED))
                        }
                        value => self.value(value),
                    };
                    (self.text(name).into_owned(), value)
                });
                Value::Object(masked.collect())
            }
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

    /// Returns what was masked so far, by kind.
    #[must_use]
    pub fn masked(&self) -> Vec<Masked> {
        self.counts
            .iter()
            .map(|(kind, count)| Masked { kind: kind.clone(), count: *count })
            .collect()
    }
}

impl Form {
    /// Whether a text after the words of this form is a secret, and not a word or a placeholder.
    fn is_secret(&self, text: &str) -> bool {
        let can_be_word = matches!(self.kind, BEARER | BASIC | IN_ADDRESS);
        is_secret(text) && (!can_be_word || text.contains(|c: char| c.is_ascii_digit()))
    }
}

/// Returns the sign in place of a secret.
fn sign(kind: &str) -> String {
    format!("[masked: {kind}]")
}

/// Returns a match in which the secret is replaced. The text around the secret stays.
fn masked_in(found: &Captures<'_>, kind: &str) -> String {
    let (Some(whole), Some(secret)) = (found.get(0), found.name(SECRET)) else { return sign(kind) };
    let text = whole.as_str();
    let before = text.get(..secret.start() - whole.start()).unwrap_or_default();
    let after = text.get(secret.end() - whole.start()..).unwrap_or_default();
    format!("{before}{}{after}", sign(kind))
}

/// Whether a text can be a secret. Numbers, placeholders and references to variables are none.
fn is_secret(text: &str) -> bool {
    let mut different: Vec<char> = Vec::new();
    for c in text.chars() {
        if !different.contains(&c) {
            different.push(c);
        }
        if different.len() >= DIFFERENT_LEAST {
            break;
        }
    }
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_reference = is_variable_reference(text) || text.starts_with(['<', '{', '%', '[']);
    different.len() >= DIFFERENT_LEAST && !is_number && !is_reference
}

/// Whether a text refers to a variable of a shell, such as `$TOKEN`, `${TOKEN}` and `$(cat token)`.
fn is_variable_reference(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|name| {
        name.starts_with(['{', '(']) || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(text: &str) -> String {
        Masker::new().text(text).into_owned()
    }

    /// Returns a text that looks random.
    fn random(count: usize) -> String {
        "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY".chars().cycle().take(count).collect()
    }

    #[test]
    fn every_form_is_a_pattern() {
        assert_eq!(COMPILED.len(), FORMS.len());
        assert_eq!(named::find("--token a1b2").len(), 1);
        assert!(is_secret_name("accountKey"));
    }

    #[test]
    fn keys_with_a_known_beginning_are_masked_wherever_they_are() {
        for (beginning, count, kind) in [
            ("sk-ant-api03-", 40, "Anthropic key"),
            ("sk-proj-", 40, "API key"),
            ("sk-", 48, "API key"),
            ("ghp_", 36, "GitHub token"),
            ("github_pat_", 40, "GitHub token"),
            ("glpat-", 20, "GitLab token"),
            ("xoxb-", 30, "Slack token"),
            ("AIza", 35, "Google key"),
            ("npm_", 36, "package registry token"),
            ("hf_", 34, "Hugging Face token"),
            ("sk_live_", 24, "Stripe key"),
        ] {
            let key = format!("{beginning}{}", random(count));
            for (before, after) in [("", ""), ("key=", "\n"), ("\"", "\","), ("(", ").")] {
                let text = format!("{before}{key}{after}");
                let masked = masked(&text);
                assert!(!masked.contains(&key), "{text} -> {masked}");
                assert!(masked.contains(&sign(kind)), "{text} -> {masked}");
            }
        }
        assert_eq!(masked("AKIAIOSFODNN7EXAMPLE"), "[masked: AWS key id]");
        assert_eq!(masked("it was ghp_aB3dE5fG…"), "it was [masked: cut key]");
    }

    #[test]
    fn private_keys_are_masked_to_their_end_or_to_the_end_of_the_text() {
        let key =
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1\n-----END OPENSSH PRIVATE KEY-----";
        assert_eq!(masked(&format!("a\n{key}\nb")), "a\n[masked: private key]\nb");
        assert_eq!(masked("a -----BEGIN PRIVATE KEY-----\nMIIE"), "a [masked: private key]");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----";
        assert_eq!(masked(public), public);
    }

    #[test]
    fn tokens_of_requests_and_passwords_in_addresses_are_masked() {
        let token = random(24);
        assert_eq!(
            masked(&format!("Authorization: Bearer {token}")),
            "Authorization: Bearer [masked: bearer token]"
        );
        assert_eq!(
            masked("curl -H 'Authorization: Basic dXNlcjpwYXNzd29yZA=='"),
            "curl -H 'Authorization: Basic [masked: basic credentials]'"
        );
        assert_eq!(
            masked("postgres://app:s3cretpw@db.local/x"),
            "postgres://app:[masked: password in an address]@db.local/x"
        );
    }

    #[test]
    fn a_value_is_masked_if_its_name_says_that_it_is_secret() {
        assert_eq!(masked("DEPLOY_KEY=hunter2hunter2"), "DEPLOY_KEY=[masked: named secret]");
        assert_eq!(
            masked(r#"{"password": "hunter22"}"#),
            r#"{"password": "[masked: named secret]"}"#
        );
        assert_eq!(
            masked(r#"\"api_key\": \"hunter22\""#),
            r#"\"api_key\": \"[masked: named secret]\""#
        );
        assert_eq!(
            masked("[db]\npassword = hunter22\nhost = x"),
            "[db]\npassword = [masked: secret setting]\nhost = x"
        );
        let value = json!({"headers": {"Authorization": "hunter22"}, "password": "p4ss", "n": 1});
        let mut masker = Masker::new();
        assert_eq!(
            masker.value(&value),
            json!({"headers": {"Authorization": "[masked: named secret]"},
                "password": "[masked: named secret]", "n": 1})
        );
        assert_eq!(masker.masked(), [Masked { kind: "named secret".into(), count: 2 }]);
    }

    #[test]
    fn a_value_with_a_secret_name_is_masked_whole() {
        // Nothing of `@` may stay, wherever the value is.
        for (text, value) in [
            (r#"{"password": "@"}"#, "correct horse battery"),
            (r#"{"password": "@", "n": 1}"#, r#"cor\"rect horse"#),
            (r#""{\"password\": \"@\"}""#, "correct horse battery"),
            (r#""password": "@"#, "correct horse"),
            (r#"{"db_password":"@"}"#, "12345678"),
            ("DB_PASS=@", "hunter"),
            ("PGPASSWORD=@ psql", "p(w,d}x"),
            ("export MY_SECRET='@'", "multi word"),
            ("export MY_SECRET=\"@\" && run", "multi word, $1"),
            ("https://a.b/c?access_token=@&d=e", "abcdef"),
            ("//registry.npmjs.org/:_authToken=@", "ab12cd34ef"),
            ("AccountName=x;AccountKey=@;EndpointSuffix=y", "aB3/dE5+fG7=="),
            ("run --token @", "abc"),
            ("run --password=@ more", "hunter"),
            ("run --api-key '@'", "two words"),
            ("VAULT hint: @", "hvs.CAESIJxyz12345678"),
            ("curl -H 'X-Api-Key: @' https://a.b", "abc123def"),
            ("curl -H \"Cookie: @\" https://a.b", "sid=ab12; other=cd34"),
            ("Cookie: @", "sid=ab12; other=cd34"),
            ("Authorization: token @", "0123abcd"),
            ("'Authorization': 'token @'", "0123abcd"),
            ("curl -s -u user:@ https://a.b", "hunter2"),
            ("curl --user 'user:@' https://a.b", "pw!word"),
            ("git clone https://@@a.b/c.git", "aB3dE5fG7hJ9"),
            ("postgres://app:@@db/x", "p@ssw0rd"),
            ("config.yml: password: @", "hunter22"),
            ("src/a.yml:12:  password: @", "hunter22"),
            ("+  password: @", "hunter22"),
            ("-  db.password = @  # old", "hunter22"),
            ("password: '@'", "$tr0ng! one"),
            ("password: @", "correct horse battery 9"),
            ("secret_key_base: '@'", "it\\'s long"),
        ] {
            let text = match text.matches('@').count() {
                1 => text.replace('@', value),
                _ => text.replacen('@', value, 1),
            };
            let masked = masked(&text);
            assert!(masked.contains("[masked: "), "{text} -> {masked}");
            for word in value.split([' ', ';', ',', '"', '\\']).filter(|word| word.len() > 1) {
                assert!(!masked.contains(word), "{text} -> {masked}");
            }
        }
    }

    #[test]
    fn a_long_line_with_many_names_is_read_in_time() {
        let begin = std::time::Instant::now();
        for word in ["Cookie: a ", "password: a ", "curl -u a ", "password=\"a "] {
            let text = word.repeat(5_000);
            assert!(!masked(&text).is_empty());
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
    }

    #[test]
    fn code_and_placeholders_stay() {
        for text in [
            "let token = parser.next_token();",
            "interface A {\n  access_token: string\n}",
            "MAX_TOKENS=100000000",
            "API_KEY=$OPENAI_API_KEY",
            "password = \"********\"",
            "the token of the parser is a word",
            "https://example.org:8080/a@b",
            "task-list and risk-averse-people-like-this-one",
            "export KEY=<your key>",
            "run --token $TOKEN --password <password>",
            "input_tokens: 125,000/200,000",
            "MAX_TOKENS=12k",
            "PWD=/home/ann",
            "fn login(password: &str, token: Option<String>) {",
            "let token = self.next_token;",
            "\"key\": \"value\", sort_key = \"created\"",
            "password: required",
            "display: inline-block; AUTH: uses OAuth2, pass: 120 of 120",
            "docker run -u 1000:1000 x",
            "https://github.com/a/b and git@github.com:a/b",
            "author: ann, secretary: bob, compass: north1",
            "basic understanding-of-tokens and a bearer authentication-layer",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
