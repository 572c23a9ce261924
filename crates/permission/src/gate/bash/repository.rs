//! Finds out what a command would do only because of a repository's files: git runs programs that a
//! repository names, or a program of the project runs in place of the system's.
//!
//! The person who wrote an allow rule meant the command, and not what a repository makes of it.
//! Therefore no allow rule applies to a command that this module finds fault with
//! (`Case::allowing`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::git_programs::Verbs;
use super::super::paths::expand_home;
use super::super::programs::{is_of_the_project, replaces_known};
use super::super::repositories::Surroundings;
use super::super::shell::{Effect, ShellWord, Values, effect, git_verb};
use super::super::steps::{Step, each};
use super::{Case, base_name};

/// Maximum number of folders that a command may name. A command that names more is asked about.
const MOST_FOLDERS: usize = 64;

/// Variables that tell git which repository or configuration to use.
const STEERING: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
];

/// Options of git and of wrappers that are followed by a folder, or that contain it after an equals
/// sign.
const FOLDER_OPTIONS: [&str; 5] = ["-C", "--git-dir", "--work-tree", "--chdir", "--directory"];

/// How a command uses git.
#[derive(Debug, Default)]
struct GitUse {
    verbs: Verbs,
    is_used: bool,
    /// True if the command may do more with git than read.
    writes: bool,
}

impl Case<'_> {
    /// Returns what the command would do only because of a repository's files, in words for a
    /// person. Returns `None` if it does nothing of the kind.
    pub(super) fn effect_of_repository(&self) -> Option<&str> {
        self.of_repository.get_or_init(|| self.find_effect_of_repository()).as_deref()
    }

    fn find_effect_of_repository(&self) -> Option<String> {
        let (gate, cwd) = (self.gate, self.call.cwd);
        let replaces = |name: &&String| replaces_known(gate, cwd, &self.folders, name);
        if let Some(name) = self.program_names().iter().find(replaces) {
            return Some(format!("`{name}` is a program of the project"));
        }
        let git = self.git_use();
        if !git.is_used {
            return None;
        }
        let is_of_project =
            |verb: &&String| is_of_the_project(gate, cwd, &self.folders, &format!("git-{verb}"));
        if let Some(verb) = git.verbs.named.iter().find(is_of_project) {
            return Some(format!("`git-{verb}` is a program of the project"));
        }
        let Some(folders) = self.folders_for_git() else {
            return Some("git may run in a folder that is not known".to_owned());
        };
        let surroundings = Surroundings::of(gate, cwd, &git.verbs, git.writes);
        folders.iter().find_map(|folder| surroundings.names_from(folder))
    }

    /// Returns the names of the programs that the command may run.
    fn program_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        each(&self.steps, &mut |step| {
            names.extend(programs(step).filter_map(ShellWord::exact).map(str::to_owned));
        });
        names
    }

    fn git_use(&self) -> GitUse {
        let mut git = GitUse::default();
        each(&self.steps, &mut |step| {
            if !programs(step).any(|word| is_git(base_name(word))) {
                return;
            }
            git.is_used = true;
            for words in step.forms.last().into_iter().chain(&step.expanded) {
                git.note(words);
            }
            // A known form is noted above. In all others the command of git is not known.
            git.verbs.any |= step.hidden;
            git.writes |= step.hidden;
        });
        let mut tokens = self.command.split(|c: char| !c.is_alphanumeric() && c != '-');
        if !self.doubts.is_empty() && tokens.any(is_git) {
            git.is_used = true;
            git.writes = true;
            git.verbs.any = true;
        }
        git
    }

    /// Returns the folders in which git may look for a repository: those in which the command runs,
    /// and all that it names. Returns `None` if not all of them are known.
    fn folders_for_git(&self) -> Option<BTreeSet<PathBuf>> {
        if self.is_lost {
            return None;
        }
        let mut names = BTreeSet::new();
        let mut is_known = true;
        each(&self.steps, &mut |step| is_known &= note_folders(step, &mut names));
        if !self.doubts.is_empty() {
            let tokens =
                self.command.split(|c: char| c.is_whitespace() || ";|&(){}`<>'\"=$".contains(c));
            names.extend(tokens.map(str::to_owned));
        }
        if !is_known {
            return None;
        }
        let mut folders: BTreeSet<PathBuf> = self.folders.iter().cloned().collect();
        // A named folder may be relative to another named folder, as in `git -C a -C b`.
        for _ in 0..2 {
            let home = self.gate.home.as_deref();
            let named = |from: &PathBuf| {
                let paths = names.iter().map(|name| from.join(expand_home(name, home)));
                paths.filter(|path| path.is_dir()).collect::<Vec<_>>()
            };
            let further: Vec<PathBuf> = folders.iter().flat_map(named).collect();
            folders.extend(further);
            if folders.len() > MOST_FOLDERS {
                return None;
            }
        }
        Some(folders)
    }
}

