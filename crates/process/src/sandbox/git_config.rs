//! The user's global git configuration for sandboxed commands, without credentials and addresses.
//!
//! Git ends with an error when it cannot read its global configuration, and the real one lies in the home folder. So git is
//! told another: what concerns how git works here, as git itself reads it for the working folder, includes and all.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::own_mode;

/// The variable that names git's global configuration.
pub(super) const VARIABLE: &str = "GIT_CONFIG_GLOBAL";

/// Settings of git for a command that runs unasked and only reads, above all files: no loose files in the working folder
/// are a repository, no program is asked what changed, and what a clone left out is not fetched.
pub(super) const READING: [(&str, &str); 6] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

/// Sections that hold no credentials, and nothing of a network.
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

/// What of `core` is how files are seen.
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

/// Files that `core` names, copied.
const COPIED: [(&str, &str); 2] =
    [("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")];

/// The largest of them that is copied.
const MOST_BYTES: u64 = 1 << 20;

/// How long git may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Filtered configurations, made once for each working folder.
#[derive(Debug, Default)]
pub(super) struct GitConfigs {
    made: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl GitConfigs {
    /// The file for commands in a working folder; it is made in `folder`.
    ///
    /// # Errors
    /// What the system said when it could not be written.
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

/// What git finds in its global configuration. Where there is no git, or none that answers in time, there is nothing to
/// filter: git reads the configuration of the working folder too, which may be a FIFO in an archive.
fn global(cwd: &Path, home: Option<&Path>) -> Vec<(String, String)> {
    let mut git = Command::new("git");
    git.envs(home.map(|home| ("HOME", home)));
    git.arg("-C").arg(cwd).args(["config", "--global", "--includes", "--null", "--list"]);
    let output =
        answer_in_time(git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let text = String::from_utf8_lossy(&output);
    let entry = |entry: &str| match entry.split_once('\n') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.to_owned(), "true".to_owned()),
    };
    text.split('\0').filter(|text| !text.is_empty()).map(entry).collect()
}

/// What a program says until its end; nothing when that takes too long.
fn answer_in_time(program: &mut Command) -> Vec<u8> {
    let Ok(mut child) = program.spawn() else { return Vec::new() };
    let (said, answer) = mpsc::channel();
    let reader = child.stdout.take().map(|mut stdout| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.read_to_end(&mut bytes);
            // Nobody waits any more when it was too late.
            let _ = said.send(read.map(|_| bytes).unwrap_or_default());
        })
    });
    let bytes = answer.recv_timeout(ANSWER_TIME);
    // It has closed its output or is late, and is ended in both cases; the reader ends with it.
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.map(std::thread::JoinHandle::join);
    bytes.unwrap_or_default()
}

fn is_kept(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    SECTIONS.contains(&section) || CORE.contains(&key)
}

/// Copies a file that the configuration names, or that git reads where it names none; an empty one stands for what is
/// not there.
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
        Err(_full) => PathBuf::from("/dev/null"),
    }
}

/// The entries as a file that git reads.
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
