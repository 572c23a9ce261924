//! Tests in which random members crash at random moments. Nothing of a crashed process may be left
//! behind.
//!
//! Each test runs one team on a real tmux server, and twenty times kills a teammate or the lead.
//! Random numbers from a seed decide which process is killed, and how many journal entries the team
//! writes before that. The exact moment depends on the machine. Each test prints its seed, and the
//! seeds in these tests once found a bug. If the environment variable `PITCREW_CRASH_SEED` contains
//! a number, the tests use this number as the seed. If the variable contains `any`, each test uses
//! a new seed. The module `agents` contains the team, and the module `remains` contains the checks.

mod agents;
mod remains;

use std::hash::{BuildHasher as _, RandomState};

use agents::Crew;

/// The number of crashes in each test.
const CRASHES: usize = 20;

/// A generator of random numbers from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    /// Returns the next random number, which is below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// Crashes a team `CRASHES` times, and checks after each crash that nothing is left behind.
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
