//! Tests of conversations that nearly fill the context window of their model. Each test is a list
//! of events and of expected effects.

use pitcrew_model::{Block, Response, StopReason, Usage};
use pitcrew_protocol::MessageId;
use serde_json::{Value, json};

use super::tests::{Play, allowed, done, idle_teammate, mail, says};
use super::*;
use crate::transcript::Step;

/// A number of tokens above 850, the limit for a compaction in these tests.
const FULL: u64 = 900;

fn answer(tokens: u64, blocks: Vec<Block>) -> Event {
    let response = Response {
        id: "msg".to_owned(),
        model: "scripted".to_owned(),
        blocks,
        stop: StopReason::EndTurn,
        usage: Usage { input_tokens: tokens - 10, output_tokens: 10, ..Usage::default() },
    };
    Event::ModelFinished { response, cost_usd: None }
}

fn call(tokens: u64, id: &str, tool: &str) -> Event {
    answer(tokens, vec![Block::text("z".repeat(400)), Block::tool_use(id, tool, json!({}))])
}

fn summary(text: Option<&str>) -> Event {
    let usage = Usage { input_tokens: 800, ..Usage::default() };
    Event::Summarised(Summary {
        briefing: "who I am".to_owned(),
        text: text.map(str::to_owned),
        usage,
        cost_usd: Some(0.5),
    })
}

fn too_long() -> Event {
    Event::ModelFailed { reason: "too long".to_owned(), failure: ModelFailure::TooLong }
}

/// Returns a teammate whose tool call has a result and whose conversation is full. The inbox is
/// being read before the next model call.
fn full_teammate() -> Play {
    let mut play = Play::teammate();
    play.then(call(FULL, "a", "Bash"), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"]);
    play
}

fn texts(play: &Play) -> Vec<String> {
    let blocks = play.agent.conversation().messages().iter().flat_map(|message| &message.blocks);
    blocks.filter_map(|block| block.as_text().map(str::to_owned)).collect()
}

#[test]
fn a_full_conversation_is_compacted_before_the_model_is_called_and_mail_comes_behind_the_summary() {
    let mut play = full_teammate();
    play.then(mail(&[("m1", "hello")]), &["compact"])
        .then(Event::MailWaiting, &["take mail"])
        .then(mail(&[("m1", "hello"), ("m2", "again")]), &[])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        )
        .then(
            mail(&[("m1", "hello"), ("m2", "again")]),
            &["write mail", "acknowledge m1 m2", "call model"],
        );
    let texts = texts(&play);
    assert_eq!(texts[..2], ["who I am", "what was"]);
    assert!(texts[2].contains("hello") && texts[2].contains("again"), "{texts:?}");
    assert_eq!(texts.len(), 3);
}

#[test]
fn a_crash_in_a_compaction_makes_it_again_and_one_after_it_does_not() {
    let mut play = full_teammate();
    play.then(mail(&[("m1", "hello")]), &["compact"]);
    let mut again = play.crashed();
    again
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", "hello")]), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        );
    let mut after = again.crashed();
    after
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", "hello")]), &["write mail", "acknowledge m1", "call model"]);
    let mut delivered = after.crashed();
    delivered
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", "hello")]), &["acknowledge m1", "call model"]);
    assert_eq!(delivered.agent.conversation(), after.agent.conversation());
}

#[test]
fn an_idle_teammate_with_a_full_conversation_compacts_when_it_is_woken() {
    let mut play = Play::teammate();
    play.then(answer(FULL, vec![Block::text("z".repeat(400))]), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"]);
    let result = "z".repeat(400);
    play.then(
        Event::HookAnswered { keep_going: None },
        &[&format!("send idle available: {result}"), "write rested", "announce idle"],
    )
    .then(mail(&[("m1", "hello")]), &["announce running", "compact"])
    .then(summary(Some("what was")), &["write compacted", "report 900 -> 35 tokens", "take mail"])
    .then(mail(&[("m1", "hello")]), &["write mail", "acknowledge m1", "call model"]);
}

#[test]
fn calls_are_made_and_answered_before_a_full_conversation_is_compacted() {
    let mut play = Play::teammate();
    let blocks =
        vec![Block::tool_use("a", "Bash", json!({})), Block::tool_use("b", "Bash", json!({}))];
    play.then(answer(FULL, blocks), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[("m1", "hello")]), &["write mail", "acknowledge m1", "judge b in default"])
        .then(allowed("b"), &["write began", "run b {}"])
        .then(done("b"), &["write result", "report b done", "take mail"])
        .then(mail(&[]), &["compact"]);
}

