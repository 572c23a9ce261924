//! Stores the user's trust answers in `<root>/pitcrew/trust.json`.
//!
//! For each repository, the file has the user's answer and the digests of the effects to which the
//! answer applies. An answer is valid as long as the file has the digests of all the project's
//! effects. A project that loses effects is therefore still trusted, and a project with any new
//! effect is not. Unknown fields are kept when the file is written. A file of a newer version is
//! refused.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_process::file_lock::{self, Access, LockError};
use pitcrew_process::given_file::{Given, Refused};
use pitcrew_process::own_mode;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::project::Project;

/// A field under `pitcrew` in the settings layer of the command line. It has the digests of the
/// effects that are trusted for this run. A lead passes this field to its teammates in panes.
pub const TRUSTED_ITEMS: &str = "trustedItems";

/// The path of the trust file, relative to the configuration root.
pub const FILE: &str = "pitcrew/trust.json";

/// The version of the file format that pitcrew writes.
const VERSION: u64 = 1;

/// The field with the answers about repositories.
const FOLDERS: &str = "folders";

/// The field with the programs for panes that the user named on the command line. The latest
/// program is last.
const PANE_PROGRAMS: &str = "panePrograms";

/// Maximum number of stored pane programs. If there are more, the oldest programs are removed.
const PANE_PROGRAMS_MOST: usize = 100;

/// Maximum size of the trust file. This size is enough for thousands of repositories.
const FILE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum time to wait while another process holds the lock on the trust file.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The projects and pane programs (external programs that manage terminal panes) that the user
/// trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    folders: Vec<FolderTrust>,
    /// The pane programs that the user named for a run.
    pane_programs: Vec<Vec<String>>,
    /// Digests of the effects trusted for this run only.
    run: BTreeSet<String>,
}

/// The user's answer about one repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FolderTrust {
    /// The top folder of the repository, with symbolic links resolved.
    pub folder: String,
    /// The user's answer.
    pub answer: Answer,
    /// Time of the answer, in RFC 3339.
    pub at: Option<String>,
    /// Digests of the effects to which the answer applies.
    #[serde(skip)]
    pub items: BTreeSet<String>,
}

/// The user's answer to the question whether to trust a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The project's files are used.
    Trusted,
    /// The project's files are not used, and the user is not asked again about the same effects.
    Declined,
}

/// The trust status of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustState {
    /// The project's folder is the user's own configuration, which needs no trust.
    UsersOwn,
    /// The project's files have no effects that need trust.
    NothingToTrust,
    /// The user trusts all effects of the project's files.
    Trusted,
    /// The user has not been asked about these effects yet.
    NotTrusted,
    /// The user declined all effects of the project's files.
    Declined,
    /// The user trusted the project, but its files now have at least one new effect.
    Grown,
}

/// Reason why the trust answers cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The trust file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path of the trust file.
        path: PathBuf,
        /// The reason why the file was not read.
        #[source]
        source: Refused,
    },
    /// The content of the trust file is not JSON, or not a JSON object.
    #[error("{} is not in the form that pitcrew writes", path.display())]
    Torn {
        /// The path of the trust file.
        path: PathBuf,
    },
    /// A newer version of pitcrew wrote the trust file.
    #[error("{} has version {version}, but this pitcrew supports version {VERSION}", path.display())]
    Newer {
        /// The path of the trust file.
        path: PathBuf,
        /// The version of the file format in the trust file.
        version: u64,
    },
    /// The trust file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The path of the trust file.
        path: PathBuf,
        /// The reason why the file was not written.
        #[source]
        source: io::Error,
    },
    /// Another process holds the lock on the trust file.
    #[error(
        "{} has locked {}", holder.as_deref().unwrap_or("another process"), path.display()
    )]
    Held {
        /// The path of the lock file.
        path: PathBuf,
        /// The process that holds the lock, if the operating system reports it.
        holder: Option<String>,
    },
    /// A path is not UTF-8, so JSON cannot store it.
    #[error("the path {} is not UTF-8, so trust in it cannot be saved", path.display())]
    Path {
        /// The path that is not UTF-8.
        path: PathBuf,
    },
}

impl Trust {
    /// Reads the answers stored below a configuration root. A missing file means no answers.
    ///
    /// # Errors
    /// If the trust file cannot be read, or if a newer version of pitcrew wrote it.
    pub fn load(root: &Path) -> Result<Self, TrustError> {
        let document = read(&root.join(FILE))?;
        let pane_programs = pane_programs_in(&document);
        Ok(Self { folders: folders_in(&document), pane_programs, run: BTreeSet::new() })
    }

