//! The clock that all team operations use. No operation asks the operating system for the time, so
//! a simulation is able to set the time.

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time in milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now_ms(&self) -> i64 {
        Timestamp::now().as_millisecond()
    }
}

/// Formats a time in the form that messages use: ISO 8601 in UTC, with milliseconds and `Z`.
pub(crate) fn wire_time(ms: i64) -> String {
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_milliseconds_always() {
        assert_eq!(wire_time(1_795_175_309_000), "2026-11-20T11:48:29.000Z");
        assert_eq!(wire_time(i64::MAX), "1970-01-01T00:00:00.000Z");
    }
}
