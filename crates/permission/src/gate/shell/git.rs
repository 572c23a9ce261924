//! Recognizes git commands that only read, and determines how much of the files' contents they
//! show.

use super::effect::{Effect, Reach, Reading, reads};
use super::options::{Arguments, Program};
use super::shell_word::{Fate, ShellWord};

/// How much of the files' contents a git command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// The command shows only names.
    Names,
    /// The command shows contents only if an option requests them.
    ContentsIfAsked,
    /// The command shows contents, unless an option requests names only.
    ContentsUnlessNames,
    /// The command shows contents that match a pattern. The pattern is the first operand.
    Matches,
    /// The command shows contents, whatever its options are.
    Contents,
}

const COMMANDS: [(Program, Shows); 15] = [
    (Program::of_git("status", "sbzu?v"), Shows::Names),
    (Program::of_git("log", "#puszabwWRqU:M?C?B?l:G:S:icmn:FEPgtrL:"), Shows::ContentsIfAsked),
    (Program::of_git("diff", "#puszabwWRqU:M?C?B?l:G:S:"), Shows::ContentsUnlessNames),
    (Program::of_git("show", "#puszabwWRqU:M?C?B?l:G:S:cmn:tr"), Shows::Contents),
    (Program::of_git("rev-parse", "q"), Shows::Names),
    (Program::of_git("ls-files", "zcdmoisukvtf"), Shows::Names),
    (Program::of_git("ls-tree", "dtrlz"), Shows::Names),
    (Program::of_git("blame", "#bltfnsewpcM?C?L:"), Shows::Contents),
    (Program::of_git("describe", ""), Shows::Names),
    (Program::of_git("shortlog", "nsecw?"), Shows::Names),
    (Program::of_git("merge-base", "a"), Shows::Names),
    (Program::of_git("grep", "#aiIwvhHFEPGnlLzcopWqe:A:B:C:m:"), Shows::Matches),
    (Program::of_git("rev-list", "#n:"), Shows::Names),
    (Program::of_git("cat-file", "tsepz"), Shows::Contents),
    (Program::of_git("name-rev", ""), Shows::Names),
];

/// Returns the effect of `git ARGS`.
pub(super) fn effect(args: &[ShellWord]) -> Effect {
    let args = match args {
        [first, rest @ ..]
            if matches!(first.exact(), Some("--no-pager" | "--no-optional-locks" | "-P")) =>
        {
            rest
        }
        _ => args,
    };
    let Some((verb, args)) = args.split_first() else { return Effect::Unknown };
    let Some(verb) = verb.exact() else { return Effect::Unknown };
    if let Some((program, shows)) = COMMANDS.iter().find(|(program, _)| program.name == verb) {
        return program
            .arguments(args)
            .map_or(Effect::Unknown, |arguments| shown(*shows, arguments));
    }
    let Some(texts) = args.iter().map(ShellWord::exact).collect::<Option<Vec<&str>>>() else {
        return Effect::Unknown;
    };
    if is_reading(verb, &texts) { reads(Vec::new()) } else { Effect::Unknown }
}

/// Returns true if a git command that is not in [`COMMANDS`] only reads with these arguments.
fn is_reading(verb: &str, texts: &[&str]) -> bool {
    match verb {
        "branch" => lists_branches(texts),
        "tag" => {
            texts.is_empty()
                || matches!(texts.first(), Some(&("-l" | "--list" | "-n")))
                    && texts
                        .iter()
                        .skip(1)
                        .all(|text| !text.starts_with('-') || text.starts_with("--sort="))
        }
        "remote" => matches!(texts, [] | ["-v" | "--verbose"]),
        "stash" | "worktree" => matches!(texts, ["list"] | ["list", "--porcelain"]),
        "reflog" => texts
            .iter()
            .all(|text| matches!(*text, "show" | "HEAD" | "--oneline") || is_count(text)),
        "version" | "--version" => texts.is_empty(),
        "config" => {
            matches!(texts, ["user.name" | "user.email"] | ["--get", "user.name" | "user.email"])
        }
        _ => false,
    }
}

fn is_count(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
}

/// Options that make a command show changed lines.
const PATCHES: [&str; 17] = [
    "-p",
    "-u",
    "--patch",
    "-U",
    "--unified",
    "-W",
    "--function-context",
    "--patch-with-stat",
    "--patch-with-raw",
    "--cc",
    "-c",
    "--binary",
    "--check",
    "-m",
    "--word-diff",
    "--color-words",
    "--word-diff-regex",
];

