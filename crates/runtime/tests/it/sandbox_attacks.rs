//! Tests the sandbox profile `read` with the attacks of `tests/attacks.txt`. Commands that run
//! without a permission request in plan mode and default mode get this profile.
//!
//! The attacks run without the permission gate, as if the gate had wrongly decided that they only
//! read. So only the kernel can stop an attack. The kernel does not stop reads that the profile
//! allows. The suite `attacks` of the crate `pitcrew` runs the same attacks through the binary,
//! with the gate.
//!
//! Each attack runs in its own shell. One command runs a batch of many attacks. The test compares
//! the files before and after each batch.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use pitcrew_process::sandbox::Sandbox;
use serde_json::json;

use crate::another_user;
use crate::sandbox_read::Ground;

/// The text is compiled into the test program. Another user also runs these tests, and that user
/// cannot read this crate's folder.
const ATTACKS: &str = include_str!("../attacks.txt");

/// Number of attacks that one command runs.
const BATCH: usize = 40;

/// Returns the attacks of each section of `attacks.txt`. The key is the name of the section.
fn attacks() -> BTreeMap<String, Vec<String>> {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in ATTACKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) if name.chars().all(char::is_alphabetic) => section = name.to_owned(),
            Some(_) | None => sections.entry(section.clone()).or_default().push(line.to_owned()),
        }
    }
    sections
}

/// Writes the attacks of a section as scripts into the working folder, and returns them in batches.
/// Each batch is one command and the list of its attacks. `target` is the file that is attacked.
///
/// There are three targets, and `nth` is the number of this target (0 to 2). By default, each
/// attack is tried on only one of the targets. With `PITCREW_ATTACKS=all` in the environment, each
/// attack is tried on all three. The section `connect` needs no target, so all its attacks are
/// returned.
fn batches(ground: &Ground, section: &str, nth: usize, target: &str) -> Vec<(String, Vec<String>)> {
    let is_whole = std::env::var("PITCREW_ATTACKS").is_ok_and(|extent| extent == "all");
    let lines = attacks().remove(section).unwrap().into_iter().enumerate();
    let lines = lines.filter(|(number, _)| is_whole || section == "connect" || number % 3 == nth);
    let lines: Vec<String> = lines.map(|(_, line)| line).collect();
    let lines: Vec<_> =
        lines.iter().map(|line| line.replace("%T", target).replace("%S", target)).collect();
    let script = |(number, line): (usize, &String)| {
        let name = format!("attacks/{section}-{number}.sh");
        ground.setting.write(&name, format!("{line}\n"));
        format!("timeout -k 1 5 bash {name}")
    };
    let scripts: Vec<_> = lines.iter().enumerate().map(script).collect();
    let joined =
        scripts.chunks(BATCH).map(|chunk| format!("W=$PWD; export W; {}", chunk.join("\n")));
    joined.zip(lines.chunks(BATCH).map(<[String]>::to_vec)).collect()
}

async fn run(ground: &Ground, command: &str) -> String {
    ground.setting.call("Bash", json!({ "command": command, "timeout": 600_000 })).await.text
}

#[test]
fn there_are_hundreds_of_attacks() {
    let count = |section: &str| attacks()[section].len();
    assert!(count("write") >= 300 && count("read") >= 150, "{} {}", count("write"), count("read"));
    assert!(count("connect") >= 60 && count("signal") >= 25);
}

