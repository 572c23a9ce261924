//! Calls of Bash: every part of the command must be allowed, and one denied part denies it all.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::guarded::{Whose, refusal};
use super::judge::{Call, Gate, Verdict, denied_by, edit_suggestions, hard_limit};
use super::mode::PermissionMode;
use super::paths::{CONFIG_FOLDER, Target};
use super::rules::{Access, Rule, squeeze};
use super::shell::{
    Effect, Inner, Part, Reach, Redirect, Script, Word, Written, effect, is_own_variable, is_safe_variable, unwrap,
    written,
};
use super::tools::ToolKind;
use crate::sandbox::Profile;

/// How many folders a command may be in at once, for all its `cd`s may or may not have run.
const FOLDER_LIMIT: usize = 16;

/// How often wrappers may be nested before it is no longer looked at.
const WRAP_LIMIT: usize = 8;

/// Files that take everything and keep nothing.
const SINKS: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];

/// What the shell does itself, and what changes nothing and reads nothing.
const BUILTINS: [&str; 5] = [":", "echo", "false", "pwd", "true"];

pub(super) fn judge(gate: &Gate, mode: PermissionMode, call: &Call<'_>) -> Verdict {
    if let Some(verdict) = hard_limit(mode, ToolKind::Shell, call.tool) {
        return verdict;
    }
    let Some(command) = call.input.get("command").and_then(Value::as_str) else {
        return Verdict::deny("Bash names no command");
    };
    let case = Case::read(gate, call, command);
    if let Some((path, whose)) = case.guarded_write() {
        return refusal(&path, whose);
    }
    if mode == PermissionMode::Plan
        && let Some(fault) = case.fault_in_plan_mode()
    {
        return Verdict::deny(format!("in plan mode only commands that surely read are run: {fault}"));
    }
    if let Some(rule) = gate.rules.deny.iter().find(|rule| case.is_met_by(rule)) {
        return denied_by(rule);
    }
    if mode == PermissionMode::BypassPermissions {
        return Verdict::freely();
    }
    if gate.rules.ask.iter().any(|rule| case.is_met_by(rule)) {
        return case.ask();
    }
    let names_all = |rule: &Rule| rule.names_tool("Bash") || rule.is_exactly(&squeeze(command));
    if case.allowing().any(names_all) {
        return Verdict::freely();
    }
    case.unasked(mode).map_or_else(|| case.ask(), |profile| Verdict::Allow { profile })
}

/// A command with everything that was found out about it.
struct Case<'a> {
    gate: &'a Gate,
    call: &'a Call<'a>,
    command: &'a str,
    steps: Vec<Step>,
    doubts: Vec<String>,
    /// The folders its parts may run in.
    folders: Vec<PathBuf>,
    moves: bool,
    /// It says that it changes something that decides what agents may do.
    decides: bool,
}

/// One part of the command, looked through.
struct Step {
    part: Part,
    /// The command as written and with each transparent wrapper taken off.
    forms: Vec<Vec<Word>>,
    /// The command may be any tail of the innermost form.
    hidden: bool,
    /// The script it runs, taken apart.
    script: Option<Vec<Step>>,
}

impl Step {
    fn innermost(&self) -> &[Word] {
        self.forms.last().map_or(&[], Vec::as_slice)
    }
}

impl<'a> Case<'a> {
    fn read(gate: &'a Gate, call: &'a Call<'a>, command: &'a str) -> Self {
        let mut doubts = Vec::new();
        let steps = look_through(Script::parse(command), 0, &mut doubts);
        let folders = vec![call.cwd.to_path_buf()];
        let mut case = Self { gate, call, command, steps, doubts, folders, moves: false, decides: false };
        case.follow_moves();
        case.decides = case.change(|_, target| target.decides().then_some(())).is_some();
        case
    }

