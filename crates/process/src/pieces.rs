//! Splits a path into its components, so that a caller can open one folder after another.

use std::ffi::OsString;
use std::path::{Component, Path};

/// Returns the components of a path, including `..`.
pub fn pieces(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}
