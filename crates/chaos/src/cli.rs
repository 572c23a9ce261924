//! The command line of the harness. It decides which runs to make and how many at the same time,
//! and prints their results.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::{Error, chain};
use crate::plan::{CUTS_A_RUN, Place, Plan, StaleWrites};
use crate::run::{Options, Outcome, run};

/// Seeds whose runs failed in the past. They run first.
const KEPT: &str = include_str!("../seeds.txt");

/// Seeds whose runs failed in the past, for runs that check how each process of the lead ends.
const KEPT_ENDS: &str = include_str!("../seeds-ends.txt");

/// True after the user pressed Ctrl-C, or after SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);

/// Crash teams of pitcrew, and check what is left of them
///
/// Each run is determined by its seed. A run with a finding prints its plan, its log and the
/// findings.
#[derive(Debug, Parser)]
#[command(name = "pitcrew-chaos", version)]
pub struct Chaos {
    /// How many runs to make, from seed 0 up
    #[arg(long, default_value_t = 150, conflicts_with = "seeds")]
    runs: u64,
    /// The seeds, such as 40..150 or 7
    #[arg(long, value_parser = seeds, value_name = "A..B")]
    seeds: Option<Range<u64>>,
    /// Where all members run [default: depends on the seed]
    #[arg(long)]
    only: Option<Only>,
    /// Make runs whose crashes are power cuts, with this many cuts in total
    #[arg(long, value_name = "CUTS", conflicts_with_all = ["runs", "seeds", "only"])]
    power_cuts: Option<u64>,
    /// Make this many runs without a crash, in which a program writes old file contents back 800
    /// times, while commands send 1,200 messages and update tasks 40 times
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["runs", "seeds", "only", "power_cuts"])]
    stale_writes: Option<u64>,
    /// Make this many runs that are stopped by signals, kills, failing models and full disks, and
    /// then resumed. Each time that a process of the lead ends, check that its output and its exit
    /// code agree with the team's files
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["runs", "seeds", "only", "power_cuts", "stale_writes"])]
    ends: Option<u64>,
    /// Make this many detached runs with user interfaces attached, which are killed at random moments
    /// while the host is killed and resumed. Check the events and screens of each
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["runs", "seeds", "only", "power_cuts", "stale_writes", "ends"])]
    faces: Option<u64>,
    /// The first seed for --power-cuts, --stale-writes, --ends or --faces
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Runs at one time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The binary [default: pitcrew beside this program]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Leave out the seeds that failed once
    #[arg(long)]
    without_kept: bool,
    /// Keep the folders of runs with findings
    #[arg(long)]
    keep: bool,
    /// Print one line of JSON for each run
    #[arg(long)]
    json: bool,
    /// Print the plans and make no run
    #[arg(long)]
    plan: bool,
    /// Print the log of every run
    #[arg(long, short)]
    verbose: bool,
}

/// The place where all members run.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Only {
    /// In the lead's process
    InProcess,
    /// In panes of a tmux server
    Panes,
    /// Some in the lead's process, some in panes
    Mixed,
}

