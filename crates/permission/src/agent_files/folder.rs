//! Reads the agent definitions in one folder.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::{Given, Refused};

use super::definition::{AgentDefinition, DefinitionError, DefinitionFault, Origin};

/// Maximum size of a definition file. Real definition files are much smaller.
pub const DEFINITION_BYTES: u64 = 512 * 1024;

/// Maximum number of definition files in a folder. Real folders have far fewer.
pub const DEFINITIONS: usize = 500;

/// Maximum size of all definition files of a folder together. Reading them must stay cheap.
pub const DEFINITIONS_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum number of unusable definition files in a folder. A file can cost much before it turns out
/// to be unusable, and nobody reads hundreds of warnings.
pub const UNUSABLE: usize = 20;

/// The agent definitions found in one folder.
#[derive(Debug, Default)]
pub struct AgentFiles {
    /// The definitions that can be used.
    pub agents: Vec<AgentDefinition>,
    /// The errors of the definitions that cannot be used.
    pub warnings: Vec<DefinitionError>,
}

impl AgentFiles {
    /// Reads all definitions in a folder, sorted by file name.
    pub fn read(given: Given<'_>, folder: &Path, origin: fn(PathBuf) -> Origin) -> Self {
        let mut found = Self::default();
        let (files, has_more) = match given.list(folder, "md", DEFINITIONS) {
            Ok(listed) => listed,
            Err(refused) => {
                found.warn(folder, refused.into());
                return found;
            }
        };
        if has_more {
            found.warn(folder, DefinitionFault::TooMany(DEFINITIONS));
        }
        let mut room = DEFINITIONS_BYTES;
        let mut unusable = 0;
        for path in files {
            let text = read(given, &path);
            let length = text.as_ref().map_or(0, |text| text.len() as u64);
            let Some(left) = room.checked_sub(length) else {
                found.warn(folder, DefinitionFault::TooLong(DEFINITIONS_BYTES));
                break;
            };
            room = left;
            match text.and_then(|text| AgentDefinition::parse(&text, origin(path.clone()))) {
                Ok(agent) => found.agents.push(agent),
                Err(fault) => {
                    found.warn(&path, fault);
                    unusable += 1;
                }
            }
            if unusable >= UNUSABLE {
                found.warn(folder, DefinitionFault::Unusable(UNUSABLE));
                break;
            }
        }
        found
    }

    fn warn(&mut self, path: &Path, fault: DefinitionFault) {
        self.warnings.push(DefinitionError { path: path.to_path_buf(), fault });
    }
}

fn read(given: Given<'_>, path: &Path) -> Result<String, DefinitionFault> {
    let gone = || Refused::Io(std::io::ErrorKind::NotFound.into());
    Ok(given.read_text(path, DEFINITION_BYTES)?.ok_or_else(gone)?)
}