/// Options that make a command show names or counts instead of changed lines.
const NAMES: [&str; 8] = [
    "--stat",
    "--name-only",
    "--name-status",
    "--numstat",
    "--shortstat",
    "--summary",
    "--dirstat",
    "--compact-summary",
];

/// Returns the files that the command reads, and whether the command shows contents from the
/// history.
fn shown(shows: Shows, arguments: Arguments) -> Effect {
    let contents = shows_contents(shows, &arguments);
    // The options `-S` and `-G` reveal contents by their search results, and `-L` shows contents.
    let searches = ["-S", "-G", "-L"].iter().any(|it| arguments.has(it));
    let ranges: Vec<ShellWord> = arguments.values("-L").cloned().collect();
    let has_pattern = shows == Shows::Matches && !arguments.has("-e");
    let operands = arguments.operands.iter().skip(usize::from(has_pattern));
    // The first operand is normally the pattern and not a file. After an unknown option, the first
    // operand may instead be the option's value, and this value may name a file.
    let skipped = arguments.operands.first().filter(|_| has_pattern && arguments.unproven).cloned();
    let mut paths: Vec<ShellWord> = arguments.paths.clone();
    paths.extend(operands.chain(&ranges).cloned());
    if !paths.iter().all(|word| word.exact().is_some() || word.fate == Fate::Begins) {
        return Effect::Unknown;
    }
    let paths = paths.iter().map(file_of).collect();
    let reach = if contents || searches { Reach::History } else { Reach::Named };
    let mentioned = arguments.mentioned.into_iter().chain(skipped).collect();
    Effect::Reads(Reading { paths, reach, mentioned, unproven: arguments.unproven })
}

/// Returns true if the command may show contents of files, apart from its search options.
fn shows_contents(shows: Shows, arguments: &Arguments) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| arguments.has(name));
    // An unknown option may request contents.
    arguments.unproven && shows != Shows::Names
        || match shows {
            Shows::Names => has(&["-v", "--verbose"]),
            Shows::ContentsIfAsked => has(&PATCHES),
            Shows::ContentsUnlessNames => has(&PATCHES) || !has(&NAMES),
            // For `Shows::Matches`, even a list of file names reveals contents, because each listed
            // file contains the pattern.
            Shows::Matches | Shows::Contents => true,
        }
}

/// Returns the word for the file that `word` names, without a revision before it.
fn file_of(word: &ShellWord) -> ShellWord {
    named(&word.text).map_or_else(|| word.clone(), |text| renamed(word, text))
}

fn renamed(word: &ShellWord, text: &str) -> ShellWord {
    ShellWord { text: text.to_owned(), ..word.clone() }
}

/// Returns the path in `REV:PATH`, in `RANGE:PATH` or in a pathspec with magic (`:(top)PATH`). The
/// path may be relative to the top of the repository.
pub(crate) fn named(text: &str) -> Option<&str> {
    let (_, path) = text.rsplit_once(':')?;
    let path = path.rsplit_once(')').map_or(path, |(_, path)| path);
    Some(path.trim_start_matches(['/', '!', '^']))
}

/// Returns true if the word has the form `REV:PATH`. A word `:/TEXT` names a commit and does not
/// have this form.
pub(crate) fn is_blob(word: &ShellWord) -> bool {
    let text = word.exact().filter(|text| !text.starts_with(":/"));
    text.and_then(named).is_some_and(|path| !path.is_empty())
}

/// A git command that shows contents from git's objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The words before `--`: revisions, and possibly files.
    pub operands: Vec<ShellWord>,
    /// The files after `--`, to which the output is limited.
    pub limits: Vec<ShellWord>,
    /// True if the command copies all tracked files into another folder.
    pub copies: bool,
}

/// Returns the git command that `git ARGS` runs, without the options before it, and the words after
/// it.
pub(crate) fn verb(args: &[ShellWord]) -> Option<(&ShellWord, &[ShellWord])> {
    let mut args = args;
    while let Some((first, rest)) = args.split_first() {
        let skipped = match first.text.as_str() {
            "-C" | "-c" | "--attr-source" | "--config-env" | "--git-dir" | "--namespace"
            | "--super-prefix" | "--work-tree" => 1,
            text if text.starts_with('-') => 0,
            _ => break,
        };
        args = rest.get(skipped..).unwrap_or_default();
    }
    args.split_first()
}

