//! The attack suite: a scripted model makes every attack of `crates/runtime/tests/attacks.txt`
//! through the real binary. The attacks run as root and as another user, on machines that offer
//! Landlock, bubblewrap, both or neither.
//!
//! Each permission mode and each sandbox profile makes its own promises. The tests check these
//! promises: they compare the files before and after, and count the connections to listening
//! sockets. Every secret file contains a text that no result may contain.
//!
//! A part of the attacks, chosen by a seed, always runs. `PITCREW_ATTACKS=all` runs all attacks,
//! and a number as its value runs another part. If an attack cannot run on this machine, it is
//! reported as skipped.
//!
//! The sandbox must also stop a command that the parser of shell commands judges wrongly. The tests
//! `sandbox_attacks` of the crate `pitcrew-runtime` cover that case. They start each attack in the
//! sandbox profile `read`, as if the parser had decided that the attack only reads.

mod control_socket;
mod ground;
mod host;
mod list;
mod pane_teammate;
mod play;
mod sandbox_settings;
mod swapped_folders;

use ground::Ground;
use host::{Host, Mechanism, User};
use list::{Attack, Extent};
use play::{Played, Way, culprit, play};

const BOTH: Mechanism = Mechanism { landlock: true, bubblewrap: true };
const LANDLOCK: Mechanism = Mechanism { landlock: true, bubblewrap: false };
const BUBBLEWRAP: Mechanism = Mechanism { landlock: false, bubblewrap: true };
const NEITHER: Mechanism = Mechanism { landlock: false, bubblewrap: false };

/// Words that mark an attack through a program of the machine, such as `sudo`. The sandbox profile
/// `free` does not prevent such attacks. They are not run with the profile `free`, because they
/// could harm the tester's own machine.
const OF_THE_MACHINE: [&str; 7] =
    ["crontab", "at now", "systemd-run", "mount", "kill", "sudo", "pkexec"];

/// Prints a clear message that `what` was not tested on this machine, with the reason `why`.
fn skipped(what: &str, why: &str) {
    eprintln!("\n!!! SKIPPED: {what}: {why}. Nothing was proved about it on this machine. !!!\n");
}

/// Makes a host. Returns `None` if the host cannot be simulated here, or does not offer the
/// expected mechanisms.
fn host(user: User, means: Mechanism) -> Option<Host> {
    let host = match Host::new(user, means) {
        Ok(host) => host,
        Err(reason) => {
            skipped(&format!("attacks as {user:?} with {means:?}"), &reason);
            return None;
        }
    };
    let held = host.held();
    let is_offered = |what: &str| what.starts_with("held");
    let Mechanism { landlock, bubblewrap } = means;
    let found = (is_offered(&held.read), is_offered(&held.work), is_offered(&held.free));
    let expected = (landlock, landlock && bubblewrap, landlock || bubblewrap);
    // A sandbox profile must not be available without the mechanisms that it needs. But a profile
    // may be unavailable although the machine offers all of its mechanisms.
    assert!(
        found.0 <= expected.0 && found.1 <= expected.1 && found.2 <= expected.2,
        "{host}: {held:?}"
    );
    if found != expected {
        skipped(&host.to_string(), &format!("{held:?}"));
        return None;
    }
    Some(host)
}

/// A shell command that recreates the file `own` in the working folder if an earlier attack removed
/// that file.
const AGAIN: &str = "[ -e own ] || echo own > own; ";

/// The attacks to try under `way`, which is a permission mode and the restrictions of commands.
fn attacks(ground: &Ground, way: Way) -> Vec<Attack> {
    match way {
        Way::Default | Way::Plan => bounded(ground, &["outside/secret", SETTINGS, "work/kept"], ""),
        Way::AcceptEdits => bounded(ground, &["outside/secret", SETTINGS, "work/.git/config"], ""),
        Way::Sandbox => bounded(
            ground,
            &["outside/secret", SETTINGS, "work/.git/config", "work/.claude/settings.json"],
            AGAIN,
        ),
        Way::Bypass => free(
            ground,
            &[
                SETTINGS,
                "home/.claude/teams/other/config.json",
                "home/.claude/pitcrew/trusted.json",
            ],
        ),
        Way::Rule => free(ground, &[SETTINGS]),
    }
}

/// The path of the user's settings file, relative to the ground's folder.
const SETTINGS: &str = "home/.claude/settings.json";

