//! Computes the sandbox profile that a command needs to run without a permission request. The
//! profile follows from the needs of the command's parts.

use std::path::PathBuf;

use pitcrew_protocol::PermissionMode;

use super::super::copies::landings;
use super::super::need::{Need, most};
use super::super::paths::expand_home;
use super::super::rules::Access;
use super::super::shell::{Effect, Reach, Reading, Redirect, ShellWord};
use super::super::steps::Step;
use super::{Case, has_safe_variables, is_sink, plain_text};

/// Files that any command is allowed to read.
const SOURCES: [&str; 5] = ["/dev/null", "/dev/stdin", "/dev/zero", "/dev/urandom", "/dev/fd/63"];

impl Case<'_> {
    /// Returns the sandbox profile that the command needs. Returns `None` if a person must be asked
    /// about any part of the command.
    pub(super) fn need(&self, mode: PermissionMode) -> Option<Need> {
        if !self.doubts.is_empty() {
            return None;
        }
        most(self.steps.iter().map(|step| self.step_need(mode, step)))
    }

    fn step_need(&self, mode: PermissionMode, step: &Step) -> Option<Need> {
        let redirects = most(step.part.redirects.iter().map(|redirect| match redirect {
            Redirect::Read(word) => {
                most(self.becomes(word).iter().map(|word| self.may_read(word, Reach::Named)))
            }
            Redirect::Write(word) if is_sink(word) => Some(Need::READ),
            Redirect::Write(word) => self.may_write(mode, word.exact()?),
        }))
        .filter(|_| has_safe_variables(step))?;
        // In the permission mode `plan`, an allow rule does not apply to a command with unknown
        // options, because such a command may write.
        let heeds_rules = mode != PermissionMode::Plan || !step.is_unproven();
        let by_rule = |form: &Vec<ShellWord>| {
            heeds_rules && self.allowing().any(|rule| rule.matches_command(&plain_text(form)))
        };
        if step.forms.first().is_some_and(by_rule) {
            return Some(Need::FREE);
        }
        if !self.runs_known_programs(step) {
            return None;
        }
        if !step.hidden && step.forms.iter().any(by_rule) {
            return Some(Need::FREE);
        }
        let itself = match &step.script {
            Some(script) => most(script.iter().map(|step| self.step_need(mode, step))),
            None => most(step.effects().map(|effect| self.effect_need(mode, effect))),
        };
        Some(redirects.and(itself?))
    }

    fn effect_need(&self, mode: PermissionMode, effect: Effect) -> Option<Need> {
        match effect {
            Effect::Reads(reading) => self.may_read_all(&reading),
            Effect::Enters(folder) => self.may_read(&folder?, Reach::Named),
            Effect::Touches(paths) => most(paths.iter().map(|path| self.may_write(mode, path))),
            Effect::Copies { sources, target } => {
                most(sources.iter().map(|source| self.may_copy(mode, source, &target)))
            }
            Effect::Unknown => None,
        }
    }

    fn may_read_all(&self, reading: &Reading) -> Option<Need> {
        let Reading { paths, reach, mentioned, unproven } = reading;
        let here = ShellWord::literal(".");
        let implied = if *reach == Reach::Tree && paths.is_empty() { Some(&here) } else { None };
        let exists = |word: &&ShellWord| {
            let is_there = |from: &PathBuf| {
                !word.text.is_empty() && from.join(&word.text).symlink_metadata().is_ok()
            };
            self.folders.iter().any(is_there)
        };
        let named = most(paths.iter().chain(implied).map(|word| self.may_read(word, *reach)))?;
        let mentioned =
            most(mentioned.iter().filter(exists).map(|word| self.may_read(word, Reach::Named)))?;
        Some(named.and(mentioned).and(Need { unproven: *unproven, ..Need::READ }))
    }

    /// Returns the sandbox profile needed to read the named path. The path is checked against every
    /// folder in which the command may be running.
    fn may_read(&self, word: &ShellWord, reach: Reach) -> Option<Need> {
        let rules = &self.gate.rules;
        let path = word.exact()?;
        if SOURCES.contains(&path) {
            return Some(Need::READ);
        }
        let cwd = self.call.cwd;
        most(self.folders.iter().map(|from| {
            let target = self.gate.target(from, path);
            let keeping = || rules.deny.iter().chain(&rules.ask);
            let is_kept = reach == Reach::Tree
                && keeping().any(|rule| rule.may_lie_below(Access::Read, cwd, &target));
            let unproven = reach == Reach::Linked
                && target.resolved.as_ref().is_some_and(|path| path.is_dir());
            let is_allowed = || self.allowing().any(|rule| rule.covers(Access::Read, cwd, &target));
            let read = self.gate.is_inside(cwd, &target).then_some(Need { unproven, ..Need::READ });
            read.or_else(|| is_allowed().then_some(Need { unproven, ..Need::FREE }))
                .filter(|_| !is_kept)
        }))
    }

    fn may_write(&self, mode: PermissionMode, path: &str) -> Option<Need> {
        let cwd = self.call.cwd;
        most(self.folders.iter().map(|from| {
            let target = self.gate.target(from, path);
            let free = mode == PermissionMode::AcceptEdits
                && !target.steers_tools()
                && self.gate.is_inside(cwd, &target);
            let allowed = || self.allowing().any(|rule| rule.covers(Access::Write, cwd, &target));
            free.then_some(Need::WORK).or_else(|| allowed().then_some(Need::FREE))
        }))
    }

    /// Returns the sandbox profile needed to write every file that a copy creates.
    fn may_copy(&self, mode: PermissionMode, source: &str, target: &str) -> Option<Need> {
        let home = self.gate.home.as_deref();
        let named = most([source, target].into_iter().map(|path| self.may_write(mode, path)));
        let landed = most(self.folders.iter().map(|from| {
            let all = landings(
                &from.join(expand_home(source, home)),
                &from.join(expand_home(target, home)),
            )?;
            most(all.iter().map(|path| self.may_write(mode, &path.to_string_lossy())))
        }));
        Some(named?.and(landed?))
    }
}
