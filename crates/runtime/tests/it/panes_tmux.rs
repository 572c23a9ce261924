//! Tests panes in real tmux servers: which environment the program in a pane gets, how pitcrew
//! finds panes again, and that the user's tmux settings stay unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use pitcrew_panes::{NewPane, PaneError, PaneId, PaneState, Panes};

use crate::panes_env::{Server, ended, program, tag, told};
use crate::patience::until;

/// A program that runs until its pane is closed.
const LASTING: &[&str] = &["sleep", "300"];

/// A shell program that writes its arguments to the file `told`, each followed by a NUL byte.
const TELLING: [&str; 4] =
    ["sh", "-c", "printf '%s\\0' \"$@\" > new; mv new told; exec sleep 300", "sh"];

#[tokio::test]
async fn arguments_arrive_byte_for_byte_however_hostile() {
    let Some(server) = Server::new() else { return };
    let hostile = [
        "",
        ";",
        "a;",
        "a\\;",
        "\\",
        "#{pane_id}",
        "#(touch x)",
        "##[",
        "$HOME",
        "`id`",
        "'\"",
        "\t\n\r\x1b[2J",
        "-t",
        "%1",
        "~",
        "*",
        "ä😀",
    ];
    let mut argv = TELLING.to_vec();
    argv.extend(hostile);
    let started = server.outside().start(&server.pane("bob", &argv)).await.unwrap();
    let arrived = told(&server.path().join("told")).await;
    assert_eq!(arrived.split_terminator('\0').collect::<Vec<_>>(), hostile);
    let name = format!("/proc/{}/comm", started.pid.unwrap());
    let is_its_own = async || (fs::read_to_string(&name).unwrap() == "sleep\n").then_some(());
    until("the process of that pid, the argv's own, has become a sleep", is_its_own).await;
}

#[tokio::test]
async fn folder_variables_and_title_arrive_as_they_are() {
    let Some(server) = Server::new() else { return };
    let cwd = server.path().join("a #[b] #{pid} \"c\" 'd';");
    fs::create_dir(&cwd).unwrap();
    let script =
        "{ pwd; printf '%s\\0' \"$A\" \"$CLAUDE_CONFIG_DIR\"; } > new; mv new told; exec sleep 300";
    let env = [("A", "#{pid};\n$HOME \\;"), ("CLAUDE_CONFIG_DIR", "/x y;")];
    let pane = NewPane {
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        title: "bob #[fg=red]#{pid}#(touch hit) 'x\";".to_owned(),
        cwd: cwd.clone(),
        ..server.pane("bob", &["sh", "-c", script])
    };
    server.outside().start(&pane).await.unwrap();
    let arrived = told(&cwd.join("told")).await;
    assert_eq!(arrived, format!("{}\n#{{pid}};\n$HOME \\;\0/x y;\0", cwd.display()));
    assert_eq!(server.panes("#{pane_title}").concat(), pane.title);
    assert!(!cwd.join("hit").exists());
}

