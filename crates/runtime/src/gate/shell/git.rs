//! The git commands that only read, with the flags that would make them write or run something.

use super::effect::{Effect, is_long_flag, open, reads};
use super::word::Word;

/// Flags that write a file, run a program or leave the repository.
const REFUSED: [&str; 10] = [
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--no-index",
    "--contents",
    "--exec-path",
    "--upload-pack",
    "--paginate",
];

/// Tells what `git ARGS` does.
pub(super) fn effect(args: &[Word]) -> Effect {
    let args = match args {
        [first, rest @ ..] if first.exact() == Some("--no-pager") => rest,
        _ => args,
    };
    let Some((verb, args)) = args.split_first() else {
        return Effect::Unknown;
    };
    let Some(texts) = args.iter().map(Word::exact).collect::<Option<Vec<&str>>>() else {
        return if is_reader(verb.exact()) && !open(args) && !refused(args) { paths(args) } else { Effect::Unknown };
    };
    let reading = match verb.exact() {
        Some("branch") => lists_branches(&texts),
        Some("tag") => texts.is_empty() || matches!(texts.first(), Some(&("-l" | "--list"))) && only_patterns(&texts),
        Some("remote") => matches!(texts.as_slice(), [] | ["-v"]),
        Some("stash") => matches!(texts.as_slice(), ["list"]),
        Some("worktree") => matches!(texts.as_slice(), ["list"] | ["list", "--porcelain"]),
        Some("reflog") => matches!(texts.as_slice(), [] | ["show"]),
        verb => is_reader(verb) && !refused(args),
    };
    if reading { paths(args) } else { Effect::Unknown }
}

fn is_reader(verb: Option<&str>) -> bool {
    matches!(
        verb,
        Some(
            "status"
                | "log"
                | "diff"
                | "show"
                | "rev-parse"
                | "ls-files"
                | "ls-tree"
                | "blame"
                | "describe"
                | "shortlog"
                | "merge-base"
                | "grep"
                | "rev-list"
                | "cat-file"
        )
    )
}

fn refused(args: &[Word]) -> bool {
    let by_letter = |text: &str| text.starts_with("-O") || text.starts_with("-o");
    args.iter().any(|word| by_letter(&word.text) || REFUSED.iter().any(|flag| is_long_flag(&word.text, flag)))
}

fn lists_branches(texts: &[&str]) -> bool {
    let listing = texts.iter().any(|text| matches!(*text, "--list" | "-l"));
    texts.iter().all(|text| match *text {
        "--list" | "-l" | "-a" | "-r" | "-v" | "-vv" | "--all" | "--remotes" | "--show-current" => true,
        text => listing && !text.starts_with('-'),
    })
}

fn only_patterns(texts: &[&str]) -> bool {
    texts.iter().skip(1).all(|text| !text.starts_with('-'))
}

/// The words that may name files: `REV:PATH` names its path.
fn paths(args: &[Word]) -> Effect {
    let path = |word: &Word| {
        let mut word = word.clone();
        if let Some((_, path)) = word.text.split_once(':') {
            word.text = path.to_owned();
        }
        word
    };
    reads(args.iter().filter(|word| !word.text.starts_with('-')).map(path).collect())
}
