//! Checks whether a part of a command that cannot be read may be what a deny or ask rule matches.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::overlap::{Piece, letters};
use super::super::paths::Target;
use super::super::rules::{Access, Rule};
use super::super::shell::{
    Assigned, Effect, Reach, Redirect, Scope, ShellWord, effect, filled, git_verb, is_known_name,
};
use super::super::steps::{Step, each};
use super::{Case, base_name};

/// Maximum number of files that are looked at to find a denied one below a folder.
const FILE_LIMIT: usize = 20_000;

/// Programs of which the effect is known, and which show no contents of the files they are given.
const NAMING: [&str; 24] = [
    ":", "[", "basename", "cd", "command", "df", "dirname", "du", "echo", "exit", "false", "find",
    "git", "ls", "mkdir", "printf", "pwd", "realpath", "readlink", "sleep", "stat", "test",
    "touch", "true",
];

/// Builtins that set variables by their arguments.
const SETTING: [&str; 12] = [
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
];

impl Case<'_> {
    /// Makes the scope forget the variables that the script also sets by other ways than plain
    /// assignments.
    pub(super) fn forget_computed(&self, scope: &mut Scope) {
        each(&self.steps, &mut |step| {
            let is_split = |it: &Assigned| it.name == "IFS" && step.part.words.is_empty();
            if step.part.assigned.iter().any(is_split) {
                scope.forget_all();
            }
            let Some((name, args)) = step.innermost().split_first() else { return };
            if !SETTING.contains(&base_name(name)) {
                return;
            }
            let is_reference = |word: &ShellWord| {
                let letters = word.text.strip_prefix('-');
                word.exact().is_none() && word.text.is_empty()
                    || letters.is_some_and(|letters| letters.contains('n'))
                    || word.text.starts_with("IFS")
            };
            let is_declaring = !matches!(base_name(name), "printf" | "read" | "unset" | "export");
            if args
                .iter()
                .any(|word| is_declaring && is_reference(word) || word.text.starts_with("IFS="))
            {
                scope.forget_all();
            }
            for word in args {
                let joined = word.text.strip_prefix("-v").unwrap_or(&word.text);
                let end = joined.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let set = joined.get(..end.unwrap_or(joined.len())).unwrap_or_default();
                if scope.sets(set) {
                    scope.forget(set);
                }
            }
        });
        // `${name:=text}` and `${name=text}` set the variable.
        for (at, _) in self.command.match_indices("${") {
            let inside = self.command.get(at + 2..).unwrap_or_default();
            let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = inside.split_at(end.unwrap_or(inside.len()));
            if scope.sets(name) && (rest.starts_with('=') || rest.starts_with(":=")) {
                scope.forget(name);
            }
        }
    }

    /// Returns true if the rule is about commands, and a part of this command that cannot be read
    /// may be what the rule matches.
    pub(super) fn may_hide(&self, rule: &Rule) -> bool {
        if !rule.is_about_commands() {
            return false;
        }
        let mut may = self.is_partial;
        each(&self.steps, &mut |step| may = may || self.step_may_hide(step, rule));
        may
    }

    fn step_may_hide(&self, step: &Step, rule: &Rule) -> bool {
        if step.is_unread || step.part.assigned.iter().any(|it| feeds_programs(&it.name)) {
            return true;
        }
        let wrappers = step.forms.split_last().map_or(&[][..], |(_, wrappers)| wrappers);
        let mut forms = wrappers.iter().chain(&step.expanded).filter(|form| !form.is_empty());
        forms.any(|form| self.form_may_hide(form, step.hidden, rule))
    }

    fn form_may_hide(&self, form: &[ShellWord], is_hidden: bool, rule: &Rule) -> bool {
        if form.first().is_some_and(|name| self.program_name(name).is_none()) {
            return true;
        }
        if !is_hidden {
            return self.may_be_met(form, rule);
        }
        // A name in a folder that is not known hides the command from the reader of wrappers, but
        // is no wrapper.
        let is_wrapper = form.first().is_some_and(|name| name.exact().is_some());
        if is_wrapper && self.runs_unknown_word(form) {
            return true;
        }
        let is_xargs = form.first().is_some_and(|name| base_name(name) == "xargs");
        let words = if is_xargs { filled(form) } else { form.to_vec() };
        (0..words.len())
            .filter_map(|from| words.get(from..))
            .any(|words| self.may_be_met(words, rule))
    }

    /// Returns true if a wrapper with flags that are not known may run a word that is not known.
    fn runs_unknown_word(&self, form: &[ShellWord]) -> bool {
        let is_find = form.first().is_some_and(|name| matches!(base_name(name), "find" | "fd"));
        if is_find {
            let runs = |word: &ShellWord| {
                ["-exec", "-ok", "-x", "-X"].iter().any(|flag| word.text.starts_with(flag))
            };
            let mut pairs = form.iter().zip(form.iter().skip(1));
            return pairs.any(|(before, word)| runs(before) && self.program_name(word).is_none());
        }
        let mut follows_flag = false;
        for word in form.iter().skip(1) {
            if self.program_name(word).is_none() {
                return true;
            }
            let is_flag = word.text.starts_with('-');
            if !is_flag && !follows_flag && !word.text.contains('=') {
                return false;
            }
            follows_flag = is_flag;
        }
        false
    }

    fn program_name(&self, word: &ShellWord) -> Option<String> {
        word.program_name(|name| self.scope.sets(name))
    }

    /// Returns true if the rule matches a command to which these words may expand.
    fn may_be_met(&self, words: &[ShellWord], rule: &Rule) -> bool {
        let Some((first, args)) = words.split_first() else { return false };
        let Some(name) = self.program_name(first) else { return false };
        // The options before a git command do not change which command it is.
        let git = git_verb(args).filter(|_| name == "git");
        let git = git.map(|(verb, args)| std::iter::once(verb).chain(args).collect::<Vec<_>>());
        if words.iter().all(|word| word.exact().is_some()) {
            return false;
        }
        // The whole name is one word, so its gaps hold no space.
        let is_gap = |piece: &Piece| matches!(piece, Piece::Anything);
        let written: Vec<Piece> = first
            .pieces()
            .into_iter()
            .map(|piece| if is_gap(&piece) { Piece::WithinWord } else { piece })
            .collect();
        let bare: Vec<Piece> = letters(&name).collect();
        let args: Vec<&ShellWord> = args.iter().collect();
        [&args].into_iter().chain(&git).any(|args| {
            [bare.clone(), written.clone()].into_iter().any(|name| {
                [false, true].into_iter().any(|vanishes| {
                    let mut text = name.clone();
                    for word in args.iter().filter(|word| !(vanishes && word.may_vanish())) {
                        text.push(Piece::Letter(' '));
                        text.extend(word.pieces());
                    }
                    rule.may_match_command(&text)
                })
            })
        })
    }

    /// Returns true if the rule forbids to read files, and the command may read such a file without
    /// naming it.
    pub(super) fn may_read_unseen(&self, rule: &Rule) -> bool {
        if !rule.is_about(Access::Read) {
            return false;
        }
        let mut may = false;
        each(&self.steps, &mut |step| {
            let mut redirects = step.part.redirects.iter().filter_map(|redirect| match redirect {
                Redirect::Read(word) => Some(word),
                Redirect::Write(_) => None,
            });
            may = may
                || redirects
                    .any(|word| self.becomes(word).iter().any(|word| self.may_name(rule, word)))
                || step.expanded.iter().any(|words| self.words_may_read(rule, words));
        });
        may
    }

    fn words_may_read(&self, rule: &Rule, words: &[ShellWord]) -> bool {
        let Some((name, args)) = words.split_first() else { return false };
        let name = base_name(name);
        if NAMING.contains(&name) || !is_known_name(name) {
            return false;
        }
        match effect(words) {
            Effect::Reads(reading) => {
                let here = ShellWord::literal(".");
                let is_deep = reading.reach == Reach::Tree;
                let implied = (is_deep && reading.paths.is_empty()).then_some(&here);
                let mut paths = reading.paths.iter().chain(implied);
                paths
                    .any(|word| self.may_name(rule, word) || is_deep && self.lies_below(rule, word))
            }
            _ => {
                let takes_pattern = matches!(name, "awk" | "grep" | "jq" | "rg" | "sed");
                let is_flag = |word: &&ShellWord| word.text.starts_with('-');
                let skipped = usize::from(takes_pattern);
                let is_recursive = |word: &ShellWord| {
                    word.text == "--recursive"
                        || !word.text.starts_with("--") && word.text.contains(['r', 'R'])
                };
                let is_deep =
                    name == "rg" || name == "grep" && args.iter().filter(is_flag).any(is_recursive);
                let here = ShellWord::literal(".");
                let operands = || args.iter().filter(|word| !is_flag(word)).skip(skipped);
                let implied = (is_deep && operands().next().is_none()).then_some(&here);
                operands()
                    .chain(implied)
                    .any(|word| self.may_name(rule, word) || is_deep && self.lies_below(rule, word))
            }
        }
    }

    /// Returns true if the word is not fully known and may name a file that the rule matches.
    fn may_name(&self, rule: &Rule, word: &ShellWord) -> bool {
        if word.exact().is_some() || word.text.starts_with('-') {
            return false;
        }
        match word.text.rsplit_once('/') {
            None => true,
            Some((folder, _)) => self.folders.iter().any(|from| {
                let folder = if folder.is_empty() { "/" } else { folder };
                let target = self.gate.target(from, folder);
                rule.may_lie_below(Access::Read, self.call.cwd, &target)
            }),
        }
    }

    /// Returns true if a file that the rule matches lies below the folder.
    fn lies_below(&self, rule: &Rule, folder: &ShellWord) -> bool {
        let Some(folder) = folder.exact() else { return true };
        let cwd = self.call.cwd;
        self.folders.iter().any(|from| {
            let target = self.gate.target(from, folder);
            rule.may_lie_below(Access::Read, cwd, &target)
                && target.resolved.is_some_and(|folder| holds_denied(rule, cwd, &folder))
        })
    }
}

/// Returns true if the rule matches a file below the folder, or if there are too many files to look
/// at.
fn holds_denied(rule: &Rule, cwd: &Path, folder: &Path) -> bool {
    let mut left = FILE_LIMIT;
    let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let target = Target { written: path.clone(), resolved: Some(path.clone()) };
            if left == 0 || rule.touches(Access::Read, cwd, &target) {
                return true;
            }
            left -= 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    false
}

/// Returns true if setting this environment variable makes git or bash run something.
fn feeds_programs(name: &str) -> bool {
    matches!(name, "BASH_ENV" | "GIT_CONFIG_COUNT" | "GIT_CONFIG_PARAMETERS")
        || name.starts_with("GIT_CONFIG_KEY_")
        || name.starts_with("GIT_CONFIG_VALUE_")
}
