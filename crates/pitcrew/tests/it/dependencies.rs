//! Every dependency that a crate declares must be used in the crate's sources. Every dependency of
//! the workspace must be used by a crate.
//!
//! The check only searches the text of the sources. A dependency that only a comment mentions
//! therefore counts as used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A dependency table of a manifest: the name of the table, and the names of the dependencies in
/// the table.
type Section = (String, Vec<String>);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the dependency tables of a manifest. In the manifest, each dependency must be on its own
/// line.
fn sections(manifest: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            found.push((name.to_owned(), Vec::new()));
        } else if let Some((_, names)) = found.last_mut()
            && let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#'))
        {
            let name = key.trim().trim_end_matches(".workspace");
            names.push(name.trim_matches('"').to_owned());
        }
    }
    found.retain(|(name, _)| name.ends_with("dependencies"));
    found
}

/// Returns all Rust sources below a folder, as one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

/// Whether a source contains the name of a dependency as a whole word.
fn names(source: &str, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    source.match_indices(&name).any(|(at, _)| {
        let bytes = source.as_bytes();
        !is_word(bytes[..at].last()) && !is_word(bytes.get(at + name.len()))
    })
}

#[test]
fn every_dependency_is_used() {
    let root = root();
    let (mut unused, mut named) = (Vec::new(), BTreeSet::new());
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.filter(|folder| folder.join("Cargo.toml").is_file()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for (section, dependencies) in sections(&manifest) {
            let is_for_tests = section.ends_with("dev-dependencies");
            let source = sources(&if is_for_tests { folder.clone() } else { folder.join("src") });
            for dependency in dependencies {
                if !names(&source, &dependency) {
                    unused.push(format!("{}: [{section}] {dependency}", folder.display()));
                }
                named.insert(dependency);
            }
        }
    }
    let workspace = sections(&fs::read_to_string(root.join("Cargo.toml")).unwrap());
    for (section, dependencies) in workspace {
        let nobodys = dependencies.into_iter().filter(|dependency| !named.contains(dependency));
        unused.extend(nobodys.map(|dependency| format!("Cargo.toml: [{section}] {dependency}")));
    }
    assert!(unused.is_empty(), "nothing uses these dependencies:\n{}", unused.join("\n"));
}

#[test]
fn a_dependency_that_is_not_used_is_found() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nserde.workspace = true\n# no = 1\n\n\
                    [dev-dependencies]\nserde_json = { version = \"1\" }\n";
    let expected = [("dependencies", "serde"), ("dev-dependencies", "serde_json")]
        .map(|(section, name)| (section.to_owned(), vec![name.to_owned()]));
    assert_eq!(sections(manifest), expected);
    assert!(names("use serde::Serialize;", "serde"));
    assert!(!names("use serde_json::Value;", "serde"), "another crate's name holds this one's");
    assert!(names("tokio_util::sync", "tokio-util"));
}
