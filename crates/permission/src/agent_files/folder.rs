//! Reads the agent definitions in one folder.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::{Given, Refused};

use super::definition::{AgentDefinition, DefinitionError, DefinitionFault, Origin};

/// Maximum size of a definition file. Real definition files are much smaller.
const FILE_LIMIT_BYTES: u64 = 512 * 1024;

/// Maximum number of definition files in a folder. Real folders have far fewer.
const MOST_FILES: usize = 500;

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
        let (files, has_more) = match given.list(folder, "md", MOST_FILES) {
            Ok(listed) => listed,
            Err(refused) => {
                found.warn(folder, refused.into());
                return found;
            }
        };
        if has_more {
            found.warn(folder, DefinitionFault::TooMany(MOST_FILES));
        }
        for path in files {
            let parsed = read(given, &path)
                .and_then(|text| AgentDefinition::parse(&text, origin(path.clone())));
            match parsed {
                Ok(agent) => found.agents.push(agent),
                Err(fault) => found.warn(&path, fault),
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
    Ok(given.read_text(path, FILE_LIMIT_BYTES)?.ok_or_else(gone)?)
}
