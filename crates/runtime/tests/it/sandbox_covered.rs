//! Tests that a sandboxed command changes no protected file that exists: not through a link in a
//! protected folder, not through another name of the file, and not after another program replaced
//! the file, which removes the mount that protects it.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::sandbox_work::ground;

/// Symbolic links in protected folders: the link, its target, the file to which it leads, and
/// whether this file exists.
const LINKS: &[(&str, &str, &str, bool)] = &[
    (".git/hooks/pre-commit", "../../scripts/pre.sh", "scripts/pre.sh", true),
    (".git/hooks/pre-push", "../../scripts/push.sh", "scripts/push.sh", false),
    (".husky/pre-commit", "../tools/hook.sh", "tools/hook.sh", true),
    (".husky/_/deep", "../../tools/deep.sh", "tools/deep.sh", true),
    (".vscode/tasks.json", "../config/tasks.json", "config/tasks.json", true),
    (".vscode/launch.json", "../config/launch.json", "config/launch.json", false),
    (".claude/settings.json", "../shared/settings.json", "shared/settings.json", true),
    (".claude/agents", "../agents-here", "agents-here/a.md", true),
];

#[tokio::test]
async fn no_link_in_a_protected_folder_leads_a_command_to_a_file_that_it_can_change() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (link, target, file, exists) in LINKS {
        for path in [link, file] {
            fs::create_dir_all(cwd.join(path).parent().unwrap()).unwrap();
        }
        if *exists {
            fs::write(cwd.join(file), "mine").unwrap();
        }
        let _there_is_one = fs::remove_file(cwd.join(link));
        symlink(target, cwd.join(link)).unwrap();
    }
    for (link, _, file, exists) in LINKS {
        let folder = Path::new(file).parent().unwrap().display();
        let ways = format!(
            "echo evil > {file}; echo evil > {link}; echo evil > n; mv n {file}; \
             mv {folder} moved; mkdir -p {folder}; echo evil > {file}"
        );
        let said = ground.bash(&ways).await;
        let now = fs::read_to_string(cwd.join(file)).ok();
        assert_eq!(now.as_deref(), exists.then_some("mine"), "{link}: {said}");
    }
}

/// Protected files, and another name that each has in the working folder.
const OTHER_NAMES: &[(&str, &str)] = &[
    (".git/config", "hl-config"),
    (".git/hooks/pre-commit", "sub/hl-hook"),
    (".envrc", "hl-envrc"),
    (".claude/settings.json", "hl-settings"),
];

#[tokio::test]
async fn no_other_name_of_a_protected_file_lets_a_command_change_it() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (file, name) in OTHER_NAMES {
        fs::create_dir_all(cwd.join(file).parent().unwrap()).unwrap();
        if !cwd.join(file).exists() {
            fs::write(cwd.join(file), "mine").unwrap();
        }
        fs::hard_link(cwd.join(file), cwd.join(name)).unwrap();
    }
    for (file, name) in OTHER_NAMES {
        let before = fs::read_to_string(cwd.join(file)).unwrap();
        let said = ground.bash(&format!("echo evil >> {name}; truncate -s 0 {name}")).await;
        assert_eq!(fs::read_to_string(cwd.join(file)).unwrap(), before, "{file}: {said}");
    }
}

#[tokio::test]
async fn a_file_with_the_longest_name_is_put_aside_too() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    let longest = format!("{}.code-workspace", "a".repeat(255 - ".code-workspace".len()));
    let said = ground.bash(&format!("echo x > {longest}")).await;
    assert!(said.contains("put out of the way"), "{said}");
    assert!(!cwd.join(&longest).exists(), "{said}");
}

/// What another program does while a command runs, what the command does then, and whether the
/// command's result says that a file was put aside. In each line `F` is the file.
struct Replaced {
    file: &'static str,
    by_another: &'static str,
    by_command: &'static str,
    is_said: bool,
}

