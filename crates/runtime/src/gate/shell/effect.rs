//! The commands that are known to only read, and the few that only touch the files they name.

use super::git;
use super::word::Word;

/// What one command, wrappers taken off, would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It only reads, and only these words can be files or folders it reads.
    Reads {
        /// The words that name what is read.
        paths: Vec<Word>,
        /// Whether it reads whole trees.
        reach: Reach,
    },
    /// It makes, moves or copies the files named, all known.
    Touches(Vec<String>),
    /// It goes to another folder.
    Enters(Option<Word>),
    /// Nobody knows.
    Unknown,
}

/// How far below a named folder a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The named files, or a folder's names.
    Named,
    /// What is in all files below.
    Tree,
}

/// Tells what a simple command does.
pub(crate) fn effect(words: &[Word]) -> Effect {
    let Some((name, args)) = words.split_first() else {
        return reads(Vec::new());
    };
    let Some(name) = name.exact() else {
        return Effect::Unknown;
    };
    match name {
        "cat" | "head" | "tail" | "wc" | "ls" | "stat" | "du" | "df" | "cut" | "nl" | "tac" | "rev" | "cmp"
        | "md5sum" | "sha1sum" | "sha256sum" | "realpath" | "readlink" | "comm" | "paste" | "od" | "fold"
        | "expand" => reads(named(args)),
        "diff" => tree_if(args, has_recursion(args)),
        "pwd" | "echo" | "true" | "false" | ":" | "which" | "type" | "basename" | "dirname" | "seq" | "tr"
        | "uname" | "whoami" | "id" | "nproc" | "exit" | "break" | "continue" | "sleep" => reads(Vec::new()),
        "command" => reads(Vec::new()),
        "test" | "[" if !args.iter().any(|word| word.fate_is_open() || word.text == "-v" || word.text == "-R") => {
            reads(Vec::new())
        }
        "printf" if !args.first().is_some_and(Word::may_be_flag) => reads(Vec::new()),
        "grep" | "egrep" | "fgrep" => tree_if(after_pattern(args), has_recursion(args)),
        "rg" if !any_flag(args, &["--pre", "--pre-glob", "--hostname-bin", "--search-zip"], "z") => {
            tree_if(after_pattern(args), true)
        }
        "jq" => reads(named(after_pattern(args))),
        "sort" if !any_flag(args, &["--output", "--compress-program", "--temporary-directory"], "oT") => {
            reads(named(args))
        }
        "uniq" if args.iter().filter(|word| !word.text.starts_with('-')).count() <= 1 && !open(args) => {
            reads(named(args))
        }
        "file" if !any_flag(args, &["--compile"], "C") => reads(named(args)),
        "find" if !open(args) && !args.iter().any(acts_in_find) => {
            reads(args.iter().take_while(|word| !word.text.starts_with(['-', '(', '!'])).cloned().collect())
        }
        "date" if is_reading_date(args) => reads(Vec::new()),
        "git" => git::effect(args),
        "cd" => enters(args),
        "mkdir" => touches(args, "pv"),
        "touch" => touches(args, "amc"),
        "mv" | "cp" => touches(args, "rRafnvpiuT"),
        _ => Effect::Unknown,
    }
}

pub(super) fn reads(paths: Vec<Word>) -> Effect {
    Effect::Reads { paths, reach: Reach::Named }
}

/// Whether the arguments may hold a flag that is not written out.
pub(super) fn open(args: &[Word]) -> bool {
    args.iter().any(|word| word.exact().is_none() && word.may_be_flag())
}

/// Whether the word is the long flag, whole, with a value, or shortened.
pub(super) fn is_long_flag(word: &str, flag: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() > 2 && name.starts_with("--") && flag.starts_with(name)
}

/// Whether one of the flags is, or may be, among the arguments.
fn any_flag(args: &[Word], long: &[&str], short: &str) -> bool {
    let is_short =
        |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains(|c| short.contains(c));
    open(args) || args.iter().any(|word| is_short(&word.text) || long.iter().any(|flag| is_long_flag(&word.text, flag)))
}

fn named(args: &[Word]) -> Vec<Word> {
    args.iter().filter(|word| word.exact().is_none() || !word.text.starts_with('-')).cloned().collect()
}

fn tree_if(args: &[Word], tree: bool) -> Effect {
    Effect::Reads { paths: named(args), reach: if tree { Reach::Tree } else { Reach::Named } }
}

fn has_recursion(args: &[Word]) -> bool {
    any_flag(args, &["--recursive", "--dereference-recursive", "--directories"], "rRd")
}

