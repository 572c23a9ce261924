//! Plays scripts as the runtime does: appends each answer, and then the results of its tool calls,
//! to a conversation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pitcrew_model::{
    AgentTag, Block, INTERRUPTED, Message, Model, ModelError, Request, Response, Role, Script,
    Scripted, StopReason, StreamEvent,
};
use serde_json::{Value, json};

/// One agent's conversation with a scripted model.
struct Talk {
    model: Scripted,
    agent: &'static str,
    messages: Vec<Message>,
}

impl Talk {
    /// Starts a conversation with the agent's prompt.
    fn new(script: &str, agent: &'static str) -> Self {
        let script = Script::parse(Path::new("test.yaml"), script).unwrap();
        let messages = vec![Message::user(vec![Block::text("go")])];
        Self { model: Scripted::new(script), agent, messages }
    }

    fn tell(&mut self, text: &str) -> &mut Self {
        self.messages.push(Message::user(vec![Block::text(text)]));
        self
    }

    /// Adds results for the tool calls of the last turn, in the order of the calls.
    fn results(&mut self, texts: &[&str]) -> &mut Self {
        let calls = self.messages.last().unwrap().blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(id.clone()),
            _ => None,
        });
        let results: Vec<Block> =
            calls.zip(texts).map(|(id, text)| Block::tool_result(id, *text)).collect();
        assert_eq!(results.len(), texts.len());
        self.messages.push(Message::user(results));
        self
    }

    async fn respond(&self, messages: &[Message]) -> Result<Response, ModelError> {
        let request = Request {
            agent: AgentTag { name: self.agent.to_owned(), team: Some("crew".to_owned()) },
            system: Vec::new(),
            messages: messages.to_vec().into(),
            tools: Arc::new([]),
            max_output_tokens: 1,
        };
        let last = self.model.respond(request).collect::<Vec<_>>().await.pop();
        match last.expect("an event") {
            Ok(StreamEvent::Finished(response)) => Ok(response),
            Ok(other) => panic!("the last event is {other:?}"),
            Err(error) => Err(error),
        }
    }

    /// Plays the next turn. Returns the text of the answer. After the text follow the name and the
    /// JSON input of each tool call.
    async fn turn(&mut self) -> String {
        let response = self.respond(&self.messages).await.unwrap();
        let short = response.blocks.iter().map(|block| match block {
            Block::Text { text, .. } => text.clone(),
            Block::ToolUse { name, input, .. } => format!("{name}{input}"),
            other => format!("{other:?}"),
        });
        let short = short.collect::<Vec<_>>().join(" ");
        self.messages.push(Message::assistant(response.blocks));
        short
    }

    async fn error(&self) -> String {
        self.respond(&self.messages).await.unwrap_err().to_string()
    }

    /// Checks that the conversation can be resumed everywhere: for every answer, the model must
    /// give the same answer again if it sees only the messages before it. Also checks that all ids
    /// of tool calls are different.
    async fn check_resumable(&self) {
        let mut ids = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if message.role == Role::Assistant {
                let again = self.respond(&self.messages[..at]).await.unwrap();
                assert_eq!(again.blocks, message.blocks, "answer at {at}");
            }
            ids.extend(message.blocks.iter().filter_map(|block| match block {
                Block::ToolUse { id, .. } => Some(id.clone()),
                _ => None,
            }));
        }
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "call ids are unique");
    }
}

