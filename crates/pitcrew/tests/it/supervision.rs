//! Tests of what remains after a process of a team was killed: running processes, panes and
//! records. Other commands must find and stop these processes. They must also be able to delete the
//! team, or to make a member its new lead. All processes in these tests are real.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use pitcrew_panes::launch::Launcher;
use pitcrew_panes::{NewPane, PaneId, PaneState, Panes as _, Tmux, TmuxOptions};
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{AgentName, Limits, PaneHost, TeamDir};
use pitcrew_runtime::supervision::RecordedPanes;
use pitcrew_store::{FileBackend, FileOptions};
use pitcrew_team::{PanePlace, Started, SystemClock, Team, Teams};

use crate::patience::until;
use crate::running::Running;
use crate::test_env::TestEnv;

/// The script of a lead whose command does not end by itself.
const BUSY: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: \"echo $$ > pid.new; mv pid.new pid; exec sleep 1000\"}}]
    - text: It ended.
";

/// The script of the lead after bob has become the lead. Bob has already given the first answer in
/// this script, so the script contains that answer again.
const TAKEN_OVER: &str = "
agents:
  team-lead:
    - text: I wait.
    - text: I lead now.
";

/// A process that a test starts. It is reaped as soon as it ends. At the end of the test, it is
/// killed.
struct Process {
    identity: ProcessIdentity,
}

impl Process {
    /// Starts a shell in its own process group. Waits until the script creates the file `$1`, which
    /// shows that the script is ready.
    fn shell(room: &TestEnv, script: &str) -> Self {
        Self::tagged_shell(room, script, &room.tag_of_bob())
    }

    /// Starts a shell as [`Process::shell`] does. The environment of the shell contains `tag`, the
    /// tag of a member.
    fn tagged_shell(room: &TestEnv, script: &str, tag: &str) -> Self {
        let ready = room.temporary().join("ready");
        let mut command = Command::new("sh");
        command.env("PITCREW_MEMBER", tag);
        command.arg("-c").arg(script).arg("sh").arg(&ready).process_group(0).stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        until("the process is ready", || ready.exists().then_some(()), || format!("{identity}"));
        std::thread::spawn(move || child.wait());
        Self { identity }
    }

    fn is_alive(&self) -> bool {
        self.identity.is_alive()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.identity.signal_group(rustix::process::Signal::KILL);
    }
}

impl TestEnv {
    pub(crate) fn team(&self, name: &str) -> Team {
        let backend = Arc::new(FileBackend::open(&self.root(), FileOptions::default()));
        Teams::new(backend, Limits::default(), Arc::new(SystemClock))
            .at(&TeamDir::of(name))
            .unwrap()
    }

    /// Returns the tag of bob in the team `work`. The environment of every process that runs bob
    /// contains this tag.
    fn tag_of_bob(&self) -> String {
        RecordedPanes::below(&self.root())
            .tag(&self.team("work"), Some(&AgentName::foreign("bob")))
            .to_string()
    }

    /// Records that a lead started the process `process` for bob, in the pane `pane` if there is
    /// one. The recorded lead no longer runs.
    fn started_for_bob(&self, process: ProcessIdentity, pane: Option<PanePlace>) {
        self.started_for_bob_by("pitcrew", process, pane);
    }

    /// Makes the same record as [`Self::started_for_bob`], with the name of the started program.
    fn started_for_bob_by(&self, program: &str, process: ProcessIdentity, pane: Option<PanePlace>) {
        let owner = ProcessIdentity { pid: 1, start_ticks: u64::MAX };
        let started = Started {
            process: Some(process.into()),
            pane,
            program: program.to_owned().into(),
            bounds: None,
            owner: owner.into(),
            at_ms: 0,
            deadline_ms: None,
        };
        block_on(self.team("work").note_started(&AgentName::foreign("bob"), started)).unwrap();
    }

