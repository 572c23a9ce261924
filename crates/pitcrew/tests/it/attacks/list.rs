//! The attacks as tool calls: the shell commands of `crates/runtime/tests/attacks.txt`, and calls
//! of the file tools.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use serde_json::{Value, json};

/// The time limit of one attack, in milliseconds.
const MILLISECONDS: u64 = 4_000;

/// An attack, which is one call of a tool.
#[derive(Debug, Clone)]
pub(super) struct Attack {
    pub(super) tool: &'static str,
    pub(super) input: Value,
}

/// The part of the attacks that a test runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    Whole,
    /// About one of every `of` attacks runs. The seed decides which attacks run.
    Part {
        of: u64,
        seed: u64,
    },
}

impl Extent {
    /// Reads the environment variable `PITCREW_ATTACKS`: the word `all`, or the seed that chooses a
    /// part.
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

    /// Chooses the attacks to run by their positions in the list. The texts of the attacks are not
    /// used for this, because they contain paths that differ in each run.
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

/// Reads the attacks from the file. The key is the name of a section, and the value is the
/// section's shell commands.
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
    /// Builds an attack that runs the shell command `line`. The command `before` runs first, in the
    /// same shell.
    pub(super) fn shell(before: &str, line: &str) -> Self {
        Self {
            tool: "Bash",
            input: json!({ "command": format!("{before}{line}"), "timeout": MILLISECONDS }),
        }
    }

    /// Returns two variants of this attack. One asks to run in the background, and the other asks
    /// to run outside the sandbox.
    pub(super) fn odder(self) -> [Self; 2] {
        ["run_in_background", "dangerouslyDisableSandbox"].map(|field| {
            let mut odd = self.clone();
            odd.input[field] = json!(true);
            odd
        })
    }

    /// Returns one attack for each shell command of a section. Each attack uses the file `target`:
    /// to change it if the section is `write`, and to read it if the section is `read`. The shell
    /// command `before` runs first in each attack.
    pub(super) fn of_section(section: &str, target: &Path, before: &str) -> Vec<Self> {
        let target = target.to_str().unwrap();
        let lines = sections().remove(section).unwrap();
        lines
            .iter()
            .map(|line| Self::shell(before, &line.replace("%T", target).replace("%S", target)))
            .collect()
    }

    /// Calls of the file tools that try to change the protected file `target`.
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

    /// Calls of the file tools that try to read the file `secret`.
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

    /// The attack as a text for the output of the test.
    pub(super) fn text(&self) -> String {
        self.input["command"]
            .as_str()
            .map_or_else(|| format!("{} {}", self.tool, self.input), str::to_owned)
    }
}
