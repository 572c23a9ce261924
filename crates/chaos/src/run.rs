//! Makes one run: starts a team, harms the team as the plan says, resumes the team after each harm
//! that ends it, and checks the result at the end.

mod harms;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::harms::{Harmed, fill};
use crate::error::Error;
use crate::faces::Faces;
use crate::journal::{Tail, is_of, member_of};
use crate::lead::{Begin, Lead};
use crate::oracle::{self, Finding, Scene};
use crate::plan::{Crash, Fault, Moment, Plan, Victim};
use crate::processes::members;
use crate::server::Server;
use crate::stage::{Disk, Stage};
use crate::stale::{self, Commands};
use crate::writers::{Writer, WriterLog};

/// A run counts as stuck if it makes no progress for this time. Progress is a request to the model
/// server, a new journal entry, or the end of the run.
const STALLED: Duration = Duration::from_secs(75);

/// Time limit of a run.
const LONGEST: Duration = Duration::from_secs(300);

/// Time limit of a run with stale writes (another program writes old file contents back). This
/// limit is longer than [`LONGEST`], because such a run starts a process for each message.
const LONGEST_STALE: Duration = Duration::from_secs(1_800);

/// The maximum time to wait for a journal event. After this time, the crash happens without the
/// event.
const EVENT_WAIT: Duration = Duration::from_secs(4);

/// After the last crash, the other programs continue to write for this time.
const WRITERS_STAY: Duration = Duration::from_secs(5);

/// The pause between two looks at the run.
const PAUSE: Duration = Duration::from_millis(1);

/// The exit code of a lead's process whose run ends with open work.
pub const UNFINISHED: i32 = 8;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The plan of the run.
    pub plan: Plan,
    /// The number of crashes: each killed process counts, and each power cut counts once.
    pub crashes: usize,
    /// The faults of pitcrew that were found.
    pub findings: Vec<Finding>,
    /// The log of the run, one event per line.
    pub log: Vec<String>,
    /// The folder of the run, if it was kept.
    pub folder: Option<PathBuf>,
    /// The duration of the run.
    pub took: Duration,
    /// The faults of the plan that this machine cannot produce, with the reason for each.
    pub skipped: Vec<String>,
    /// How much was written, if this was a run with stale writes (another program writes old file
    /// contents back).
    pub figures: Option<String>,
    /// How often each kind of harm happened.
    pub kinds: BTreeMap<String, usize>,
    /// How often each kind of end of the lead's process happened, if the run checks these ends.
    pub ends: BTreeMap<String, usize>,
}

/// Options for all runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of the pitcrew binary.
    pub binary: PathBuf,
    /// True if the folder of a run with findings is kept.
    pub keeps: bool,
}

/// Makes one run as its plan says.
///
/// # Errors
/// An error if the harness itself fails, or if the user stops it.
pub async fn run(
    plan: Plan,
    options: Options,
    stop: &'static AtomicBool,
) -> Result<Outcome, Error> {
    let server = Server::start(plan.clone()).await?;
    let made = tokio::task::spawn_blocking(move || made(plan, &options, server, stop)).await;
    made.map_err(|error| Error::Io { action: "finish a run".to_owned(), source: error.into() })?
}

