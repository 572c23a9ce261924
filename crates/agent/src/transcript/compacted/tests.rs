use std::path::PathBuf;

use pitcrew_protocol::MessageId;
use serde_json::json;

use super::*;
use crate::FileSeen;
use crate::transcript::{Grant, Step};

fn id(text: &str) -> MessageId {
    MessageId(text.to_owned())
}

fn says(tokens: u64, blocks: Vec<Block>) -> Step {
    Step::Assistant {
        blocks,
        usage: Usage { input_tokens: tokens, ..Usage::default() },
        cost_usd: None,
        fault: None,
    }
}

fn compacted() -> Step {
    let (briefing, summary) = ("who you are".to_owned(), "what was".to_owned());
    Step::Compacted { briefing, summary, kept_chars: None, usage: Usage::default(), cost_usd: None }
}

fn folded(steps: &[Step]) -> Conversation {
    let mut conversation = Conversation::default();
    steps.iter().for_each(|step| conversation.apply(step));
    conversation
}

fn texts(conversation: &Conversation) -> Vec<&str> {
    let blocks = conversation.messages().iter().flat_map(|message| &message.blocks);
    blocks.filter_map(Block::as_text).collect()
}

/// Returns the steps of a conversation that has everything that a compaction must preserve.
fn eventful() -> Vec<Step> {
    let grant = Grant::Allowed {
        input: None,
        updates: vec![json!({"type": "setMode", "mode": "acceptEdits"})],
    };
    vec![
        Step::Told { text: "the prompt".to_owned() },
        Step::Instructed { text: "and this".to_owned() },
        says(50, vec![Block::thinking("hm", "signed"), Block::tool_use("a", "Read", json!({}))]),
        Step::Granted { ids: vec![id("g")], call: "a".to_owned(), grant },
        Step::Result {
            call: "a".to_owned(),
            text: "x".repeat(500),
            is_error: false,
            context: Vec::new(),
            seen: vec![FileSeen { path: "/f".into(), sha256: "00".to_owned() }],
        },
        Step::PlanSent { request: "plan-1".to_owned() },
        Step::ShutdownAsked { request: "s-1".to_owned() },
        Step::Mail { ids: vec![id("m")], text: "a question".to_owned() },
    ]
}

#[test]
fn after_a_compaction_come_the_briefing_the_summary_and_what_is_not_answered_yet() {
    let mut conversation = folded(&eventful());
    conversation.apply(&compacted());
    assert_eq!(texts(&conversation), ["who you are", "what was", "a question"]);
    assert!(conversation.wants_answer());
    conversation.apply(&Step::Told { text: "go on".to_owned() });
    assert_eq!(texts(&conversation), ["who you are", "what was", "a question", "go on"]);
}

#[test]
fn what_the_team_relies_on_outlives_a_compaction() {
    let before = folded(&eventful());
    let mut after = before.clone();
    after.apply(&compacted());
    for id in [id("g"), id("m")] {
        assert!(after.holds(&id), "{id}");
    }
    assert_eq!(after.prompts(), ["the prompt", "and this"]);
    assert_eq!((after.plan(), after.shutdown()), (Some("plan-1"), Some("s-1")));
    assert_eq!(after.updates(), before.updates());
    assert_eq!(
        after.seen().map(|seen| seen.path.clone()).collect::<Vec<_>>(),
        [PathBuf::from("/f")]
    );
    assert_eq!(after.turns(), before.turns() + 1, "the summary was a call of the model");
    after.apply(&Step::Mail { ids: vec![id("m")], text: "a question".to_owned() });
    assert_eq!(texts(&after).iter().filter(|text| **text == "a question").count(), 1);
}

#[test]
fn a_call_id_from_before_a_compaction_is_told_apart_from_the_same_one_after_it() {
    let mut conversation = folded(&eventful());
    conversation.apply(&compacted());
    conversation.apply(&says(10, vec![Block::tool_use("a", "Read", json!({}))]));
    let call = &conversation.open_calls()[0].call;
    assert_ne!(call.key, call.id);
}

