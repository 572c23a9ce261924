//! A teammate that runs in the reference client makes its own model calls. The run counts these
//! calls, and the limits of the run apply to them.

use std::fs;

use serde_json::{Value, json};

use super::script::{Script, calls, says};
use super::sockets::spawn;
use super::stage::{Client, Stage};

/// The number of model calls that the run allows a teammate to make.
const MOST: u64 = 4;

/// The number of model calls that a teammate would make without a limit.
const WANTED: usize = 40;

/// Runs a teammate whose script makes far more model calls than the run allows. Returns the JSON
/// document that the run prints at its end.
fn bounded(stage: &Stage, first: &str, limit: &str) -> Value {
    let run = format!(
        "pitcrew run {first} --model anthropic/claude-sonnet-4-5-20250929 --teammate-mode tmux --teammate-program claude \
         --allow Bash {limit} --json >run.json; echo \"ended with $?\"; read _"
    );
    let pane = stage.pane(&["sh", "-c", &run]);
    stage.shown(&pane, "ended with 7");
    let told: Value =
        serde_json::from_slice(&fs::read(stage.work().join("run.json")).unwrap()).unwrap();
    stage.press(&pane, "Enter");
    told
}

fn worker(told: &Value) -> &Value {
    told["members"].as_array().unwrap().iter().find(|member| member["name"] == "worker").unwrap()
}

fn is_bounded(client: Client) {
    let work = |nth| {
        calls("Bash", json!({"command": format!("sleep 0.5; echo {nth}"), "description": "say it"}))
    };
    let script = Script::default()
        .role("lead", std::iter::once(spawn()).chain((0..20).map(|_| says("I wait"))))
        .role("worker", (0..WANTED).map(work));
    let Some(stage) = Stage::set(client, &script) else { return };
    let told = bounded(&stage, "'ROLE:lead begin' --team probe", &format!("--max-turns {MOST}"));
    assert_eq!(told["end"], "max_turns", "{told}");
    let turns = worker(&told)["turns"].as_u64().unwrap();
    let asked = stage.requests("worker").len();
    assert!((MOST..20).contains(&turns) && asked < WANTED, "{turns} of {asked}");
    assert!(worker(&told)["cost_usd"].as_f64().unwrap() > 0.0, "{told}");
    assert!(worker(&told)["tokens"].as_u64().unwrap() >= turns * 10, "{told}");

    let told = bounded(
        &stage,
        "--resume probe",
        &format!("--max-turns 1000 --max-cost-usd {}", total(&told) + 0.0005),
    );
    assert_eq!(told["end"], "max_cost", "{told}");
    let both = worker(&told)["turns"].as_u64().unwrap();
    assert!(
        both > turns && both <= stage.requests("worker").len() as u64,
        "{both} after {turns}: {told}"
    );
}

/// Returns the sum of the costs of all members.
fn total(told: &Value) -> f64 {
    told["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["cost_usd"].as_f64().unwrap())
        .sum()
}

#[test]
fn the_limits_of_a_run_hold_for_a_client_and_go_on_counting_when_it_is_resumed() {
    is_bounded(Client::Recorded);
}

#[test]
fn the_limits_of_a_run_hold_for_todays_client_and_go_on_counting_when_it_is_resumed() {
    is_bounded(Client::Today);
}
