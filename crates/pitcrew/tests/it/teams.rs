//! The command `pitcrew team`, and how a command finds the team that it uses.

use std::fs;

use insta::assert_snapshot;

use crate::test_env::TestEnv;

#[test]
fn a_line_break_in_a_text_of_another_client_does_not_break_a_row() {
    let room = TestEnv::with_crew();
    let mut config = room.json_file("teams/crew/config.json");
    config["members"][1]["agentType"] = "tester\neve  x".into();
    config["members"][1]["model"] = "big\tone\r\n".into();
    std::fs::write(room.root().join("teams/crew/config.json"), config.to_string()).unwrap();
    for args in [&["team", "show", "crew"][..], &["member", "list"]] {
        let shown = room.ok(args).stdout;
        let row = shown.lines().find(|line| line.starts_with("ann")).unwrap();
        assert!(row.contains("tester | eve  x") && row.contains("big one"), "{shown}");
        assert!(!shown.lines().any(|line| line.starts_with("eve")), "{shown}");
    }
}

#[test]
fn a_mode_that_nobody_knows_is_shown_as_such() {
    let room = TestEnv::with_crew();
    let mut config = room.json_file("teams/crew/config.json");
    config["members"][1]["mode"] = "plan\nbob  lead \u{1b}[2J".into();
    std::fs::write(room.root().join("teams/crew/config.json"), config.to_string()).unwrap();
    for args in [&["team", "show", "crew"][..], &["member", "list"]] {
        let shown = room.ok(args).stdout;
        let row = shown.lines().find(|line| line.starts_with("ann")).unwrap();
        assert!(row.contains("  unknown: plan  "), "{shown}");
    }
}