    fn follow_moves(&mut self) {
        let mut moves = Vec::new();
        let mut repeated = false;
        each(&self.steps, &mut |step| {
            if let Effect::Enters(folder) = effect(step.innermost()) {
                repeated |= step.part.repeated;
                moves.push(folder.and_then(|word| word.exact().map(str::to_owned)));
            }
        });
        self.moves = !moves.is_empty();
        for folder in moves {
            let Some(folder) = folder.filter(|_| !repeated) else {
                self.doubts.push("it goes to a folder that is not known".to_owned());
                return;
            };
            let further: Vec<PathBuf> =
                self.folders.iter().filter_map(|from| self.gate.target(from, &folder).resolved).collect();
            self.folders.extend(further);
            if self.folders.len() > FOLDER_LIMIT {
                self.doubts.push("it goes to too many folders".to_owned());
                return;
            }
        }
    }

    fn fault_in_plan_mode(&self) -> Option<String> {
        if let Some(doubt) = self.doubts.first() {
            return Some(doubt.clone());
        }
        if self.leaves_sandbox() {
            return Some("it asks to leave the sandbox".to_owned());
        }
        let mut fault = None;
        each(&self.steps, &mut |step| {
            let writes =
                step.part.redirects.iter().any(|redirect| matches!(redirect, Redirect::Write(word) if !is_sink(word)));
            let reads = matches!(effect(step.innermost()), Effect::Reads { .. } | Effect::Enters(_));
            let known = (step.script.is_some() || reads && self.is_git_at_home(step)) && has_safe_variables(step);
            if writes {
                fault.get_or_insert("it writes to a file".to_owned());
            } else if !known {
                let name = step.part.words.first().map_or("an assignment", |word| word.raw.as_str());
                fault.get_or_insert(format!("`{name}` may change something"));
            }
        });
        fault
    }

    /// Something guarded that the command says it changes, and whose it is.
    fn guarded_write(&self) -> Option<(String, Whose)> {
        let guarded = &self.gate.guarded;
        self.change(|change, target| {
            let is_whole = matches!(change, Written::Whole(_)) && change.word().exact().is_some();
            guarded.holds(target).or_else(|| guarded.lies_below(target).filter(|_| is_whole))
        })
    }

    /// What the first change finds that the command says it makes, with the word that says it.
    fn change<T>(&self, find: impl Fn(Written<'_>, &Target) -> Option<T>) -> Option<(String, T)> {
        let mut found = None;
        each(&self.steps, &mut |step| {
            let redirected = step.part.redirects.iter().filter_map(|redirect| match redirect {
                Redirect::Write(word) => Some(Written::Into(word)),
                Redirect::Read(_) => None,
            });
            let tails = step.forms.iter().flat_map(|form| {
                let depth = if step.hidden { form.len() } else { 1 };
                (0..depth).flat_map(|from| written(form.get(from..).unwrap_or_default()))
            });
            let mut changes = redirected.chain(tails);
            let first = || {
                changes.find_map(|it| {
                    let found = self.targets(it.word()).iter().find_map(|target| find(it, target))?;
                    Some((it.word().raw.clone(), found))
                })
            };
            found = found.take().or_else(first);
        });
        found
    }

    /// The files and folders that a word may name.
    fn targets(&self, word: &Word) -> Vec<Target> {
        let Some(known) = self.gate.guarded.known_part(word, self.gate.home.as_deref()) else {
            return Vec::new();
        };
        // `--output=x` and `of=x` name their file after the sign.
        let paths = [Some(known.as_str()), known.split_once('=').map(|(_, path)| path)];
        let paths = paths.into_iter().flatten().filter(|path| !path.is_empty());
        paths.flat_map(|path| self.folders.iter().map(move |from| self.gate.target(from, path))).collect()
    }

    /// The rules that may allow the command. What decides what agents may do, only a rule opens that says so.
    fn allowing(&self) -> impl Iterator<Item = &'a Rule> {
        self.gate.rules.allow.iter().filter(|rule| !self.decides || rule.spells_out(CONFIG_FOLDER))
    }

    /// Git runs what another repository's configuration tells it to.
    fn is_git_at_home(&self, step: &Step) -> bool {
        !self.moves || step.innermost().first().and_then(Word::exact) != Some("git")
    }

