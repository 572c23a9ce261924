//! The commands that ask the host or the caller for something, and what is shown of the result.

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use pitcrew_runtime::run::{Answers, RunPermissions};
use pitcrew_team::{PlanState, PlanView};
use pitcrew_view::client::PlanVerdict;
use pitcrew_view::host::What;
use pitcrew_view::markdown_export::Detail;

use super::{Action, Done, Input, Left, Person, SMALL, name, question};
use crate::app::{ExportOf, Request, TeamItem};
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
     pitcrew work  1 working
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
fn the_permissions_are_a_page_and_a_question_is_still_answered_below_it() {
    let mut person = Person::with_team();
    assert_eq!(request(&mut person, "/permissions"), Request::Permissions);
    let permissions = RunPermissions { answers: Answers::Person, ..RunPermissions::default() };
    person.gives(Input::Done(Done::Permissions(Ok(permissions))));
    person.happens(What::QuestionOpened(Box::new(question("q1", "touch it"))));
    let screen = person.sees(SMALL);
    assert!(screen.contains("a person answers permission requests"), "{screen}");
    assert!(screen.contains("bob asks permission for Bash"), "{screen}");
    person.presses(KeyCode::Char('y'));
    assert!(matches!(person.took().as_slice(), [Action::Answer(_)]));
    person.presses(KeyCode::Esc);
    assert!(!person.sees(SMALL).contains("a person answers"), "Esc closes the page");
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
        matches!(took.as_slice(), [Action::Leave(Left::ToTeam { id })] if id == "site"),
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
