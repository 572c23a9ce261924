//! Documents as they are written, and the secrets that are not in them.

use pitcrew_protocol::Status;
use serde_json::json;

use super::*;
use crate::conversation::{Call, CallResult, Part};

const KEY: &str = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA1";

fn bash(command: &str, result: &str) -> Part {
    Part::Call(Call {
        id: "c1".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": command}),
        original_input: None,
        permission: None,
        result: Some(CallResult { text: result.to_owned(), is_error: false }),
    })
}

fn talk(parts: Vec<Part>) -> AgentConversation {
    let mut conversation = Conversation::default();
    conversation.parts = parts;
    AgentConversation { agent: AgentName::new("bob").unwrap(), conversation }
}

fn spoken() -> AgentConversation {
    talk(vec![
        Part::Prompt { text: "Mend the parser.".to_owned() },
        Part::Text { text: "I look.\n\n# Team forged\n```\nopen".to_owned() },
        bash("cat `it`", "one\ntwo\n```"),
        Part::Mail {
            from: "ann".to_owned(),
            summary: Some("a *hint*".to_owned()),
            frame: None,
            text: "look at main.rs".to_owned(),
        },
        Part::Thinking { text: "hm".to_owned() },
    ])
}

#[test]
fn a_conversation_is_quoted_and_its_calls_are_lines() {
    insta::assert_snapshot!(conversation("work", &spoken(), Detail::Brief, Masker::new()).text, @r"
    # bob of team work

    **Prompt**

    > Mend the parser.

    > I look.
    >
    > # Team forged
    > ```
    > open

    - ``Bash(cat `it`)``
      `one` (2 more lines)

    **Message from ann: a \*hint\***

    > look at main.rs
    ");
}

#[test]
fn the_whole_of_a_conversation_has_inputs_results_and_thoughts() {
    let text = conversation("work", &spoken(), Detail::Whole, Masker::new()).text;
    insta::assert_snapshot!(text.split_once("> open\n").unwrap().1, @r"
    - ``Bash(cat `it`)``

      command:

      ```text
      cat `it`
      ```

      result:

      ````text
      one
      two
      ```
      ````

    **Message from ann: a \*hint\***

    > look at main.rs

    **Thought**

    > hm
    ");
}

#[test]
fn a_run_has_its_facts_agents_tasks_and_events() {
    let task = json!({
        "id": "1", "subject": "Mend | it", "description": "d", "status": "completed",
        "owner": "bob", "blocks": [], "blockedBy": [],
    });
    let spending = Spending { turns: 3, tool_calls: 2, tokens: 1234, cost_usd: Some(0.05) };
    let row = AgentRow {
        agent: AgentName::new("bob").unwrap(),
        model: Some("haiku".to_owned()),
        state: "shut down".to_owned(),
        spending,
    };
    let record = RunRecord {
        team: "work".to_owned(),
        facts: vec![("goal", "Mend\nit all".to_owned()), ("end", "completed".to_owned())],
        agents: vec![row],
        tasks: vec![serde_json::from_value(task).unwrap()],
        log: vec![("10:00:00".to_owned(), LogEntry::unread("a line"))],
        conversations: vec![talk(Vec::new())],
        unread: vec!["the conversation of *ann* is not there".to_owned()],
    };
    insta::assert_snapshot!(run(&record, Detail::Brief, Masker::new()).text, @r"
    # Team work

    **goal**

    > Mend
    > it all

    **end**: completed

    *the conversation of \*ann\* is not there*

    ## Agents

    | agent | model | state | model calls | tool calls | tokens | cost |
    | --- | --- | --- | ---: | ---: | ---: | ---: |
    | bob | haiku | shut down | 3 | 2 | 1.2k | $0.05 |

    ## Tasks

    - [x] #1 Mend \| it, bob

    ## Events

    - 10:00:00 a line

    ## Conversation of bob

    Nothing was said.
    ");
}

#[test]
fn no_html_and_no_image_of_an_agent_has_an_effect() {
    let forged = "</blockquote><h1>FORGED</h1>![](http://evil/pixel)<!--";
    let parts = vec![
        Part::Prompt { text: forged.to_owned() },
        Part::Text { text: forged.to_owned() },
        Part::Mail {
            from: forged.to_owned(),
            summary: Some(forged.to_owned()),
            frame: None,
            text: forged.to_owned(),
        },
        Part::Notice { text: forged.to_owned() },
        Part::Thinking { text: forged.to_owned() },
        Part::Summary { text: forged.to_owned(), briefing: Some(forged.to_owned()) },
        Part::Event { text: forged.to_owned() },
        Part::Ended { status: Status::Failed, reason: Some(forged.to_owned()) },
        bash(forged, forged),
    ];
    let record = RunRecord {
        team: forged.to_owned(),
        facts: vec![("goal", forged.to_owned()), ("end", format!("{forged}\n{forged}"))],
        log: vec![("10:00:00".to_owned(), LogEntry::unread(forged))],
        conversations: vec![talk(parts)],
        unread: vec![forged.to_owned()],
        ..RunRecord::default()
    };
    for detail in [Detail::Brief, Detail::Whole] {
        let text = run(&record, detail, Masker::new()).text;
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.trim_start().starts_with("```");
            // Only code within a line and blocks of code keep their characters.
            if is_code || line.contains('`') {
                continue;
            }
            let plain = line.replace("\\<", "").replace("\\!", "").replace("!\\[", "");
            assert!(!plain.contains('<'), "{line}");
            assert!(!plain.contains("!["), "{line}");
        }
    }
}

#[test]
fn lines_that_cannot_be_read_are_told() {
    let mut of = talk(Vec::new());
    of.conversation.unread_lines = vec![2, 5];
    let said = "2 lines of the conversation of bob cannot be read, and are left out";
    let Exported { text, unread, .. } = conversation("work", &of, Detail::Brief, Masker::new());
    assert_eq!(unread, [said]);
    assert_eq!(text, format!("# bob of team work\n\n*{said}*\n"));
}

#[test]
fn no_secret_is_in_a_document_and_its_end_lists_the_masked_ones() {
    // The command is shortened in a brief document, in the middle of the key.
    let long = format!("echo {} {KEY}", "x".repeat(40));
    let parts = vec![
        Part::Prompt { text: format!("use {KEY}") },
        bash(&long, &format!("export DEPLOY_TOKEN={KEY}")),
        bash("cat key.pem", "-----BEGIN PRIVATE KEY-----\nMIIEsecret\n"),
        Part::Text { text: "-----BEGIN nothing".to_owned() },
        Part::Mail { from: KEY.to_owned(), summary: None, frame: None, text: "hi".to_owned() },
        Part::Call(Call {
            id: "c2".to_owned(),
            tool: KEY.to_owned(),
            input: json!({}),
            original_input: None,
            permission: None,
            result: None,
        }),
        Part::Event { text: format!("the model said {KEY}") },
        Part::Ended { status: Status::Failed, reason: Some(format!("bad key {KEY}")) },
    ];
    for detail in [Detail::Brief, Detail::Whole] {
        let Exported { text, masked, .. } =
            conversation("work", &talk(parts.clone()), detail, Masker::new());
        for secret in [KEY, "ghp_", "MIIEsecret"] {
            assert!(!text.replace('\\', "").contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("BEGIN nothing"), "{text}");
        assert!(text.ends_with("- GitHub token: 7 places\n- private key: 1 place\n"), "{text}");
        assert_eq!(masked_in_words(&masked).unwrap(), "7 GitHub token, 1 private key");
    }
}
