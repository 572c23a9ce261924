//! An attacker replaces a folder or a file by a link after the permission gate has decided, and
//! before the tool runs. The tool must open only the file that the gate has judged.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pitcrew_permission::gate::{Call, Gate, Judged, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{ToolContext, ToolOutcome};
use serde_json::{Value, json};

use crate::tools_env::TestEnv;

/// A text that occurs only in files that the agent must not read.
const CANARY: &str = "CANARY";

/// The error text of a tool if a file or folder that the gate has judged is now a link.
const SWAPPED: &str = "changed during the check";

/// Creates a project with the folder `d`. Beside the project is the folder `out`, in which the
/// agent must not read or change anything.
fn ground() -> TestEnv {
    let mut setting = TestEnv::new();
    setting.write("d/file", "inside\n");
    setting.write("d/sub/file", "inside\n");
    setting.write("secret/file", CANARY);
    setting.write("../out/file", CANARY);
    setting.write("../out/sub/file", CANARY);
    setting.write("../out/only-there.txt", CANARY);
    let rules = json!({"permissions": {"deny": ["Read(./secret/**)", "Edit(./secret/**)"]}});
    let settings = Settings::merge(vec![(Layer::User, rules)]).unwrap();
    setting.context.gate = Arc::new(Gate::from_settings(&settings, None).unwrap());
    setting
}

/// Asks the permission gate about a tool call. If the gate allows the call, returns the context for
/// the call, as an agent's driver builds it. Otherwise returns `None`.
fn allowed(setting: &TestEnv, tool: &str, input: &Value) -> Option<ToolContext> {
    let call = Call { tool, input, cwd: &setting.context.cwd, plan_file: None };
    match setting.context.gate.judge_path(PermissionMode::AcceptEdits, &call) {
        Judged { verdict: Verdict::Allow { .. }, path, .. } => {
            assert!(path.is_some(), "{tool} has a path that was judged");
            Some(ToolContext { judged: path, ..setting.context.clone() })
        }
        Judged { verdict: Verdict::Deny { .. } | Verdict::Ask { .. }, .. } => None,
    }
}

/// Replaces a folder of the project by a link to `target`.
fn swap(setting: &TestEnv, name: &str, target: &str) {
    fs::rename(setting.path(name), setting.path("moved")).unwrap();
    symlink(setting.path(target), setting.path(name)).unwrap();
}

/// Returns the path and the content of everything in the folder `out`, which is outside the
/// project.
fn outside(setting: &TestEnv) -> Vec<String> {
    fn list(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                list(&path, found);
            }
            let content = fs::read_to_string(&path).unwrap_or_default();
            found.push(format!("{}: {content}", path.display()));
        }
    }
    let mut found = Vec::new();
    list(&setting.path("../out"), &mut found);
    found.sort();
    found
}

/// Returns tool calls that read, change or search files in `folder`, a folder of the project. The
/// first call reads the file `file`, because a tool may change a file only after a Read call. The
/// number `nth` is part of the names of new files, so that calls with another number create other
/// files.
fn calls(folder: &str, nth: usize) -> Vec<(&'static str, Value)> {
    let at = |name: &str| format!("{folder}/{name}");
    vec![
        ("Read", json!({"file_path": at("file")})),
        ("Edit", json!({"file_path": at("file"), "old_string": "inside", "new_string": "changed"})),
        (
            "Edit",
            json!({"file_path": at(&format!("edited{nth}")), "old_string": "", "new_string": "x"}),
        ),
        ("Write", json!({"file_path": at(&format!("new{nth}")), "content": "x"})),
        ("Write", json!({"file_path": at(&format!("more{nth}/deep/new")), "content": "x"})),
        ("Write", json!({"file_path": at("file"), "content": "inside\n"})),
        ("Grep", json!({"pattern": ".", "path": folder, "output_mode": "content"})),
        ("Grep", json!({"pattern": CANARY, "path": folder})),
        ("Grep", json!({"pattern": ".", "output_mode": "count"})),
        ("Glob", json!({"pattern": "**/*", "path": folder})),
        ("Glob", json!({"pattern": at("*")})),
    ]
}

fn is_secret(outcome: &ToolOutcome) -> bool {
    outcome.text.contains(CANARY)
        || outcome.text.contains("only-there")
        || outcome.data.to_string().contains(CANARY)
}

#[tokio::test]
async fn a_folder_that_is_swapped_for_a_link_after_the_judgement_is_not_followed() {
    for target in ["../out", "secret"] {
        for (tool, input) in calls("d", 0).into_iter().chain(calls("d/sub", 0)) {
            let setting = ground();
            let before = outside(&setting);
            setting.done("Read", json!({"file_path": "d/file"})).await;
            let context = allowed(&setting, tool, &input).expect("it is inside");
            swap(&setting, "d", target);
            let outcome = setting.call_as(&context, tool, input.clone()).await;
            assert!(!is_secret(&outcome), "{tool} {input}: {outcome:?}");
            assert_eq!(outside(&setting), before, "{tool} {input}");
            assert_eq!(fs::read_dir(setting.path("secret")).unwrap().count(), 1, "{tool} {input}");
            // `d` was a folder and is a link now. A call that names `d` fails. A search of the
            // whole project skips `d` without an error.
            let names_folder = input.to_string().contains("d/") || input["path"] == "d";
            assert_eq!(
                outcome.text.contains(SWAPPED),
                names_folder,
                "{tool} {input}: {}",
                outcome.text
            );
        }
    }
}