#[test]
fn a_team_is_made_listed_shown_and_deleted() {
    let room = TestEnv::new();
    let seen = room.transcript(&[
        &["team", "list"],
        &["team", "create", "backend", "--description", "fix the build"],
        &["team", "list"],
        &["team", "show"],
        &["team", "delete", "backend"],
        &["team", "list"],
    ]);
    assert_snapshot!(seen, @r#"
    $ pitcrew team list
    no teams
    $ pitcrew team create backend --description "fix the build"
    made team backend in [root]/teams/backend/config.json
    $ pitcrew team list
    TEAM     MEMBERS  RUN BY  MADE        TOKENS  COST  ABOUT
    backend  1        -       [date]  -       -     fix the build
    $ pitcrew team show
    backend  not running, [root]/teams/backend/config.json
    fix the build

    MEMBER     TYPE       MODEL    MODE  RUNS IN  STATE         WORKTREE
    team-lead  team-lead  inherit  -     -        does not run  -

    no tasks
    $ pitcrew team delete backend
    Cleaned up directories and worktrees for team "backend"
    $ pitcrew team list
    no teams
    "#);
    assert!(!room.root().join("teams/backend").exists());
    assert!(!room.root().join("tasks/backend").exists());
}

#[test]
fn with_json_the_answers_have_the_shapes_of_the_api_reference() {
    let room = TestEnv::new();
    let made = room.json(&["team", "create", "backend"]);
    assert_snapshot!(room.redacted(&format!("{made:#}")), @r#"
    {
      "team_name": "backend",
      "team_file_path": "[root]/teams/backend/config.json",
      "lead_agent_id": "team-lead@backend"
    }
    "#);
    let deleted = room.json(&["team", "delete", "backend"]);
    assert_snapshot!(format!("{deleted:#}"), @r#"
    {
      "success": true,
      "message": "Cleaned up directories and worktrees for team \"backend\"",
      "team_name": "backend"
    }
    "#);
}

#[test]
fn a_team_with_teammates_is_not_deleted() {
    let room = TestEnv::with_crew();
    assert_snapshot!(room.transcript(&[&["team", "delete", "crew"]]), @r#"
    $ pitcrew team delete crew
    error: Cannot cleanup team with 2 active member(s): ann, bob. They have to shut down, or be removed, first.
    hint: `pitcrew shutdown crew` ends a running team; `pitcrew member remove NAME --team crew` removes a dead member
    hint: `pitcrew team delete crew --force` deletes it after a crash
    [exit 4]
    "#);
}

#[test]
fn a_name_that_falls_on_the_folder_of_another_team_is_refused() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "my-team"]);
    assert_snapshot!(room.transcript(&[&["team", "create", "My Team"], &["team", "create", "my-team"]]), @r#"
    $ pitcrew team create "My Team"
    error: Team 'My Team' would share the folder 'my-team' with team 'my-team'
    [exit 4]
    $ pitcrew team create my-team
    error: Team 'my-team' already exists
    [exit 4]
    "#);
}

#[test]
fn of_several_teams_that_wait_here_none_is_meant() {
    let room = TestEnv::new();
    for team in ["first", "other"] {
        room.ok(&["team", "create", team]);
    }
    assert_eq!(room.run(&["team", "show"]).code, 3);
    room.ok(&["team", "delete", "first"]);
    assert!(room.ok(&["team", "show"]).stdout.starts_with("other"));
    room.ok(&["team", "create", "third"]);
    assert_snapshot!(room.transcript(&[&["team", "show"], &["team", "show", "thrid"]]), @r#"
    $ pitcrew team show
    error: several teams wait here, and none runs
    hint: teams: other, third
    hint: name one with --team, or as TEAM where the command takes it; `pitcrew team list` shows them
    [exit 3]
    $ pitcrew team show thrid
    error: Team 'thrid' does not exist; did you mean 'third'?
    hint: teams: other, third
    [exit 3]
    "#);
}

#[test]
fn a_team_with_a_broken_config_is_listed_with_the_reason() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "sound"]);
    std::fs::create_dir_all(room.root().join("teams/torn")).unwrap();
    std::fs::write(room.root().join("teams/torn/config.json"), "{\"name\": \"to").unwrap();
    assert_snapshot!(room.transcript(&[&["team", "list"]]), @r#"
    $ pitcrew team list
    TEAM   MEMBERS  RUN BY  MADE        TOKENS  COST  ABOUT
    sound  1        -       [date]  -       -
    torn   0        -       -           -       -     config.json is not readable: at name: EOF while p…
    "#);
}

#[test]
fn the_hint_for_a_damaged_archive_never_names_a_team_in_its_place() {
    let room = TestEnv::with_crew();
    room.ok(&["team", "delete", "crew", "--force"]);
    // The folder of an archived team has a folder `team`, and so is a team of the user called.
    room.ok(&["team", "create", "team"]);
    let config = room.find("teams/crew/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, &text[..40]).unwrap();
    let folder = config.ancestors().nth(2).unwrap().to_owned();
    let id = folder.file_name().unwrap().to_str().unwrap();
    let by_hand = format!("or remove {} by hand", folder.display());
    for words in
        [["team", "show", id].as_slice(), &["export", id, "--markdown"], &["team", "show", "crew"]]
    {
        let ran = room.run(words);
        assert_ne!(ran.code, 0, "{words:?}");
        assert!(ran.stderr.contains("config.json is not readable: "), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&by_hand), "{words:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("team delete"), "{words:?}: {}", ran.stderr);
    }
    let known = format!("Team 'crew' does not exist; in the archive, {id} cannot be read: ");
    let missing = room.run(&["team", "show", "crew"]);
    assert!(missing.stderr.contains(&known), "{}", missing.stderr);
    let looked = room.run(&["doctor"]);
    let found = format!("bad archive {}: this archived team cannot be read: ", folder.display());
    assert!(looked.stdout.contains(&found), "{}", looked.stdout);
    assert_eq!(looked.code, 1);
    fs::write(&config, text).unwrap();
    room.ok(&["doctor"]);
}
