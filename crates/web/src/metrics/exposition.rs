//! Writes metrics in the text format of Prometheus, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{self, Write as _};

use pitcrew_view::text::printable;

/// The media type of the format.
pub(crate) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The maximum number of characters of a label value. Longer values are cut.
const LABEL_CHARS: usize = 100;

/// The type of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}

/// The text of a scrape.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a metric. The format requires that all samples of a metric are together, so the
    /// metric borrows the text.
    pub(super) fn metric(&mut self, name: &'static str, kind: Kind, help: &str) -> Metric<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let text = &mut self.text;
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Metric { text, name }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A metric whose samples are being written.
#[derive(Debug)]
pub(super) struct Metric<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Metric<'_> {
    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        self.part("", labels, value);
    }

    /// Adds a sample of a histogram. `part` is the end of its name, such as `_bucket`.
    pub(super) fn part(&mut self, part: &str, labels: &[(&str, &str)], value: impl Into<Number>) {
        self.text.push_str(self.name);
        self.text.push_str(part);
        for (nth, (key, value)) in labels.iter().enumerate() {
            let before = if nth == 0 { '{' } else { ',' };
            self.text.push(before);
            self.text.push_str(&format!("{key}=\"{}\"", escaped(value)));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        // Writing to a text cannot fail.
        let _written = writeln!(self.text, " {}", value.into());
    }
}

/// Returns a label value as a series has it: at most [`LABEL_CHARS`] long and without characters
/// that control a terminal. Two names can become the same value, so callers add up by this value.
pub(super) fn label(text: &str) -> String {
    let short: String = text.chars().take(LABEL_CHARS).collect();
    printable(&short).into_owned()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_escaped_labels() {
        let mut exposition = Exposition::default();
        let mut metric = exposition.metric("turns_total", Kind::Counter, "Turns.\nAll \\ of them.");
        metric.sample(&[], 3_u64);
        metric.sample(&[("team", "a\"b\\c\nd"), ("model", "x")], 0.25);
        assert_eq!(
            exposition.into_text(),
            "# HELP turns_total Turns.\\nAll \\\\ of them.\n\
             # TYPE turns_total counter\n\
             turns_total 3\n\
             turns_total{team=\"a\\\"b\\\\c\\nd\",model=\"x\"} 0.25\n"
        );
    }

    #[test]
    fn a_label_is_short_and_controls_no_terminal() {
        assert_eq!(label("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(label(&"ä".repeat(500)).chars().count(), LABEL_CHARS);
    }
}