/// Returns the contents that `git ARGS` may show, or `None` if the command shows no contents. Deny
/// rules use the result. Therefore the result may contain too much, but never too little.
pub(crate) fn history(args: &[ShellWord]) -> Option<History> {
    let (verb, args) = verb(args)?;
    let Some((program, shows)) =
        COMMANDS.iter().find(|(program, _)| Some(program.name) == verb.exact())
    else {
        let may_show =
            verb.exact().is_none_or(|verb| SHOWING.contains(&verb) || shows_in_form(verb, args));
        return may_show.then(|| {
            let copies = matches!(verb.exact(), Some("clone" | "worktree"));
            History { operands: Vec::new(), limits: after_dashes(args), copies }
        });
    };
    let Some(arguments) = program.arguments(args).filter(|arguments| !arguments.unproven) else {
        // An unknown option could cancel the limit to certain files, so assume that the command
        // shows all contents.
        return (*shows != Shows::Names).then(History::default);
    };
    match shown(*shows, arguments.clone()) {
        Effect::Reads(Reading { reach: Reach::History, .. }) => {}
        // A command with an unknown effect may show any contents.
        Effect::Unknown => return Some(History::default()),
        _ => return None,
    }
    let Arguments { mut operands, before_dashes, .. } = arguments;
    let limits = before_dashes.map(|count| operands.split_off(count.min(operands.len())));
    let has_pattern = *shows == Shows::Matches;
    Some(match limits {
        // If nothing follows `--`, the words before it are not files, so nothing limits the output.
        Some(limits) if limits.is_empty() => History::default(),
        Some(limits) => History { operands, limits, copies: false },
        None => {
            let operands = operands.into_iter().skip(usize::from(has_pattern)).collect();
            History { operands, ..History::default() }
        }
    })
}

/// Returns true if a git command that changes something also shows contents with these arguments,
/// or copies contents to a folder where deny rules do not match them.
fn shows_in_form(verb: &str, args: &[ShellWord]) -> bool {
    let asks = |long: &[&str], short: &[char]| {
        args.iter().map(|word| word.text.as_str()).any(|text| match text.strip_prefix("--") {
            // Git accepts the beginning of a long option if only one option begins like this.
            Some(name) => {
                let name = name.split('=').next().unwrap_or(name);
                !name.is_empty() && long.iter().any(|it| it.starts_with(name))
            }
            None => text.starts_with('-') && text.contains(short),
        })
    };
    match verb {
        "add" | "checkout" | "commit" | "reset" | "restore" => {
            asks(&["edit", "interactive", "patch", "verbose"], &['e', 'i', 'p', 'v'])
        }
        // `reflog` accepts all options of `log`. Only the harmless options are accepted here.
        "reflog" => !args.iter().map(ShellWord::exact).all(|text| {
            text.is_some_and(|text| !text.starts_with('-') || text == "--oneline" || is_count(text))
        }),
        "worktree" => args.first().and_then(ShellWord::exact).is_none_or(|verb| verb == "add"),
        _ => false,
    }
}

fn after_dashes(args: &[ShellWord]) -> Vec<ShellWord> {
    let dashes = args.iter().position(|word| word.text == "--");
    dashes.and_then(|at| args.get(at + 1..)).unwrap_or_default().to_vec()
}

/// Other git commands that show contents.
const SHOWING: [&str; 20] = [
    "clone",
    "merge-tree",
    "pack-objects",
    "archive",
    "bundle",
    "cat-file",
    "checkout-index",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "format-patch",
    "annotate",
    "range-diff",
    "request-pull",
    "stash",
    "unpack-file",
    "whatchanged",
    "send-email",
];

fn lists_branches(texts: &[&str]) -> bool {
    let is_listing = texts.iter().any(|text| matches!(*text, "--list" | "-l"));
    texts.iter().all(|text| match *text {
        "--list" | "-l" | "-a" | "-r" | "-v" | "-vv" | "--all" | "--remotes" | "--show-current"
        | "--no-color" => true,
        text if text.starts_with("--sort=") || text.starts_with("--format=") => true,
        text => is_listing && !text.starts_with('-'),
    })
}
