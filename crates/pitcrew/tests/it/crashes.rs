//! Crashes of random members at random moments: whatever dies, nothing of it is left.
//!
//! Each test is one team on a real tmux server that loses members, and its lead, twenty times. Who dies, and after how
//! many further entries of the journal, follows from a seed; when exactly, the machine decides. The seeds that are kept are
//! those that found something. `PITCREW_CRASH_SEED` replays one that was printed, or hunts with a new one (`any`). The
//! team is `crew`'s, what is looked for is `remains`'.

mod agents;
mod remains;

use std::hash::{BuildHasher as _, RandomState};

use agents::Crew;

/// How many crashes there are in each of the tests.
const CRASHES: usize = 20;

/// Numbers that follow from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// Lets a team crash so often, and looks each time at what is left.
fn crash(seed: u64) {
    let seed = match std::env::var("PITCREW_CRASH_SEED").as_deref() {
        Ok("any") => RandomState::new().hash_one(seed),
        Ok(given) => given.parse().unwrap(),
        Err(_) => seed,
    };
    eprintln!("PITCREW_CRASH_SEED={seed}");
    let Some(mut crew) = Crew::start(Chance(seed), CRASHES) else { return };
    while crew.crashes() < CRASHES {
        let before = crew.crashes();
        crew.crash();
        crew.check_what_is_left(before);
    }
    crew.check_agreement();
    crew.end();
}

#[test]
fn nothing_is_left_of_the_first_twenty_that_crash() {
    crash(7);
}

#[test]
fn nothing_is_left_of_the_second_twenty_that_crash() {
    crash(11);
}

#[test]
fn nothing_is_left_of_the_third_twenty_that_crash() {
    crash(34);
}

#[test]
fn nothing_is_left_of_the_fourth_twenty_that_crash() {
    crash(16_124_544_604_424_101_909);
}

#[test]
fn nothing_is_left_of_the_fifth_twenty_that_crash() {
    crash(16_954_497_691_944_355_745);
}
