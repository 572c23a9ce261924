//! Tests in which a background command replaces a folder of the project by a link, and then puts
//! the folder back, again and again. Meanwhile, tool calls read and write files in that folder. No
//! tool call may follow the link.

use std::fs;

use serde_json::json;

use super::ground::{Ground, PASSED};
use super::host::{Host, User};
use super::list::Attack;
use super::play::{Way, play, run};
use super::{BOTH, host};

/// The number of calls of each tool.
const ROUNDS: usize = 40;

/// The folders to which the link points, relative to the ground's folder: a folder with a key,
/// git's hooks, a folder that agents must not read, and the root itself.
const TARGETS: [&str; 4] = ["home/.ssh", "work/.git/hooks", "work/denied", "home/.claude"];

/// A shell script that replaces the folder `d` by a link to `$1` and then puts the folder back. It
/// repeats this until the file `stop` exists. While the link is removed, a file tool may create a
/// new folder `d`, which the script renames.
const SWAP: &str = "
mkdir d
for name in id_rsa key pre-commit settings.json; do echo inside > d/$name; done
while [ ! -e stop ]; do
    mv -T d d_ && ln -sT $1 d && touch swapped
    rm d
    mv -T d_ d || { mv -T d d$RANDOM; mv -T d_ d; }
done 2> /dev/null
";

/// The first two calls: the first starts the swapping, and the second waits for the first swap. The
/// first command does not contain the path of the target, because the permission gate might deny a
/// command with that path.
fn swapping(ground: &Ground, target: &str) -> [Attack; 2] {
    let script = SWAP.replace("$1", ground.at(target).to_str().unwrap());
    fs::write(ground.at("work/swap.sh"), script).unwrap();
    let [starts, _] = Attack::shell("", "bash swap.sh").odder();
    [starts, Attack::shell("", "until [ -e swapped ]; do :; done")]
}

/// Tool calls on the swapped folder `d` and on files in `d`. Some of these files do not exist yet.
/// The others have a name that a file in the target of the link has too.
fn calls(ground: &Ground, nth: usize) -> Vec<Attack> {
    let at = |name: &str| ground.at("work/d").join(name).display().to_string();
    let name = ["id_rsa", "key", "pre-commit", "settings.json"][nth % 4];
    [
        ("Write", json!({"file_path": at(&format!("new{nth}")), "content": "x"})),
        ("Write", json!({"file_path": at(&format!("agents{nth}/new")), "content": "x"})),
        (
            "Edit",
            json!({"file_path": at(&format!("made{nth}")), "old_string": "", "new_string": "x"}),
        ),
        ("Read", json!({"file_path": at(name)})),
        (
            "Edit",
            json!({"file_path": at(name), "old_string": "inside", "new_string": "inside and more"}),
        ),
        ("Grep", json!({"pattern": ".", "path": at(""), "output_mode": "content"})),
        ("Grep", json!({"pattern": "CANARY", "output_mode": "content"})),
        ("Glob", json!({"pattern": "**/*", "path": at("")})),
    ]
    .map(|(tool, input)| Attack { tool, input })
    .into()
}

fn check(host: &Host, target: &str) {
    let ground = Ground::new(host);
    let settings = json!({"permissions": {"deny": ["Read(./denied/**)", "Edit(./denied/**)"]}, "sandbox": {"autoAllow": true, "passedVariables": PASSED}});
    fs::write(ground.at("home/.claude/settings.json"), settings.to_string()).unwrap();
    let mut attacks: Vec<Attack> = swapping(&ground, target).into();
    attacks.extend((0..ROUNDS).flat_map(|nth| calls(&ground, nth)));
    attacks.push(Attack::shell("", "touch stop"));
    let played = play(host, &ground, Way::AcceptEdits, &attacks);
    assert!(played.faults.is_empty(), "{host}, {target}: {:#?}", played.faults);
    let is_written = |name: &str| name.starts_with("new");
    let folders = fs::read_dir(ground.at("work")).unwrap().map(|entry| entry.unwrap().path());
    let files = folders
        .filter(|path| path.is_dir() && !path.is_symlink())
        .flat_map(|path| fs::read_dir(path).unwrap());
    let written = files
        .filter(|entry| is_written(&entry.as_ref().unwrap().file_name().to_string_lossy()))
        .count();
    eprintln!("{host}, {target}: {played}, {written} of {ROUNDS} new files are in the project");
    // If no swap happened or no call succeeded, the test would prove nothing.
    assert!(
        ground.at("work/swapped").exists() && written > 0 && played.ran > ROUNDS,
        "{host}, {target}: {played}"
    );
}

#[test]
fn no_tool_for_files_follows_a_folder_that_is_swapped_for_a_link() {
    for user in [User::Root, User::Other] {
        let Some(host) = host(user, BOTH) else { continue };
        TARGETS.iter().for_each(|target| check(&host, target));
    }
}

#[test]
fn nobody_is_asked_about_a_path_with_a_link_in_it() {
    let Some(host) = host(User::Other, BOTH) else { return };
    let ground = Ground::new(&host);
    std::os::unix::fs::symlink(ground.at("outside"), ground.at("work/link")).unwrap();
    let write = |path: &str| Attack {
        tool: "Write",
        input: json!({"file_path": ground.at(path).display().to_string(), "content": "x"}),
    };
    // The flag `--yes` answers every permission request with yes.
    let ran = run(&host, &ground, &["--yes"], &[write("work/link/new"), write("outside/other")]);
    let said = ran.results();
    let real = ground.at("outside/new").display().to_string();
    assert!(
        said[0].contains("goes through a symbolic link") && said[0].contains(&real),
        "{said:?}"
    );
    assert!(!ground.at("outside/new").exists() && ground.at("outside/other").exists(), "{said:?}");
}
