//! The git commands that only read, each with the options it may be given, and how much of the files they show.

use super::effect::{Effect, Reach, reads};
use super::options::{Arguments, Program};
use super::word::{Fate, Word};

/// Options of everything that compares.
macro_rules! diff_short {
    ($more:expr) => {
        concat!("#puszabwWRqU:M?C?B?l:G:S:", $more)
    };
}
macro_rules! diff_long {
    ($more:expr) => {
        concat!(
            "patch no-patch unified= raw stat? numstat shortstat dirstat? summary name-only name-status patch-with-stat \
             patch-with-raw color? no-color color-moved? word-diff? word-diff-regex= color-words? minimal patience histogram \
             diff-algorithm= anchored= find-renames? find-copies? find-copies-harder no-renames diff-filter= pickaxe-all \
             pickaxe-regex ignore-space-change ignore-all-space ignore-blank-lines ignore-space-at-eol ignore-cr-at-eol \
             ignore-submodules? function-context exit-code quiet no-ext-diff no-textconv full-index binary abbrev? no-abbrev \
             relative? no-relative submodule? src-prefix= dst-prefix= no-prefix text inter-hunk-context= compact-summary check ",
            $more
        )
    };
}
macro_rules! log_long {
    ($more:expr) => {
        diff_long!(concat!(
            "oneline graph all decorate? no-decorate format= pretty? abbrev-commit no-abbrev-commit date= since= after= until= before= \
             author= committer= grep= all-match invert-grep regexp-ignore-case extended-regexp fixed-strings perl-regexp no-merges \
             merges first-parent reverse max-count= skip= follow branches? tags? remotes? glob= exclude= topo-order \
             date-order author-date-order left-right cherry-pick cherry-mark cherry parents children boundary simplify-merges full-history \
             ancestry-path diff-merges= cc combined-all-paths no-notes no-mailmap mailmap use-mailmap encoding= \
             expand-tabs? left-only right-only merge ",
            $more
        ))
    };
}

/// What the operands and options of a command let see of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Names alone.
    Names,
    /// Contents, if an option asks for them.
    ContentsIfAsked,
    /// Contents, unless an option asks for names alone.
    ContentsUnlessNames,
    /// Contents, of a pattern that comes first.
    Matches,
    /// Contents.
    Contents,
}

const COMMANDS: [(Program, Shows); 15] = [
    (
        Program::of_git(
            "status",
            "sbzu?v",
            "short branch show-stash porcelain? long verbose untracked-files? ignored? ignore-submodules? \
        column? no-column ahead-behind no-ahead-behind renames no-renames find-renames?",
        ),
        Shows::Names,
    ),
    (Program::of_git("log", diff_short!("icmn:FEPgtrL:"), log_long!("source walk-reflogs")), Shows::ContentsIfAsked),
    (
        Program::of_git("diff", diff_short!(""), diff_long!("cached staged merge-base cc base ours theirs")),
        Shows::ContentsUnlessNames,
    ),
    (Program::of_git("show", diff_short!("cmn:tr"), log_long!("")), Shows::Contents),
    (
        Program::of_git(
            "rev-parse",
            "q",
            "show-toplevel git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository \
        show-prefix show-cdup abbrev-ref? short? verify quiet symbolic symbolic-full-name absolute-git-dir path-format= all branches? \
        tags? remotes? show-superproject-working-tree end-of-options show-object-format?",
        ),
        Shows::Names,
    ),
    (
        Program::of_git(
            "ls-files",
            "zcdmoisukvtf",
            "cached deleted modified others ignored stage directory no-empty-directory unmerged \
        killed exclude-standard error-unmatch full-name recurse-submodules abbrev? deduplicate eol",
        ),
        Shows::Names,
    ),
    (
        Program::of_git(
            "ls-tree",
            "dtrlz",
            "long name-only name-status object-only full-name full-tree abbrev? format=",
        ),
        Shows::Names,
    ),
    (
        Program::of_git(
            "blame",
            "#bltfnsewpcM?C?L:",
            "root show-stats reverse porcelain line-porcelain incremental encoding= date= \
        show-name show-number show-email abbrev= score-debug",
        ),
        Shows::Contents,
    ),
    (
        Program::of_git(
            "describe",
            "",
            "dirty? broken? all tags contains abbrev= candidates= exact-match long match= exclude= always first-parent",
        ),
        Shows::Names,
    ),
    (
        Program::of_git(
            "shortlog",
            "nsecw?",
            "numbered summary email format= group= committer no-merges since= until= author= all",
        ),
        Shows::Names,
    ),
    (Program::of_git("merge-base", "a", "all octopus is-ancestor independent fork-point"), Shows::Names),
    (
        Program::of_git(
            "grep",
            "#aiIwvhHFEPGnlLzcopWqe:A:B:C:m:",
            "cached untracked text ignore-case invert-match full-name extended-regexp basic-regexp \
        perl-regexp fixed-strings line-number column files-with-matches name-only files-without-match null only-matching count color? no-color \
        break heading show-function context= after-context= before-context= function-context max-count= max-depth= threads= and or not all-match \
        quiet recursive no-recursive word-regexp no-textconv",
        ),
        Shows::Matches,
    ),
    (
        Program::of_git(
            "rev-list",
            "#n:",
            "count all max-count= skip= since= after= until= before= author= grep= no-merges merges first-parent \
        reverse oneline pretty? format= abbrev-commit left-right parents children timestamp topo-order date-order branches? tags? remotes? \
        no-walk? boundary ancestry-path left-only right-only cherry-pick",
        ),
        Shows::Names,
    ),
    (Program::of_git("cat-file", "tsepz", ""), Shows::Contents),
    (Program::of_git("name-rev", "", "tags all name-only always refs="), Shows::Names),
];

