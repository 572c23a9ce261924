//! Determines the effect of simple commands. The known commands are commands that only read, and a
//! few commands that change only the files they name.

use super::code::only_prints;
use super::git;
use super::options::{Arguments, Language, Operands, Program, known};
use super::shell_word::{Fate, ShellWord};
use super::wrapper::{Inner, looks_up, unwrap};

/// The effect of one command, after its wrappers (such as `timeout`) are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The command only reads.
    Reads(Reading),
    /// The command creates or updates the named files. All names are known.
    Touches(Vec<String>),
    /// The command moves or copies files. All names are known.
    Copies {
        /// The files or whole folders that are moved or copied.
        sources: Vec<String>,
        /// The new name, or the folder into which the files are moved or copied.
        target: String,
    },
    /// The command changes to another folder. `None` means that the folder is not known.
    Enters(Option<ShellWord>),
    /// The effect of the command is not known.
    Unknown,
}

/// The files that a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The words that name the files.
    pub paths: Vec<ShellWord>,
    /// How far below a named folder the command reads.
    pub reach: Reach,
    /// Words that are treated as paths only if a file of that name exists.
    pub mentioned: Vec<ShellWord>,
    /// True if the command has unknown options. Such a command is allowed to run without a
    /// permission request only in the sandbox profile *read*, which ensures that the command only
    /// reads.
    pub unproven: bool,
}

/// How far below a named folder a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The command reads the named files, or the file names in a named folder.
    Named,
    /// The command reads the named files, or the files directly in a named folder. It follows
    /// symbolic links in that folder, and the links may lead anywhere.
    Linked,
    /// The command reads the contents of all files below a named folder.
    Tree,
    /// The command reads old versions, stored by git, of all files below a named folder. File
    /// permissions do not protect the stored versions.
    History,
}

/// Programs that `effect` knows without a row in the table of the module `options`.
const OTHER_NAMES: [&str; 27] = [
    "[", "basename", "cd", "command", "cp", "date", "dirname", "echo", "false", "find", "git",
    "id", "mkdir", "mv", "nproc", "printf", "pwd", "seq", "sleep", "test", "touch", "tr", "true",
    "type", "uname", "which", "whoami",
];

/// Returns true if this module knows the effect of some commands of a program, or if the program is
/// a known wrapper.
pub(crate) fn is_known_name(name: &str) -> bool {
    // Some wrappers need a word before the command.
    let words = [name, "x", "x"].map(ShellWord::literal);
    let wraps = || unwrap(&words) != Inner::Nothing;
    known(name).is_some() || OTHER_NAMES.contains(&name) || wraps()
}

/// Returns the effect of a simple command.
pub(crate) fn effect(words: &[ShellWord]) -> Effect {
    let Some((name, args)) = words.split_first() else { return reads(Vec::new()) };
    let Some(name) = name.exact() else { return Effect::Unknown };
    if let Some(program) = known(name) {
        return program_effect(program, args).unwrap_or(Effect::Unknown);
    }
    match name {
        "pwd" | "echo" | "true" | "false" | ":" | "which" | "type" | "basename" | "dirname"
        | "seq" | "tr" | "uname" | "whoami" | "id" | "nproc" | "exit" | "break" | "continue"
        | "sleep" => reads(Vec::new()),
        "command" if looks_up(args) => reads(Vec::new()),
        "test" if is_plain_test(args) => reads(Vec::new()),
        "[" if args
            .split_last()
            .is_some_and(|(last, args)| last.exact() == Some("]") && is_plain_test(args)) =>
        {
            reads(Vec::new())
        }
        "printf" if !args.first().is_some_and(ShellWord::may_be_flag) => reads(Vec::new()),
        "find" => found(args),
        "date" if is_reading_date(args) => reads(Vec::new()),
        "git" => git::effect(args),
        "cd" => enters(args),
        "mkdir" => touches(args, "pv"),
        "touch" => touches(args, "amc"),
        "mv" | "cp" => copies(touches(args, "rRafnvpiu")),
        _ => Effect::Unknown,
    }
}