fn made(
    plan: Plan,
    options: &Options,
    server: Server,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let started = Instant::now();
    let mut stage = Stage::new(&plan, &options.binary, &server.url())?;
    let (desk, commands, faces) = (WriterLog::default(), Commands::default(), Faces::default());
    let beside = Beside { desk: &desk, commands: &commands, faces: &faces };
    let mut driver = Driver::new(&stage, &server, beside, &plan, stop, started);
    driver.drive_beside_others()?;
    let Driver { crashes, mut end, mut findings, mut log, life, harmed, .. } = driver;
    let crashes = crashes + faces.killed();
    if plan.faces.is_some() {
        let (found, lines) = faces.results(started);
        findings.extend(found);
        log.extend(lines);
        log.sort_by(|a, b| a.get(..7).cmp(&b.get(..7)));
        end = faces.end().or_else(|| unseen_end(&stage));
    }
    let scene = Scene {
        stage: &stage,
        plan: &plan,
        seen: server.seen(),
        written: desk.written(),
        end,
        life,
    };
    // If the run already has a finding, it was ended early. Its files are then not in their final
    // state, and are not checked.
    if findings.is_empty() {
        findings.extend(oracle::judge(&scene));
        findings.extend(commands.judge(&stage));
    }
    let figures =
        commands.figures().map(|figures| format!("{figures}, {} put back", put_back(&stage)));
    log.push(format!("{} requests", server.asked()));
    let skipped = skipped(&plan, &stage);
    let folder = (options.keeps && !findings.is_empty()).then(|| stage.keep());
    let Harmed { kinds, ends, .. } = harmed;
    Ok(Outcome {
        plan,
        crashes,
        findings,
        log,
        folder,
        took: started.elapsed(),
        skipped,
        figures,
        kinds,
        ends,
    })
}

/// Returns the end of a run that no face has seen. If its team is still there, work is open.
fn unseen_end(stage: &Stage) -> Option<End> {
    let is_there = stage.team().join("config.json").exists();
    is_there.then(|| End { code: Some(UNFINISHED), report: Value::Null })
}

/// Returns the faults of the plan that this machine cannot produce, with the reason for each.
fn skipped(plan: &Plan, stage: &Stage) -> Vec<String> {
    if stage.disk() != Disk::Plain {
        return Vec::new();
    }
    match plan.fault {
        Some(Fault::FullDisk { .. }) => vec!["a full disk: mounting takes root".to_owned()],
        Some(Fault::PowerCuts) => vec!["power cuts: loop devices take root".to_owned()],
        Some(Fault::FileSize { .. } | Fault::Descriptors { .. }) | None => Vec::new(),
    }
}

/// Returns how many writes of pitcrew were undone by another program and then restored by pitcrew.
/// The numbers are in the journal.
fn put_back(stage: &Stage) -> usize {
    let entries = crate::journal::entries(stage);
    let names = |entry: &Value| entry["put_back"].as_array().map_or(0, Vec::len);
    entries.iter().filter(|entry| entry["event"] == "overwritten").map(names).sum()
}

/// When the run last made progress, and how many requests and journal entries there were at that
/// time.
struct Progress {
    at: Instant,
    asked: u64,
    entries: usize,
}

/// How a process of the lead ended by itself. There is no `End` for a process that the harness has
/// killed.
#[derive(Clone, Debug)]
pub struct End {
    /// The exit code. `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The JSON report that the process printed.
    pub report: Value,
}

/// What happens beside the driver of a run, in threads of their own.
#[derive(Clone, Copy)]
struct Beside<'a> {
    desk: &'a WriterLog,
    commands: &'a Commands,
    faces: &'a Faces,
}

struct Driver<'a> {
    stage: &'a Stage,
    server: &'a Server,
    desk: &'a WriterLog,
    commands: &'a Commands,
    faces: &'a Faces,
    plan: &'a Plan,
    stop: &'a AtomicBool,
    started: Instant,
    lead: Option<Lead>,
    life: usize,
    tail: Tail,
    entries: Vec<Value>,
    progress: Progress,
    crashes: usize,
    /// How many of the crashes killed the lead.
    kills: usize,
    end: Option<End>,
    /// How the next process of the lead starts.
    begins: Begin,
    harmed: Harmed,
    findings: Vec<Finding>,
    log: Vec<String>,
}

/// Why a wait has ended.
enum Waited {
    /// The expected moment has come, or the expected journal event did not come in time. The value
    /// is the journal event, if it came.
    Now(Option<Value>),
    /// The run has ended.
    Over,
}