#[tokio::test]
async fn taken_for_reading_no_attack_writes_into_the_working_folder_beside_it_or_into_the_root() {
    let Some(ground) = Ground::new() else { return };
    ground.setting.write("own", "own\n");
    let settings = ground.base.join("home/.claude/settings.json");
    fs::write(&settings, "{}").unwrap();
    let (kept, secret) = (ground.setting.path("kept"), ground.base.join("outside/secret"));
    for (nth, target) in [&kept, &secret, &settings].into_iter().enumerate() {
        for (command, lines) in batches(&ground, "write", nth, target.to_str().unwrap()) {
            let before = ground.files();
            let said = run(&ground, &command).await;
            let now = ground.files();
            let changed = now
                .iter()
                .filter(|(path, what)| before.get(*path) != Some(what))
                .map(|(path, _)| path);
            assert!(
                now == before,
                "{:?} by one of {lines:#?}: {said}",
                changed.collect::<Vec<_>>()
            );
            assert_eq!(
                fs::read_to_string(&settings).unwrap(),
                "{}",
                "by one of {lines:#?}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn most_attacks_write_where_nothing_holds_a_command() {
    let ground = Ground::with(|_| Sandbox::default());
    let target = ground.base.join("outside/secret");
    let (mut wrote, mut tried) = (0, 0);
    ground.setting.write("own", "own\n");
    let harmless = |line: &&String| {
        ["mount", "crontab", "at now", "systemd-run", "/1/root", "-t 1 "]
            .iter()
            .all(|it| !line.contains(it))
    };
    for line in attacks()["write"].iter().filter(harmless).take(60) {
        fs::write(&target, "SECRET").unwrap();
        let line = line.replace("%T", target.to_str().unwrap());
        ground.setting.write("attack.sh", line);
        run(&ground, "W=$PWD; export W; timeout -k 1 5 bash attack.sh").await;
        tried += 1;
        wrote += usize::from(fs::read(&target).ok().as_deref() != Some(b"SECRET"));
        let _moved = fs::remove_file(&target);
    }
    assert!(wrote * 10 >= tried * 7, "{wrote} of {tried}");
}

#[tokio::test]
async fn taken_for_reading_no_attack_reads_what_is_kept() {
    let Some(ground) = Ground::new() else { return };
    ground.setting.write("own", "own\n");
    let (outside, key) = (ground.base.join("outside/secret"), ground.base.join("home/.ssh/id_rsa"));
    let denied = ground.setting.path("denied/key");
    for (nth, target) in [&outside, &key, &denied].into_iter().enumerate() {
        for (command, lines) in batches(&ground, "read", nth, target.to_str().unwrap()) {
            let said = run(&ground, &command).await;
            assert!(!said.contains("SECRET"), "{} by one of {lines:#?}: {said}", target.display());
        }
    }
}

#[tokio::test]
async fn taken_for_reading_no_attack_connects() {
    let Some(mut ground) = Ground::new() else { return };
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = ground.base.join("outside/socket");
    let unix = UnixListener::bind(&path).unwrap();
    let name = format!("pitcrew-attacks-{}", std::process::id());
    let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let datagram_path = ground.base.join("outside/datagram");
    let datagram = UnixDatagram::bind(&datagram_path).unwrap();
    named.set_nonblocking(true).unwrap();
    datagram.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    let ports =
        [("TCP", tcp.local_addr().unwrap().port()), ("UDP", udp.local_addr().unwrap().port())];
    ground
        .setting
        .context
        .env
        .extend(ports.map(|(name, port)| (name.to_owned(), port.to_string())));
    let paths = [
        ("SOCK", path.display().to_string()),
        ("DGRAM", datagram_path.display().to_string()),
        ("ABSTRACT", name),
    ];
    ground.setting.context.env.extend(paths.map(|(name, path)| (name.to_owned(), path)));
    for (command, lines) in batches(&ground, "connect", 0, "") {
        let said = run(&ground, &command).await;
        let came = (tcp.accept().is_ok(), udp.recv(&mut [0; 64]).is_ok(), unix.accept().is_ok());
        assert!(
            named.accept().is_err() && datagram.recv(&mut [0; 64]).is_err(),
            "by one of {lines:#?}: {said}"
        );
        assert_eq!(came, (false, false, false), "by one of {lines:#?}: {said}");
    }
}

#[tokio::test]
async fn taken_for_reading_no_attack_signals_a_process_outside() {
    let Some(mut ground) = Ground::new() else { return };
    ground.setting.context.env.push(("PID".to_owned(), ground.other.id().to_string()));
    for line in &attacks()["signal"] {
        ground.setting.write("attack.sh", line);
        let said = run(&ground, "timeout -k 1 5 bash attack.sh").await;
        let stat = fs::read_to_string(format!("/proc/{}/stat", ground.other.id())).unwrap();
        assert!(stat.contains(") S"), "{line}: {stat}: {said}");
        // The attacked process must still have the niceness with which it was started, which is the
        // niceness of this test process.
        let ours = fs::read_to_string("/proc/self/stat").unwrap();
        let niceness = |stat: &str| {
            stat.rsplit(')').next().unwrap().split_whitespace().nth(16).map(str::to_owned)
        };
        assert_eq!(niceness(&stat), niceness(&ours), "its niceness, by {line}");
    }
}

/// Runs the other tests of this file again as a user without privileges, in a copy of this test
/// program.
#[test]
fn taken_for_reading_no_attack_of_another_user_gets_through() {
    let passed =
        another_user::play("sandbox_attacks::taken_for_reading_no_attack_", "another_user");
    assert!(passed.is_none_or(|passed| passed == 4), "{passed:?}");
}
