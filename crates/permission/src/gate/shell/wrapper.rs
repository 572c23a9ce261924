//! Recognizes wrappers, which are commands that run another command, and finds the other command.

use super::shell_word::ShellWord;

/// The command that a wrapper runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// The command is not a known wrapper.
    Nothing,
    /// The wrapper runs these words unchanged.
    Command(Vec<ShellWord>),
    /// The wrapper runs this script unchanged.
    Script(String),
    /// The wrapper runs a command that starts at an unknown position among the wrapper's words. The
    /// wrapper may also change the rights or the environment of that command.
    Somewhere,
    /// The wrapper runs a command that is not known.
    Opaque,
}

/// Removes one wrapper from the command, and returns what the wrapper runs.
pub(crate) fn unwrap(words: &[ShellWord]) -> Inner {
    let Some((name, args)) = words.split_first() else { return Inner::Nothing };
    let Some(name) = name.exact() else { return Inner::Opaque };
    match name.rsplit('/').next().unwrap_or(name) {
        "time" => rest(args, |flag| matches!(flag, "-p" | "--"), 0),
        "builtin" => rest(args, |flag| flag == "--", 0),
        // `command -v` only prints the path of a command.
        "command" if looks_up(args) => Inner::Nothing,
        "command" => rest(args, |flag| flag == "--" || is_lookup_flag(flag), 0),
        "stdbuf" => rest(
            args,
            |flag| matches!(flag.get(..2), Some("-o" | "-e" | "-i")) && flag.len() > 2,
            0,
        ),
        "nice" => nice(args),
        "timeout" => rest(
            args,
            |flag| matches!(flag, "--foreground" | "--preserve-status" | "-v") || long_value(flag),
            1,
        ),
        "env" => env(args),
        "xargs" => xargs(args),
        "eval" => joined(args),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => shell(args),
        "sudo" | "doas" | "su" | "exec" | "nohup" | "setsid" | "ionice" | "chroot" | "watch"
        | "strace" | "parallel" | "coproc" | "find" | "fd" | "unshare" | "flock" | "script"
        | "trap" | "busybox" | "systemd-run" | "chrt" | "taskset" | "setarch" | "nsenter"
        | "runuser" | "pkexec" => Inner::Somewhere,
        _ => Inner::Nothing,
    }
}

/// Returns true if `command` is used with `-v` or `-V`, and only prints the path of a command.
pub(super) fn looks_up(args: &[ShellWord]) -> bool {
    let flags = || args.iter().take_while(|word| word.exact().is_some_and(is_lookup_flag));
    flags().any(|flag| flag.text.contains(['v', 'V']))
}

fn is_lookup_flag(flag: &str) -> bool {
    flag.len() > 1
        && flag
            .strip_prefix('-')
            .is_some_and(|letters| letters.chars().all(|c| matches!(c, 'p' | 'v' | 'V')))
}

/// Skips the known flags and then as many words as `positional` says. Returns the remaining words
/// as the command.
fn rest(args: &[ShellWord], flag: impl Fn(&str) -> bool, positional: usize) -> Inner {
    let skipped = args.iter().take_while(|word| word.exact().is_some_and(&flag)).count();
    let after = args.get(skipped..).unwrap_or_default();
    if after.first().is_some_and(ShellWord::may_be_flag) {
        return Inner::Somewhere;
    }
    if !after.iter().take(positional).all(|word| word.exact().is_some()) {
        return Inner::Somewhere;
    }
    match after.get(positional..) {
        Some(command) if !command.is_empty() => Inner::Command(command.to_vec()),
        _ => Inner::Nothing,
    }
}

fn long_value(flag: &str) -> bool {
    flag.starts_with("--signal=") || flag.starts_with("--kill-after=")
}

fn nice(args: &[ShellWord]) -> Inner {
    match args.first().and_then(ShellWord::exact) {
        Some("-n") => rest(args.get(1..).unwrap_or_default(), |_| false, 1),
        _ => rest(args, |flag| flag.starts_with("--adjustment=") || is_number(flag), 0),
    }
}

fn is_number(flag: &str) -> bool {
    flag.len() > 1 && flag.chars().skip(1).all(|c| c.is_ascii_digit())
}

fn env(args: &[ShellWord]) -> Inner {
    let assigned = |word: &ShellWord| {
        word.exact()
            .and_then(|text| text.split_once('='))
            .is_some_and(|(name, _)| is_safe_variable(name))
    };
    let skipped = args.iter().take_while(|word| assigned(word)).count();
    let command = args.get(skipped..).unwrap_or_default();
    let other =
        |word: &ShellWord| word.may_be_flag() || word.text.contains('=') || word.exact().is_none();
    match command.first() {
        None => Inner::Nothing,
        Some(first) if other(first) => Inner::Somewhere,
        Some(_) => Inner::Command(command.to_vec()),
    }
}