#[test]
fn a_compaction_is_of_no_use_before_the_model_has_answered_again() {
    let mut conversation = folded(&[Step::Told { text: "go".to_owned() }]);
    assert!(!conversation.can_be_compacted());
    conversation.apply(&says(90, vec![Block::text("so")]));
    assert!(conversation.can_be_compacted());
    assert_eq!((conversation.filled(), conversation.floor()), (90, 0));
    conversation.apply(&compacted());
    assert!(!conversation.can_be_compacted());
    conversation.apply(&says(40, vec![Block::text("so")]));
    conversation.apply(&says(60, vec![Block::tool_use("b", "Read", json!({}))]));
    assert_eq!((conversation.filled(), conversation.floor()), (60, 40));
    assert!(!conversation.can_be_compacted(), "a call waits for its result");
    conversation.apply(&Step::Result {
        call: "b".to_owned(),
        text: "x".repeat(400),
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    });
    assert_eq!(conversation.filled(), 160);
}

#[test]
fn a_long_text_that_is_not_answered_is_cut_and_says_so() {
    let mut conversation = folded(&eventful());
    conversation.apply(&Step::Told { text: "y".repeat(UNANSWERED_CHARS + 7) });
    conversation.apply(&compacted());
    let last = texts(&conversation).pop().unwrap().to_owned();
    assert!(last.ends_with("y\n[7 more characters are left out here.]"), "{}", last.len());
}

#[test]
fn unanswered_mail_outlives_a_compaction_whole_as_long_as_it_fits() {
    let mut conversation = folded(&eventful());
    conversation.apply(&Step::Mail { ids: vec![id("m2")], text: "y".repeat(2 * UNANSWERED_CHARS) });
    let compacted = |kept| Step::Compacted {
        briefing: "who you are".to_owned(),
        summary: "what was".to_owned(),
        kept_chars: Some(kept),
        usage: Usage::default(),
        cost_usd: None,
    };
    let mut cut = conversation.clone();
    conversation.apply(&compacted(3 * UNANSWERED_CHARS));
    assert_eq!(texts(&conversation)[2..], ["a question", &"y".repeat(2 * UNANSWERED_CHARS)]);
    cut.apply(&compacted(1_000));
    assert!(texts(&cut)[3].ends_with("more characters are left out here.]"));
    assert!(cut.size() < 2_000, "{}", cut.size());
}

#[test]
fn what_is_not_answered_is_shortened_by_halves_until_little_is_left() {
    let mut conversation = folded(&eventful());
    conversation.apply(&Step::Told { text: "y".repeat(10_000) });
    let mut sizes = Vec::new();
    while let Some(most) = conversation.next_shortened() {
        conversation.apply(&Step::Shortened { most });
        sizes.push(most);
        assert!(sizes.len() < 20, "{sizes:?}");
    }
    assert_eq!((sizes[0], sizes.last()), (5_000, Some(&LEAST_CHARS)));
    assert!(conversation.size() < 3_000, "{}", conversation.size());
    assert!(texts(&conversation).contains(&"a question"));
}

#[test]
fn what_is_left_out_of_a_summary_leaves_calls_with_their_results() {
    let mut steps = vec![Step::Told { text: "go".to_owned() }];
    for call in ["a", "b", "c", "d"] {
        steps.push(says(1, vec![Block::tool_use(call, "Read", json!({}))]));
        steps.push(Step::Result {
            call: call.to_owned(),
            text: "x".repeat(2_000),
            is_error: false,
            context: Vec::new(),
            seen: Vec::new(),
        });
    }
    let conversation = folded(&steps);
    let mut most = None;
    let mut shown = vec![conversation.to_summarise(most).len()];
    while let Some(next) = conversation.next_shown(most) {
        most = Some(next);
        let messages = conversation.to_summarise(most);
        for pair in messages.windows(2) {
            assert_ne!(pair[0].role, pair[1].role);
        }
        let fits = size_of(&messages) <= next + LEFT_OUT.len() + 8 * SHORTENED.len();
        assert!(fits, "{} of {next}", size_of(&messages));
        assert_eq!(messages[0].blocks.len(), 2, "it says that something is missing");
        shown.push(messages.len());
    }
    assert_eq!(shown, [9, 7, 7, 7]);
}
