//! A team's tasks as files. The task table is cached until a file changes.
//!
//! The store reads the tasks and applies an edit to them without holding the lock. Then it takes
//! the lock. If the tasks have changed since they were read, the edit is repeated. Each task file
//! is replaced as a whole. Files in which only a dependency changed are replaced last. After a
//! crash, such a dependency can be in the file of only one of its two tasks. The next read then
//! adds the dependency to the other task.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pitcrew_protocol::{Task, TaskId, TeamDir};

use super::backend::Files;
use super::disk::{Snapshot, Temp, make_dir, remove_file};
use super::folders::Changed;
use super::lines;
use super::lock::Lock;
use super::look::name_of;
use super::lost_updates::{self, FieldChange, FieldWrite};
use super::plain;
use super::teams::{pretty, value_of};
use super::update::{self, Fault};
use super::written_log;
use crate::{Overwritten, StoreError, TaskEdit, TaskTable, table};

mod entries;

use entries::{Entry, Holds, list, read_all};

/// Number of tries of an edit before the edit fails. From the try `LOCKED_FROM` on, counted from 0,
/// an edit holds the lock of the list during the whole try.
const TRIES: usize = 20;
const LOCKED_FROM: usize = 2;

/// The cached task tables, one for each team that was read.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    teams: Mutex<HashMap<TeamDir, Arc<Mutex<Table>>>>,
}

/// The task files of a team at the last read.
#[derive(Debug, Default)]
struct Table {
    files: HashMap<String, Entry>,
    high_water: u64,
    current: Option<Reading>,
    /// The tasks that were last compared with the log of pitcrew's writes. The number is the length
    /// of the log before that comparison.
    verified: Option<(Arc<[Task]>, u64)>,
}

/// The task list of a team, and the id of the next task, at the time of one read.
#[derive(Clone, Debug)]
struct Reading {
    listed: Arc<[Task]>,
    next_id: u64,
}

impl Reading {
    fn table(&self) -> TaskTable {
        let tasks = self.listed.iter().map(|task| (task.id.clone(), task.clone())).collect();
        TaskTable { tasks, next_id: self.next_id }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listed, &other.listed)
            || (self.listed == other.listed && self.next_id == other.next_id)
    }
}

impl Tables {
    fn of(&self, team: &TeamDir) -> Arc<Mutex<Table>> {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(teams.entry(team.clone()).or_default())
    }

    pub(crate) fn forget(&self, team: &TeamDir) {
        self.teams.lock().unwrap_or_else(PoisonError::into_inner).remove(team);
    }
}

impl Files {
    pub(crate) fn tasks(&self, team: &TeamDir) -> Result<Arc<[Task]>, StoreError> {
        self.must_exist(team)?;
        let mut reading = self.read_tasks(team, None)?;
        for _ in 0..TRIES {
            if self.is_verified(team, &reading) {
                break;
            }
            self.verify_tasks(team)?;
            reading = self.read_tasks(team, None)?;
        }
        Ok(reading.listed)
    }

    pub(crate) fn edit_tasks(&self, team: &TeamDir, mut edit: TaskEdit) -> Result<(), StoreError> {
        self.must_exist(team)?;
        let (list, log) = (self.paths.task_list(team), self.paths.task_writes(team));
        make_dir(&self.paths.tasks(team))?;
        for tries in 0..TRIES {
            self.verify_tasks(team)?;
            let lock = if tries >= LOCKED_FROM { Some(self.disk.lock(&list)?) } else { None };
            let reading = self.read_tasks(team, lock.as_ref())?;
            // Another program may have just overwritten a file with an older version, in which a
            // claimed task looks free. Therefore the tasks must be compared with the log before the
            // edit.
            let Some(logged) = self.verified(team, &reading) else { continue };
            let before = reading.table();
            let mut edited = before.clone();
            edit(&mut edited)?;
            table::settle(&before, &mut edited)?;
            let Some(changes) = self.prepare(team, &before, &edited)? else { return Ok(()) };
            let mut lock = match lock {
                Some(lock) => lock,
                None => self.disk.lock(&list)?,
            };
            self.disk.crash_point("list locked");
            // If a log line was added after `reading`, it can describe a write that `reading` does
            // not contain.
            let is_as_read =
                self.read_tasks(team, Some(&lock))?.is(&reading) && lines::length(&log) == logged;
            if !is_as_read || !lock.is_held() {
                continue;
            }
            let written = self.put(changes)?;
            // The changes are logged before the lock is released. The next process that claims a
            // task must know this claim, even if another program has already overwritten the task
            // file.
            written_log::note_fields(&self.disk, &log, logged, &written);
            drop(lock);
            self.disk.crash_point("list unlocked");
            self.disk.force_dir(&self.paths.tasks(team))?;
            self.verify_tasks(team)?;
            return Ok(());
        }
        // This line is reached only if other writers disturbed every try.
        Err(StoreError::Locked { path: list, waited_ms: 0, holder: None })
    }

