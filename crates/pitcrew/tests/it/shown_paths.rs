//! Paths with a line break and an escape sequence in their names. What a command prints of them is
//! one line and steers no terminal.

use std::fs;

use crate::export::completed;
use crate::running::Running;
use crate::test_env::TestEnv;

/// A name that would begin a line of its own and clear the terminal.
const NAME: &str = "a\n\u{1b}[2Jb";
const SHOWN: &str = "a\\n\\u{1b}[2Jb";

#[test]
fn a_server_and_a_view_show_such_a_path_on_one_line() {
    let room = TestEnv::new();
    let root = room.work().join(NAME);
    fs::create_dir(&root).unwrap();
    let args = ["--root", root.to_str().unwrap(), "serve", "--port", "0"];
    let mut process = Running::answering(&mut room.command(&args));
    process.until(&format!("programs send the token in {}/{SHOWN}/", room.work().display()));
    drop(process);
    let given = root.join("no.ndjson");
    let missing = room.run(&["view", given.to_str().unwrap(), "--no-open"]);
    assert!(missing.stderr.contains(&format!("{SHOWN}/no.ndjson")), "{missing:?}");
    let pair = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", NAME, "--tls-key", NAME];
    let refused = room.run(&pair);
    assert!(refused.stderr.contains(&format!("cannot read {SHOWN}")), "{refused:?}");
}

#[test]
fn an_export_shows_the_path_of_its_file_on_one_line() {
    let room = completed();
    for kind in ["--html", "--markdown"] {
        let file = format!("{NAME}{kind}");
        let exported = room.ok(&["export", "work", kind, &file]);
        let said = format!("{SHOWN}{kind}; ");
        assert!(exported.stdout.contains(&said), "{exported:?}");
        let again = room.run(&["export", "work", kind, &file]);
        assert!(again.stderr.contains(&format!("{SHOWN}{kind} exists")), "{again:?}");
    }
}