#[test]
fn mail_that_the_model_has_not_answered_stays_whole_beside_the_summary() {
    let mut play = idle_teammate();
    play.then(
        mail(&[("m1", "a question")]),
        &["announce running", "write mail", "acknowledge m1", "call model"],
    )
    .then(call(100, "a", "Bash"), &["write assistant", "take mail"])
    .then(mail(&[]), &["judge a in default"])
    .then(allowed("a"), &["write began", "run a {}"])
    .then(done("a"), &["write result", "report a done", "take mail"])
    .then(mail(&[("m2", "another question")]), &["write mail", "acknowledge m2", "call model"])
    .then(too_long(), &["compact"])
    .then(summary(Some("what was")), &["write compacted", "report 119 -> 18 tokens", "take mail"])
    .then(mail(&[]), &["call model"]);
    let texts = texts(&play);
    assert_eq!(texts.len(), 3);
    assert!(texts[2].contains("another question"), "{texts:?}");
    assert!(play.agent.conversation().holds(&MessageId("m1".to_owned())));
}

#[test]
fn a_conversation_that_is_too_long_is_cut_and_then_compacted_and_then_its_agent_fails() {
    let mut play = Play::teammate();
    play.then(call(100, "a", "Read"), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["run a {}"]);
    let ending = Ending {
        text: "x".repeat(1000),
        data: Value::Null,
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    play.then(
        Event::ToolFinished { call: "a".to_owned(), ending },
        &["write result", "report a done", "take mail"],
    )
    .then(mail(&[]), &["call model"])
    .then(too_long(), &["compact 1234 characters"])
    .then(summary(Some("what was")), &["write compacted", "report 350 -> 3 tokens", "take mail"])
    .then(mail(&[]), &["call model"])
    .then(
        too_long(),
        &[
            "send idle too long: nothing",
            "write ended",
            "announce failed",
            "end failed (too long): nothing",
        ],
    );
}

#[test]
fn a_summary_that_is_no_help_for_a_conversation_that_is_too_long_ends_its_agent() {
    let mut play = Play::teammate();
    play.then(answer(100, vec![Block::text("so")]), &["write assistant", "take mail"])
        .then(mail(&[("m1", "go on")]), &["write mail", "acknowledge m1", "call model"])
        .then(too_long(), &["compact"])
        .then(
            summary(Some(&"y".repeat(5_000))),
            &[
                "write not_compacted",
                "report 115 -> 115 tokens",
                "send idle too long: so",
                "write ended",
                "announce failed",
                "end failed (too long): so",
            ],
        );
}

#[test]
fn a_summary_without_a_word_is_asked_for_again_and_is_paid_for() {
    let mut play = full_teammate();
    play.then(mail(&[]), &["compact"])
        .then(summary(None), &["write not_compacted", "compact"])
        .then(summary(None), &["write not_compacted", "compact"]);
    let effects = play.agent.handle(summary(Some("what was")));
    let report = effects.into_iter().find_map(|effect| match effect {
        Effect::ReportCompaction(report) => Some(report),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!((report.usage.input_tokens, report.cost_usd), (2_400, Some(1.5)));
    assert_eq!((report.tokens_before, report.tokens_after), (901, 34));
    assert_eq!(texts(&play)[..2], ["who I am", "what was"]);
}

#[test]
fn a_summary_that_is_no_help_is_not_asked_for_again_before_much_was_added() {
    let mut play = full_teammate();
    play.then(mail(&[]), &["compact"])
        .then(summary(None), &["write not_compacted", "compact"])
        .then(summary(None), &["write not_compacted", "compact"])
        .then(summary(None), &["write not_compacted", "report 901 -> 901 tokens", "take mail"])
        .then(mail(&[]), &["call model"]);
    let mut play = play.crashed();
    play.then(Event::Resumed, &["announce running", "take mail"]).then(mail(&[]), &["call model"]);
    for (tokens, next) in [(890, "call model"), (910, "call model"), (960, "compact")] {
        play.then(
            answer(tokens, vec![Block::tool_use("b", "Bash", json!("no object"))]),
            &["write assistant", "take mail"],
        )
        .then(mail(&[]), &["write result", "report b failed", "take mail"])
        .then(mail(&[]), &[next]);
    }
}

/// Returns an event with several messages. The text of each message has `chars` characters, to
/// which the tags around the text are added.
fn letters(ids: std::ops::Range<usize>, chars: usize) -> Event {
    let text = "x".repeat(chars);
    let letters: Vec<(String, &str)> = ids.map(|at| (format!("m{at}"), text.as_str())).collect();
    mail(&letters.iter().map(|(id, text)| (id.as_str(), *text)).collect::<Vec<_>>())
}

#[test]
fn of_a_backlog_that_is_larger_than_the_window_as_much_is_delivered_at_once_as_fits() {
    // Messages that are delivered at once may take a quarter of the context window, which is 250
    // tokens. With two characters per token, this is 500 characters: room for two messages, but not
    // for three.
    let mut play = idle_teammate();
    play.then(
        letters(0..5, 180),
        &["announce running", "write mail", "acknowledge m0 m1", "call model"],
    )
    .then(says("so"), &["write assistant", "take mail"])
    .then(letters(2..6, 180), &["write mail", "acknowledge m2 m3", "call model"])
    .then(answer(FULL, vec![Block::text("z".repeat(400))]), &["write assistant", "take mail"])
    .then(letters(4..6, 180), &["compact"])
    .then(summary(Some("what was")), &["write compacted", "report 900 -> 10 tokens", "take mail"])
    .then(letters(4..6, 180), &["write mail", "acknowledge m4 m5", "call model"])
    .then(says("so"), &["write assistant", "take mail"])
    .then(mail(&[]), &["end turn"]);
    for at in 0..6 {
        assert!(play.agent.conversation().holds(&MessageId(format!("m{at}"))), "m{at}");
    }
}

#[test]
fn a_message_that_does_not_fit_any_more_waits_for_a_summary() {
    let mut play = full_teammate();
    play.then(mail(&[]), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        )
        .then(mail(&[]), &["call model"])
        .then(answer(700, vec![Block::text("z".repeat(400))]), &["write assistant", "take mail"])
        .then(letters(0..1, 900), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 700 -> 26 tokens", "take mail"],
        )
        .then(letters(0..1, 900), &["write mail", "acknowledge m0", "call model"]);
}

#[test]
fn a_single_text_that_is_larger_than_the_window_is_shortened_until_it_fits() {
    let mut play = Play::of(Role::Teammate);
    let prompt = "p".repeat(20_000);
    play.then(Event::Started { prompt }, &["announce running", "write told", "take mail"])
        .then(mail(&[]), &["write shortened", "write shortened", "write shortened", "call model"])
        .then(too_long(), &["write shortened", "call model"])
        .then(too_long(), &["write shortened", "call model"])
        .then(
            too_long(),
            &[
                "send idle too long: nothing",
                "write ended",
                "announce failed",
                "end failed (too long): nothing",
            ],
        );
    let mut play = idle_teammate();
    play.then(
        letters(0..1, 4_500),
        &["announce running", "write mail", "acknowledge m0", "write shortened", "call model"],
    );
    assert!(texts(&play).last().unwrap().ends_with("longer than you can read.]"));
    let again = play.crashed();
    assert_eq!(texts(&again), texts(&play));
}

#[test]
fn a_conversation_beyond_the_window_of_a_new_model_is_summed_up_in_what_the_model_can_read() {
    let mut play = Play::teammate();
    play.then(
        answer(100_000, vec![Block::text("z".repeat(40_000))]),
        &["write assistant", "take mail"],
    )
    .then(mail(&[]), &["end turn"]);
    let mut play = play.crashed();
    play.then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[("m1", "go on")]), &["compact 340 characters"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 100000 -> 39 tokens", "take mail"],
        )
        .then(mail(&[("m1", "go on")]), &["write mail", "acknowledge m1", "call model"]);
}

#[test]
fn a_window_that_the_instructions_fill_alone_is_left_to_the_model() {
    let mut play = full_teammate();
    play.then(mail(&[]), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        )
        .then(mail(&[]), &["call model"]);
    for tokens in [950, 990, 2_000] {
        play.then(
            answer(tokens, vec![Block::tool_use("b", "Bash", json!("no object"))]),
            &["write assistant", "take mail"],
        )
        .then(mail(&[]), &["write result", "report b failed", "take mail"])
        .then(mail(&[]), &["call model"]);
    }
}

#[test]
fn a_conversation_that_is_too_long_even_for_its_summary_is_summed_up_in_part() {
    let mut play = Play::teammate();
    for at in 0..4 {
        play.then(
            answer(100, vec![Block::text("z".repeat(2_000))]),
            &["write assistant", "take mail"],
        )
        .then(
            mail(&[(&format!("m{at}"), "more")]),
            &["write mail", &format!("acknowledge m{at}"), "call model"],
        );
    }
    play.then(too_long(), &["compact 7217 characters"])
        .then(too_long(), &["compact 3608 characters"])
        .then(too_long(), &["compact 1804 characters"]);
    play.crashed()
        .then(Event::Resumed, &["announce running", "take mail"])
        .then(mail(&[]), &["call model"]);
    let last = "z".repeat(2_000);
    play.then(
        too_long(),
        &[
            &format!("send idle too long: {last}"),
            "write ended",
            "announce failed",
            &format!("end failed (too long): {last}"),
        ],
    );
}

#[test]
fn a_compaction_can_be_interrupted_stopped_and_killed_and_can_fail() {
    let compacting = || {
        let mut play = full_teammate();
        play.then(mail(&[("m1", "hello")]), &["compact"]);
        play
    };
    let last = "z".repeat(400);
    compacting()
        .then(
            Event::Interrupted,
            &[
                "cut off",
                "write told",
                &format!("send idle interrupted: {last}"),
                "write rested",
                "compact",
            ],
        )
        .then(
            summary(Some("what was")),
            &["write compacted", "report 908 -> 91 tokens", "take mail"],
        );
    compacting()
        .then(Event::StopAsked { reason: "the run is over".to_owned() }, &[])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        )
        .then(
            // The stopped agent does not call its model again. The message therefore stays unread.
            mail(&[("m1", "hello")]),
            &["write ended", "announce completed", "end completed (the run is over): nothing"],
        );
    compacting().then(
        Event::Killed { reason: "enough".to_owned() },
        &["write ended", "announce killed", &format!("end killed (enough): {last}")],
    );
    compacting().then(
        Event::ModelFailed { reason: "no key".to_owned(), failure: ModelFailure::Other },
        &[
            &format!("send idle no key: {last}"),
            "write ended",
            "announce failed",
            &format!("end failed (no key): {last}"),
        ],
    );
}

#[test]
fn the_last_call_that_an_agent_has_is_no_summary() {
    let mut play = full_teammate();
    play.agent.profile.max_turns = Some(2);
    play.then(mail(&[]), &["call model"]);
    let mut play = full_teammate();
    play.agent.profile.max_turns = Some(3);
    play.then(mail(&[]), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 901 -> 34 tokens", "take mail"],
        )
        .then(mail(&[]), &["call model"]);
    assert_eq!(play.agent.conversation().turns(), 2);
}

#[test]
fn a_subagent_compacts_too() {
    let mut play = Play::of(Role::Subagent);
    play.then(
        Event::Started { prompt: "look".to_owned() },
        &["announce running", "write told", "call model"],
    )
    .then(call(FULL, "a", "Read"), &["write assistant", "judge a in default"])
    .then(allowed("a"), &["run a {}"])
    .then(done("a"), &["write result", "report a done", "compact"])
    .then(summary(Some("what was")), &["write compacted", "report 901 -> 34 tokens", "call model"]);
}

#[test]
fn what_an_agent_is_given_to_do_later_is_kept_with_its_prompt() {
    let mut play = idle_teammate();
    play.then(
        Event::Instructed { text: "and this".to_owned() },
        &["announce running", "write instructed", "call model"],
    );
    let conversation = play.crashed().agent.conversation().clone();
    assert_eq!(conversation.prompts(), ["work", "and this"]);
    assert!(
        matches!(play.agent.conversation().messages().last(), Some(last) if last.blocks.len() == 1)
    );
    assert!(Step::Instructed { text: String::new() } != Step::Told { text: String::new() });
}

/// Returns an idle teammate whose conversation is long but not full.
fn long_and_idle() -> Play {
    let mut play = Play::teammate();
    let result = "z".repeat(400);
    play.then(answer(100, vec![Block::text(result.clone())]), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &[&format!("send idle available: {result}"), "write rested", "announce idle"],
        );
    play
}

#[test]
fn an_idle_agent_compacts_when_a_person_asks_and_is_idle_again() {
    let mut play = long_and_idle();
    play.then(Event::CompactionAsked, &["announce running", "compact"])
        .then(Event::CompactionAsked, &[])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 100 -> 3 tokens", "take mail", "announce idle"],
        )
        .then(mail(&[]), &[])
        .then(
            mail(&[("m1", "hello")]),
            &["announce running", "write mail", "acknowledge m1", "call model"],
        );
    assert_eq!(texts(&play)[..2], ["who I am", "what was"]);
}