fn xargs(args: &[ShellWord]) -> Inner {
    let mut args = args;
    while let Some((first, after)) = args.split_first() {
        match first.exact() {
            Some("-0" | "--null" | "-r" | "--no-run-if-empty" | "-t" | "-x") => args = after,
            Some("-n" | "-P" | "-L" | "-I" | "-d") => match after.split_first() {
                Some((value, after)) if value.exact().is_some() => args = after,
                _ => return Inner::Somewhere,
            },
            Some(flag) if flag.starts_with('-') => return Inner::Somewhere,
            Some(_) => {
                let mut words = args.to_vec();
                // `xargs` adds arguments that are not in the command's text, so add one word with
                // an unknown value.
                words.push(ShellWord::unknown("<standard input>"));
                return Inner::Command(words);
            }
            None => return Inner::Opaque,
        }
    }
    Inner::Nothing
}

fn joined(args: &[ShellWord]) -> Inner {
    let texts: Option<Vec<&str>> = args.iter().map(ShellWord::exact).collect();
    texts.map_or(Inner::Opaque, |texts| Inner::Script(texts.join(" ")))
}

/// Recognizes only the form `sh -c SCRIPT`. More words would be arguments of the script, and other
/// flags change how the script runs.
fn shell(args: &[ShellWord]) -> Inner {
    let texts: Option<Vec<&str>> = args.iter().map(ShellWord::exact).collect();
    match texts.as_deref() {
        Some(["-c", script]) => Inner::Script((*script).to_owned()),
        Some(words) if words.iter().any(|word| word.starts_with('-') && word.ends_with('c')) => {
            Inner::Opaque
        }
        Some(_) => Inner::Nothing,
        None => Inner::Opaque,
    }
}

/// Returns true if setting this variable cannot change the effect of a command.
pub(crate) fn is_safe_variable(name: &str) -> bool {
    const SAFE: [&str; 20] = [
        "CARGO_TERM_COLOR",
        "CI",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "GIT_TERMINAL_PROMPT",
        "LANG",
        "LANGUAGE",
        "NO_COLOR",
        "NODE_ENV",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "RAILS_ENV",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "RUST_TEST_THREADS",
        "TERM",
        "TZ",
    ];
    SAFE.contains(&name) || name.starts_with("LC_")
}

/// Returns true if a script can use this variable name without affecting the commands that it runs.
pub(crate) fn is_own_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.ends_with("_proxy")
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    fn inner(command: &str) -> String {
        let script = Script::parse(command);
        match unwrap(&script.parts.last().unwrap().words) {
            Inner::Command(words) => {
                words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ")
            }
            Inner::Script(text) => format!("script: {text}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn wrappers_are_looked_through() {
        for (command, expected) in [
            ("time -p ls", "ls"),
            ("time A=1 rm x", "rm x"),
            ("timeout 5 cargo test", "cargo test"),
            ("timeout --signal=KILL 5 ls", "ls"),
            ("timeout -k 5 9 ls", "Somewhere"),
            ("nice -n 5 make", "make"),
            ("nice -10 make", "make"),
            ("env LANG=C ls", "ls"),
            ("env LD_PRELOAD=x ls", "Somewhere"),
            ("env -S 'rm x'", "Somewhere"),
            ("command rm x", "rm x"),
            ("command -v ls", "Nothing"),
            ("command -pv rm", "Nothing"),
            ("command -p rm x", "rm x"),
            ("command -p -- rm x", "rm x"),
            ("command -x rm x", "Somewhere"),
            ("xargs -0 rm -f", "rm -f <standard input>"),
            ("xargs --arg-file=x rm", "Somewhere"),
            ("eval 'rm x'", "script: rm x"),
            ("eval $x", "Opaque"),
            ("sh -c 'rm x'", "script: rm x"),
            ("/bin/bash -c 'rm x'", "script: rm x"),
            ("bash -lc 'rm x'", "Opaque"),
            ("bash -c \"$x\"", "Opaque"),
            ("sudo rm x", "Somewhere"),
            ("find . -exec rm {} +", "Somewhere"),
            ("$tool x", "Opaque"),
            ("ls", "Nothing"),
        ] {
            assert_eq!(inner(command), expected, "{command}");
        }
    }
}
