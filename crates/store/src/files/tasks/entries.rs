//! Reads the files in the task folder and tells what each file contains.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use pitcrew_protocol::Task;

use super::super::disk::{Snapshot, Stamp, failed, is_absent};
use super::super::look::is_marked_deleted;
use super::super::teams::parse;
use super::super::update::Fault;
use crate::StoreError;

/// Number of files per reading thread. With fewer files, one more thread is not worth its cost.
const FILES_A_THREAD: usize = 512;

/// Most task files of a team. The default limit for new tasks is a thousand. Every command that
/// needs the tasks reads all of them once.
const FILES_MOST: usize = 50_000;

/// One file in the task folder.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    /// Whether the stamp (metadata) is reliable: if the file has an equal stamp later, it has not
    /// changed since this read.
    pub(super) is_settled: bool,
    pub(super) holds: Holds,
}

/// The content of a file in the task folder.
#[derive(Debug)]
pub(super) enum Holds {
    /// A task exactly as in its file. An entry has this variant in two cases. In the first case,
    /// the file was just read. In the second case, the dependencies of the task in the task list
    /// differ from the dependencies in its file.
    Task(Box<Task>),
    /// A task that is equal to the task with the same id in the current list.
    Listed,
    /// Content that is not the task with the id in the file's name. This id must not be used for a
    /// new task.
    Other,
    /// A task that another program marked as deleted. The task is not listed, but its id must not
    /// be used for a new task.
    Deleted,
    /// Unreadable content, with the reason. The id in the file's name must not be used for a new
    /// task.
    Torn(String),
}

impl Entry {
    pub(super) fn of(stem: &str, snapshot: &Snapshot) -> Result<Self, Fault> {
        let read = match std::str::from_utf8(&snapshot.bytes).map(Task::from_json) {
            Ok(Ok(task)) => Ok(task),
            Ok(Err(_)) | Err(_) => parse(&snapshot.bytes),
        };
        let holds = match read {
            Ok(task) if task.id.as_str() == stem => Holds::Task(Box::new(task)),
            Ok(_) => Holds::Other,
            Err(_) if is_marked_deleted(&snapshot.bytes, stem) => Holds::Deleted,
            // If the file is valid JSON but no task, it comes from another program or a later
            // version. If it is not valid JSON, it is damaged, for example incomplete.
            Err(fault) => parse::<serde_json::Value>(&snapshot.bytes)
                .map(|_| Holds::Other)
                .map_err(|_| fault)?,
        };
        if matches!(holds, Holds::Other) {
            tracing::debug!(stem, "a file among the tasks is no task");
        }
        Ok(Self { stamp: snapshot.stamp, is_settled: snapshot.is_settled(), holds })
    }

    /// Returns the entry of an unreadable file, or `None` if the file no longer exists.
    pub(super) fn torn(path: &Path, reason: String) -> Result<Option<Self>, StoreError> {
        match fs::symlink_metadata(path) {
            Ok(meta) => {
                let stamp = Stamp::of(&meta);
                Ok(Some(Self { stamp, is_settled: !stamp.is_fresh(), holds: Holds::Torn(reason) }))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed("look at", path)(error)),
        }
    }
}

/// Returns the names of all `.json` files in the folder, without the ending `.json`.
pub(super) fn list(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder)(error)),
    };
    let mut stems = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("list", folder))?.file_name();
        if let Some(stem) = name.to_str().and_then(|n| n.strip_suffix(".json")) {
            stems.push(stem.to_owned());
        }
        if stems.len() > FILES_MOST {
            let reason = format!(
                "it has more than {FILES_MOST} task files, which is the limit; move some of them away"
            );
            return Err(StoreError::Corrupt { path: folder.to_owned(), reason });
        }
    }
    Ok(stems)
}

/// The result of reading task files. The first list has the files that were read, with `None` for a
/// file that does not exist. The second list has the names of the damaged files.
pub(super) type ReadAll = (Vec<(String, Option<Entry>)>, Vec<String>);

/// Reads the files `stems`. A file is skipped if `known` has a reliable stamp for it and the file
/// still has this stamp. The number of threads depends on the number of files.
pub(super) fn read_all(
    folder: &Path,
    stems: &[String],
    known: &HashMap<String, Entry>,
) -> Result<ReadAll, StoreError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (stems.len() / FILES_A_THREAD).clamp(1, cores);
    let share = stems.len().div_ceil(threads).max(1);
    if threads == 1 {
        return read_share(folder, stems, known);
    }
    let shares = std::thread::scope(|scope| {
        let readers: Vec<_> = stems
            .chunks(share)
            .map(|stems| scope.spawn(move || read_share(folder, stems, known)))
            .collect();
        readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut all: ReadAll = (Vec::new(), Vec::new());
    for share in shares {
        let stopped = || failed("read", folder)(std::io::Error::other("a reading thread panicked"));
        let (read, torn) = share.map_err(|_| stopped())??;
        all.0.extend(read);
        all.1.extend(torn);
    }
    Ok(all)
}

fn read_share(
    folder: &Path,
    stems: &[String],
    known: &HashMap<String, Entry>,
) -> Result<ReadAll, StoreError> {
    let mut all: ReadAll = (Vec::with_capacity(stems.len()), Vec::new());
    let dir = match fs::File::open(folder) {
        Ok(dir) => dir,
        Err(error) if is_absent(&error) => {
            return Ok((stems.iter().map(|stem| (stem.clone(), None)).collect(), all.1));
        }
        Err(error) => return Err(failed("open", folder)(error)),
    };
    for stem in stems {
        let name = format!("{stem}.json");
        if let Some(entry) = known.get(stem)
            && entry.is_settled
            && fs::metadata(folder.join(&name)).is_ok_and(|meta| Stamp::of(&meta) == entry.stamp)
        {
            continue;
        }
        let snapshot = match Snapshot::read_in(&dir, folder, &name) {
            Err(StoreError::Corrupt { .. }) => {
                all.1.push(stem.clone());
                continue;
            }
            snapshot => snapshot?,
        };
        match snapshot.map(|s| Entry::of(stem, &s)) {
            None => all.0.push((stem.clone(), None)),
            Some(Ok(entry)) => all.0.push((stem.clone(), Some(entry))),
            Some(Err(Fault::Torn(_) | Fault::TooMuch(_))) => all.1.push(stem.clone()),
            Some(Err(Fault::Failed(error))) => return Err(error),
        }
    }
    Ok(all)
}
