//! What crashes and careless writers leave behind: found without changing anything, and mended when asked to.
//!
//! Nothing that is found stands in anybody's way: a stale lock is broken by whoever needs it, a leftover is read by
//! nobody, a torn file is told to whoever reads it. Mending keeps what it takes out, in the archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pitcrew_protocol::{AgentName, TaskId, TeamDir};
use serde_json::value::RawValue;

use super::array;
use super::backend::{FileBackend, Files};
use super::disk::{Snapshot, TEMP_PREFIX, failed, is_absent, make_dir};
use super::lock;
use super::teams;
use super::update::{self, Fault, Plan};
use crate::StoreError;

/// A temporary file or folder this old is nobody's: the longest wait for a lock, twice.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// Something that a crash or a careless writer left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What it is.
    pub kind: LeavingKind,
    /// Where it is.
    pub path: PathBuf,
    /// Whose folder it is in; absent for what belongs to no team.
    pub team: Option<TeamDir>,
    /// More, in words: what is wrong with a file.
    pub detail: String,
}

/// The kinds of what is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingKind {
    /// A lock, folder or file, whose holder gave no sign for 10 s.
    StaleLock,
    /// A temporary file or folder of ours.
    Leftover,
    /// An inbox that is not one whole JSON array.
    TornInbox,
    /// A task that is not JSON.
    TornTask,
    /// A config that cannot be read.
    TornConfig,
    /// A team that was moved to the archive without its tasks.
    HalfArchived,
}

impl FileBackend {
    /// Looks for what was left behind below the root. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a folder cannot be listed or a file not read.
    pub async fn survey(&self) -> Result<Vec<Leaving>, StoreError> {
        self.run(|files| files.survey()).await
    }

    /// Whose inboxes there are in a team, members' or not, by the names of the files.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the folder cannot be listed.
    pub async fn inboxes(&self, team: &TeamDir) -> Result<Vec<AgentName>, StoreError> {
        let team = team.clone();
        self.run(move |files_of| {
            let inboxes = files(&files_of.paths.inboxes(&team))?;
            let stem = |path: &PathBuf| Some(AgentName::foreign(path.file_stem()?.to_str()?));
            Ok(inboxes.iter().filter(|path| is_json(path)).filter_map(stem).collect())
        })
        .await
    }

    /// Mends what a survey found, if it is still so, and says what was done; nothing for what only a person can mend.
    ///
    /// # Errors
    /// When it is still there and could not be mended.
    pub async fn mend(&self, leaving: &Leaving) -> Result<Option<String>, StoreError> {
        let leaving = leaving.clone();
        self.run(move |files| files.mend(&leaving)).await
    }
}