/// Returns the effect of a program that is in the table of the module `options`. Returns `None` if
/// the effect of these arguments is not known.
fn program_effect(program: &Program, args: &[ShellWord]) -> Option<Effect> {
    let Arguments { options, mut operands, mut paths, mut mentioned, unproven, .. } =
        program.arguments(args)?;
    let has = |names: &[&str]| options.iter().any(|(name, _)| names.contains(&name.as_str()));
    let is_jq = program.operands == Operands::Code(Language::Jq);
    let brings_pattern = !is_jq
        && has(&["-e", "--regexp", "-f", "--file", "--expression", "--files", "--type-list"]);
    let mut reach = Reach::Named;
    match program.operands {
        Operands::Files => {}
        // If there is a second operand, the program writes to the file that the second operand
        // names.
        Operands::OneFile if operands.len() > 1 => return None,
        Operands::OneFile => {}
        Operands::FilesOrFolders => reach = Reach::Linked,
        Operands::PatternAndFiles | Operands::PatternAndTrees => {
            let is_deep = has(&["-r", "--recursive", "-d", "--directories"]);
            if program.operands == Operands::PatternAndTrees || is_deep {
                reach = Reach::Tree;
            }
            if !brings_pattern && !operands.is_empty() {
                let pattern = operands.remove(0);
                // The first operand is normally the pattern and not a file. After an unknown
                // option, the first operand may instead be the option's value, and this value may
                // name a file.
                mentioned.extend(Some(pattern).filter(|_| unproven));
            }
        }
        Operands::Code(language) => {
            if !brings_pattern && !operands.is_empty() {
                let code = operands.remove(0);
                only_prints(language, code.exact()?).then_some(())?;
            }
            for (name, value) in &options {
                let is_code = matches!(name.as_str(), "-e" | "--expression");
                if let Some(value) = value.as_ref().filter(|_| is_code) {
                    only_prints(language, value.exact()?).then_some(())?;
                }
            }
            // For awk, an operand `a=b` sets a variable. Treat `b` as a path too, because it could
            // be the name of a file.
            paths.extend(
                operands
                    .iter()
                    .filter_map(|word| word.text.split_once('='))
                    .map(|(_, it)| ShellWord::literal(it)),
            );
        }
    }
    paths.extend(operands);
    // The effect is known only if each path is one word of which at least the beginning is known.
    // Any other word may expand to any number of words.
    let is_known = |word: &ShellWord| word.exact().is_some() || word.fate == Fate::Begins;
    paths.iter().all(is_known).then_some(Effect::Reads(Reading {
        paths,
        reach,
        mentioned,
        unproven,
    }))
}

pub(super) fn reads(paths: Vec<ShellWord>) -> Effect {
    Effect::Reads(Reading { paths, reach: Reach::Named, mentioned: Vec::new(), unproven: false })
}

/// Words of `find` (options, operators, tests and actions) that change nothing and read only names
/// and metadata.
const FIND_KNOWN: &str = "-H -P -not -o -or -a -and -print -print0 -ls -prune -empty -readable -writable -executable -xdev \
    -mount -depth -daystart -quit -true -false -nouser -noleaf -name -iname -path -ipath -wholename -type -maxdepth -mindepth -size \
    -mtime -mmin -atime -amin -ctime -cmin -regex -iregex -regextype -user -group -perm -printf -links -newer -anewer -cnewer \
    -samefile";

/// Beginnings of the `find` actions that write or run something. `-files0-from` is an option that
/// reads names from a file.
const FIND_ASKED: [&str; 6] = ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"];

/// Returns the effect of `find`. The effect is known only if all actions only print.
fn found(args: &[ShellWord]) -> Effect {
    let mut reading =
        Reading { paths: Vec::new(), reach: Reach::Named, mentioned: Vec::new(), unproven: false };
    let mut is_expression = false;
    for word in args {
        let Some(text) = word.exact() else {
            // The value of this word is not fully known. After the first test, the word is usually
            // the value of a test. It could also be an action, but the sandbox profile *read*
            // refuses what such an action does. If the word comes before the first test, or may
            // become several words, the effect is unknown.
            if word.fate == Fate::Anything || !is_expression {
                return Effect::Unknown;
            }
            reading.unproven = true;
            continue;
        };
        if FIND_ASKED.iter().any(|asked| text.starts_with(asked)) {
            return Effect::Unknown;
        }
        let is_option = text.starts_with('-') && text.len() > 1;
        reading.unproven |= is_option && !FIND_KNOWN.split_whitespace().any(|known| known == text);
        is_expression |= text.starts_with(['-', '(', '!', ','])
            && !matches!(text, "-H" | "-L" | "-P" | "-" | "--");
        match (is_option, is_expression) {
            (true, _) => {}
            (false, true) => reading.mentioned.push(word.clone()),
            (false, false) => reading.paths.push(word.clone()),
        }
    }
    Effect::Reads(reading)
}

