//! Recognizes programs in the languages sed, awk and jq that only print.
//!
//! Each of these languages can write files, run commands or read other files. Only programs of a
//! simple form are accepted as harmless.

use super::options::Language;

/// Returns true if the program certainly only prints parts of its input.
pub(super) fn only_prints(language: Language, text: &str) -> bool {
    match language {
        Language::Sed => sed(text),
        Language::Awk => awk(text),
        Language::Jq => jq(text),
    }
}

/// Rejects awk programs that contain anything that could name a file, a command or the arguments of
/// awk.
fn awk(text: &str) -> bool {
    const WORDS: [&str; 6] = ["system", "getline", "ARGV", "ARGC", "ARGIND", "PROCINFO"];
    // Remove `>=` and `||` before the check, because these two operators are harmless. A single `>`
    // may write to a file, and a single `|` may run a command.
    let text = text.replace(">=", " ").replace("||", " ");
    !text.contains(['|', '>', '@', '\\']) && !WORDS.iter().any(|word| text.contains(word))
}

/// Rejects jq programs that import modules, because modules are read from files.
fn jq(text: &str) -> bool {
    !["import", "include", "modulemeta", "get_search_list", "input_filename"]
        .iter()
        .any(|word| text.contains(word))
}

/// Accepts sed programs of one line. Their commands may print, skip and replace, may have
/// addresses, and are separated by semicolons.
fn sed(text: &str) -> bool {
    if text.contains('\n') {
        return false;
    }
    let mut rest = text.trim_start();
    loop {
        let Some(after) = sed_command(rest) else { return false };
        rest = after.trim_start();
        if rest.is_empty() {
            return true;
        }
        let Some(after) = rest.strip_prefix(';') else { return false };
        rest = after.trim_start();
        if rest.is_empty() {
            return true;
        }
    }
}

/// Parses one sed command and returns the text after it.
fn sed_command(text: &str) -> Option<&str> {
    let mut rest = sed_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        let after = sed_address(second)?;
        rest = (after.len() < second.len()).then_some(after)?;
    }
    rest = rest.trim_start();
    rest = rest.strip_prefix('!').unwrap_or(rest).trim_start();
    let mut letters = rest.chars();
    match letters.next()? {
        'p' | 'd' | 'q' | 'P' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' => {
            Some(letters.as_str())
        }
        's' => {
            let mark =
                letters.next().filter(|mark| matches!(mark, '/' | '|' | ',' | '#' | '@' | ':'))?;
            let after = sed_text(letters.as_str(), mark)?;
            let after = sed_text(after, mark)?;
            Some(after.trim_start_matches(|c: char| {
                matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()
            }))
        }
        _ => None,
    }
}

/// Returns true if a sed program may run a command. Deny rules use the result, so it may be true
/// for a program that does not.
pub(super) fn may_execute(text: &str) -> bool {
    let runs = |piece: &str| {
        let piece = piece.trim();
        let is_flag = |c: char| matches!(c, 'e' | 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9');
        let before = piece.trim_end_matches(is_flag);
        let flags = piece.get(before.len()..).unwrap_or_default();
        let follows_mark = before.ends_with(|c: char| !c.is_alphanumeric() && c != ' ');
        let is_replacing = before.contains('s') && follows_mark && flags.contains('e');
        let command = piece.rsplit('/').next().unwrap_or_default();
        let command =
            command.trim_start_matches(|c: char| c.is_ascii_digit() || ",$!~+ I".contains(c));
        is_replacing || command == "e" || command.starts_with("e ")
    };
    !sed(text) && text.split([';', '\n', '{', '}']).any(runs)
}

fn sed_address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(pattern) = text.strip_prefix('/') {
        return sed_text(pattern, '/');
    }
    Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '~' | '+')))
}

/// Skips text up to its delimiter. A delimiter inside square brackets may be a plain character, so
/// texts with brackets are rejected.
fn sed_text(text: &str, mark: char) -> Option<&str> {
    let mut letters = text.chars();
    let mut is_in_brackets = false;
    loop {
        match letters.next()? {
            '\\' => {
                letters.next().filter(|c| *c != mark)?;
            }
            '[' => is_in_brackets = true,
            ']' => is_in_brackets = false,
            c if c == mark => return (!is_in_brackets).then_some(letters.as_str()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_is_let_print_and_replace_and_nothing_more() {
        for text in [
            "5p",
            "1,20p",
            "$p",
            "10,$p",
            "/fn main/,/^}/p",
            "/a/d",
            "s/a/b/",
            "s/a/b/g",
            "s|a/b|c|gp",
            "10q",
            "$=",
            "5!d",
            "1p;5p",
            "s/[a-z]*/x/",
            "2~3p",
            "/a/,+3p",
            "p",
            "s/^ *//;s/ *$//",
            "1,5p;6q",
        ] {
            assert!(sed(text), "{text}");
        }
        for text in [
            "w out",
            "1w out",
            "s/a/b/w out",
            "s/a/b/e",
            "1e touch x",
            "e",
            "r x",
            "R x",
            "W x",
            "s/[/]/x/w out/",
            "s/a\\/b/c/w x",
            "1p\nw x",
            "/a/{p;w x\n}",
            "a text",
            "i text",
            "c text",
            "b",
            "y/a/b/",
            "s/a/b/gew",
            "s/a/b",
            "s\na\nb\n",
            "Q;w x",
            "1,p",
            "\\,a,w x",
            "s/[/]/p;s/x/w f",
            "v",
            "F",
            "z",
            "",
        ] {
            assert!(!sed(text), "{text}");
        }
    }

    #[test]
    fn awk_and_jq_are_let_print_and_nothing_more() {
        for text in [
            "{print $1}",
            "$1 == \"a\" {print NR, $2}",
            "{s += $1} END {print s}",
            "NR<5",
            "NR>=1 && NR<=5",
            "$1 || $2",
            "/a/ {n++} END{print n}",
        ] {
            assert!(awk(text), "{text}");
        }
        for text in [
            "{print > \"x\"}",
            "BEGIN{system(\"x\")}",
            "{print | \"sh\"}",
            "{getline < \"x\"}",
            "BEGIN{ARGV[1]=\"x\"}",
            "@load \"x\"",
            "{\"x\" | getline}",
            "{print >>= \"x\"}",
            "{print || | \"sh\"}",
            "BEGIN{@f()}",
        ] {
            assert!(!awk(text), "{text}");
        }
        assert!(jq(".a | keys[] as $k | {($k): .[$k]}"));
        assert!(!jq("import \"a\" as $d; $d"));
    }
}
