//! Permission requests on the screen, and the answers to them.

use std::time::Duration;

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use pitcrew_runtime::question::Choice;
use pitcrew_view::host::{Closed, What};

use super::{Action, Done, Input, Person, SMALL, question};

#[test]
fn a_question_is_answered_by_a_key_only_while_nothing_is_typed() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew work  1 working  1 waiting for you













    No conversation is recorded yet.
    bob asks permission for Bash
      in /work
    │ cargo test
    [y] yes, once   [n] no (a reason can follow)
    [a] always exactly this call, in this run   [A] and save it in your settings
    [p] always Bash(cargo test:*), in this run   [P] and save it in your settings
    ────────────────────────────────────────────────────────────────────────────────
    >  keys answer the request first; a blank begins a message to team-lead
     team-lead  opus  default                                      /help  Tab: team
    ");
    person.types("hey");
    assert!(person.sees(SMALL).contains("> hey"), "the y belongs to the text");
    person.presses_ctrl('u');
    person.sees(SMALL);
    person.presses(KeyCode::Char('y'));
    let took = person.took();
    let answers: Vec<_> = took
        .iter()
        .filter_map(|action| match action {
            Action::Answer(chosen) => Some((chosen.question.id.as_str(), &chosen.choice)),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [("q1", &Choice::Once)]);
    assert!(!person.sees(SMALL).contains("cargo test"));
}

#[test]
fn a_blank_begins_a_message_and_its_letters_answer_nothing() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.sees(SMALL);
    person.types(" ");
    assert!(person.sees(SMALL).contains(">  a message to team-lead"));
    person.types("you there?");
    assert!(person.sees(SMALL).contains("> you there?"));
    person.presses(KeyCode::Enter);
    let took = person.took();
    let is_sent = |it: &Action| matches!(it, Action::Send { text, .. } if text == "you there?");
    assert!(took.iter().any(is_sent), "{took:?}");
    assert!(!took.iter().any(|it| matches!(it, Action::Answer(_))), "{took:?}");
    // The letters of a word are no rule, also without a blank.
    person.types("please");
    assert!(!person.took().iter().any(|it| matches!(it, Action::Answer(_))));
    assert!(person.sees(SMALL).contains("> lease"));
    assert!(person.sees(SMALL).contains("nothing is allowed yet; p again: always Bash("));
    // A begun message without a text is given up by Esc, Ctrl-U or Backspace.
    person.presses_ctrl('u');
    for code in [KeyCode::Esc, KeyCode::Backspace] {
        person.types(" ");
        assert!(person.sees(SMALL).contains(">  a message to team-lead"));
        person.presses(code);
        assert!(person.sees(SMALL).contains("keys answer the request first"), "{code}");
    }
}

#[test]
fn rows_that_a_list_of_completions_covers_do_not_count_as_seen() {
    let mut person = Person::with_team();
    person.types("/");
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    let covered = person.sees(SMALL);
    assert!(covered.contains("/timeline") && !covered.contains("│ cargo test"), "{covered}");
    person.presses(KeyCode::Backspace);
    let is_answer = |it: &Action| matches!(it, Action::Answer(_));
    person.presses(KeyCode::Char('y'));
    assert!(!person.took().iter().any(is_answer), "the call was not on the screen yet");
    assert!(person.sees(SMALL).contains("│ cargo test"));
    person.presses(KeyCode::Char('y'));
    assert!(person.took().iter().any(is_answer));
}

#[test]
fn a_list_says_why_a_key_for_an_answer_does_nothing() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.sees(SMALL);
    person.presses_ctrl('t');
    let screen = person.sees(SMALL);
    let hint = "Esc goes back to the conversation, where keys answer the request";
    assert!(screen.contains(hint), "{screen}");
    person.types("y");
    let screen = person.sees(SMALL);
    assert!(screen.contains("nothing was answered: Esc goes back to"), "{screen}");
    assert!(!person.took().iter().any(|it| matches!(it, Action::Answer(_))));
}

