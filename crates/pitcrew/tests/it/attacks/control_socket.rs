//! Tests which processes are allowed to use the lead's control socket, if a system call filter
//! already restricts the process of the run. A container or a launcher can set such a filter.
//!
//! A tool of an agent has more filters than the process of the run, and must be refused. The user's
//! own processes have the same number of filters as the process of the run, and must be accepted.

use std::fs;

use serde_json::{Value, json};

use super::ground::Ground;
use super::host::User;
use super::{BOTH, BUBBLEWRAP, NEITHER, host};
use crate::lead::SHED;
use crate::patience::until;
use crate::running::Running;

/// The script of a lead that tries to change its own permission mode, with one tool call after the
/// other. Then the lead continues to work.
fn script(ground: &Ground) -> Value {
    let work = ground.at("work");
    let attempts = SHED.iter().enumerate().map(|(at, shed)| {
        let command =
            shed.replace("$W", &work.display().to_string()).replace("OUT", &format!("out{at}"));
        json!({"tools": [{"name": "Bash", "input": {"command": command}}]})
    });
    let goes_on = json!({"repeat": {"at_most": 100_000, "turns": [{"delay_ms": 100, "tools": [{"name": "TaskList"}]}]}});
    json!({"agents": {"team-lead": attempts.chain([goes_on]).collect::<Vec<_>>()}})
}

#[test]
fn a_tool_is_turned_away_and_its_user_let_in_where_the_run_itself_is_behind_a_filter() {
    for means in [BOTH, BUBBLEWRAP, NEITHER] {
        let Some(host) = host(User::Other, means) else { continue };
        let ground = Ground::new(&host);
        let (work, root, pitcrew) = (ground.at("work"), ground.at("home/.claude"), host.pitcrew());
        let attack = format!(
            "exec {} --root {} member mode --team attacked team-lead acceptEdits >{}/$1 2>&1\n",
            pitcrew.display(),
            root.display(),
            work.display()
        );
        fs::write(work.join("attack"), attack).unwrap();
        let file = ground.at("script.json");
        fs::write(&file, script(&ground).to_string()).unwrap();
        let mut run = ground.run(&host);
        run.args([
            "run",
            "attack",
            "--team",
            "attacked",
            "--permission-mode",
            "bypassPermissions",
            "--model",
        ]);
        let running = Running::of(run.arg(format!("script:{}", file.display())));
        for at in 0..SHED.len() {
            let out = work.join(format!("out{at}"));
            let said = || {
                fs::read_to_string(&out)
                    .ok()
                    .filter(|said| said.contains("was started by a tool of an agent"))
            };
            until("a tool is turned away", said, || {
                format!("{host}, {at}: {:?}", fs::read_to_string(&out))
            });
        }
        let mode = || {
            let config = fs::read_to_string(root.join("teams/attacked/config.json")).unwrap();
            serde_json::from_str::<Value>(&config).unwrap()["members"][0]["mode"].clone()
        };
        let before = mode();
        let users = ground
            .run(&host)
            .args(["member", "mode", "--team", "attacked", "team-lead", "acceptEdits"])
            .output()
            .unwrap();
        assert!(users.status.success(), "{host}: {users:?}");
        assert!(
            before != json!("acceptEdits") && mode() == json!("acceptEdits"),
            "{host}: {before}"
        );
        running.kill();
    }
}
