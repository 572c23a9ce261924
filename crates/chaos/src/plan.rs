//! The plan of a run: its members, its crashes and their moments, the other writers, and the
//! faults. The seed determines the plan.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::harm::Harm;

/// The names of the workers, in the order of use.
const ROLES: [&str; 5] = ["ann", "bob", "cas", "dan", "eve"];

/// Journal events at which a process is killed while the team works. Frequent events are in the
/// list twice.
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

/// Journal events at which a process is killed while the team ends.
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

/// The place where the members of a run work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the lead's process.
    InProcess,
    /// In panes of a tmux server that belongs to the run.
    Panes,
    /// Some in the lead's process, some in panes.
    Mixed,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 3] = [Self::InProcess, Self::Panes, Self::Mixed];

    /// Returns the name of the place on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Panes => "panes",
            Self::Mixed => "mixed",
        }
    }
}

/// A worker: the name of its first member, and its behavior.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The name of the first member with this role. The names of its successors end with a number.
    pub role: String,
    /// Whether the worker runs in a pane.
    pub in_pane: bool,
    /// Whether the worker starts in plan mode.
    pub plans: bool,
    /// Whether the worker has its own git worktree.
    pub has_worktree: bool,
    /// Whether the worker refuses its first shutdown request.
    pub refuses: bool,
    /// The number of tasks of the worker.
    pub tasks: usize,
}

/// The processes that are killed in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The lead's process only.
    Lead,
    /// The member that the journal event is about. If there is none, a random member.
    Member,
    /// The lead's process and a member.
    LeadAndMember,
    /// Every process of the run.
    Everyone,
    /// Every process. In addition, the disk loses all data that is not durable.
    Power,
}

/// The moment of a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The moment when all commands of a run with stale writes have ended.
    CommandsDone,
    /// A time after the previous crash, or after the start.
    After(Duration),
    /// The nth event of a kind from now on, plus a delay.
    At {
        /// The event, with its state or frame after a colon.
        event: &'static str,
        /// The number of the event, counted from 1.
        nth: u64,
        /// The delay after the event.
        then: Duration,
    },
}

/// One crash of the plan.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The harm to the run.
    pub harm: Harm,
    /// The moment of the harm.
    pub moment: Moment,
    /// Whether the crash waits until the team is shutting down.
    pub at_end: bool,
    /// A random number that selects the member, if any member may be killed.
    pub draw: u64,
}

/// A fault of the lead's disk or file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file system of the root is full for some time.
    FullDisk {
        /// The time from the start of the run until the disk is full, in milliseconds.
        after_ms: u64,
        /// How long the disk stays full, in milliseconds.
        for_ms: u64,
    },
    /// A limit for the size of files in one process of the lead.
    FileSize {
        /// The number of the lead's process in the order of starts, counted from 0.
        life: usize,
        /// The maximum file size in KiB.
        kib: u64,
    },
    /// The root is on a file system that is cut off from its disk in every crash.
    PowerCuts,
    /// A limit for open file descriptors in one process of the lead.
    Descriptors {
        /// The number of the lead's life, counted from 0.
        life: usize,
        /// The maximum number of open file descriptors.
        count: u64,
    },
}

/// The other programs that write into the inboxes and tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writers {
    /// A client that takes the file lock.
    pub honouring: bool,
    /// A client that ignores the lock and writes outdated contents back.
    pub ignoring: bool,
    /// The command `pitcrew send`.
    pub cli: bool,
    /// The commands `pitcrew task create` and `pitcrew task claim`.
    pub claims: bool,
}

/// The amount of writing in a run with stale writes, where a program writes outdated file contents
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleWrites {
    /// The number of messages from `pitcrew send`.
    pub messages: u64,
    /// The number of changes by `pitcrew task update` and `pitcrew task claim`.
    pub updates: u64,
    /// The number of outdated file contents that are written back without a lock.
    pub writes: u64,
}

/// The settings of a run in which each end of the lead is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Whether the lead has a terminal and draws its view in it.
    pub has_terminal: bool,
}

impl StaleWrites {
    /// The amounts of writing in a run of `./test --long`.
    pub const LONG: Self = Self { messages: 1_200, updates: 40, writes: 800 };
}

/// The complete plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan.
    pub seed: u64,
    /// The place where the members work.
    pub place: Place,
    /// The workers of the team.
    pub workers: Vec<Worker>,
    /// The crashes, in order.
    pub crashes: Vec<Crash>,
    /// The other programs that write into the team's files.
    pub writers: Writers,
    /// The fault, if there is one.
    pub fault: Option<Fault>,
    /// The stale writes, if there are any.
    pub stale: Option<StaleWrites>,
    /// The settings for checking the lead's ends, if every end is checked.
    pub ends: Option<Ends>,
    /// Whether the lead deletes the team at the end.
    pub deletes_team: bool,
    /// The maximum time of one model turn, in milliseconds.
    pub turn_ms: u64,
}

impl Plan {
    /// Makes the plan of a seed. With `only`, all members work in that place.
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
        // Other clients write files in place. On a full disk they would damage an inbox themselves.
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
            deletes_team: chance.percent(40),
            turn_ms: chance.between(20, 120),
        }
    }

    /// Makes the plan of a seed in which every crash is a power cut.
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
        // The workers' commands write into their worktree without fsync, so a power cut could undo
        // a completed command.
        plan.workers.iter_mut().for_each(|worker| worker.has_worktree = false);
        plan.deletes_team = false;
        plan
    }

    /// Makes the plan of a seed without crashes, in which a program undoes the writes of commands.
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

    /// Makes the plan of a seed in which the lead is stopped in every way and resumed, and each end
    /// is checked.
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

    /// Whether the disk is full at some time. The root must then be on a small file system.
    #[must_use]
    pub fn fills_disk(&self) -> bool {
        let is_harm = self.crashes.iter().any(|crash| matches!(crash.harm, Harm::FullDisk(_)));
        is_harm || matches!(self.fault, Some(Fault::FullDisk { .. }))
    }

    /// Returns the same plan with only its first crashes.
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
    // For members in the lead's process the journal has no start event, and their permission
    // requests send no message.
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
    /// Returns the same crash after fewer events, for a run with few crashes.
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
        writeln!(f, "  {writers:?}, fault: {fault:?}, stale: {stale:?}, ends: {ends:?}")
    }
}