#[test]
fn the_notice_about_unread_rows_goes_away_when_all_rows_were_shown() {
    let mut person = Person::with_team();
    let long = (0..60).map(|number| format!("echo {number}\n")).collect::<String>();
    person.happens(What::QuestionOpened(Box::new(question("q1", &long))));
    person.sees(SMALL);
    person.types("y");
    assert!(person.sees(SMALL).contains("of this call were not on the screen yet"));
    for _ in 0..20 {
        person.presses(KeyCode::PageDown);
        person.sees(SMALL);
    }
    let screen = person.sees(SMALL);
    assert!(!screen.contains("not on the screen yet"), "{screen}");
    person.types("y");
    assert!(person.took().iter().any(|it| matches!(it, Action::Answer(_))));
}

#[test]
fn two_quick_keys_answer_one_request_although_the_next_one_is_on_the_screen() {
    let mut person = Person::with_team();
    for (id, command) in [("q1", "cargo test"), ("q2", "rm -rf target")] {
        person.happens(What::QuestionOpened(Box::new(question(id, command))));
    }
    person.sees(SMALL);
    let answered = |person: &mut Person| {
        let of = |action: Action| match action {
            Action::Answer(chosen) => Some(chosen.question.id),
            _ => None,
        };
        person.took().into_iter().filter_map(of).collect::<Vec<_>>()
    };
    person.presses(KeyCode::Char('y'));
    assert_eq!(answered(&mut person), ["q1"]);
    // A key that is held down comes again and again, for as long as it likes.
    for _ in 0..40 {
        assert!(person.sees(SMALL).contains("rm -rf target"));
        person.now += Duration::from_millis(30);
        person.presses_at_once(KeyCode::Char('y'));
    }
    assert_eq!(answered(&mut person), [""; 0]);
    assert!(person.sees(SMALL).contains("this permission request is new"));
    person.presses(KeyCode::Char('y'));
    assert_eq!(answered(&mut person), ["q2"]);
}

#[test]
fn a_refusal_can_have_a_reason() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.sees(SMALL);
    person.presses(KeyCode::Char('n'));
    assert!(person.sees(SMALL).contains("why not? bob gets the reason"));
    person.types("use nextest");
    person.presses(KeyCode::Enter);
    let took = person.took();
    let reason = Some("use nextest".to_owned());
    let is_it = |action: &Action| matches!(action, Action::Answer(chosen) if chosen.choice == Choice::No { reason: reason.clone() });
    assert!(took.iter().any(is_it), "{took:?}");
}

#[test]
fn a_question_that_was_answered_elsewhere_disappears() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    assert!(person.sees(SMALL).contains("1 waiting for you"));
    let closed = Closed::Answered(Choice::Once);
    person.happens(What::QuestionClosed { id: "q1".to_owned(), closed });
    let screen = person.sees(SMALL);
    assert!(!screen.contains("waiting for you") && !screen.contains("cargo test"), "{screen}");
}

#[test]
fn an_answer_that_the_host_did_not_take_brings_the_question_back() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.sees(SMALL);
    person.presses(KeyCode::Char('y'));
    let Some(Action::Answer(chosen)) = person.took().pop() else { panic!("an answer") };
    let result = Err("the host is busy".to_owned());
    person.gives(Input::Done(Done::Answered { chosen, result }));
    let screen = person.sees(SMALL);
    assert!(screen.contains("not answered: the host is busy"), "{screen}");
    assert!(screen.contains("cargo test"), "{screen}");
}

#[test]
fn an_answer_that_waits_for_a_stopped_host_is_visible() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "cargo test"))));
    person.sees(SMALL);
    person.presses(KeyCode::Char('y'));
    let Some(Action::Answer(chosen)) = person.took().pop() else { panic!("an answer") };
    person.gives(Input::Done(Done::Slow));
    let waits = "sent; the process of team work does not answer yet";
    assert!(person.sees(SMALL).contains(waits), "{}", person.sees(SMALL));
    person.gives(Input::Done(Done::Answered { chosen, result: Ok(()) }));
    assert!(!person.sees(SMALL).contains(waits), "{}", person.sees(SMALL));
}
