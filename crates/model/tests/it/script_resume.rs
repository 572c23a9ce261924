//! Checks that crashes and summaries at any moment of a scripted conversation do not change what
//! the agent does. Only the ids and the order of repeated tool calls may change.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use pitcrew_model::{
    AgentTag, Block, COMPACTION, INTERRUPTED, Message, Model, Request, Role, Script, Scripted,
    StopReason, StreamEvent,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Maximum number of tool calls and incoming messages in one run of a script. The run stops there,
/// because an agent answers every further message even after its script has ended.
const LONGEST: usize = 40;

/// Generates random scripts that contain every kind of step. The scripts are JSON, which is valid
/// YAML. Every tool call in a script has its own number.
fn script() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["red", "green", "blue"]);
    let condition = (word, prop::sample::select(vec!["anywhere", "latest"]), 1..3_u8)
        .prop_map(|(word, scope, times)| json!({"contains": word, "in": scope, "times": times}));
    let call = Just(json!({"name": "Paint", "input": {"seen": "${seen}"}}));
    let capture = json!({"seen": {"regex": "red|green|blue", "default": "nothing"}});
    let calls = prop::collection::vec(call, 1..4)
        .prop_map(move |tools| json!({"tools": tools, "capture": capture}));
    let leaf = prop_oneof![
        3 => calls,
        1 => Just(json!({"text": "said"})),
        1 => condition.clone().prop_map(|condition| json!({"wait_for": condition})),
    ];
    let step = leaf.prop_recursive(3, 12, 4, move |step| {
        let steps = prop::collection::vec(step, 1..4);
        prop_oneof![
            (condition.clone(), steps.clone(), steps.clone()).prop_map(|(when, some, other)| {
                json!({"choose": [{"when": when, "turns": some}, {"turns": other}]})
            }),
            (condition.clone(), 1..4_u8, steps).prop_map(|(until, at_most, turns)| {
                json!({"repeat": {"until": until, "at_most": at_most, "turns": turns}})
            }),
        ]
    });
    prop::collection::vec(step, 1..5).prop_map(|mut steps| {
        let mut number = 0;
        steps.iter_mut().for_each(|step| number_calls(step, &mut number));
        json!({"agents": {"bob": steps}}).to_string()
    })
}

fn number_calls(value: &mut Value, number: &mut u64) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(input)) = fields.get_mut("input") {
                *number += 1;
                input.insert("number".to_owned(), json!(*number));
            }
            fields.values_mut().for_each(|value| number_calls(value, number));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| number_calls(item, number)),
        _ => {}
    }
}

/// Simulates everything outside the agent: it runs the tool calls and sends messages to the agent.
/// Tool results and messages depend only on what the agent has done, and never on the time.
#[derive(Default)]
struct World {
    done: HashMap<u64, usize>,
    history: Vec<String>,
    idle: usize,
}

impl World {
    fn run(&mut self, input: &Value) -> String {
        let number = input["number"].as_u64().unwrap();
        let times = self.done.entry(number).or_default();
        *times += 1;
        self.history.push(format!("{number} {input}"));
        let colors = ["red", "green", "blue", "grey"];
        colors[(usize::try_from(number).unwrap() + *times) % colors.len()].to_owned()
    }

    fn mail(&mut self) -> String {
        self.idle += 1;
        self.history.push("idle".to_owned());
        ["hello", "red", "blue", "green"][self.idle % 4].to_owned()
    }
}

/// A finished conversation, and what the agent did in it.
struct Played {
    history: Vec<String>,
    messages: Vec<Message>,
    /// The ids of all tool calls, also of those that a summary has replaced.
    ids: Vec<String>,
}