    /// Adds the effects that are trusted for this run only. `layer` is the settings layer of the
    /// command line, which lists their digests.
    #[must_use]
    pub fn with_run_items(mut self, layer: &Value) -> Self {
        let items =
            layer.get("pitcrew").and_then(|ours| ours.get(TRUSTED_ITEMS)).and_then(Value::as_array);
        self.run.extend(items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        self
    }

    /// Returns the trust status of a project.
    #[must_use]
    pub fn state(&self, project: &Project) -> TrustState {
        if project.is_user_s() {
            return TrustState::UsersOwn;
        }
        let items = project.items();
        if !items.iter().any(super::Item::acts) {
            return TrustState::NothingToTrust;
        }
        let kept = project.top().and_then(Path::to_str).and_then(|top| self.folder(top));
        let about = |items: &BTreeSet<String>, digest: &str| items.contains(digest);
        let trusted = kept.filter(|kept| kept.answer == Answer::Trusted);
        let is_trusted = |digest: &str| {
            self.run.contains(digest) || trusted.is_some_and(|kept| about(&kept.items, digest))
        };
        if items.iter().all(|item| is_trusted(&item.digest)) {
            return TrustState::Trusted;
        }
        match kept {
            None => TrustState::NotTrusted,
            Some(kept) if kept.answer == Answer::Trusted => TrustState::Grown,
            Some(kept) if items.iter().all(|item| about(&kept.items, &item.digest)) => {
                TrustState::Declined
            }
            Some(_) => TrustState::NotTrusted,
        }
    }

    /// Returns the stored answers, sorted by folder.
    #[must_use]
    pub fn folders(&self) -> &[FolderTrust] {
        &self.folders
    }

    /// Stores an answer about all current effects of a project's files. If the same answer is
    /// already stored for the repository, the effects stored with it are kept, because they may
    /// belong to other projects in the repository. If a different answer is stored, the new answer
    /// replaces it together with its effects.
    ///
    /// # Errors
    /// If the trust file cannot be read or written. In both cases the trust file is unchanged.
    pub fn answer(
        root: &Path,
        project: &Project,
        answer: Answer,
        at: &str,
    ) -> Result<(), TrustError> {
        let Some(top) = project.top() else { return Ok(()) };
        let key = top.to_str().ok_or_else(|| TrustError::Path { path: top.to_path_buf() })?;
        let items: BTreeSet<&str> =
            project.items().iter().map(|item| item.digest.as_str()).collect();
        edit_folders(root, |folders| {
            let before = folders
                .get(key)
                .and_then(|entry| FolderTrust::of(key, entry))
                .filter(|it| it.answer == answer);
            let before = before.map(|before| before.items).unwrap_or_default();
            let all: BTreeSet<&str> =
                before.iter().map(String::as_str).chain(items.iter().copied()).collect();
            let mut entry = match folders.get(key) {
                Some(Value::Object(entry)) => entry.clone(),
                Some(_) | None => Map::new(),
            };
            entry.extend([
                ("answer".to_owned(), json!(answer)),
                ("at".to_owned(), json!(at)),
                ("items".to_owned(), json!(all)),
            ]);
            folders.insert(key.to_owned(), Value::Object(entry));
        })
    }

    /// Removes the answer about a repository. Returns true if there was an answer.
    ///
    /// # Errors
    /// The errors of [`Trust::answer`].
    pub fn forget(root: &Path, folder: &str) -> Result<bool, TrustError> {
        // Do not write the trust file if there is nothing to remove.
        if Self::load(root)?.folder(folder).is_none() {
            return Ok(false);
        }
        let mut was_there = false;
        edit_folders(root, |folders| was_there = folders.shift_remove(folder).is_some())?;
        Ok(was_there)
    }

    /// Returns the pane programs that the user named for a run, each with its arguments. A file in
    /// the team's folder also names pane programs. Other processes can write that file, so it is
    /// not trusted.
    #[must_use]
    pub fn pane_programs(&self) -> &[Vec<String>] {
        &self.pane_programs
    }

    /// Records that the user named a pane program. After that, later commands are allowed to run
    /// this program for its panes.
    ///
    /// # Errors
    /// The errors of [`Trust::answer`].
    pub fn keep_pane_program(root: &Path, argv: &[String]) -> Result<(), TrustError> {
        if Self::load(root)?.pane_programs.iter().any(|kept| kept == argv) {
            return Ok(());
        }
        edit(root, PANE_PROGRAMS, json!([]), |programs| {
            if let Value::Array(programs) = programs {
                programs.push(json!(argv));
                let surplus = programs.len().saturating_sub(PANE_PROGRAMS_MOST);
                programs.drain(..surplus);
            }
        })
    }

    fn folder(&self, folder: &str) -> Option<&FolderTrust> {
        self.folders.iter().find(|kept| kept.folder == folder)
    }
}

impl FolderTrust {
    fn of(folder: &str, entry: &Value) -> Option<Self> {
        #[derive(Deserialize)]
        struct Entry {
            answer: Answer,
            #[serde(default)]
            at: Option<String>,
            items: BTreeSet<String>,
        }
        let Entry { answer, at, items } = Entry::deserialize(entry).ok()?;
        Some(Self { folder: folder.to_owned(), answer, at, items })
    }
}

fn pane_programs_in(document: &Map<String, Value>) -> Vec<Vec<String>> {
    let programs = document.get(PANE_PROGRAMS).and_then(Value::as_array).into_iter().flatten();
    programs.filter_map(|argv| Vec::deserialize(argv).ok()).collect()
}

fn folders_in(document: &Map<String, Value>) -> Vec<FolderTrust> {
    let entries = document.get(FOLDERS).and_then(Value::as_object).into_iter().flatten();
    let mut folders: Vec<FolderTrust> =
        entries.filter_map(|(folder, entry)| FolderTrust::of(folder, entry)).collect();
    folders.sort_by(|a, b| a.folder.cmp(&b.folder));
    folders
}

fn read(path: &Path) -> Result<Map<String, Value>, TrustError> {
    let unreadable = |source| TrustError::Read { path: path.to_path_buf(), source };
    let Some(text) = Given::ByUser.read_text(path, FILE_LIMIT_BYTES).map_err(unreadable)? else {
        return Ok(Map::new());
    };
    let torn = || TrustError::Torn { path: path.to_path_buf() };
    let Ok(Value::Object(document)) = serde_json::from_str(&text) else { return Err(torn()) };
    match document.get("version").and_then(Value::as_u64) {
        Some(version) if version > VERSION => {
            Err(TrustError::Newer { path: path.to_path_buf(), version })
        }
        Some(_) | None => Ok(document),
    }
}

/// Changes the trust answers while holding the lock on the trust file. Unknown fields stay in the
/// file.
fn edit_folders(
    root: &Path,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Result<(), TrustError> {
    edit(root, FOLDERS, json!({}), |folders| {
        if let Value::Object(folders) = folders {
            change(folders);
        }
    })
}

/// Changes one field of the trust file under a lock. `empty` is the value that is used if the field
/// is missing. An existing field must have the same type as `empty`.
fn edit(
    root: &Path,
    part: &str,
    empty: Value,
    change: impl FnOnce(&mut Value),
) -> Result<(), TrustError> {
    let path = root.join(FILE);
    let unwritable = |source| TrustError::Write { path: path.clone(), source };
    let folder = path.parent().unwrap_or(root);
    own_mode::create_folders(folder).map_err(unwritable)?;
    let _lock = lock(&path.with_extension("lock"))?;
    // Read the file only after taking the lock, so that no change of another process is lost.
    let mut document = read(&path)?;
    document.shift_insert(0, "version".to_owned(), json!(VERSION));
    let kind = std::mem::discriminant(&empty);
    let value = document.entry(part).or_insert(empty);
    if std::mem::discriminant(value) != kind {
        return Err(TrustError::Torn { path });
    }
    change(value);
    let text = format!("{:#}\n", Value::Object(document));
    replace(folder, &path, &text).map_err(unwritable)
}

/// Locks the trust file against other pitcrew processes. The lock file is never removed.
fn lock(path: &Path) -> Result<File, TrustError> {
    let unwritable = |source| TrustError::Write { path: path.to_path_buf(), source };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    // A symbolic link or a FIFO may be in place of the lock file. Do not follow the link, and do
    // not block on the FIFO.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(unwritable)?;
    match file_lock::lock(&file, path, Access::Exclusive, LOCK_PATIENCE, file_lock::report) {
        Ok(()) => Ok(file),
        Err(LockError::Held { path, holder, .. }) => Err(TrustError::Held { path, holder }),
        Err(LockError::Io { source, .. }) => Err(unwritable(source)),
    }
}

#[expect(clippy::disallowed_methods, reason = "a folder is opened to be synced")]
fn replace(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("repo/.claude")).unwrap();
            fs::create_dir_all(dir.path().join("repo/.git")).unwrap();
            fs::create_dir_all(dir.path().join("root")).unwrap();
            Self { dir }
        }

