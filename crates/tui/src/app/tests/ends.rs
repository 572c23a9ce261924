//! The end of a run, texts that were begun before, and screens of any size.

use crossterm::event::KeyCode;
use pitcrew_runtime::run::{RunEnd, RunOutcome};
use pitcrew_view::client::{News, TeamEnding};
use pitcrew_view::host::{HostState, What};
use serde_json::json;

use super::{
    Action, App, Begin, CanStart, CompletedTeam, Done, Input, LARGE, Left, Onward, Person, SMALL,
    ThemeKind, changed, question, team,
};

#[test]
fn a_team_that_could_not_be_ended_goes_on() {
    let mut person = Person::with_team();
    person.types("/stop");
    person.presses(KeyCode::Enter);
    assert!(person.took().iter().any(|action| matches!(action, Action::EndTeam)));
    let waits = "the team ends; waits for bob; /stop forces; Ctrl-C leaves";
    assert!(person.sees(SMALL).contains(waits), "{}", person.sees(SMALL));
    person.runs(changed("bob", "killed"));
    assert!(person.sees(SMALL).contains("waits for team-lead"), "{}", person.sees(SMALL));
    person.gives(Input::Done(Done::Ending(Err("its lead is busy".to_owned()))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("the team is not ended: its lead is busy"), "{screen}");
    assert!(!screen.contains("the team ends"), "{screen}");
}

#[test]
fn a_team_that_ends_shows_its_deadline_and_a_second_stop_forces_the_end() {
    let mut person = Person::with_team();
    person.types("/stop");
    person.presses(KeyCode::Enter);
    person.took();
    let ending = TeamEnding { ended_by_ms: Some(1_795_190_055_000) };
    person.gives(Input::Done(Done::Ending(Ok(ending))));
    let screen = person.sees(SMALL);
    let ends = "the team ends; waits for bob until 15:54:15 UTC; /stop forces; Ctrl-C leaves";
    assert!(screen.contains(ends) && screen.contains("/stop again stops them"), "{screen}");
    person.types("/stop");
    person.presses(KeyCode::Enter);
    assert!(matches!(person.took().as_slice(), [Action::StopRun]));
    let screen = person.sees(SMALL);
    assert!(screen.contains("the run is being stopped; waits for bob; Ctrl-C leaves"), "{screen}");
    person.gives(Input::Done(Done::Stopping(Err("its lead is busy".to_owned()))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("the run is not stopped: its lead is busy"), "{screen}");
    person.types("/stop");
    person.presses(KeyCode::Enter);
    assert!(matches!(person.took().as_slice(), [Action::EndTeam]), "it begins again");
}

#[test]
fn a_completed_team_is_continued_by_a_message_or_viewed_or_left_for_a_new_one() {
    let person = || {
        let completed = CompletedTeam {
            id: "old-2026".to_owned(),
            name: "old\u{1b}[2J".to_owned(),
            is_archived: true,
        };
        Person::at(App::of_completed(ThemeKind::NoColor, completed))
    };
    let screen = person().sees(SMALL);
    let rows: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
     pitcrew old�[2J
    Team old�[2J is completed and in the archive.
    A message continues it, Enter shows what it did, /new begins another team.
    ────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
                                                                   /help  Tab: team
    ");
    let says = |text: &str| {
        let mut person = person();
        person.types(text);
        person.presses(KeyCode::Enter);
        person.took()
    };
    let goes_on = Begin::Resume { team: "old-2026".to_owned(), goal: "and test it".to_owned() };
    let took = says("and test it");
    assert!(matches!(took.as_slice(), [Action::Start(begin)] if *begin == goes_on), "{took:?}");
    let onward = |took: Vec<Action>| match took.as_slice() {
        [Action::Leave(Left::Onward(onward))] => onward.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(onward(says("")), Onward::Records { id: "old-2026".to_owned() });
    assert_eq!(onward(says("/new")), Onward::NewTeam);
    let mut person = Person::new();
    person.presses(KeyCode::Enter);
    assert!(person.took().is_empty(), "there is no team to show");
}

#[test]
fn after_the_end_a_message_continues_the_team_and_enter_closes() {
    let mut person = Person::new();
    person.types("mend it");
    person.presses(KeyCode::Enter);
    person.gives(Input::Done(Done::Started(Ok("work".to_owned()))));
    person.hears(News::Open(env!("CARGO_PKG_VERSION").to_owned()));
    person.took();
    let mut outcome = RunOutcome::broken("work");
    outcome.end = RunEnd::Success { text: "All is done.".to_owned() };
    person.happens(What::Ended(Box::new(outcome)));
    let screen = person.sees(SMALL);
    assert!(screen.contains("the run is complete"), "{screen}");
    person.types("and document it");
    person.presses(KeyCode::Enter);
    let took = person.took();
    let [Action::Start(Begin::Resume { team, goal })] = took.as_slice() else { panic!("{took:?}") };
    assert_eq!((team.as_str(), goal.as_str()), ("work", "and document it"));
    person.gives(Input::Done(Done::Started(Err("it is archived just now".to_owned()))));
    person.presses_ctrl('u');
    person.presses(KeyCode::Enter);
    assert!(matches!(person.took().as_slice(), [Action::Leave(Left::Ended { .. })]));
}

#[test]
fn a_run_that_is_over_before_its_first_event_leaves_the_interface_open() {
    for news in [News::Nobody, News::TeamGone] {
        let mut person = Person::new();
        person.types("what is it?");
        person.presses(KeyCode::Enter);
        person.gives(Input::Done(Done::Started(Ok("work".to_owned()))));
        person.took();
        person.hears(news);
        let took = person.took();
        assert!(matches!(took.as_slice(), [Action::Read(_), Action::ReadEnd]), "{took:?}");
        person.gives(Input::Done(Done::Told("the run is complete".to_owned())));
        let screen = person.sees(SMALL);
        assert!(screen.contains("the run is complete"), "{screen}");
        assert!(screen.contains("Enter closes; a message goes on"), "{screen}");
        person.types("and why?");
        person.presses(KeyCode::Enter);
        let took = person.took();
        let resumed = Begin::Resume { team: "work".to_owned(), goal: "and why?".to_owned() };
        assert!(matches!(took.as_slice(), [Action::Start(begin)] if *begin == resumed), "{took:?}");
        // After a start that failed, the run before is shown again.
        person.gives(Input::Done(Done::Started(Err("it is archived just now".to_owned()))));
        person.presses_ctrl('u');
        person.presses(KeyCode::Enter);
        let took = person.took();
        let [Action::Leave(Left::AlreadyOver { team })] = took.as_slice() else {
            panic!("{took:?}")
        };
        assert_eq!(team, "work");
    }
}

#[test]
fn a_run_whose_end_was_missed_leaves_the_interface_open() {
    let mut person = Person::new();
    person.types("what is it?");
    person.presses(KeyCode::Enter);
    person.gives(Input::Done(Done::Started(Ok("work".to_owned()))));
    person.hears(News::Open(env!("CARGO_PKG_VERSION").to_owned()));
    person.took();
    person.hears(News::TeamGone);
    let took = person.took();
    assert!(matches!(took.as_slice(), [Action::ReadEnd]), "{took:?}");
    assert!(person.sees(SMALL).contains("Enter closes; a message goes on"));
}

#[test]
fn a_run_that_was_just_resumed_and_is_over_can_be_continued() {
    for news in [News::Nobody, News::TeamGone] {
        let app = App::new(ThemeKind::NoColor, Some("work".to_owned()), CanStart::Yes);
        let mut person = Person::at(app);
        assert!(person.sees(SMALL).contains("the team is being started"));
        person.hears(news);
        let screen = person.sees(SMALL);
        assert!(screen.contains("Enter closes; a message goes on"), "{screen}");
    }
}

#[test]
fn after_the_end_a_message_beside_a_teammate_s_conversation_goes_to_nobody() {
    let mut person = Person::new();
    person.types("mend it");
    person.presses(KeyCode::Enter);
    person.gives(Input::Done(Done::Started(Ok("work".to_owned()))));
    person.hears(News::Open(env!("CARGO_PKG_VERSION").to_owned()));
    let state = HostState { team: team(), ..HostState::default() };
    person.hears(News::Snapshot(Box::new(state)));
    person.types("/peek bob");
    person.presses(KeyCode::Enter);
    person.happens(What::Ended(Box::new(RunOutcome::broken("work"))));
    person.took();
    person.types("for bob alone");
    person.presses(KeyCode::Enter);
    assert!(person.took().is_empty());
    assert!(person.sees(LARGE).contains("so bob reads nothing"), "{}", person.sees(LARGE));
}

#[test]
fn the_letters_of_a_begun_message_are_no_commands_of_a_list() {
    let mut person = Person::with_team();
    person.types("my draft ");
    person.presses_ctrl('t');
    person.types("mend it");
    person.presses(KeyCode::Enter);
    let took = person.took();
    assert!(
        matches!(took.last(), Some(Action::Send { to, text }) if to.as_str() == "team-lead" && text == "my draft mend it"),
        "{took:?}"
    );
}

#[test]
fn a_long_notice_is_shown_whole() {
    let mut person = Person::with_team();
    let text = "a warning that says at its end what to do about it: ".repeat(3) + "theend";
    person.gives(Input::Remark(text));
    assert!(person.sees(SMALL).contains("theend"), "{}", person.sees(SMALL));
}

#[test]
fn the_screen_can_have_any_size() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", &"echo x; ".repeat(90)))));
    person
        .reads("team-lead", &[json!({"seq": 1, "kind": "told", "text": "Mend it.\n".repeat(90)})]);
    for width in [1, 2, 7, 20, 80, 111, 300] {
        for height in [1, 2, 5, 12, 24, 80] {
            for _panel in 0..5 {
                person.sees((width, height));
                person.presses(KeyCode::Tab);
            }
        }
    }
}
