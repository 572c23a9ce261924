//! Computes the hunks of a change of a file, which are used to show a diff. In the results of Write
//! and Edit, they are the field `structuredPatch`.

use std::time::Duration;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

/// The number of unchanged lines before and after a change in a hunk.
const CONTEXT_LINES: usize = 3;

/// The maximum time to search for the shortest diff. After this time, a longer diff is accepted.
const EFFORT: Duration = Duration::from_millis(100);

/// The maximum size of both texts together, in bytes. For larger texts, no hunks are computed,
/// because nobody reads such a diff.
const MOST_BYTES: usize = 1 << 20;

/// Returns the hunks that change the text `before` into the text `after`.
pub(super) fn hunks(before: &str, after: &str) -> Value {
    if before.len() + after.len() > MOST_BYTES {
        return json!([]);
    }
    let diff = TextDiff::configure().timeout(EFFORT).diff_lines(before, after);
    let hunks = diff.grouped_ops(CONTEXT_LINES).into_iter().map(|operations| {
        let mut lines = Vec::new();
        for change in operations.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.push(format!("{sign}{}", change.value().trim_end_matches(['\r', '\n'])));
        }
        let old_start = operations.first().map_or(0, |operation| operation.old_range().start);
        let new_start = operations.first().map_or(0, |operation| operation.new_range().start);
        json!({
            "oldStart": old_start + 1,
            "oldLines": lines.iter().filter(|line| !line.starts_with('+')).count(),
            "newStart": new_start + 1,
            "newLines": lines.iter().filter(|line| !line.starts_with('-')).count(),
            "lines": lines,
        })
    });
    Value::Array(hunks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_one_hunk_with_its_surroundings() {
        assert_eq!(
            hunks("a\nb\nc\n", "a\nB\nc\n"),
            json!([{
                "oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
                "lines": [" a", "-b", "+B", " c"],
            }])
        );
    }

    #[test]
    fn equal_texts_have_no_hunks() {
        assert_eq!(hunks("a\n", "a\n"), json!([]));
    }
}