        fn root(&self) -> PathBuf {
            self.dir.path().join("root")
        }

        fn allowing(&self, rules: &[&str]) -> Project {
            let settings = json!({"permissions": {"allow": rules}});
            fs::write(self.dir.path().join("repo/.claude/settings.json"), settings.to_string())
                .unwrap();
            Project::read(&self.dir.path().join("repo"), &self.root()).unwrap()
        }

        fn state(&self, rules: &[&str]) -> TrustState {
            let project = self.allowing(rules);
            Trust::load(&self.root()).unwrap().state(&project)
        }

        fn answer(&self, rules: &[&str], answer: Answer) {
            Trust::answer(&self.root(), &self.allowing(rules), answer, "2026-01-01T00:00:00Z")
                .unwrap();
        }
    }

    #[test]
    fn trust_holds_while_the_list_does_not_grow() {
        let place = Place::new();
        assert_eq!(place.state(&[]), TrustState::NothingToTrust);
        assert_eq!(place.state(&["A"]), TrustState::NotTrusted);
        place.answer(&["A", "B"], Answer::Trusted);
        assert_eq!(place.state(&["A", "B"]), TrustState::Trusted);
        assert_eq!(place.state(&["B"]), TrustState::Trusted);
        assert_eq!(place.state(&["B", "C"]), TrustState::Grown);
        assert!(
            Trust::forget(&place.root(), &place.allowing(&[]).top().unwrap().display().to_string())
                .unwrap()
        );
        assert_eq!(place.state(&["A"]), TrustState::NotTrusted);
    }

    #[test]
    fn a_no_is_kept_until_the_list_grows() {
        let place = Place::new();
        place.answer(&["A", "B"], Answer::Declined);
        assert_eq!(place.state(&["A"]), TrustState::Declined);
        assert_eq!(place.state(&["A", "C"]), TrustState::NotTrusted);
        place.answer(&["A", "C"], Answer::Trusted);
        assert_eq!(place.state(&["A", "C"]), TrustState::Trusted);
        assert_eq!(place.state(&["A", "B"]), TrustState::Grown);
    }

    #[test]
    fn what_is_trusted_for_a_run_is_what_was_there_when_it_began() {
        let place = Place::new();
        let project = place.allowing(&["A"]);
        let digests: Vec<&str> = project.items().iter().map(|item| item.digest.as_str()).collect();
        let trust = Trust::default().with_run_items(&json!({"pitcrew": {TRUSTED_ITEMS: digests}}));
        assert_eq!(trust.state(&project), TrustState::Trusted);
        assert_eq!(trust.state(&place.allowing(&["A", "B"])), TrustState::NotTrusted);
    }

    #[test]
    fn the_file_is_the_user_s_alone_and_keeps_what_is_not_known() {
        let place = Place::new();
        fs::create_dir_all(place.root().join("pitcrew")).unwrap();
        let path = place.root().join(FILE);
        let before = json!({"later": 1, "folders": {"/x": {"answer": "perhaps"}, "/y": 3}});
        fs::write(&path, before.to_string()).unwrap();
        place.answer(&["A"], Answer::Trusted);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let after: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(after["version"], 1);
        assert_eq!(
            (&after["later"], &after["folders"]["/x"], &after["folders"]["/y"]),
            (&json!(1), &json!({"answer": "perhaps"}), &json!(3))
        );
        assert_eq!(Trust::load(&place.root()).unwrap().folders().len(), 1);
        assert_eq!(place.state(&["A"]), TrustState::Trusted);
    }

    #[test]
    fn a_later_version_and_a_torn_file_are_refused() {
        let place = Place::new();
        fs::create_dir_all(place.root().join("pitcrew")).unwrap();
        let path = place.root().join(FILE);
        fs::write(&path, r#"{"version": 2}"#).unwrap();
        assert!(matches!(Trust::load(&place.root()), Err(TrustError::Newer { version: 2, .. })));
        fs::write(&path, "{").unwrap();
        assert!(matches!(Trust::load(&place.root()), Err(TrustError::Torn { .. })));
        Trust::answer(&place.root(), &place.allowing(&["A"]), Answer::Trusted, "now").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{");
    }

    #[test]
    fn a_lock_that_somebody_holds_is_not_waited_for_without_end() {
        let place = Place::new();
        place.answer(&["A"], Answer::Trusted);
        let held = File::open(place.root().join("pitcrew/trust.lock")).unwrap();
        held.lock().unwrap();
        let kept = Trust::answer(&place.root(), &place.allowing(&["B"]), Answer::Trusted, "now");
        let Err(TrustError::Held { holder: Some(holder), .. }) = kept else { panic!("{kept:?}") };
        assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
    }
}
