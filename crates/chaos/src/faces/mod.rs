//! User interfaces (faces) on a detached run. They are attached, answer permission requests, and
//! are killed with SIGKILL at random moments while the harness also kills the host.
//!
//! - `stream` checks the events that `pitcrew attach --json` prints.
//! - `screens` runs faces in terminals and reads their screens.
//! - `keeper` attaches the faces of one slot, one after the other, and checks each of them.

mod keeper;
mod screens;
pub mod stream;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Error, chain};
use crate::oracle::Finding;
use crate::plan::{FaceKind, FacesPlan, Plan};
use crate::run::{End, UNFINISHED};
use crate::stage::Stage;
use keeper::Keeper;
use screens::Screens;

/// A face must notice within this time that its host was killed, that its team was resumed, or that
/// its run has ended.
const NOTICES_WITHIN: Duration = Duration::from_secs(40);

/// What the faces and the driver of the run know about each other.
#[derive(Debug, Default)]
pub struct Faces {
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of hosts that were killed.
    kills: u64,
    /// Whether a host runs.
    is_hosted: bool,
    /// When the last host was started.
    hosted_at: Option<Instant>,
    /// True after the last harm. Then the face of the first slot is not killed any more.
    is_calm: bool,
    /// The end of the run, or `None` while it goes on.
    over: Option<Over>,
    over_at: Option<Instant>,
    /// The outcome that a face learned from the last event of the run.
    outcome: Option<Value>,
    /// For each slot whose face has a terminal and was attached: the number of kills that its screen
    /// has reported.
    told: Vec<Option<u64>>,
    /// How many faces were attached, killed, killed while they answered, and reported that the host
    /// was gone.
    counts: Counts,
    findings: Vec<Finding>,
    log: Vec<(Instant, String)>,
}

/// How a run with faces ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The host ended by itself.
    Ended,
    /// The driver gives the run up.
    GivenUp,
}

/// The numbers of a run with faces.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    attached: u64,
    killed: u64,
    killed_answering: u64,
    told: u64,
    went_on: u64,
}

impl Faces {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for each slot of the plan. The threads end after [`Self::ended`] or
    /// [`Self::give_up`].
    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stage: &'scope Stage,
        plan: &'scope Plan,
    ) -> Result<(), Error> {
        let Some(faces) = &plan.faces else { return Ok(()) };
        self.shared().told = vec![None; faces.kinds.len()];
        let needs_screens = faces.kinds.iter().any(|kind| *kind != FaceKind::Lines);
        if needs_screens {
            Screens::start(stage)?;
        }
        for (slot, kind) in faces.kinds.iter().copied().enumerate() {
            let keeper = Keeper { faces: self, stage, plan, slot, kind };
            scope.spawn(move || {
                if let Err(error) = keeper.keep() {
                    self.find("the harness failed", chain(&error));
                }
            });
        }
        Ok(())
    }

    /// The driver is about to kill the host.
    pub(crate) fn host_is_killed(&self) {
        let mut shared = self.shared();
        shared.kills += 1;
        shared.is_hosted = false;
    }

    /// A host runs the team.
    pub(crate) fn host_runs(&self) {
        let mut shared = self.shared();
        shared.is_hosted = true;
        shared.hosted_at = Some(Instant::now());
    }

    /// The driver does no more harm.
    pub(crate) fn is_calm(&self) {
        self.shared().is_calm = true;
    }

    /// Waits until each terminal that was attached before the kill reports it. The keepers report a
    /// face that does not.
    pub(crate) fn wait_until_told(&self) {
        let since = Instant::now();
        let all_told = || {
            let shared = self.shared();
            shared.told.iter().flatten().all(|told| *told >= shared.kills)
        };
        // The keepers give up first.
        while !all_told() && since.elapsed() < NOTICES_WITHIN * 2 {
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// The host has ended by itself. Each face must end now.
    pub(crate) fn ended(&self) {
        self.end_as(Over::Ended);
    }

    /// The driver gives the run up. The faces are only killed.
    pub(crate) fn give_up(&self) {
        self.end_as(Over::GivenUp);
    }

    fn end_as(&self, over: Over) {
        let mut shared = self.shared();
        shared.over.get_or_insert(over);
        shared.over_at.get_or_insert_with(Instant::now);
    }

    /// Returns the number of killed faces.
    pub(crate) fn killed(&self) -> usize {
        usize::try_from(self.shared().counts.killed).unwrap_or(usize::MAX)
    }

    fn find(&self, kind: &str, text: String) {
        self.shared().findings.push(Finding::new(kind, text));
    }

    fn note(&self, text: String) {
        self.shared().log.push((Instant::now(), text));
    }

    /// Returns the end of the run, as the faces learned it, in the form of the report of
    /// `pitcrew run --json`. Returns `None` if no face learned it.
    pub(crate) fn end(&self) -> Option<End> {
        let shared = self.shared();
        let outcome = shared.outcome.as_ref()?;
        let end = &outcome["end"];
        let (code, name) = match end["kind"].as_str() {
            Some("success") => (0, "completed"),
            Some("unfinished") => (UNFINISHED, end["shortfall"].as_str().unwrap_or_default()),
            Some(_) | None => (1, "failed"),
        };
        let report = json!({
            "end": name, "exit_code": code, "is_error": code != 0, "result": end["text"],
            "tasks": outcome["tasks"],
        });
        Some(End { code: Some(code), report })
    }

    /// Returns the findings and the log of all faces. Times are counted from `started`.
    pub(crate) fn results(&self, started: Instant) -> (Vec<Finding>, Vec<String>) {
        let shared = self.shared();
        let Counts { attached, killed, killed_answering, told, went_on } = shared.counts;
        let time = |at: &Instant| at.saturating_duration_since(started).as_secs_f64();
        let lines = shared.log.iter().map(|(at, text)| format!("{:7.3} {text}", time(at)));
        let sum = format!(
            "faces: {attached} attached, {killed} killed, {killed_answering} of them answering; {told} times a terminal said that its host was gone, {went_on} times it went on"
        );
        (shared.findings.clone(), lines.chain([sum]).collect())
    }
}

impl FacesPlan {
    /// Returns true if the driver resumes the team only after each terminal has reported the kill
    /// with this number.
    #[must_use]
    pub fn waits_until_told(&self, kill: usize) -> bool {
        self.waits.get(kill).copied().unwrap_or(true)
    }
}