    /// Writes the changes of an edit to temporary files. Returns `None` if the edit changed
    /// nothing.
    fn prepare(
        &self,
        team: &TeamDir,
        before: &TaskTable,
        edited: &TaskTable,
    ) -> Result<Option<Changes>, StoreError> {
        let mut changed: Vec<(&Task, Option<&Task>)> = edited
            .tasks
            .iter()
            .map(|(id, task)| (task, before.tasks.get(id)))
            .filter(|(task, was)| *was != Some(task))
            .collect();
        let removed: Vec<(PathBuf, Vec<FieldChange>)> = before
            .tasks
            .iter()
            .filter(|(id, _)| !edited.tasks.contains_key(*id))
            .map(|(id, task)| {
                let path = self.paths.task(team, id);
                let task = value_of(task).map_err(|fault| fault.at(&path))?;
                Ok((path, lost_updates::identity_of(&task)))
            })
            .collect::<Result<_, StoreError>>()?;
        if changed.is_empty() && removed.is_empty() {
            return Ok(None);
        }
        // Tasks in which only a dependency changed are written last. If a crash prevents this
        // write, the next read adds the missing dependency.
        changed.sort_by_key(|(task, was)| differs_in_edges_only(task, *was));
        let first_mentions =
            changed.partition_point(|(task, was)| !differs_in_edges_only(task, *was));
        let mut written = Vec::with_capacity(changed.len());
        for (task, was) in changed {
            let path = self.paths.task(team, &task.id);
            let bytes = pretty(task).map_err(|fault| fault.at(&path))?;
            let temp = self.disk.write_temp(&path, &bytes, None)?;
            let fields = changed_fields(was, task).map_err(|fault| fault.at(&path))?;
            written.push(Put { path, temp, fields });
        }
        let mentions = written.split_off(first_mentions);
        let high_water = if removed.is_empty() {
            None
        } else {
            let path = self.paths.high_water(team);
            let highest = edited.next_id.saturating_sub(1).to_string();
            Some((self.disk.write_temp(&path, highest.as_bytes(), None)?, path))
        };
        Ok(Some(Changes { high_water, tasks: written, removed, mentions }))
    }

    /// Replaces and removes the task files of an edit. The caller must hold the lock of the list.
    fn put(&self, changes: Changes) -> Result<Vec<FieldWrite>, StoreError> {
        // The stored highest used id is raised before a task is removed. Otherwise, after a crash
        // in between, a new task could get the id of the removed task.
        if let Some((temp, path)) = changes.high_water {
            temp.rename(&path)?;
            self.disk.crash_point("high water mark raised");
        }
        let mut done = Vec::new();
        let mut place = |put: Put| -> Result<(), StoreError> {
            let stamp = put.temp.rename(&put.path)?;
            self.disk.crash_point("task replaced");
            let file = name_of(&put.path).to_owned();
            done.push(FieldWrite {
                file,
                stamp: Some(stamp),
                fields: put.fields,
                is_removed: false,
            });
            Ok(())
        };
        for put in changes.tasks {
            place(put)?;
        }
        let mut removed = Vec::new();
        for (path, fields) in changes.removed {
            remove_file(&path)?;
            self.disk.crash_point("task removed");
            removed.push(FieldWrite {
                file: name_of(&path).to_owned(),
                stamp: None,
                fields,
                is_removed: true,
            });
        }
        for put in changes.mentions {
            place(put)?;
        }
        done.extend(removed);
        Ok(done)
    }

