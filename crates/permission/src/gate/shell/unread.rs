//! Finds what a command runs that its own words do not show: scripts that it is fed, and commands
//! that cannot be read at all.
//!
//! Deny and ask rules use the result. Scripts in files and programs in other languages are not
//! looked into.

use super::code::may_execute;
use super::shell_word::{Fate, ShellWord};

/// What a command runs beside the words that are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fed {
    /// The scripts of which the whole text is known.
    pub scripts: Vec<String>,
    /// True if the command may also run commands that are not known.
    pub is_unread: bool,
}

impl Fed {
    fn unread() -> Self {
        Self { is_unread: true, ..Self::default() }
    }

    fn script(text: Option<&str>) -> Self {
        text.map_or_else(Self::unread, |text| Self {
            scripts: vec![text.to_owned()],
            is_unread: false,
        })
    }
}

const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"];

/// Returns what a command runs beside its own words. `input` is the text of its standard input.
pub(crate) fn fed(words: &[ShellWord], input: Option<&str>) -> Fed {
    let Some((name, args)) = words.split_first() else { return Fed::default() };
    let Some(name) = name.exact() else { return Fed::default() };
    let name = name.rsplit('/').next().unwrap_or(name);
    let has = |flag: &str| args.iter().any(|word| word.text.starts_with(flag));
    match name {
        name if SHELLS.contains(&name) => shell(args, input),
        "eval" if args.iter().any(|word| word.exact().is_none()) => Fed::unread(),
        "." | "source" => match args.iter().find(|word| word.exact() != Some("--")) {
            Some(file) => script_file(file, input),
            None => Fed::default(),
        },
        "env" => env(args),
        "xargs" if replaces_command(args) => Fed::unread(),
        "parallel" => Fed::unread(),
        "trap" | "watch" | "su" | "script" | "flock" | "runuser" => Fed {
            scripts: args
                .iter()
                .filter_map(ShellWord::exact)
                .filter(|text| text.contains([' ', '\t', '\n', '\'', '"', '\\', '$']))
                .map(str::to_owned)
                .collect(),
            is_unread: false,
        },
        "sed" | "gsed" if args.iter().filter_map(ShellWord::exact).any(may_execute) => {
            Fed::unread()
        }
        "git" if sets_program(args) => Fed::unread(),
        "hash" if has("-p") => Fed::unread(),
        "enable" if has("-f") => Fed::unread(),
        "alias" if args.iter().any(|word| word.raw.contains('=')) => Fed::unread(),
        _ => Fed::default(),
    }
}

/// Returns the script of a shell: the text after `-c`, or else its input. A shell that is given a
/// file runs only what is in that file.
fn shell(args: &[ShellWord], input: Option<&str>) -> Fed {
    let mut rest = args.iter();
    let mut reads_input = false;
    while let Some(word) = rest.next() {
        let flag = word.exact().filter(|text| text.starts_with(['-', '+']));
        let Some(flag) = flag else {
            if reads_input {
                break;
            }
            return script_file(word, input);
        };
        let is_short = !flag.starts_with("--");
        match flag {
            "--version" | "--help" => return Fed::default(),
            "-" | "--" => {}
            "--rcfile" | "--init-file" => return Fed::unread(),
            "-o" | "+o" | "-O" | "+O" => {
                rest.next();
            }
            flag if is_short && flag.contains('c') => {
                // Any of the further words may be the script, as more flags may follow.
                let texts: Vec<_> = rest.map(ShellWord::exact).collect();
                let at = texts.iter().position(|text| !text.is_some_and(|it| it.starts_with('-')));
                let scripts = || texts.iter().skip(at.unwrap_or_default()).copied().flatten();
                let first = at.and_then(|at| texts.get(at).copied().flatten());
                return Fed {
                    is_unread: first.is_none(),
                    scripts: scripts().map(str::to_owned).collect(),
                };
            }
            flag => reads_input |= is_short && flag.contains('s'),
        }
    }
    Fed::script(input)
}

