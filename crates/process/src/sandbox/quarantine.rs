//! Quarantine: a check of protected places that no mount can cover. A mount cannot cover a place
//! where nothing or only a symbolic link exists when a command in the sandbox profile *work*
//! starts. If the command creates a file at such a place, pitcrew renames the file after the
//! command has ended.
//!
//! The command may have removed all permissions from a folder on the path to the file. The folder
//! belongs to the user, so pitcrew restores the permissions while it renames the file. If the file
//! still cannot be renamed, the failure is reported as an error of the command. Each folder is
//! opened relative to its parent folder and never through a symbolic link, because other commands
//! may run meanwhile.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::records::Record;
use crate::protected::{Guard, protected_in};

/// The hint for a file that an agent may create after a question.
const HINT_FOR_ASKED: &str = " (a person can allow this file: write it with Write, or run the command with \
                              `dangerouslyDisableSandbox: true`, which asks)";

/// The files that commands created in protected places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Appeared {
    /// Descriptions of the files that were renamed, with their new paths.
    pub aside: Vec<String>,
    /// Descriptions of the files that could not be renamed, with the reasons.
    pub left: Vec<String>,
}

impl Appeared {
    pub(super) fn add(&mut self, other: Self) {
        self.aside.extend(other.aside);
        self.left.extend(other.left);
    }

    /// Adds a file that was renamed from `path` to `aside`.
    pub(super) fn note_aside(&mut self, path: &Path, aside: &Path) {
        tracing::warn!(path = %path.display(), "a command made what decides rights or runs by itself");
        let is_asked = protected_in(path).is_some_and(|row| row.guard == Guard::Asked);
        let hint = if is_asked { HINT_FOR_ASKED } else { "" };
        self.aside.push(format!("{} is now {}{hint}", path.display(), aside.display()));
    }

    /// Adds a protected file that was replaced while a command ran. It was renamed from `path` to
    /// `aside`. `is_restored` says whether its content from before is at the path again.
    pub(super) fn note_replaced(&mut self, path: &Path, aside: &Path, is_restored: bool) {
        tracing::warn!(path = %path.display(), "a protected file was replaced while a command ran");
        let rest = if is_restored {
            "the content from before is at the path again"
        } else {
            "nothing is at the path now, because its content from before was not kept"
        };
        self.aside.push(format!(
            "{} is now {}; it was replaced while the command ran, so the command could change it, and another program              may have written it; {rest}",
            path.display(),
            aside.display()
        ));
    }

    /// Adds a file at `path` that could not be renamed.
    pub(super) fn note_left(&mut self, path: &Path, problem: &io::Error) {
        tracing::error!(path = %path.display(), %problem, "what a command made is not put aside");
        self.left.push(format!("{}: {problem}", path.display()));
    }
}

/// A function that shows a warning to the user at once.
type Alarm = Box<dyn Fn(String) + Send + Sync>;

/// The files that commands created in protected places and that have not been reported yet.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<(Mutex<Appeared>, OnceLock<Alarm>)>);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Told").field(&self.0.0).finish()
    }
}

impl Told {
    pub(super) fn take(&self) -> Appeared {
        std::mem::take(&mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the function that warns the user about files that could not be renamed. Only the first
    /// call has an effect.
    pub(super) fn alarm_by(&self, alarm: Alarm) {
        let _first = self.0.1.set(alarm);
    }

    pub(super) fn tell(&self, appeared: Appeared) {
        if let Some(alarm) = self.0.1.get() {
            for left in &appeared.left {
                alarm(format!(
                    "a sandboxed command made what decides rights or runs by itself, and it could not be put aside. Remove \
                     it before you work there: {left}"
                ));
            }
        }
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).add(appeared);
    }
}

/// The check of protected places that runs after a command and all its processes have ended.
/// Dropping this value runs the check.
#[derive(Debug)]
pub struct Aftermath {
    /// The places to check. A copy is stored on disk until the check is done. `None` if nothing
    /// needs a check.
    record: Option<Record>,
    told: Told,
}

impl Aftermath {
    pub(super) fn new(record: Option<Record>, told: Told) -> Self {
        Self { record, told }
    }

    /// Returns true if all processes that the command started end together with the command.
    pub fn ends_all(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.is_of_allowed())
    }

    /// Returns true if the check is due as soon as the command itself has ended.
    pub fn is_due_with_leader(&self) -> bool {
        self.record.as_ref().is_some_and(Record::is_of_allowed)
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        match self.record.take() {
            Some(record) if record.is_of_allowed() => record.conclude(),
            Some(record) => self.told.tell(record.settle()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::records::Records;
    use super::super::uncovered::Uncovered;
    use super::super::unfinished::Unfinished;
    use super::*;

    #[test]
    fn what_cannot_be_put_aside_is_told_at_once_and_stays_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, open) = (base.join("root"), base.join("work"));
        fs::create_dir(&root).unwrap();
        // Create a file where the check expects the writable folder, so that the check fails.
        fs::write(&open, "").unwrap();
        let (told, screen) = (Told::default(), Arc::new(Mutex::new(Vec::new())));
        let shown = screen.clone();
        told.alarm_by(Box::new(move |text| shown.lock().unwrap().push(text)));
        let places = vec![Uncovered::nothing(&open, &open.join(".mcp.json")).unwrap()];
        let record = Records::lock(&root)
            .unwrap()
            .begin(&BTreeSet::new(), places, BTreeSet::new(), &BTreeSet::new())
            .unwrap();
        drop(Aftermath::new(Some(record), told.clone()));
        let shown = screen.lock().unwrap().clone();
        assert!(matches!(shown.as_slice(), [text] if text.contains("work/.mcp.json")), "{shown:?}");
        let told = told.take();
        assert!(told.aside.is_empty() && told.left.len() == 1, "{told:?}");
        let kept = fs::read_dir(root.join("pitcrew/quarantine")).unwrap().flatten();
        let records = kept.filter(|it| it.path().extension().is_some_and(|it| it == "json"));
        assert_eq!(records.count(), 1);
        assert!(Unfinished::below(&root).is_empty(), "its process lives");
    }
}