/// Tells what `git ARGS` does.
pub(super) fn effect(args: &[Word]) -> Effect {
    let args = match args {
        [first, rest @ ..] if matches!(first.exact(), Some("--no-pager" | "--no-optional-locks" | "-P")) => rest,
        _ => args,
    };
    let Some((verb, args)) = args.split_first() else {
        return Effect::Unknown;
    };
    let Some(verb) = verb.exact() else {
        return Effect::Unknown;
    };
    if let Some((program, shows)) = COMMANDS.iter().find(|(program, _)| program.name == verb) {
        return program.arguments(args).map_or(Effect::Unknown, |arguments| shown(*shows, arguments));
    }
    let Some(texts) = args.iter().map(Word::exact).collect::<Option<Vec<&str>>>() else {
        return Effect::Unknown;
    };
    let is_reading = match verb {
        "branch" => lists_branches(&texts),
        "tag" => {
            texts.is_empty()
                || matches!(texts.first(), Some(&("-l" | "--list" | "-n")))
                    && texts.iter().skip(1).all(|text| !text.starts_with('-') || text.starts_with("--sort="))
        }
        "remote" => matches!(texts.as_slice(), [] | ["-v" | "--verbose"]),
        "stash" | "worktree" => matches!(texts.as_slice(), ["list"] | ["list", "--porcelain"]),
        "reflog" => texts.iter().all(|text| matches!(*text, "show" | "HEAD" | "--oneline") || is_count(text)),
        "version" | "--version" => texts.is_empty(),
        "config" => matches!(texts.as_slice(), ["user.name" | "user.email"] | ["--get", "user.name" | "user.email"]),
        _ => false,
    };
    if is_reading { reads(Vec::new()) } else { Effect::Unknown }
}

fn is_count(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
}

/// What the command reads, with how far it goes into the history.
fn shown(shows: Shows, arguments: Arguments) -> Effect {
    const PATCHES: [&str; 14] = [
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
    ];
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
    let has = |names: &[&str]| names.iter().any(|name| arguments.has(name));
    let asks =
        has(&PATCHES) || ["--word-diff", "--color-words", "--word-diff-regex"].iter().any(|it| arguments.has(it));
    let contents = match shows {
        Shows::Names => arguments.has("-v") || arguments.has("--verbose"),
        Shows::ContentsIfAsked => asks,
        Shows::ContentsUnlessNames => asks || !has(&NAMES),
        // Names alone tell what is in them, too.
        Shows::Matches | Shows::Contents => true,
    };
    // `-S` and `-G` tell of contents by what they find, `-L` shows them.
    let searches = ["-S", "-G", "-L"].iter().any(|it| arguments.has(it));
    let ranges: Vec<Word> = arguments.values("-L").cloned().collect();
    let has_pattern = shows == Shows::Matches && !arguments.has("-e");
    let operands = arguments.operands.iter().skip(usize::from(has_pattern));
    let mut paths: Vec<Word> = arguments.paths.clone();
    paths.extend(operands.chain(&ranges).cloned());
    if !paths.iter().all(|word| word.exact().is_some() || word.fate == Fate::Begins) {
        return Effect::Unknown;
    }
    let named =
        |word: &Word| named(&word.text).into_iter().next().map_or_else(|| word.clone(), |text| renamed(word, text));
    let paths = paths.iter().map(named).collect();
    Effect::Reads { paths, reach: if contents || searches { Reach::History } else { Reach::Named } }
}

