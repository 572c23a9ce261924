//! Judges calls of the Bash tool. A command is allowed only if every part of it is allowed. One
//! denied part denies the whole command.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::Profile;
use pitcrew_protocol::{PermissionMode, ToolKind, tool_name};
use serde_json::Value;

use super::git_programs::named_program;
use super::guarded::{Whose, refusal};
use super::history::Place;
use super::judge::{Call, Gate, Verdict, denied_by, edit_suggestions, hard_limit};
use super::paths::{CONFIG_FOLDER, Target};
use super::programs::{is_of_the_project, may_leave_repository};
use super::rules::{Access, Rule, squeeze};
use super::shell::{
    Effect, Redirect, Scope, Script, ShellWord, Written, effect, is_own_variable, is_safe_variable,
    written,
};
use super::steps::{Step, each, expand, look_through};

mod doubtful;
mod needs;
mod repository;
mod rules;

/// Maximum number of folders in which a command may be running. It is not known whether each `cd`
/// in the command runs, so several folders are possible.
const FOLDER_LIMIT: usize = 16;

/// Files to which any command is allowed to write, because these files store nothing.
const SINKS: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Shell builtins that change nothing and read no files.
const BUILTINS: [&str; 5] = [":", "echo", "false", "pwd", "true"];

pub(super) fn judge(gate: &Gate, mode: PermissionMode, call: &Call<'_>) -> Verdict {
    if let Some(verdict) = hard_limit(mode, ToolKind::Shell, call.tool) {
        return verdict;
    }
    let Some(command) = call.input.get("command").and_then(Value::as_str) else {
        return Verdict::deny("Bash names no command");
    };
    let case = Case::read(gate, call, command);
    // This check comes before all rules, because no rule and no permission mode allows an agent to
    // change protected files.
    if let Some((path, whose)) = case.guarded_write() {
        return refusal(&path, whose);
    }
    if mode == PermissionMode::Plan
        && let Some(fault) = case.fault_in_plan_mode()
    {
        return Verdict::deny(format!(
            "in plan mode only commands that surely read are run: {fault}"
        ));
    }
    if let Some(rule) = gate.rules.deny.iter().find(|rule| case.is_met_by(rule)) {
        return denied_by(rule);
    }
    let shown = gate.rules.deny.iter().find(|rule| case.may_show_history_of(rule));
    let hidden = gate.rules.deny.iter().find(|rule| case.may_hide(rule));
    let read = || gate.rules.deny.iter().find(|rule| case.may_read_unseen(rule));
    // This check comes after the deny rules, because deny rules also apply in bypass mode.
    if mode == PermissionMode::BypassPermissions {
        if let Some(rule) = hidden.or_else(read) {
            return unread(rule);
        }
        return shown.map_or_else(Verdict::freely, |rule| {
            Verdict::deny(format!(
                "git would also show files that are denied by {}: name the files to show",
                rule.cite()
            ))
        });
    }
    let asks =
        |rule: &Rule| case.is_met_by(rule) || case.may_show_history_of(rule) || case.may_hide(rule);
    let is_asked = shown.is_some() || hidden.is_some() || gate.rules.ask.iter().any(asks);
    if mode == PermissionMode::Plan && case.is_unproven() {
        // If pitcrew would ask a person about this command, deny the command instead. An approved
        // command runs without the sandbox, and then nothing would ensure in plan mode that the
        // command only reads.
        return match case.unasked(mode).filter(|_| !is_asked) {
            Some(profile) => Verdict::Allow { profile },
            None => Verdict::deny(
                "in plan mode only commands that surely read are run: an option is not known",
            ),
        };
    }
    if is_asked {
        return case.ask();
    }
    let names_all =
        |rule: &Rule| rule.names_tool(tool_name::BASH) || rule.is_exactly(&squeeze(command));
    if case.allowing().any(names_all) {
        return if read().is_some() { case.ask() } else { Verdict::freely() };
    }
    let unasked =
        case.unasked(mode).or_else(|| case.is_left_to_work(mode).then_some(Profile::Work));
    unasked.map_or_else(|| case.ask(), |profile| Verdict::Allow { profile })
}

/// Returns the real paths of the protected files that a command changes, as far as its text shows
/// it.
pub(super) fn protected_changes(gate: &Gate, call: &Call<'_>, command: &str) -> Vec<PathBuf> {
    let changed = RefCell::new(Vec::new());
    Case::read(gate, call, command).change(|_, target| {
        let resolved = target.resolved.clone().filter(|_| target.steers_tools());
        changed.borrow_mut().extend(resolved);
        None::<()>
    });
    changed.into_inner()
}

