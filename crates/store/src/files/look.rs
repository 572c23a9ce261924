//! Finds damaged and abandoned files below the root. Crashes and other programs leave such files.
//! The search runs only when the user asks for it. It changes nothing and follows no link.
//!
//! The store also works if such files exist, with one exception: it never overwrites a damaged
//! file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pitcrew_protocol::{AgentName, Task, TeamConfig, TeamDir};
use pitcrew_protocol::{newer_document, newer_line};

use super::array;
use super::backend::{FileBackend, Files};
use super::damage::{BadLine, Damage, FileState};
use super::disk::WRITING_MOST;
use super::disk::{failed, is_absent};
use super::lines;
use super::lock::STALE_AFTER;
use super::ours::{FileMeaning, Place, is_unborn, meaning};
use super::paths::lease_in;
use super::plain;
use super::teams::{CONFIG, parse, parse_config, without_end_of_a_longer};
use super::too_open::Treatment;
use super::update::{Fault, TORN_PAUSE};
use crate::{JournalEntry, StoreError};

/// A temporary file that is older than this limit does not belong to a write that is still running.
const TEMP_DEAD_AFTER: Duration = Duration::from_secs(60);

/// If the time of a lock is further in the future than this limit, a wrong clock set the time.
const FUTURE_MOST: Duration = Duration::from_secs(60);

/// Highest number of times that a damaged config is read again.
const TORN_TRIES: usize = 25;

/// Name of a document in `pitcrew/` that has the format of the user settings. Its version number is
/// not the version of a pitcrew document, so it is not checked.
const SETTINGS: &str = "settings.json";

/// The result of a check of everything below a root.
#[derive(Debug, Default)]
pub struct Looked {
    /// The damaged and abandoned files that were found, sorted.
    pub found: Vec<Damage>,
    /// Teams that have a valid config and whose folders are all real folders, not links.
    pub teams: Vec<TeamDir>,
    /// All other entries in the folder of all teams. Such an entry can be a team that cannot be
    /// read.
    pub others: Vec<TeamDir>,
}

/// What is at a path. A link is reported as a link and not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Nothing,
    Folder,
    File,
    Link,
    Other,
}

impl Stands {
    pub(crate) fn at(path: &Path) -> Result<Self, StoreError> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Self::Folder),
            Ok(meta) if meta.is_file() => Ok(Self::File),
            Ok(meta) if meta.is_symlink() => Ok(Self::Link),
            Ok(_) => Ok(Self::Other),
            Err(error) if is_absent(&error) => Ok(Self::Nothing),
            Err(error) => Err(failed("look at", path)(error)),
        }
    }
}

impl FileBackend {
    /// Finds damaged and abandoned files under the root. This function reads every file of every
    /// team and blocks the thread.
    #[must_use]
    pub fn look(&self) -> Looked {
        let mut look = Look { files: self.files(), looked: Looked::default() };
        look.at_root();
        look.looked.found.sort();
        look.looked
    }

    /// Returns the names of a team's inboxes, taken from the file names. An inbox can have a name
    /// that no member has. This function blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be listed.
    pub fn inboxes(&self, team: &TeamDir) -> Result<Vec<AgentName>, StoreError> {
        let inboxes = list(&self.files().paths.inboxes(team))?;
        let is_inbox = |name: &&str| meaning(Place::Inboxes, name) == FileMeaning::Json;
        let names = inboxes.iter().map(|path| name_of(path)).filter(is_inbox);
        Ok(names.filter_map(|name| name.strip_suffix(".json")).map(AgentName::foreign).collect())
    }
}

struct Look<'a> {
    files: &'a Files,
    looked: Looked,
}

