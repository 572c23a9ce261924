//! Parses the times and ages that users type, and formats times. All times are in UTC.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

/// A time that the user typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The time this long ago.
    Ago(Duration),
    /// This time, in milliseconds since 1970.
    At(i64),
}

impl Since {
    /// Returns the time in milliseconds since 1970.
    pub(crate) fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Ago(ago) => {
                now_ms.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX))
            }
            Self::At(at_ms) => at_ms,
        }
    }
}

/// Parses an age such as `30d`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let span: Option<Span> = text.parse().ok();
    let duration = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    duration
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "an age such as 12h, 30d or 8w".to_owned())
}

/// Parses an age, or a time with or without a time zone.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    if let Ok(ago) = age(text) {
        return Ok(Since::Ago(ago));
    }
    let in_utc = || text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
    let at = text.parse::<Timestamp>().or_else(|_| in_utc().map(|time| time.timestamp()));
    at.map(|at| Since::At(at.as_millisecond())).map_err(|_| {
        "an age such as 10m, 2h or 3d, or a time such as 2026-11-23 or 2026-11-23T14:05".to_owned()
    })
}

/// Formats the day of a time.
pub(crate) fn day(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| at.strftime("%Y-%m-%d").to_string())
}

/// Formats the time of day, to the second.
pub(crate) fn time_of_day(at_ms: i64) -> Option<String> {
    Timestamp::from_millisecond(at_ms).ok().map(|at| at.strftime("%H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_an_age_or_a_day_with_or_without_a_time_of_day() {
        let day = 1_795_392_000_000;
        assert_eq!(since("10m"), Ok(Since::Ago(Duration::from_secs(600))));
        assert_eq!(Since::Ago(Duration::from_secs(600)).at_ms(day), day - 600_000);
        for (text, at_ms) in [
            ("2026-11-23", day),
            ("2026-11-23T14:05", day + (14 * 60 + 5) * 60_000),
            ("2026-11-23 14:05:01", day + ((14 * 60 + 5) * 60 + 1) * 1000),
            ("2026-11-23T14:05:00Z", day + (14 * 60 + 5) * 60_000),
            ("2026-11-23T14:05:00+02:00", day + (12 * 60 + 5) * 60_000),
        ] {
            assert_eq!(since(text), Ok(Since::At(at_ms)), "{text}");
        }
        for wrong in ["", "yesterday", "-5m", "2026-13-01"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
