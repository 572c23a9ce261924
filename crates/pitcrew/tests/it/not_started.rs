//! Runs that cannot start, and runs whose first model request is refused. Such a run must leave no
//! files and must not count toward any limit.

use serde_json::json;

use crate::models_over_http::Say;
use crate::service::{Reply, Service};
use crate::test_env::{Ran, TestEnv};

/// Checks that neither an active nor an archived team exists.
#[track_caller]
fn is_traceless(room: &TestEnv) {
    for folder in ["teams", "tasks", "pitcrew/archive"] {
        let there: Vec<_> =
            std::fs::read_dir(room.root().join(folder)).into_iter().flatten().flatten().collect();
        assert!(there.is_empty(), "{folder}: {there:?}");
    }
}

#[test]
fn a_run_that_cannot_start_makes_no_team_and_says_what_to_do() {
    let room = TestEnv::new();
    for (args, said) in [
        (&["run", "x", "--model", "anthropic/claude-opus-5-5"][..], "ANTHROPIC_API_KEY"),
        (&["run", "x", "--model", "gpt"], "names no model"),
        (&["run", "x", "--model", "script:missing.yaml"], "missing.yaml"),
        (
            &["run", "x", "--model", "script:x.yaml", "--teammate-mode", "pane:./nothing-here"],
            "nothing-here",
        ),
        (&["run", "x", "--model", "script:x.yaml", "--teammate-program", "claude"], "claude"),
    ] {
        std::fs::write(room.work().join("x.yaml"), "agents: {}\n").unwrap();
        let ran = room.run(args);
        assert!(ran.code != 0, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{args:?}: {ran:?}");
        is_traceless(&room);
    }
}

#[test]
fn a_run_whose_first_request_is_refused_undoes_its_team() {
    for status in [401, 403, 404] {
        let body =
            json!({"type": "error", "error": {"type": "some_error", "message": "no, thank you"}});
        let service = Service::start(move |_, _| Reply::Refuse(status, None, body.clone()));
        let room = TestEnv::new();
        // Agents are allowed to create only a limited number of teams in an hour. This loop starts
        // more runs than that number.
        for _ in 0..12 {
            let ran = service.run(&room, &["run", "x"]);
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(
                ran.stderr.contains("no, thank you") && !ran.stderr.contains("--resume"),
                "{ran:?}"
            );
            is_traceless(&room);
        }
    }
}

#[test]
fn a_persons_own_runs_are_not_limited_to_ten_an_hour_and_the_limit_of_others_names_its_setting() {
    let service = Service::start(|_, _| Reply::Say(vec![Say::Text("done")]));
    let room = TestEnv::new();
    for _ in 0..11 {
        assert_eq!(service.run(&room, &["run", "x"]).code, 0);
    }
    let made: Vec<Ran> =
        (0..11).map(|nth| room.run(&["team", "create", &format!("t{nth}")])).collect();
    assert!(made.iter().take(10).all(|ran| ran.code == 0), "{made:?}");
    assert_eq!(made[10].code, 6, "{made:?}");
    assert!(made[10].stderr.contains("pitcrew.limits.teamRate"), "{made:?}");
}