/// Returns true if a rule would deny the command or ask about it.
pub(super) fn is_met_by(gate: &Gate, rule: &Rule, call: &Call<'_>) -> bool {
    let Some(command) = call.input.get("command").and_then(Value::as_str) else { return true };
    let case = Case::read(gate, call, command);
    case.is_met_by(rule) || case.may_show_history_of(rule) || case.may_hide(rule)
}

/// Refuses a command of which a part cannot be read.
fn unread(rule: &Rule) -> Verdict {
    Verdict::deny(format!(
        "a part of the command cannot be read, and may be what is denied by {}: write it out",
        rule.cite()
    ))
}

/// A command, with everything that the permission gate has found out about the command.
struct Case<'a> {
    gate: &'a Gate,
    call: &'a Call<'a>,
    command: &'a str,
    steps: Vec<Step>,
    doubts: Vec<String>,
    /// True if a part of the text was not read.
    is_partial: bool,
    /// The folders in which parts of the command may be running.
    folders: Vec<PathBuf>,
    moves: bool,
    /// True if the command goes to a folder that is not known.
    is_lost: bool,
    /// The known values of the script's variables. They are used to expand the words of the script.
    scope: Scope,
    /// True if the text of the command shows that the command changes a file that controls the
    /// permissions of agents.
    decides: bool,
    /// The first setting in the repository's git configuration that names a program. Git would run
    /// this program.
    git_program: OnceCell<Option<String>>,
    /// What the command would do only because of a repository's files.
    of_repository: OnceCell<Option<String>>,
}

