//! The plan of a run. It lists the members, the crashes with their moments, the other programs that
//! write, and the faults. The seed determines the plan.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::harm::Harm;

/// The names of the workers. A run with n workers uses the first n names.
const ROLES: [&str; 5] = ["ann", "bob", "cas", "dan", "eve"];

/// Journal events during the team's work. A process is killed when one of these events is in the
/// journal. Some events are in the list twice, so that they are chosen more often.
const WORK_EVENTS: [&str; 22] = [
    "message_persisted",
    "message_injected",
    "message_acknowledged",
    "turn_ended",
    "message_persisted",
    "message_injected",
    "message_acknowledged",
    "message_dead",
    "task_changed:created",
    "task_changed:claimed",
    "task_changed:updated",
    "task_changed:completed",
    "member_changed:spawned",
    "member_changed:running",
    "member_changed:idle",
    "member_changed:awaiting_plan_approval",
    "started",
    "permission:asked",
    "permission:allowed",
    "message_persisted:permission_response",
    "message_persisted:plan_approval_response",
    "turn_ended",
];

/// Journal events while the team ends. A process is killed at such an event.
const END_EVENTS: [&str; 11] = [
    "message_persisted:shutdown_request",
    "message_persisted:shutdown_approved",
    "message_acknowledged",
    "turn_ended",
    "message_persisted:shutdown_rejected",
    "member_changed:shutdown_requested",
    "member_changed:completed",
    "member_changed:removed",
    "message_persisted:teammate_terminated",
    "stopped",
    "message_dead",
];

/// The number of power cuts in one run.
pub const CUTS_A_RUN: u64 = 5;

/// Where the members of a run are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All members run in the lead's process.
    InProcess,
    /// All members run in panes of a tmux server that belongs to the run.
    Panes,
    /// Some members run in the lead's process, and some in panes.
    Mixed,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 3] = [Self::InProcess, Self::Panes, Self::Mixed];

    /// Returns the name that the place has on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Panes => "panes",
            Self::Mixed => "mixed",
        }
    }
}

/// A role in the team: the name of its first member, and how the members with this role behave.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The name of the first member with this role. If a member ends early, its successor has this
    /// name with a number at the end.
    pub role: String,
    /// True if the worker runs in a pane.
    pub in_pane: bool,
    /// True if the worker starts in plan mode.
    pub plans: bool,
    /// True if the worker has its own git worktree.
    pub has_worktree: bool,
    /// True if the worker refuses its first shutdown request.
    pub refuses: bool,
    /// The number of tasks of the worker.
    pub tasks: usize,
}

/// Which processes a crash kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Only the lead's process is killed.
    Lead,
    /// The process of a member is killed. It is the member that the journal event is about,
    /// otherwise a random member.
    Member,
    /// The lead's process and the process of a member are killed.
    LeadAndMember,
    /// Every process of the run is killed.
    Everyone,
    /// Every process of the run is killed, and the disk loses all data that was not forced to disk.
    Power,
}

/// When a crash happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The crash happens when all commands of a run with stale writes ([`StaleWrites`]) have ended.
    CommandsDone,
    /// The crash happens this long after the previous crash. The first crash happens this long
    /// after the start.
    After(Duration),
    /// The crash happens some time after the `nth` journal event of one kind. Only events after the
    /// previous crash are counted. If the event does not come within a few seconds, the crash
    /// happens without it.
    At {
        /// The kind of event. A state or a frame may follow after a colon.
        event: &'static str,
        /// Which event of this kind is meant, counted from 1.
        nth: u64,
        /// The delay after the event.
        then: Duration,
    },
}

/// One crash of the plan.
#[derive(Clone, Debug)]
pub struct Crash {
    /// What the harness does to the run.
    pub harm: Harm,
    /// When the harness does the harm.
    pub moment: Moment,
    /// True if the crash happens only while the team ends.
    pub at_end: bool,
    /// A random number. It chooses the member to kill if the journal event names no member.
    pub draw: u64,
}

/// A fault of the system under the lead: its disk, or a limit for files or file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file system of pitcrew's root folder is full for some time.
    FullDisk {
        /// The time from the start of the run until the disk is full, in milliseconds.
        after_ms: u64,
        /// How long the disk stays full, in milliseconds.
        for_ms: u64,
    },
    /// One process of the lead has a limit for the size of files.
    FileSize {
        /// The number of this process of the lead, counted from 0 in the order of starts.
        life: usize,
        /// The maximum file size in KiB.
        kib: u64,
    },
    /// Pitcrew's root folder is on a file system of its own. In every crash, this file system is
    /// cut off from its disk.
    PowerCuts,
    /// One process of the lead has a limit for open file descriptors.
    Descriptors {
        /// The number of this process of the lead, counted from 0 in the order of starts.
        life: usize,
        /// The maximum number of open file descriptors.
        count: u64,
    },
}