impl Look<'_> {
    fn at_root(&mut self) {
        let paths = &self.files.paths;
        if !self.is_folder(paths.root()) {
            return;
        }
        if self.is_folder(&paths.common()) {
            self.at_own_file(&paths.lifecycle());
            for folder in paths.folders().iter().filter(|it| it.parent() == Some(&paths.common())) {
                if self.is_folder(folder) && *folder == paths.rates() {
                    self.at_rates(folder);
                }
            }
            self.too_open(None);
        }
        let has_tasks = self.is_folder(&paths.all_tasks()) || self.is_nothing(&paths.all_tasks());
        if self.is_folder(&paths.teams()) {
            for path in self.listed(&paths.teams()) {
                self.at_team(&path, has_tasks);
            }
        }
        if has_tasks {
            for path in self.listed(&paths.all_tasks()) {
                self.at_archived_tasks(&path);
            }
        }
    }

    fn too_open(&mut self, team: Option<&TeamDir>) {
        let open = self.files.too_open(team, Treatment::Name);
        if !open.is_empty() {
            let path =
                team.map_or_else(|| self.files.paths.common(), |team| self.files.paths.team(team));
            self.found(Damage::TooOpen { team: team.cloned(), path, open });
        }
    }

    /// Checks the files that count actions for rate limits. The content of these files does not
    /// matter.
    fn at_rates(&mut self, folder: &Path) {
        for path in self.listed(folder) {
            self.at_own_file(&path);
        }
    }

    /// Checks a file of pitcrew whose content does not matter. Only the kind of entry and its
    /// length are checked.
    fn at_own_file(&mut self, path: &Path) {
        let torn = |reason: &str| Damage::torn(path.to_owned(), reason.to_owned());
        match Stands::at(path) {
            Ok(Stands::Nothing) => {}
            Ok(Stands::File) => {
                if fs::symlink_metadata(path).is_ok_and(|meta| meta.len() > plain::FILE_MOST) {
                    self.found(torn("it is longer than any such file is"));
                }
            }
            Ok(Stands::Folder) if !list(path).is_ok_and(|inside| inside.is_empty()) => {
                self.found(Damage::Occupied { path: path.to_owned() });
            }
            Ok(Stands::Folder | Stands::Link | Stands::Other) => {
                self.found(torn("it is not a regular file, but must be one"));
            }
            Err(error) => self.unseen(path, &error),
        }
    }

    fn at_team(&mut self, path: &Path, has_tasks: bool) {
        let name = name_of(path);
        if is_unborn(name) && matches!(Stands::at(path), Ok(Stands::Folder)) {
            if is_older(path, TEMP_DEAD_AFTER) {
                self.found(Damage::Unfinished { path: path.to_owned() });
            }
            return;
        }
        let team = TeamDir::of(name);
        let is_named_so = team.as_str() == name && !name.is_empty();
        // A plain file in the folder of all teams does no harm, so it is ignored.
        if matches!(Stands::at(path), Ok(Stands::File | Stands::Other)) {
            return;
        }
        let is_folder = self.is_folder(path);
        if is_folder
            && !is_named_so
            && !matches!(Stands::at(&path.join(CONFIG)), Ok(Stands::Nothing))
        {
            let reason = "no team has a folder of this name".to_owned();
            self.found(Damage::BadConfig { path: path.join(CONFIG), reason });
        }
        let is_team = is_folder && is_named_so && self.has_config(&team);
        if !is_team {
            self.looked.others.push(team);
            return;
        }
        let ours = self.files.paths.ours(&team);
        let places = [
            (path.to_owned(), Place::Team),
            (self.files.paths.inboxes(&team), Place::Inboxes),
            (ours.clone(), Place::Ours),
            (ours.join("transcripts"), Place::Logs),
            (ours.join("read"), Place::Logs),
            (ours.join("output"), Place::Output),
            (self.files.paths.write_logs(&team), Place::Writes),
            (self.files.paths.tasks(&team), Place::Tasks),
        ];
        let mut is_sound = has_tasks;
        for (folder, place) in
            places.into_iter().filter(|(_, place)| has_tasks || *place != Place::Tasks)
        {
            // If a parent folder is a link, the folder is treated as missing.
            let is_reached =
                folder.parent().is_some_and(|it| matches!(Stands::at(it), Ok(Stands::Folder)));
            if !is_reached || self.is_nothing(&folder) {
                continue;
            }
            match self.is_folder(&folder) {
                true => self.at_folder(&folder, place),
                false => is_sound = false,
            }
        }
        self.too_open(Some(&team));
        match is_sound {
            true => self.looked.teams.push(team),
            false => self.looked.others.push(team),
        }
    }

    /// Whether the folder contains the valid config of its team. If it does not, records the fault.
    fn has_config(&mut self, team: &TeamDir) -> bool {
        let path = self.files.paths.config(team);
        let bytes = match plain::read(&path, plain::FILE_MOST) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                self.found(Damage::NoConfig { path: self.files.paths.team(team) });
                return false;
            }
            Err(error) => {
                self.failed(&path, error, |path, reason| Damage::BadConfig { path, reason });
                return false;
            }
        };
        let reason = match self.settled_config(&path, bytes) {
            Err(Fault::Torn(reason)) if self.is_being_written(&path) => {
                let reason = format!(
                    "{reason}; it changed only moments ago, and a client may be writing it: look again"
                );
                self.found(Damage::Unseen { path, reason });
                return false;
            }
            Err(Fault::Torn(reason)) if self.has_end_of_a_longer(&path) => {
                format!(
                    "{reason}: the end of a longer write, which `pitcrew team show {team}` cuts off"
                )
            }
            Err(Fault::Torn(reason) | Fault::TooMuch(reason)) => reason,
            Err(Fault::Failed(error)) => {
                self.unseen(&path, &error);
                return false;
            }
            Ok(config) if config.name.dir() == *team => return true,
            Ok(config) => format!(
                "it is the config of team {}, whose folder is {}",
                config.name,
                config.name.dir()
            ),
        };
        self.found(Damage::BadConfig { path, reason });
        false
    }

    /// Whether the file is perhaps being written by a client at this moment. This is possible if
    /// the file is not valid JSON and has changed recently.
    fn is_being_written(&self, path: &Path) -> bool {
        let is_json = plain::read(path, plain::FILE_MOST).is_ok_and(|read| {
            read.is_some_and(|bytes| {
                serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok()
            })
        });
        !is_json && !is_older(path, WRITING_MOST)
    }

    fn has_end_of_a_longer(&self, path: &Path) -> bool {
        plain::read(path, plain::FILE_MOST)
            .is_ok_and(|read| read.is_some_and(|it| without_end_of_a_longer(&it).is_some()))
    }

    /// Reads a damaged config again several times, because a client may be writing the config in
    /// place. This check takes no lock, so it cannot wait for that client in another way.
    fn settled_config(&self, path: &Path, bytes: Vec<u8>) -> Result<TeamConfig, Fault> {
        let mut read = parse_config(&bytes);
        for _ in 0..TORN_TRIES {
            if !matches!(read, Err(Fault::Torn(_))) || is_older(path, WRITING_MOST) {
                break;
            }
            std::thread::sleep(TORN_PAUSE);
            let bytes = plain::read(path, plain::FILE_MOST)?.unwrap_or_default();
            read = parse_config(&bytes);
        }
        read
    }

    fn at_folder(&mut self, folder: &Path, place: Place) {
        for path in self.listed(folder) {
            let name = name_of(&path);
            match meaning(place, name) {
                FileMeaning::Foreign if place == Place::Ours && lease_in(name).is_some() => {
                    self.at_own_file(&path)
                }
                FileMeaning::Foreign => self.at_foreign(&path, place),
                FileMeaning::Temporary if is_older(&path, TEMP_DEAD_AFTER) => {
                    self.found(Damage::Unfinished { path })
                }
                FileMeaning::Lock if is_stale(&path) => match is_free(&path) {
                    Ok(true) => self.found(Damage::StaleLock { path }),
                    Ok(false) => self.found(Damage::Occupied { path }),
                    Err(error) => self.unseen(&path, &error),
                },
                FileMeaning::Temporary | FileMeaning::Lock => {}
                FileMeaning::Lines => self.at_lines(&path),
                // The config of the team was already checked.
                FileMeaning::Json if place == Place::Team => {}
                FileMeaning::Json | FileMeaning::HighWater => self.at_json(&path, place),
            }
        }
    }

    fn at_json(&mut self, path: &Path, place: Place) {
        if matches!(Stands::at(path), Ok(Stands::Folder))
            && !list(path).is_ok_and(|inside| inside.is_empty())
        {
            return self.found(Damage::Occupied { path: path.to_owned() });
        }
        // The state of the file is taken first, and then the file is read twice. If the file
        // changes later, its state differs, and a repair does not touch the file.
        let seen = FileState::at(path);
        let looks = (fault_of(path, place), fault_of(path, place));
        match looks {
            (Ok(Some(_)), Ok(Some(Wrong::Torn(reason)))) => {
                self.found(Damage::Torn { path: path.to_owned(), reason, seen });
            }
            (Ok(Some(_)), Ok(Some(Wrong::NoTask))) => {
                self.found(Damage::NoTask { path: path.to_owned() })
            }
            (Ok(Some(_)), Ok(Some(Wrong::Newer(version)))) => {
                self.found(Damage::Newer { path: path.to_owned(), version });
            }
            (Ok(_), Ok(_)) => {}
            (_, Err(error)) | (Err(error), _) => self.unseen(path, &error),
        }
    }

    /// Checks a `.json` file of another program in the task folder. Programs that list tasks read
    /// every such file and report a file that is unreadable.
    fn at_foreign(&mut self, path: &Path, place: Place) {
        let is_read =
            place == Place::Tasks && path.extension().is_some_and(|ending| ending == "json");
        if !is_read {
            return;
        }
        let is_torn = |_: &()| match plain::read(path, plain::FILE_MOST) {
            Ok(Some(bytes)) => serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err(),
            Ok(None) | Err(StoreError::Io { .. }) => false,
            Err(_) => true,
        };
        // The file is read twice, because another program may be writing it during the first read.
        if [(), ()].iter().all(is_torn) {
            self.found(Damage::NoTask { path: path.to_owned() });
        }
    }

    fn at_lines(&mut self, path: &Path) {
        let is_journal = name_of(path) == super::paths::JOURNAL;
        let seen = FileState::at(path);
        // Announces a long log before it is read. The user then knows why the command waits.
        if let Ok(meta) = fs::symlink_metadata(path) {
            self.files.disk.tell_reading(path, meta.len());
        }
        let lines = match lines::read_bytes(path) {
            Ok(lines) => lines,
            Err(error) => {
                return self.failed(path, error, |path, reason| Damage::Torn {
                    path,
                    reason,
                    seen,
                });
            }
        };
        let (mut bad, mut newest) = (Vec::new(), None);
        for (number, line) in (1..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
            // An incomplete last line is not damage, because the next append removes it.
            let Some(line) = line.strip_suffix(b"\n").filter(|line| !line.trim_ascii().is_empty())
            else {
                continue;
            };
            let read = match is_journal {
                // Most lines are valid journal entries. The check for a journal entry is faster
                // than parsing the line as a JSON value, so it comes first.
                true if serde_json::from_slice::<JournalEntry>(line).is_ok() => continue,
                true | false => serde_json::from_slice::<serde_json::Value>(line).ok(),
            };
            match read.filter(serde_json::Value::is_object) {
                Some(line) if newer_line(&line).is_some() => newest = newest.max(newer_line(&line)),
                Some(_) if !is_journal => {}
                Some(_) | None => bad.push(BadLine { number, bytes: line.to_owned() }),
            }
        }
        // If a later version of pitcrew wrote to this log, its lines can have an unknown form.
        // Therefore no line of this log is reported as bad.
        if let Some(version) = newest {
            return self.found(Damage::Newer { path: path.to_owned(), version });
        }
        if !bad.is_empty() {
            self.found(Damage::BadLines { path: path.to_owned(), lines: bad });
        }
    }

    fn at_archived_tasks(&mut self, path: &Path) {
        let team = TeamDir::of(name_of(path));
        let is_without_team = team.as_str() == name_of(path)
            && matches!(Stands::at(path), Ok(Stands::Folder))
            && matches!(Stands::at(&self.files.paths.team(&team)), Ok(Stands::Nothing));
        if !is_without_team {
            return;
        }
        match self.files.unfinished_archive(&team) {
            Ok(Some(_)) => self.found(Damage::HalfArchived { team, path: path.to_owned() }),
            Ok(None) => {}
            Err(error) => self.unseen(path, &error),
        }
    }

    /// Whether the entry at the path is a folder. An entry of another kind is recorded as damage.
    fn is_folder(&mut self, path: &Path) -> bool {
        // The user chose the root, so the root is allowed to be a link.
        let stands = match path == self.files.paths.root() && path.is_dir() {
            true => Ok(Stands::Folder),
            false => Stands::at(path),
        };
        match stands {
            Ok(Stands::Folder) => return true,
            Ok(Stands::Nothing) => {}
            Ok(Stands::Link) => self.found(Damage::Link { path: path.to_owned() }),
            Ok(Stands::File | Stands::Other) => {
                self.found(Damage::NoFolder { path: path.to_owned() })
            }
            Err(error) => self.unseen(path, &error),
        }
        false
    }

    fn is_nothing(&self, path: &Path) -> bool {
        matches!(Stands::at(path), Ok(Stands::Nothing))
    }

    fn listed(&mut self, folder: &Path) -> Vec<PathBuf> {
        list(folder).unwrap_or_else(|error| {
            self.unseen(folder, &error);
            Vec::new()
        })
    }

    fn found(&mut self, damage: Damage) {
        self.looked.found.push(damage);
    }

    fn unseen(&mut self, path: &Path, error: &StoreError) {
        self.found(Damage::Unseen { path: path.to_owned(), reason: chain(error) });
    }

    fn failed(
        &mut self,
        path: &Path,
        error: StoreError,
        corrupt: impl FnOnce(PathBuf, String) -> Damage,
    ) {
        match error {
            StoreError::Corrupt { reason, .. } => self.found(corrupt(path.to_owned(), reason)),
            error => self.unseen(path, &error),
        }
    }
}

