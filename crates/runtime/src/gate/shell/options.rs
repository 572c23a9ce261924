//! The programs that only read, each with the options it may be given: one table.
//!
//! An option that is not in the table may take a path, write a file or run something: then nothing is known of the command.
//! Short options are listed as for `getopt`: `n` stands alone, `n:` takes a value, `n@` a path, `n?` a value only if it is
//! joined, and `#` is any digit. Long ones end in `=`, `@` or `?` for the same. Left out are those that write
//! (`sort -o`), that run programs (`rg --pre`), that name files in which further names are (`wc --files0-from`), and
//! that follow links out of a tree (`grep -R`).

use super::word::{Fate, Word};

/// A program, or one command of git.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    short: &'static str,
    long: &'static str,
    pub(super) operands: Operands,
}

/// What the words are that are no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files to read.
    Files,
    /// One file to read; a second would be written.
    OneFile,
    /// Files to read, and of a folder the files in it, links and all.
    FilesOrFolders,
    /// A pattern, and then files to read.
    PatternAndFiles,
    /// The same, with what is below a folder.
    PatternAndTrees,
    /// A program in a language that could do more than read, and then files to read.
    Code(Language),
}

/// A language whose programs are looked at in `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Awk,
    Jq,
    Sed,
}

/// The arguments of a program, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// The options with what they were given.
    pub(super) options: Vec<(String, Option<Word>)>,
    pub(super) operands: Vec<Word>,
    /// How many operands are before `--`, if that is there.
    pub(super) before_dashes: Option<usize>,
    /// Values of options that name files.
    pub(super) paths: Vec<Word>,
}

impl Arguments {
    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    pub(super) fn values<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'a Word> {
        self.options.iter().filter(move |(name, _)| name == option).filter_map(|(_, value)| value.as_ref())
    }
}

const fn program(name: &'static str, short: &'static str, long: &'static str, operands: Operands) -> Program {
    Program { name, short, long, operands }
}

use Operands::{Code, Files, FilesOrFolders, OneFile, PatternAndFiles, PatternAndTrees};

const GREP_SHORT: &str = "EFGPivwxcloLqsbHhnTzUZyrIa#e:A:B:C:m:d:D:f@";
const GREP_LONG: &str = "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match \
    word-regexp line-regexp count color? colour? files-with-matches files-without-match only-matching quiet silent \
    no-messages byte-offset with-filename no-filename line-number initial-tab null null-data text recursive regexp= \
    after-context= before-context= context= max-count= include= exclude= exclude-dir= label= binary-files= directories= \
    line-buffered version help file@";
const DIGEST: &str = "binary text tag zero";

