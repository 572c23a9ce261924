//! Faults that are known, with the branch of the work that mends them.

use super::Case;

/// A known fault: the start of the path, a part of what is wrong, and the branch that mends it.
const KNOWN: [(&str, &str, &str); 0] = [];

/// Returns the branch that mends a fault, if the fault is known.
pub(super) fn branch(case: &Case, fault: &str) -> Option<&'static str> {
    let below = case.place.below.display().to_string();
    let known =
        KNOWN.iter().find(|(path, wrong, _)| below.starts_with(path) && fault.contains(wrong));
    known.map(|(_, _, branch)| *branch)
}
