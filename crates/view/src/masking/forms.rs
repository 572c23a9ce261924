//! The forms of secrets: keys with a known beginning, and texts in places where only secrets are.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::decoded::Decoded;
use super::{Found, can_be_password, is_secret, sign};

/// The name of the group of a pattern that is masked. Without this group, all but [`START`] is masked.
const SECRET: &str = "secret";

/// The name of the group of [`START`].
const BEFORE: &str = "before";

/// The beginning of a key, which the patterns call `<start>`. The end of an escape stands before many
/// keys: of a line break in JSON, of a colour, or of a character in an address. Its last letter would
/// be a part of the same word.
const START: &str = r"(?x: \b | (?P<before>
    \\ (?: [abefnrtv0] | u[0-9A-Fa-f]{4} | x[0-9A-Fa-f]{2} ) | %[0-9A-Fa-f]{2}
    | \x1b? \[ [0-9;]* [A-Za-z] | _ ) )";

/// A form of secrets.
pub(super) struct Form {
    pub(super) kind: &'static str,
    check: Check,
    regex: Regex,
}

/// Decides whether a match is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// Each match is one.
    Any,
    /// A placeholder and a number are none.
    Secret,
    /// A text without a digit is an ordinary word.
    Token,
    /// A number is one too.
    Password,
    /// It has small and capital letters and digits, as a key in base64 and unlike a hash.
    Mixed,
}