/// Which other programs write into the inboxes and tasks of the team.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writers {
    /// True if there is a client that takes the file lock before it writes.
    pub honouring: bool,
    /// True if there is a client that ignores the file lock and writes old contents back.
    pub ignoring: bool,
    /// True if the command `pitcrew send` is used.
    pub cli: bool,
    /// True if a program runs the commands `pitcrew task create` and `pitcrew task claim`.
    pub claims: bool,
}

/// The faces of a run: user interfaces that are attached to a detached host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacesPlan {
    /// The kind of face in each slot. A killed face is replaced by another one of this kind. The
    /// first slot has lines.
    pub kinds: Vec<FaceKind>,
    /// For each kill of the host, whether it is resumed only after each terminal has said that the
    /// host is gone.
    pub waits: Vec<bool>,
}

/// The kind of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceKind {
    /// `pitcrew attach --json`, through a pipe.
    Lines,
    /// `pitcrew attach --plain`, in a terminal.
    Plain,
    /// The terminal interface.
    Interface,
}

/// How much is written in a run with stale writes. In such a run, a program writes old file
/// contents back and so undoes newer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleWrites {
    /// The number of messages that `pitcrew send` sends.
    pub messages: u64,
    /// The number of changes that `pitcrew task update` and `pitcrew task claim` make.
    pub updates: u64,
    /// How often old file contents are written back without a lock.
    pub writes: u64,
}

/// The settings of a run that checks how each process of the lead ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// True if the lead has a terminal and shows its user interface there.
    pub has_terminal: bool,
}

impl StaleWrites {
    /// How much is written in a run of `./test --long`.
    pub const LONG: Self = Self { messages: 1_200, updates: 40, writes: 800 };
}

/// The complete plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// Where the members run.
    pub place: Place,
    /// The workers of the team.
    pub workers: Vec<Worker>,
    /// The crashes, in order.
    pub crashes: Vec<Crash>,
    /// The other programs that write into the team's files.
    pub writers: Writers,
    /// The fault of the system, if there is one.
    pub fault: Option<Fault>,
    /// How much is written, if this is a run with stale writes.
    pub stale: Option<StaleWrites>,
    /// The settings for a run that checks how each process of the lead ends. `None` for other runs.
    pub ends: Option<Ends>,
    /// The faces, if the team runs in a detached host.
    pub faces: Option<FacesPlan>,
    /// True if the lead deletes the team at the end.
    pub deletes_team: bool,
    /// The maximum time of one model turn, in milliseconds.
    pub turn_ms: u64,
}

impl Plan {
    /// Makes the plan for a seed. If `only` is set, all members run in that place.
    #[must_use]
    pub fn of(seed: u64, only: Option<Place>) -> Self {
        let mut chance = Chance::new(seed);
        let drawn = chance.pick(&Place::ALL).copied().unwrap_or(Place::InProcess);
        let place = only.unwrap_or(drawn);
        let count = usize::try_from(chance.between(2, 4)).unwrap_or(2);
        let workers = ROLES.iter().take(count).enumerate();
        let workers =
            workers.map(|(index, role)| worker(&mut chance, role, index, place)).collect();
        let crashes = crashes(&mut chance, place);
        let drawn = Writers {
            honouring: chance.percent(50),
            ignoring: chance.percent(30),
            cli: chance.percent(60),
            claims: false,
        };
        let fault = fault(&mut chance);
        // If the disk can be full, no other clients write. Other clients write files in place, so
        // on a full disk they would damage an inbox themselves.
        let is_full = matches!(fault, Some(Fault::FullDisk { .. }));
        let writers =
            if is_full { Writers { honouring: false, ignoring: false, ..drawn } } else { drawn };
        Self {
            seed,
            place,
            workers,
            crashes,
            writers,
            fault,
            stale: None,
            ends: None,
            faces: None,
            deletes_team: chance.percent(40),
            turn_ms: chance.between(20, 120),
        }
    }

