//! Errors in settings. Each error names the settings layer or the file that contains the mistake.

use std::path::PathBuf;

use pitcrew_process::given_file::Refused;

use super::Layer;

/// Reason why settings could not be read or used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A settings file exists but cannot be read, or is not a plain file (for example a device).
    #[error("cannot read the settings file {}", path.display())]
    Read {
        /// The path of the settings file.
        path: PathBuf,
        /// The reason why the file was not read.
        #[source]
        source: Refused,
    },
    /// A settings file is not valid JSON.
    #[error("the settings file {} is not valid json", path.display())]
    Json {
        /// The path of the settings file.
        path: PathBuf,
        /// The position and the reason of the JSON error.
        #[source]
        source: serde_json::Error,
    },
    /// A settings file could not be replaced.
    #[error("cannot write the settings file {}", path.display())]
    Write {
        /// The path of the settings file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The top level of a settings layer is not a JSON object.
    #[error("the {origin} must be a json object")]
    NotAnObject {
        /// The settings layer, and its file if it has one.
        origin: String,
    },
    /// A known field has an unknown value, and pitcrew cannot safely ignore this value.
    #[error("`{field}` in the {origin} must be {expected}")]
    Field {
        /// The settings layer, and its file if it has one.
        origin: String,
        /// The full name of the field, with dots between its parts.
        field: String,
        /// Description of the allowed values.
        expected: &'static str,
    },
}

impl SettingsError {
    /// Returns true if the operating system prevented reading or writing a settings file. The
    /// settings themselves may be correct.
    #[must_use]
    pub fn is_of_system(&self) -> bool {
        match self {
            Self::Read { source, .. } => matches!(source, Refused::Io(_)),
            Self::Write { .. } => true,
            Self::Json { .. } | Self::NotAnObject { .. } | Self::Field { .. } => false,
        }
    }
}

/// Returns the name of a settings layer and its file, for an error message.
pub(super) fn origin(layer: Layer, file: Option<&std::path::Path>) -> String {
    match file {
        Some(path) => format!("{layer} settings ({})", path.display()),
        None => format!("{layer} settings"),
    }
}