#[test]
fn a_working_agent_compacts_before_its_next_call_when_a_person_asks() {
    let mut play = Play::teammate();
    play.then(Event::CompactionAsked, &[])
        .then(call(100, "a", "Bash"), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[]), &["compact"])
        .then(
            summary(Some("what was")),
            &["write compacted", "report 101 -> 3 tokens", "take mail"],
        )
        .then(mail(&[]), &["call model"]);
}

#[test]
fn an_agent_whose_turn_ends_before_its_next_call_compacts_then() {
    let (mut play, result) = (Play::teammate(), "z".repeat(400));
    play.then(Event::CompactionAsked, &[])
        .then(answer(100, vec![Block::text(result.clone())]), &["write assistant", "take mail"])
        .then(mail(&[]), &["end turn"])
        .then(
            Event::HookAnswered { keep_going: None },
            &[&format!("send idle available: {result}"), "write rested", "compact"],
        )
        .then(
            summary(Some("what was")),
            &["write compacted", "report 100 -> 3 tokens", "take mail", "announce idle"],
        );
}

#[test]
fn a_compaction_of_an_idle_agent_is_interrupted_without_a_trace() {
    let mut play = long_and_idle();
    let before = play.agent.conversation().clone();
    play.then(Event::CompactionAsked, &["announce running", "compact"])
        .then(Event::Interrupted, &["cut off", "take mail", "announce idle"])
        .then(summary(Some("what was")), &[]);
    assert_eq!(*play.agent.conversation(), before);
}

#[test]
fn a_conversation_without_an_answer_is_reported_as_it_is() {
    let mut play = Play::of(Role::Teammate);
    play.then(Event::Resumed, &["take mail"])
        .then(mail(&[]), &["announce idle"])
        .then(Event::CompactionAsked, &["report 0 -> 0 tokens"]);
}

#[test]
fn a_model_with_a_smaller_window_makes_the_next_call_a_summary() {
    let mut play = Play::teammate();
    play.then(call(500, "a", "Bash"), &["write assistant", "take mail"])
        .then(mail(&[]), &["judge a in default"])
        .then(Event::ModelChanged(ContextBound::of(550, ContextBound::SHARE_PERCENT)), &[])
        .then(allowed("a"), &["write began", "run a {}"])
        .then(done("a"), &["write result", "report a done", "take mail"])
        .then(mail(&[]), &["compact"]);
}
