//! Runs attacks: a scripted model makes the tool calls, the binary answers them, and the tests
//! judge the effects.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ground::{Bounds, CANARY, Ground, State};
use super::host::Host;
use super::list::Attack;

/// The number of tool calls in one turn of the model.
const TURN: usize = 40;

/// Texts that show that the permission gate refused a call.
const REFUSALS: [&str; 6] = [
    "Permission denied for ",
    "in plan mode only",
    "denied by ",
    "belongs to the team's own files",
    "belongs to the user's settings",
    "the path goes through a symbolic link",
];

/// The way in which the attacking agent is restricted: a permission mode, the flag `--sandbox`, or
/// a rule that allows all shell commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Default,
    Plan,
    AcceptEdits,
    Sandbox,
    Bypass,
    Rule,
}

impl Way {
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::Plan => &["--permission-mode", "plan"],
            Self::AcceptEdits => &["--permission-mode", "acceptEdits"],
            Self::Sandbox => &["--sandbox"],
            Self::Bypass => &["--permission-mode", "bypassPermissions"],
            Self::Rule => &["--allow", "Bash"],
        }
    }

    pub(super) fn bounds(self) -> Bounds {
        match self {
            Self::Default | Self::Plan => Bounds::Nothing,
            Self::AcceptEdits | Self::Sandbox => Bounds::WorkingFolder,
            Self::Bypass | Self::Rule => Bounds::AllButRoot,
        }
    }
}

/// The result of running several attacks.
pub(super) struct Played {
    /// The number of attacks.
    pub(super) attacks: usize,
    /// The number of attacks that ran because the permission gate did not refuse them.
    pub(super) ran: usize,
    pub(super) took: Duration,
    /// The successes of the attacks: secrets that were read, files and processes that were changed,
    /// and listening sockets that were reached.
    pub(super) faults: Vec<String>,
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attacks, ran, took, faults } = self;
        write!(
            f,
            "{attacks} attacks, {ran} were run, {} got through, {:.1} s",
            faults.len(),
            took.as_secs_f32()
        )
    }
}

/// Converts the attacks into turns of the model.
pub(super) fn turns(attacks: &[Attack]) -> Vec<Value> {
    let call = |attack: &Attack| {
        // In a script, `${` begins a variable. `$${` stands for a literal `${`.
        let input = attack.input.to_string().replace("${", "$${");
        json!({"name": attack.tool, "input": serde_json::from_str::<Value>(&input).unwrap()})
    };
    attacks
        .chunks(TURN)
        .map(|chunk| json!({"tools": chunk.iter().map(call).collect::<Vec<_>>()}))
        .collect()
}

/// A script whose lead makes each attack as a tool call.
fn script(attacks: &[Attack]) -> Value {
    let steps: Vec<Value> = turns(attacks).into_iter().chain([json!({"text": "Done."})]).collect();
    json!({"agents": {"team-lead": steps}})
}

/// The output of a run that has played a script, and whether the run succeeded.
pub(super) struct Ran {
    pub(super) is_success: bool,
    pub(super) said: String,
    pub(super) log: String,
}

impl Ran {
    pub(super) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            is_success: output.status.success(),
            said: text(&output.stdout),
            log: text(&output.stderr),
        }
    }

    /// The results of the tool calls, in the order of the calls.
    pub(super) fn results(&self) -> Vec<String> {
        results(&self.said)
    }
}

/// Runs the binary with these arguments and a script that makes `calls`.
pub(super) fn run(host: &Host, ground: &Ground, arguments: &[&str], calls: &[Attack]) -> Ran {
    run_in(&ground.at("work"), host, ground, arguments, calls)
}

/// Runs the binary in `folder`, with these arguments and a script that makes `calls`.
pub(super) fn run_in(
    folder: &Path,
    host: &Host,
    ground: &Ground,
    arguments: &[&str],
    calls: &[Attack],
) -> Ran {
    let file = host.folder().join("script.json");
    fs::write(&file, script(calls).to_string()).unwrap();
    let mut run = ground.run(host);
    run.args(["run", "attack", "--team", "attacked", "--output-format", "stream-json", "--model"])
        .current_dir(folder);
    run.arg(format!("script:{}", file.display())).args(arguments).stdin(Stdio::null());
    Ran::of(&run.output().unwrap())
}

/// Runs all attacks in one run. The lead makes the calls.
pub(super) fn play(host: &Host, ground: &Ground, way: Way, attacks: &[Attack]) -> Played {
    judged(host, ground, way, attacks, || {
        let ran = run(host, ground, way.arguments(), attacks);
        let results = ran.results();
        (ran, results)
    })
}

