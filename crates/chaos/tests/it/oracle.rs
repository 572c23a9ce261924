//! Tests the module `brain`: it finds tokens in texts, it finds the state of a step in a request,
//! and its lead begins by creating all tasks.

use pitcrew_chaos::brain::{Came, Heard, Say, World, call_id, decide, tokens_in};
use pitcrew_chaos::plan::{Place, Plan};
use serde_json::json;

#[test]
fn tokens_are_found_and_nothing_else() {
    let text = "a [[ann>bob:n-1:7]] b [[x]] [[bob>team-lead:report:8]][[";
    assert_eq!(tokens_in(text), ["[[ann>bob:n-1:7]]", "[[bob>team-lead:report:8]]"]);
}

#[test]
fn a_step_is_known_by_the_ids_of_its_calls() {
    let (first, second) = (call_id("ann-2", "n-1", 5), call_id("ann-2", "n-1", 6));
    let body = json!({
        "system": [{"type": "text", "text": "# You are \"ann-2\" on the team \"chaos\""}],
        "tools": [{"name": "SendMessage"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Begin."}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": first, "name": "SendMessage", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": first, "content": "cut off", "is_error": true},
                {"type": "text", "text": "mail"},
            ]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": second, "name": "SendMessage", "input": {}}]},
        ],
    });
    let mut heard = Heard::of(&body);
    assert_eq!((heard.agent.as_str(), heard.told.as_str()), ("ann-2", "Begin.\nmail\n"));
    assert_eq!(heard.came_of("n-1"), Came::Failed(2, String::new()));
    assert_eq!(heard.came_of("n"), Came::Nothing);
    heard.calls[1].result = Some(("sent".to_owned(), false));
    assert_eq!(heard.came_of("n-1"), Came::Done("sent".to_owned()));
}

#[test]
fn a_lead_begins_with_its_tasks() {
    let plan = Plan::of(3, Some(Place::Panes));
    let heard = Heard { agent: "team-lead".to_owned(), tools: 1, ..Heard::default() };
    let Say::Calls(calls) = decide(&heard, World { plan: &plan, may_end: false }) else {
        panic!("no calls")
    };
    let tasks: usize = plan.workers.iter().map(|worker| worker.tasks).sum();
    assert_eq!(calls.iter().filter(|call| call.tool == "TaskCreate").count(), tasks);
}
