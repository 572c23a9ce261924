//! The report of the measured values: a line for each window, and a comparison of the last minute
//! with the first minute.

use std::time::Duration;

use crate::model::ModelStats;
use crate::options::Options;
use crate::process::ProcessReading;

/// The maximum growth of the team's memory, in bytes for each byte by which the transcripts grew.
const MEMORY_LIMIT: f64 = 2.0;

/// The maximum of the median latency in the last minute, divided by the median latency in the first
/// minute.
const LATENCY_LIMIT: f64 = 1.5;

/// The length of each of the two periods that are compared. In a short run, this is a quarter of
/// the run.
const SPAN: Duration = Duration::from_secs(60);

/// The sizes of the team's files, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Files {
    pub(crate) transcripts: u64,
    pub(crate) journal: u64,
    pub(crate) inboxes: u64,
    /// The total size of the team's files that only pitcrew uses. It includes the transcripts and
    /// the journal.
    pub(crate) ours: u64,
}

/// The values at the end of a window, and the model's statistics of that window.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) model: ModelStats,
    pub(crate) team: ProcessReading,
    pub(crate) server: ProcessReading,
    pub(crate) files: Files,
}

/// All samples. The first sample is from the start of the measurement.
pub(crate) struct Report {
    options: Options,
    samples: Vec<Sample>,
}