/// Runs the attacks with the function `made`, and judges what the attacks did. For the judgement,
/// this function looks at the files, the listening sockets, the output of the run and the results
/// of the tool calls.
pub(super) fn judged(
    host: &Host,
    ground: &Ground,
    way: Way,
    attacks: &[Attack],
    made: impl FnOnce() -> (Ran, Vec<String>),
) -> Played {
    let started = Instant::now();
    let before = ground.kept(way.bounds());
    let (Ran { is_success, said, log }, results) = made();
    assert!(is_success && said.contains("\"Done.\""), "{host}, {way:?}: {}\n{log}", tail(&said));
    assert_eq!(results.len(), attacks.len(), "{host}, {way:?}: not all were answered\n{log}");
    if std::env::var_os("PITCREW_ATTACKS_SLOW").is_some() {
        let is_cut =
            |(_, result): &(&Attack, &String)| result.starts_with("The command was stopped after");
        attacks
            .iter()
            .zip(&results)
            .filter(is_cut)
            .for_each(|(attack, _)| eprintln!("slow: {}", attack.text()));
    }
    let mut faults = Vec::new();
    for (attack, result) in attacks.iter().zip(&results) {
        if result.contains(CANARY) && way.bounds() != Bounds::AllButRoot {
            faults.push(format!("read by {}: {result}", attack.text()));
        }
    }
    if way.bounds() != Bounds::AllButRoot {
        let outputs = ground.outputs();
        let told = [
            ("the answer", &*said),
            ("the log", &*log),
            ("an output in the background", &*outputs),
        ];
        faults.extend(
            told.iter()
                .filter(|(_, text)| text.contains(CANARY))
                .map(|(name, _)| format!("read, and in {name}")),
        );
        faults.extend(ground.reached().into_iter().map(|who| format!("reached {who}")));
        faults.extend(ground.harmed().map(|stat| format!("harmed a process outside: {stat}")));
    }
    let after = ground.kept(way.bounds());
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let changed = paths.filter(|path| before.get(*path) != after.get(*path));
    let content = |states: &BTreeMap<PathBuf, State>, path: &PathBuf| {
        let content = states.get(path).map(|state| String::from_utf8_lossy(&state.4).into_owned());
        content.map_or_else(|| "nothing".to_owned(), |content| format!("{content:?}"))
    };
    let change = |path: &PathBuf| {
        format!(
            "changed {}: {} became {}",
            path.display(),
            content(&before, path),
            content(&after, path)
        )
    };
    faults.extend(changed.map(change));
    let is_run = |result: &&String| REFUSALS.iter().all(|refusal| !result.contains(refusal));
    Played {
        attacks: attacks.len(),
        ran: results.iter().filter(is_run).count(),
        took: started.elapsed(),
        faults,
    }
}

/// Returns two numbers from a call's id: the number of the turn, and the number of the call within
/// that turn.
pub(super) fn number(id: &str) -> (usize, usize) {
    let numbers = id.rsplit('_').take(2).map(|it| it.parse::<usize>().unwrap()).collect::<Vec<_>>();
    (numbers[1], numbers[0])
}

/// Returns the results of the tool calls from the run's output, in the order of the calls.
fn results(said: &str) -> Vec<String> {
    let mut results = BTreeMap::new();
    for line in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                let number = number(block["tool_use_id"].as_str().unwrap());
                let content = block["content"]
                    .as_str()
                    .map_or_else(|| block["content"].to_string(), str::to_owned);
                results.insert(number, content);
            }
        }
    }
    results.into_values().collect()
}

fn tail(text: &str) -> String {
    text.lines()
        .rev()
        .take(3)
        .map(|line| line.chars().take(2_000).collect::<String>() + "\n")
        .collect()
}

/// Finds one attack that succeeds. Each step divides the remaining attacks into two halves and runs
/// the first half. If an attack of the first half succeeds, the search continues in the first half,
/// and otherwise in the second half.
pub(super) fn culprit(host: &Host, way: Way, attacks: &dyn Fn(&Ground) -> Vec<Attack>) -> String {
    let mut among = (0, usize::MAX);
    loop {
        let ground = Ground::new(host);
        let all = attacks(&ground);
        let (from, to) = (among.0, among.1.min(all.len()));
        if to - from <= 1 {
            return all.get(from).map(Attack::text).unwrap_or_default();
        }
        let middle = from.midpoint(to);
        let got_through = !play(host, &ground, way, &all[from..middle]).faults.is_empty();
        among = if got_through { (from, middle) } else { (middle, to) };
    }
}