/// A fault of a file that should contain one JSON value.
enum Wrong {
    Torn(String),
    NoTask,
    Newer(u64),
}

fn fault_of(path: &Path, place: Place) -> Result<Option<Wrong>, StoreError> {
    let bytes = match plain::read(path, plain::FILE_MOST) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(StoreError::Corrupt { reason, .. }) => return Ok(Some(Wrong::Torn(reason))),
        Err(error) => return Err(error),
    };
    if meaning(place, name_of(path)) == FileMeaning::HighWater {
        let text = String::from_utf8_lossy(&bytes);
        let reason = || Wrong::Torn("it contains no number".to_owned());
        return Ok(text.trim().parse::<u64>().is_err().then(reason));
    }
    if place == Place::Inboxes {
        let fault = array::check(&bytes).and_then(|text| array::check_room(text, 1)).err();
        return Ok(fault.map(|fault| Wrong::Torn(fault.into_reason())));
    }
    Ok(match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Err(error) => Some(Wrong::Torn(error.to_string())),
        Ok(_) if place == Place::Tasks => {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_task = parse::<Task>(&bytes).is_ok_and(|task| task.id.as_str() == stem);
            (!is_task && !is_marked_deleted(&bytes, stem)).then_some(Wrong::NoTask)
        }
        Ok(_) if place != Place::Ours || name_of(path) == SETTINGS => None,
        Ok(document) => match newer_document(&document) {
            Some(version) => Some(Wrong::Newer(version)),
            None if document.is_object() || document.is_array() || document.is_null() => None,
            None => Some(Wrong::Torn("it is not a file of pitcrew".to_owned())),
        },
    })
}