/// The forms of secrets. A form comes before another one that would match a part of it. If a pattern
/// has the group `secret`, this group is masked.
const PATTERNS: &[(&str, Check, &str)] = &[
    (
        "private key",
        Check::Any,
        r"(?x) -----BEGIN\x20 [A-Z0-9\x20]* PRIVATE\x20KEY (?:\x20BLOCK)? -----
            [\s\S]*?
            (?: -----END\x20 [A-Z0-9\x20]* PRIVATE\x20KEY (?:\x20BLOCK)? ----- | \z)",
    ),
    ("private key", Check::Any, r"<start>AGE-SECRET-KEY-1[A-Z0-9]{16,}"),
    ("Anthropic key", Check::Any, r"<start>sk-ant-[A-Za-z0-9_-]{8,}"),
    (
        "GitHub token",
        Check::Any,
        r"<start>(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
    ),
    ("GitLab token", Check::Any, r"<start>gl(?:pat|cbt|dt|rt|soat)-[A-Za-z0-9_.-]{16,}"),
    ("Slack token", Check::Any, r"<start>x(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}"),
    (
        "Slack webhook",
        Check::Secret,
        r"https://hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/_-]{16,})",
    ),
    // The secret of an AWS key id that is near.
    (
        "AWS secret key",
        Check::Mixed,
        r"(?x) (?:AKIA|ASIA) [0-9A-Z]{16} \b [\s\S]{0,100}? [^A-Za-z0-9/+]
            (?P<secret> [A-Za-z0-9/+]{40} ) (?: [^A-Za-z0-9/+=] | \z )",
    ),
    (
        "AWS secret key",
        Check::Mixed,
        r"(?x) (?: \A | [^A-Za-z0-9/+] ) (?P<secret> [A-Za-z0-9/+]{40} ) [^A-Za-z0-9/+=]
            [\s\S]{0,100}? (?:AKIA|ASIA) [0-9A-Z]{16} \b",
    ),
    ("AWS key id", Check::Any, r"<start>(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    (
        "Google key",
        Check::Any,
        r"<start>(?:AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,})",
    ),
    (
        "Stripe key",
        Check::Any,
        r"<start>(?:[sr]k_(?:live|test)_[0-9A-Za-z]{10,}|whsec_[0-9A-Za-z+/=]{16,})",
    ),
    (
        "package registry token",
        Check::Any,
        r"(?x) <start> (?:
            npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,} | cio[A-Za-z0-9]{32}\b
            | dckr_pat_[A-Za-z0-9_-]{20,} )",
    ),
    ("Hugging Face token", Check::Any, r"<start>hf_[A-Za-z0-9]{20,}"),
    ("SendGrid key", Check::Any, r"<start>SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("Vault token", Check::Any, r"<start>hv[sbr]\.[A-Za-z0-9_-]{8,}"),
    (
        "token of a service",
        Check::Any,
        r"(?x) <start> (?:
            shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32} | dapi[a-f0-9]{32} | NRAK-[A-Z0-9]{20,}
            | lin_api_[A-Za-z0-9]{30,} | ATATT3[A-Za-z0-9_=-]{20,} | fig[dou]_[A-Za-z0-9_-]{30,}
            | ntn_[A-Za-z0-9]{30,} | dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{30,} | r8_[A-Za-z0-9]{30,}
            | pplx-[A-Za-z0-9]{30,} | sbp_[a-f0-9]{30,} | (?:SK|key-)[a-f0-9]{32}\b
            | [0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b )",
    ),
    (
        "webhook",
        Check::Secret,
        r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/(?P<secret>[0-9]+/[A-Za-z0-9_-]{20,})",
    ),
    ("DigitalOcean token", Check::Any, r"<start>do[opr]_v1_[a-f0-9]{32,}"),
    (
        "API key",
        Check::Any,
        r"<start>(?:sk-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,})",
    ),
    ("web token", Check::Any, r"<start>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    // The beginning of a key in a text that was cut.
    (
        "cut key",
        Check::Any,
        r"(?x) <start> (?: sk- | gh[pousr]_ | github_pat_ | glpat- | xox[abeoprs]- | AKIA | AIza
            | npm_ | pypi- | hf_ | eyJ )
            [A-Za-z0-9_.-]{4,} …",
    ),
    ("bearer token", Check::Token, r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{12,}=*)"),
    ("basic credentials", Check::Token, r"(?i)\bbasic\s+(?P<secret>[A-Za-z0-9+/]{12,}={0,2})"),
    (
        "password in an address",
        Check::Secret,
        r#"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<secret>[^\s/"'<>]{3,})@"#,
    ),
    ("token in an address", Check::Token, r"\bhttps?://(?P<secret>[^\s/:@\x22'<>\[\]]{8,})@"),
    (
        "password of a command",
        Check::Secret,
        r#"(?x) \bcurl\b [^\n]*? \s (?: -u | --user | --proxy-user ) [\x20=]* ["']? [^\s:"']+ :
            (?P<secret> [^\s"']{3,} )"#,
    ),
    // Options of one letter. For the first commands, the value is a part of the option.
    (
        "password of a command",
        Check::Password,
        r#"(?x) (?: \A | [\s/"'`(;|&] )
            (?:
                (?: mysql[a-z]* | mariadb[a-z-]* | 7za? ) (?: \x20 (?: [^\n;|&] | \\\n )*? )?
                [\x20\t] -p
            |
                (?: sshpass | (?: docker | podman | helm\x20registry ) \x20 login | mongo[a-z]* )
                (?: \x20 (?: [^\n;|&] | \\\n )*? )? [\x20\t] -p [\x20=]*
            |
                (?: redis-cli (?: \x20 [^\n;|&]*? )? [\x20\t] -a
                | ldap[a-z]+ (?: \x20 [^\n;|&]*? )? [\x20\t] -w
                | (?: sqlcmd | zip | unzip ) (?: \x20 [^\n;|&]*? )? [\x20\t] -P ) \x20*
            )
            (?P<secret> ' [^'\n]{3,} ' | " [^"\n]{3,} " | [^\s"'`;|&<>()]{3,} )"#,
    ),
    (
        "password of a command",
        Check::Password,
        r"\s-pass(?:in|out)?\s+pass:(?P<secret>[^\s\x22']{3,})",
    ),
    // Elements and attributes of XML, and the file of docker.
    (
        "secret setting",
        Check::Secret,
        r"(?xi) < [\w.-]* (?: password | passwd | passphrase | secret | token | api[_-]?key ) >
            \s* (?P<secret> [^<\s] [^<]{2,200}? ) \s* </",
    ),
    (
        "secret setting",
        Check::Secret,
        r"(?xi) \b (?: key | name ) = \x22 [^\x22]{0,80}
            (?: password | passwd | passphrase | secret | token | api[_-]?key ) \x22
            \s+ value = \x22 (?P<secret> [^\x22]{3,} ) \x22",
    ),
    (
        "secret setting",
        Check::Token,
        r"\x22auth\x22\s*:\s*\x22(?P<secret>[A-Za-z0-9+/]{12,}=*)\x22",
    ),
    // The lines of a file `.netrc`.
    (
        "password of a login",
        Check::Password,
        r"(?x) \b (?: machine \s+ \S+ | default ) (?: \s+ (?: login | account ) \s+ \S+ )+
            \s+ password \s+ (?P<secret> \S{3,} )",
    ),
    (
        "password of a login",
        Check::Password,
        r"(?x) \b machine \s+ \S+ \s+ password \s+ (?P<secret> \S{3,} ) \s+ login \b",
    ),
];

/// Options of other commands that begin like `-p` with its value: `find mysql -print`.
const OTHER_OPTIONS: &[&str] = &["ath", "erm", "rint", "rint0", "rintf", "rune"];

/// All forms, ready for texts.
pub(super) static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let form = |(kind, check, pattern): &(&'static str, Check, &str)| {
        Some(Form {
            kind,
            check: *check,
            regex: Regex::new(&pattern.replace("<start>", START)).ok()?,
        })
    };
    PATTERNS.iter().filter_map(form).collect()
});

impl Form {
    /// Masks the secrets of this form in a text, and counts them.
    pub(super) fn mask(&self, text: &str) -> (String, usize) {
        let mut count = 0;
        let replaced = self.regex.replace_all(text, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |whole| whole.as_str());
            if !self.is_secret(found.name(SECRET).map_or(whole, |secret| secret.as_str())) {
                return whole.to_owned();
            }
            count += 1;
            masked_in(found, whole, self.kind)
        });
        (replaced.into_owned(), count)
    }

    fn is_secret(&self, text: &str) -> bool {
        let has = |of: fn(&char) -> bool| text.chars().any(|c| of(&c));
        match self.check {
            Check::Any => true,
            Check::Secret => is_secret(text),
            Check::Token => is_secret(text) && has(char::is_ascii_digit),
            Check::Password => {
                can_be_password(text.trim_matches(['"', '\''])) && !OTHER_OPTIONS.contains(&text)
            }
            Check::Mixed => {
                has(char::is_ascii_lowercase)
                    && has(char::is_ascii_uppercase)
                    && has(char::is_ascii_digit)
            }
        }
    }
}

/// Finds the secrets of all forms in a text with escapes, colours, or characters that nobody sees,
/// also inside of the secrets. Returns their places in order.
pub(super) fn find_encoded(text: &Decoded) -> Vec<Found> {
    let words = text.words();
    let mut all: Vec<Found> = Vec::new();
    for form in FORMS.iter() {
        for captures in form.regex.captures_iter(words) {
            let Some(secret) = captures.get(0) else { continue };
            let place = place_of_secret(&captures, secret.range());
            if form.is_secret(words.get(place.clone()).unwrap_or_default()) {
                add(&mut all, Found { kind: form.kind.into(), range: text.place(place) });
            }
        }
    }
    all.sort_by_key(|found| found.range.start);
    all
}

/// Adds a place, unless it has a part of another one.
fn add(all: &mut Vec<Found>, Found { kind, range }: Found) {
    let is_apart = |other: &Found| other.range.end <= range.start || range.end <= other.range.start;
    if all.iter().all(is_apart) {
        all.push(Found { kind, range });
    }
}

/// Returns the place of the secret in the text of a match.
fn place_of_secret(found: &Captures<'_>, whole: Range<usize>) -> Range<usize> {
    match (found.name(SECRET), found.name(BEFORE)) {
        (Some(secret), _) => secret.range(),
        (None, Some(before)) => before.end()..whole.end,
        (None, None) => whole,
    }
}

/// Returns a match in which the secret is replaced. The text around the secret stays.
fn masked_in(found: &Captures<'_>, whole: &str, kind: &str) -> String {
    let begin = found.get(0).map_or(0, |whole| whole.start());
    let secret = place_of_secret(found, begin..begin + whole.len());
    let (before, after) = (whole.get(..secret.start - begin), whole.get(secret.end - begin..));
    format!("{}{}{}", before.unwrap_or_default(), sign(kind), after.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_a_pattern_and_every_place_has_a_secret() {
        assert_eq!(FORMS.len(), PATTERNS.len());
        for form in FORMS.iter() {
            let has_secret = form.regex.capture_names().flatten().any(|name| name == SECRET);
            assert_eq!(has_secret, form.check != Check::Any, "{}", form.kind);
        }
    }
}
