//! Checks whether a deny or ask rule matches a part of a command.

use std::path::PathBuf;

use pitcrew_protocol::tool_name;

use super::super::rules::{Access, Rule, squeeze};
use super::super::shell::{Effect, Reach, Redirect, ShellWord, effect, git_verb, history};
use super::super::steps::{Step, each};
use super::{Case, base_name, plain_text};

impl Case<'_> {
    /// Returns true if git may show earlier contents of a file that the rule forbids to read.
    pub(super) fn may_show_history_of(&self, rule: &Rule) -> bool {
        let mut shows = false;
        each(&self.steps, &mut |step| {
            for form in step.forms.iter().chain(&step.expanded) {
                let git = form.first().filter(|name| base_name(name) == "git");
                let history = git.and_then(|_| history(form.get(1..).unwrap_or_default()));
                shows |= history.is_some_and(|history| self.place().may_show(rule, &history));
            }
        });
        shows
    }

    /// Returns true if a deny or ask rule matches any part of the command.
    pub(super) fn is_met_by(&self, rule: &Rule) -> bool {
        if rule.names_tool(tool_name::BASH) || rule.matches_command(&squeeze(self.command)) {
            return true;
        }
        let mut met = false;
        each(&self.steps, &mut |step| met |= self.step_is_met_by(step, rule));
        met || !self.doubts.is_empty() && self.text_is_met_by(rule)
    }

    fn step_is_met_by(&self, step: &Step, rule: &Rule) -> bool {
        if rule.is_about_commands() {
            let tails = |form: &Vec<ShellWord>| {
                let depth = if step.hidden { form.len() } else { 1 };
                (0..depth)
                    .any(|from| matches_any_spelling(rule, form.get(from..).unwrap_or_default()))
            };
            return step.forms.iter().chain(&step.expanded).any(tails);
        }
        let redirected = step.part.redirects.iter().any(|redirect| match redirect {
            Redirect::Read(word) => {
                self.becomes(word).iter().any(|it| self.word_is_met_by(rule, Access::Read, it))
            }
            Redirect::Write(word) => {
                self.becomes(word).iter().any(|it| self.word_is_met_by(rule, Access::Write, it))
            }
        });
        redirected
            || self.arguments_are_met_by(step.innermost(), rule)
            || step.expanded.iter().any(|words| self.arguments_are_met_by(words, rule))
    }

    fn arguments_are_met_by(&self, words: &[ShellWord], rule: &Rule) -> bool {
        let speaks_only = matches!(
            words.first().and_then(ShellWord::exact),
            Some("echo" | "printf" | "true" | "pwd")
        );
        if speaks_only {
            return false;
        }
        let (paths, reach, writes) = match effect(words) {
            Effect::Reads(reading) => (reading.paths, reading.reach, reading.unproven),
            Effect::Enters(_) => (Vec::new(), Reach::Named, false),
            Effect::Touches(_) | Effect::Copies { .. } | Effect::Unknown => {
                (Vec::new(), Reach::Named, true)
            }
        };
        let args = words.get(1..).unwrap_or_default();
        let is_git = words.first().is_some_and(|name| base_name(name) == "git");
        if is_git
            && rule.is_about(Access::Read)
            && args.iter().any(|word| self.place().names(rule, word))
        {
            return true;
        }
        args.iter().chain(&paths).any(|word| {
            self.word_is_met_by(rule, Access::Read, word)
                || writes && self.word_is_met_by(rule, Access::Write, word)
        }) || reach == Reach::Tree
            && paths.is_empty()
            && self.path_is_met_by(rule, Access::Read, ".")
    }

    fn word_is_met_by(&self, rule: &Rule, access: Access, word: &ShellWord) -> bool {
        let value = word.text.split_once('=').map(|(_, value)| value);
        // A value may follow a short flag without a space (`-ofile`). It may also follow several
        // joined flags (`-abofile`).
        let is_short = word.text.starts_with('-') && !word.text.starts_with("--");
        let joined = word
            .text
            .char_indices()
            .skip(2)
            .filter(|_| is_short)
            .map(|(at, _)| word.text.get(at..));
        let spellings = [Some(word.text.as_str()), value].into_iter().chain(joined);
        spellings
            .flatten()
            .filter(|path| !path.is_empty())
            .any(|path| self.path_is_met_by(rule, access, path))
    }

    fn path_is_met_by(&self, rule: &Rule, access: Access, path: &str) -> bool {
        if !rule.is_about(access) {
            return false;
        }
        let meets =
            |from: &PathBuf| rule.touches(access, self.call.cwd, &self.gate.target(from, path));
        self.folders.iter().any(meets)
    }

    /// Matches the rule against the raw text of a command that could not be parsed completely. This
    /// function may find a match where there is none, but it never misses one.
    fn text_is_met_by(&self, rule: &Rule) -> bool {
        let segments = self.command.split([';', '|', '&', '\n', '(', ')', '{', '}', '`']);
        let tokens =
            self.command.split(|c: char| c.is_whitespace() || ";|&(){}`<>'\"=$".contains(c));
        let runs = |segment: &str| {
            let words: Vec<&str> = segment.split_whitespace().collect();
            (0..words.len())
                .any(|from| rule.matches_command(&words.get(from..).unwrap_or_default().join(" ")))
        };
        let touches = |token: &str| {
            self.path_is_met_by(rule, Access::Read, token)
                || self.path_is_met_by(rule, Access::Write, token)
        };
        if rule.is_about_commands() {
            return segments.into_iter().any(runs);
        }
        tokens.filter(|token| !token.is_empty()).any(touches)
    }
}

/// Returns true if the rule matches one of the spellings of the command: as written, without its
/// quotes, or without the folder of its program.
fn matches_any_spelling(rule: &Rule, words: &[ShellWord]) -> bool {
    let Some((name, args)) = words.split_first() else { return false };
    let unquoted: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let bare: Vec<&str> = std::iter::once(base_name(name))
        .chain(args.iter().map(|word| word.text.as_str()))
        .collect();
    // The options before a git command do not change which command it is.
    let verb = git_verb(args).filter(|_| base_name(name) == "git").map(|(verb, args)| {
        let rest = std::iter::once(verb).chain(args).map(|word| word.text.as_str());
        std::iter::once("git").chain(rest).collect::<Vec<_>>().join(" ")
    });
    verb.is_some_and(|verb| rule.matches_command(&verb))
        || rule.matches_command(&plain_text(words))
        || rule.matches_command(&unquoted.join(" "))
        || rule.matches_command(&bare.join(" "))
}
