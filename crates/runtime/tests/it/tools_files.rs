//! The tools Read, Write and Edit, with real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use pitcrew_tools::PathLocks;
use serde_json::{Value, json};

use crate::tools_env::TestEnv;

fn edit(file: &str, old: &str, new: &str) -> Value {
    json!({"file_path": file, "old_string": old, "new_string": new})
}

fn write(file: &str, content: &str) -> Value {
    json!({"file_path": file, "content": content})
}

fn read(file: &str) -> Value {
    json!({"file_path": file})
}

#[tokio::test]
async fn lines_are_shown_with_their_numbers() {
    let setting = TestEnv::new();
    setting.write("a.txt", "one\r\ntwo\n\nfour");
    let text = setting.done("Read", read("a.txt")).await;
    assert_eq!(text, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n");
    let part = json!({"file_path": "a.txt", "offset": 2, "limit": 1.0});
    assert_eq!(
        setting.done("Read", part).await,
        "     2\ttwo\n\n[2 more lines; go on with offset 3]"
    );
    let past = json!({"file_path": "a.txt", "offset": 9});
    insta::assert_snapshot!(setting.done("Read", past).await, @"ROOT/project/a.txt has 4 lines; line 9 is past its end.");
}

#[tokio::test]
async fn what_is_shown_is_bounded() {
    let mut setting = TestEnv::new();
    setting.context.limits.line_chars = 5;
    setting.context.limits.read_chars = 40;
    setting.write("a.txt", "äöüäöüäöü\n".repeat(100_000));
    let text = setting.done("Read", read("a.txt")).await;
    assert_eq!(
        text,
        "     1\täöüäö... [line cut]\n     2\täöüäö... [line cut]\n\n[99998 more lines; go on with offset 3]"
    );
    setting.context.limits.file_bytes = 1_000;
    assert!(setting.refused("Read", read("a.txt")).await.contains("the limit is 1000 bytes"));
}

#[tokio::test]
async fn what_is_no_text_file_is_refused() {
    let setting = TestEnv::new();
    setting.write("a.bin", b"a\0b");
    setting.write("a.png", "not looked at");
    setting.write("empty", "");
    setting.done("Bash", json!({"command": "mkfifo pipe; mkdir folder"})).await;
    let check = async |file: &str, words: &str| {
        let text = setting.refused("Read", read(file)).await;
        assert!(text.contains(words), "{file}: {text}");
    };
    check("a.bin", "binary").await;
    check("a.png", "binary").await;
    check("pipe", "not a regular file").await;
    check("folder", "is a folder").await;
    check("/dev/zero", "not a regular file").await;
    check("nothing", "does not exist. Relative paths start from ROOT/project").await;
    check("", "path is empty").await;
    check("a\0b", "NUL").await;
    check(&"x".repeat(5_000), "File name too long").await;
    assert!(setting.done("Read", read("empty")).await.contains("exists but is empty"));
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders() {
    let setting = TestEnv::new();
    let outcome = setting.call("Write", write("a/b/c.txt", "hello")).await;
    assert_eq!(outcome.text, "Created ROOT/project/a/b/c.txt (5 bytes).");
    assert_eq!(outcome.data["type"], "create");
    assert_eq!(setting.content("a/b/c.txt"), "hello");
    let outcome = setting.call("Write", write("a/b/c.txt", "bye")).await;
    assert_eq!(outcome.data["type"], "update");
    assert_eq!(outcome.data["structuredPatch"][0]["lines"], json!(["-hello", "+bye"]));
    let names: Vec<_> = fs::read_dir(setting.path("a/b")).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file is left");
}

#[tokio::test]
async fn a_file_that_was_not_read_is_not_overwritten() {
    let setting = TestEnv::new();
    setting.write("a.txt", "precious");
    for (tool, input) in [("Write", write("a.txt", "x")), ("Edit", edit("a.txt", "precious", "x"))]
    {
        let text = setting.refused(tool, input).await;
        assert!(text.contains("has not been read yet"), "{text}");
    }
    assert_eq!(setting.content("a.txt"), "precious");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let setting = TestEnv::new();
    let path = setting.write("a.txt", "first");
    setting.done("Read", read("a.txt")).await;
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    setting.write("a.txt", "other");
    // Sets the modification time back to its value before the change. The file then has its old
    // size and its old time. The tools must still notice that its content has changed.
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    for (tool, input) in [("Write", write("a.txt", "x")), ("Edit", edit("a.txt", "other", "x"))] {
        let text = setting.refused(tool, input).await;
        assert!(text.contains("has changed since it was read"), "{text}");
    }
    assert_eq!(setting.content("a.txt"), "other");
    setting.done("Read", read("a.txt")).await;
    setting.done("Edit", edit("a.txt", "other", "mine")).await;
    setting.done("Edit", edit("a.txt", "mine", "mine too")).await;
    assert_eq!(setting.content("a.txt"), "mine too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_agents_that_edit_one_file_at_once_exactly_one_wins() {
    let setting = TestEnv::new();
    let locks = PathLocks::new();
    let agents: Vec<_> = (0..16).map(|_| setting.colleague(&locks)).collect();
    for round in 0..10 {
        setting.write("a.txt", "nobody");
        for agent in &agents {
            let outcome = setting.call_as(agent, "Read", read("a.txt")).await;
            assert!(!outcome.is_error);
        }
        let edits = agents.iter().enumerate().map(|(number, agent)| {
            let input = edit("a.txt", "nobody", &format!("agent {round} {number}"));
            setting.call_as(agent, "Edit", input)
        });
        let outcomes = futures_util::future::join_all(edits).await;
        let winners: Vec<_> = (0..agents.len()).filter(|n| !outcomes[*n].is_error).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(setting.content("a.txt"), format!("agent {round} {}", winners[0]));
        let losers = outcomes.iter().filter(|outcome| outcome.is_error);
        assert!(losers.clone().all(|outcome| outcome.text.contains("has changed since")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_agents_that_create_one_file_at_once_exactly_one_wins() {
    let setting = TestEnv::new();
    // Each agent has its own locks, as if each agent ran in a different process.
    let agents: Vec<_> = (0..16).map(|_| setting.colleague(&PathLocks::new())).collect();
    let writes = agents.iter().enumerate().map(|(number, agent)| {
        setting.call_as(agent, "Write", write("new/a.txt", &number.to_string()))
    });
    let outcomes = futures_util::future::join_all(writes).await;
    let winners: Vec<_> = (0..agents.len()).filter(|n| !outcomes[*n].is_error).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(setting.content("new/a.txt"), winners[0].to_string());
}

#[tokio::test]
async fn rights_and_links_are_kept() {
    let setting = TestEnv::new();
    let path = setting.write("real/tool.sh", "echo old\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    symlink("real/tool.sh", setting.path("link.sh")).unwrap();
    symlink("real/new.sh", setting.path("dangling.sh")).unwrap();
    setting.done("Read", read("link.sh")).await;
    setting.done("Edit", edit("real/tool.sh", "old", "new")).await;
    setting.done("Write", write("link.sh", "echo newer\n")).await;
    setting.done("Write", write("dangling.sh", "echo\n")).await;
    assert!(setting.path("link.sh").is_symlink() && setting.path("dangling.sh").is_symlink());
    assert_eq!(setting.content("real/tool.sh"), "echo newer\n");
    assert_eq!(setting.content("real/new.sh"), "echo\n");
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn an_edit_shows_the_lines_around_it() {
    let setting = TestEnv::new();
    let content: String = (1..=20).map(|number| format!("line {number}\n")).collect();
    setting.write("a.txt", content);
    setting.done("Read", read("a.txt")).await;
    let text = setting.done("Edit", edit("a.txt", "line 10\n", "ten\nand more\n")).await;
    insta::assert_snapshot!(text, @r"
    Changed ROOT/project/a.txt. It now reads:
         6	line 6
         7	line 7
         8	line 8
         9	line 9
        10	ten
        11	and more
        12	line 11
        13	line 12
        14	line 13
        15	line 14
    ");
}

#[tokio::test]
async fn an_edit_keeps_crlf_and_a_missing_last_newline() {
    let setting = TestEnv::new();
    setting.write("a.txt", "one\r\ntwo\r\nthree");
    setting.done("Read", read("a.txt")).await;
    setting.done("Edit", edit("a.txt", "one\ntwo", "1\n2\n2.5")).await;
    assert_eq!(setting.content("a.txt"), "1\r\n2\r\n2.5\r\nthree");
}

#[tokio::test]
async fn an_edit_that_is_not_clear_changes_nothing() {
    let setting = TestEnv::new();
    setting.write("a.txt", "x = 1\nx = 1\n");
    setting.write("latin.txt", b"caf\xe9");
    setting.done("Read", read("a.txt")).await;
    setting.done("Read", read("latin.txt")).await;
    let check = async |input: Value, words: &str| {
        let text = setting.refused("Edit", input).await;
        assert!(text.contains(words), "{text}");
    };
    check(edit("a.txt", "x = 1", "y"), "found 2 times").await;
    check(edit("a.txt", "absent", "y"), "was not found").await;
    check(edit("a.txt", "x", "x"), "nothing to change").await;
    check(edit("a.txt", "", "y"), "exists and is not empty").await;
    check(edit("new.txt", "x", "y"), "does not exist").await;
    check(edit("latin.txt", "caf", "y"), "binary").await;
    assert_eq!(setting.content("a.txt"), "x = 1\nx = 1\n");
    assert!(!setting.path("new.txt").exists());
    let all =
        json!({"file_path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": true});
    setting.done("Edit", all).await;
    assert_eq!(setting.content("a.txt"), "y = 1\ny = 1\n");
    setting.done("Edit", edit("new.txt", "", "made\n")).await;
    assert_eq!(setting.content("new.txt"), "made\n");
}

#[tokio::test]
async fn a_path_through_a_file_or_a_loop_is_an_error() {
    let setting = TestEnv::new();
    setting.write("file", "x");
    symlink("loop", setting.path("loop")).unwrap();
    for path in ["file/below", "loop"] {
        setting.refused("Write", write(path, "y")).await;
    }
    assert_eq!(setting.content("file"), "x");
    // The permission gate removes `..` from a path before it decides. The tool must open the same
    // path that the gate has judged.
    setting.done("Write", write("missing/../x", "y")).await;
    assert_eq!(setting.content("x"), "y");
    assert!(!setting.path("missing").exists());
}

#[tokio::test]
async fn an_interrupted_agent_changes_nothing_more() {
    let setting = TestEnv::new();
    setting.context.cancel.cancel();
    let text = setting.refused("Write", write("a.txt", "x")).await;
    assert!(text.contains("interrupted"));
    assert!(!setting.path("a.txt").exists());
}
