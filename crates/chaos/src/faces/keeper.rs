//! Attaches the faces of one slot, one after the other. Each is killed at a random moment, or stays
//! until the run ends. A face answers the permission requests that its screen shows.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::screens::{Look, Screens};
use super::stream::Stream;
use super::{Faces, NOTICES_WITHIN, Over};
use crate::chance::Chance;
use crate::error::Error;
use crate::plan::{FaceKind, Plan};
use crate::processes::{kill, threads};
use crate::stage::{Stage, TEAM};

/// The exit code of a face whose host was killed.
const HOST_GONE: i32 = 9;

/// A shell's exit codes from this number on stand for signals.
const SIGNALLED: i32 = 128;

/// The pause between two looks at a face that prints lines.
const LINES_PAUSE: Duration = Duration::from_millis(10);

/// The pause between two looks at a screen, because each look starts a process.
const SCREEN_PAUSE: Duration = Duration::from_millis(60);

/// The pause between two answers of a face to the same request. The interface takes an answer half a
/// second after it has drawn the request, and a key before that begins the half second again.
const ANSWERS_AGAIN: Duration = Duration::from_millis(900);

/// The harness learns of the end of a run later than a face. It waits so long before it reports a
/// face that has ended.
const LEARNS_WITHIN: Duration = Duration::from_secs(10);

/// A host that ran for a shorter time may end before each terminal has found it.
const FOUND_WITHIN: Duration = Duration::from_secs(6);

/// The thread that keeps a face attached in one slot of a run.
pub(super) struct Keeper<'a> {
    pub(super) faces: &'a Faces,
    pub(super) stage: &'a Stage,
    pub(super) plan: &'a Plan,
    pub(super) slot: usize,
    pub(super) kind: FaceKind,
}

/// How a face ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is killed after this time.
    Killed(Duration),
    /// It is killed while its answer to a permission request is on the way, or after this time.
    KilledAnswering(Duration),
    /// It stays until the run or its host ends.
    Stays,
}

/// One face of the slot.
struct Face {
    name: String,
    fate: Fate,
    since: Instant,
    /// The number of kills of hosts before this face was started.
    kills_before: u64,
    /// Since when the face should have noticed something.
    late_since: Option<Instant>,
}

/// What the driver of the run says.
#[derive(Clone, Copy)]
struct Now {
    kills: u64,
    is_hosted: bool,
    over: Option<Over>,
    may_kill: bool,
}