fn is_reading_date(args: &[ShellWord]) -> bool {
    let mut args = args.iter();
    while let Some(word) = args.next() {
        match word.exact() {
            Some("-u" | "--utc" | "-R" | "-Iseconds" | "-I") => {}
            Some("-d") if args.next().is_some_and(|value| value.fate != Fate::Anything) => {}
            Some(text) if text.starts_with('+') || text.starts_with("--date=") => {}
            _ => return false,
        }
    }
    true
}

fn enters(args: &[ShellWord]) -> Effect {
    match args {
        [folder] if !folder.may_be_flag() && folder.exact().is_some() => {
            Effect::Enters(Some(folder.clone()))
        }
        _ => Effect::Enters(None),
    }
}

/// Returns the effect of a command whose operands are all files that it creates or changes. The
/// effect is known only if all flags of the command are among `flags`.
fn touches(args: &[ShellWord], flags: &str) -> Effect {
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

fn copies(touches: Effect) -> Effect {
    match touches {
        Effect::Touches(mut paths) => match paths.pop() {
            Some(target) if !paths.is_empty() => Effect::Copies { sources: paths, target },
            _ => Effect::Unknown,
        },
        other => other,
    }
}

/// Returns true if a `test` command only reads. The operators `-v` and `-R` take array elements,
/// and evaluating an array index can run commands. An unknown word could be such an operator,
/// unless no operator can be at that position.
fn is_plain_test(args: &[ShellWord]) -> bool {
    const ONE: &str = "-n -z -e -f -d -s -r -w -x -L -h -b -c -g -k -p -t -u -O -G -S -N";
    const TWO: &str = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef";
    let is = |word: &ShellWord, operators: &str| {
        word.exact().is_some_and(|text| operators.split(' ').any(|operator| operator == text))
    };
    let is_known = |word: &ShellWord| word.exact().is_some_and(|text| text != "-v" && text != "-R");
    let args = match args {
        [first, rest @ ..] if first.exact() == Some("!") => rest,
        _ => args,
    };
    args.iter().all(is_known)
        || args.iter().all(|word| word.fate != Fate::Anything)
            && match args {
                [_] => true,
                [operator, _] => is(operator, ONE),
                [_, operator, _] => is(operator, TWO),
                _ => false,
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
            assert_eq!(
                matches!(check(command), Effect::Reads(Reading { unproven: false, .. })),
                expected,
                "{command}"
            );
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
            assert!(!matches!(check(command), Effect::Reads(_)), "{command}");
        }
    }

    #[test]
    fn the_words_that_name_files_are_told() {
        let paths = |command: &str| match check(command) {
            Effect::Reads(Reading { mut paths, .. }) => {
                paths.sort_by_key(|word| command.find(&word.raw));
                paths.into_iter().map(|word| word.raw).collect::<Vec<_>>()
            }
            other => panic!("{command}: {other:?}"),
        };
        assert_eq!(paths("cat -n a b"), ["a", "b"]);
        assert_eq!(paths("grep -n /api src"), ["src"]);
        assert_eq!(paths("grep -nf words src"), ["words", "src"]);
        assert_eq!(paths("find a b -name c"), ["a", "b"]);
        assert_eq!(check("cat $x"), Effect::Unknown);
        assert_eq!(
            check("mkdir -p a/b c"),
            Effect::Touches(vec!["a/b".to_owned(), "c".to_owned()])
        );
        assert_eq!(check("cp -t /x a"), Effect::Unknown);
    }
}
