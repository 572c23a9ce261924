//! Lists the files that the git configuration of a checkout names: other configuration files,
//! hooks, and programs that git runs.
//!
//! This module parses the configuration by git's rules but does not run git. The configuration is
//! read again for each command, because an earlier command may have changed it. Conditional
//! includes are always followed.

use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::git_folder::GitFolder;
use crate::given_file::{Given, Refused, read_git_config};

/// Maximum size of a configuration file, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum number of configuration files that are read, including files that other files include.
const MOST_FILES: usize = 32;

/// Maximum size in bytes of a configuration file that git of pitcrew's reads.
const MOST_INCLUDED_BYTES: u64 = 16 << 20;

/// Maximum number of configuration files that git of pitcrew's reads.
const MOST_INCLUDED: usize = 64;

/// Settings whose values are commands, or names of files that select commands. Each setting is
/// given by its section and the last part of its name.
const COMMANDS: &[(&str, &str)] = &[
    ("core", "alternaterefscommand"),
    ("core", "askpass"),
    ("core", "attributesfile"),
    ("core", "editor"),
    ("core", "fsmonitor"),
    ("core", "gitproxy"),
    ("core", "pager"),
    ("core", "sshcommand"),
    ("core", "virtualfilesystem"),
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
    ("imap", "tunnel"),
    ("init", "templatedir"),
    ("instaweb", "httpd"),
    ("interactive", "difffilter"),
    ("lfs", "clean"),
    ("lfs", "path"),
    ("lfs", "smudge"),
    ("man", "path"),
    ("merge", "driver"),
    ("mergetool", "cmd"),
    ("mergetool", "path"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("sendemail", "smtpserver"),
    ("sequence", "editor"),
    ("trailer", "cmd"),
    ("trailer", "command"),
    ("uploadpack", "packobjectshook"),
];

/// A setting whose name has one of these endings also holds a command. The permission gate has the
/// same list.
const ENDINGS: &[&str] = &[
    "askpass", "cmd", "command", "driver", "editor", "helper", "hook", "pager", "prog", "program",
    "textconv",
];

/// The settings among `COMMANDS` whose value is always a path, even without a slash.
const PATHS: &[(&str, &str)] = &[("core", "attributesfile"), ("init", "templatedir")];

/// Sections in which every value is a command.
const SECTIONS_OF_COMMANDS: &[&str] = &["alias", "pager"];

/// One setting of a git configuration.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    section: String,
    key: String,
    value: String,
}

/// Returns all paths that the configuration of a checkout names. The paths may be outside the
/// checkout, and some of them may not exist.
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
                    // Protect an included file even if the file does not exist yet.
                    named.push(included);
                }
                ("core", "hookspath") => {
                    let hooks = resolved(&git.top, &entry.value, home);
                    // If the configured folder is `_`, the hooks come from Husky and run the hooks
                    // in the parent folder. Protect the parent folder.
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
                        || SECTIONS_OF_COMMANDS.contains(&section)
                        || ENDINGS.iter().any(|end| key.ends_with(end))
                        || entry.value.starts_with('!') =>
                {
                    // Any word of a command line may name a file in the checkout.
                    let words = entry
                        .value
                        .split(|it: char| it.is_whitespace() || "'\"`;|&()<>!=$".contains(it));
                    let is_path = PATHS.contains(&(section, key));
                    for word in words.filter(|word| !word.is_empty()) {
                        let path = resolved(&git.top, word, home);
                        match fs::metadata(&path) {
                            Ok(metadata) if metadata.is_file() => named.push(path),
                            Ok(_) => {}
                            // A missing program is protected too, because git would run the program
                            // as soon as a command creates it. A word without a slash needs no
                            // protection here: it is searched in `PATH`.
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

/// Returns the first file that configuration files include, in any depth, and that git cannot read to
/// an end: a FIFO for instance. Returns its path and the reason. Conditions of includes are not
/// examined.
pub(crate) fn unfit_include(
    mut files: Vec<PathBuf>,
    home: Option<&Path>,
) -> Option<(PathBuf, String)> {
    let mut nth = 0;
    while let Some(file) = files.get(nth).cloned() {
        let refused = match Given::ByUser.read(&file, MOST_INCLUDED_BYTES) {
            // Git reports a file that it may not read.
            Ok(None) | Err(Refused::Io(_)) => None,
            Ok(Some(_)) if nth >= MOST_INCLUDED => Some("too many files are included".to_owned()),
            Ok(Some(bytes)) => {
                let folder = file.parent().unwrap_or(&file);
                let included = entries(&String::from_utf8_lossy(&bytes));
                let included = included.iter().filter(|entry| {
                    matches!(entry.section.as_str(), "include" | "includeif") && entry.key == "path"
                });
                for path in included.map(|entry| resolved(folder, &entry.value, home)) {
                    if !files.contains(&path) {
                        files.push(path);
                    }
                }
                None
            }
            Err(refused) => Some(refused.to_string()),
        };
        if let Some(refused) = refused {
            return Some((file, refused));
        }
        nth += 1;
    }
    None
}

fn resolved(folder: &Path, value: &str, home: Option<&Path>) -> PathBuf {
    match (value.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) | (None, _) => folder.join(value),
    }
}

/// Returns the settings of a configuration text in the order in which they are written.
fn entries(text: &str) -> Vec<Entry> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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

/// Reads the first part of a section's name, and skips the rest of the section heading.
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

/// Reads a value to the end of its line. A backslash at the end of a line continues the value on
/// the next line.
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
    fn programs_are_found_in_every_setting_in_which_the_permission_gate_finds_one() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        for text in [
            "\u{feff}[core]\n\tfsmonitor = ./x\n",
            "[gpg \"ssh\"]\ndefaultKeyCommand = ./x",
            "[hook \"a\"]\ncommand = ./x",
            "[remote \"o\"]\nuploadpack = ./x",
            "[submodule \"a\"]\nupdate = !./x",
            "[sendemail]\ntoCmd = ./x",
            "[lfs \"customtransfer.a\"]\npath = ./x",
            "[core]\nvirtualFilesystem = ./x",
        ] {
            fs::write(top.join("config"), text).unwrap();
            let git = GitFolder {
                top: top.clone(),
                own: top.clone(),
                common: top.clone(),
                borrowed: Vec::new(),
            };
            assert!(named(&git, None).contains(&top.join("./x")), "{text:?}");
        }
    }

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
