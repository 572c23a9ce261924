//! Attacks on the launch of a pane, by other processes of the same user and by another user.
//!
//! The attackers are small Python programs. Each attack is one row of a table.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use pitcrew_process::PaneTag;
use pitcrew_process::job::{TAG_VARIABLE, outlives_variable};
use pitcrew_protocol::TeamDir;

use super::*;

/// The secret that no attacker may get.
const KEY: &str = "s3cret-of-the-pane";

/// The path is absolute, because another user may not be able to run a program of the `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// Connects to the socket `$1` and prints all that comes. Connects as often as it is refused, until
/// it has got `$2` answers.
const CONNECT: &str = "
import socket, sys
got = 0
while got < int(sys.argv[2]):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(sys.argv[1])
        said = b''
        while not said.endswith(b'\\n'):
            piece = s.recv(65536)
            if not piece: break
            said += piece
        print(said.decode(), flush=True)
        got += 1
    except PermissionError:
        print('no permission', flush=True)
        got += 1
";

/// Listens at the socket `$1` in place of another, and gives its own launch to each process.
const LISTEN: &str = "
import os, socket, sys
if os.path.exists(sys.argv[1]): os.unlink(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(8)
print('listening', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b'{\"launch\":{\"argv\":[\"touch\",\"hit\"],\"cwd\":\"/\",\"env\":[]}}\\n')
";

/// How an attacker was started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// It carries the tag of an agent's command.
    Tool,
    /// Nothing tells that a tool started it: it has cleared its environment, or another program
    /// started it on demand.
    Unknown,
    /// Another user.
    OtherUser,
}

impl Origin {
    fn start(self, script: &str, arguments: &[&str]) -> Option<Child> {
        let mut command = match self {
            Self::Tool | Self::Unknown => Command::new(PYTHON),
            Self::OtherUser if rustix::process::geteuid().is_root() => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", PYTHON]);
                command
            }
            Self::OtherUser => return None,
        };
        command.args(["-c", script]).args(arguments).envs([outlives_variable()]);
        command.envs((self == Self::Tool).then_some((TAG_VARIABLE, "a-job")));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped());
        Some(command.spawn().unwrap())
    }
}

fn pane() -> NewPane {
    NewPane {
        argv: vec!["true".to_owned(), "a b".to_owned()],
        cwd: PathBuf::from("/"),
        env: vec![("A_KEY".to_owned(), KEY.to_owned())],
        title: "bob".to_owned(),
        color: None,
        tag: PaneTag { root: "0af3".to_owned(), team: TeamDir::of("crew"), agent: None },
    }
}

fn launcher(root: &Path) -> Launcher {
    Launcher { command: vec!["pitcrew".to_owned(), "pane-exec".to_owned()], root: root.to_owned() }
}

fn socket_of(offer: &Offer) -> PathBuf {
    PathBuf::from(&offer.argv()[2])
}

/// Returns true if a program is missing, and says so.
fn lacks(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").output().is_err();
    if is_missing {
        eprintln!("skipped: {program} is not installed");
    }
    is_missing
}