/// The model's statistics of several windows, added together.
struct Span {
    seconds: f64,
    requests: u64,
    arrived: u64,
    mail_us: Vec<u64>,
    step_us: Vec<u64>,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        println!(
            "soak: {} agents, {} s, model thinks {:?}, context window {} tokens",
            options.agents, options.seconds, options.think, options.context_window
        );
        println!(
            "{:>5} {:>7} {:>7} {:>7} {:>15} {:>15} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6} {:>8} {:>4}",
            "s",
            "req/s",
            "mail/s",
            "KB/req",
            "mail p50/p95",
            "step p50/p95",
            "RSS",
            "transc",
            "journal",
            "inboxes",
            "all",
            "cpu %",
            "server",
            "written",
            "summ"
        );
        Self { options: options.clone(), samples: Vec::new() }
    }

    /// Adds a sample, and prints the line of the report for this sample.
    pub(crate) fn add(&mut self, sample: Sample) {
        let before = self.samples.last().unwrap_or(&sample);
        let span = Span::of(std::slice::from_ref(&sample), before.at);
        let share = |now: &ProcessReading, before: &ProcessReading| {
            100.0 * (now.cpu_seconds - before.cpu_seconds) / span.seconds.max(0.001)
        };
        println!(
            "{:>5.0} {:>7.1} {:>7.1} {:>7.1} {:>15} {:>15} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>6.0} {:>6.0} {:>8.1} {:>4}",
            sample.at.as_secs_f64(),
            span.requests as f64 / span.seconds.max(0.001),
            span.arrived as f64 / span.seconds.max(0.001),
            sample.model.request_bytes as f64 / 1000.0 / (span.requests.max(1) as f64),
            pair(&span.mail_us),
            pair(&span.step_us),
            mb(sample.team.resident),
            mb(sample.files.transcripts),
            mb(sample.files.journal),
            mb(sample.files.inboxes),
            mb(sample.files.ours + sample.files.inboxes),
            share(&sample.team, &before.team),
            share(&sample.server, &before.server),
            mb(sample.team.written - before.team.written),
            sample.model.summaries,
        );
        self.samples.push(sample);
    }

    /// Prints a comparison of the last minute with the first minute. If a long run exceeds a limit,
    /// the benchmark fails.
    pub(crate) fn finish(&self) {
        let (Some(start), Some(end)) = (self.samples.first(), self.samples.last()) else { return };
        let length = SPAN.min(end.at.saturating_sub(start.at) / 4);
        let first: Vec<Sample> = self.between(start.at, start.at + length);
        let last: Vec<Sample> = self.between(end.at.saturating_sub(length), end.at);
        let before_last = self.samples.iter().rev().nth(last.len()).unwrap_or(start);
        let (first, last) = (Span::of(&first, start.at), Span::of(&last, before_last.at));
        let sent: u64 = self.samples.iter().map(|sample| sample.model.sent).sum();
        let summaries: u64 = self.samples.iter().map(|sample| sample.model.summaries).sum();
        println!("{sent} messages, {summaries} compactions; of the threads, in processor seconds:");
        for (name, seconds) in end.team.cpu_since(&start.team) {
            println!("  {name:<20} {seconds:.1}");
        }
        println!("first and last {:.0} s:", first.seconds);
        println!("  requests/s  {:.1}  {:.1}", first.rate(), last.rate());
        println!("  message p50/p95, ms  {}  {}", pair(&first.mail_us), pair(&last.mail_us));
        println!("  step p50/p95, ms  {}  {}", pair(&first.step_us), pair(&last.step_us));
        let grown = end.team.resident.saturating_sub(start.team.resident);
        let transcripts = end.files.transcripts.saturating_sub(start.files.transcripts);
        let memory = grown as f64 / transcripts.max(1) as f64;
        let mail = percentile(&last.mail_us, 50) / percentile(&first.mail_us, 50).max(0.001);
        let step = percentile(&last.step_us, 50) / percentile(&first.step_us, 50).max(0.001);
        println!(
            "  memory {:.1} to {:.1} MB, transcripts {:.1} to {:.1} MB: growth ratio {memory:.2}   limit {MEMORY_LIMIT}",
            mb(start.team.resident),
            mb(end.team.resident),
            mb(start.files.transcripts),
            mb(end.files.transcripts)
        );
        println!(
            "  p50 of messages, last to first {mail:.2}, of steps {step:.2}   limit {LATENCY_LIMIT}"
        );
        assert!(sent > 0 && last.arrived > 0, "messages were sent and arrived");
        assert_eq!(end.model.lost, 0, "messages were lost");
        if self.options.is_judged() {
            assert!(summaries > 0, "conversations were compacted");
            assert!(
                memory <= MEMORY_LIMIT,
                "memory grew by more than {MEMORY_LIMIT} times the transcripts"
            );
            assert!(
                mail <= LATENCY_LIMIT && step <= LATENCY_LIMIT,
                "the last minute is slower than the first"
            );
        }
    }

    /// Returns the samples of the windows that end after `from` and not later than `to`.
    fn between(&self, from: Duration, to: Duration) -> Vec<Sample> {
        // A window may end some milliseconds later than planned.
        let late = Duration::from_millis(500);
        let is_in = |sample: &&Sample| sample.at > from + late && sample.at <= to + late;
        self.samples.iter().skip(1).filter(is_in).cloned().collect()
    }
}

impl Span {
    fn of(samples: &[Sample], from: Duration) -> Self {
        let sum =
            |part: fn(&ModelStats) -> u64| samples.iter().map(|sample| part(&sample.model)).sum();
        let sorted = |part: fn(&ModelStats) -> &[u64]| {
            let mut all: Vec<u64> =
                samples.iter().flat_map(|sample| part(&sample.model)).copied().collect();
            all.sort_unstable();
            all
        };
        let end = samples.last().map_or(from, |sample| sample.at);
        Self {
            seconds: end.saturating_sub(from).as_secs_f64(),
            requests: sum(|stats| stats.requests),
            arrived: sum(|stats| stats.arrived),
            mail_us: sorted(|stats| &stats.mail_us),
            step_us: sorted(|stats| &stats.step_us),
        }
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(0.001)
    }
}

/// Returns the value below which `percent` percent of the values are, in milliseconds. `sorted`
/// contains the values in microseconds.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |micros| *micros as f64 / 1000.0)
}

fn pair(sorted: &[u64]) -> String {
    format!("{:.1}/{:.1}", percentile(sorted, 50), percentile(sorted, 95))
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
