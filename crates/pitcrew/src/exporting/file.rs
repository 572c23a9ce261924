//! Writes a document into a file, whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use tempfile::Builder;

use super::shown;
use crate::failure::{Failure, FailureKind};

/// What happens to a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays as it is.
    Kept,
    /// The document replaces it.
    Replaced,
}

/// Whether a document was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Placed {
    Yes,
    /// The file exists, and stays.
    Exists,
}

/// Writes a document that only the user can read. Until it is complete, it has another name. A link
/// counts as an existing file, and only an ordinary file is ever replaced.
pub(super) fn place(path: &Path, text: &str, existing: Existing) -> Result<Placed, Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) if existing == Existing::Kept => return Ok(Placed::Exists),
        Ok(found) if !found.is_file() => {
            let said = format!("{} is no ordinary file, and is not replaced", shown(path));
            return Err(Failure::new(FailureKind::Conflict, said).hint("name another file"));
        }
        Ok(_) | Err(_) => {}
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| {
        let said = format!("{} cannot be written: {error}", shown(path));
        Failure::new(FailureKind::Internal, said)
    };
    // A temporary file has the rights 0600, and is removed after an error.
    let mut file = Builder::new().prefix(".pitcrew-").tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    let moved = match existing {
        Existing::Kept => file.persist_noclobber(path),
        Existing::Replaced => file.persist(path),
    };
    match moved {
        Ok(_) => Ok(Placed::Yes),
        // Somebody made the file meanwhile.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Placed::Exists),
        Err(error) => Err(failed(error.error)),
    }
}
