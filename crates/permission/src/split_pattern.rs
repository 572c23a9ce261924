//! Finds the folder with which a glob pattern begins.

use std::path::{Component, Path, PathBuf};

/// Moves the leading folders without wildcards from a pattern to the folder to search. As a result,
/// a pattern is allowed to be absolute, to use `..`, and to name folders that git ignores. The
/// search also reads fewer folders.
pub fn split_pattern(folder: &Path, pattern: &str) -> (PathBuf, String) {
    let mut folder = folder.to_owned();
    let mut components = Path::new(pattern).components().peekable();
    let mut rest = PathBuf::new();
    while let Some(component) = components.next() {
        let is_literal = !component
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|byte| b"*?[]{}\\!".contains(byte));
        let is_last = components.peek().is_none();
        if !is_literal || (is_last && matches!(component, Component::Normal(_))) {
            rest.push(component);
            rest.extend(components);
            break;
        }
        if component != Component::CurDir {
            folder.push(component);
        }
    }
    let rest = rest.into_os_string().into_string();
    (folder, rest.unwrap_or_else(|_| pattern.to_owned()))
}