/// Leaves out the first plain word, which is a pattern, unless a flag may bring the pattern or a file.
fn after_pattern(args: &[Word]) -> &[Word] {
    let brings =
        |word: &Word| word.text.starts_with('-') && (word.text.starts_with("--") || word.text.contains(['e', 'f']));
    if args.iter().any(brings) {
        return args;
    }
    let flags = args.iter().take_while(|word| word.text.starts_with('-')).count();
    args.get(flags + 1..).unwrap_or_default()
}

fn acts_in_find(word: &Word) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0"].iter().any(|action| word.text.starts_with(action))
}

fn is_reading_date(args: &[Word]) -> bool {
    let mut args = args.iter();
    while let Some(word) = args.next() {
        match word.exact() {
            Some("-u" | "--utc" | "-R" | "-Iseconds" | "-I") => {}
            Some("-d") if args.next().is_some() => {}
            Some(text) if text.starts_with('+') || text.starts_with("--date=") => {}
            _ => return false,
        }
    }
    true
}

fn enters(args: &[Word]) -> Effect {
    match args {
        [folder] if !folder.may_be_flag() && folder.exact().is_some() => Effect::Enters(Some(folder.clone())),
        _ => Effect::Enters(None),
    }
}

/// Commands whose plain words are all files they make or change, with harmless flags only.
fn touches(args: &[Word], flags: &str) -> Effect {
    let mut paths = Vec::new();
    for word in args {
        match word.exact() {
            Some(text) if text.starts_with('-') => {
                let known = text.len() > 1 && text.chars().skip(1).all(|c| flags.contains(c));
                if !known && text != "--parents" {
                    return Effect::Unknown;
                }
            }
            Some(text) => paths.push(text.to_owned()),
            None => return Effect::Unknown,
        }
    }
    Effect::Touches(paths)
}

impl Word {
    /// Whether expansion may make any word of it.
    fn fate_is_open(&self) -> bool {
        self.exact().is_none() && self.may_be_flag()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    fn check(command: &str) -> Effect {
        let script = Script::parse(command);
        assert!(script.doubts.is_empty(), "{command}: {:?}", script.doubts);
        effect(&script.parts.last().unwrap().words)
    }

    #[test]
    fn readers_are_known() {
        for command in [
            "ls -la src",
            "cat a b",
            "grep -rn foo src",
            "rg foo",
            "find . -name '*.rs' -type f",
            "git log --oneline -5",
            "git diff HEAD~1 -- src",
            "git branch --list",
            "git -P",
            "sort -u a",
            "uniq -c a",
            "date +%s",
            "date -u",
            "jq .a b.json",
            "printf '%s' x",
            "test -f x",
            "command -v cargo",
        ] {
            let expected = command != "git -P";
            assert_eq!(matches!(check(command), Effect::Reads { .. }), expected, "{command}");
        }
    }

    #[test]
    fn flags_that_write_or_run_are_not_reading() {
        for command in [
            "sort -o x y",
            "sort --outp=x y",
            "sort -uo x y",
            "sort $x",
            "uniq a b",
            "find . -delete",
            "find . -exec rm {} +",
            "find . -fprintf x y",
            "find . $x",
            "find . *",
            "rg --pre ./x foo",
            "file -C -m x",
            "date -s now",
            "date 10101010",
            "git -c core.pager=x log",
            "git log --output=x",
            "git log --ou=x",
            "git diff --ext-diff",
            "git branch new",
            "git branch -D x",
            "git grep -O./x foo",
            "git commit -m x",
            "git $x",
            "git -C /other status",
            "printf -v x y",
            "sed -i s/a/b/ x",
            "tee x",
            "/bin/ls",
            "./ls",
            "$x",
        ] {
            assert!(!matches!(check(command), Effect::Reads { .. }), "{command}");
        }
    }

    #[test]
    fn the_words_that_name_files_are_told() {
        let paths = |command: &str| match check(command) {
            Effect::Reads { paths, .. } => paths.into_iter().map(|word| word.raw).collect::<Vec<_>>(),
            other => panic!("{command}: {other:?}"),
        };
        assert_eq!(paths("cat -n a b"), ["a", "b"]);
        assert_eq!(paths("grep -n /api src"), ["src"]);
        assert_eq!(paths("grep -nf words src"), ["words", "src"]);
        assert_eq!(paths("find a b -name c"), ["a", "b"]);
        assert_eq!(paths("cat $x"), ["$x"]);
        assert_eq!(check("mkdir -p a/b c"), Effect::Touches(vec!["a/b".to_owned(), "c".to_owned()]));
        assert_eq!(check("cp -t /x a"), Effect::Unknown);
    }
}
