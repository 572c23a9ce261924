//! Collects the paths that an agent's `Read` deny rules forbid to read. The sandbox uses the
//! result, so that commands cannot read these paths.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_process::sandbox::DeniedReads;

use super::paths::PathPattern;
use super::rules::{Access, Rule};

/// Returns the `Read` deny rules among `rules`, evaluated for the working folder `cwd`.
pub(super) fn denied_reads(rules: &[Rule], cwd: &Path) -> DeniedReads {
    let mut texts = Vec::new();
    let mut patterns: Vec<(Vec<PathBuf>, PathPattern)> = Vec::new();
    let mut is_everything = false;
    for rule in rules.iter().filter(|rule| rule.is_about(Access::Read)) {
        texts.push(rule.cite());
        match rule.path_pattern() {
            Some(pattern) => patterns.push((pattern.bases(cwd), pattern.clone())),
            None => is_everything = true,
        }
    }
    let begins = patterns.iter().flat_map(|(bases, _)| bases.clone()).collect();
    let names = move |path: &Path| {
        is_everything || patterns.iter().any(|(bases, pattern)| pattern.speaks_of(bases, path))
    };
    DeniedReads::new(texts, begins, Arc::new(names))
}
