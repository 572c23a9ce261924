//! Time, as operations are told it: no operation asks the system itself, so that a simulation can say what time it is.

use jiff::Timestamp;

/// Says what time it is.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// The system's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        Timestamp::now().as_millisecond()
    }
}

/// A time as the wire writes it: ISO 8601, UTC, milliseconds, `Z`.
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