impl Chaos {
    /// Makes the runs.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                say(&format!("pitcrew-chaos: cannot start: {error}"));
                return ExitCode::from(70);
            }
        };
        match runtime.block_on(self.all()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(error) => {
                say(&format!("pitcrew-chaos: {}", chain(&error)));
                ExitCode::from(if matches!(error, Error::Stopped) { 130 } else { 70 })
            }
        }
    }

    /// Makes all runs. Returns true if no run has a finding.
    async fn all(&self) -> Result<bool, Error> {
        let plans = self.plans();
        if self.plan {
            plans.iter().for_each(|plan| say(&plan.to_string()));
            return Ok(true);
        }
        if self.ends.is_some() && ignores_hang_up() {
            return Err(Error::HangUpIgnored);
        }
        let options = Options { binary: self.binary()?, keeps: self.keep };
        let at_once = Arc::new(Semaphore::new(self.jobs.max(1)));
        let (count, started) = (plans.len(), Instant::now());
        let mut runs: JoinSet<SeedResult> = JoinSet::new();
        for plan in plans {
            let (at_once, options) = (Arc::clone(&at_once), options.clone());
            runs.spawn(async move {
                let (seed, _turn) = (plan.seed, at_once.acquire_owned().await);
                let stopped = STOP.load(Ordering::SeqCst);
                (seed, if stopped { Err(Error::Stopped) } else { run(plan, options, &STOP).await })
            });
        }
        let stop = tokio::spawn(stop_at_signal());
        let tally = self.collect(runs, count).await?;
        stop.abort();
        self.tell_sum(&tally, started.elapsed());
        Ok(tally.failed.is_empty())
    }

    /// Prints the result of each run when the run has ended, and adds it to the totals.
    async fn collect(&self, mut runs: JoinSet<SeedResult>, count: usize) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        while let Some(joined) = runs.join_next().await {
            let action = "join a run".to_owned();
            let (seed, outcome) =
                joined.map_err(|error| Error::Io { action, source: error.into() })?;
            match outcome {
                Ok(outcome) => {
                    tally.add(&outcome);
                    self.tell(&outcome, tally.runs, count);
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                // Print the error, and continue with the other seeds.
                Err(error) => {
                    say(&format!("seed {seed}: the harness failed: {}", chain(&error)));
                    tally.failed.push(seed);
                }
            }
        }
        Ok(tally)
    }

    fn tell_sum(&self, tally: &Tally, took: Duration) {
        let Tally { runs, crashes, failed, skipped, kinds, ends } = tally;
        let took = took.as_secs();
        let summary = json!({
            "runs": runs, "crashes": crashes, "failed": failed, "skipped": skipped, "seconds": took, "harms": kinds,
            "ends": ends,
        });
        if self.ends.is_some() && !self.json {
            say(&format!("harms: {}", counts(kinds)));
            say(&format!("ends: {}", counts(ends)));
        }
        say(&if self.json {
            summary.to_string()
        } else {
            let failed = if failed.is_empty() {
                String::new()
            } else {
                format!(", failed seeds: {failed:?}")
            };
            format!(
                "{runs} runs with {crashes} crashes in {took} s, {} skipped in part{failed}",
                skipped.len()
            )
        });
    }

    fn plans(&self) -> Vec<Plan> {
        let only = self.only.map(|only| match only {
            Only::InProcess => Place::InProcess,
            Only::Panes => Place::Panes,
            Only::Mixed => Place::Mixed,
        });
        let stale = |seed| Plan::of_stale_writes(seed, StaleWrites::LONG);
        if let Some(runs) = self.faces {
            return (self.from..self.from.saturating_add(runs)).map(Plan::of_faces).collect();
        }
        match (self.power_cuts, self.stale_writes, self.ends) {
            (Some(cuts), ..) => (self.from..self.from + cuts.div_ceil(CUTS_A_RUN))
                .map(Plan::of_power_cuts)
                .collect(),
            (None, Some(runs), _) => (self.from..self.from + runs).map(stale).collect(),
            (None, None, Some(runs)) => {
                self.seeds_of_ends(runs).into_iter().map(Plan::of_ends).collect()
            }
            (None, None, None) => {
                self.seeds().into_iter().map(|seed| Plan::of(seed, only)).collect()
            }
        }
    }

    fn seeds(&self) -> Vec<u64> {
        let range = self.seeds.clone().unwrap_or(0..self.runs);
        in_order(range, if self.without_kept || self.seeds.is_some() { Vec::new() } else { kept() })
    }

    fn seeds_of_ends(&self, runs: u64) -> Vec<u64> {
        let range = self.from..self.from.saturating_add(runs);
        let mut kept = if self.without_kept { Vec::new() } else { kept_ends() };
        kept.retain(|seed| range.contains(seed));
        in_order(range, kept)
    }

    fn binary(&self) -> Result<PathBuf, Error> {
        let own = || {
            let own =
                std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
            Ok(own.with_file_name("pitcrew"))
        };
        let binary = self.binary.clone().map_or_else(own, Ok)?;
        binary.canonicalize().map_err(Error::io("find", &binary))
    }

    fn tell(&self, outcome: &Outcome, nth: usize, count: usize) {
        let Outcome { plan, crashes, findings, log, folder, took, skipped, figures, ends, .. } =
            outcome;
        if self.json {
            say(&json_line(outcome).to_string());
            return;
        }
        let verdict = if findings.is_empty() { "ok" } else { "FAILED" };
        let place = plan.place.as_str();
        let took = took.as_secs_f64();
        say(&format!(
            "[{nth}/{count}] seed {}: {place}, {crashes} crashes, {took:.1} s: {verdict}",
            plan.seed
        ));
        for what in skipped {
            say(&format!("  skipped: {what}"));
        }
        if !ends.is_empty() {
            say(&format!("  ends: {}", counts(ends)));
        }
        if let Some(figures) = figures {
            say(&format!("  {figures}"));
        }
        if !findings.is_empty() || self.verbose {
            say(plan.to_string().trim_end());
            log.iter().for_each(|line| say(&format!("  {line}")));
        }
        for finding in findings {
            say(&format!("  FOUND {}: {}", finding.kind, finding.text));
        }
        if let Some(folder) = folder {
            say(&format!("  kept: {}", folder.display()));
        }
    }
}

