//! Finds settings in a repository's own git configuration that name programs. Git runs such
//! programs even for a command that only asks which files changed.
//!
//! This module parses the configuration itself and does not call git. Git would use the
//! configuration and could run the programs. It would also block if a configuration file is a FIFO.
//! Conditional includes are always followed. A configuration that cannot be parsed is treated as if
//! it named a program.

use std::collections::BTreeSet;
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use pitcrew_process::given_file::read_git_config;
use pitcrew_process::sandbox::git_folder::GitFolder;

use super::git_index::{self, Entry};
use super::paths::expand_home;
use super::programs::is_program;

/// Maximum size of a configuration file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum depth of configuration files that include each other. Git has the same limit.
const MOST_INCLUDES: usize = 10;

/// Maximum depth of submodules inside submodules that are searched.
const MOST_NESTED: usize = 4;

/// A setting whose name has one of these endings holds a program or a command line.
const PROGRAMS: &[&str] = &[
    "askpass", "cmd", "command", "driver", "editor", "helper", "hook", "pager", "prog", "program",
    "textconv",
];

/// Other settings that name a program or that permit git to run one, by section. Their names have
/// none of the endings in `PROGRAMS`.
const PROGRAMS_OF: &[(&str, &[&str])] = &[
    ("core", &["fsmonitor", "gitproxy", "virtualfilesystem"]),
    ("diff", &["external"]),
    ("filter", &["clean", "smudge", "process"]),
    ("interactive", &["difffilter"]),
    ("imap", &["tunnel"]),
    ("init", &["templatedir"]),
    ("instaweb", &["httpd"]),
    ("lfs", &["clean", "path", "smudge"]),
    ("protocol", &["allow"]),
    ("remote", &["receivepack", "uploadpack", "vcs"]),
    ("browser", &["path"]),
    ("difftool", &["path"]),
    ("man", &["path"]),
    ("mergetool", &["path"]),
    ("sendemail", &["smtpserver"]),
];

/// One setting of a git configuration. Section and name are in lower case.
#[derive(Debug, PartialEq, Eq)]
struct GitSetting {
    section: String,
    subsection: Option<String>,
    name: String,
    /// `None` for a name without a value. Git reads such a setting as true.
    value: Option<String>,
}

/// The files of a repository that count as naming a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search<'a> {
    pub(super) home: Option<&'a Path>,
    pub(super) hooks: Hooks,
    pub(super) verbs: &'a Verbs,
}

/// The hooks of a repository that count as programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooks {
    /// No hook counts, because git does not run hooks.
    None,
    /// Only the hook counts that git runs when it updates the index. Even `git status` does that.
    OfIndex,
    All,
}

/// The git commands that are run. An alias that has the name of one of them counts as a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Verbs {
    pub(super) named: BTreeSet<String>,
    /// True if a git command is run whose name is not known.
    pub(super) any: bool,
}

/// The hook that git runs after it has updated the index.
const INDEX_HOOK: &str = "post-index-change";

/// Maximum number of files in a folder of hooks that are looked at.
const MOST_HOOKS: usize = 1_000;

/// Returns the first setting that names a program. Searches the configuration of the folder's
/// repository and of the submodules in it.
pub(super) fn named_program(folder: &Path, home: Option<&Path>) -> Option<String> {
    let search = Search { home, hooks: Hooks::None, verbs: &Verbs::default() };
    in_repository(folder, search)
}

/// Returns the first file or setting that counts as naming a program. Searches the folder's
/// repository and the submodules in it.
pub(super) fn in_repository(folder: &Path, search: Search<'_>) -> Option<String> {
    in_checkout(folder, search, MOST_NESTED)
}

/// Returns the first file or setting that counts as naming a program, in a folder that is a
/// repository without being called `.git`.
pub(super) fn in_bare_repository(folder: &Path, search: Search<'_>) -> Option<String> {
    if folder.join("commondir").symlink_metadata().is_ok() {
        return Some("commondir".to_owned());
    }
    let files = vec![folder.join("config"), folder.join("config.worktree")];
    in_files(files, folder, search).or_else(|| in_hooks(&folder.join("hooks"), search.hooks))
}