impl GitUse {
    fn note(&mut self, words: &[ShellWord]) {
        let Some((name, args)) = words.split_first() else { return };
        let (name, verb) = match base_name(name) {
            "git" => (name, git_verb(args)),
            _ => (name, None),
        };
        let Some((verb, args)) = verb else {
            self.verbs.any |= !is_git(base_name(name));
            self.writes = true;
            return;
        };
        match verb.exact() {
            Some(text) => _ = self.verbs.named.insert(text.to_ascii_lowercase()),
            None => self.verbs.any = true,
        }
        let plain: Vec<ShellWord> = std::iter::once(ShellWord::literal("git"))
            .chain(std::iter::once(verb.clone()))
            .chain(args.iter().cloned())
            .collect();
        self.writes |= !matches!(effect(&plain), Effect::Reads(_));
    }
}

/// Returns the words of a step that may name a program.
fn programs(step: &Step) -> impl Iterator<Item = &ShellWord> {
    step.forms.iter().chain(&step.expanded).flat_map(|form| {
        let count = if step.hidden { form.len() } else { 1 };
        form.iter().take(count)
    })
}

/// Returns true if this is the name of git or of one of its own programs.
fn is_git(name: &str) -> bool {
    name == "git" || name.starts_with("git-")
}

/// Adds the words of a step that may name a folder. Returns false if the step tells git its folder
/// by a word that is not known.
fn note_folders(step: &Step, names: &mut BTreeSet<String>) -> bool {
    let mut is_known = true;
    for assigned in &step.part.assigned {
        let steers = STEERING.contains(&assigned.name.as_str());
        match &assigned.values {
            Values::One(word) => match word.exact() {
                Some(text) => _ = names.insert(text.to_owned()),
                None => is_known &= !steers,
            },
            Values::Each(_) | Values::Unknown => is_known &= !steers,
        }
    }
    // The innermost form is left out if its words are expanded.
    let outer = step.forms.len().saturating_sub(usize::from(!step.expanded.is_empty()));
    for form in step.forms.iter().take(outer).chain(&step.expanded) {
        let mut after_option = false;
        for word in form {
            let steers = after_option || begins_steering(&word.text);
            after_option = FOLDER_OPTIONS.contains(&word.text.as_str());
            let Some(text) = word.exact() else {
                is_known &= !steers;
                continue;
            };
            let value = text.split_once('=').map(|(_, value)| value);
            names.extend([Some(text), value].into_iter().flatten().map(str::to_owned));
        }
        let is_pushd = form.first().and_then(ShellWord::exact) == Some("pushd");
        is_known &= !is_pushd || form.iter().all(|word| word.exact().is_some());
    }
    names.retain(|name| !name.is_empty());
    is_known
}

/// Returns true if the word sets a variable or an option that tells git its folder.
fn begins_steering(text: &str) -> bool {
    let name = text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| STEERING.contains(&name) || FOLDER_OPTIONS.contains(&name))
}
