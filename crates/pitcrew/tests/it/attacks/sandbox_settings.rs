//! The flag `--sandbox` on machines that cannot enforce a sandbox, and the user's settings that
//! widen the sandbox.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::ground::{Ground, PASSED};
use super::host::{Host, User};
use super::list::Attack;
use super::play::run;
use super::{BOTH, BUBBLEWRAP, LANDLOCK, NEITHER, host};

/// Starts a run with these arguments, in which the lead runs the shell commands. Returns the
/// results of the commands. If the run failed, returns its error output.
fn results(
    host: &Host,
    ground: &Ground,
    arguments: &[&str],
    commands: &[&str],
) -> Result<Vec<String>, String> {
    let calls: Vec<Attack> = commands.iter().map(|command| Attack::shell("", command)).collect();
    let ran = run(host, ground, arguments, &calls);
    if ran.is_success { Ok(ran.results()) } else { Err(ran.log) }
}

/// Writes sandbox settings into the user's settings file.
fn set(ground: &Ground, mut sandbox: Value) {
    let passed = sandbox.get("passedVariables").cloned().unwrap_or_else(|| json!(PASSED));
    sandbox["passedVariables"] = passed;
    fs::write(ground.at("home/.claude/settings.json"), json!({ "sandbox": sandbox }).to_string())
        .unwrap();
}

#[test]
fn the_sandbox_refuses_to_start_where_it_cannot_hold_and_says_what_is_missing() {
    for user in [User::Root, User::Other] {
        for (means, missing) in
            [(LANDLOCK, "bubblewrap"), (BUBBLEWRAP, "Landlock"), (NEITHER, "Landlock")]
        {
            let Some(host) = host(user, means) else { continue };
            let ground = Ground::new(&host);
            for automatic in [false, true] {
                set(&ground, json!({ "autoAllow": automatic }));
                let arguments: &[&str] = if automatic { &[] } else { &["--sandbox"] };
                let said =
                    results(&host, &ground, arguments, &["touch ran"]).expect_err("it starts");
                assert!(
                    said.contains(missing) && said.contains("without --sandbox"),
                    "{host}: {said}"
                );
                assert!(!ground.at("work/ran").exists(), "{host}: {said}");
            }
        }
        let Some(host) = host(user, BOTH) else { continue };
        let ground = Ground::new(&host);
        results(&host, &ground, &["--sandbox"], &["touch ran"]).unwrap();
        assert!(ground.at("work/ran").exists(), "{host}");
    }
}

#[test]
fn the_sandbox_refuses_a_folder_that_holds_the_home() {
    for user in [User::Root, User::Other] {
        let Some(host) = host(user, BOTH) else { continue };
        let ground = Ground::new(&host);
        let calls = [Attack::shell("", "touch home/.bashrc2")];
        let ran = super::play::run_in(&ground.at(""), &host, &ground, &["--sandbox"], &calls);
        assert!(
            !ran.is_success && ran.log.contains("contains the home folder"),
            "{host}: {}",
            ran.log
        );
        assert!(!ground.at("home/.bashrc2").exists());
    }
}

#[test]
fn folders_of_the_settings_are_read_and_written_in_the_sandbox_and_no_others() {
    for user in [User::Root, User::Other] {
        let Some(host) = host(user, BOTH) else { continue };
        let ground = Ground::new(&host);
        for folder in ["library", "cache", "elsewhere"] {
            fs::create_dir(ground.at(folder)).unwrap();
            fs::write(ground.at(folder).join("file"), format!("in {folder}")).unwrap();
        }
        host.give(&ground.at(""));
        let at = |path: &str| ground.at(path).display().to_string();
        let commands: Vec<String> = ["library", "cache", "elsewhere"]
            .iter()
            .flat_map(|folder| {
                [
                    format!("cat {}", at(&format!("{folder}/file"))),
                    format!("echo x > {}/new", at(folder)),
                ]
            })
            .collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let is_made = |folder: &str| ground.at(folder).join("new").exists();
        let before = results(&host, &ground, &["--sandbox"], &commands).unwrap();
        assert!(before.iter().all(|said| !said.contains("in ")), "{host}: {before:?}");
        set(&ground, json!({"read": [at("library")], "write": [at("cache")]}));
        let said = results(&host, &ground, &["--sandbox"], &commands).unwrap();
        assert_eq!(
            (said[0].as_str(), said[2].as_str()),
            ("in library", "in cache"),
            "{host}: {said:?}"
        );
        assert!(!said[4].contains("in elsewhere"), "{host}: {said:?}");
        assert_eq!(
            (is_made("library"), is_made("cache"), is_made("elsewhere")),
            (false, true, false),
            "{host}: {said:?}"
        );
    }
}