/// Returns the first hook in the folder that counts as a program.
fn in_hooks(folder: &Path, hooks: Hooks) -> Option<String> {
    let found = match hooks {
        Hooks::None => return None,
        Hooks::OfIndex => is_program(&folder.join(INDEX_HOOK)).then(|| INDEX_HOOK.to_owned()),
        Hooks::All => fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(MOST_HOOKS)
            .filter(|entry| is_program(&entry.path()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .find(|name| !name.ends_with(".sample")),
    };
    found.map(|name| format!("hooks/{name}"))
}

fn in_checkout(folder: &Path, search: Search<'_>, nested: usize) -> Option<String> {
    let Some(git) = GitFolder::as_git_sees(folder) else {
        // If the folder's `.git` contains `commondir`, git may find a repository here although
        // pitcrew found none. Report `commondir` as the setting.
        let borrows = |top: &&Path| top.join(".git/commondir").symlink_metadata().is_ok();
        return folder.ancestors().find(borrows).map(|_| "commondir".to_owned());
    };
    if !leads_to(&git.own, &git.common) {
        return Some("commondir".to_owned());
    }
    let files = vec![git.common.join("config"), git.own.join("config.worktree")];
    in_files(files, &git.top, search)
        .or_else(|| in_hooks(&git.common.join("hooks"), search.hooks))
        .or_else(|| in_nested(&git, search, nested))
}

/// Searches configuration files, and the files that they include, for a setting that counts as
/// naming a program. `top` is the folder in which git runs hooks.
fn in_files(mut files: Vec<PathBuf>, top: &Path, search: Search<'_>) -> Option<String> {
    let mut depth = 0;
    while !files.is_empty() {
        // Includes beyond this depth are not read. They may name a program, so report the include
        // itself.
        if depth > MOST_INCLUDES {
            return Some("include.path".to_owned());
        }
        let mut included = Vec::new();
        for file in &files {
            let Some(settings) = settings(file) else { return Some(file.display().to_string()) };
            if let Some(program) = settings.iter().find(|setting| setting.counts(top, search)) {
                return Some(program.key());
            }
            let paths = settings
                .iter()
                .filter(|setting| setting.includes())
                .filter_map(|it| it.value.as_deref());
            let beside = file.parent().unwrap_or(file);
            included.extend(paths.map(|path| beside.join(expand_home(path, search.home))));
        }
        files = included;
        depth += 1;
    }
    None
}

/// Searches the submodules of a repository for a setting that names a program. The search is needed
/// because git checks each submodule for changes.
fn in_nested(git: &GitFolder, search: Search<'_>, nested: usize) -> Option<String> {
    // In a submodule git only looks for changes.
    let hooks = if search.hooks == Hooks::None { Hooks::None } else { Hooks::OfIndex };
    let search = Search { hooks, ..search };
    let links = match git_index::entries(&git.own) {
        Ok(entries) => entries.into_iter().filter(Entry::is_repository),
        Err(problem) => return Some(problem.to_string()),
    };
    // Leave out a submodule folder without `.git`: it is not checked out, and git would find the
    // outer repository there.
    let checked_out = |path: &PathBuf| path.join(".git").symlink_metadata().is_ok();
    let mut places = links.map(|link| git.top.join(link.path)).filter(checked_out);
    places.find_map(|place| match nested {
        0 => Some("submodules".to_owned()),
        _ => in_checkout(&place, search, nested - 1),
    })
}

/// Returns true if the `commondir` file leads git to the common folder that pitcrew found.
fn leads_to(own: &Path, common: &Path) -> bool {
    let file = own.join("commondir");
    if file.symlink_metadata().is_err() {
        return own == common;
    }
    let Some(text) = read_git_config(&file, MOST_BYTES) else { return false };
    fs::canonicalize(own.join(text.trim_end_matches('\n'))).is_ok_and(|folder| folder == common)
}

impl GitSetting {
    fn key(&self) -> String {
        let subsection = self.subsection.as_ref().map(|it| format!("{it}.")).unwrap_or_default();
        format!("{}.{subsection}{}", self.section, self.name)
    }

    fn includes(&self) -> bool {
        matches!(self.section.as_str(), "include" | "includeif") && self.name == "path"
    }

    /// Returns true if the setting names a program, a folder with hooks that count, or a command
    /// under the name of a git command that is run.
    fn counts(&self, top: &Path, search: Search<'_>) -> bool {
        let is_alias = || {
            let name = self.subsection.as_deref().unwrap_or(&self.name);
            let is_run =
                search.verbs.any || search.verbs.named.contains(&name.to_ascii_lowercase());
            self.section == "alias" && is_run
        };
        let has_hooks = || {
            let is_path = self.section == "core" && self.name == "hookspath";
            let path = self.value.as_deref().filter(|_| is_path);
            path.is_some_and(|path| {
                in_hooks(&top.join(expand_home(path, search.home)), search.hooks).is_some()
            })
        };
        self.names_program() || is_alias() || has_hooks()
    }

    fn names_program(&self) -> bool {
        let value = self.value.as_deref().unwrap_or("true");
        let is_switch = matches!(
            value.to_ascii_lowercase().as_str(),
            "" | "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1" | "never"
        );
        // An alias is harmless unless its name is used (`counts`).
        if is_switch || self.section == "alias" {
            return false;
        }
        let is_address = self.section == "url" || matches!(self.name.as_str(), "url" | "pushurl");
        let address = self.subsection.as_deref().filter(|_| self.section == "url").unwrap_or(value);
        // Most settings that name a program are recognized by the name of the setting. Some are
        // recognized by their value: a value that begins with `!` is a shell command, and an
        // address with `::` names a remote helper program.
        PROGRAMS.iter().any(|end| self.name.ends_with(end))
            || PROGRAMS_OF
                .iter()
                .any(|(section, names)| self.section == *section && names.contains(&&*self.name))
            || self.section == "pager"
            || self.section == "include" && value.contains("%(")
            || value.starts_with('!')
            || is_address && address.contains("::")
    }
}

/// Returns the settings of a file, or an empty list if there is no such file. Returns `None` if the
/// file cannot be read or is not a git configuration.
fn settings(file: &Path) -> Option<Vec<GitSetting>> {
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Ok(_) | Err(_) => parse(&read_git_config(file, MOST_BYTES)?),
    }
}

fn parse(text: &str) -> Option<Vec<GitSetting>> {
    let text = text.replace("\r\n", "\n");
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(&text).chars().peekable();
    let mut settings = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => {}
            '#' | ';' => while rest.next_if(|c| *c != '\n').is_some() {},
            '[' => section = Some(heading(&mut rest)?),
            c if c.is_ascii_alphabetic() => {
                let (section, subsection) = section.clone()?;
                let mut name = c.to_ascii_lowercase().to_string();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    name.push(c.to_ascii_lowercase());
                }
                while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let value = match rest.next() {
                    None | Some('\n') => None,
                    Some('=') => Some(value(&mut rest)?),
                    Some(_) => return None,
                };
                settings.push(GitSetting { section, subsection, name, value });
            }
            _ => return None,
        }
    }
    Some(settings)
}