/// The seed of a run, and the run's outcome or an error of the harness.
type SeedResult = (u64, Result<Outcome, Error>);

/// Waits for Ctrl-C or SIGTERM, and then stops the runs.
async fn stop_at_signal() {
    let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    else {
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
    }
    STOP.store(true, Ordering::SeqCst);
}

/// The totals of all runs.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    crashes: usize,
    failed: Vec<u64>,
    skipped: Vec<u64>,
    kinds: BTreeMap<String, usize>,
    ends: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.crashes += outcome.crashes;
        for (sum, counts) in [(&mut self.kinds, &outcome.kinds), (&mut self.ends, &outcome.ends)] {
            counts.iter().for_each(|(kind, count)| *sum.entry(kind.clone()).or_default() += count);
        }
        if !outcome.findings.is_empty() {
            self.failed.push(outcome.plan.seed);
        }
        if !outcome.skipped.is_empty() {
            self.skipped.push(outcome.plan.seed);
        }
    }
}

/// Formats counts in one line, each followed by its name.
fn counts(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

fn json_line(outcome: &Outcome) -> Value {
    let findings: Vec<Value> = outcome
        .findings
        .iter()
        .map(|finding| json!({"kind": finding.kind, "text": finding.text}))
        .collect();
    json!({
        "seed": outcome.plan.seed, "place": outcome.plan.place.as_str(), "crashes": outcome.crashes,
        "seconds": outcome.took.as_secs_f64(), "findings": findings, "skipped": outcome.skipped,
        "figures": outcome.figures, "harms": outcome.kinds, "ends": outcome.ends,
    })
}

/// Returns the seeds in `kept` first, and then the other seeds of the range.
fn in_order(range: Range<u64>, kept: Vec<u64>) -> Vec<u64> {
    let rest: Vec<u64> = range.filter(|seed| !kept.contains(seed)).collect();
    kept.into_iter().chain(rest).collect()
}

/// Returns the seeds whose runs failed in the past.
#[must_use]
pub fn kept() -> Vec<u64> {
    seeds_in(KEPT)
}

/// Returns the seeds whose runs failed in the past, for runs that check how each process of the
/// lead ends.
#[must_use]
pub fn kept_ends() -> Vec<u64> {
    seeds_in(KEPT_ENDS)
}

fn seeds_in(text: &str) -> Vec<u64> {
    let seed = |line: &str| line.split_whitespace().next()?.parse().ok();
    text.lines().filter(|line| !line.starts_with('#')).filter_map(seed).collect()
}

/// Parses a range of seeds, or a single seed.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    match text.split_once("..") {
        Some((from, to)) => Ok(number(from)?..number(to)?),
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
    }
}

/// Prints a line. An error is ignored, because the program that reads the output may have ended.
fn say(text: &str) {
    let _gone = writeln!(std::io::stdout(), "{text}");
}
/// Whether this process ignores SIGHUP. Its children inherit that until they install a handler.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    // Bit 0 of the mask is signal 1, SIGHUP.
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1)
}