const REPLACED: &[Replaced] = &[
    Replaced {
        file: ".git/config",
        by_another: "git config user.name me",
        by_command: "git config core.fsmonitor evil",
        is_said: true,
    },
    Replaced {
        file: ".mcp.json",
        by_another: "cp F n && mv n F",
        by_command: "echo evil >> F",
        is_said: true,
    },
    Replaced {
        file: ".envrc",
        by_another: "cp F n && mv n F",
        by_command: "rm F; ln -s kept F",
        is_said: true,
    },
    Replaced {
        file: ".claude/settings.json",
        by_another: "cp -r .claude c && mv .claude d && mv c .claude",
        by_command: "echo evil > F",
        is_said: true,
    },
    Replaced {
        file: ".mcp.json",
        by_another: "rm F",
        by_command: "mkdir F; echo evil > F/x",
        is_said: true,
    },
    // The same content may stay, whoever wrote it.
    Replaced {
        file: ".mcp.json",
        by_another: "cp F n && mv n F",
        by_command: "true",
        is_said: false,
    },
    // The mount held, so nobody but another program changed the file.
    Replaced {
        file: ".mcp.json",
        by_another: "printf '%s' mine > F",
        by_command: "echo evil >> F",
        is_said: false,
    },
];

/// Runs `between` while a command waits in the sandbox, and the command `then` after it. Returns
/// what the command said.
async fn meanwhile<T>(
    ground: &crate::sandbox_read::Ground,
    between: impl Future<Output = T>,
    then: &str,
) -> (String, T) {
    let cwd = ground.setting.context.cwd.clone();
    let waiting = async {
        while !cwd.join("started").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let done = between.await;
        fs::write(cwd.join("go"), "").unwrap();
        done
    };
    let command = format!("touch started; until [ -e go ]; do sleep 0.01; done; {then}");
    let (said, done) = tokio::join!(ground.bash(&command), waiting);
    for name in ["started", "go"] {
        fs::remove_file(cwd.join(name)).unwrap();
    }
    (said, done)
}

fn as_user(cwd: &Path, command: &str) {
    let done = std::process::Command::new("sh").args(["-c", command]).current_dir(cwd).status();
    assert!(done.unwrap().success(), "{command}");
}

#[tokio::test]
async fn a_protected_file_that_another_program_replaces_has_its_content_from_before_at_the_end() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for Replaced { file, by_another, by_command, is_said } in REPLACED {
        let path = cwd.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if *file != ".git/config" {
            fs::write(&path, "mine").unwrap();
        }
        let before = fs::read_to_string(&path).unwrap();
        let another = by_another.replace('F', file);
        let between = async { as_user(&cwd, &another) };
        let (said, ()) = meanwhile(&ground, between, &by_command.replace('F', file)).await;
        assert_eq!(said.contains("put out of the way"), *is_said, "{another}: {said}");
        if file.starts_with(".claude") {
            assert!(!path.exists(), "{another}: {said}");
        } else {
            assert_eq!(fs::read_to_string(&path).ok(), Some(before), "{another}: {said}");
        }
        as_user(&cwd, "rm -rf .mcp.json .envrc .claude c d ./*.quarantined-* .*.quarantined-*");
        let kept = ground.base.join("home/.claude/pitcrew/quarantine");
        let rest = fs::read_dir(kept).unwrap().map(|it| it.unwrap().file_name());
        let rest: Vec<_> = rest.filter(|name| name != "lock").collect();
        assert!(rest.is_empty(), "{another}: {rest:?}");
    }
}

#[tokio::test]
async fn a_command_changes_no_protected_file_after_a_person_allowed_another_change_of_it() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (then, is_said) in
        [("echo EVIL >> .mcp.json", true), ("echo '{}' > .mcp.json", true), ("true", false)]
    {
        fs::write(cwd.join(".mcp.json"), "{}").unwrap();
        let write = async {
            let input = json!({"file_path": cwd.join(".mcp.json"), "content": "{\"a\": 1}"});
            let read = json!({"file_path": cwd.join(".mcp.json")});
            let _read = ground.setting.call("Read", read).await;
            ground.setting.call("Write", input).await
        };
        let (said, written) = meanwhile(&ground, write, then).await;
        assert!(!written.is_error, "{then}: {}", written.text);
        let now = fs::read_to_string(cwd.join(".mcp.json")).unwrap();
        assert_eq!(now, "{\"a\": 1}", "{then}: {said}");
        assert_eq!(said.contains("put out of the way"), is_said, "{then}: {said}");
        fs::remove_file(cwd.join(".mcp.json")).unwrap();
    }
}