    /// Restores changes of tasks that a writer without the lock has overwritten. Returns the
    /// restored changes.
    pub(crate) fn verify_tasks(&self, team: &TeamDir) -> Result<Vec<Overwritten>, StoreError> {
        let mut found = Vec::new();
        for _ in 0..TRIES {
            let reading = self.read_tasks(team, None)?;
            if self.is_verified(team, &reading) {
                break;
            }
            let repaired = self.mend_tasks(team, &reading)?;
            if repaired.is_empty() {
                break;
            }
            found.extend(repaired);
        }
        Ok(found)
    }

    /// Compares the tasks with the log of pitcrew's writes. Restores missing changes and returns
    /// them.
    fn mend_tasks(
        &self,
        team: &TeamDir,
        reading: &Reading,
    ) -> Result<Vec<Overwritten>, StoreError> {
        let (folder, list, log) =
            (self.paths.tasks(team), self.paths.task_list(team), self.paths.task_writes(team));
        let table = self.tables.of(team);
        let suspects = {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.verified = Some((Arc::clone(&reading.listed), lines::length(&log)));
            self.logs.with_writes(&self.disk, &log, |writes| {
                let mut of_file: HashMap<&str, Vec<&FieldWrite>> = HashMap::new();
                for write in writes {
                    of_file.entry(write.file.as_str()).or_default().push(write);
                }
                let suspects = of_file.into_iter().filter(|(file, writes)| {
                    let stem = file.strip_suffix(".json").unwrap_or(file);
                    let Some(Entry { stamp, holds, .. }) = table.files.get(stem) else {
                        return false;
                    };
                    // In a damaged file, or in a task that is marked as deleted, nothing can be
                    // restored.
                    if matches!(holds, Holds::Torn(_) | Holds::Deleted) {
                        return false;
                    }
                    let is_as_left = writes.last().is_some_and(|last| last.stamp == Some(*stamp))
                        || self.logs.is_checked(&folder.join(file), stamp, writes.len() as u64);
                    let task = find(&reading.listed, stem);
                    !is_as_left
                        || !task.is_none_or(|task| {
                            lost_updates::has_last_mark(writes.iter().copied(), task)
                        })
                });
                suspects.map(|(file, _)| file.to_owned()).collect::<Vec<String>>()
            })?
        };
        let mut found = Vec::new();
        for file in suspects {
            let told_as = format!("tasks/{file}");
            found.extend(self.mend_fields::<Task>(
                team,
                &folder.join(&file),
                (&list, &log),
                told_as,
            )?);
        }
        Ok(found)
    }

    fn is_verified(&self, team: &TeamDir, reading: &Reading) -> bool {
        self.verified(team, reading) == Some(lines::length(&self.paths.task_writes(team)))
    }

    /// Returns the length that the log had when these tasks were compared with it. Returns `None`
    /// if these tasks were not compared with the log yet.
    fn verified(&self, team: &TeamDir, reading: &Reading) -> Option<u64> {
        if !self.puts_back.at_once() {
            return Some(lines::length(&self.paths.task_writes(team)));
        }
        let table = self.tables.of(team);
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let verified =
            table.verified.as_ref().filter(|(listed, _)| Arc::ptr_eq(listed, &reading.listed));
        verified.map(|(_, logged)| *logged)
    }

    /// Returns the present tasks. Reads only the files that changed since the last read.
    fn read_tasks(&self, team: &TeamDir, lock: Option<&Lock>) -> Result<Reading, StoreError> {
        let folder = self.paths.tasks(team);
        let table = self.tables.of(team);
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let changed =
            self.folders.lock().unwrap_or_else(PoisonError::into_inner).changed(team, &folder);
        let done = self.catch_up(team, &folder, &mut table, changed, lock);
        if done.is_err() {
            // The queue of changed files is already empty, although these files were not read.
            // Therefore the next call must read all files again.
            *table = Table::default();
            self.folders.lock().unwrap_or_else(PoisonError::into_inner).forget(team);
        }
        done
    }