    /// Whether a deny or ask rule speaks of any part of the command.
    fn is_met_by(&self, rule: &Rule) -> bool {
        if rule.names_tool("Bash") || rule.matches_command(&squeeze(self.command)) {
            return true;
        }
        let mut met = false;
        each(&self.steps, &mut |step| met |= self.step_is_met_by(step, rule));
        met || !self.doubts.is_empty() && self.text_is_met_by(rule)
    }

    fn step_is_met_by(&self, step: &Step, rule: &Rule) -> bool {
        if rule.is_about_commands() {
            let tails = |form: &Vec<Word>| {
                let depth = if step.hidden { form.len() } else { 1 };
                (0..depth).any(|from| matches_any_spelling(rule, form.get(from..).unwrap_or_default()))
            };
            return step.forms.iter().any(tails);
        }
        let redirected = step.part.redirects.iter().any(|redirect| match redirect {
            Redirect::Read(word) => self.word_is_met_by(rule, Access::Read, word),
            Redirect::Write(word) => self.word_is_met_by(rule, Access::Write, word),
        });
        redirected || self.arguments_are_met_by(step, rule)
    }

    fn arguments_are_met_by(&self, step: &Step, rule: &Rule) -> bool {
        let words = step.innermost();
        let speaks_only = matches!(words.first().and_then(Word::exact), Some("echo" | "printf" | "true" | "pwd"));
        if speaks_only {
            return false;
        }
        let (paths, reach) = match effect(words) {
            Effect::Reads { paths, reach } => (paths, reach),
            Effect::Touches(_) | Effect::Enters(_) | Effect::Unknown => (Vec::new(), Reach::Named),
        };
        let writes = !matches!(effect(words), Effect::Reads { .. } | Effect::Enters(_));
        let args = words.get(1..).unwrap_or_default();
        args.iter().chain(&paths).any(|word| {
            self.word_is_met_by(rule, Access::Read, word) || writes && self.word_is_met_by(rule, Access::Write, word)
        }) || reach == Reach::Tree && paths.is_empty() && self.path_is_met_by(rule, Access::Read, ".")
    }

    fn word_is_met_by(&self, rule: &Rule, access: Access, word: &Word) -> bool {
        let value = word.text.split_once('=').map(|(_, value)| value);
        let joined = word.text.strip_prefix('-').and_then(|rest| rest.get(1..));
        let spellings = [Some(word.text.as_str()), value, joined];
        spellings
            .into_iter()
            .flatten()
            .filter(|path| !path.is_empty())
            .any(|path| self.path_is_met_by(rule, access, path))
    }

    fn path_is_met_by(&self, rule: &Rule, access: Access, path: &str) -> bool {
        if !rule.is_about(access) {
            return false;
        }
        let meets = |from: &PathBuf| rule.touches(access, self.call.cwd, &self.gate.target(from, path));
        self.folders.iter().any(meets)
    }

    /// Judges the letters alone, for a command that was not understood: better too much than too little.
    fn text_is_met_by(&self, rule: &Rule) -> bool {
        let segments = self.command.split([';', '|', '&', '\n', '(', ')', '{', '}', '`']);
        let tokens = self.command.split(|c: char| c.is_whitespace() || ";|&(){}`<>'\"=$".contains(c));
        let runs = |segment: &str| {
            let words: Vec<&str> = segment.split_whitespace().collect();
            (0..words.len()).any(|from| rule.matches_command(&words.get(from..).unwrap_or_default().join(" ")))
        };
        let touches = |token: &str| {
            self.path_is_met_by(rule, Access::Read, token) || self.path_is_met_by(rule, Access::Write, token)
        };
        if rule.is_about_commands() {
            return segments.into_iter().any(runs);
        }
        tokens.filter(|token| !token.is_empty()).any(touches)
    }

    /// The profile in which it may run without anybody being asked, as far as this machine holds it.
    fn unasked(&self, mode: PermissionMode) -> Option<Profile> {
        let needed = self.profile(mode).filter(|_| !self.leaves_sandbox())?;
        let is_held = |profile| self.gate.sandbox.support(profile).is_held();
        match needed {
            Profile::Free => Some(Profile::Free),
            Profile::Read | Profile::Work if mode == PermissionMode::AcceptEdits && is_held(Profile::Work) => {
                Some(Profile::Work)
            }
            Profile::Read if is_held(Profile::Read) => Some(Profile::Read),
            // What runs unheld is what the shell itself does, with the words as they stand.
            Profile::Read if self.is_builtins_alone() => Some(Profile::Free),
            Profile::Read | Profile::Work => None,
        }
    }

