//! Writes a filtered copy of the user's global git configuration for sandboxed commands. The copy
//! contains no credentials and no network addresses.
//!
//! Git fails if it cannot read its global configuration, and sandboxed commands cannot read the
//! original in the home folder. Therefore sandboxed commands get a copy with only the harmless
//! settings. To make the copy, pitcrew runs git in the working folder. Git reads the original,
//! including all included files, and prints the settings.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::our_git::user_settings;
use crate::own_mode;

/// The environment variable that names the file with git's global configuration.
pub(super) const VARIABLE: &str = "GIT_CONFIG_GLOBAL";

/// Git settings for a command in the sandbox profile *read*. They override all configuration files.
/// With these settings, git ignores repositories without `.git`, starts no file system monitor, and
/// fetches no missing objects of a partial clone.
pub(super) const READING: [(&str, &str); 6] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

/// Configuration sections without credentials or network settings.
const SECTIONS: &[&str] = &[
    "advice",
    "alias",
    "am",
    "apply",
    "author",
    "blame",
    "branch",
    "checkout",
    "clean",
    "color",
    "column",
    "commit",
    "committer",
    "diff",
    "feature",
    "format",
    "gc",
    "grep",
    "i18n",
    "index",
    "init",
    "interactive",
    "log",
    "merge",
    "mergetool",
    "notes",
    "pack",
    "pretty",
    "pull",
    "push",
    "rebase",
    "rerere",
    "revert",
    "safe",
    "show",
    "showbranch",
    "stash",
    "status",
    "tag",
    "user",
    "versionsort",
    "worktree",
];

/// Settings of `core` that affect only how git reads and shows files.
const CORE: &[&str] = &[
    "core.abbrev",
    "core.autocrlf",
    "core.checkstat",
    "core.commentchar",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.quotepath",
    "core.safecrlf",
    "core.symlinks",
    "core.trustctime",
    "core.whitespace",
];

/// Settings of `core` that name a file. Sandboxed commands get a copy of the file. Each pair
/// contains the setting and the file name of the copy.
const COPIED: [(&str, &str); 2] =
    [("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")];

/// Maximum size of a file that is copied, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The filtered configuration files, one for each working folder.
#[derive(Debug, Default)]
pub(super) struct GitConfigs {
    made: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl GitConfigs {
    /// Returns the path of the configuration file for commands in a working folder. On first use,
    /// the file is written into `folder`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn of(&self, cwd: &Path, home: Option<&Path>, folder: &Path) -> io::Result<PathBuf> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = made.get(cwd) {
            return Ok(file.clone());
        }
        let folder = folder.join(format!("git-{}", made.len()));
        own_mode::create_folder(&folder)?;
        let file = folder.join("config");
        let mut entries = global(cwd, home);
        let files = COPIED.map(|(key, name)| (key, copied(&entries, key, name, home, &folder)));
        entries.retain(|(key, _)| is_kept(key));
        entries.extend(files.map(|(key, path)| (key.to_owned(), path.display().to_string())));
        own_mode::file_options()
            .write(true)
            .create_new(true)
            .open(&file)?
            .write_all(written(&entries).as_bytes())?;
        made.insert(cwd.to_path_buf(), file.clone());
        Ok(file)
    }
}

/// Returns the settings in git's global configuration. Returns an empty list if git is missing or
/// too slow.
fn global(cwd: &Path, home: Option<&Path>) -> Vec<(String, String)> {
    let output = user_settings(cwd, home);
    let text = String::from_utf8_lossy(&output);
    let entry = |entry: &str| match entry.split_once('\n') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.to_owned(), "true".to_owned()),
    };
    text.split('\0').filter(|text| !text.is_empty()).map(entry).collect()
}

fn is_kept(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || CORE.contains(&key)
}

/// Copies the file that a setting names. If the setting is missing, copies git's default file. If
/// the file does not exist, the copy is empty.
fn copied(
    entries: &[(String, String)],
    key: &str,
    name: &str,
    home: Option<&Path>,
    folder: &Path,
) -> PathBuf {
    let named = entries.iter().rev().find(|(it, _)| it == key).map(|(_, value)| value.as_str());
    let source = match (named, home) {
        (Some(path), Some(home)) if path.starts_with("~/") => {
            Some(home.join(path.trim_start_matches("~/")))
        }
        (Some(path), _) => Some(PathBuf::from(path)),
        (None, home) => home.map(|home| home.join(".config/git").join(name)),
    };
    let copy = folder.join(name);
    let is_small =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MOST_BYTES);
    let content = source.filter(is_small).and_then(|path| fs::read(path).ok()).unwrap_or_default();
    let made = own_mode::file_options().write(true).create_new(true).open(&copy);
    match made.and_then(|mut file| file.write_all(&content)) {
        Ok(()) => copy,
        // If the copy cannot be written, git reads an empty file instead.
        Err(_full) => PathBuf::from("/dev/null"),
    }
}

/// Formats the settings as a git configuration file.
fn written(entries: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        let Some((head, name)) = key.rsplit_once('.') else { continue };
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        match head.split_once('.') {
            Some((section, subsection)) => {
                text.push_str(&format!("[{section} \"{}\"]\n", quoted(subsection)))
            }
            None => text.push_str(&format!("[{head}]\n")),
        }
        let value = quoted(value).replace('\n', "\\n").replace('\t', "\\t");
        text.push_str(&format!("\t{name} = \"{value}\"\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_by_git() {
        let folder = tempfile::tempdir().unwrap();
        let entries = [
            ("user.name", "A \"B\" \\ C; # d"),
            ("alias.l", "log --format=\"%h\t%s\"\n -3"),
            ("branch.a b.\"c\".remote", "x"),
        ];
        let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let file = folder.path().join("config");
        fs::write(&file, written(&entries)).unwrap();
        for (key, value) in entries {
            let output = Command::new("git")
                .args(["config", "-f"])
                .arg(&file)
                .args(["--get", &key])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{value}\n"), "{key}");
        }
    }

    #[test]
    fn credentials_and_addresses_are_not_kept() {
        for key in [
            "credential.helper",
            "http.https://x.extraheader",
            "url.https://token@x/.insteadof",
            "sendemail.smtppass",
            "github.token",
            "core.sshcommand",
            "core.fsmonitor",
            "core.hookspath",
            "include.path",
            "remote.origin.url",
        ] {
            assert!(!is_kept(key), "{key}");
        }
        assert!(is_kept("user.email") && is_kept("safe.directory") && is_kept("core.autocrlf"));
    }
}