/// Sorted by what they are for.
const PROGRAMS: &[Program] = &[
    program(
        "cat",
        "AbeEnstTuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        Files,
    ),
    program("head", "#qvzn:c:", "lines= bytes= quiet silent verbose zero-terminated", Files),
    program(
        "tail",
        "#qvzfFrn:c:s:",
        "lines= bytes= quiet silent verbose zero-terminated follow? pid= retry sleep-interval=",
        Files,
    ),
    program("tac", "brs:", "before regex separator=", Files),
    program(
        "nl",
        "pb:d:f:h:i:l:n:s:v:w:",
        "body-numbering= number-format= number-width= number-separator= line-increment= starting-line-number=",
        Files,
    ),
    program("rev", "", "", Files),
    program("wc", "clmwL", "bytes chars lines words max-line-length total=", Files),
    program(
        "cut",
        "szb:c:d:f:n",
        "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= zero-terminated",
        Files,
    ),
    program("paste", "szd:", "serial delimiters= zero-terminated", Files),
    program("comm", "#iz", "check-order nocheck-order output-delimiter= total zero-terminated", Files),
    program("join", "izea:e:j:o:t:v:1:2:", "ignore-case header check-order nocheck-order", Files),
    program("fold", "bsw:", "bytes spaces width=", Files),
    program("expand", "it:", "initial tabs=", Files),
    program("unexpand", "at:", "all first-only tabs=", Files),
    program(
        "column",
        "txneJs:o:c:N:R:H:W:O:",
        "table separator= output-separator= output-width= table-columns= table-right= table-hide= json",
        Files,
    ),
    program(
        "od",
        "abcdfiloxvA:j:N:t:w?S:",
        "address-radix= skip-bytes= read-bytes= format= output-duplicates width?",
        Files,
    ),
    program("hexdump", "bcCdovxn:s:e:", "canonical length= skip= no-squeezing", Files),
    program("base64", "diw:", "decode ignore-garbage wrap=", Files),
    program("cmp", "bblsi:n:", "print-bytes verbose quiet silent bytes= ignore-initial=", Files),
    program("md5sum", "btz", DIGEST, Files),
    program("sha1sum", "btz", DIGEST, Files),
    program("sha256sum", "btz", DIGEST, Files),
    program("sha512sum", "btz", DIGEST, Files),
    program("cksum", "", "", Files),
    program(
        "ls",
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ#1I:w:T:",
        "all almost-all author escape block-size= ignore-backups color? colour? directory \
        classify? file-type format= full-time group-directories-first no-group human-readable si hide= hyperlink? \
        indicator-style= inode ignore= kibibytes numeric-uid-gid literal quote-name quoting-style= reverse recursive size sort= time= \
        time-style= tabsize= width= context zero version help",
        Files,
    ),
    program("stat", "Lftc:", "dereference file-system format= printf= terse cached=", Files),
    program(
        "du",
        "aAbchklmPsSxd:B:t:",
        "all apparent-size block-size= bytes total human-readable si max-depth= summarize separate-dirs \
        one-file-system threshold= time? time-style= exclude= count-links",
        Files,
    ),
    program(
        "df",
        "ahHiklPTB:t:x:",
        "all block-size= human-readable inodes local portability print-type total type= exclude-type= output? si",
        Files,
    ),
    program(
        "realpath",
        "eEmLPqsz",
        "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks relative-to@ relative-base@ zero",
        Files,
    ),
    program(
        "readlink",
        "femnqsvz",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
        Files,
    ),
    program(
        "file",
        "bEhiLklnNprsSv0",
        "brief mime mime-type mime-encoding extension dereference no-dereference keep-going no-pad print0 raw",
        Files,
    ),
    program(
        "tree",
        "adfipsugDhCnAJXSqNQFrtvULcI:P:L:",
        "dirsfirst noreport prune du si gitignore charset= filelimit= sort? inodes matchdirs ignore-case help version",
        Files,
    ),
    program(
        "sort",
        "bcCdfghiMmnRrsuVzk:t:S:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort \
        ignore-nonprinting month-sort numeric-sort random-sort reverse sort= version-sort check? key= merge stable buffer-size= \
        field-separator= parallel= unique zero-terminated debug",
        Files,
    ),
    program(
        "uniq",
        "#cdDiuzf:s:w:",
        "count repeated all-repeated? skip-fields= group? ignore-case skip-chars= unique zero-terminated check-chars=",
        OneFile,
    ),
    program(
        "diff",
        "#abBcdeEiNpqstTuwyU:C:W:I:",
        "brief unified? context? side-by-side report-identical-files ignore-case ignore-all-space \
        ignore-space-change ignore-blank-lines ignore-tab-expansion ignore-trailing-space ignore-matching-lines= color? label= text \
        new-file minimal normal expand-tabs initial-tab suppress-common-lines width= strip-trailing-cr show-c-function \
        show-function-line= left-column tabsize= speed-large-files",
        FilesOrFolders,
    ),
    program("grep", GREP_SHORT, GREP_LONG, PatternAndFiles),
    program("egrep", GREP_SHORT, GREP_LONG, PatternAndFiles),
    program("fgrep", GREP_SHORT, GREP_LONG, PatternAndFiles),
    program(
        "rg",
        "#vwxclLioqsSFHhInNpPUuaE:0e:f@g:t:T:A:B:C:m:M:d:r:j:",
        "files-with-matches files-without-match count count-matches color= colors= \
        column no-column line-number no-line-number heading no-heading with-filename no-filename ignore-case smart-case \
        case-sensitive fixed-strings word-regexp line-regexp invert-match only-matching multiline multiline-dotall pcre2 \
        glob= iglob= type= type-not= type-list hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent text files max-count= \
        max-depth= max-columns= max-filesize= after-context= before-context= context= context-separator= regexp= replace= sort= \
        sortr= stats trim vimgrep json null quiet passthru no-messages no-config encoding= threads= pretty unrestricted \
        binary one-file-system file@ version help no-follow crlf",
        PatternAndTrees,
    ),
    program(
        "jq",
        "ncCMrjasSeRh",
        "null-input compact-output color-output monochrome-output raw-output raw-output0 join-output ascii-output \
        slurp sort-keys exit-status raw-input tab indent= seq stream unbuffered",
        Code(Language::Jq),
    ),
    program(
        "sed",
        "nErsuze:",
        "quiet silent regexp-extended separate unbuffered null-data expression= posix sandbox debug",
        Code(Language::Sed),
    ),
    program("awk", "F:v:", "field-separator= assign= posix sandbox csv", Code(Language::Awk)),
];

