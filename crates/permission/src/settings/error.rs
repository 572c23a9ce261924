//! What can be wrong with settings, always with the layer or file it was found in.

use std::path::PathBuf;

use super::Layer;
use pitcrew_process::given_file::Refused;

/// Says why settings could not be read or understood.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A settings file exists and cannot be read, or is none that is read.
    #[error("cannot read the settings file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Refused,
    },
    /// A settings file is not JSON.
    #[error("the settings file {} is not valid json", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where the parser stopped.
        #[source]
        source: serde_json::Error,
    },
    /// A settings file could not be replaced.
    #[error("cannot write the settings file {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A layer's top level is something other than an object.
    #[error("the {origin} must be a json object")]
    NotAnObject {
        /// The layer and, where there is one, its file.
        origin: String,
    },
    /// A known field has a value that is not known, and cannot be left out.
    #[error("`{field}` in the {origin} must be {expected}")]
    Field {
        /// The layer and, where there is one, its file.
        origin: String,
        /// The field's dotted name.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
}

impl SettingsError {
    /// Whether the system kept a file of the settings from being read or written: the settings themselves may be right.
    #[must_use]
    pub fn is_of_system(&self) -> bool {
        match self {
            Self::Read { source, .. } => matches!(source, Refused::Io(_)),
            Self::Write { .. } => true,
            Self::Json { .. } | Self::NotAnObject { .. } | Self::Field { .. } => false,
        }
    }
}

/// Names a layer and its file for an error text.
pub(super) fn origin(layer: Layer, file: Option<&std::path::Path>) -> String {
    match file {
        Some(path) => format!("{layer} settings ({})", path.display()),
        None => format!("{layer} settings"),
    }
}