    /// Makes the plan for a seed. Every crash in it is a power cut.
    #[must_use]
    pub fn of_power_cuts(seed: u64) -> Self {
        let mut plan = Self::of(seed, None);
        let mut chance = Chance::of(seed, "power cuts");
        let cut = |at_end: bool, chance: &mut Chance| Crash {
            harm: Harm::Kill(Victim::Power),
            ..crash(chance, plan.place, at_end)
        };
        plan.crashes = (1..=CUTS_A_RUN).map(|nth| cut(nth == CUTS_A_RUN, &mut chance)).collect();
        plan.writers = Writers { cli: true, claims: true, ..Writers::default() };
        plan.fault = Some(Fault::PowerCuts);
        // No worker has a worktree. The workers' commands write into worktrees without fsync, so a
        // power cut could undo a command that has succeeded.
        plan.workers.iter_mut().for_each(|worker| worker.has_worktree = false);
        plan.deletes_team = false;
        plan
    }

    /// Makes the plan for a seed. It has no crashes, but a program undoes writes of commands.
    #[must_use]
    pub fn of_stale_writes(seed: u64, stale: StaleWrites) -> Self {
        let mut chance = Chance::of(seed, "stale writes");
        let members = ROLES.iter().take(4).enumerate();
        let workers = members.map(|(index, role)| Worker {
            has_worktree: false,
            ..worker(&mut chance, role, index, Place::Mixed)
        });
        let workers = workers.collect();
        Self {
            workers,
            place: Place::Mixed,
            crashes: Vec::new(),
            writers: Writers::default(),
            fault: None,
            stale: Some(stale),
            deletes_team: false,
            ..Self::of(seed, None)
        }
    }

    /// Makes the plan for a seed. The lead is stopped in many ways and resumed each time, and the
    /// harness checks how each process of the lead ends.
    #[must_use]
    pub fn of_ends(seed: u64) -> Self {
        let mut plan = Self::of(seed, None);
        let mut chance = Chance::of(seed, "ends");
        let count = chance.between(2, 4);
        let mut crash = |at_end| {
            let crash = crash(&mut chance, plan.place, at_end);
            Crash { harm: Harm::draw(&mut chance, plan.place), ..crash.sooner() }
        };
        plan.crashes = (0..count).map(|_| crash(false)).collect();
        plan.crashes.push(crash(true));
        plan.workers.truncate(3);
        plan.writers = Writers {
            honouring: plan.writers.honouring,
            cli: plan.writers.cli,
            ..Writers::default()
        };
        if plan.fills_disk() {
            plan.writers.honouring = false;
        }
        plan.fault = None;
        plan.ends = Some(Ends { has_terminal: chance.percent(50) });
        plan
    }

    /// Makes the plan for a seed. The team runs in a detached host, to which faces are attached. The
    /// host and members are killed by the plan, and faces by their keepers.
    #[must_use]
    pub fn of_faces(seed: u64) -> Self {
        let mut plan = Self::of(seed, None);
        let mut chance = Chance::of(seed, "faces");
        let count = chance.between(2, 4);
        let mut crash = |at_end| {
            let crash = crash(&mut chance, plan.place, at_end);
            // Without a kill of the lead, no face loses its host.
            let victim = match &crash.harm {
                Harm::Kill(victim @ (Victim::Member | Victim::LeadAndMember)) => *victim,
                _ => Victim::Lead,
            };
            Crash { harm: Harm::Kill(victim), ..crash.sooner() }
        };
        plan.crashes = (0..count).map(|_| crash(false)).collect();
        plan.crashes.push(crash(true));
        plan.workers.truncate(3);
        plan.writers = Writers { cli: plan.writers.cli, ..Writers::default() };
        plan.fault = None;
        let drawn = [FaceKind::Interface, FaceKind::Interface, FaceKind::Plain, FaceKind::Lines];
        let more = chance.between(1, 3);
        let more = (0..more).filter_map(|_| chance.pick(&drawn).copied());
        // Only a terminal answers.
        let kinds = [FaceKind::Lines, FaceKind::Interface].into_iter().chain(more).collect();
        let waits = plan.crashes.iter().map(|_| chance.percent(50)).collect();
        plan.faces = Some(FacesPlan { kinds, waits });
        plan
    }

    /// Returns true if the plan makes the disk full. Then pitcrew's root folder must be on a small
    /// file system of its own.
    #[must_use]
    pub fn fills_disk(&self) -> bool {
        let is_harm = self.crashes.iter().any(|crash| matches!(crash.harm, Harm::FullDisk(_)));
        is_harm || matches!(self.fault, Some(Fault::FullDisk { .. }))
    }

    /// Returns this plan with only the first `crashes` crashes.
    #[must_use]
    pub fn shortened(mut self, crashes: usize) -> Self {
        self.crashes.truncate(crashes);
        self
    }
}