    fn catch_up(
        &self,
        team: &TeamDir,
        folder: &Path,
        table: &mut Table,
        changed: Changed,
        lock: Option<&Lock>,
    ) -> Result<Reading, StoreError> {
        let (names, is_mark_due) = match (&changed, &table.current) {
            (Changed::Only(names), Some(reading)) if !names.iter().any(|n| matters(n)) => {
                return Ok(reading.clone());
            }
            (Changed::Only(names), Some(_)) => {
                let stems = names
                    .iter()
                    .filter_map(|n| n.strip_suffix(".json"))
                    .map(str::to_owned)
                    .collect();
                (stems, names.contains(HIGH_WATER))
            }
            (Changed::Only(_), None) | (Changed::Unknown, _) => (list(folder)?, true),
        };
        let is_all = matches!(changed, Changed::Unknown) || table.current.is_none();
        let known = table.files.len();
        if is_all {
            let there: std::collections::HashSet<&String> = names.iter().collect();
            table.files.retain(|stem, _| there.contains(stem));
        }
        let (read, torn) = read_all(folder, &names, &table.files)?;
        // A file that changed recently is read again each time, because its stamp is not reliable
        // yet. Usually the content is still the same.
        let mut is_same = table.current.is_some() && table.files.len() == known;
        let torn =
            torn.into_iter().map(|stem| Ok((stem.clone(), self.read_torn(team, &stem, lock)?)));
        let torn = torn.collect::<Result<Vec<_>, StoreError>>()?;
        for (stem, entry) in read.into_iter().chain(torn) {
            match entry {
                Some(entry) => {
                    let is_known = table.knows(&stem, &entry);
                    // If the caller only reads, it reports the damaged file itself, so nothing is
                    // reported here.
                    if let Holds::Torn(reason) = &entry.holds
                        && !is_known
                        && self.puts_back.at_once()
                    {
                        self.disk.tell_passed_over(&folder.join(format!("{stem}.json")), reason);
                    }
                    is_same &= is_known;
                    table.files.insert(stem, entry);
                }
                None => is_same &= table.files.remove(&stem).is_none(),
            }
        }
        let high_water = if is_mark_due { self.read_high_water(team)? } else { table.high_water };
        if is_same
            && is_all
            && high_water == table.high_water
            && let Some(reading) = &table.current
        {
            return Ok(reading.clone());
        }
        table.high_water = high_water;
        let reading = table.reading();
        table.current = Some(reading.clone());
        Ok(reading)
    }

    /// Reads a damaged file again, because another program may be writing it. If the file is still
    /// damaged, only its own task is missing in the list.
    fn read_torn(
        &self,
        team: &TeamDir,
        stem: &str,
        lock: Option<&Lock>,
    ) -> Result<Option<Entry>, StoreError> {
        let path = self.paths.tasks(team).join(format!("{stem}.json"));
        let list = self.paths.task_list(team);
        let parse = |snapshot: Option<&Snapshot>| snapshot.map(|s| Entry::of(stem, s)).transpose();
        let read = match lock {
            // The name of this file is not a task id, so no client is writing a task to it. The
            // file is read only once, without waiting for a writer.
            _ if TaskId::parse(stem).is_none() => Snapshot::read(&path)
                .and_then(|read| parse(read.as_ref()).map_err(|fault| fault.at(&path))),
            None => update::read(&path, self.lock_to_read(&list), parse),
            Some(_) => update::read_locked(&path, parse),
        };
        match read {
            Err(StoreError::Corrupt { reason, .. }) => Entry::torn(&path, reason),
            read => read,
        }
    }

    fn read_high_water(&self, team: &TeamDir) -> Result<u64, StoreError> {
        let path = self.paths.high_water(team);
        let bytes = plain::read(&path, plain::FILE_MOST)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).trim().parse().unwrap_or(0))
    }
}

/// Name of the file that stores the highest id that was ever used.
pub(crate) const HIGH_WATER: &str = ".highwatermark";

/// The changes of an edit. They are in temporary files and ready to be renamed.
struct Changes {
    high_water: Option<(Temp, PathBuf)>,
    tasks: Vec<Put>,
    removed: Vec<(PathBuf, Vec<FieldChange>)>,
    mentions: Vec<Put>,
}

struct Put {
    path: PathBuf,
    temp: Temp,
    fields: Vec<FieldChange>,
}

impl Table {
    /// Whether a file that was read again still has the content that this table knows.
    fn knows(&self, stem: &str, read: &Entry) -> bool {
        let Some(known) = self.files.get(stem).filter(|known| known.stamp == read.stamp) else {
            return false;
        };
        match (&known.holds, &read.holds) {
            (Holds::Task(known), Holds::Task(task)) => known == task,
            (Holds::Listed, Holds::Task(task)) => {
                self.current.as_ref().and_then(|current| find(&current.listed, stem))
                    == Some(task.as_ref())
            }
            (Holds::Other, Holds::Other)
            | (Holds::Deleted, Holds::Deleted)
            | (Holds::Torn(_), Holds::Torn(_)) => true,
            (
                Holds::Task(_) | Holds::Listed | Holds::Other | Holds::Deleted | Holds::Torn(_),
                _,
            ) => false,
        }
    }

