//! The attacks of `tests/attacks.txt` against *read*, whatever the reader of shell text would say of them: the kernel alone.
//!
//! Each runs in a shell of its own, many in one command; what is there is compared before and after each such batch.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use pitcrew_runtime::sandbox::Sandbox;
use serde_json::json;

use crate::sandbox_read::Ground;

/// How many attacks are one command.
const BATCH: usize = 40;

/// The lines of each section.
fn attacks() -> BTreeMap<String, Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks.txt");
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in fs::read_to_string(file).unwrap().lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) if name.chars().all(char::is_alphabetic) => section = name.to_owned(),
            Some(_) | None => sections.entry(section.clone()).or_default().push(line.to_owned()),
        }
    }
    sections
}

/// The attacks of a section against a target, as scripts of the working folder, in batches of one command each.
fn batches(ground: &Ground, section: &str, target: &str) -> Vec<(String, Vec<String>)> {
    let lines = attacks().remove(section).unwrap();
    let lines: Vec<_> = lines.iter().map(|line| line.replace("%T", target).replace("%S", target)).collect();
    let script = |(number, line): (usize, &String)| {
        let name = format!("attacks/{section}-{number}.sh");
        ground.setting.write(&name, format!("{line}\n"));
        format!("timeout -k 1 5 bash {name}")
    };
    let scripts: Vec<_> = lines.iter().enumerate().map(script).collect();
    let joined = scripts.chunks(BATCH).map(|chunk| format!("W=$PWD; export W; {}", chunk.join("\n")));
    joined.zip(lines.chunks(BATCH).map(<[String]>::to_vec)).collect()
}

async fn run(ground: &Ground, command: &str) -> String {
    ground.setting.call("Bash", json!({ "command": command, "timeout": 600_000 })).await.text
}

#[test]
fn there_are_hundreds_of_attacks() {
    let count = |section: &str| attacks()[section].len();
    assert!(count("write") >= 180 && count("read") >= 60, "{} {}", count("write"), count("read"));
    assert!(count("connect") >= 30 && count("signal") >= 15);
}

#[tokio::test]
async fn no_attack_writes_into_the_working_folder_beside_it_or_into_the_root() {
    let Some(ground) = Ground::new() else { return };
    ground.setting.write("own", "own\n");
    let settings = ground.base.join("home/.claude/settings.json");
    fs::write(&settings, "{}").unwrap();
    let (kept, secret) = (ground.setting.path("kept"), ground.base.join("outside/secret"));
    for target in [&kept, &secret, &settings] {
        for (command, lines) in batches(&ground, "write", target.to_str().unwrap()) {
            let before = ground.files();
            let said = run(&ground, &command).await;
            let now = ground.files();
            let changed = now.iter().filter(|(path, what)| before.get(*path) != Some(what)).map(|(path, _)| path);
            assert!(now == before, "{:?} by one of {lines:#?}: {said}", changed.collect::<Vec<_>>());
            assert_eq!(fs::read_to_string(&settings).unwrap(), "{}", "by one of {lines:#?}: {said}");
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
        ["mount", "crontab", "at now", "systemd-run", "/1/root", "-t 1 "].iter().all(|it| !line.contains(it))
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
async fn no_attack_reads_what_is_kept() {
    let Some(ground) = Ground::new() else { return };
    ground.setting.write("own", "own\n");
    let (outside, key) = (ground.base.join("outside/secret"), ground.base.join("home/.ssh/id_rsa"));
    let denied = ground.setting.path("denied/key");
    for target in [&outside, &key, &denied] {
        for (command, lines) in batches(&ground, "read", target.to_str().unwrap()) {
            let said = run(&ground, &command).await;
            assert!(!said.contains("SECRET"), "{} by one of {lines:#?}: {said}", target.display());
        }
    }
}

#[tokio::test]
async fn no_attack_connects() {
    let Some(mut ground) = Ground::new() else { return };
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = ground.base.join("outside/socket");
    let unix = UnixListener::bind(&path).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    let ports = [("TCP", tcp.local_addr().unwrap().port()), ("UDP", udp.local_addr().unwrap().port())];
    ground.setting.context.env.extend(ports.map(|(name, port)| (name.to_owned(), port.to_string())));
    ground.setting.context.env.push(("SOCK".to_owned(), path.display().to_string()));
    for (command, lines) in batches(&ground, "connect", "") {
        let said = run(&ground, &command).await;
        let came = (tcp.accept().is_ok(), udp.recv(&mut [0; 64]).is_ok(), unix.accept().is_ok());
        assert_eq!(came, (false, false, false), "by one of {lines:#?}: {said}");
    }
}

#[tokio::test]
async fn no_attack_signals_a_process_outside() {
    let Some(mut ground) = Ground::new() else { return };
    ground.setting.context.env.push(("PID".to_owned(), ground.other.id().to_string()));
    for line in &attacks()["signal"] {
        ground.setting.write("attack.sh", line);
        let said = run(&ground, "timeout -k 1 5 bash attack.sh").await;
        let stat = fs::read_to_string(format!("/proc/{}/stat", ground.other.id())).unwrap();
        assert!(stat.contains(") S"), "{line}: {stat}: {said}");
        assert_eq!(stat.rsplit(')').next().unwrap().split_whitespace().nth(16), Some("0"), "its niceness, by {line}");
    }
}
