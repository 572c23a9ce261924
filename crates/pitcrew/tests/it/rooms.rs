//! Tests of the crates of this workspace: which crates exist, which other crates each crate is
//! allowed to use, and which crates are allowed to use the heavy dependencies.
//!
//! To allow a crate to use another crate, change the table `ARROWS`. Make this change in a separate
//! commit that gives the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Each crate, with the crates of this workspace that it is allowed to use.
const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    // `model` uses the types of `protocol` for prices and context windows in settings.
    ("model", &["protocol"]),
    // `store` waits for the locks of its files with `process::file_lock`, which knows processes.
    ("store", &["process", "protocol"]),
    ("team", &["protocol", "store"]),
    ("agent", &["model", "protocol"]),
    ("process", &["protocol"]),
    // `permission` asks `process` which sandbox profiles can be enforced. `permission` also uses
    // functions of `process` to open files that a stranger may have prepared.
    ("permission", &["process", "protocol"]),
    ("tools", &["agent", "permission", "process", "protocol"]),
    ("panes", &["process", "protocol"]),
    ("runtime", &["agent", "model", "panes", "permission", "process", "protocol", "team", "tools"]),
    ("view", &["agent", "model", "permission", "process", "protocol", "runtime", "team"]),
    ("tui", &["protocol", "runtime", "team", "view"]),
    ("web", &["protocol", "runtime", "team", "view"]),
    // `telemetry` reads the names of models and the tokens of their calls.
    ("telemetry", &["model", "protocol", "runtime", "team", "view"]),
    (
        "pitcrew",
        &[
            "agent",
            "model",
            "panes",
            "permission",
            "process",
            "protocol",
            "runtime",
            "team",
            "telemetry",
            "tui",
            "view",
            "web",
        ],
    ),
    // `chaos` runs the pitcrew binary as a program, and uses no type of the other crates.
    ("chaos", &[]),
];

/// Each heavy dependency, with the only crates that are allowed to use it.
const HOMES: &[(&str, &[&str])] = &[
    ("reqwest", &["model", "telemetry"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry-otlp", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("axum", &["chaos", "web"]),
    ("hyper", &["web"]),
    ("notify", &["store"]),
    ("landlock", &["process"]),
    ("seccompiler", &["process"]),
    ("grep-regex", &["tools"]),
    ("grep-searcher", &["tools"]),
    ("globset", &["model", "tools"]),
    ("clap", &["chaos", "pitcrew"]),
    ("crossterm", &["pitcrew", "tui"]),
    ("ratatui", &["tui"]),
    ("syntect", &["tui"]),
    ("comfy-table", &["pitcrew"]),
    ("qrcode", &["pitcrew"]),
    ("rcgen", &["web"]),
    ("tokio-rustls", &["web"]),
];

/// Reads the manifests. Returns each crate with its dependencies. Dependencies that only tests use
/// are left out.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(asked.status.success(), "{asked:?}");
    let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let short = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("pitcrew-").unwrap_or(name).to_owned()
    };
    let dependencies = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|it| it["kind"] != "dev").map(|it| short(&it["name"])).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(|package| (short(&package["name"]), dependencies(package))).collect()
}

#[test]
fn each_room_uses_the_rooms_that_it_may_and_no_other() {
    let manifests = manifests();
    let rooms: BTreeSet<&String> = manifests.keys().collect();
    let is_room = |name: &&String| rooms.contains(*name);
    let found: BTreeMap<&str, BTreeSet<&str>> = manifests
        .iter()
        .map(|(room, uses)| {
            (room.as_str(), uses.iter().filter(is_room).map(String::as_str).collect())
        })
        .collect();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(room, uses)| (*room, uses.iter().copied().collect())).collect();
    assert_eq!(found, allowed);
}

#[test]
fn each_heavy_dependency_has_one_home() {
    let manifests = manifests();
    for (dependency, homes) in HOMES {
        let found: BTreeSet<&str> = manifests
            .iter()
            .filter(|(_, uses)| uses.contains(*dependency))
            .map(|(room, _)| room.as_str())
            .collect();
        assert_eq!(found, homes.iter().copied().collect(), "{dependency}");
    }
}
