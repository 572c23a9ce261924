//! The commands that ask the host or the caller for something, and what is shown of the result.

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Answers, RunPermissions};
use pitcrew_team::{PlanState, PlanView};
use pitcrew_view::client::PlanVerdict;
use pitcrew_view::host::{Closed, What};
use pitcrew_view::markdown_export::Detail;

use super::{Action, Done, Input, Left, Person, SMALL, name, question};
use crate::app::{ExportOf, Onward, Request, TeamItem};
use crate::panels::PickerItem;

fn says(person: &mut Person, text: &str) -> Vec<Action> {
    person.took();
    person.types(text);
    person.presses(KeyCode::Enter);
    person.took()
}

/// Returns the request that a command makes.
fn request(person: &mut Person, text: &str) -> Request {
    match says(person, text).as_slice() {
        [Action::Request(request)] => request.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

fn plan(member: &str, id: &str, text: &str) -> PlanView {
    PlanView {
        request_id: id.to_owned(),
        member: name(member),
        state: PlanState::Open,
        asked_at: None,
        plan_file_path: Some("/root/plans/work-bob.md".to_owned()),
        plan: Some(text.to_owned()),
        feedback: None,
    }
}

#[test]
fn a_plan_is_read_before_it_is_approved_and_the_approval_is_for_the_plan_that_was_read() {
    let mut person = Person::with_team();
    // Nothing is approved unseen.
    assert_eq!(request(&mut person, "/plan approve bob"), Request::Plans);
    let plans = vec![plan("bob", "plan-1", "# Mend it\n\n1. **read**\n2. change")];
    person.gives(Input::Done(Done::Plans(Ok(plans))));
    assert_snapshot!(person.sees(SMALL), @r"
     pitcrew work  1 working, 1 starting
    plans that wait for an answer: Esc closes ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    the plan of bob
    /root/plans/work-bob.md
      Mend it

      1. read
      2. change
    /plan approve bob   /plan reject bob REMARKS











    read the plan first; `/plan approve bob` then approves it
    ────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
     team-lead  opus  default                                      /help  Tab: team
    ");
    // The page stays while the user types the answer.
    person.types("/plan approve bob");
    assert!(person.sees(SMALL).contains("Mend it"));
    person.presses(KeyCode::Enter);
    let took = person.took();
    let [Action::Request(Request::AnswerPlan { member, id, verdict })] = took.as_slice() else {
        panic!("{took:?}")
    };
    assert_eq!((member.as_str(), id.as_deref()), ("bob", Some("plan-1")));
    assert_eq!(*verdict, PlanVerdict::Approved);
    assert!(!person.sees(SMALL).contains("Mend it"), "the page is closed");
    let sent_back = request(&mut person, "/plan reject ann leave the\tAPI");
    let verdict = PlanVerdict::SentBack { feedback: Some("leave the\tAPI".to_owned()) };
    assert_eq!(sent_back, Request::AnswerPlan { member: name("ann"), id: None, verdict });
    person.gives(Input::Done(Done::Plans(Ok(Vec::new()))));
    assert!(person.sees(SMALL).contains("no plan waits for an answer"));
    assert_eq!(request(&mut person, "/plan approve bob"), Request::Plans, "it was answered");
}

#[test]
fn a_plan_is_approved_only_after_its_whole_page_was_on_the_screen() {
    let mut person = Person::with_team();
    let steps: String = (1..=40).map(|number| format!("{number}. step\n")).collect();
    let plans = || Input::Done(Done::Plans(Ok(vec![plan("bob", "plan-1", &steps)])));
    person.gives(plans());
    person.sees(SMALL);
    assert!(says(&mut person, "/plan approve bob").is_empty());
    let screen = person.sees(SMALL);
    let why = "rows of this page were not on the screen yet: PgDn reads on";
    assert!(screen.contains(why), "{screen}");
    assert!(screen.contains("> /plan approve bob"), "the command waits: {screen}");
    // PageDown reads on while the command waits.
    for _ in 0..3 {
        person.presses(KeyCode::PageDown);
        person.sees(SMALL);
    }
    person.presses(KeyCode::Enter);
    let took = person.took();
    let is_approval = |it: &Action| matches!(it, Action::Request(Request::AnswerPlan { .. }));
    assert!(took.iter().any(is_approval), "{took:?}");
    // A page that was closed too early is shown again.
    person.gives(plans());
    person.sees(SMALL);
    person.presses(KeyCode::Esc);
    assert_eq!(request(&mut person, "/plan approve bob"), Request::Plans);
    // The end alone is not the whole page.
    person.gives(plans());
    person.sees(SMALL);
    person.presses(KeyCode::End);
    person.sees(SMALL);
    assert!(says(&mut person, "/plan approve bob").is_empty());
}

/// Whether the user has answered a request since the last look at the actions.
fn answered(person: &mut Person) -> bool {
    person.took().iter().any(|it| matches!(it, Action::Answer(_)))
}

#[test]
fn a_page_has_the_space_of_a_request_and_the_request_is_one_row() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", &"touch it; ".repeat(200)))));
    person.sees(SMALL);
    let steps: String = (1..=12).map(|number| format!("{number}. step\n")).collect();
    person.gives(Input::Done(Done::Plans(Ok(vec![plan("bob", "plan-1", &steps)]))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("1. step") && screen.contains("12. step"), "{screen}");
    assert!(screen.contains("bob asks permission for Bash; Esc goes back to it"), "{screen}");
    person.types("y");
    assert!(!answered(&mut person));
    let screen = person.sees(SMALL);
    assert!(screen.contains("Esc goes back to the permission request"), "{screen}");
    // The request changes below the page. The first key after it only says so.
    let closed = Closed::Answered(Choice::Once);
    person.happens(What::QuestionClosed { id: "q1".to_owned(), closed });
    person.happens(What::QuestionOpened(Box::new(question("q2", "rm it"))));
    person.sees(SMALL);
    person.presses(KeyCode::Esc);
    assert!(person.sees(SMALL).contains("rm it"));
    person.types("y");
    assert!(!answered(&mut person));
    assert!(person.sees(SMALL).contains("the permission request has changed"));
    person.types("y");
    assert!(answered(&mut person));
}

#[test]
fn the_permissions_are_a_page_and_a_question_is_answered_after_it() {
    let mut person = Person::with_team();
    assert_eq!(request(&mut person, "/permissions"), Request::Permissions);
    let permissions = RunPermissions { answers: Answers::Person, ..RunPermissions::default() };
    person.gives(Input::Done(Done::Permissions(Ok(permissions))));
    person.happens(What::QuestionOpened(Box::new(question("q1", "touch it"))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("a person answers permission requests"), "{screen}");
    assert!(screen.contains("bob asks permission for Bash"), "{screen}");
    person.presses(KeyCode::Esc);
    assert!(!person.sees(SMALL).contains("a person answers"), "Esc closes the page");
    person.presses(KeyCode::Char('y'));
    assert!(answered(&mut person));
    person.gives(Input::Done(Done::Permissions(Err("no process runs the team".to_owned()))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("the permissions are not known: no process runs the team"), "{screen}");
}

#[test]
fn commands_about_members_ask_the_host_and_report_what_it_says() {
    let mut person = Person::with_team();
    let spawn = Request::Spawn {
        name: name("ann"),
        agent_type: Some("Explore".to_owned()),
        prompt: "look around".to_owned(),
    };
    assert_eq!(request(&mut person, "/spawn ann --type Explore look around"), spawn);
    assert!(person.sees(SMALL).contains("ann is being started"));
    assert_eq!(request(&mut person, "/stop bob"), Request::ShutDown(name("bob")));
    assert_eq!(request(&mut person, "/pane bob"), Request::ShowPane(name("bob")));
    assert_eq!(request(&mut person, "/hide bob"), Request::HidePane(name("bob")));
    let failed = "the pane of bob is not hidden: bob is not in a pane of this run";
    person.gives(Input::Done(Done::Failed(failed.to_owned())));
    assert!(person.sees(SMALL).contains(failed));
    // In the list of the team, a key shows the pane.
    person.presses_ctrl('t');
    person.sees(SMALL);
    person.presses(KeyCode::Char('o'));
    assert!(matches!(person.took().as_slice(), [Action::Request(Request::ShowPane(_))]));
}

#[test]
fn an_export_has_the_conversation_on_the_screen_with_as_much_of_its_calls() {
    let mut person = Person::with_team();
    let export = |person: &mut Person, text: &str| match says(person, text).as_slice() {
        [Action::Export(order)] => (order.of.clone(), order.file.clone(), order.detail),
        other => panic!("{other:?}"),
    };
    let lead = ExportOf::Conversation(name("team-lead"));
    assert_eq!(export(&mut person, "/export"), (lead, None, Detail::Brief));
    person.presses_ctrl('o');
    let run = (ExportOf::Run, Some("it all.md".to_owned()), Detail::Whole);
    assert_eq!(export(&mut person, "/export run it all.md"), run);
    says(&mut person, "/peek bob");
    let bob = (ExportOf::Conversation(name("bob")), Some("bob.md".to_owned()), Detail::Whole);
    assert_eq!(export(&mut person, "/export bob.md"), bob);
    let mut person = Person::new();
    assert!(says(&mut person, "/export").is_empty());
    assert!(person.sees(SMALL).contains("there is no team yet"));
}

#[test]
fn another_team_is_chosen_from_the_list_and_the_list_is_left_by_esc() {
    let mut person = Person::with_team();
    assert!(matches!(says(&mut person, "/resume").as_slice(), [Action::ListTeams]));
    let team = |id: &str| {
        let item = PickerItem { label: id.to_owned(), ..PickerItem::default() };
        TeamItem { id: id.to_owned(), item }
    };
    let teams = || Done::Teams(Ok(vec![team("parser"), team("site")]));
    person.gives(Input::Done(teams()));
    assert!(person.sees(SMALL).contains("teams to go on with (2 of 2)"));
    person.presses(KeyCode::Esc);
    assert!(!person.sees(SMALL).contains("teams to go on with"));
    person.gives(Input::Done(teams()));
    person.sees(SMALL);
    person.types("si");
    person.sees(SMALL);
    person.presses(KeyCode::Enter);
    let took = person.took();
    assert!(
        matches!(took.as_slice(), [Action::Leave(Left::Onward(Onward::Team { id }))] if id == "site"),
        "{took:?}"
    );
    person.gives(Input::Done(Done::Teams(Ok(Vec::new()))));
    assert!(person.sees(SMALL).contains("no other team runs or can be resumed"));
}

#[test]
fn the_help_scrolls_to_its_last_command_and_stays_while_a_command_is_typed() {
    let mut person = Person::with_team();
    says(&mut person, "/help");
    assert!(!person.sees(SMALL).contains("/quit"));
    person.presses(KeyCode::End);
    let screen = person.sees(SMALL);
    assert!(screen.contains("/quit") && screen.contains("/stop [NAME]"), "{screen}");
    person.types("/cost");
    assert!(person.sees(SMALL).contains("> /cost"));
    person.presses(KeyCode::Enter);
    assert!(person.sees(SMALL).contains("tokens: team-lead"));
    assert!(!person.sees(SMALL).contains("/quit"));
}