/// Whether these bytes are the task `id` with the status `deleted`. The API reference allows this
/// status, so a program that follows the API reference can leave such a file. Pitcrew and the
/// reference client remove the file of a deleted task instead.
pub(crate) fn is_marked_deleted(bytes: &[u8], id: &str) -> bool {
    let Ok(task) = serde_json::from_slice::<serde_json::Value>(bytes) else { return false };
    let is =
        |key: &str, text: &str| task.get(key).and_then(serde_json::Value::as_str) == Some(text);
    is("status", "deleted") && (is("id", id) || task.get("id").is_none() && is("taskId", id))
}

/// Whether the lock was not refreshed for so long that nobody holds it any more.
pub(crate) fn is_stale(lock: &Path) -> bool {
    let changed = fs::symlink_metadata(lock).and_then(|meta| meta.modified());
    let is_from_future = |time: SystemTime| {
        time.duration_since(SystemTime::now()).is_ok_and(|ahead| ahead > FUTURE_MOST)
    };
    is_older(lock, STALE_AFTER) || changed.is_ok_and(is_from_future)
}

/// Whether the lock can be removed without losing data. This is true for an empty folder. It is
/// also true for a file, because some tools create files as locks.
pub(crate) fn is_free(lock: &Path) -> Result<bool, StoreError> {
    Ok(match Stands::at(lock)? {
        Stands::Folder => list(lock)?.is_empty(),
        Stands::File | Stands::Nothing => true,
        Stands::Link | Stands::Other => false,
    })
}

pub(crate) fn is_older(path: &Path, age: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    changed.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|since| since > age))
}

pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

pub(crate) fn list(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|e| e.path()).map_err(failed("list", dir))).collect()
        }
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(failed("list", dir)(error)),
    }
}

/// Formats an error and all its causes as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