impl Keeper<'_> {
    /// Attaches faces until the run is over.
    pub(super) fn keep(&self) -> Result<(), Error> {
        for nth in 0_u64.. {
            let mut chance = Chance::of(self.plan.seed, &format!("face {} {nth}", self.slot));
            // Without a host, a face only says so and ends.
            while !self.now().is_hosted && self.now().over.is_none() {
                thread::park_timeout(LINES_PAUSE);
            }
            if self.now().over.is_some() {
                return Ok(());
            }
            let mut face = Face {
                name: format!("face-{}-{nth}", self.slot),
                fate: fate(&mut chance, self.kind),
                since: Instant::now(),
                kills_before: self.now().kills,
                late_since: None,
            };
            self.faces.shared().counts.attached += 1;
            match self.kind {
                FaceKind::Lines => self.lines(&mut face)?,
                FaceKind::Plain | FaceKind::Interface => self.terminal(&mut face)?,
            }
            thread::park_timeout(Duration::from_millis(chance.below(400)));
        }
        Ok(())
    }

    fn now(&self) -> Now {
        let shared = self.faces.shared();
        // The face of the first slot stays at the end of a run, because it learns the outcome.
        let may_kill = self.slot > 0 || !shared.is_calm;
        Now { kills: shared.kills, is_hosted: shared.is_hosted, over: shared.over, may_kill }
    }

    /// Runs a face that prints lines, until it ends.
    fn lines(&self, face: &mut Face) -> Result<(), Error> {
        let path = |ending: &str| self.stage.temporary().join(format!("{}.{ending}", face.name));
        let make = |path: PathBuf| File::create(&path).map_err(Error::io("make", &path));
        let mut attach = self.stage.pitcrew(&["attach", TEAM, "--json"]);
        attach.stdout(make(path("out"))?).stderr(make(path("err"))?);
        let mut printed = File::open(path("out")).map_err(Error::io("open", &path("out")))?;
        let mut child = attach.spawn().map_err(Error::io("start", self.stage.binary()))?;
        let ended = self.watch_lines(face, &mut child, &mut printed);
        // It has ended already, unless the harness failed or gives the run up.
        let _either = child.kill().and_then(|()| child.wait());
        ended
    }

    fn watch_lines(
        &self,
        face: &mut Face,
        child: &mut Child,
        printed: &mut File,
    ) -> Result<(), Error> {
        let mut stream = Stream::default();
        let (mut attached, mut kills_at_attach) = (0, face.kills_before);
        loop {
            let now = self.now();
            let status = child.try_wait().map_err(Error::io("wait for", self.stage.binary()))?;
            let mut bytes = Vec::new();
            printed.read_to_end(&mut bytes).map_err(Error::io("read", self.stage.binary()))?;
            for fault in stream.take(&bytes) {
                self.find(face, "a face got wrong events", &fault);
            }
            if let Some(status) = status {
                self.lines_ended(face, status.code(), &stream);
                return Ok(());
            }
            if now.over == Some(Over::GivenUp) {
                return Ok(());
            }
            if face.is_due(now) {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(Error::io("kill", self.stage.binary()))?;
                self.killed(face, false);
                return Ok(());
            }
            if stream.attached > attached {
                (attached, kills_at_attach) = (stream.attached, now.kills);
            }
            let is_late = now.kills > kills_at_attach || now.over.is_some();
            if face.is_too_late(is_late) {
                self.find(face, "a face does not notice that its host is gone", "");
                return Ok(());
            }
            thread::park_timeout(LINES_PAUSE);
        }
    }

    /// Judges a face with lines that has ended by itself.
    fn lines_ended(&self, face: &Face, code: Option<i32>, stream: &Stream) {
        if let Some(outcome) = &stream.outcome {
            self.faces.shared().outcome.get_or_insert_with(|| outcome.clone());
            let expected = self.faces.end().and_then(|end| end.code);
            if code != expected {
                let text = format!("{code:?}, and the run ended with {expected:?}");
                self.find(face, "a face has another exit code than its run", &text);
            }
            return;
        }
        let error = stream.error.as_ref().map(|error| error["error"].to_string());
        let says_gone = code == Some(HOST_GONE) && error.as_deref() == Some("\"host_gone\"");
        if stream.attached > 0 && !says_gone {
            let text = format!("with {code:?}, {error:?}");
            return self.find(face, "a face ends without saying that its host is gone", &text);
        }
        if !self.is_explained(face, stream.attached > 0) {
            let text = format!("with {code:?}, {error:?}");
            self.find(face, "a face lost a host that nobody killed", &text);
        }
    }

    /// Returns true if the driver did something that explains why a face has no host. A face that
    /// was attached learns the end of its run, so that only a kill explains it.
    fn is_explained(&self, face: &Face, was_attached: bool) -> bool {
        let since = Instant::now();
        loop {
            let now = self.now();
            if now.kills > face.kills_before || (now.over.is_some() && !was_attached) {
                return true;
            }
            if since.elapsed() > LEARNS_WITHIN || now.over == Some(Over::GivenUp) {
                return now.over == Some(Over::GivenUp);
            }
            thread::park_timeout(LINES_PAUSE);
        }
    }

    /// Runs a face in a terminal, until it ends.
    fn terminal(&self, face: &mut Face) -> Result<(), Error> {
        let screens = Screens::of(self.stage);
        screens.open(&face.name, if self.kind == FaceKind::Plain { "--plain" } else { "" })?;
        let since = Instant::now();
        let pid = loop {
            match screens.pid(&face.name) {
                Some(pid) => break pid,
                None if since.elapsed() > NOTICES_WITHIN => {
                    self.find(face, "a face does not start", "");
                    return Ok(());
                }
                None => thread::park_timeout(LINES_PAUSE),
            }
        };
        self.watch_screen(face, screens, pid);
        self.set_told(None);
        kill(pid);
        screens.close(&face.name);
        Ok(())
    }

    fn watch_screen(&self, face: &mut Face, screens: Screens<'_>, pid: u32) {
        let (mut is_attached, mut was_gone, mut answered_at) = (false, false, None);
        loop {
            let now = self.now();
            let Some(look) = screens.look(&face.name) else { return };
            is_attached |= self.is_attached(&look);
            if let Some(code) = look.code {
                return self.terminal_ended(face, code, is_attached, &look);
            }
            if now.over == Some(Over::GivenUp) {
                return;
            }
            let is_gone = is_attached && self.says_gone(&look);
            self.count_gone(was_gone, is_gone);
            was_gone = is_gone;
            if is_attached {
                self.set_told(Some(if is_gone { now.kills } else { face.kills_before }));
            }
            if now.over == Some(Over::Ended) && is_gone && self.is_short_host() {
                return;
            }
            if self.must_leave(&look) {
                // The first key deletes what an answer that came too late has typed.
                screens.press(&face.name, &["C-u", "Enter"]);
            }
            let is_answered = answered_at.is_some_and(|at: Instant| at.elapsed() < ANSWERS_AGAIN);
            if !is_gone && !is_answered && self.asks(&look) {
                answered_at = Some(Instant::now());
                screens.press(&face.name, self.yes());
                if matches!(face.fate, Fate::KilledAnswering(_)) && now.may_kill {
                    kill(pid);
                    return self.killed(face, true);
                }
            }
            if face.is_due(now) {
                kill(pid);
                return self.killed(face, false);
            }
            let is_late = is_gone == now.is_hosted || !is_attached || now.over.is_some();
            if face.is_too_late(is_late) {
                let (hosted, doing) = (now.is_hosted, threads(pid));
                let text = format!("hosted: {hosted}, threads: {doing}, shows:\n{}", look.text);
                return self.find(face, "a face does not follow its team", &text);
            }
            thread::park_timeout(SCREEN_PAUSE);
        }
    }

    /// Judges a face in a terminal that has ended by itself.
    fn terminal_ended(&self, face: &Face, code: i32, was_attached: bool, look: &Look) {
        let is_explained = self.is_explained(face, false);
        let expected = self.faces.end().and_then(|end| end.code);
        // Without a host, or if no other face knows how the run ended, the code is not checked.
        let is_right = code < SIGNALLED
            && (!was_attached || expected.is_none_or(|it| it == code) || self.is_short_host());
        if !is_explained || !is_right {
            let text = format!("{code}, and the run ended with {expected:?}:\n{}", look.text);
            self.find(face, "a face ended by itself", &text);
        }
    }

    fn is_attached(&self, look: &Look) -> bool {
        let sign = match self.kind {
            FaceKind::Interface => format!(" pitcrew {TEAM}"),
            FaceKind::Plain | FaceKind::Lines => format!("attached to team {TEAM}"),
        };
        look.text.contains(&sign)
    }

    /// Returns true if the screen says that no process runs the team.
    fn says_gone(&self, look: &Look) -> bool {
        match self.kind {
            FaceKind::Interface => look.text.contains("  no process runs it"),
            FaceKind::Plain | FaceKind::Lines => {
                let last = |text: &str| look.text.rfind(text);
                let gone = last(&format!("the process of team {TEAM} is gone"));
                gone > last(&format!("team {TEAM} is run again"))
            }
        }
    }

    /// Returns true if the interface waits for a key after the end of its run.
    fn must_leave(&self, look: &Look) -> bool {
        let is_header = |line: &&str| line.starts_with(&format!(" pitcrew {TEAM}"));
        let header = look.text.lines().find(is_header);
        self.kind == FaceKind::Interface && header.is_some_and(|line| line.contains("  ended"))
    }

    /// Returns true if the screen shows a permission request.
    fn asks(&self, look: &Look) -> bool {
        match self.kind {
            FaceKind::Interface => look.text.contains("[y] yes"),
            FaceKind::Plain | FaceKind::Lines => look.text.trim_end().ends_with("answer>"),
        }
    }

    /// Returns the keys that allow a call once. In the interface, a key of an answer that came too
    /// late is a letter of a message. Ctrl-U deletes it.
    fn yes(&self) -> &'static [&'static str] {
        match self.kind {
            FaceKind::Interface => &["C-u", "y"],
            FaceKind::Plain | FaceKind::Lines => &["y", "Enter"],
        }
    }

    /// Returns true if the last host ran so briefly that a terminal may not have found it.
    fn is_short_host(&self) -> bool {
        let shared = self.faces.shared();
        shared.hosted_at.is_some_and(|at| {
            shared.over_at.unwrap_or_else(Instant::now).saturating_duration_since(at) < FOUND_WITHIN
        })
    }

    fn set_told(&self, kills: Option<u64>) {
        if let Some(told) = self.faces.shared().told.get_mut(self.slot) {
            *told = kills;
        }
    }

    fn count_gone(&self, was_gone: bool, is_gone: bool) {
        let counts = &mut self.faces.shared().counts;
        counts.told += u64::from(!was_gone && is_gone);
        counts.went_on += u64::from(was_gone && !is_gone);
    }

    fn killed(&self, face: &Face, answers: bool) {
        let doing = if answers { " while it answers" } else { "" };
        self.faces.note(format!("{} ({:?}) is killed{doing}", face.name, self.kind));
        let counts = &mut self.faces.shared().counts;
        counts.killed += 1;
        counts.killed_answering += u64::from(answers);
    }

    fn find(&self, face: &Face, kind: &str, text: &str) {
        let after = face.since.elapsed().as_secs_f64();
        self.faces
            .find(kind, format!("{} ({:?}), after {after:.1} s: {text}", face.name, self.kind));
    }
}

impl Face {
    /// Returns true if the face is to be killed now.
    fn is_due(&self, now: Now) -> bool {
        let (Fate::Killed(after) | Fate::KilledAnswering(after)) = self.fate else { return false };
        now.may_kill && now.over.is_none() && self.since.elapsed() >= after
    }

    /// Returns true if the face has been late for too long.
    fn is_too_late(&mut self, is_late: bool) -> bool {
        if !is_late {
            self.late_since = None;
            return false;
        }
        self.late_since.get_or_insert_with(Instant::now).elapsed() > NOTICES_WITHIN
    }
}

fn fate(chance: &mut Chance, kind: FaceKind) -> Fate {
    match (kind, chance.below(10)) {
        (_, 0..=3) => Fate::Killed(Duration::from_millis(chance.below(2_500))),
        (FaceKind::Plain | FaceKind::Interface, 4..=6) => {
            Fate::KilledAnswering(Duration::from_millis(chance.between(2_000, 8_000)))
        }
        (_, _) => Fate::Stays,
    }
}