    /// Kills a run while a command of its lead runs. Returns the process of that command.
    fn killed_while_busy(&self) -> Process {
        let model = self.script(BUSY);
        let mut command =
            self.command(&["run", "wait", "--team", "work", "--yes", "--model", &model]);
        let running = Running::of(&mut command);
        let pid = self.work().join("pid");
        until("the command runs", || pid.exists().then_some(()), String::new);
        let identity =
            ProcessIdentity::of(fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
        running.kill();
        fs::remove_file(self.work().join("pid")).unwrap();
        Process { identity }
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_command_that_a_killed_run_left_running_is_found_and_stopped() {
    let room = TestEnv::new();
    let left = room.killed_while_busy();
    assert!(left.is_alive());
    let found = room.json(&["doctor"]);
    assert_eq!(found["findings"][0]["kind"], "orphaned_command", "{found:#}");
    assert!(left.is_alive(), "looking stopped it");
    let mended = room.json(&["doctor", "--repair"]);
    assert_eq!(mended["left"], 0, "{mended:#}");
    assert!(!left.is_alive());
}

#[test]
fn whoever_goes_on_with_a_team_or_ends_it_stops_what_was_left_running() {
    for end in [
        &["shutdown", "work", "--force"][..],
        &["team", "delete", "work", "--force"],
        &["run", "--resume", "work", "--model", "script:short.yaml"],
        &["team", "lead", "work", "--take-over", "--model", "script:short.yaml"],
    ] {
        let room = TestEnv::new();
        let left = room.killed_while_busy();
        fs::write(
            room.work().join("short.yaml"),
            "agents: {team-lead: [{text: So}, {text: That is all.}]}",
        )
        .unwrap();
        room.ok(end);
        assert!(!left.is_alive(), "{end:?}");
    }
}

#[test]
fn teammates_that_wait_for_a_lead_are_stopped_by_shutdown() {
    let room = TestEnv::new();
    room.killed_run();
    let parked =
        Process::shell(&room, "trap 'exit 0' TERM; touch $1; while :; do sleep 0.01; done");
    room.started_for_bob(parked.identity, None);
    let found = room.json(&["doctor"]);
    assert_eq!(found["findings"][0]["kind"], "orphaned_process", "{found:#}");
    let ended = room.json(&["shutdown", "work"]);
    assert_eq!(ended["success"], true, "{ended:#}");
    assert_eq!(
        (&ended["stopped"][0]["name"], &ended["stopped"][0]["outcome"]),
        (&"bob".into(), &"stopped".into())
    );
    assert!(!parked.is_alive());
    assert_eq!(room.run(&["shutdown", "work"]).code, 4, "there is nothing left to stop");
    assert_eq!(
        room.json(&["member", "list", "--team", "work"])["total"],
        2,
        "it can be gone on with"
    );
}

#[test]
fn a_repair_ends_no_member_that_runs_without_a_lead_and_names_the_command_that_does() {
    let room = TestEnv::new();
    room.killed_run();
    let at_work =
        Process::shell(&room, "trap 'exit 0' TERM; touch $1; while :; do sleep 0.01; done");
    for program in ["pitcrew", "claude"] {
        room.started_for_bob_by(program, at_work.identity, None);
        for args in [&["doctor"][..], &["doctor", "--repair"]] {
            let told = room.run(args);
            assert!(at_work.is_alive(), "{program} {args:?}: {told:?}");
            let ways = "`pitcrew run --resume work` goes on with it, `pitcrew shutdown work` stops it (left to you)";
            assert!(told.code == 1 && told.stdout.contains(ways), "{program} {args:?}: {told:?}");
        }
    }
    let help =
        room.ok(&["doctor", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("A repair ends no member that runs, even when its lead is dead"),
        "{help}"
    );
    room.ok(&["shutdown", "work"]);
    assert!(!at_work.is_alive());
    let told = room.ok(&["doctor"]);
    assert!(told.stdout.contains("no faults, 1 note"), "{told:?}");
}

#[test]
fn what_a_dead_client_left_running_is_named_by_doctor_and_ended_by_a_repair_and_by_shutdown() {
    for end in
        [&["doctor", "--repair"][..], &["shutdown", "work"], &["team", "delete", "work", "--force"]]
    {
        let room = TestEnv::new();
        room.killed_run();
        // The test starts this process in the place of a process that another client's teammate
        // left running. The process has the teammate's tag in its environment, and is not in the
        // teammate's POSIX session.
        let left = Process::shell(&room, "touch $1; exec sleep 1000");
        room.started_for_bob_by("claude", ProcessIdentity { pid: 1, start_ticks: u64::MAX }, None);
        let told = room.run(&["doctor"]);
        let named = format!("process 1 of bob has ended, and left running: {}", left.identity.pid);
        assert!(left.is_alive() && told.stdout.contains(&named), "{told:?}");
        let ended = room.ok(end);
        assert!(!left.is_alive(), "{end:?}: {ended:?}");
    }
}

#[test]
fn a_member_that_joined_by_itself_and_was_killed_is_named_by_doctor_whoever_leads_the_team() {
    for is_ours in [true, false] {
        let room = TestEnv::with_crew();
        if !is_ours {
            let mut config = room.json_file("teams/crew/config.json");
            for member in config["members"].as_array_mut().unwrap() {
                member.as_object_mut().unwrap().remove("pitcrew");
            }
            fs::write(room.root().join("teams/crew/config.json"), config.to_string()).unwrap();
        }
        let model = room.script("agents: {guest: [{text: I am here.}]}");
        let mut guest =
            Running::start(&room, &["join", "crew", "--as", "guest", "--model", &model]);
        guest.until("guest is idle");
        let told = room.run(&["doctor"]);
        assert!(!told.stdout.contains("guest"), "{told:?}");
        guest.kill();
        let told = room.ok(&["doctor"]).stdout;
        assert!(told.contains("note: member gone in team crew: process"), "{told}");
        let ways = "`pitcrew join crew --as guest` goes on with it, `pitcrew member remove guest --team crew` takes it out";
        assert!(told.contains(ways), "{told}");
        assert!(!told.contains("goes on with guest") && !told.contains("all is well"), "{told}");
        room.ok(&["member", "remove", "guest", "--team", "crew"]);
        let told = room.ok(&["doctor"]).stdout;
        assert!(!told.contains("guest"), "{told}");
    }
}

#[test]
fn a_process_that_only_has_the_number_of_a_teammate_is_left_alone() {
    let room = TestEnv::new();
    room.killed_run();
    let other = Process::shell(&room, "touch $1; exec sleep 1000");
    room.started_for_bob(
        ProcessIdentity { start_ticks: other.identity.start_ticks - 1, ..other.identity },
        None,
    );
    let ended = room.json(&["shutdown", "work", "--force"]);
    assert_eq!(ended["stopped"][0]["outcome"], "gone", "{ended:#}");
    assert!(other.is_alive());
}

#[test]
fn a_record_that_names_a_process_without_the_members_tag_has_nobody_killed() {
    let ends: [&[&str]; 4] = [
        &["doctor", "--repair"],
        &["shutdown", "work", "--force"],
        &["team", "delete", "work", "--force"],
        &["run", "--resume", "work", "--model", "script:short.yaml"],
    ];
    for end in ends {
        for tag in ["", "0af3/work/bob"] {
            let room = TestEnv::new();
            room.killed_run();
            fs::write(
                room.work().join("short.yaml"),
                "agents: {team-lead: [{text: So}, {text: That is all.}]}",
            )
            .unwrap();
            let other = Process::tagged_shell(&room, "touch $1; exec sleep 1000", tag);
            room.started_for_bob(other.identity, None);
            let told = room.run(&["doctor"]);
            assert!(told.stdout.contains("does not carry the tag"), "{told:?}");
            let ended = room.run(end);
            assert!(other.is_alive(), "{end:?} {tag}: {ended:?}");
        }
    }
}

#[test]
fn force_kills_a_run_that_hangs_and_a_teammate_that_heeds_nothing() {
    let room = TestEnv::new();
    let running = room.start_waiting();
    let stubborn =
        Process::shell(&room, "trap '' TERM INT; touch $1; while :; do sleep 0.01; done");
    // Write the record before the run gets the signal SIGSTOP. A stopped run may hold the lock of
    // the journal, and this thread would then wait for the lock.
    room.started_for_bob(stubborn.identity, None);
    running.signal(rustix::process::Signal::STOP);
    let pid = running.id();
    let reaped = std::thread::spawn(move || running.ended());
    let ended = room.json(&["shutdown", "work", "--force"]);
    assert_eq!((&ended["success"], &ended["pid"]), (&true.into(), &pid.into()), "{ended:#}");
    reaped.join().unwrap();
    assert!(!stubborn.is_alive());
    assert!(room.ok(&["team", "show", "work"]).stdout.contains("not running"));
}

#[test]
fn a_team_is_deleted_by_force_with_teammates_that_are_stuck_but_not_under_a_lead_that_lives() {
    let room = TestEnv::new();
    let running = room.start_waiting();
    let refused = room.run(&["team", "delete", "work", "--force"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    running.kill();
    let stuck = Process::shell(&room, "trap '' TERM; touch $1; while :; do sleep 0.01; done");
    room.started_for_bob(stuck.identity, None);
    assert_eq!(room.run(&["team", "delete", "work"]).code, 4);
    assert_eq!(room.json(&["team", "delete", "work", "--force"])["success"], true);
    assert!(!stuck.is_alive());
    assert_eq!(room.json(&["team", "list"])["total"], 0);
    assert_eq!(room.run(&["team", "delete", "work", "--force"]).code, 3);
}

#[test]
fn whatever_is_left_of_a_team_is_cleared_away_by_force() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("its config is torn", |root| fs::write(root.join("teams/crew/config.json"), "{").unwrap()),
        ("it has no config", |root| fs::remove_file(root.join("teams/crew/config.json")).unwrap()),
        ("its tasks alone are there", |root| {
            fs::rename(root.join("teams/crew"), root.join("gone")).unwrap()
        }),
    ];
    for (what, damage) in damages {
        let room = TestEnv::with_crew();
        room.ok(&["task", "create", "keep me", "it is kept"]);
        damage(&room.root());
        let deleted = room.ok(&["team", "delete", "crew", "--force"]);
        assert!(deleted.stdout.contains("crew"), "{what}: {deleted:?}");
        assert!(
            !room.root().join("teams/crew").exists() && !room.root().join("tasks/crew").exists(),
            "{what}"
        );
        let archived = fs::read_dir(room.root().join("pitcrew/archive"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert!(archived.join("tasks/1.json").is_file(), "{what}");
        assert_eq!(room.run(&["team", "delete", "crew", "--force"]).code, 3, "{what}");
        room.ok(&["team", "create", "crew"]);
    }
}

#[test]
fn force_deletes_no_team_whose_name_only_falls_on_the_same_folder() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "my team"]);
    assert_eq!(room.run(&["team", "delete", "my.team", "--force"]).code, 3);
    assert_eq!(room.json(&["team", "list"])["total"], 1);
}

#[test]
fn a_record_that_is_torn_keeps_nobody_from_deleting_the_team_nor_the_doctor_from_looking() {
    for record in ["started", "panes"] {
        let room = TestEnv::new();
        room.killed_run();
        std::fs::write(room.root().join(format!("teams/work/pitcrew/{record}.json")), "[{torn")
            .unwrap();
        let told = room.run(&["doctor"]);
        assert!(told.stdout.starts_with("torn ") && told.stdout.contains(record), "{told:?}");
        room.ok(&["team", "delete", "work", "--force"]);
        assert!(!room.root().join("teams/work").exists(), "{record}");
    }
}

#[test]
fn who_leads_is_told_and_a_member_takes_over_from_the_dead() {
    let room = TestEnv::new();
    let running = room.start_waiting();
    let led = room.json(&["team", "lead", "work"]);
    assert_eq!(
        (&led["lead"]["pid"], &led["lead"]["alive"]),
        (&running.id().into(), &true.into()),
        "{led:#}"
    );
    let model = room.script(TAKEN_OVER);
    let taking_over =
        ["team", "lead", "work", "go on", "--take-over", "--as", "bob", "--model", &model];
    let refused = room.run(&taking_over);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("is run by process"), "{refused:?}");
    running.kill();
    assert_eq!(room.json(&["team", "lead", "work"])["lead"]["alive"], false);
    assert!(room.ok(&["team", "lead"]).stdout.starts_with("nobody leads team work; process "));
    let ran = room.ok(&taking_over);
    // The new lead may read its messages in one turn or in several turns, so the number of its
    // turns is not fixed. The test therefore checks only one answer.
    assert!(ran.stderr.contains("team-lead says: I lead now."), "{ran:?}");
    assert_eq!(
        room.json(&["team", "show", "work"])["team"]["members"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        room.run(&["team", "lead", "work", "go on"]).code,
        2,
        "an instruction is for who takes over"
    );
}

/// A private tmux server of the test.
struct Server {
    socket: PathBuf,
    room: TestEnv,
}

impl Server {
    fn new() -> Self {
        let room = TestEnv::new();
        Self { socket: room.temporary().join("tmux"), room }
    }

    fn tmux(&self) -> Tmux {
        Tmux::new(TmuxOptions {
            program: PathBuf::from("tmux"),
            socket: Some(self.socket.clone()),
            config: Some(PathBuf::from("/dev/null")),
            beside: None,
            session: "test".to_owned(),
            launcher: Launcher::default(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _none_ran =
            Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

#[test]
fn the_pane_of_a_teammate_is_closed_and_one_that_is_not_ours_is_not() {
    let server = Server::new();
    let (room, tmux) = (&server.room, server.tmux());
    room.killed_run();
    let (team, bob) = (room.team("work"), AgentName::foreign("bob"));
    let tag = RecordedPanes::below(&room.root()).tag(&team, Some(&bob));
    let start = |tag| NewPane {
        argv: ["sleep", "1000"].map(str::to_owned).to_vec(),
        cwd: room.work(),
        env: Vec::new(),
        title: "bob".to_owned(),
        color: None,
        tag,
    };
    let state = |pane: &PaneId| block_on(tmux.state(pane)).unwrap();
    let ours = block_on(tmux.start(&start(tag.clone()))).unwrap();
    let mut theirs = tag;
    theirs.root = "theirs".to_owned();
    let theirs = block_on(tmux.start(&start(theirs))).unwrap();
    let place = |pane: &PaneId| PanePlace {
        host: PaneHost {
            socket: Some(server.socket.display().to_string()),
            ..PaneHost::of("tmux")
        },
        id: pane.0.clone(),
    };
    let dead = ProcessIdentity { pid: 1, start_ticks: u64::MAX };
    room.started_for_bob(dead, Some(place(&theirs.id)));
    room.ok(&["shutdown", "work"]);
    assert!(matches!(state(&theirs.id), PaneState::Running { .. }));
    room.started_for_bob(ProcessIdentity::of(ours.pid.unwrap()).unwrap(), Some(place(&ours.id)));
    room.ok(&["doctor", "--repair"]);
    assert_eq!(state(&ours.id), PaneState::Gone);
    assert!(matches!(state(&theirs.id), PaneState::Running { .. }));
}