impl<'a> Case<'a> {
    fn read(gate: &'a Gate, call: &'a Call<'a>, command: &'a str) -> Self {
        let mut doubts = Vec::new();
        let script = Script::parse(command);
        let is_partial = script.is_partial;
        let steps = look_through(script, 0, &mut doubts);
        let folders = vec![call.cwd.to_path_buf()];
        let scope = Scope::new(&[]);
        let mut case = Self {
            gate,
            call,
            command,
            steps,
            doubts,
            is_partial,
            folders,
            moves: false,
            is_lost: false,
            scope,
            decides: false,
            git_program: OnceCell::new(),
            of_repository: OnceCell::new(),
        };
        // Find the folders in which the command may run before anything else. Relative paths and
        // patterns are resolved in each of these folders.
        case.follow_moves();
        case.expand();
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
            // A relative `cd` in a loop can lead to any depth, so the folder after it is not known.
            let Some(folder) = folder.filter(|_| !repeated) else {
                self.is_lost = true;
                self.doubts.push("it goes to a folder that is not known".to_owned());
                return;
            };
            let further: Vec<PathBuf> = self
                .folders
                .iter()
                .filter_map(|from| self.gate.target(from, &folder).resolved)
                .collect();
            self.folders.extend(further);
            if self.folders.len() > FOLDER_LIMIT {
                self.is_lost = true;
                self.doubts.push("it goes to too many folders".to_owned());
                return;
            }
        }
    }

    /// Replaces variables and patterns in the words of all steps by their possible values.
    fn expand(&mut self) {
        let mut makes_files = false;
        each(&self.steps, &mut |step| {
            let redirects = &step.part.redirects;
            makes_files |= redirects
                .iter()
                .any(|redirect| matches!(redirect, Redirect::Write(word) if !is_sink(word)));
            makes_files |=
                matches!(effect(step.innermost()), Effect::Touches(_) | Effect::Copies { .. });
        });
        // If the command creates files, a pattern could match those files, which do not exist yet.
        // In that case no pattern is expanded.
        let mut scope = Scope::new(if makes_files { &[] } else { &self.folders });
        each(&self.steps, &mut |step| {
            step.part.assigned.iter().for_each(|assigned| scope.assign(assigned))
        });
        self.forget_computed(&mut scope);
        self.scope = scope.clone();
        expand(&mut self.steps, scope);
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
            let writes = step
                .part
                .redirects
                .iter()
                .any(|redirect| matches!(redirect, Redirect::Write(word) if !is_sink(word)));
            let reads =
                step.effects().all(|effect| matches!(effect, Effect::Reads(_) | Effect::Enters(_)));
            let known = (step.script.is_some() || reads)
                && self.runs_known_programs(step)
                && has_safe_variables(step);
            if let Some(key) = self.git_program(step) {
                fault.get_or_insert(format!(
                    "git would run what `{key}` of the repository's configuration names"
                ));
            } else if writes {
                fault.get_or_insert("it writes to a file".to_owned());
            } else if !known {
                let name =
                    step.part.words.first().map_or("an assignment", |word| word.raw.as_str());
                fault.get_or_insert(format!("`{name}` may change something"));
            }
        });
        fault
    }

    /// Returns a protected path that the command changes, as far as the command's text shows it.
    /// Also returns who owns the path.
    fn guarded_write(&self) -> Option<(String, Whose)> {
        let guarded = &self.gate.guarded;
        self.change(|change, target| {
            let is_whole = matches!(change, Written::Whole(_)) && change.word().exact().is_some();
            guarded.holds(target).or_else(|| guarded.lies_below(target).filter(|_| is_whole))
        })
    }

    /// Applies `find` to each file that the command changes, as far as the command's text shows it.
    /// Returns the first result, together with the word of the command that names the file.
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
                    let found =
                        self.targets(it.word()).iter().find_map(|target| find(it, target))?;
                    Some((it.word().raw.clone(), found))
                })
            };
            found = found.take().or_else(first);
        });
        found
    }

    /// Returns the files and folders that a word of the command may name.
    fn targets(&self, word: &ShellWord) -> Vec<Target> {
        let Some(known) = self.gate.guarded.known_part(word, self.gate.home.as_deref()) else {
            return Vec::new();
        };
        // In `--output=x` and `of=x` the file name follows the equals sign.
        let paths = [Some(known.as_str()), known.split_once('=').map(|(_, path)| path)];
        let paths = paths.into_iter().flatten().filter(|path| !path.is_empty());
        paths
            .flat_map(|path| self.folders.iter().map(move |from| self.gate.target(from, path)))
            .collect()
    }

    /// Returns the rules that are able to allow the command. All allow rules are taken from here.
    ///
    /// A command that changes permission files is allowed only by a rule that contains `.claude`.
    /// No rule allows a command that would do something only because of a repository's files: it
    /// is asked about, or it runs in a sandbox as without any rule.
    fn allowing(&self) -> impl Iterator<Item = &'a Rule> {
        let applies = |rule: &&Rule| {
            (!self.decides || rule.spells_out(CONFIG_FOLDER))
                && self.effect_of_repository().is_none()
        };
        self.gate.rules.allow.iter().filter(applies)
    }

    /// Returns the setting in the repository's git configuration that names a program. Returns
    /// `None` if the step does not run git, or if there is no such setting. Git may run that
    /// program whenever it checks which files changed.
    fn git_program(&self, step: &Step) -> Option<&str> {
        let mut names = step.forms.iter().chain(&step.expanded).filter_map(|form| form.first());
        let is_git = names.any(|name| base_name(name) == "git");
        if !is_git {
            return None;
        }
        self.git_program
            .get_or_init(|| named_program(self.call.cwd, self.gate.home.as_deref()))
            .as_deref()
    }

    /// Returns true if the step runs only programs of the system. If the step runs git, git must
    /// also use the working folder's repository, and that repository's configuration must name no
    /// program.
    fn runs_known_programs(&self, step: &Step) -> bool {
        let is_foreign =
            |name: &str| is_of_the_project(self.gate, self.call.cwd, &self.folders, name);
        let names =
            || step.forms.iter().chain(&step.expanded).filter_map(|form| form.first()?.exact());
        let is_git = names().any(|name| name == "git");
        let may_leave = || is_git && may_leave_repository(self.call.cwd, &self.folders, self.moves);
        !(names().any(is_foreign) || may_leave() || self.git_program(step).is_some())
    }

    fn place(&self) -> Place<'_> {
        Place { gate: self.gate, cwd: self.call.cwd, folders: &self.folders }
    }

    /// Returns the words to which the target of a redirect may expand.
    fn becomes(&self, word: &ShellWord) -> Vec<ShellWord> {
        self.scope.forms(std::slice::from_ref(word)).concat()
    }

    /// Returns the sandbox profile in which the command is allowed to run without asking a person.
    /// Returns `None` if a person must be asked, or if this machine cannot enforce the profile.
    fn unasked(&self, mode: PermissionMode) -> Option<Profile> {
        let needed = self.need(mode).filter(|_| !self.leaves_sandbox())?;
        let is_held = |profile| self.gate.sandbox.support_in(profile, self.call.cwd).is_held();
        if needed.unproven {
            // In the sandbox profile *read*, the kernel ensures that the command only reads. But
            // the kernel does not know the ask rules. So if there is an ask rule for `Read`, a
            // person is asked before the command runs.
            let asks = self.gate.rules.ask.iter().any(|rule| rule.is_about(Access::Read));
            let may_run = needed.profile == Profile::Read && !asks && !self.is_left_to_work(mode);
            return (may_run && is_held(Profile::Read)).then_some(Profile::Read);
        }
        match needed.profile {
            Profile::Free => Some(Profile::Free),
            Profile::Read | Profile::Work
                if (mode == PermissionMode::AcceptEdits || self.is_left_to_work(mode))
                    && is_held(Profile::Work) =>
            {
                Some(Profile::Work)
            }
            Profile::Read if is_held(Profile::Read) => Some(Profile::Read),
            // Without a sandbox, only shell builtins with fixed words run without asking a person.
            Profile::Read if self.is_builtins_alone() => Some(Profile::Free),
            Profile::Read | Profile::Work => None,
        }
    }

    /// Returns true if the user has chosen, with `--sandbox`, that commands run in the sandbox
    /// profile *work* without a permission request. The sandbox limits such commands.
    fn is_left_to_work(&self, mode: PermissionMode) -> bool {
        let is_left = match mode {
            PermissionMode::Default | PermissionMode::AcceptEdits | PermissionMode::DontAsk => {
                self.gate.runs_sandboxed
            }
            PermissionMode::Plan | PermissionMode::Delegate | PermissionMode::BypassPermissions => {
                false
            }
        };
        is_left
            && !self.leaves_sandbox()
            && self.gate.sandbox.support_in(Profile::Work, self.call.cwd).is_held()
    }

    /// Returns true if the call requests to run outside the sandbox.
    fn leaves_sandbox(&self) -> bool {
        self.call.input.get("dangerouslyDisableSandbox").and_then(Value::as_bool).unwrap_or(false)
    }

    fn is_builtins_alone(&self) -> bool {
        let is_plain = |step: &Step| {
            let names_builtin = step
                .part
                .words
                .first()
                .and_then(ShellWord::exact)
                .is_some_and(|it| BUILTINS.contains(&it));
            let is_exact = step.part.words.iter().all(|word| word.exact().is_some());
            names_builtin
                && is_exact
                && step.part.redirects.is_empty()
                && step.part.assigned.is_empty()
        };
        self.doubts.is_empty() && self.steps.iter().all(is_plain)
    }

    /// Returns true if a part of the command runs a program that normally only reads files, but
    /// with options that pitcrew does not know.
    fn is_unproven(&self) -> bool {
        let mut is_unproven = false;
        each(&self.steps, &mut |step| is_unproven |= step.is_unproven());
        is_unproven
    }

    fn ask(&self) -> Verdict {
        let folders = self.written_folders();
        // Suggest no rules if no rule would allow the next such command.
        let is_about_repository = self.effect_of_repository().is_some();
        let suggestions = if folders.is_empty() || self.decides || is_about_repository {
            Vec::new()
        } else {
            edit_suggestions(&folders)
        };
        Verdict::Ask { description: self.description(), suggestions, is_about_repository }
    }

    /// Returns the text that a person reads above the question: the agent's description, or else
    /// the command.
    fn description(&self) -> String {
        let given = self.call.input.get("description").and_then(Value::as_str);
        let described = given.filter(|text| !text.is_empty()).unwrap_or(self.command);
        match (self.leaves_sandbox(), self.effect_of_repository()) {
            (true, Some(what)) => format!("{described} (outside of the sandbox; {what})"),
            (true, None) => format!("{described} (outside of the sandbox)"),
            (false, Some(what)) => format!("{described} ({what})"),
            (false, None) => described.to_owned(),
        }
    }

    /// Returns the folders of the files that the command writes, as far as they are known.
    fn written_folders(&self) -> Vec<PathBuf> {
        let mut paths: Vec<String> = Vec::new();
        each(&self.steps, &mut |step| {
            match effect(step.innermost()) {
                Effect::Touches(touched) => paths.extend(touched),
                Effect::Copies { sources, target } => {
                    paths.extend(sources.into_iter().chain([target]));
                }
                Effect::Reads(_) | Effect::Enters(_) | Effect::Unknown => {}
            }
            for redirect in &step.part.redirects {
                if let Redirect::Write(word) = redirect
                    && !is_sink(word)
                {
                    paths.extend(word.exact().map(str::to_owned));
                }
            }
        });
        let parent = |path: &String| {
            self.gate.target(self.call.cwd, path).written.parent().map(Path::to_path_buf)
        };
        let mut folders: Vec<PathBuf> = paths.iter().filter_map(parent).collect();
        folders.sort();
        folders.dedup();
        folders
    }
}

fn has_safe_variables(step: &Step) -> bool {
    // An assignment without a command sets a variable of the script itself, not the environment of
    // one program.
    let alone = step.part.words.is_empty();
    step.part
        .assigned
        .iter()
        .map(|assigned| assigned.name.as_str())
        .all(|name| is_safe_variable(name) || alone && is_own_variable(name))
}

fn is_sink(word: &ShellWord) -> bool {
    word.exact().is_some_and(|path| SINKS.contains(&path))
}

/// Returns a program's name without its folder.
fn base_name(name: &ShellWord) -> &str {
    name.text.rsplit('/').next().unwrap_or(&name.text)
}

/// Returns the command as text that is matched against allow rules. The text has the words as
/// written, separated by spaces.
fn plain_text(words: &[ShellWord]) -> String {
    let raw: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    raw.join(" ")
}