    /// Whether it asks to run outside of the sandbox.
    fn leaves_sandbox(&self) -> bool {
        self.call.input.get("dangerouslyDisableSandbox").and_then(Value::as_bool).unwrap_or(false)
    }

    fn is_builtins_alone(&self) -> bool {
        let is_plain = |step: &Step| {
            let names_builtin = step.part.words.first().and_then(Word::exact).is_some_and(|it| BUILTINS.contains(&it));
            let is_exact = step.part.words.iter().all(|word| word.exact().is_some());
            names_builtin && is_exact && step.part.redirects.is_empty() && step.part.assigned.is_empty()
        };
        self.doubts.is_empty() && self.steps.iter().all(is_plain)
    }

    /// What the command needs, where it does nothing that somebody must be asked about.
    fn profile(&self, mode: PermissionMode) -> Option<Profile> {
        if !self.doubts.is_empty() {
            return None;
        }
        most(self.steps.iter().map(|step| self.step_profile(mode, step)))
    }

    fn step_profile(&self, mode: PermissionMode, step: &Step) -> Option<Profile> {
        let redirects = most(step.part.redirects.iter().map(|redirect| match redirect {
            Redirect::Read(word) => self.may_read(word, Reach::Named),
            Redirect::Write(word) if is_sink(word) => Some(Profile::Read),
            Redirect::Write(word) => self.may_write(mode, word.exact()?),
        }))
        .filter(|_| has_safe_variables(step))?;
        let by_rule = |form: &Vec<Word>| self.allowing().any(|rule| rule.matches_command(&plain_text(form)));
        if !step.hidden && step.forms.iter().any(by_rule) || step.hidden && step.forms.first().is_some_and(by_rule) {
            return Some(Profile::Free);
        }
        let itself = match &step.script {
            Some(script) => most(script.iter().map(|step| self.step_profile(mode, step))),
            None => match effect(step.innermost()) {
                Effect::Reads { paths, reach } => {
                    self.may_read_all(&paths, reach).filter(|_| self.is_git_at_home(step))
                }
                Effect::Enters(folder) => self.may_read(&folder?, Reach::Named),
                Effect::Touches(paths) => most(paths.iter().map(|path| self.may_write(mode, path))),
                Effect::Unknown => None,
            },
        };
        Some(redirects.max(itself?))
    }

    fn may_read_all(&self, paths: &[Word], reach: Reach) -> Option<Profile> {
        let here = Word::here();
        let implied = if reach == Reach::Tree && paths.is_empty() { Some(&here) } else { None };
        most(paths.iter().chain(implied).map(|word| self.may_read(word, reach)))
    }

    /// What it takes to read what the word names, in whichever folder the command is by then.
    fn may_read(&self, word: &Word, reach: Reach) -> Option<Profile> {
        let rules = &self.gate.rules;
        let guarded = || rules.deny.iter().chain(&rules.ask).any(|rule| rule.is_about(Access::Read));
        let Some(path) = word.exact() else {
            // What it expands to is only known to be somewhere below its beginning.
            let begins_inside = !word.text.starts_with(['/', '~']) && !word.text.contains("..") && !word.may_be_flag();
            return (begins_inside && !guarded()).then_some(Profile::Read);
        };
        most(self.folders.iter().map(|from| {
            let target = self.gate.target(from, path);
            let cwd = self.call.cwd;
            let fenced =
                || rules.deny.iter().chain(&rules.ask).any(|rule| rule.may_lie_below(Access::Read, cwd, &target));
            let allowed = || self.allowing().any(|rule| rule.covers(Access::Read, cwd, &target));
            if reach == Reach::Tree && fenced() {
                return None;
            }
            let read = self.gate.is_inside(cwd, &target).then_some(Profile::Read);
            read.or_else(|| allowed().then_some(Profile::Free))
        }))
    }