#[test]
fn a_project_s_settings_open_nothing_of_the_sandbox_not_even_a_trusted_one_s() {
    let Some(host) = host(User::Other, BOTH) else { return };
    let ground = Ground::new(&host);
    let opened = json!({"sandbox": {"read": [ground.at("home")], "write": [ground.at("outside")], "network": true}});
    fs::write(ground.at("work/.claude/settings.json"), opened.to_string()).unwrap();
    let secret = ground.at("home/notes").display().to_string();
    let commands = [
        format!("cat {secret}"),
        "echo x > $OUT/new".to_owned(),
        "echo x > /dev/tcp/127.0.0.1/$TCP".to_owned(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    for arguments in [&["--sandbox"][..], &["--sandbox", "--trust"]] {
        let said = results(&host, &ground, arguments, &commands).unwrap();
        assert!(!said[0].contains(super::ground::CANARY), "{said:?}");
        assert!(!ground.at("outside/new").exists() && ground.reached().is_empty(), "{said:?}");
    }
}

#[test]
fn the_network_of_the_machine_is_shared_only_when_the_settings_say_so() {
    for user in [User::Root, User::Other] {
        let Some(host) = host(user, BOTH) else { continue };
        let ground = Ground::new(&host);
        let commands = ["echo x > /dev/tcp/127.0.0.1/$TCP"];
        let at_sockets = |attack: &Attack| {
            ["SOCK", "DGRAM", "ABSTRACT"].iter().any(|it| attack.text().contains(it))
        };
        let connects = Attack::of_section("connect", Path::new(""), "");
        let connects: Vec<Attack> = connects.into_iter().filter(at_sockets).collect();
        results(&host, &ground, &["--sandbox"], &commands).unwrap();
        assert!(ground.reached().is_empty(), "{host}");
        set(&ground, json!({"network": true}));
        let said = results(&host, &ground, &["--sandbox"], &commands).unwrap();
        assert_eq!(ground.reached(), ["TCP"], "{host}: {said:?}");
        // The setting `network` does not give access to the local sockets of other programs.
        assert!(run(&host, &ground, &["--sandbox"], &connects).is_success && connects.len() > 20);
        let reached: Vec<&str> =
            ground.reached().into_iter().filter(|who| !matches!(*who, "TCP" | "UDP")).collect();
        assert!(reached.is_empty(), "{host}: {reached:?}");
    }
}

#[test]
fn variables_that_the_settings_withhold_reach_no_command() {
    let Some(host) = host(User::Other, BOTH) else { return };
    let ground = Ground::new(&host);
    let value = |arguments: &[&str]| {
        let said = results(&host, &ground, arguments, &["echo got \"$SOCK\" \"$DGRAM\""]).unwrap();
        said[0].clone()
    };
    let (kept, withheld) = (ground.at("outside/datagram"), ground.at("outside/socket"));
    let ways: [&[&str]; 3] =
        [&["--sandbox"], &["--yes"], &["--permission-mode", "bypassPermissions"]];
    for arguments in ways {
        assert!(value(arguments).contains(withheld.to_str().unwrap()), "{arguments:?}");
    }
    // Only a command that somebody was asked about gets a variable that nobody has named.
    set(&ground, json!({"passedVariables": ["SOCK"]}));
    for (arguments, named) in ways.into_iter().zip([false, false, true]) {
        let other = if named { kept.display().to_string() } else { String::new() };
        let expected = format!("got {} {other}", withheld.display());
        assert_eq!(value(arguments).trim_end(), expected.trim_end(), "{arguments:?}");
    }
    set(&ground, json!({"withheldVariables": ["SOCK"]}));
    for arguments in ways {
        assert_eq!(value(arguments), format!("got  {}", kept.display()), "{arguments:?}");
    }
}
