//! Tests of the names of worktrees.

use super::*;

#[test]
fn a_name_that_leaves_the_folder_or_breaks_a_branch_is_refused() {
    for name in ["worker", "worker-2", "a.b_c"] {
        assert!(is_branch_part(name), "{name}");
    }
    let long = "x".repeat(300);
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "-f",
        "a..b",
        "a.lock",
        "a ",
        "a\0",
        "ü",
        ".git",
        "a.",
        long.as_str(),
    ] {
        assert!(!is_branch_part(name), "{name:?}");
    }
}