#[tokio::test]
async fn turns_come_in_order_and_then_the_script_is_over() {
    let script = "agents: {bob: [{thinking: hm, text: first}, {tools: [{name: Bash, input: {command: ls}}, {name: TaskList}]}]}";
    let mut talk = Talk::new(script, "bob");
    let first = talk.respond(&talk.messages).await.unwrap();
    assert_eq!(first.blocks, [Block::thinking("hm", ""), Block::text("first")]);
    assert_eq!(first.stop, StopReason::EndTurn);
    talk.turn().await;
    talk.tell("more");
    assert_eq!(talk.respond(&talk.messages).await.unwrap().stop, StopReason::ToolUse);
    assert_eq!(talk.turn().await, r#"Bash{"command":"ls"} TaskList{}"#);
    talk.results(&["a", "b"]);
    assert_eq!(talk.turn().await, "I have nothing left to do.");
    assert_eq!(talk.tell("still there?").turn().await, "I have nothing left to do.");
    talk.check_resumable().await;
}

#[tokio::test]
async fn an_agent_plays_its_own_name_before_the_longest_pattern_before_the_default() {
    let script = "agents: {'*-1': [{text: short}], worker-*: [{text: long}], worker-2: [{text: own}], default: [{text: other}]}";
    for (agent, expected) in
        [("worker-2", "own"), ("worker-1", "long"), ("x-1", "short"), ("lead", "other")]
    {
        assert_eq!(Talk::new(script, agent).turn().await, expected);
    }
}

#[tokio::test]
async fn values_are_captured_from_results_and_mail_and_filled_in() {
    let script = r#"
agents:
  bob:
    - tools: [{name: TaskCreate}, {name: Other}]
    - capture:
        task: {tool: TaskCreate, regex: 'Task #(\d+)'}
        count: {from: tool_result, pointer: /n/0}
        none: {pointer: /missing, default: nothing}
      tools: [{name: Use, input: {id: 'task-${task}', count: '${count}', none: '${none}', who: '${agent}@${team}', sh: '$${HOME}'}}]
    - capture:
        request: {from: message, pointer: /requestId}
        same: {from: message, regex: '"requestId":"([^"]*)"'}
      text: ${request} ${same}
"#;
    let mut talk = Talk::new(script, "bob");
    talk.turn().await;
    talk.results(&["Task #7 created", r#"{"n": [3], "Task": "Task #8"}"#]);
    assert_eq!(
        talk.turn().await,
        r#"Use{"id":"task-7","count":3,"none":"nothing","who":"bob@crew","sh":"${HOME}"}"#
    );
    talk.results(&["ok"]);
    talk.tell("<teammate-message teammate_id=\"alice\">\nplain &lt;b&gt;\n</teammate-message>\n\n<teammate-message teammate_id=\"team-lead\">\n{&quot;type&quot;:&quot;shutdown_request&quot;,&quot;requestId&quot;:&quot;r-1&quot;}\n</teammate-message>");
    assert_eq!(talk.turn().await, "r-1 r-1");
    talk.check_resumable().await;
}

#[tokio::test]
async fn an_agent_waits_until_it_is_told() {
    let script = r#"
agents:
  bob:
    - text: ready
    - wait_for: {contains: 'teammate_id="alice"', from: message, times: 2}
      text: waiting
    - text: both came
"#;
    let mail = "<teammate-message teammate_id=\"alice\">\nhi\n</teammate-message>";
    let mut talk = Talk::new(script, "bob");
    assert_eq!(talk.turn().await, "ready");
    assert_eq!(talk.tell("noise").turn().await, "waiting");
    assert_eq!(talk.tell(mail).turn().await, "waiting");
    assert_eq!(talk.tell(mail).turn().await, "both came");
    talk.check_resumable().await;

    let mut early = Talk::new(script, "bob");
    early.tell(&format!("{mail}\n\n{mail}"));
    assert_eq!(early.turn().await, "ready");
    assert_eq!(early.tell("go on").turn().await, "both came");
}

#[tokio::test]
async fn a_wait_without_text_says_nothing() {
    let mut talk = Talk::new("agents: {bob: [{wait_for: {contains: now}}, {text: done}]}", "bob");
    let response = talk.respond(&talk.messages).await.unwrap();
    assert_eq!((response.blocks.len(), response.stop), (0, StopReason::EndTurn));
    talk.turn().await;
    assert_eq!(talk.tell("now").turn().await, "done");
}

#[tokio::test]
async fn branches_and_conditions_follow_what_was_told() {
    let script = r"
agents:
  bob:
    - tools: [{name: Bash}]
    - choose:
        - when: {matches: 'exit (code )?[1-9]', in: latest, tool: Bash}
          turns: [{text: failed}]
        - when: {all: [{contains: ok}, {not: {contains: but}}], any: [{contains: never}, {contains: passed}]}
          turns: [{text: passed}]
        - turns: [{text: unclear}]
    - when: {contains: exit, in: latest}
      text: skipped
    - text: end
";
    for (result, expected) in
        [("exit code 2", "failed"), ("ok, passed", "passed"), ("ok, passed, but", "unclear")]
    {
        let mut talk = Talk::new(script, "bob");
        talk.turn().await;
        assert_eq!(talk.results(&[result]).turn().await, expected);
        assert_eq!(talk.tell("go on").turn().await, "end");
        talk.check_resumable().await;
    }
}

#[tokio::test]
async fn a_loop_ends_when_its_condition_holds_or_its_rounds_are_over() {
    let script = "
agents:
  bob:
    - repeat:
        until: {contains: green}
        at_most: 3
        turns: [{tools: [{name: Test}]}]
    - text: out
";
    let mut talk = Talk::new(script, "bob");
    talk.turn().await;
    talk.results(&["red"]).turn().await;
    assert_eq!(talk.results(&["green"]).turn().await, "out");
    talk.check_resumable().await;

    let mut never = Talk::new(script, "bob");
    for _ in 0..3 {
        assert_eq!(never.turn().await, "Test{}");
        never.results(&["red"]);
    }
    assert_eq!(never.turn().await, "out");
    never.check_resumable().await;
}

#[tokio::test]
async fn calls_that_a_crash_interrupted_are_made_again_and_only_those() {
    let script = r"
agents:
  bob:
    - text: working
      tools: [{name: A, input: {n: 1}}, {name: B, input: {n: 2}}]
    - choose:
        - when: {contains: made, in: latest, times: 2}
          turns:
            - capture: {id: {tool: B, regex: 'made (\d+)'}}
              text: got ${id}
        - turns: [{text: wrong way}]
";
    let interrupted = format!("{INTERRUPTED} the process ended; made 99");
    let mut talk = Talk::new(script, "bob");
    assert_eq!(talk.turn().await, r#"working A{"n":1} B{"n":2}"#);
    talk.results(&["made 1", &interrupted]);
    assert_eq!(talk.turn().await, r#"B{"n":2}"#);
    talk.results(&[&interrupted]);
    assert_eq!(talk.turn().await, r#"B{"n":2}"#);
    talk.results(&["made 5"]);
    assert_eq!(talk.turn().await, "got 5");
    talk.tell("more");
    talk.turn().await;
    talk.check_resumable().await;
}

#[tokio::test]
async fn an_interrupted_last_turn_is_made_again_too() {
    let mut talk = Talk::new("agents: {bob: [{tools: [{name: A}]}]}", "bob");
    talk.turn().await;
    assert_eq!(talk.results(&[INTERRUPTED]).turn().await, "A{}");
    assert_eq!(talk.results(&["ok"]).turn().await, "I have nothing left to do.");
    talk.check_resumable().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_takes_the_time_it_is_given() {
    let talk = Talk::new("agents: {bob: [{text: slow, delay_ms: 1500}]}", "bob");
    let start = tokio::time::Instant::now();
    talk.respond(&talk.messages).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(1500));
}

#[tokio::test]
async fn what_cannot_be_played_names_the_file_the_agent_and_the_turn() {
    let unknown = Talk::new("agents: {alice: [], worker-*: []}", "bob");
    insta::assert_snapshot!(unknown.error().await, @r#"the script test.yaml has no turns for the agent "bob"; it knows alice, worker-*"#);
    let mut lost = Talk::new(
        "agents: {bob: [{text: a}, {capture: {plan: {pointer: /x}}, text: '${plan}'}]}",
        "bob",
    );
    lost.turn().await;
    insta::assert_snapshot!(lost.error().await, @r#"the script test.yaml cannot play turn 2 of the agent "bob": nothing the agent was told fits the capture "plan""#);
    let unset = Talk::new("agents: {bob: [{text: '${plan}'}]}", "bob");
    insta::assert_snapshot!(unset.error().await, @r#"the script test.yaml cannot play turn 1 of the agent "bob": ${plan} has no value; capture it first, or write $${ for a plain ${"#);
    let circle =
        "agents: {bob: [{repeat: {at_most: 4000000000, turns: [{when: {contains: x}, text: y}]}}]}";
    insta::assert_snapshot!(Talk::new(circle, "bob").error().await, @r#"the script test.yaml cannot play turn 1 of the agent "bob": the script goes in circles without an answer"#);
}

#[test]
fn a_file_that_is_no_script_is_refused_and_says_where() {
    let refused = |text: &str| Script::parse(Path::new("test.yaml"), text).unwrap_err().to_string();
    for text in [
        "",
        "agents: 7",
        "agents: {bob: [{text: a, wait_for: {contains: b}, tools: [{name: c}]}]}",
        "agents: {bob: [{choose: [], repeat: {turns: []}}]}",
        "agents: {bob: [{text: a, when: {matches: '('}}]}",
        "agents: {bob: [{text: a, capture: {x: {}}}]}",
        "agents: {bob: [{text: a, capture: {x: {regex: a, pointer: /b}}}]}",
        "agents: {'[': []}",
        "agents: {bob: [], bob: []}",
    ] {
        let error = refused(text);
        assert!(error.contains("test.yaml"), "{error}");
    }
    let deep = "[{choose: [{turns: ".repeat(100_000);
    assert!(refused(&format!("agents: {{bob: {deep}")).contains("limit"));
    insta::assert_snapshot!(refused("agents:\n  bob:\n    - when: {contains: x}\n"), @"the script test.yaml is invalid: a step needs text, thinking or tools, or wait_for, choose or repeat at line 3, column 7");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let spec = "script:/nowhere/x.yaml".parse().unwrap();
    let opened = pitcrew_model::open(
        &spec,
        &pitcrew_model::Endpoints::default(),
        &pitcrew_model::Pace::new(),
        &pitcrew_model::RetryPolicy::default(),
    );
    insta::assert_snapshot!(opened.err().unwrap(), @"the script /nowhere/x.yaml cannot be read");
}

#[tokio::test]
async fn a_scripted_model_uses_no_tokens_and_streams_what_it_says() {
    let script = "agents: {bob: [{thinking: hm, text: hi, tools: [{name: A}]}]}";
    let talk = Talk::new(script, "bob");
    let request = Request {
        agent: AgentTag { name: "bob".to_owned(), team: None },
        system: Vec::new(),
        messages: Vec::new().into(),
        tools: Arc::new([]),
        max_output_tokens: 1,
    };
    let events: Vec<_> = talk.model.respond(request).map(Result::unwrap).collect().await;
    assert_eq!(events[0], StreamEvent::ThinkingDelta("hm".to_owned()));
    assert_eq!(events[1], StreamEvent::TextDelta("hi".to_owned()));
    assert_eq!(events[2], StreamEvent::ToolStarted { name: "A".to_owned() });
    let StreamEvent::Finished(response) = &events[3] else { panic!("{:?}", events[3]) };
    assert_eq!(response.usage.context_tokens(), 0);
    let call = Block::tool_use("toolu_script_bob_0_0", "A", Value::Object(serde_json::Map::new()));
    assert_eq!(response.blocks[2], call);
    assert_eq!(json!(response.stop.as_str()), json!("tool_use"));
}