#[tokio::test]
async fn variables_are_in_no_argument_no_file_and_nothing_that_tmux_repeats() {
    let Some(server) = Server::new() else { return };
    let tmux = server.outside();
    let key = "s3cret-of-bob";
    let long = "k".repeat(100_000);
    let env = [("SOME_API_KEY", key), ("HTTPS_PROXY", key), ("LONG", &long)];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let started = tmux.start(&NewPane { env, ..server.pane("bob", LASTING) }).await.unwrap();
    let environment = fs::read(format!("/proc/{}/environ", started.pid.unwrap())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    for expected in [format!("SOME_API_KEY={key}"), format!("LONG={long}")] {
        assert!(environment.split('\0').any(|variable| variable == expected));
    }
    let told = [
        server.user(&["show-environment", "-g"]),
        server.user(&["show-environment", "-t", "pitcrew-crew"]),
        server.user(&["show-options", "-g"]),
        server.panes("#{pane_start_command} #{pane_current_command}").concat(),
    ];
    assert!(told.iter().all(|text| !text.contains(key)), "{told:?}");
    let found = Command::new("grep").args(["-rlF", key]).arg(server.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_the_start_and_leaves_no_pane() {
    let Some(server) = Server::new() else { return };
    server.users_session();
    let error = server.outside().start(&server.pane("ann", &["/bin/x;y"])).await.unwrap_err();
    let expected = "its program was not started: No such file or directory (os error 2)";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(server.panes("#{@pitcrew}"), [""]);
}

#[tokio::test]
async fn an_ended_program_leaves_its_status_and_its_last_screen() {
    let Some(server) = Server::with_config("set -g remain-on-exit off\n") else { return };
    let tmux = server.outside();
    // When a program ends, tmux drops output that it has not read yet. So this program does not end
    // until the test has seen the last words on the screen and has created the file `go`.
    let script =
        "echo first; seq 100; echo the last words; until [ -e go ]; do sleep 0.01; done; exit 3";
    let failed = tmux.start(&server.pane("bob", &["sh", "-c", script])).await.unwrap().id;
    let has_read = async || {
        let screen = tmux.screen(&failed).await.unwrap().unwrap();
        screen.ends_with("\nthe last words").then_some(())
    };
    until("tmux has read the last words", has_read).await;
    fs::write(server.path().join("go"), "").unwrap();
    let killed = tmux.start(&server.pane("ann", &["sh", "-c", "kill -9 $$"])).await.unwrap().id;
    let missing = tmux.start(&server.pane("eve", &["/no/such/program", "x"])).await.unwrap().id;
    assert_eq!(ended(&tmux, &failed).await, Some(3));
    assert_eq!(ended(&tmux, &killed).await, Some(137));
    assert!(ended(&tmux, &missing).await.is_some_and(|status| status != 0));
    let screen = tmux.screen(&failed).await.unwrap().unwrap();
    assert!(screen.contains("\n100\nthe last words\n"), "{screen}");
    tmux.stop(&failed, &tag(Some("bob"))).await.unwrap();
    assert_eq!(tmux.state(&failed).await.unwrap(), PaneState::Gone);
    assert_eq!(tmux.screen(&failed).await.unwrap(), None);
}

#[tokio::test]
async fn only_a_pane_with_the_tag_is_stopped_and_stopping_twice_is_well() {
    let Some(server) = Server::new() else { return };
    let foreign = server.users_session();
    let tmux = server.beside(&foreign);
    let bob = tmux.start(&server.pane("bob", LASTING)).await.unwrap().id;
    for (pane, wrong) in
        [(&foreign, tag(None)), (&bob, tag(Some("ann"))), (&foreign, tag(Some("bob")))]
    {
        assert!(
            matches!(tmux.stop(pane, &wrong).await, Err(PaneError::Foreign { .. })),
            "{pane} {wrong}"
        );
    }
    assert!(matches!(tmux.hide(&foreign).await, Err(PaneError::Foreign { .. })));
    assert_eq!(tmux.tagged(&tag(None)).await.unwrap(), [(bob.clone(), tag(Some("bob")))]);
    tmux.stop(&bob, &tag(None)).await.unwrap();
    tmux.stop(&bob, &tag(Some("bob"))).await.unwrap();
    tmux.stop(&PaneId("%99".to_owned()), &tag(None)).await.unwrap();
    assert_eq!(server.panes("#{pane_id}"), [foreign.0]);
}

#[tokio::test]
async fn without_a_server_everything_is_gone_and_nothing_is_started() {
    let Some(server) = Server::new() else { return };
    let tmux = server.outside();
    let pane = PaneId("%0".to_owned());
    assert_eq!(tmux.state(&pane).await.unwrap(), PaneState::Gone);
    assert_eq!(tmux.screen(&pane).await.unwrap(), None);
    assert_eq!(tmux.tagged(&tag(None)).await.unwrap(), []);
    tmux.stop(&pane, &tag(None)).await.unwrap();
    assert!(matches!(tmux.show(&pane).await, Err(PaneError::Gone { .. })));
    assert_eq!(server.panes("#{pane_id}"), [""; 0]);
}

#[tokio::test]
async fn a_tmux_that_is_too_old_is_told_with_the_version_needed() {
    let Some(server) = Server::new() else { return };
    let old = server.path().join("old-tmux");
    program(&old, "#!/bin/sh\necho tmux 3.1c\n");
    let error = server.with_program(old).start(&server.pane("bob", LASTING)).await.unwrap_err();
    insta::assert_snapshot!(error, @"tmux 3.1c is too old; tmux 3.2 or later is needed");
}

#[tokio::test]
async fn an_orphan_is_found_by_its_tag_from_another_process() {
    let Some(server) = Server::new() else { return };
    let names = ["bob", "ann x", "ünï;#{}"];
    for name in names {
        server.outside().start(&server.pane(name, LASTING)).await.unwrap();
    }
    let found = server.outside().tagged(&tag(None)).await.unwrap();
    let found: BTreeSet<_> = found.into_iter().map(|(_, tag)| tag).collect();
    assert_eq!(found, names.map(|name| tag(Some(name))).into());
    assert_eq!(server.outside().tagged(&tag(Some("ann x"))).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_pane_that_a_dead_caller_asked_for_is_waited_for() {
    let Some(server) = Server::new() else { return };
    server.users_session();
    let held = format!("PITCREW_PANE={}@", tag(Some("bob")));
    server.stranded(&[
        "wait-for",
        "go",
        ";",
        "split-window",
        "-d",
        "-t",
        "mine",
        "--",
        "env",
        &held,
        "sleep",
        "60",
    ]);
    let (tmux, of_others) = (server.outside(), tag(Some("ann")));
    assert_eq!(tmux.tagged(&of_others).await.unwrap(), []);
    let of_team = tag(None);
    let mut looking = std::pin::pin!(tmux.tagged(&of_team));
    let early = tokio::time::timeout(Duration::from_millis(300), looking.as_mut()).await;
    assert!(early.is_err(), "it was not waited for: {early:?}");
    server.user(&["wait-for", "-S", "go"]);
    let found: Vec<_> = looking.await.unwrap().into_iter().map(|(_, tag)| tag).collect();
    assert_eq!(found, [tag(Some("bob"))]);
}