/// Returns what is known of the script in a file. A file with a name of its own is a script like
/// any other program.
fn script_file(file: &ShellWord, input: Option<&str>) -> Fed {
    match (file.exact(), file.fate) {
        (Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"), _) => Fed::script(input),
        (Some(path), _) if path.starts_with("/dev/") || path.starts_with("/proc/") => Fed::unread(),
        (Some(_), _) | (None, Fate::Begins) => Fed::default(),
        (None, _) if file.text.is_empty() || file.text.starts_with('-') => Fed::unread(),
        (None, _) => Fed::default(),
    }
}

/// Returns the command that `env -S TEXT` splits off the text.
fn env(args: &[ShellWord]) -> Fed {
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        let is_flag = text.starts_with('-');
        if !is_flag && !text.contains('=') {
            break;
        }
        let is_short = is_flag && !text.starts_with("--");
        let joined = match text.split_once('=') {
            Some((flag, value)) if is_flag && is_split_string(flag) => Some(value),
            _ if is_short => text.split_once('S').map(|(_, value)| value),
            _ => None,
        };
        let splits = joined.is_some() || is_split_string(text);
        if !splits {
            continue;
        }
        let value = joined.filter(|value| !value.is_empty());
        let (value, rest) = match value {
            Some(value) => (word.exact().map(|_| value), at + 1),
            None => (args.get(at + 1).and_then(ShellWord::exact), at + 2),
        };
        // In this text, `env` itself expands variables and escapes.
        let Some(value) = value.filter(|value| !value.contains(['\\', '$'])) else {
            return Fed::unread();
        };
        let rest: Vec<&str> = args.iter().skip(rest).map(|word| word.raw.as_str()).collect();
        return Fed::script(Some(&format!("env {value} {}", rest.join(" "))));
    }
    Fed::default()
}

fn is_split_string(flag: &str) -> bool {
    flag.len() > "--".len() && "--split-string".starts_with(flag)
}

/// Returns the text that `xargs` replaces by its input.
fn replaced(args: &[ShellWord]) -> Option<(String, &[ShellWord])> {
    let at = args.iter().position(|word| {
        ["-I", "-i", "--replace"].iter().any(|flag| word.text.starts_with(flag))
    })?;
    let text = args.get(at)?.text.as_str();
    let joined = text.split_once('=').map_or_else(|| text.get(2..), |(_, value)| Some(value));
    let rest = args.get(at + 1..).unwrap_or_default();
    Some(match joined.filter(|joined| !joined.is_empty() && *joined != "replace") {
        Some(joined) => (joined.to_owned(), rest),
        None if text == "-I" => (rest.first()?.text.clone(), rest.get(1..).unwrap_or_default()),
        None => ("{}".to_owned(), rest),
    })
}

/// Returns true if `xargs` puts its input in the place of a command's name or into a script.
fn replaces_command(args: &[ShellWord]) -> bool {
    let is_shell = |word: &ShellWord| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&name) || name == "eval"
    };
    let runs_script = args.iter().filter(|word| word.exact() == Some("-c")).count() > 0;
    let is_fed_file = args.iter().any(is_shell) && !runs_script;
    let is_replaced = replaced(args).is_some_and(|(text, rest)| {
        let name = rest.iter().find(|word| !word.text.starts_with('-'));
        let has = |word: &ShellWord| word.raw.contains(&text);
        name.is_some_and(has) || rest.iter().any(is_shell) && rest.iter().any(has)
    });
    is_fed_file || is_replaced
}

/// Returns the words of an `xargs` command, with unknown words where its input is put.
pub(crate) fn filled(words: &[ShellWord]) -> Vec<ShellWord> {
    let replaced = words.get(1..).and_then(replaced).map(|(text, _)| text);
    let fill = |word: &ShellWord| match &replaced {
        Some(text) if word.raw.contains(text.as_str()) => ShellWord::unknown(&word.raw),
        _ => word.clone(),
    };
    words.iter().map(fill).chain([ShellWord::unknown("<standard input>")]).collect()
}

/// Returns true if git is given a setting that may be a program or an alias.
fn sets_program(args: &[ShellWord]) -> bool {
    const HARMLESS: [&str; 12] = [
        "user.",
        "color.",
        "advice.",
        "commit.gpgsign",
        "tag.gpgsign",
        "init.",
        "core.quotepath",
        "core.autocrlf",
        "log.",
        "safe.",
        "protocol.",
        "pull.",
    ];
    let mut follows_flag = false;
    for word in args {
        let is_setting = |text: &str| {
            let text = text.to_ascii_lowercase();
            !HARMLESS.iter().any(|start| text.starts_with(start))
        };
        if follows_flag && is_setting(&word.text) {
            return true;
        }
        follows_flag = word.exact() == Some("-c");
        let text = word.text.to_ascii_lowercase();
        if text.starts_with("--config-env") || text.starts_with("alias.") {
            return true;
        }
    }
    false
}
