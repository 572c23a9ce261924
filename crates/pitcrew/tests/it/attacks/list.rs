//! The attacks as tool calls: the shell commands of `crates/runtime/tests/attacks.txt`, and calls
//! of the file tools.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use serde_json::{Value, json};

/// Time limit of one attack, in milliseconds.
const MILLISECONDS: u64 = 4_000;

/// An attack: one call of a tool.
#[derive(Debug, Clone)]
pub(super) struct Attack {
    pub(super) tool: &'static str,
    pub(super) input: Value,
}

/// The share of the attacks that is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    Whole,
    /// One in `of` attacks, chosen by a seed.
    Part {
        of: u64,
        seed: u64,
    },
}

impl Extent {
    /// Reads `PITCREW_ATTACKS`: `all`, or the seed of a part.
    pub(super) fn chosen() -> Self {
        match std::env::var("PITCREW_ATTACKS").ok().as_deref() {
            Some("all") => Self::Whole,
            Some(seed) => Self::Part {
                of: 12,
                seed: seed.parse().expect("PITCREW_ATTACKS is `all` or a number"),
            },
            None => Self::Part { of: 12, seed: 1 },
        }
    }

    /// Chooses the attacks to run, by their position in the list. Their texts cannot decide,
    /// because they contain paths that differ in each run.
    pub(super) fn of(self, attacks: Vec<Attack>) -> Vec<Attack> {
        let Self::Part { of, seed } = self else { return attacks };
        let is_chosen = |number: usize| {
            let mut hasher = DefaultHasher::new();
            (seed, number).hash(&mut hasher);
            hasher.finish().is_multiple_of(of)
        };
        attacks
            .into_iter()
            .enumerate()
            .filter(|(number, _)| is_chosen(*number))
            .map(|(_, attack)| attack)
            .collect()
    }
}

/// The attacks of each section, by the section's name.
pub(super) fn sections() -> BTreeMap<String, Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/attacks.txt");
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) if name.chars().all(char::is_alphabetic) => section = name.to_owned(),
            Some(_) | None => sections.entry(section.clone()).or_default().push(line.to_owned()),
        }
    }
    sections
}

impl Attack {
    /// An attack by a shell command. `before` runs first, in the same shell.
    pub(super) fn shell(before: &str, line: &str) -> Self {
        Self {
            tool: "Bash",
            input: json!({ "command": format!("{before}{line}"), "timeout": MILLISECONDS }),
        }
    }

    /// Two variants of this attack: in the background, and outside the sandbox if that is allowed.
    pub(super) fn odder(self) -> [Self; 2] {
        ["run_in_background", "dangerouslyDisableSandbox"].map(|field| {
            let mut odd = self.clone();
            odd.input[field] = json!(true);
            odd
        })
    }

    /// Every shell command of a section. The command changes or reads the file `target`.
    pub(super) fn of_section(section: &str, target: &Path, before: &str) -> Vec<Self> {
        let target = target.to_str().unwrap();
        let lines = sections().remove(section).unwrap();
        lines
            .iter()
            .map(|line| Self::shell(before, &line.replace("%T", target).replace("%S", target)))
            .collect()
    }

    /// Calls of the file tools that try to change a protected file.
    pub(super) fn writing_by_tools(target: &Path) -> Vec<Self> {
        let odd = format!(
            "{}/./{}",
            target.parent().unwrap().display(),
            target.file_name().unwrap().to_str().unwrap()
        );
        let write =
            |path: &str| Self { tool: "Write", input: json!({"file_path": path, "content": "x"}) };
        let path = target.to_str().unwrap();
        let edit = json!({"file_path": path, "old_string": "", "new_string": "x"});
        vec![
            write(path),
            write(&odd),
            write(&format!("/proc/self/root{path}")),
            Self { tool: "Edit", input: edit },
        ]
    }

    /// Calls of the file tools that try to read a secret file.
    pub(super) fn reading_by_tools(secret: &Path) -> Vec<Self> {
        let (path, folder) = (secret.to_str().unwrap(), secret.parent().unwrap().to_str().unwrap());
        let content = json!({"pattern": ".", "path": path, "output_mode": "content"});
        vec![
            Self { tool: "Read", input: json!({ "file_path": path }) },
            Self { tool: "Read", input: json!({ "file_path": format!("/proc/self/root{path}") }) },
            Self { tool: "Grep", input: content },
            Self {
                tool: "Grep",
                input: json!({"pattern": ".", "path": folder, "output_mode": "content"}),
            },
        ]
    }

    /// The attack as text for the test's output.
    pub(super) fn text(&self) -> String {
        self.input["command"]
            .as_str()
            .map_or_else(|| format!("{} {}", self.tool, self.input), str::to_owned)
    }
}