#[tokio::test]
async fn a_file_that_is_swapped_for_something_else_after_the_judgement_is_not_followed() {
    let inputs = [
        ("Read", json!({"file_path": "d/file"})),
        ("Edit", json!({"file_path": "d/file", "old_string": "i", "new_string": "x"})),
        ("Write", json!({"file_path": "d/file", "content": "x"})),
        ("Grep", json!({"pattern": ".", "path": "d/file", "output_mode": "content"})),
        ("Grep", json!({"pattern": ".", "path": "d", "output_mode": "content"})),
    ];
    for (tool, input) in inputs {
        for kind in ["link", "fifo", "hard link"] {
            let setting = ground();
            let before = outside(&setting);
            setting.done("Read", json!({"file_path": "d/file"})).await;
            let context = allowed(&setting, tool, &input).expect("it is inside");
            let (file, out) = (setting.path("d/file"), setting.path("../out/file"));
            fs::remove_file(&file).unwrap();
            match kind {
                "link" => symlink(&out, &file).unwrap(),
                "fifo" => drop(setting.done("Bash", json!({"command": "mkfifo d/file"})).await),
                _ => fs::hard_link(&out, &file).unwrap(),
            }
            // The call must return for every kind of file. For example, it must not wait at a FIFO.
            let outcome = setting.call_as(&context, tool, input.clone()).await;
            assert_eq!(outside(&setting), before, "{tool} {kind}");
            // A hard link inside the project can show the content of a file outside the project.
            // This is a documented limit. Commands in the sandbox cannot create hard links.
            assert!(kind == "hard link" || !is_secret(&outcome), "{tool} {kind}: {outcome:?}");
            assert!(
                outcome.is_error || tool == "Grep" || kind == "hard link",
                "{tool} {kind}: {outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_link_within_the_project_is_worked_on_as_its_target() {
    let setting = ground();
    symlink("d", setting.path("link")).unwrap();
    for (tool, input) in calls("link", 0) {
        let context = allowed(&setting, tool, &input).expect("it is inside");
        let outcome = setting.call_as(&context, tool, input.clone()).await;
        assert!(!outcome.is_error, "{tool} {input}: {}", outcome.text);
    }
    assert_eq!(setting.content("d/new0"), "x");
    assert!(fs::symlink_metadata(setting.path("link")).unwrap().is_symlink());
    let input = json!({"pattern": "*", "path": "link"});
    let context = allowed(&setting, "Glob", &input).unwrap();
    let found = setting.call_as(&context, "Glob", input).await.text;
    assert!(found.contains("link/new0"), "{found}");
}

#[tokio::test]
async fn a_written_file_keeps_its_rights_but_runs_as_nobody_else() {
    let setting = TestEnv::new();
    let path = setting.write("program", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6754)).unwrap();
    setting.done("Read", json!({"file_path": "program"})).await;
    setting.done("Write", json!({"file_path": "program", "content": "new"})).await;
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o754);
}

#[tokio::test]
async fn a_tree_deeper_than_there_are_handles_is_searched() {
    let setting = TestEnv::new();
    let deep = "d/".repeat(1_500);
    setting.write(&format!("{deep}file"), "found\n");
    let found = setting.done("Grep", json!({"pattern": "found", "output_mode": "content"})).await;
    assert!(found.ends_with("file:1:found"), "{found}");
}

/// A thread that replaces a folder of the project by a link and back, again and again. Dropping
/// this value ends the thread.
struct Swapping {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapping {
    fn start(setting: &TestEnv, target: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (folder, aside, target) = (setting.path("d"), setting.path("d_"), setting.path(target));
        let has_ended = ends.clone();
        let thread = std::thread::spawn(move || {
            while !has_ended.load(Ordering::Relaxed) {
                // A tool may create the folder again between two of these steps. A step can then
                // fail. The thread ignores the error and continues.
                let _either = fs::rename(&folder, &aside).and_then(|()| symlink(&target, &folder));
                std::thread::yield_now();
                let _either = fs::remove_file(&folder).and_then(|()| fs::rename(&aside, &folder));
                std::thread::yield_now();
                if aside.is_dir() && folder.is_dir() && !folder.is_symlink() {
                    fs::remove_dir_all(&folder).unwrap_or_default();
                    fs::rename(&aside, &folder).unwrap_or_default();
                }
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Calls each tool while a thread replaces the folder again and again. The test is meaningful only
/// if enough calls succeed, and enough calls meet the link.
#[tokio::test]
async fn no_call_escapes_while_a_folder_is_swapped_for_a_link_and_back() {
    const ROUNDS_MOST: usize = 2_000;
    for target in ["../out", "secret"] {
        let setting = ground();
        setting.done("Read", json!({"file_path": "d/file"})).await;
        let before = outside(&setting);
        let swapping = Swapping::start(&setting, target);
        let (mut done, mut noticed) = (0, 0);
        for nth in 0..ROUNDS_MOST {
            for (tool, input) in calls("d", nth) {
                let Some(context) = allowed(&setting, tool, &input) else { continue };
                let outcome = setting.call_as(&context, tool, input.clone()).await;
                assert!(!is_secret(&outcome), "{tool} {input}: {outcome:?}");
                done += usize::from(!outcome.is_error);
                noticed += usize::from(outcome.text.contains(SWAPPED));
            }
            if done >= 300 && noticed >= 30 {
                break;
            }
        }
        drop(swapping);
        assert_eq!(outside(&setting), before);
        assert_eq!(fs::read_dir(setting.path("secret")).unwrap().count(), 1);
        assert!(done >= 300 && noticed >= 30, "{done} calls were done, and {noticed} met the link");
        eprintln!("{target}: {done} calls were done, and {noticed} met the link");
    }
}