/// Parses a section heading after its opening bracket. The forms are `[section]`, `[section
/// "subsection"]` and `[section.subsection]`.
fn heading(rest: &mut Peekable<Chars<'_>>) -> Option<(String, Option<String>)> {
    let mut section = String::new();
    loop {
        match rest.next()? {
            ']' => break,
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') => {
                section.push(c.to_ascii_lowercase())
            }
            ' ' | '\t' => {
                while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                return (rest.next()? == '"')
                    .then_some(())
                    .and_then(|()| quoted(rest))
                    .map(|subsection| (section, Some(subsection)));
            }
            _ => return None,
        }
    }
    Some(match section.split_once('.') {
        Some((section, subsection)) => (section.to_owned(), Some(subsection.to_owned())),
        None => (section, None),
    })
}

/// Parses a quoted subsection after its opening quote, up to and including the closing quote and
/// bracket.
fn quoted(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            '"' => return (rest.next()? == ']').then_some(text),
            '\\' => text.push(rest.next()?),
            '\n' => return None,
            c => text.push(c),
        }
    }
}

/// Parses a value to the end of its line. If a backslash continues the value, parses to the end of
/// the last continued line.
fn value(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    let mut is_quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '\n' if is_quoted => return None,
            '\n' => break,
            '#' | ';' if !is_quoted => while rest.next_if(|c| *c != '\n').is_some() {},
            '"' => is_quoted = !is_quoted,
            '\\' => match rest.next()? {
                '\n' => {}
                't' => text.push('\t'),
                'n' => text.push('\n'),
                'b' => text.push('\u{8}'),
                c @ ('\\' | '"') => text.push(c),
                _ => return None,
            },
            c => text.push(c),
        }
    }
    (!is_quoted).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(text: &str) -> Option<Vec<String>> {
        Some(parse(text)?.iter().filter(|it| it.names_program()).map(GitSetting::key).collect())
    }

    #[test]
    fn every_way_to_write_a_program_is_read() {
        for (text, key) in [
            ("[core]\n\tfsmonitor = ./x\n", "core.fsmonitor"),
            ("[CORE]FsMonitor=./x", "core.fsmonitor"),
            ("\u{feff}[core] # c\n ; d\n fsmonitor = \"./x\"\r\n", "core.fsmonitor"),
            ("[a][diff \"e]v\\\"\"] textconv = x", "diff.e]v\".textconv"),
            ("[diff.ev]\ntextconv = x", "diff.ev.textconv"),
            ("[filter \"ev\"]\nclean = a\\\n b", "filter.ev.clean"),
            ("[filter \"ev\"]\nprocess = a", "filter.ev.process"),
            ("[gpg]\nprogram = a", "gpg.program"),
            ("[gpg \"ssh\"]\ndefaultKeyCommand = a", "gpg.ssh.defaultkeycommand"),
            ("[diff]\nexternal = a", "diff.external"),
            ("[submodule \"a\"]\nupdate = !x", "submodule.a.update"),
            ("[remote \"o\"]\nurl = ext::sh -c x", "remote.o.url"),
            ("[remote \"o\"]\nuploadpack = x", "remote.o.uploadpack"),
            ("[url \"ext::sh\"]\ninsteadOf = https", "url.ext::sh.insteadof"),
            ("[core]\nsshCommand = x\n", "core.sshcommand"),
            ("[hook \"a\"]\ncommand = x", "hook.a.command"),
            ("[pager]\nlog = x", "pager.log"),
            ("[credential]\nhelper = x", "credential.helper"),
            ("[merge \"x\"]\ndriver = x", "merge.x.driver"),
        ] {
            assert_eq!(programs(text), Some(vec![key.to_owned()]), "{text:?}");
        }
    }

    #[test]
    fn an_ordinary_configuration_names_none() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tfsmonitor = true\n\thooksPath = .husky/_\n\
            [remote \"origin\"]\n\turl = https://x/a.git ; c\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[alias]\n\tl = !git log\n[pager]\n\tlog = false\n\
            [user]\n\tname = \"A # B\"\n[gc]\n\tauto\n[log]\n\tshowSignature = true\n[diff \"x\"]\n\txfuncname = \"a\\tb\"\n";
        assert_eq!(programs(text), Some(Vec::new()));
    }

    #[test]
    fn what_git_refuses_is_not_understood() {
        for text in [
            "[a",
            "x = 1",
            "[a]\nb ! c",
            "[a]\nb = \"x\n",
            "[a]\nb = \\q",
            "[a \"b]\nc = d",
            "[a]\n= b",
        ] {
            assert_eq!(programs(text), None, "{text:?}");
        }
    }
}