fn worker(chance: &mut Chance, role: &str, index: usize, place: Place) -> Worker {
    let in_pane = match place {
        Place::InProcess => false,
        Place::Panes => true,
        Place::Mixed => index.is_multiple_of(2),
    };
    Worker {
        role: role.to_owned(),
        in_pane,
        plans: chance.percent(25),
        has_worktree: chance.percent(30),
        refuses: chance.percent(25),
        tasks: usize::try_from(chance.between(1, 2)).unwrap_or(1),
    }
}

fn crashes(chance: &mut Chance, place: Place) -> Vec<Crash> {
    let (at_work, at_end) = (chance.between(4, 7), chance.between(1, 3));
    let mut crashes: Vec<Crash> = (0..at_work).map(|_| crash(chance, place, false)).collect();
    crashes.extend((0..at_end).map(|_| crash(chance, place, true)));
    crashes
}

fn crash(chance: &mut Chance, place: Place, at_end: bool) -> Crash {
    let victim = match (place, chance.below(10)) {
        (Place::InProcess, _) | (_, 0..=3) => Victim::Lead,
        (_, 4..=6) => Victim::Member,
        (_, 7..=8) => Victim::LeadAndMember,
        (_, _) => Victim::Everyone,
    };
    let events: &[&'static str] = if at_end { &END_EVENTS } else { &WORK_EVENTS };
    // Leave out these events if all members run in the lead's process. The journal then has no
    // start event for a member, and the members' permission requests send no message.
    let is_rare = |event: &&str| {
        matches!(*event, "started" | "stopped") || event.ends_with("permission_response")
    };
    let events: Vec<&'static str> = events
        .iter()
        .copied()
        .filter(|event| place != Place::InProcess || !is_rare(event))
        .collect();
    let moment = match (chance.below(10), chance.pick(&events)) {
        (0, _) | (_, None) => Moment::After(Duration::from_millis(chance.below(200))),
        (1..=2, _) => Moment::After(Duration::from_millis(chance.between(200, 2_500))),
        (_, Some(event)) => {
            let most = if at_end { 2 } else { 12 };
            let then = if chance.percent(50) { 0 } else { chance.below(40) };
            Moment::At { event, nth: chance.between(1, most), then: Duration::from_millis(then) }
        }
    };
    Crash { harm: Harm::Kill(victim), moment, at_end, draw: chance.number() }
}

impl Crash {
    /// Returns this crash with an earlier moment: it waits for only a third as many journal events.
    /// A run that checks how each process of the lead ends has few crashes, and uses these earlier
    /// moments.
    fn sooner(mut self) -> Self {
        if let Moment::At { nth, .. } = &mut self.moment {
            *nth = nth.div_ceil(3);
        }
        self
    }
}

fn fault(chance: &mut Chance) -> Option<Fault> {
    let life = usize::try_from(chance.between(0, 3)).unwrap_or(0);
    match chance.below(10) {
        0 | 1 => Some(Fault::FullDisk {
            after_ms: chance.between(500, 6_000),
            for_ms: chance.between(100, 1_500),
        }),
        2 => Some(Fault::FileSize { life, kib: chance.between(2, 200) }),
        3 => Some(Fault::Descriptors { life, count: chance.between(6, 40) }),
        _ => None,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            place,
            workers,
            crashes,
            writers,
            fault,
            stale,
            ends,
            faces,
            deletes_team,
            turn_ms,
        } = self;
        writeln!(
            f,
            "seed {seed}: {}, turns of up to {turn_ms} ms, deletes team: {deletes_team}",
            place.as_str()
        )?;
        for Worker { role, in_pane, plans, has_worktree, refuses, tasks } in workers {
            let habits = [
                (*in_pane, "in a pane"),
                (*plans, "plans"),
                (*has_worktree, "has a worktree"),
                (*refuses, "refuses once"),
            ];
            let habits: Vec<&str> =
                habits.iter().filter(|(has, _)| *has).map(|(_, habit)| *habit).collect();
            writeln!(f, "  {role}: {tasks} tasks; {}", habits.join(", "))?;
        }
        for (index, Crash { harm, moment, at_end, .. }) in crashes.iter().enumerate() {
            let phase = if *at_end { "at the end" } else { "at work" };
            writeln!(f, "  crash {}: {harm} {moment:?} {phase}", index + 1)?;
        }
        if let Some(FacesPlan { kinds, waits }) = faces {
            writeln!(f, "  faces: {kinds:?}, waits until told: {waits:?}")?;
        }
        writeln!(f, "  {writers:?}, fault: {fault:?}, stale: {stale:?}, ends: {ends:?}")
    }
}
