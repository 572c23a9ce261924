//! Measures the file tools Read, Edit, Write, Glob and Grep. These tools open each file through the
//! handle of its folder, and they refuse links. For comparison, the benchmark also does the same
//! work with plain paths and `std::fs`.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_process::sandbox::{Profile, Sandbox};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{PathLocks, ReadLog, Shells, ToolContext, ToolLimits, Toolbox, plain_tools};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Default number of measurements of each case. The option `--rounds` sets another number. Cases
/// that search run only a tenth as often.
const ROUNDS: usize = 500;

/// Number of folders in the project. The next constant is the number of files in each folder.
const FOLDERS: usize = 100;
const FILES: usize = 20;

/// Number of lines in each file.
const LINES: usize = 200;

/// The word to search for. It is in one file of each folder.
const WORD: &str = "needle";

/// A function that creates the input of a tool call. Its argument is the number of the round.
type Input = fn(usize) -> Value;

/// A function that does the same work as a tool, but with plain paths. Its arguments are the
/// project folder and the number of the round.
type Plain = fn(&Path, usize);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().skip_while(|it| *it != "--rounds").nth(1);
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().canonicalize().expect("a path").join("project");
    make(&project);
    let (runtime, tools, context) =
        (Runtime::new().expect("a runtime"), Toolbox::new(plain_tools()), context(&project));
    let call = |tool: &str, input: Value| {
        let outcome = runtime.block_on(tools.call(tool, input, &context));
        assert!(!outcome.is_error, "{tool}: {}", outcome.text);
    };
    for name in ["written", "edited"] {
        call("Read", json!({"file_path": format!("folder-1/{name}")}));
    }
    let searches = rounds.div_ceil(10);
    let cases: [(&str, usize, Input, Plain); 5] = [
        ("Read", rounds, |_| json!({"file_path": "folder-0/file-0.rs"}), plain_read),
        (
            "Write",
            rounds,
            |nth| json!({"file_path": "folder-1/written", "content": text(nth)}),
            plain_write,
        ),
        (
            "Edit",
            rounds,
            |nth| json!({"file_path": "folder-1/edited", "old_string": mark(nth), "new_string": mark(nth + 1)}),
            plain_edit,
        ),
        ("Glob", searches, |_| json!({"pattern": "**/*.rs"}), plain_glob),
        ("Grep", searches, |_| json!({"pattern": WORD}), plain_grep),
    ];
    println!("{rounds} times each, searches {searches} times through {} files:", FOLDERS * FILES);
    for (tool, rounds, input, plain) in cases {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round only fills the caches, so it is not counted.
        for nth in 0..=rounds {
            let (input, started) = (input(nth), Instant::now());
            call(tool, input);
            ours.push(started.elapsed());
            let started = Instant::now();
            plain(&project, nth);
            theirs.push(started.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "  {tool:<6} p50 {:>9.3} ms  by plain paths {:>9.3} ms  {:.2} times",
            ours.as_secs_f64() * 1e3,
            theirs.as_secs_f64() * 1e3,
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
    }
}

fn make(project: &Path) {
    for folder in 0..FOLDERS {
        let folder = project.join(format!("folder-{folder}"));
        fs::create_dir_all(&folder).expect("a folder");
        for file in 0..FILES {
            let has_it = if file == 0 { WORD } else { "nothing" };
            fs::write(folder.join(format!("file-{file}.rs")), format!("{}{has_it}\n", text(file)))
                .expect("a file");
        }
    }
    for (name, text) in [("written", text(0)), ("edited", format!("{}{}\n", text(0), mark(0)))] {
        // Create two files: the tool writes to the first, and the comparison with plain paths
        // writes to the second.
        for name in [name.to_owned(), format!("{name}-plainly")] {
            fs::write(project.join("folder-1").join(name), &text).expect("a file");
        }
    }
}

/// Returns a text of [`LINES`] lines. Each value of `nth` gives a different text.
fn text(nth: usize) -> String {
    (0..LINES).fold(String::new(), |mut text, line| {
        writeln!(text, "line {line} of text {nth}, as long as lines of code are").expect("a text");
        text
    })
}

fn mark(nth: usize) -> String {
    format!("<mark {nth}>")
}

fn median(times: Vec<Duration>) -> Duration {
    let mut times: Vec<Duration> = times.into_iter().skip(1).collect();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn plain_read(project: &Path, _nth: usize) {
    let text = fs::read_to_string(project.join("folder-0/file-0.rs")).expect("a file");
    let numbered = text.lines().enumerate().fold(String::new(), |mut shown, (number, line)| {
        writeln!(shown, "{:>6}\t{line}", number + 1).expect("a text");
        shown
    });
    std::hint::black_box(numbered);
}

fn plain_write(project: &Path, nth: usize) {
    let path = project.join("folder-1/written-plainly");
    std::hint::black_box(fs::read(&path).expect("a file"));
    replace(&path, &text(nth));
}

fn plain_edit(project: &Path, nth: usize) {
    let path = project.join("folder-1/edited-plainly");
    let text = fs::read_to_string(&path).expect("a file");
    replace(&path, &text.replacen(&mark(nth), &mark(nth + 1), 1));
}

/// Replaces a whole file with plain paths. The steps are the same as those of the tool, which works
/// with file handles.
fn replace(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).expect("a file");
    fs::rename(&draft, path).expect("a name");
}

fn plain_glob(project: &Path, _nth: usize) {
    let mut found: Vec<_> = files(project)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            (fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time"), path)
        })
        .collect();
    found.sort();
    assert_eq!(found.len(), FOLDERS * FILES);
}

fn plain_grep(project: &Path, _nth: usize) {
    let has_it = |path: &PathBuf| {
        fs::read_to_string(path).expect("a file").lines().any(|line| line.contains(WORD))
    };
    assert_eq!(files(project).iter().filter(|path| has_it(path)).count(), FOLDERS);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let of =
                if entry.file_type().expect("a kind").is_dir() { &mut folders } else { &mut found };
            of.push(entry.path());
        }
    }
    found
}

fn context(cwd: &Path) -> ToolContext {
    ToolContext {
        cwd: cwd.to_path_buf(),
        env: Vec::new(),
        call: "bench".to_owned(),
        judged: None,
        cancel: CancellationToken::new(),
        gate: Arc::default(),
        sandbox: Sandbox::default(),
        mode: PermissionMode::default(),
        profile: Profile::Free,
        may_unconfine: false,
        reads: ReadLog::new(PathLocks::new()),
        shells: Shells::new(cwd.join("shells")),
        limits: ToolLimits::default(),
    }
}
