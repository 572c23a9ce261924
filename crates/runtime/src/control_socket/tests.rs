//! Tests of both ends of the control socket.

use std::path::Path;

use pitcrew_process::unix_socket::{open_folder, place_in};
use pitcrew_protocol::{ApiError, ErrorCode};
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::client::refusal;
use super::*;

async fn raw(folder: &Path, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(folder.join(NAME)).await.unwrap();
    // The server may close the connection before everything is written.
    let _cut_off = stream.write_all(bytes).await;
    serde_json::from_slice(&read_line(&mut BufReader::new(&mut stream)).await.unwrap()).unwrap()
}

async fn answering(mut control: ControlServer) {
    loop {
        let call = control.next().await;
        let answer = serde_json::json!({"success": true, "heard": call.control_request});
        call.caller.answer(Ok(answer)).await;
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_door_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let control = answering(ControlServer::open(folder.path(), mpsc::channel(1).0).unwrap());
    let long = vec![b' '; usize::try_from(LINE_MOST).unwrap()];
    let asking = async {
        for (bytes, says) in [
            (b"hello\n".as_slice(), "this is not a valid request"),
            (b"{\"op\":\"delete_everything\"}\n", "unknown variant `delete_everything`"),
            (b"{\"op\":\"mode\",\"member\":\"bob\"}\n", "missing field `mode`"),
            (b"\xff\xfe\n", "this is not a valid request"),
            (&long, "a line of at most 65536 bytes was expected"),
        ] {
            let answer = raw(folder.path(), bytes).await;
            assert_eq!(answer["error"], "invalid_request", "{answer}");
            assert!(answer["message"].as_str().unwrap().contains(says), "{answer}");
        }
        let newer = b"{\"op\":\"mode\",\"member\":\"bob\",\"mode\":\"plan\",\"of\":\"tomorrow\"}\n";
        assert_eq!(raw(folder.path(), newer).await["heard"]["mode"], "plan");
        let mode = ControlRequest::Mode { member: "bob".to_owned(), mode: "plan".to_owned() };
        let answer = control_request(folder.path(), &mode).await.unwrap();
        assert_eq!(
            answer["heard"],
            serde_json::json!({"op": "mode", "member": "bob", "mode": "plan"})
        );
    };
    tokio::select! {
        () = control => unreachable!(),
        () = asking => {}
    }
}

#[tokio::test]
async fn silent_callers_delay_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let control = answering(ControlServer::open(folder.path(), mpsc::channel(1).0).unwrap());
    let asking = async {
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(UnixStream::connect(folder.path().join(NAME)).await.unwrap());
        }
        let mode = ControlRequest::Mode { member: "bob".to_owned(), mode: "plan".to_owned() };
        // The caller gives up after the time that the host gives to a silent caller.
        let answer = control_request(folder.path(), &mode).await.unwrap();
        assert_eq!(answer["heard"]["op"], "mode");
        let oldest = silent.remove(0);
        let line = read_line(&mut BufReader::new(oldest)).await.unwrap();
        let refusal: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(refusal["message"], "too many connections of this process sent no request");
        // The newest are still listened to.
        let mut newest = silent.pop().unwrap();
        newest.write_all(b"{\"op\":\"stop_run\"}\n").await.unwrap();
        let line = read_line(&mut BufReader::new(newest)).await.unwrap();
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer["heard"]["op"], "stop_run");
    };
    tokio::select! {
        () = control => unreachable!(),
        () = asking => {}
    }
}

#[tokio::test]
async fn a_lead_that_knows_no_optional_field_is_asked_again_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(NAME)).unwrap();
    let older_lead = async {
        let mut heard = Vec::new();
        for _ in 0..2 {
            let (mut caller, _) = listener.accept().await.unwrap();
            let asked: Value =
                serde_json::from_slice(&read_line(&mut BufReader::new(&mut caller)).await.unwrap())
                    .unwrap();
            let answer = match asked.get("wait_seconds") {
                Some(_) => {
                    serde_json::json!(invalid(
                        "this is not a valid request: unknown field".to_owned()
                    ))
                }
                None => serde_json::json!({"success": true}),
            };
            write_line(&mut caller, &answer).await.unwrap();
            heard.push(asked);
        }
        heard
    };
    let end = ControlRequest::EndTeam { wait_seconds: Some(60) };
    let (heard, answer) = tokio::join!(older_lead, control_request(folder.path(), &end));
    assert_eq!(answer.unwrap()["success"], true);
    assert_eq!(heard[1], serde_json::json!({"op": "end_team"}));
}

#[test]
fn a_refusal_with_a_code_of_a_later_version_keeps_its_words() {
    let answer =
        serde_json::json!({"success": false, "error": "of_tomorrow", "message": "not today"});
    assert_eq!(refusal(answer), ApiError::new(ErrorCode::InternalError, "not today"));
}

#[tokio::test]
async fn a_socket_that_a_crash_left_is_replaced_and_ours_goes_with_us() {
    let long = tempfile::tempdir().unwrap();
    let folder = long.path().join("a".repeat(120));
    std::fs::create_dir(&folder).unwrap();
    // Create the state after a crash: the socket file exists, but no process listens.
    drop(
        std::os::unix::net::UnixListener::bind(place_in(&open_folder(&folder).unwrap(), NAME))
            .unwrap(),
    );
    assert!(folder.join(NAME).exists());
    let control = ControlServer::open(&folder, mpsc::channel(1).0).unwrap();
    drop(control);
    assert!(!folder.join(NAME).exists());
    let ask = ControlRequest::Shutdown { member: "bob".to_owned(), reason: None };
    assert!(matches!(control_request(&folder, &ask).await, Err(KnockError::Closed { .. })));
    std::fs::write(folder.join(NAME), "a file of somebody's").unwrap();
    assert!(ControlServer::open(&folder, mpsc::channel(1).0).is_err());
    assert!(folder.join(NAME).exists(), "what is no socket is left alone");
}
