//! Tests of the help texts, the shell completions and the manual pages.

use insta::assert_snapshot;

use crate::test_env::{Ran, TestEnv};

#[test]
fn the_help_shows_commands_and_examples() {
    let help = TestEnv::new().ok(&["--help"]).stdout;
    assert_snapshot!(help.split_once("Exit codes:").unwrap().0, @r#"
    Run teams of coding agents.

    A lead splits a goal into tasks, spawns teammates, and they work in parallel, write to each other,
    have plans approved and shut down cleanly. The team lives in plain files below the root, which
    Claude Code reads and writes too.

    Usage: pitcrew [OPTIONS] <COMMAND>

    Commands:
      start        Open the terminal interface: a conversation with the lead of a new team
      run          Run a team on the repository you stand in
      attach       Watch a team that runs, answer its questions and write to it
      resume       List the teams that run and those that can be resumed, and go on with one
      join         Join a team as a teammate, whoever leads it: a Claude Code session, or pitcrew
      agent        Run one teammate in this terminal, as a pane does
      demo         Watch a team mend a small crate: the models are scripted, everything else is real
      team         Make, list, show and delete teams, and take one over
      task         Make, list, show, change and claim tasks
      member       List, spawn and remove members, change a member's permission mode, hide and show its
                   pane
      plan         List, show, approve and reject the plans of teammates
      send         Write to a member of a team; it arrives while the member works
      broadcast    Write to every member of a team; at most once in 5 seconds
      inbox        Show a member's inbox without taking anything out of it
      message      Tell what became of a message: persisted, injected, acknowledged or dead, with the
                   times
      log          Show what happened in a team, running or finished
      transcript   Show the conversation of an agent as it reads, of a team that runs or is finished
      history      List the teams that were run in this repository: goal, end, tokens and cost
      export       Write a run as a markdown document, or as a replay in one HTML file
      view         Show a run without taking part: a client's stream-json, or a team that has ended
      serve        Serve all teams below the root to browsers and programs
      devices      List, pair and remove the devices and programs that may call `pitcrew serve`
      shutdown     Shut a team down: ask the process that runs it, and wait for its end
      models       List models with their prices and context windows, and the source of each figure
      trust        Show, list, add and remove repositories whose settings, hooks and agents count
      doctor       Look for what crashes left behind: stale locks, torn files, processes, panes, mail
                   for nobody, worktrees
      prune        Remove teams from the archive permanently
      pane         Speak the pane protocol for a terminal, or check a program that does
      completions  Print completions for a shell
      man          Print the manual page, or write one a command into a folder
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --root <DIR>
              The folder teams live below [default: $CLAUDE_CONFIG_DIR, else ~/.claude]

          --json
              Answer with one JSON document on stdout, errors included

          --color <WHEN>
              When to use colour: auto, always or never; NO_COLOR counts too
              
              [default: auto]

    Examples:
      pitcrew                                        open the terminal interface, which asks for a goal
      pitcrew "make the tests pass"                  open it with a goal
      pitcrew demo                                   watch a scripted team mend a small crate
      pitcrew run "make the tests pass"              run a team on the repository you stand in
      pitcrew run --detach "make the tests pass"     the same without this terminal
      pitcrew attach                                 watch it, answer it and write to it
      pitcrew resume                                 choose a team that runs or was stopped
      pitcrew team show                              the team, its members and its tasks
      pitcrew send bob "look at parser.rs first"     write to a teammate while it works
      pitcrew inbox team-lead --follow               read along
      pitcrew run --resume myteam                    go on after a crash
    "#);
}

#[test]
fn the_help_ends_with_the_exit_codes() {
    let help = TestEnv::new().ok(&["--help"]).stdout;
    assert_snapshot!(help.split_once("Exit codes:").unwrap().1, @r"
      0    done
      1    failed: the run's lead failed, its team is gone, doctor found something, teammates remain
      2    the request is malformed: an option, a name, a text over its limit
      3    no such team, agent, task or message
      4    the name is taken, or the thing's state does not allow it
      5    the caller may not do this
      6    too many or too soon; try later
      7    a run ended at its --max-turns or --max-cost-usd
      8    a run ended by itself before its work was complete; the message says why
      9    `attach` lost the process that ran the team; the run can be resumed
      70   the disk, the system or pitcrew itself failed; nothing was changed, or the message says so
      75   a run's model was unavailable for too long; the run can be resumed later
      130  stopped by Ctrl-C, or its team was ended by `pitcrew shutdown`
      143  stopped by SIGTERM, or its terminal is gone
    ");
}

#[test]
fn the_help_of_a_command_shows_how_it_is_used() {
    assert_snapshot!(TestEnv::new().transcript(&[&["send", "--help"]]), @r#"
    $ pitcrew send --help
    Write to a member of a team; it arrives while the member works

    Usage: pitcrew send [OPTIONS] <RECIPIENT> <TEXT>

    Arguments:
      <RECIPIENT>  The member that gets the message
      <TEXT>       The text of the message; - reads it from stdin

    Options:
      -s, --summary <TEXT>  A preview of the message, 5 to 10 words
          --from <NAME>     The name of the writer; never a member's name [default: operator]
      -t, --team <TEAM>     The team [default: the one that runs in this repository, has its name, or
                            was stopped here]
      -h, --help            Print help

    Everywhere:
          --root <DIR>    The folder teams live below [default: $CLAUDE_CONFIG_DIR, else ~/.claude]
          --json          Answer with one JSON document on stdout, errors included
          --color <WHEN>  When to use colour: auto, always or never; NO_COLOR counts too [default: auto]

    Examples:
      pitcrew send bob "look at parser.rs first"
      git diff | pitcrew send --team backend reviewer - --summary "my changes"
    "#);
}

#[test]
fn the_help_of_attach_says_what_keys_do_and_when_it_ends() {
    let help = TestEnv::new().ok(&["attach", "--help"]).stdout;
    let (text, examples) = help.split_once("Usage:").unwrap();
    assert_snapshot!(text, @"
    Watch a team that runs, answer its questions and write to it

    It opens the terminal interface on a team that `pitcrew run --detach`, `pitcrew start` or another
    terminal runs: the conversation with the lead, the team, its tasks and its questions. /help shows
    the keys. A question is shown in every display of the team, and the first answer counts. Leaving
    does not end the team. If several teams run here, or only others run, it lists them to choose one.

    With --plain, events are lines that scroll. A line you type is a message to the lead, or the answer
    to the shown question. Esc interrupts the lead's turn. Ctrl-C leaves.

    If the process of the team is killed, the display says so and waits until the team is resumed. Then
    it goes on. Without a terminal, it prints one line per event, and ends when the run or its process
    ends. When the run ends, the exit code is that of the run.
    ");
    assert_snapshot!(examples.split_once("Examples:").unwrap().1, @r"

      pitcrew attach                   the team that runs in this repository
      pitcrew attach backend
      pitcrew attach backend --plain   lines that scroll, in place of the interface
      pitcrew attach backend --json    a JSON line per event, after a snapshot of the state
    ");
}

#[test]
fn the_help_of_view_says_what_it_shows_and_what_it_leaves_out() {
    let help = TestEnv::new().ok(&["view", "--help"]).stdout;
    assert_snapshot!(help.split_once("Everywhere:").unwrap().0, @r"
    Show a run without taking part: a client's stream-json, or a team that has ended

    The stream is a file with the stream-json of Claude Code or of pitcrew, or a pipe that a client
    writes into. A team is named as in `pitcrew log`. A word with a slash is a file, and so is the name
    of a file in this folder; --team names a team in any case.

    A replay opens in the browser: cards, tasks, timeline and conversations as they were at any moment.
    It follows a pipe, and a file that grows or is begun again, as `tail -F` does. A server on this
    machine serves it until Ctrl-C, and prints a link that opens it once. --no-open only prints the
    link, also where there is no display: over SSH, forward the port.

    Without a display or a browser, or with --tui, the terminal interface opens: the conversation of
    each agent, the team, its tasks, the timeline and the summary. It takes its keys from the terminal.
    If the output is no terminal, the timeline is printed, and then the agents, the tasks and the cost
    by model. --json prints the state of the team as one document. None of them sends messages or
    answers.

    Lines that are unknown, unreadable or longer than 32 MB are skipped and counted. Of a long stream,
    the latest 100,000 entries of the timeline are kept, and the latest parts of each conversation.

    Usage: pitcrew view [OPTIONS] [FILE|TEAM]

    Arguments:
      [FILE|TEAM]
              A file, - for the standard input, or a team [default: the team that runs in this
              repository, else the one that was stopped here, else the last archived one]

    Options:
      -t, --team <TEAM>
              The team, instead of the positional argument

          --tui
              Open the terminal interface

          --no-open
              Print the link of the replay, and open no browser

      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = TestEnv::new().ok(&["completions", shell]).stdout;
        assert!(script.contains("PITCREW_COMPLETE"), "{shell}: {script}");
    }
    let answer = TestEnv::new().json(&["completions", "bash"]);
    assert!(answer["script"].as_str().unwrap().contains("complete -o nospace"), "{answer}");
    assert!(TestEnv::new().json(&["man"])["page"].as_str().unwrap().contains(".TH pitcrew 1"));
}

/// Returns the completions that bash offers for the last word of `line`.
fn offered(room: &TestEnv, line: &[&str]) -> Vec<String> {
    let mut args = vec!["--", "pitcrew"];
    args.extend(line);
    let index = line.len().to_string();
    let mut command = room.command(&args);
    command
        .env("PITCREW_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", index)
        .env("_CLAP_IFS", "\n");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let words = ran.stdout.lines().map(|word| word.trim().to_owned());
    words.filter(|word| !word.starts_with("--")).collect()
}

#[test]
fn completions_know_teams_members_models_modes_and_statuses_and_no_hidden_command() {
    let room = TestEnv::with_crew();
    room.ok(&["team", "create", "craft"]);
    assert_eq!(offered(&room, &["team", "delete", "cr"]), ["craft", "crew"]);
    assert_eq!(offered(&room, &["run", "--resume", "cre"]), ["crew"]);
    std::fs::write(room.work().join("cream.ndjson"), "").unwrap();
    assert_eq!(offered(&room, &["view", "cre"]), ["cream.ndjson", "crew"]);
    assert_eq!(offered(&room, &["send", "--team", "crew", ""]), ["team-lead", "ann", "bob"]);
    assert_eq!(offered(&room, &["member", "mode", "--team", "crew", "bob", "p"]), ["plan"]);
    assert_eq!(offered(&room, &["run", "--permission-mode", "accept"]), ["acceptEdits"]);
    assert_eq!(offered(&room, &["member", "spawn", "zoe", "Wait.", "--mode", "pl"]), ["plan"]);
    assert_eq!(offered(&room, &["task", "update", "1", "--status", "in"]), ["in_progress"]);
    assert_eq!(offered(&room, &["devices", "add", "--scope", "w"]), ["watch"]);
    assert!(offered(&room, &["run", "--model", "o"]).contains(&"opus".to_owned()));
    let commands = offered(&room, &[""]);
    assert!(commands.contains(&"prune".to_owned()), "{commands:?}");
    for hidden in ["pane-exec", "pane-probe", "run-host", "sandbox-exec"] {
        assert!(!commands.contains(&hidden.to_owned()), "{commands:?}");
        assert_eq!(offered(&room, &[hidden]), Vec::<String>::new());
    }
    let elsewhere = TestEnv::new();
    assert_eq!(
        offered(
            &elsewhere,
            &["--root", &room.root().display().to_string(), "team", "delete", "cre"]
        ),
        ["crew"]
    );
    assert_eq!(offered(&elsewhere, &["send", ""]), Vec::<String>::new());
}

#[test]
fn only_commands_that_are_shown_have_manual_pages() {
    let room = TestEnv::new();
    room.ok(&["man", "man1"]);
    for entry in std::fs::read_dir(room.work().join("man1")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !["pane-exec", "pane-probe", "run-host", "sandbox-exec"]
                .iter()
                .any(|hidden| name.contains(hidden)),
            "{name}"
        );
    }
}

#[test]
fn manual_pages_are_printed_and_installed_one_a_command() {
    let room = TestEnv::new();
    assert!(room.ok(&["man"]).stdout.contains(".TH pitcrew 1"));
    room.ok(&["man", "man1"]);
    for page in ["pitcrew.1", "pitcrew-send.1", "pitcrew-team-create.1"] {
        assert!(room.work().join("man1").join(page).is_file(), "{page}");
    }
}

#[test]
fn what_is_not_understood_is_a_malformed_request_in_the_form_asked_for() {
    let room = TestEnv::new();
    assert_eq!(room.run(&["send"]).code, 2);
    let answer = room.json(&["send"]);
    assert_eq!(answer["success"], false);
    assert_eq!(answer["error"], "invalid_request");
    assert_eq!(room.run(&["--json", "send"]).stderr, "");
}

#[test]
fn an_unknown_subcommand_is_answered_with_the_known_ones() {
    let room = TestEnv::new();
    let ran = room.run(&["devices", "list"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("tip: the subcommands of 'devices' are 'add', 'remove'"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("pitcrew start"), "{ran:?}");
    let goal = room.run(&["refactor"]).stderr;
    assert!(goal.contains("tip: `pitcrew start refactor` starts a team with this goal"), "{goal}");
}
