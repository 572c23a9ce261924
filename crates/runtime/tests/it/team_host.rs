//! Requests through the control socket that the host of a run carries out: the run passes them on.

use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::control_socket::{
    ControlRequest, KnockError, Notifies, Visitor, control_request, follow,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, Digest};
use pitcrew_runtime::run::{RunHandle, Runtime};
use serde_json::json;

use crate::patience::in_time;
use crate::team_env::{TestRun, finish, until};

/// The script of a lead that is busy for ten minutes.
const BUSY: &str =
    "agents: {team-lead: [{tools: [{name: TaskList}]}, {delay_ms: 600000, text: Late.}]}";

async fn busy(setting: &TestRun) -> RunHandle {
    let mut handle = Runtime::start(setting.options(BUSY)).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    handle
}

fn an_answer() -> ControlRequest {
    let digest = Digest::of_call("Bash", &json!({"command": "ls"}));
    ControlRequest::Answer { question: "q1".to_owned(), digest, choice: Choice::Once }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, KnockError>) -> ApiError {
    match answer {
        Err(KnockError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_host_gets_the_request_and_the_caller_gets_the_hosts_lines() {
    let setting = TestRun::in_files();
    let mut handle = busy(&setting).await;
    let folder = setting.root.join("teams/probe/pitcrew");
    let answer = an_answer();
    let hosting = async {
        let Some(Visitor::Follow { since, run, mut caller, notifies: Notifies::No }) =
            handle.visitors.recv().await
        else {
            panic!("no follower")
        };
        assert_eq!((since, run.as_deref()), (Some(7), Some("r")));
        caller.send(b"{\"success\":true}\n{\"seq\":7}\n{\"seq\":8}\n{\"se").await.unwrap();
        drop(caller);
        let Some(Visitor::Answer { question, choice, caller, .. }) = handle.visitors.recv().await
        else {
            panic!("no answer")
        };
        assert_eq!((question.as_str(), choice), ("q1", Choice::Once));
        caller.answer(Ok(json!({"success": true}))).await;
    };
    let visiting = async {
        let (greeting, mut lines) =
            follow(&folder, Some(7), Some("r".to_owned()), Notifies::No).await.unwrap();
        assert_eq!(greeting, json!({"success": true}));
        for line in [Some("{\"seq\":7}"), Some("{\"seq\":8}"), None, None] {
            let said = lines.next().await.unwrap().map(|said| String::from_utf8(said).unwrap());
            assert_eq!(said.as_deref(), line, "a line that is not finished is left out");
        }
        control_request(&folder, &answer).await.unwrap();
    };
    in_time("both are served", async { tokio::join!(hosting, visiting) }).await;
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test]
async fn a_run_without_a_host_says_so_at_once() {
    let setting = TestRun::in_files();
    let mut handle = busy(&setting).await;
    handle.visitors.close();
    let folder = setting.root.join("teams/probe/pitcrew");
    let follower = refused(follow(&folder, None, None, Notifies::No).await);
    let answer = refused(control_request(&folder, &an_answer()).await);
    for error in [follower, answer] {
        assert_eq!(error.code, ErrorCode::InvalidStatus);
        assert_eq!(error.message, "this run has no host");
    }
    handle.stopper().kill();
    finish(handle).await;
}
