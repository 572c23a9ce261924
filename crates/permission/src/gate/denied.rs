//! Collects the paths that an agent's deny rules forbid to read or to change. The sandbox uses the
//! result, so that the rules hold for commands too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_process::sandbox::DeniedPaths;

use super::paths::PathPattern;
use super::rules::{Access, Rule};

/// Returns the deny rules among `rules` for this kind of access, evaluated for the working folder
/// `cwd`.
pub(super) fn denied_paths(rules: &[Rule], access: Access, cwd: &Path) -> DeniedPaths {
    let mut texts = Vec::new();
    let mut patterns: Vec<(Vec<PathBuf>, PathPattern)> = Vec::new();
    let mut exact = Vec::new();
    let mut is_everything = false;
    for rule in rules.iter().filter(|rule| rule.is_about(access)) {
        texts.push(rule.cite());
        match rule.path_pattern() {
            Some(pattern) => {
                exact.extend(pattern.exact_paths(cwd));
                patterns.push((pattern.bases(cwd), pattern.clone()));
            }
            None => is_everything = true,
        }
    }
    let begins = patterns.iter().flat_map(|(bases, _)| bases.clone()).collect();
    let names = move |path: &Path| {
        is_everything || patterns.iter().any(|(bases, pattern)| pattern.speaks_of(bases, path))
    };
    DeniedPaths::new(texts, begins, Arc::new(names)).naming(exact)
}
