//! The copies of files that repairs removed. Each repair keeps its removed files in a folder of its
//! own. After a week, a later repair deletes that folder.

use std::path::PathBuf;

use pitcrew_team::store::Keep;
use serde::Serialize;

use super::rooms::Rooms;
use crate::failure::Failure;
use crate::output::printable;

/// The part of the doctor's report about files that repairs removed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Kept {
    /// The folder with the files that this repair removed. The files are kept for a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<PathBuf>,
    /// The folders of earlier repairs that are older than a week and that the next repair deletes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_too_long: Vec<PathBuf>,
    /// The folders of earlier repairs that this repair deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<PathBuf>,
    /// For each folder that could not be deleted, the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_removed: Vec<String>,
}

impl Kept {
    /// Finds the folders of repairs that are older than a week. Deletes these folders if `repair`
    /// is set.
    pub(super) fn of(rooms: &Rooms, keep: &Keep, repair: bool) -> Self {
        let mut kept = Self { kept_in: keep.place().map(PathBuf::from), ..Self::default() };
        let mut not_removed = |error| kept.not_removed.push(Failure::internal(error).chain());
        // An error here is reported and does not stop the doctor.
        let old = rooms.files.old_keeps().unwrap_or_else(|error| {
            not_removed(error);
            Vec::new()
        });
        if !repair {
            kept.kept_too_long = old;
            return kept;
        }
        for place in old {
            match rooms.files.remove_keep(&place) {
                Ok(()) => kept.removed.push(place),
                Err(error) => not_removed(error),
            }
        }
        kept
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let kept =
            self.kept_in.iter().map(|place| format!("kept for a week in {}", place.display()));
        let old = self.kept_too_long.iter().map(|place| {
            format!(
                "kept for more than a week by an earlier repair: {} (--repair: removed)",
                place.display()
            )
        });
        let removed = self
            .removed
            .iter()
            .map(|place| format!("removed, as its week is over: {}", place.display()));
        let failed = self
            .not_removed
            .iter()
            .map(|why| format!("kept for more than a week and not removed: {why}"));
        kept.chain(old)
            .chain(removed)
            .chain(failed)
            .map(|line| printable(&line).into_owned())
            .collect()
    }
}
