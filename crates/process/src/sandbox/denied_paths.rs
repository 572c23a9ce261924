//! The paths that an agent's `Read` or `Edit` deny rules forbid. The rules apply to all commands of
//! the agent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A function that returns true if a rule matches a path. The path must not contain symbolic links.
pub type NamesPath = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// The deny rules of an agent for one kind of access, evaluated for one working folder.
#[derive(Clone)]
pub struct DeniedPaths {
    texts: Vec<String>,
    begins: Vec<PathBuf>,
    exact: Vec<PathBuf>,
    names: NamesPath,
}

impl DeniedPaths {
    /// Creates the deny rules. `texts` are the rules as the user wrote them. `begins` are the base
    /// folders of the rules' path patterns. `names` returns true if a rule matches a path.
    #[must_use]
    pub fn new(texts: Vec<String>, begins: Vec<PathBuf>, names: NamesPath) -> Self {
        Self { texts, begins, exact: Vec::new(), names }
    }

    /// Adds the paths that rules name without wildcards. They need not exist.
    #[must_use]
    pub fn naming(self, exact: Vec<PathBuf>) -> Self {
        Self { exact, ..self }
    }

    /// Returns the paths that rules name without wildcards.
    pub fn exact(&self) -> impl Iterator<Item = &PathBuf> {
        self.exact.iter()
    }

    /// Returns true if the agent has no such deny rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the texts of the rules. Two agents with the same texts are denied the same paths.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns the base folder of each rule's path pattern.
    pub fn begins(&self) -> impl Iterator<Item = &PathBuf> {
        self.begins.iter()
    }

    /// Returns true if a rule matches the path. The path must not contain symbolic links.
    #[must_use]
    pub fn names(&self, path: &Path) -> bool {
        (self.names)(path)
    }
}

impl Default for DeniedPaths {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Arc::new(|_| false))
    }
}

impl fmt::Debug for DeniedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedPaths").field("texts", &self.texts).finish_non_exhaustive()
    }
}