    /// Builds the task list from all files. Each dependency is listed in both of its tasks.
    ///
    /// The tasks are moved from the file entries into the list, to save memory. If a task in the
    /// list has other dependencies than its file, the file entry also keeps the task as it is in
    /// the file.
    fn reading(&mut self) -> Reading {
        let listed = self.current.take().map(|reading| reading.listed);
        let listed = listed.as_deref().unwrap_or_default();
        let mut tasks = Vec::with_capacity(self.files.len());
        for (stem, entry) in &mut self.files {
            match std::mem::replace(&mut entry.holds, Holds::Listed) {
                Holds::Task(task) => tasks.push(*task),
                Holds::Listed => tasks.extend(find(listed, stem).cloned()),
                held @ (Holds::Other | Holds::Deleted | Holds::Torn(_)) => entry.holds = held,
            }
        }
        // Sorts the tasks by id. The cached key parses each number only once. Ids that are not
        // numbers are sorted as text.
        tasks.sort_by_cached_key(|task| match task.id.number() {
            0 => (0, task.id.to_string()),
            number => (number, String::new()),
        });
        let numbers =
            self.files.keys().filter_map(|stem| TaskId::parse(stem)).map(|id| id.number());
        let highest = table::highest_counted(numbers.chain([self.high_water]));
        // After a removal, a crash can leave references to the removed task. An id is never used
        // again, so such references mean nothing and are dropped.
        let is_no_task = |entry: &Entry| matches!(entry.holds, Holds::Deleted);
        let is_gone = |id: &TaskId| {
            (1..=highest).contains(&id.number())
                && self.files.get(id.as_str()).is_none_or(is_no_task)
        };
        let mut as_read: HashMap<String, Task> = HashMap::new();
        let mut keep = |task: &Task| {
            as_read.entry(task.id.to_string()).or_insert_with(|| task.clone());
        };
        table::drop_mentions(&mut tasks, is_gone, &mut keep);
        table::join_ends(&mut tasks, &mut keep);
        for (stem, task) in as_read {
            if let Some(entry) = self.files.get_mut(&stem) {
                entry.holds = Holds::Task(Box::new(task));
            }
        }
        let is_taken = |id: u64| self.files.contains_key(id.to_string().as_str());
        let next_id = (highest.saturating_add(1)..).find(|id| !is_taken(*id)).unwrap_or(u64::MAX);
        Reading { listed: tasks.into(), next_id }
    }
}

fn find<'a>(tasks: &'a [Task], stem: &str) -> Option<&'a Task> {
    let id: TaskId = serde_json::from_value(stem.into()).ok()?;
    tasks.binary_search_by(|task| task.id.cmp(&id)).ok().and_then(|at| tasks.get(at))
}

fn matters(name: &str) -> bool {
    name.ends_with(".json") || name == HIGH_WATER
}

/// Returns the fields of a task that an edit changed. Returns no fields for a new task, because no
/// program has read an older version of this task.
fn changed_fields(was: Option<&Task>, task: &Task) -> Result<Vec<FieldChange>, Fault> {
    let Some(was) = was else { return Ok(Vec::new()) };
    Ok(lost_updates::changes(&value_of(was)?, &value_of(task)?))
}

fn differs_in_edges_only(task: &Task, was: Option<&Task>) -> bool {
    let Some(was) = was else { return false };
    let was =
        Task { blocks: task.blocks.clone(), blocked_by: task.blocked_by.clone(), ..was.clone() };
    was == *task
}

/// Returns the tasks in a folder that no program writes any more. Each dependency is listed in both
/// of its tasks. Unreadable files are skipped.
pub(super) fn read_folder(folder: &Path) -> Result<Vec<Task>, StoreError> {
    let (read, _torn) = read_all(folder, &list(folder)?, &HashMap::new())?;
    let files = read.into_iter().filter_map(|(stem, entry)| Some((stem, entry?))).collect();
    Ok(Table { files, ..Table::default() }.reading().listed.to_vec())
}