/// Returns all bytes of all files below a folder, and the names.
fn content(folder: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        found.extend(entry.file_name().as_encoded_bytes());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(content(&entry.path())),
            kind if kind.is_file() => found.extend(fs::read(entry.path()).unwrap()),
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn no_process_but_the_pane_s_gets_a_launch_however_often_it_comes_first() {
    if lacks(PYTHON) {
        return;
    }
    let ours = Some(std::process::id());
    let attacks = [
        // Origin, process that the terminal reports, words of the refusal.
        (Origin::Tool, ours, "is not process"),
        (Origin::Tool, None, "was started by a tool of an agent"),
        (Origin::Unknown, ours, "is not process"),
        (Origin::OtherUser, ours, "another user"),
        (Origin::OtherUser, None, "another user"),
    ];
    for (origin, expected, refusal) in attacks {
        let root = tempfile::tempdir().unwrap();
        let offer = launcher(root.path()).offer(&pane()).unwrap();
        let socket = socket_of(&offer);
        // The modes would keep another user away. Here the check alone must do so.
        for open in socket.ancestors().take(4) {
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let Some(attacker) = origin.start(CONNECT, &[socket.to_str().unwrap(), "3"]) else {
            eprintln!("skipped: another user needs root");
            continue;
        };
        let given = tokio::spawn(offer.give(expected));
        let output = tokio::task::spawn_blocking(move || attacker.wait_with_output().unwrap())
            .await
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.matches(refusal).count(), 3, "{origin:?} {expected:?}: {said}");
        assert!(!said.contains(KEY), "{origin:?}: {said}");
        // The process that the launch is for still gets it.
        let taken = take(&socket, ProcessIdentity::own()).await.unwrap();
        assert_eq!((&taken.launch.argv, &taken.launch.env), (&pane().argv, &pane().env));
        drop(taken);
        assert_eq!(given.await.unwrap().unwrap(), std::process::id());
    }
}

#[tokio::test]
async fn a_launch_that_another_process_gives_is_not_started() {
    if lacks(PYTHON) {
        return;
    }
    for (origin, is_named, refusal) in [
        (Origin::Tool, false, "is not trusted"),
        (Origin::Tool, true, "is not trusted"),
        (Origin::Unknown, false, "comes from process"),
        (Origin::OtherUser, false, "is not trusted"),
        (Origin::OtherUser, true, "is not trusted"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let offer = launcher(root.path()).offer(&pane()).unwrap();
        let socket = socket_of(&offer);
        for open in socket.ancestors().skip(1).take(3) {
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let Some(mut attacker) = origin.start(LISTEN, &[socket.to_str().unwrap()]) else {
            continue;
        };
        let mut listening = [0; 9];
        io::Read::read_exact(attacker.stdout.as_mut().unwrap(), &mut listening).unwrap();
        let named = ProcessIdentity::of(attacker.id()).unwrap();
        let starter = if is_named { named } else { ProcessIdentity::own() };
        let refused = take(&socket, starter).await.unwrap_err();
        assert!(refused.to_string().contains(refusal), "{origin:?}: {refused}");
        attacker.kill().unwrap();
        attacker.wait().unwrap();
    }
}

#[tokio::test]
async fn a_launch_is_in_no_file_is_given_once_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let offer = launcher(root.path()).offer(&pane()).unwrap();
    let socket = socket_of(&offer);
    assert!(offer.argv().iter().all(|word| !word.contains(KEY)));
    assert!(!String::from_utf8_lossy(&content(root.path())).contains(KEY));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let given = tokio::spawn(offer.give(None));
    drop(take(&socket, ProcessIdentity::own()).await.unwrap());
    given.await.unwrap().unwrap();
    let again = take(&socket, ProcessIdentity::own()).await.unwrap_err();
    assert!(matches!(again, TakeError::NotThere { .. }), "{again}");
    assert_eq!(fs::read_dir(root.path().join("pitcrew/launches")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_process_that_ends_or_cannot_start_its_program_fails_the_start_at_once() {
    let root = tempfile::tempdir().unwrap();
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let offer = launcher(root.path()).offer(&pane()).unwrap();
    let error = offer.give(Some(dead.id())).await.unwrap_err();
    insta::assert_snapshot!(error, @"its program was not started: its process ended before it took its program");
    let offer = launcher(root.path()).offer(&pane()).unwrap();
    let socket = socket_of(&offer);
    let given = tokio::spawn(offer.give(None));
    take(&socket, ProcessIdentity::own()).await.unwrap().fail("cannot start x: no");
    let error = given.await.unwrap().unwrap_err();
    insta::assert_snapshot!(error, @"its program was not started: cannot start x: no");
}

#[tokio::test]
async fn the_sockets_of_dead_processes_are_removed_and_others_stay() {
    let root = tempfile::tempdir().unwrap();
    let first = launcher(root.path()).offer(&pane()).unwrap();
    let folder = root.path().join("pitcrew/launches");
    let dead = folder.join(format!("{}.1.{}", u32::MAX, uuid::Uuid::new_v4().simple()));
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let file = folder.join(format!("{}.1.x", u32::MAX));
    fs::write(&file, "").unwrap();
    let _second = launcher(root.path()).offer(&pane()).unwrap();
    assert!(!dead.exists() && file.exists() && socket_of(&first).exists());
}
