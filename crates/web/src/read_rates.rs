//! Limits how often each caller reads. Changes have the limits of the operations themselves.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many reads a caller can make at once. A page that opens makes some dozens.
const AT_ONCE: u32 = 1_000;

/// How many reads a caller gets back in each second.
const EACH_SECOND: u32 = 300;

/// The number of callers from which on those are forgotten that have all their reads.
const CALLERS_KEPT: usize = 256;

/// The holder of a key, who reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    /// Programs with the token of the server.
    Token,
    /// A browser with the cookie of this session.
    Session(String),
    /// The device with this name.
    Device(String),
}

/// The reads that each caller has left.
#[derive(Debug, Default)]
pub(crate) struct ReadRates {
    left: Mutex<HashMap<Reader, Left>>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    reads: f64,
    at: Instant,
}

impl Left {
    /// Returns what is left at a later time.
    fn at(self, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let reads = passed.mul_add(f64::from(EACH_SECOND), self.reads).min(f64::from(AT_ONCE));
        Self { reads, at: now }
    }
}

impl ReadRates {
    /// Counts a read.
    ///
    /// # Errors
    /// If the caller has none left: how long it must wait.
    pub(crate) fn count(&self, reader: Reader) -> Result<(), Duration> {
        self.count_at(reader, Instant::now())
    }

    fn count_at(&self, reader: Reader, now: Instant) -> Result<(), Duration> {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CALLERS_KEPT {
            all.retain(|_, left| left.at(now).reads < f64::from(AT_ONCE));
        }
        let whole = Left { reads: f64::from(AT_ONCE), at: now };
        let left = all.entry(reader).or_insert(whole);
        *left = left.at(now);
        if left.reads < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left.reads) / f64::from(EACH_SECOND)));
        }
        left.reads -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_reads_too_often_waits_and_the_others_do_not() {
        let (rates, start) = (ReadRates::default(), Instant::now());
        let device = |name: &str| Reader::Device(name.to_owned());
        for _ in 0..AT_ONCE {
            rates.count_at(device("phone"), start).unwrap();
        }
        let wait = rates.count_at(device("phone"), start).unwrap_err();
        assert!(wait <= Duration::from_secs(1) / EACH_SECOND, "{wait:?}");
        rates.count_at(device("tablet"), start).unwrap();
        let later = start + Duration::from_secs(1);
        for _ in 0..EACH_SECOND {
            rates.count_at(device("phone"), later).unwrap();
        }
        rates.count_at(device("phone"), later).unwrap_err();
    }

    #[test]
    fn callers_that_have_all_their_reads_are_forgotten() {
        let (rates, start) = (ReadRates::default(), Instant::now());
        for number in 0..CALLERS_KEPT {
            rates.count_at(Reader::Session(number.to_string()), start).unwrap();
        }
        let later = start + Duration::from_secs(60);
        rates.count_at(Reader::Token, later).unwrap();
        assert_eq!(rates.left.lock().unwrap().len(), 1);
    }
}
