//! Lists the secret values of an environment, in the forms in which they appear in texts.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use pitcrew_process::sandbox::is_secret_name as is_secret_variable;
use pitcrew_team::SecretText;

use super::DIFFERENT_LEAST;
use super::named::is_secret_name;

/// The minimum number of characters of a value. A shorter one is in ordinary words too.
const CHARS_LEAST: usize = 8;

/// The maximum number of lines of a value that are listed.
const LINES_MOST: usize = 256;

/// Values that are ordinary words. Without them, many lines of a document would be masked.
const WORDS: &[&str] = &[
    "anonymous",
    "changeit",
    "changeme",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "keychain",
    "localhost",
    "optional",
    "password",
    "placeholder",
    "production",
    "required",
    "undefined",
    "username",
];

/// Variables that name a place or a process, and have no secret in their values.
const PLACES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GIT_ASKPASS",
    "GPG_AGENT_INFO",
    "NETRC",
    "PGPASSFILE",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// The first folders of paths that are no secrets.
const TOPS: &[&str] = &[
    "~",
    "bin",
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "private",
    "root",
    "run",
    "srv",
    "tmp",
    "usr",
    "var",
    "Applications",
    "Library",
    "Users",
    "Volumes",
];

/// The bytes that the three possible beginnings of a base64 text share with other bytes.
const SHARED: [usize; 3] = [0, 2, 3];

/// Lists the values of the variables whose names say that they are secret. Each value is listed as
/// it is, as a field of a form, in hexadecimal digits of both cases and in base64, and line by line. The forms with
/// escapes are no others: their [counted bytes](pitcrew_team::CountedBytes) are the same. Values of
/// fewer than 8 characters, ordinary words and paths are left out: they are in harmless texts too.
pub fn secret_texts<'a>(
    environment: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Vec<SecretText> {
    let mut all = Vec::new();
    for (name, value) in environment {
        let is_named = is_secret_variable(name) || is_secret_name(name);
        let is_place = PLACES.contains(&name.as_str()) || is_path(value);
        if is_named && !is_place && could_be_found(value) {
            all.extend(texts(name, value.trim()));
        }
    }
    all
}

fn texts(name: &str, value: &str) -> Vec<SecretText> {
    let lines = value.lines().map(str::trim).filter(|line| is_own_line(line)).take(LINES_MOST);
    let hex = in_hex(value);
    let whole = [value.to_owned(), value.replace(' ', "+"), hex.to_uppercase(), hex];
    let mut plain: Vec<String> = whole.into_iter().chain(lines.map(str::to_owned)).collect();
    plain.sort();
    plain.dedup();
    let text = |text, is_inner| SecretText { name: name.to_owned(), text, is_inner };
    let encoded = in_base64(value).into_iter().map(|inner| text(inner, true));
    plain.into_iter().map(|it| text(it, false)).chain(encoded).collect()
}

fn could_be_found(value: &str) -> bool {
    let value = value.trim();
    let mut different: Vec<char> = value.chars().collect();
    different.sort_unstable();
    different.dedup();
    value.chars().count() >= CHARS_LEAST
        && different.len() >= DIFFERENT_LEAST
        && !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a line of a longer value is masked by itself. The first line of a key is in all keys.
fn is_own_line(line: &str) -> bool {
    could_be_found(line) && !line.starts_with("-----")
}

fn is_path(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-~".contains(c);
    let top = value.strip_prefix('/').unwrap_or(value).split('/').next().unwrap_or_default();
    value.starts_with(['/', '~']) && value.chars().all(is_plain) && TOPS.contains(&top)
}

fn in_hex(value: &str) -> String {
    value.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the characters of a base64 text that depend on the value alone. Other bytes can be before
/// and after the value, such as a user name. Three positions of the value give three texts.
fn in_base64(value: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (before, shared) in SHARED.into_iter().enumerate() {
        let bytes = [vec![0; before], value.as_bytes().to_vec()].concat();
        // The last characters depend on the next bytes too.
        let end = bytes.len() * 8 / 6;
        for encoded in [STANDARD.encode(&bytes), URL_SAFE.encode(&bytes)] {
            let inner = encoded.get(shared..end).unwrap_or_default().to_owned();
            if !all.contains(&inner) {
                all.push(inner);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn listed(variables: &[(&str, &str)]) -> BTreeSet<String> {
        let owned = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let environment: BTreeMap<String, String> = owned.collect();
        secret_texts(&environment).into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn values_that_are_in_harmless_texts_are_left_out() {
        for (name, value) in [
            ("DEPLOY_KEY", "hunter2"),
            ("DEPLOY_KEY", "--------"),
            ("DEPLOY_KEY", "changeme"),
            ("DEPLOY_KEY", "/home/ann/.ssh/id_ed25519"),
            ("SSH_AUTH_SOCK", "/x/agent.123"),
            ("DISPLAY", "localhost:10.0"),
            ("PATH", "/bin:aB3dE5fG7h"),
            ("EDITOR", "aB3dE5fG7h"),
        ] {
            assert_eq!(listed(&[(name, value)]), BTreeSet::new(), "{name}={value}");
        }
        for value in ["hunter2hunter2", "83619274650", "/aB3dE5+fG7hJ9=", "correct horse"] {
            assert!(listed(&[("DEPLOY_KEY", value)]).contains(value), "{value}");
        }
    }

    #[test]
    fn a_value_is_listed_in_its_forms() {
        let all = listed(&[("DB_PASSWORD", "p\"ss<&w\n  second line\nx")]);
        for form in [
            "p\"ss<&w\n  second line\nx",
            "p\"ss<&w\n++second+line\nx",
            "702273733c26770a20207365636f6e64206c696e650a78",
            "second line",
        ] {
            assert!(all.contains(form), "{form}: {all:?}");
        }
    }

    #[test]
    fn the_base64_of_a_value_is_found_after_any_bytes() {
        let value = "aB3dE5fG7h";
        let inner = in_base64(value);
        for (before, after) in [("", ""), ("u", ""), ("us", "\n"), ("use", "xy"), ("user:", "zzz")]
        {
            let encoded = STANDARD.encode(format!("{before}{value}{after}"));
            assert!(inner.iter().any(|it| encoded.contains(it)), "{before} {encoded} {inner:?}");
        }
    }
}