/// Plays a script until `LONGEST` is reached. The nth value of `crashes` says whether a crash loses
/// the result of the nth tool call. The nth value of `summaries` says whether a summary replaces
/// the conversation before the nth answer.
async fn play(script: &str, crashes: &[bool], summaries: &[bool]) -> Played {
    let script = Script::parse(Path::new("random.yaml"), script).unwrap();
    let model = Scripted::new(script);
    let mut world = World::default();
    let mut crashes = crashes.iter().copied();
    let mut summaries = summaries.iter().copied();
    let mut ids = Vec::new();
    let mut messages = vec![Message::user(vec![Block::text("go")])];
    while world.idle + world.done.values().sum::<usize>() < LONGEST {
        if summaries.next() == Some(true) {
            messages = summarised(&model, messages).await;
        }
        let response = respond(&model, &messages).await;
        messages.push(Message::assistant(response.blocks.clone()));
        ids.extend(call_ids(&messages[messages.len() - 1..]));
        if response.stop == StopReason::EndTurn {
            messages.push(Message::user(vec![Block::text(world.mail())]));
            continue;
        }
        let results = response.blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, .. } if crashes.next() == Some(true) => {
                Some(Block::tool_error(id, format!("{INTERRUPTED} red green blue")))
            }
            Block::ToolUse { id, input, .. } => Some(Block::tool_result(id, world.run(input))),
            _ => None,
        });
        messages.push(Message::user(results.collect()));
    }
    Played { history: world.history, messages, ids }
}

/// Replaces a conversation by a summary, as the runtime does. If the agent has not answered the
/// last texts yet, these texts follow after the summary.
async fn summarised(model: &Scripted, mut messages: Vec<Message>) -> Vec<Message> {
    let is_text = |block: &Block| block.as_text().is_some();
    let is_first = messages.len() == 1;
    let unanswered = messages.last().filter(|last| last.role == Role::User && !is_first);
    let tail: Vec<Block> = unanswered
        .iter()
        .flat_map(|last| last.blocks.iter().filter(|b| is_text(b)).cloned())
        .collect();
    let instruction = Block::text(format!("{COMPACTION} Sum up."));
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => last.blocks.push(instruction),
        None => messages.push(Message::user(vec![instruction])),
    }
    let summary = respond(model, &messages).await.blocks;
    let briefing = Block::text("You are bob.");
    vec![Message::user([briefing].into_iter().chain(summary).chain(tail).collect())]
}

async fn respond(model: &Scripted, messages: &[Message]) -> pitcrew_model::Response {
    let request = Request {
        agent: AgentTag { name: "bob".to_owned(), team: None },
        system: Vec::new(),
        messages: messages.to_vec().into(),
        tools: Arc::new([]),
        max_output_tokens: 1,
    };
    let last = model.respond(request).collect::<Vec<_>>().await.pop();
    match last.expect("an event") {
        Ok(StreamEvent::Finished(response)) => response,
        other => panic!("the last event is {other:?}"),
    }
}

fn call_ids(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let ids = blocks.filter_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// Splits the history into parts that end when the agent becomes idle, and sorts the tool calls in
/// each part. The calls are sorted because calls that are repeated after a crash may run in another
/// order.
fn by_idle_moments(history: &[String]) -> Vec<Vec<String>> {
    let moments = history.split(|event| event == "idle");
    moments
        .map(|moment| {
            let mut moment = moment.to_vec();
            moment.sort();
            moment
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_conversation_with_crashes_and_summaries_does_what_one_without_does(
        script in script(),
        crashes in prop::collection::vec(any::<bool>(), 0..30),
        summaries in prop::collection::vec(any::<bool>(), 0..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let calm = play(&script, &[], &[]).await.history;
            let Played { history: crashed, messages, mut ids } = play(&script, &crashes, &summaries).await;
            // Do not compare the last part of the two histories. `LONGEST` may stop the two runs at
            // different points of a turn.
            let (calm, crashed) = (by_idle_moments(&calm), by_idle_moments(&crashed));
            let common = calm.len().min(crashed.len()) - 1;
            prop_assert_eq!(&calm[..common], &crashed[..common]);

            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), all, "call ids are unique");

            let model = Scripted::new(Script::parse(Path::new("random.yaml"), &script).unwrap());
            for (at, message) in messages.iter().enumerate() {
                if message.role == Role::Assistant {
                    let again = respond(&model, &messages[..at]).await;
                    prop_assert_eq!(&again.blocks, &message.blocks);
                }
            }
            Ok(())
        })?;
    }
}
