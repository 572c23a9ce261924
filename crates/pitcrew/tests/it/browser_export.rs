//! Files of `pitcrew export --html` in a real browser, which opens them from the disk: the run of the
//! demo, a run with texts that try to be HTML, and one of agents with special names.

use std::process::Stdio;

use crate::browser::{TESTS, lacks};
use crate::export::completed;

#[test]
fn exported_replays_are_played_from_the_disk() {
    if let Some(why) = lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let room = completed();
    room.ok(&["demo", "--dir", "demo"]);
    let names = format!("script:{TESTS}/names.yaml");
    room.ok(&["run", "use the names", "--team", "names", "--model", &names, "--yes"]);
    room.ok(&["export", "names", "--html", "names.html"]);
    room.ok(&["export", "work", "--html", "work.html"]);
    room.ok(&["--root", "demo/root", "export", "demo", "--html", "demo.html"]);
    let mut node = room.tool("node", &["--test", "--test-reporter=spec"]);
    node.arg(format!("{TESTS}/page.test.mjs")).stdin(Stdio::null());
    node.env("PITCREW_REPLAYS", room.work());
    if let Some(shots) = std::env::var_os("PITCREW_SHOTS") {
        node.env("PITCREW_SHOTS", shots);
    }
    let tested = node.output().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}{}", String::from_utf8_lossy(&tested.stderr));
}
