//! What repairs took away: where this one keeps it, and what earlier ones kept for a week.

use std::path::PathBuf;

use pitcrew_store::Keep;
use serde::Serialize;

use super::rooms::Rooms;
use crate::failure::Failure;
use crate::output::printable;

/// What is said of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Kept {
    /// Where what this repair took away is kept, for a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<PathBuf>,
    /// What earlier repairs took away and a repair removes, since its week is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_too_long: Vec<PathBuf>,
    /// What of that was removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<PathBuf>,
    /// Why it was not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_removed: Vec<String>,
}

impl Kept {
    /// Looks for what is older than a week, and removes it when that is asked for.
    pub(super) fn of(rooms: &Rooms, keep: &Keep, repair: bool) -> Self {
        let mut kept = Self { kept_in: keep.place().map(PathBuf::from), ..Self::default() };
        let mut not_removed = |error| kept.not_removed.push(Failure::internal(error).chain());
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