    fn may_write(&self, mode: PermissionMode, path: &str) -> Option<Profile> {
        let cwd = self.call.cwd;
        most(self.folders.iter().map(|from| {
            let target = self.gate.target(from, path);
            let free =
                mode == PermissionMode::AcceptEdits && !target.steers_tools() && self.gate.is_inside(cwd, &target);
            let allowed = || self.allowing().any(|rule| rule.covers(Access::Write, cwd, &target));
            free.then_some(Profile::Work).or_else(|| allowed().then_some(Profile::Free))
        }))
    }

    fn ask(&self) -> Verdict {
        let described = self.call.input.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut folders: Vec<PathBuf> = Vec::new();
        let parent = |path: &str| self.gate.target(self.call.cwd, path).written.parent().map(Path::to_path_buf);
        each(&self.steps, &mut |step| {
            if let Effect::Touches(paths) = effect(step.innermost()) {
                folders.extend(paths.iter().filter_map(|path| parent(path)));
            }
            for redirect in &step.part.redirects {
                if let Redirect::Write(word) = redirect
                    && !is_sink(word)
                {
                    folders.extend(word.exact().and_then(parent));
                }
            }
        });
        folders.sort();
        folders.dedup();
        let described = described.unwrap_or(self.command);
        Verdict::Ask {
            description: match self.leaves_sandbox() {
                true => format!("{described} (outside of the sandbox)"),
                false => described.to_owned(),
            },
            suggestions: if folders.is_empty() || self.decides { Vec::new() } else { edit_suggestions(&folders) },
        }
    }
}

/// The freest of profiles that are all needed; nothing where one cannot be had.
fn most(mut needed: impl Iterator<Item = Option<Profile>>) -> Option<Profile> {
    needed.try_fold(Profile::Read, |most, profile| Some(most.max(profile?)))
}

fn each(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        if let Some(script) = &step.script {
            each(script, visit);
        }
    }
}

fn look_through(script: Script, depth: usize, doubts: &mut Vec<String>) -> Vec<Step> {
    doubts.extend(script.doubts);
    script.parts.into_iter().map(|part| look_through_part(part, depth, doubts)).collect()
}

fn look_through_part(part: Part, depth: usize, doubts: &mut Vec<String>) -> Step {
    let mut step = Step { forms: vec![part.words.clone()], part, hidden: false, script: None };
    for _ in 0..WRAP_LIMIT {
        match unwrap(step.innermost()) {
            Inner::Nothing => return step,
            Inner::Command(words) => step.forms.push(words),
            Inner::Somewhere => {
                step.hidden = true;
                return step;
            }
            Inner::Opaque => {
                step.hidden = true;
                doubts.push("it runs a command that is not written out".to_owned());
                return step;
            }
            Inner::Script(_) if depth >= WRAP_LIMIT => break,
            Inner::Script(text) => {
                step.script = Some(look_through(Script::parse(&text), depth + 1, doubts));
                return step;
            }
        }
    }
    doubts.push("its wrappers are nested too deeply".to_owned());
    step
}

fn has_safe_variables(step: &Step) -> bool {
    let alone = step.part.words.is_empty();
    step.part.assigned.iter().all(|name| is_safe_variable(name) || alone && is_own_variable(name))
}

fn is_sink(word: &Word) -> bool {
    word.exact().is_some_and(|path| SINKS.contains(&path))
}

/// The command's text for an allow rule: as written, word by word.
fn plain_text(words: &[Word]) -> String {
    let raw: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    raw.join(" ")
}

/// Whether the rule speaks of the command as written, without quotes, or without its folder.
fn matches_any_spelling(rule: &Rule, words: &[Word]) -> bool {
    let Some((name, args)) = words.split_first() else {
        return false;
    };
    let unquoted: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let base = name.text.rsplit('/').next().unwrap_or(&name.text);
    let bare: Vec<&str> = std::iter::once(base).chain(args.iter().map(|word| word.text.as_str())).collect();
    rule.matches_command(&plain_text(words))
        || rule.matches_command(&unquoted.join(" "))
        || rule.matches_command(&bare.join(" "))
}
