//! `pitcrew serve` for other machines, and the link of `pitcrew devices add`.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::running::Running;
use crate::test_env::TestEnv;

/// Prints the fingerprint of the certificate at a port, and what the API answers.
const CALL: &str = "import hashlib, json, ssl, sys, urllib.request
port, host, token = sys.argv[1:]
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
headers = {'Host': host, 'Authorization': 'Bearer ' + token}
request = urllib.request.Request('https://127.0.0.1:%s/api/teams' % port, headers=headers)
answer = json.load(urllib.request.urlopen(request, context=context))
certificate = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(('127.0.0.1', int(port))))
digest = hashlib.sha256(certificate).hexdigest().upper()
pairs = [digest[at:at + 2] for at in range(0, len(digest), 2)]
print(json.dumps({'fingerprint': ':'.join(pairs), 'answer': answer}))
";

/// Calls the server as a Python program does.
fn call(room: &TestEnv, authority: &str, token_file: &str) -> Value {
    let file = room.work().join("call.py");
    fs::write(&file, CALL).unwrap();
    let token = fs::read_to_string(token_file).unwrap();
    let port = authority.rsplit_once(':').unwrap().1;
    let ran = Command::new("python3").arg(&file).args([port, authority, &token]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn serving(room: &TestEnv, more: &[&str]) -> (Running, Value) {
    let args = [&["serve", "--json"], more].concat();
    let mut process = Running::answering(&mut room.command(&args));
    let said = serde_json::from_str(&process.line()).unwrap();
    (process, said)
}

#[test]
fn a_server_for_other_machines_speaks_tls_and_says_its_fingerprint() {
    let room = TestEnv::new();
    let (process, said) = serving(&room, &["--listen", "0.0.0.0:0", "--name", "box.home"]);
    let authority = said["url"].as_str().unwrap().strip_prefix("https://").unwrap();
    assert!(authority.starts_with("box.home:"), "{said}");
    let link = said["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("https://{authority}/open/")), "{said}");
    let called = call(&room, authority, said["token_file"].as_str().unwrap());
    assert_eq!(called["answer"], json!({"teams": []}));
    let certificate = &said["certificate"];
    assert_eq!(certificate["is_self_signed"], true);
    assert_eq!(called["fingerprint"], certificate["fingerprint"]);
    let add = ["devices", "add", "--scope", "watch"];
    let added = room.json(&add);
    assert_eq!(added["url"], said["url"]);
    assert_eq!(added["fingerprint"], certificate["fingerprint"]);
    let shown = room.ok(&["devices", "add", "--scope", "watch"]).stdout;
    assert!(shown.contains(certificate["fingerprint"].as_str().unwrap()), "{shown}");
    // stdout is no terminal.
    assert!(!shown.contains('█') && !shown.contains("ssh -L"), "{shown}");
    drop(process);
    let later = room.ok(&add).stdout;
    assert!(later.contains("http://127.0.0.1:7420/pair/"), "{later}");
    assert!(later.contains("no server runs: start `pitcrew serve`"), "{later}");
    let there = room.ok(&["devices", "add", "--scope", "watch", "--port", "7420"]).stdout;
    assert!(there.contains("ssh -L 7420:127.0.0.1:7420 HOST"), "{there}");
    let (_process, again) = serving(&room, &["--listen", "127.0.0.1:0", "--name", "box.home"]);
    assert_eq!(again["certificate"], *certificate, "the certificate is made once");
    assert_eq!(room.json(&["doctor"])["findings"], json!([]));
}

#[test]
fn the_link_of_a_device_can_name_another_address() {
    let room = TestEnv::new();
    let url = "https://team.example.org";
    let added = room.json(&["devices", "add", "--scope", "watch", "--url", url]);
    let code = added["code"].as_str().unwrap();
    assert_eq!(added["link"], format!("{url}/pair/{code}"));
    let refused = room.run(&["devices", "add", "--scope", "watch", "--url", "https://a/teams"]);
    assert!(refused.code == 2 && refused.stderr.contains("without a path"), "{refused:?}");
}

#[test]
fn a_terminal_shows_the_link_as_a_qr_code() {
    let room = TestEnv::new();
    let args = ["devices", "add", "--scope", "watch", "--url", "https://team.example.org"];
    let words: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let pitcrew = room.command(&[]).get_program().to_str().unwrap().to_owned();
    let line = format!("'{pitcrew}' --root '{}' {}", room.root().display(), words.join(" "));
    // `script` runs the command in a terminal of its own.
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let Ok(ran) = command.current_dir(room.work()).output() else {
        eprintln!("SKIPPED: `script` is not installed");
        return;
    };
    let shown = String::from_utf8(ran.stdout).unwrap();
    let rows = shown.lines().filter(|line| line.contains("\u{1b}[38;5;16m")).count();
    assert!(rows > 10, "{shown}");
    assert!(shown.contains('▀') && shown.contains('▄'), "{shown}");
}

#[test]
fn a_server_that_cannot_be_reached_as_wished_says_why() {
    let room = TestEnv::new();
    let refused = |args: &[&str], code: i32, said: &str| {
        let ran = room.run(&[&["serve"], args].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.stderr.contains(said), "{args:?}: {ran:?}");
    };
    refused(&["--listen", "localhost"], 2, "it must be an IP address");
    refused(&["--listen", "0.0.0.0:1", "--port", "2"], 2, "--listen has the port 1");
    refused(&["--name", "box.home"], 2, "--listen");
    refused(&["--behind-proxy", "http://team.example.org"], 2, "https://HOST");
    refused(&["--tls-cert", "cert.pem"], 2, "--tls-key");
    let pair = ["--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    refused(&pair, 2, "there is no file cert.pem");
    fs::write(room.work().join("cert.pem"), "no certificate").unwrap();
    fs::write(room.work().join("key.pem"), "no key").unwrap();
    refused(&pair, 2, "cannot use cert.pem: the file of the certificate has none");
    make_pair(&room.work());
    refused(&[&pair[..], &["--name", "other.home"]].concat(), 2, "it is for: box.home");
    let (_process, said) = serving(&room, &pair);
    assert!(said["url"].as_str().unwrap().starts_with("https://box.home:"), "{said}");
    assert_eq!(said["certificate"]["is_self_signed"], false);
}

/// Makes a certificate for `box.home` and its key.
fn make_pair(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=box"])
        .args(["-addext", "subjectAltName=DNS:box.home"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn idle_connections_of_one_process_leave_room_for_the_others() {
    let room = TestEnv::new();
    let (_process, said) = serving(&room, &["--port", "0"]);
    let host = said["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let token = fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
    let idle: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(host).unwrap()).collect();
    let began = Instant::now();
    let script = format!(
        "exec 3<>/dev/tcp/{}; printf 'GET /api/teams HTTP/1.1\\r\\nHost: {host}\\r\\n\
         Authorization: Bearer {token}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
        host.replace(':', "/"),
    );
    let other = Command::new("bash").args(["-c", &script]).output().unwrap();
    let answer = String::from_utf8(other.stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The idle connections would have ended by themselves after 10 s.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop(idle);
}
