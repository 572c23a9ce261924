//! Files of a checkout that git's configuration names: other configuration, hooks, and programs that git starts.
//!
//! The configuration is read as git does, without starting it, for each command: a command that the user allowed may have
//! changed it. A condition of an include is taken to hold.

use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::git_folder::GitFolder;
use crate::given_file::read_git_config;

/// How long a configuration can be.
const MOST_BYTES: u64 = 256 * 1024;

/// How many files are read, with those that others include.
const MOST_FILES: usize = 32;

/// Keys whose values are commands, or files that choose among them: the section and the last part.
const COMMANDS: &[(&str, &str)] = &[
    ("core", "alternaterefscommand"),
    ("core", "askpass"),
    ("core", "attributesfile"),
    ("core", "editor"),
    ("core", "fsmonitor"),
    ("core", "gitproxy"),
    ("core", "pager"),
    ("core", "sshcommand"),
    ("credential", "helper"),
    ("diff", "command"),
    ("diff", "external"),
    ("diff", "textconv"),
    ("difftool", "cmd"),
    ("difftool", "path"),
    ("filter", "clean"),
    ("filter", "process"),
    ("filter", "smudge"),
    ("gpg", "program"),
    ("init", "templatedir"),
    ("interactive", "difffilter"),
    ("merge", "driver"),
    ("mergetool", "cmd"),
    ("mergetool", "path"),
    ("sequence", "editor"),
    ("trailer", "cmd"),
    ("trailer", "command"),
    ("uploadpack", "packobjectshook"),
];

/// Those of them that name a file, with or without a slash.
const PATHS: &[(&str, &str)] = &[("core", "attributesfile"), ("init", "templatedir")];

/// Sections all of whose values are commands.
const SECTIONS_OF_COMMANDS: &[&str] = &["alias", "pager"];

/// One setting.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    section: String,
    key: String,
    value: String,
}

/// All that the configuration of a checkout names, wherever it is; what is no file may be among them.
pub(super) fn named(git: &GitFolder, home: Option<&Path>) -> Vec<PathBuf> {
    let mut files = vec![
        git.common.join("config"),
        git.own.join("config.worktree"),
        PathBuf::from("/etc/gitconfig"),
    ];
    files.extend(
        home.into_iter()
            .flat_map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]),
    );
    let (mut named, mut nth) = (Vec::new(), 0);
    while let Some(file) = files.get(nth).filter(|_| nth < MOST_FILES).cloned() {
        nth += 1;
        let folder = file.parent().unwrap_or(&file);
        for entry in read_git_config(&file, MOST_BYTES).as_deref().map(entries).unwrap_or_default()
        {
            match (entry.section.as_str(), entry.key.as_str()) {
                ("include" | "includeif", "path") => {
                    let included = resolved(folder, &entry.value, home);
                    if !files.contains(&included) {
                        files.push(included.clone());
                    }
                    named.push(included);
                }
                ("core", "hookspath") => {
                    let hooks = resolved(&git.top, &entry.value, home);
                    // The hooks there start those beside their folder, by husky's custom.
                    let is_inner = hooks.file_name().is_some_and(|name| name == "_");
                    named.push(
                        hooks
                            .parent()
                            .filter(|_| is_inner)
                            .map_or_else(|| hooks.clone(), Path::to_path_buf),
                    );
                }
                (section, key)
                    if COMMANDS.contains(&(section, key))
                        || SECTIONS_OF_COMMANDS.contains(&section) =>
                {
                    let words = entry
                        .value
                        .split(|it: char| it.is_whitespace() || "'\"`;|&()<>!=$".contains(it));
                    let is_path = PATHS.contains(&(section, key));
                    for word in words.filter(|word| !word.is_empty()) {
                        let path = resolved(&git.top, word, home);
                        match fs::metadata(&path) {
                            Ok(metadata) if metadata.is_file() => named.push(path),
                            Ok(_) => {}
                            // Git runs it as soon as a command has made it. A bare word is looked for in `PATH`.
                            Err(_) if is_path || word.contains('/') => named.push(path),
                            Err(_) => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
    named
}

fn resolved(folder: &Path, value: &str, home: Option<&Path>) -> PathBuf {
    match (value.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) | (None, _) => folder.join(value),
    }
}

/// The settings of a configuration, in order.
fn entries(text: &str) -> Vec<Entry> {
    let mut chars = text.chars().peekable();
    let (mut found, mut section) = (Vec::new(), String::new());
    while let Some(next) = chars.peek() {
        match next {
            it if it.is_whitespace() => _ = chars.next(),
            '[' => section = section_name(&mut chars),
            it if it.is_alphanumeric() => {
                let mut key = String::new();
                while let Some(it) = chars.next_if(|it| it.is_alphanumeric() || *it == '-') {
                    key.push(it.to_ascii_lowercase());
                }
                while chars.next_if(|it| matches!(it, ' ' | '\t')).is_some() {}
                let value = if chars.next_if_eq(&'=').is_some() {
                    value(&mut chars)
                } else {
                    "true".to_owned()
                };
                found.push(Entry { section: section.clone(), key, value });
            }
            _ => while chars.next().is_some_and(|it| it != '\n') {},
        }
    }
    found
}

/// The first part of a section's name; goes past its end.
fn section_name(chars: &mut Peekable<Chars<'_>>) -> String {
    let (mut name, mut is_named, mut is_quoted) = (String::new(), false, false);
    chars.next();
    while let Some(next) = chars.next() {
        match next {
            '\\' if is_quoted => _ = chars.next(),
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => break,
            _ => {}
        }
        is_named |= !(next.is_alphanumeric() || next == '-');
        if !is_named {
            name.push(next.to_ascii_lowercase());
        }
    }
    name
}

/// A value to the end of its line, which a backslash lengthens.
fn value(chars: &mut Peekable<Chars<'_>>) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    while let Some(next) = chars.next() {
        match next {
            '\n' => break,
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => {
                while chars.next().is_some_and(|it| it != '\n') {}
                break;
            }
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('\n') | None => {}
                Some(other) => value.push(other),
            },
            other => value.push(other),
        }
    }
    value.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_git_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = "# x\n[Core] HooksPath = a b ; c\n[include]\n\tpath = \"q # r\"\n[includeIf \"gitdir:a]b\\\"/\"]\npath=x\\\ny\n\
                    [alias]\nst\ns = !f() { \\\"a\\\" ; }; f\n[core]editor=\"a\\tb\"c # d\n";
        fs::write(&file, text).unwrap();
        let output = std::process::Command::new("git")
            .args(["config", "-z", "--list", "-f"])
            .arg(&file)
            .output();
        let listed = String::from_utf8(output.unwrap().stdout).unwrap();
        let of_git = listed.split_terminator('\0').map(|entry| {
            let (name, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            let (section, key) =
                (name.split('.').next().unwrap(), name.rsplit('.').next().unwrap());
            Entry { section: section.to_owned(), key: key.to_owned(), value: value.to_owned() }
        });
        let of_git: Vec<Entry> = of_git.collect();
        assert!(of_git.len() == 6, "{listed:?}");
        assert_eq!(entries(text), of_git);
    }
}