/// The program of this name, if it is in the table.
pub(super) fn known(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

impl Program {
    /// A git command, by its options.
    pub(super) const fn of_git(name: &'static str, short: &'static str, long: &'static str) -> Self {
        Self { name, short, long, operands: Files }
    }

    /// Takes the arguments apart. None when there is an option that is not in the table, or may be.
    pub(super) fn arguments(&self, args: &[Word]) -> Option<Arguments> {
        let mut found = Arguments::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            match word.exact() {
                None if word.may_be_flag() => return None,
                Some("--") => {
                    found.before_dashes = Some(found.operands.len());
                    found.operands.extend(rest.cloned());
                    return Some(found);
                }
                Some(text) if text.starts_with("--") => self.long_option(text, &mut rest, &mut found)?,
                Some(text) if text.starts_with('-') && text.len() > 1 => {
                    self.short_options(text, &mut rest, &mut found)?;
                }
                Some(_) | None => found.operands.push(word.clone()),
            }
        }
        Some(found)
    }

    fn long_option<'a>(
        &self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a Word>,
        found: &mut Arguments,
    ) -> Option<()> {
        let (name, joined) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let kind = self.long.split_whitespace().find_map(|option| {
            let bare = option.trim_end_matches(['=', '@', '?']);
            (name.strip_prefix("--") == Some(bare)).then(|| option.chars().last().unwrap_or_default())
        })?;
        let joined = joined.map(Word::literal);
        found.take(name.to_owned(), kind, joined, rest)
    }

    fn short_options<'a>(
        &self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a Word>,
        found: &mut Arguments,
    ) -> Option<()> {
        let mut letters = text.trim_start_matches('-').chars();
        while let Some(letter) = letters.next() {
            let listed = if letter.is_ascii_digit() && !self.short.contains(letter) { '#' } else { letter };
            let at = self.short.find(listed).filter(|_| !matches!(letter, ':' | '@' | '?' | '#'))?;
            let kind =
                self.short.get(at + listed.len_utf8()..).and_then(|after| after.chars().next()).unwrap_or_default();
            let kind = if matches!(kind, ':' | '@' | '?') { kind } else { '-' };
            let joined = letters.as_str();
            let takes = kind != '-';
            let joined = (takes && !joined.is_empty()).then(|| Word::literal(joined));
            found.take(format!("-{letter}"), kind, joined, rest)?;
            if takes {
                return Some(());
            }
        }
        Some(())
    }
}

impl Arguments {
    /// Notes an option with its value, which is joined to it or the next word.
    fn take<'a>(
        &mut self,
        name: String,
        kind: char,
        joined: Option<Word>,
        rest: &mut impl Iterator<Item = &'a Word>,
    ) -> Option<()> {
        let value = match kind {
            ':' | '=' | '@' if joined.is_none() => {
                let next = rest.next()?.clone();
                if next.fate == Fate::Anything {
                    return None;
                }
                // Systems that stop at the first operand read both as operands.
                if !self.operands.is_empty() {
                    self.paths.push(next.clone());
                }
                Some(next)
            }
            ':' | '=' | '@' | '?' => joined,
            _ if joined.is_some() => return None,
            _ => None,
        };
        if kind == '@' {
            self.paths.extend(value.clone());
        }
        self.options.push((name, value));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    fn taken(command: &str) -> String {
        let script = Script::parse(command);
        let (name, args) = script.parts.last().unwrap().words.split_first().unwrap();
        let Some(found) = known(&name.text).unwrap().arguments(args) else {
            return "unknown".to_owned();
        };
        let list = |words: &[Word]| words.iter().map(|word| word.raw.clone()).collect::<Vec<_>>().join(" ");
        format!("{} | {}", list(&found.operands), list(&found.paths))
    }

    #[test]
    fn options_are_told_from_operands_and_paths() {
        for (command, expected) in [
            ("head -n 5 a", "a | "),
            ("head -n5 a b", "a b | "),
            ("head -20 a", "a | "),
            ("head a -n 5", "a | 5"),
            ("head --lines=5 a", "a | "),
            ("head --lines 5 a", "a | "),
            ("head --lin=5 a", "unknown"),
            ("head -n", "unknown"),
            ("head -x a", "unknown"),
            ("head -- -x a", "-x a | "),
            ("cat -", "- | "),
            ("cat --number=3 a", "unknown"),
            ("grep -rnf words src", "src | words"),
            ("grep -fwords src", "src | words"),
            ("grep --file=words src", "src | words"),
            ("grep -rn foo src", "foo src | "),
            ("sort -o x y", "unknown"),
            ("ls $x", "unknown"),
            ("ls a$x", "unknown"),
            ("ls \"a$x\"", "\"a$x\" | "),
            ("cut -d: -f1 a", "a | "),
            ("cut -: a", "unknown"),
        ] {
            assert_eq!(taken(command), expected, "{command}");
        }
    }

    #[test]
    fn every_option_is_listed_once() {
        for program in PROGRAMS {
            let mut long: Vec<_> = program.long.split_whitespace().collect();
            let count = long.len();
            long.sort_unstable();
            long.dedup();
            assert_eq!(long.len(), count, "{}", program.name);
            assert_eq!(PROGRAMS.iter().filter(|other| other.name == program.name).count(), 1, "{}", program.name);
            assert!(!long.contains(&"output="), "{}", program.name);
        }
    }
}