/// The attacks on targets that restricted commands must not reach. These attacks write, read,
/// connect and send signals. The first target file gets the first, third and fifth command of a
/// section, and so on. The next target file gets the other commands of the section.
fn bounded(ground: &Ground, targets: &[&str], before: &str) -> Vec<Attack> {
    let mut attacks = Vec::new();
    for (nth, target) in targets.iter().map(|target| ground.at(target)).enumerate() {
        attacks.extend(
            Attack::of_section("write", &target, before).into_iter().skip(nth % 2).step_by(2),
        );
        attacks.extend(Attack::writing_by_tools(&target));
    }
    for (nth, secret) in ground.secrets().into_iter().enumerate() {
        attacks.extend(
            Attack::of_section("read", &secret, before).into_iter().skip(nth % 2).step_by(2),
        );
        attacks.extend(Attack::reading_by_tools(&secret));
    }
    for section in ["connect", "signal"] {
        attacks.extend(Attack::of_section(section, "".as_ref(), before));
    }
    let odd = attacks
        .iter()
        .filter(|attack| attack.tool == "Bash")
        .step_by(9)
        .cloned()
        .flat_map(Attack::odder);
    attacks.extend(odd.collect::<Vec<_>>());
    attacks
}

/// The attacks for commands that run without restrictions. These attacks only write.
fn free(ground: &Ground, targets: &[&str]) -> Vec<Attack> {
    let mut attacks = Vec::new();
    for target in targets.iter().map(|target| ground.at(target)) {
        attacks.extend(Attack::of_section("write", &target, AGAIN));
        attacks.extend(Attack::writing_by_tools(&target));
    }
    attacks.retain(|attack| OF_THE_MACHINE.iter().all(|word| !attack.text().contains(word)));
    attacks
}

/// Runs the attacks under `way` and returns the result. If any attack succeeds, the test fails.
fn play_way(host: &Host, way: Way) -> Played {
    let extent = Extent::chosen();
    let chosen = |ground: &Ground| extent.of(attacks(ground, way));
    let ground = Ground::new(host);
    let played = play(host, &ground, way, &chosen(&ground));
    eprintln!("{host}, {way:?}: {played}");
    if !played.faults.is_empty() {
        let culprit = culprit(host, way, &chosen);
        panic!("{host}, {way:?}, at least by `{culprit}`: {:#?}", played.faults);
    }
    played
}

fn play_all(user: User, means: Mechanism, ways: &[Way]) {
    let Some(host) = host(user, means) else { return };
    for way in ways {
        let played = play_way(&host, *way);
        assert!(played.attacks > 0, "{way:?}");
    }
}

const ASKING: [Way; 3] = [Way::Default, Way::Plan, Way::AcceptEdits];
const FREE: [Way; 2] = [Way::Bypass, Way::Rule];

#[test]
fn with_landlock_and_bubblewrap_root_is_held_where_commands_are_asked_for() {
    play_all(User::Root, BOTH, &ASKING);
}

#[test]
fn with_landlock_and_bubblewrap_another_user_is_held_where_commands_are_asked_for() {
    play_all(User::Other, BOTH, &ASKING);
}

#[test]
fn with_landlock_and_bubblewrap_root_is_held_in_the_sandbox() {
    play_all(User::Root, BOTH, &[Way::Sandbox]);
}

#[test]
fn with_landlock_and_bubblewrap_another_user_is_held_in_the_sandbox() {
    play_all(User::Other, BOTH, &[Way::Sandbox]);
}

#[test]
fn with_landlock_and_bubblewrap_free_commands_of_root_leave_what_is_kept() {
    play_all(User::Root, BOTH, &FREE);
}

#[test]
fn with_landlock_and_bubblewrap_free_commands_of_another_user_leave_what_is_kept() {
    play_all(User::Other, BOTH, &FREE);
}

#[test]
fn with_landlock_alone_root_is_held() {
    play_all(User::Root, LANDLOCK, &[&ASKING[..], &FREE[..]].concat());
}

#[test]
fn with_landlock_alone_another_user_is_held() {
    play_all(User::Other, LANDLOCK, &[&ASKING[..], &FREE[..]].concat());
}

#[test]
fn with_bubblewrap_alone_root_is_held() {
    play_all(User::Root, BUBBLEWRAP, &[&ASKING[..], &FREE[..]].concat());
}

#[test]
fn with_bubblewrap_alone_another_user_is_held() {
    play_all(User::Other, BUBBLEWRAP, &[&ASKING[..], &FREE[..]].concat());
}

#[test]
fn with_nothing_root_is_asked_for_all_but_builtins() {
    play_all(User::Root, NEITHER, &ASKING);
}

#[test]
fn with_nothing_another_user_is_asked_for_all_but_builtins() {
    play_all(User::Other, NEITHER, &ASKING);
}