fn renamed(word: &Word, text: &str) -> Word {
    Word { text: text.to_owned(), ..word.clone() }
}

/// The path in `REV:PATH`, `RANGE:PATH` or a pathspec with magic. It may begin at the top of the repository.
pub(crate) fn named(text: &str) -> Option<&str> {
    let (_, path) = text.rsplit_once(':')?;
    let path = path.rsplit_once(')').map_or(path, |(_, path)| path);
    Some(path.trim_start_matches(['/', '!', '^']))
}

/// Whether the word is `REV:PATH`; `:/TEXT` is a commit.
pub(crate) fn is_blob(word: &Word) -> bool {
    let text = word.exact().filter(|text| !text.starts_with(":/"));
    text.and_then(named).is_some_and(|path| !path.is_empty())
}

/// A command that shows contents which git keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// What it shows, before `--`: revisions, and perhaps files.
    pub(crate) operands: Vec<Word>,
    /// The files it is limited to, after `--`.
    pub(crate) limits: Vec<Word>,
    /// It puts all that is tracked into another folder.
    pub(crate) copies: bool,
}

/// What `git ARGS` shows of contents, if it may show any. For denying, so rather too much than too little.
pub(crate) fn history(args: &[Word]) -> Option<History> {
    let mut args = args;
    while let Some((first, rest)) = args.split_first() {
        let skipped = match first.text.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" => 1,
            text if text.starts_with('-') => 0,
            _ => break,
        };
        args = rest.get(skipped..).unwrap_or_default();
    }
    let (verb, args) = args.split_first()?;
    let Some((program, shows)) = COMMANDS.iter().find(|(program, _)| Some(program.name) == verb.exact()) else {
        let may_show = verb.exact().is_none_or(|verb| SHOWING.contains(&verb) || shows_in_form(verb, args));
        return may_show.then(|| {
            let copies = matches!(verb.exact(), Some("clone" | "worktree"));
            History { operands: Vec::new(), limits: after_dashes(args), copies }
        });
    };
    let Some(arguments) = program.arguments(args) else {
        // With an option that is not known nothing limits what is shown.
        return (*shows != Shows::Names).then(History::default);
    };
    match shown(*shows, arguments.clone()) {
        Effect::Reads { reach: Reach::History, .. } => {}
        Effect::Unknown => return Some(History::default()),
        _ => return None,
    }
    let Arguments { mut operands, before_dashes, .. } = arguments;
    let limits = before_dashes.map(|count| operands.split_off(count.min(operands.len())));
    let has_pattern = *shows == Shows::Matches;
    Some(match limits {
        // What is before the dashes is no file, then.
        Some(limits) if limits.is_empty() => History::default(),
        Some(limits) => History { operands, limits, copies: false },
        None => {
            let operands = operands.into_iter().skip(usize::from(has_pattern)).collect();
            History { operands, ..History::default() }
        }
    })
}

/// Whether a command that changes something also shows contents, or puts them where no rule keeps them, with these
/// arguments.
fn shows_in_form(verb: &str, args: &[Word]) -> bool {
    let asks = |long: &[&str], short: &[char]| {
        args.iter().map(|word| word.text.as_str()).any(|text| match text.strip_prefix("--") {
            // The beginning of a long option is enough for git.
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
        // It takes all options of `log`.
        "reflog" => !args
            .iter()
            .map(Word::exact)
            .all(|text| text.is_some_and(|text| !text.starts_with('-') || text == "--oneline" || is_count(text))),
        "worktree" => args.first().and_then(Word::exact).is_none_or(|verb| verb == "add"),
        _ => false,
    }
}

fn after_dashes(args: &[Word]) -> Vec<Word> {
    let dashes = args.iter().position(|word| word.text == "--");
    dashes.and_then(|at| args.get(at + 1..)).unwrap_or_default().to_vec()
}

/// Further commands that show contents.
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
        "--list" | "-l" | "-a" | "-r" | "-v" | "-vv" | "--all" | "--remotes" | "--show-current" | "--no-color" => true,
        text if text.starts_with("--sort=") || text.starts_with("--format=") => true,
        text => is_listing && !text.starts_with('-'),
    })
}
