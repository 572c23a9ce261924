//! The tools Glob and Grep, with real files.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::{Layer, Settings};
use serde_json::{Value, json};

use crate::tools_env::TestEnv;

/// Creates a small project. The files in the array `files` have increasing modification times: the
/// first file is the oldest.
fn project() -> TestEnv {
    let setting = TestEnv::new();
    let files: [(&str, &[u8]); 7] = [
        (".gitignore", b"target/\n*.log\n"),
        ("src/main.rs", b"fn main() {\n    greet();\n}\n"),
        ("src/deep/er.rs", b"// Greet people\nfn greet() {}\n\nfn other() {}\n"),
        ("readme.md", b"greet\n"),
        ("noise.log", b"greet\n"),
        ("target/out.rs", b"greet\n"),
        (".git/config.rs", b"greet\n"),
    ];
    for (age, (name, content)) in files.iter().enumerate() {
        let path = setting.write(name, content);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + age as u64);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    setting.write("data.bin", b"greet\0");
    setting
}

async fn check(tool: &str, input: Value) -> String {
    project().done(tool, input).await
}

#[tokio::test]
async fn files_are_found_newest_first_without_what_git_ignores() {
    insta::assert_snapshot!(check("Glob", json!({"pattern": "**/*.{rs,log}"})).await, @r"
    src/deep/er.rs
    src/main.rs
    ");
    assert_eq!(check("Glob", json!({"pattern": ".git*"})).await, ".gitignore");
}

#[tokio::test]
async fn a_star_stays_in_its_folder() {
    assert_eq!(check("Glob", json!({"pattern": "src/*.rs"})).await, "src/main.rs");
    assert_eq!(
        check("Glob", json!({"pattern": "*.rs", "path": "src/deep"})).await,
        "src/deep/er.rs"
    );
    assert_eq!(check("Glob", json!({"pattern": "*.rs"})).await, "No files found");
}

#[tokio::test]
async fn an_ignored_folder_that_is_named_is_searched() {
    assert_eq!(check("Glob", json!({"pattern": "target/*.rs"})).await, "target/out.rs");
}

#[tokio::test]
async fn a_long_list_of_files_is_cut_and_says_so() {
    let mut setting = project();
    setting.context.limits.found_files = 1;
    let outcome = setting.call("Glob", json!({"pattern": "**/*.rs"})).await;
    insta::assert_snapshot!(outcome.text, @r"
    src/deep/er.rs
    [1 more file is not shown; use a narrower pattern or path]
    ");
    assert_eq!(outcome.data["truncated"], json!(true));
}

#[tokio::test]
async fn files_with_a_match_are_listed() {
    insta::assert_snapshot!(check("Grep", json!({"pattern": "greet"})).await, @r"
    readme.md
    src/deep/er.rs
    src/main.rs
    ");
}

#[tokio::test]
async fn lines_are_shown_with_their_surroundings() {
    let input = json!({"pattern": "greet", "output_mode": "content", "-A": 1, "glob": "*.rs"});
    insta::assert_snapshot!(check("Grep", input).await, @r"
    src/deep/er.rs:2:fn greet() {}
    src/deep/er.rs-3-
    src/main.rs:2:    greet();
    src/main.rs-3-}
    ");
}

#[tokio::test]
async fn case_type_and_numbers_can_be_chosen() {
    let input = json!({
        "pattern": "^// GREET", "output_mode": "content", "-i": true, "-n": false, "type": "rust",
    });
    assert_eq!(check("Grep", input).await, "src/deep/er.rs:// Greet people");
}

#[tokio::test]
async fn matching_lines_are_counted() {
    let input = json!({"pattern": "fn ", "output_mode": "count"});
    insta::assert_snapshot!(check("Grep", input).await, @r"
    src/deep/er.rs:2
    src/main.rs:1
    3 matching lines in 2 files
    ");
}

#[tokio::test]
async fn a_match_may_go_over_lines_when_asked() {
    let pattern = r"greet\(\) \{\}\n\nfn other";
    let input = json!({"pattern": pattern, "output_mode": "content", "multiline": true});
    insta::assert_snapshot!(check("Grep", input).await, @r"
    src/deep/er.rs:2:fn greet() {}
    src/deep/er.rs:3:
    src/deep/er.rs:4:fn other() {}
    ");
}

#[tokio::test]
async fn results_are_paged() {
    let input = json!({"pattern": "fn", "output_mode": "content", "head_limit": 1, "offset": 1});
    insta::assert_snapshot!(check("Grep", input).await, @r"
    src/deep/er.rs:4:fn other() {}
    [more lines; go on with offset 2]
    ");
    let input = json!({"pattern": "fn", "output_mode": "content", "head_limit": 5, "offset": 2});
    assert_eq!(check("Grep", input).await, "src/main.rs:1:fn main() {");
}

#[tokio::test]
async fn one_file_can_be_searched() {
    let input = json!({"pattern": "greet", "path": "noise.log", "output_mode": "content"});
    assert_eq!(check("Grep", input).await, "noise.log:1:greet");
}

#[tokio::test]
async fn nothing_found_is_said() {
    for mode in ["content", "files_with_matches", "count"] {
        let text = check("Grep", json!({"pattern": "absent", "output_mode": mode})).await;
        assert!(text.starts_with("No "), "{text}");
    }
}

#[tokio::test]
async fn bad_patterns_types_and_places_are_refused() {
    let setting = project();
    let refused = async |tool: &str, input: Value, words: &str| {
        let text = setting.refused(tool, input).await;
        assert!(text.contains(words), "{text}");
    };
    refused("Grep", json!({"pattern": "("}), "not a valid regular expression").await;
    refused("Grep", json!({"pattern": "a", "type": "nonsense"}), "nonsense").await;
    refused("Grep", json!({"pattern": "a", "glob": "["}), "glob").await;
    refused("Grep", json!({"pattern": "a", "path": "gone"}), "does not exist").await;
    refused("Grep", json!({"pattern": "a", "-A": -1}), "whole number").await;
    refused("Grep", json!({"pattern": "a", "output_mode": "all"}), "must be one of").await;
    refused("Glob", json!({"pattern": "["}), "pattern is not valid").await;
    refused("Glob", json!({"pattern": "*", "path": "gone"}), "is not a folder").await;
}

#[tokio::test]
async fn what_may_not_be_read_is_not_found() {
    let mut setting = project();
    setting.write("src/secrets/key.rs", "greet the key\n");
    std::os::unix::fs::symlink(setting.path("src/secrets"), setting.path("src/innocent")).unwrap();
    let rules = json!({"permissions": {"deny": ["Read(**/secrets/**)", "Read(*.md)"]}});
    let settings = Settings::merge(vec![(Layer::User, rules)]).unwrap();
    setting.context.gate = Arc::new(Gate::from_settings(&settings, None).unwrap());
    let found = setting.done("Glob", json!({"pattern": "**/*.{rs,md}"})).await;
    assert_eq!(found, "src/deep/er.rs\nsrc/main.rs");
    assert_eq!(
        setting.done("Glob", json!({"pattern": "*.rs", "path": "src/innocent"})).await,
        "No files found"
    );
    for mode in ["files_with_matches", "content", "count"] {
        let input = json!({"pattern": "greet", "output_mode": mode, "-i": true});
        let found = setting.done("Grep", input).await;
        assert!(
            found.contains("src/main.rs") && !found.contains("key") && !found.contains("readme"),
            "{found}"
        );
    }
    let found = setting.done("Grep", json!({"pattern": "key", "path": "src/innocent"})).await;
    assert_eq!(found, "No files found");
    assert_eq!(
        setting.done("Grep", json!({"pattern": "greet", "path": "readme.md"})).await,
        "No files found"
    );
}

#[tokio::test]
async fn an_ignore_file_that_is_no_plain_file_is_not_read() {
    for name in [".gitignore", ".ignore", ".git/info/exclude"] {
        for (tool, input) in
            [("Glob", json!({"pattern": "**/*.md"})), ("Grep", json!({"pattern": "greet"}))]
        {
            let setting = project();
            let place = |below: &str| setting.path(below).join(name);
            for below in ["", "sub"] {
                std::fs::create_dir_all(place(below).parent().unwrap()).unwrap();
            }
            setting.write("sub/a.md", b"greet");
            assert!(
                std::process::Command::new("mkfifo").arg(place("sub")).status().unwrap().success()
            );
            let found = setting.done(tool, input.clone()).await;
            assert!(found.contains("readme.md") && !found.contains("sub"), "{name}: {found}");
            let _either = std::fs::remove_file(place(""));
            std::os::unix::fs::symlink("/dev/zero", place("")).unwrap();
            let refused = setting.refused(tool, input).await;
            assert!(
                refused.contains("it is a device, but only regular files are read"),
                "{name}: {refused}"
            );
        }
    }
}