impl<'a> Driver<'a> {
    fn new(
        stage: &'a Stage,
        server: &'a Server,
        Beside { desk, commands, faces }: Beside<'a>,
        plan: &'a Plan,
        stop: &'a AtomicBool,
        started: Instant,
    ) -> Self {
        Self {
            stage,
            server,
            desk,
            commands,
            faces,
            plan,
            stop,
            started,
            lead: None,
            life: 0,
            tail: Tail::default(),
            entries: Vec::new(),
            progress: Progress { at: started, asked: 0, entries: 0 },
            crashes: 0,
            kills: 0,
            end: None,
            begins: Begin::New,
            harmed: Harmed::default(),
            findings: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Drives the run to its end. At the same time, the other programs write, the commands run, and
    /// the disk becomes full, as the plan says.
    fn drive_beside_others(&mut self) -> Result<(), Error> {
        let (stage, plan, desk, faces) = (self.stage, self.plan, self.desk, self.faces);
        thread::scope(|scope| {
            faces.start(scope, stage, plan)?;
            let writers = [
                (plan.writers.cli, Writer::Cli),
                (plan.writers.honouring, Writer::Honouring),
                (plan.writers.ignoring, Writer::Ignoring),
                (plan.writers.claims, Writer::Claims),
            ];
            for (_, writer) in writers.into_iter().filter(|(is_there, _)| *is_there) {
                scope.spawn(move || desk.write(stage, writer, plan.seed));
            }
            self.commands.start(scope, stale::Run { stage, plan, desk });
            if let (Some(Fault::FullDisk { after_ms, for_ms }), Disk::Small) =
                (plan.fault, stage.disk())
            {
                let root = stage.root();
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(after_ms));
                    fill(&root, Duration::from_millis(for_ms));
                });
            }
            let ended = self.drive();
            faces.give_up();
            desk.stop();
            ended
        })
    }

    fn drive(&mut self) -> Result<(), Error> {
        self.start()?;
        let crashes = self.plan.crashes.clone();
        for crash in &crashes {
            if crash.at_end {
                self.server.let_end();
            }
            match self.wait(Some(&crash.moment))? {
                Waited::Now(entry) => self.harm(crash, entry.as_ref())?,
                Waited::Over => return Ok(()),
            }
        }
        if self.plan.stale.is_some()
            && let Waited::Over = self.wait(Some(&Moment::CommandsDone))?
        {
            return Ok(());
        }
        self.faces.is_calm();
        self.server.let_end();
        // While the team ends, the other programs write only for a short time. Otherwise their
        // journal entries would hide a team that is stuck.
        if let Waited::Now(_) = self.wait(Some(&Moment::After(WRITERS_STAY)))? {
            self.desk.stop();
            while let Waited::Now(_) = self.wait(None)? {}
        }
        Ok(())
    }

    fn note(&mut self, text: String) {
        self.log.push(format!("{:7.3} {text}", self.started.elapsed().as_secs_f64()));
    }

    fn start(&mut self) -> Result<(), Error> {
        self.heal();
        let lead = self.stage.lead(self.life, self.plan, self.begins)?;
        self.note(format!("lead {} starts as {}: {:?}", self.life, lead.id(), self.begins));
        self.lead = Some(lead);
        self.faces.host_runs();
        Ok(())
    }

    /// Starts the next process of the lead. Returns false if it cannot start, because the team was
    /// already deleted.
    fn start_again(&mut self) -> Result<bool, Error> {
        self.life += 1;
        let is_there = self.stage.team().join("config.json").exists();
        let is_archived = self.stage.archived().is_some();
        if !is_there && is_archived {
            self.note("the team was deleted before the crash".to_owned());
            // The stored end belongs to an earlier process. The module `oracle` must not take it
            // for the end of the last process.
            self.end = None;
            return Ok(false);
        }
        self.begins = match self.begins {
            Begin::GoOn if is_there => Begin::GoOn,
            Begin::New | Begin::Resume | Begin::GoOn if is_there => Begin::Resume,
            Begin::New | Begin::Resume | Begin::GoOn => Begin::New,
        };
        self.start()?;
        self.begins = Begin::Resume;
        Ok(true)
    }

    /// Waits for a moment. If `moment` is `None`, waits for the end of the run.
    fn wait(&mut self, moment: Option<&Moment>) -> Result<Waited, Error> {
        let since = Instant::now();
        let mut left = match moment {
            Some(Moment::At { nth, .. }) => *nth,
            Some(Moment::After(_) | Moment::CommandsDone) | None => 0,
        };
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Err(Error::Stopped);
            }
            let more = self.tail.more(self.stage);
            self.entries.extend(more.iter().cloned());
            match moment {
                Some(Moment::After(time)) if since.elapsed() >= *time => {
                    return Ok(Waited::Now(None));
                }
                Some(Moment::CommandsDone) if self.commands.are_done() => {
                    return Ok(Waited::Now(None));
                }
                Some(Moment::At { event, then, .. }) => {
                    for entry in more.iter().filter(|entry| is_of(entry, event)) {
                        left = left.saturating_sub(1);
                        if left == 0 {
                            thread::park_timeout(*then);
                            return Ok(Waited::Now(Some(entry.clone())));
                        }
                    }
                    if since.elapsed() > EVENT_WAIT {
                        self.note(format!("{event} did not come"));
                        return Ok(Waited::Now(None));
                    }
                }
                Some(Moment::After(_) | Moment::CommandsDone) | None => {}
            }
            if let Some(over) = self.look_at_lead()? {
                return Ok(over);
            }
            if self.is_stalled() {
                return Ok(Waited::Over);
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// Checks whether the lead's process has ended by itself. If a fault of the plan explains its
    /// end, starts the lead again.
    fn look_at_lead(&mut self) -> Result<Option<Waited>, Error> {
        let Some(lead) = self.lead.as_mut() else { return Ok(Some(Waited::Over)) };
        let Some(status) = lead.try_wait()? else { return Ok(None) };
        self.lead = None;
        let report = fs::read(self.stage.temporary().join(format!("lead-{}.json", self.life)))
            .unwrap_or_default();
        let report = serde_json::from_slice(&report).unwrap_or_default();
        self.note(format!("lead {} ends with {status}", self.life));
        self.end = Some(End { code: status.code(), report });
        if self.plan.ends.is_some() {
            return self.look_at_end(status);
        }
        if self.plan.faces.is_some() {
            self.faces.ended();
        }
        // The run has ended as expected. The module `oracle` later checks whether the run reported
        // open work correctly.
        if matches!(status.code(), Some(0 | UNFINISHED)) {
            return Ok(Some(Waited::Over));
        }
        if !self.is_excused(status) {
            let words = self.last_words();
            self.findings
                .push(Finding::new("a lead ended by itself", format!("with {status}: {words}")));
            return Ok(Some(Waited::Over));
        }
        if self.life > self.plan.crashes.len() + 20 {
            self.findings.push(Finding::new("a lead cannot be resumed", self.last_words()));
            return Ok(Some(Waited::Over));
        }
        thread::park_timeout(Duration::from_millis(100));
        Ok(if self.start_again()? { None } else { Some(Waited::Over) })
    }

    /// Returns true if a fault of the plan explains why the lead failed.
    fn is_excused(&mut self, status: ExitStatus) -> bool {
        match self.plan.fault {
            // At a system limit, pitcrew must end with an exit code and not by a signal. Before the
            // run has begun, the code is 70. Later the code is 1, and the report or the log must
            // name the limit.
            Some(Fault::FileSize { life, .. } | Fault::Descriptors { life, .. }) => {
                let report =
                    self.end.as_ref().map(|end| end.report.to_string()).unwrap_or_default();
                let names_cause =
                    |text: &str| text.contains("os error 24") || text.contains("os error 27");
                let is_told = names_cause(&report) || names_cause(&self.last_words());
                life == self.life
                    && (status.code() == Some(70) || (status.code() == Some(1) && is_told))
            }
            Some(Fault::FullDisk { after_ms, for_ms }) => {
                let now = self.started.elapsed();
                self.stage.disk() == Disk::Small
                    && now >= Duration::from_millis(after_ms)
                    && now <= Duration::from_millis(after_ms + for_ms + 15_000)
            }
            Some(Fault::PowerCuts) | None => false,
        }
    }

    fn last_words(&self) -> String {
        self.stage.last_words(self.life, self.plan)
    }

    fn is_stalled(&mut self) -> bool {
        let (asked, entries) = (self.server.asked(), self.entries.len());
        if asked != self.progress.asked || entries != self.progress.entries {
            self.progress = Progress { at: Instant::now(), asked, entries };
        }
        let kind = if self.progress.at.elapsed() > STALLED {
            "waits for ever"
        } else if self.started.elapsed()
            > if self.plan.stale.is_some() { LONGEST_STALE } else { LONGEST }
        {
            "takes too long"
        } else {
            return false;
        };
        let text = format!("{}; {}", self.states(), self.last_words());
        self.findings.push(Finding::new(kind, text));
        true
    }

    /// Describes the last state of each member according to the journal, and the processes that
    /// run.
    fn states(&self) -> String {
        let mut states = std::collections::BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry["event"] == "member_changed") {
            if let (Some(member), Some(state)) = (entry["member"].as_str(), entry["state"].as_str())
            {
                states.insert(member, state);
            }
        }
        let processes = self.stage.processes();
        let there: Vec<String> = processes
            .iter()
            .map(|process| format!("{} {:?}", process.pid, process.member))
            .collect();
        format!("states {states:?}, processes {there:?}")
    }

    fn strike(
        &mut self,
        crash: &Crash,
        victim: Victim,
        entry: Option<&Value>,
    ) -> Result<(), Error> {
        if victim == Victim::Power {
            return self.cut_power(entry);
        }
        let there = members(&self.stage.processes());
        let named = entry.and_then(member_of);
        let named =
            there.iter().find(|process| process.member.as_deref() == named && named.is_some());
        let index = usize::try_from(crash.draw % (there.len().max(1) as u64)).unwrap_or(0);
        let member = named.or_else(|| there.get(index));
        // If no member has its own process, kill the lead instead. So every crash kills something.
        let kills_lead = victim != Victim::Member || member.is_none();
        if kills_lead && let Some(lead) = self.lead.as_mut() {
            if lead.try_wait()?.is_some() {
                // The lead's process has already ended by itself. The next wait handles this end.
                return Ok(());
            }
            self.faces.host_is_killed();
            lead.kill()?;
            self.lead = None;
            self.crashes += 1;
            self.kills += 1;
            self.note(format!("lead {} is killed {}", self.life, why(entry)));
        }
        let mates: Vec<_> = match victim {
            Victim::Lead | Victim::Power => Vec::new(),
            Victim::Member | Victim::LeadAndMember => member.into_iter().collect(),
            Victim::Everyone => there.iter().collect(),
        };
        for mate in mates {
            mate.kill();
            self.crashes += 1;
            self.note(format!(
                "{} is killed ({}) {}",
                mate.member.as_deref().unwrap_or_default(),
                mate.pid,
                why(entry)
            ));
        }
        if kills_lead {
            let faces = self.plan.faces.as_ref();
            if faces.is_some_and(|faces| faces.waits_until_told(self.kills)) {
                self.faces.wait_until_told();
            }
            thread::park_timeout(Duration::from_millis(crash.draw % 60));
            self.start_again()?;
        }
        Ok(())
    }
}

impl Driver<'_> {
    /// Cuts the power, and checks immediately that all messages and tasks that pitcrew had
    /// confirmed still exist.
    fn cut_power(&mut self, entry: Option<&Value>) -> Result<(), Error> {
        if self.stage.disk() != Disk::Image {
            return Ok(());
        }
        let acknowledged = self.desk.written();
        self.stage.cut_power()?;
        if let Some(mut lead) = self.lead.take() {
            lead.kill()?;
        }
        self.crashes += 1;
        self.note(format!("the power is cut {}", why(entry)));
        let lost = oracle::missing(self.stage, &acknowledged);
        self.findings.extend(lost);
        if self.findings.is_empty() {
            self.start_again()?;
        }
        Ok(())
    }
}

fn why(entry: Option<&Value>) -> String {
    entry.map(|entry| format!("at {entry}")).unwrap_or_default()
}
