//! What `Read` deny rules keep from being read, for those who hold commands to it.

use std::path::{Path, PathBuf};

use super::paths::PathPattern;
use super::rules::{Access, Rule};

/// The `Read` deny rules of an agent, as seen from one working folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeniedReads {
    texts: Vec<String>,
    patterns: Vec<(Vec<PathBuf>, PathPattern)>,
    is_everything: bool,
}

impl DeniedReads {
    /// Takes what matters out of deny rules.
    pub(super) fn of(rules: &[Rule], cwd: &Path) -> Self {
        let mut denied = Self::default();
        for rule in rules.iter().filter(|rule| rule.is_about(Access::Read)) {
            denied.texts.push(rule.cite());
            match rule.path_pattern() {
                Some(pattern) => denied.patterns.push((pattern.bases(cwd), pattern.clone())),
                None => denied.is_everything = true,
            }
        }
        denied
    }

    /// Whether there is no such rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The rules as they are cited: two agents with the same are denied the same.
    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The folders that patterns start from.
    pub(crate) fn begins(&self) -> impl Iterator<Item = &PathBuf> {
        self.patterns.iter().flat_map(|(bases, _)| bases)
    }

    /// Whether a rule speaks of a path without links.
    pub(crate) fn names(&self, path: &Path) -> bool {
        self.is_everything
            || self.patterns.iter().any(|(bases, pattern)| pattern.speaks_of(bases, path))
    }
}