impl Files {
    fn survey(&self) -> Result<Vec<Leaving>, StoreError> {
        let mut found = Vec::new();
        for dir in folders(&self.paths.teams())? {
            match named(&dir) {
                Some(team) => self.survey_team(&team, &mut found)?,
                None if is_left(&dir) => found.push(leaving(LeavingKind::Leftover, dir, None, "")),
                None => {}
            }
        }
        for dir in folders(&self.paths.all_tasks())? {
            let Some(team) = named(&dir) else { continue };
            self.survey_tasks(&team, &dir, &mut found)?;
            if matches!(self.must_exist(&team), Err(StoreError::NoTeam { .. })) && self.unfinished_archive(&team)?.is_some()
            {
                found.push(leaving(LeavingKind::HalfArchived, dir, Some(&team), "its tasks are not archived yet"));
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn survey_team(&self, team: &TeamDir, found: &mut Vec<Leaving>) -> Result<(), StoreError> {
        let config = self.paths.config(team);
        for dir in [self.paths.team(team), self.paths.inboxes(team), self.paths.ours(team)] {
            for path in files(&dir)? {
                found.extend(lock_or_leftover(&path, team));
            }
        }
        match self.team(team) {
            Ok(_) | Err(StoreError::NoTeam { .. }) => {}
            Err(StoreError::Corrupt { reason, .. }) => {
                found.push(leaving(LeavingKind::TornConfig, config, Some(team), &reason));
            }
            Err(error) => return Err(error),
        }
        for path in files(&self.paths.inboxes(team))?.into_iter().filter(|path| is_json(path)) {
            let check = |s: Option<&Snapshot>| s.map_or(Ok(()), |s| array::check(&s.bytes).map(drop).map_err(Fault::Torn));
            found.extend(torn(LeavingKind::TornInbox, &path, &path, team, check)?);
        }
        Ok(())
    }

    fn survey_tasks(&self, team: &TeamDir, dir: &Path, found: &mut Vec<Leaving>) -> Result<(), StoreError> {
        let list = self.paths.task_list(team);
        for path in files(dir)? {
            found.extend(lock_or_leftover(&path, team));
            if is_json(&path) {
                let check = |s: Option<&Snapshot>| s.map_or(Ok(()), |s| teams::parse::<serde_json::Value>(&s.bytes).map(drop));
                found.extend(torn(LeavingKind::TornTask, &path, &list, team, check)?);
            }
        }
        Ok(())
    }

    fn mend(&self, leaving: &Leaving) -> Result<Option<String>, StoreError> {
        let path = &leaving.path;
        match (leaving.kind, &leaving.team) {
            (LeavingKind::StaleLock, _) => Ok(lock::break_if_stale(path)?.then(|| "broken".to_owned())),
            (LeavingKind::Leftover, _) if is_left(path) => {
                let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                removed.map_err(failed("remove", path))?;
                Ok(Some("removed".to_owned()))
            }
            (LeavingKind::TornInbox, Some(team)) => self.mend_inbox(team, path),
            (LeavingKind::TornTask, Some(team)) => self.mend_task(team, path),
            (LeavingKind::HalfArchived, Some(team)) => {
                let archive = self.archive_team(team)?;
                Ok(Some(format!("archived in {}", archive.display())))
            }
            (
                LeavingKind::Leftover | LeavingKind::TornInbox | LeavingKind::TornTask | LeavingKind::HalfArchived,
                _,
            )
            | (LeavingKind::TornConfig, _) => Ok(None),
        }
    }

    /// Keeps the whole entries of a torn inbox, and a copy of all of it.
    fn mend_inbox(&self, team: &TeamDir, path: &Path) -> Result<Option<String>, StoreError> {
        let updated = update::update(&self.disk, path, path, |before| {
            let Some(before) = before else { return Ok(Plan::Keep(None)) };
            if array::check(&before.bytes).is_ok() {
                return Ok(Plan::Keep(None));
            }
            let copy = self.keep_torn(team, path, &before.bytes)?;
            let entries = whole_entries(&before.bytes);
            let text = if entries.is_empty() { "[]".to_owned() } else { format!("[\n  {}\n]", entries.join(",\n  ")) };
            let done = format!("kept {} whole messages; all of it is in {}", entries.len(), copy.display());
            Ok(Plan::Write(text.into_bytes(), Some(done)))
        })?;
        Ok(updated.value)
    }

    /// Takes a torn task off the list, whose ids are never used again, and keeps a copy of it.
    fn mend_task(&self, team: &TeamDir, path: &Path) -> Result<Option<String>, StoreError> {
        let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(TaskId::parse).map_or(0, |id| id.number());
        let (list, high_water) = (self.paths.task_list(team), self.paths.high_water(team));
        let known = |before: Option<&Snapshot>| {
            before.and_then(|s| std::str::from_utf8(&s.bytes).ok()?.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        update::update(&self.disk, &high_water, &list, |before| {
            Ok(if known(before) >= id { Plan::Keep(()) } else { Plan::Write(id.to_string().into_bytes(), ()) })
        })?;
        let updated = update::update(&self.disk, path, &list, |before| {
            let Some(before) = before else { return Ok(Plan::Keep(None)) };
            if teams::parse::<serde_json::Value>(&before.bytes).is_ok() {
                return Ok(Plan::Keep(None));
            }
            let copy = self.keep_torn(team, path, &before.bytes)?;
            Ok(Plan::Remove(Some(format!("moved to {}", copy.display()))))
        })?;
        Ok(updated.value)
    }

    /// Puts the bytes of a torn file into the archive, durably.
    fn keep_torn(&self, team: &TeamDir, path: &Path, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let dir = self.paths.archive().join("torn");
        make_dir(&dir)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let copy = dir.join(format!("{team}-{}-{name}", uuid::Uuid::new_v4().simple()));
        self.disk.create(&copy, bytes)?;
        self.disk.force_dir(&dir)?;
        Ok(copy)
    }
}

fn leaving(kind: LeavingKind, path: PathBuf, team: Option<&TeamDir>, detail: &str) -> Leaving {
    Leaving { kind, path, team: team.cloned(), detail: detail.to_owned() }
}

/// What is wrong with the file, if `check` says that something is, also under the lock.
fn torn(
    kind: LeavingKind,
    path: &Path,
    lock_of: &Path,
    team: &TeamDir,
    check: impl FnMut(Option<&Snapshot>) -> Result<(), Fault>,
) -> Result<Option<Leaving>, StoreError> {
    match update::read(path, lock_of, check) {
        Ok(()) => Ok(None),
        Err(StoreError::Corrupt { reason, .. }) => Ok(Some(leaving(kind, path.to_owned(), Some(team), &reason))),
        Err(error) => Err(error),
    }
}

fn lock_or_leftover(path: &Path, team: &TeamDir) -> Option<Leaving> {
    if lock::is_lock(path) {
        return lock::is_stale(path).then(|| leaving(LeavingKind::StaleLock, path.to_owned(), Some(team), ""));
    }
    is_left(path).then(|| leaving(LeavingKind::Leftover, path.to_owned(), Some(team), ""))
}

/// Whether it is a temporary file or folder of ours that nobody can be writing any more.
fn is_left(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_temporary =
        name.starts_with(TEMP_PREFIX) || name.starts_with(super::lifecycle::UNBORN) || lock::is_set_aside(path);
    let age = fs::symlink_metadata(path).and_then(|meta| meta.modified()).ok().map(|at| SystemTime::now().duration_since(at));
    is_temporary && matches!(age, Some(Ok(age)) if age > LEFT_AFTER)
}

fn is_json(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension == "json")
}

/// The team whose folder it is, if it is the folder of one.
fn named(dir: &Path) -> Option<TeamDir> {
    let name = dir.file_name()?.to_str()?;
    let team = TeamDir::of(name);
    (team.as_str() == name).then_some(team)
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    Ok(files(dir)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// What is in a folder; nothing when it is not there.
fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", dir)(error)),
    };
    entries.map(|entry| Ok(entry.map_err(failed("list", dir))?.path())).collect()
}

/// The entries that stand whole at the beginning of a torn array.
fn whole_entries(bytes: &[u8]) -> Vec<&str> {
    let end = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    let text = bytes.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let mut entries = Vec::new();
    let Some((_, mut rest)) = text.split_once('[') else { return entries };
    loop {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let Some(Ok(entry)) = values.next() else { return entries };
        entries.push(entry.get());
        let after = rest.get(values.byte_offset()..).unwrap_or_default().trim_start();
        let Some(more) = after.strip_prefix(',') else { return entries };
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::{Message, MessageId, TeamConfig};

    use super::*;
    use crate::{Backend as _, FileOptions};

    fn age(path: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    async fn crew(root: &Path) -> (FileBackend, TeamDir) {
        let store = FileBackend::open(root, FileOptions::default());
        let config: TeamConfig = serde_json::from_str(r#"{"name":"crew","members":[{"name":"team-lead"}]}"#).unwrap();
        store.create_team(&config).await.unwrap();
        (store, config.name.dir())
    }

    async fn check(store: &FileBackend, kind: LeavingKind, path: &str) -> String {
        let found = store.survey().await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, kind);
        assert!(found[0].path.ends_with(path), "{found:?}");
        let done = store.mend(&found[0]).await.unwrap().unwrap();
        assert_eq!(store.survey().await.unwrap(), []);
        done
    }

    #[tokio::test]
    async fn nothing_is_found_in_a_sound_root() {
        let root = tempfile::tempdir().unwrap();
        let (store, _) = crew(root.path()).await;
        fs::create_dir(root.path().join("teams/crew/inboxes/x.json.lock")).unwrap();
        fs::write(root.path().join("teams/crew/.pitcrew-now.tmp"), "").unwrap();
        age(&root.path().join("tasks/crew/.lock"), 3600);
        assert_eq!(store.survey().await.unwrap(), [], "fresh locks and files are somebody's");
    }

    #[tokio::test]
    async fn stale_locks_of_both_kinds_and_leftovers_are_found_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let (store, _) = crew(root.path()).await;
        for (path, is_dir, kind) in [
            ("teams/crew/inboxes/bob.json.lock", true, LeavingKind::StaleLock),
            ("teams/crew/config.json.lock", false, LeavingKind::StaleLock),
            ("tasks/crew/.lock.lock", true, LeavingKind::StaleLock),
            ("teams/crew/inboxes/.pitcrew-1.tmp", false, LeavingKind::Leftover),
            ("teams/.new-1", true, LeavingKind::Leftover),
        ] {
            let full = root.path().join(path);
            if is_dir { fs::create_dir(&full).unwrap() } else { fs::write(&full, "4711").unwrap() }
            age(&full, 120);
            check(&store, kind, path).await;
            assert!(!full.exists(), "{path}");
        }
    }

    #[tokio::test]
    async fn of_a_torn_inbox_the_whole_messages_stay_and_a_copy_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let (store, team) = crew(root.path()).await;
        let inbox = AgentName::lead().inbox_file();
        for n in 0..3 {
            let message = Message::new("bob", format!("word {n} ü"), "t".into()).with_id(&MessageId(n.to_string()));
            let _new = store.append(&team, &inbox, message).await.unwrap();
        }
        let path = root.path().join("teams/crew/inboxes/team-lead.json");
        let whole = fs::read(&path).unwrap();
        let cut = whole.windows(2).rposition(|w| w == "ü".as_bytes()).unwrap() + 1;
        fs::write(&path, &whole[..cut]).unwrap();
        let done = check(&store, LeavingKind::TornInbox, "team-lead.json").await;
        assert!(done.starts_with("kept 2 whole messages"), "{done}");
        let left: Vec<_> = store.inbox(&team, &inbox).await.unwrap().into_iter().map(|s| s.id.0).collect();
        assert_eq!(left, ["0", "1"]);
        let kept = fs::read_dir(root.path().join("pitcrew/archive/torn")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read(kept).unwrap(), &whole[..cut]);
    }

    #[tokio::test]
    async fn a_torn_task_leaves_the_list_and_its_id_is_not_used_again() {
        let root = tempfile::tempdir().unwrap();
        let (store, team) = crew(root.path()).await;
        fs::write(root.path().join("tasks/crew/7.json"), "{\"id\": \"7\", \"sub").unwrap();
        check(&store, LeavingKind::TornTask, "7.json").await;
        let (tell, told) = std::sync::mpsc::channel();
        let edit = Box::new(move |table: &mut crate::TaskTable| {
            tell.send(table.next_id).unwrap();
            Ok(())
        });
        store.edit_tasks(&team, edit).await.unwrap();
        assert_eq!(told.recv().unwrap(), 8);
    }

    #[tokio::test]
    async fn a_torn_config_is_told_and_left_to_a_person() {
        let root = tempfile::tempdir().unwrap();
        let (store, _) = crew(root.path()).await;
        fs::write(root.path().join("teams/crew/config.json"), "{").unwrap();
        let found = store.survey().await.unwrap();
        assert_eq!(found.iter().map(|f| f.kind).collect::<Vec<_>>(), [LeavingKind::TornConfig]);
        assert_eq!(store.mend(&found[0]).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_team_that_was_archived_without_its_tasks_is_archived_whole() {
        let root = tempfile::tempdir().unwrap();
        let (store, team) = crew(root.path()).await;
        let archive = store.archive_team(&team).await.unwrap();
        fs::rename(archive.join("tasks"), root.path().join("tasks/crew")).unwrap();
        check(&store, LeavingKind::HalfArchived, "tasks/crew").await;
        assert!(archive.join("tasks").is_dir());
    }
}
