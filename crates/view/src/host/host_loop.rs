//! The loop of a host. It owns the state of the host, and nothing else changes that state.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::{FutureExt as _, StreamExt};
use pitcrew_protocol::{ApiError, ErrorCode, Task, TeamConfig};
use pitcrew_runtime::control_socket::{Caller, Notifies, PROTOCOL, Visitor};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Ask, RunHandle, RunOutcome, Taken};
use pitcrew_team::Team;
use pitcrew_team::store::{Change, Watch};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use uuid::Uuid;

use super::AnswerHere;
use super::event::{HostEvent, HostState, What, line_of, snapshot_line};
use super::event_log::EventLog;
use super::follower::{FOLLOWERS_MOST, Follower, Followers};
use super::open_questions::OpenQuestions;
use crate::fold::{ViewEvent, fold};
use crate::notification::Notification;
use crate::state::TeamState;

/// Time that followers have to read the last events after the run has ended.
const FAREWELL: Duration = Duration::from_secs(1);

/// Time that a run has to write an answer, before its giver learns that it is not written yet.
const WRITES_WITHIN: Duration = Duration::from_secs(2);

/// What the giver of such an answer learns.
const NOT_YET: &str = "the run has not come to it within 2 s";

/// Pause between a change of the team's files and the reading of these files. Several changes in
/// this time are one event.
const SETTLES_WITHIN: Duration = Duration::from_millis(250);

/// What woke the loop.
enum Wake {
    /// Something happened in the run.
    Happened(Box<RunEvent>),
    /// The run has sent its last event.
    Over,
    /// An agent asks a person for permission.
    Asked(Box<Ask>),
    /// A permission request needs no answer any more.
    Withdrawn(What),
    /// The user interface in this process answers a permission request.
    AnsweredHere(AnswerHere),
    /// Another process sent a request.
    Visited(Visitor),
    /// A follower needs its next lines.
    Ready(Follower),
    /// The user interface in this process has room for an event.
    FaceHasRoom,
    /// The team's files changed.
    Changed(Change),
    /// The changes of the team's files are to be read.
    ReadDue,
    /// The team's files were read.
    Read(FilesRead),
}

/// Where a host learns what happens.
pub(super) struct Sources {
    pub(super) handle: RunHandle,
    /// The permission requests of the run. `None` if no person is asked.
    pub(super) asked: Option<mpsc::Receiver<Ask>>,
    /// The answers of the user interface in this process.
    pub(super) answers: mpsc::Receiver<AnswerHere>,
}

/// The state of a host.
pub(super) struct HostLoop {
    face: Face,
    files: TeamFiles,
    /// The id of this run of the team. Numbers of events mean nothing in another run.
    run: String,
    state: TeamState,
    tasks: Vec<Task>,
    questions: OpenQuestions,
    log: EventLog,
    /// Whether any process has followed this run. Before that, events need no lines.
    was_followed: bool,
    /// Whether the last event has happened.
    is_over: bool,
    followers: Followers,
    /// The processes that wait until the team's files were read, because their snapshot needs them.
    arriving: Vec<Arriving>,
    /// The processes whose answers the run has and did not write yet.
    answered: JoinSet<()>,
}

/// A process that wants to follow the host.
struct Arriving {
    since: Option<u64>,
    run: Option<String>,
    notifies: Notifies,
    caller: Caller,
}

/// The user interface in the process of the host.
struct Face {
    events: Option<mpsc::Sender<Arc<HostEvent>>>,
    /// The events for which the user interface has no room yet. While there are such events, the
    /// run is not read, so that a slow user interface slows the team down.
    waiting: VecDeque<Arc<HostEvent>>,
}

/// The team's files, as a host reads them while a process follows it.
struct TeamFiles {
    team: Team,
    watch: Option<Watch>,
    has_new_tasks: bool,
    has_new_config: bool,
    /// The timer until the changed files are read.
    read_due: Option<Pin<Box<Sleep>>>,
    /// The reading of the files. The loop does not wait for it, so a slow disk delays no event.
    reading: Option<BoxFuture<'static, FilesRead>>,
}

/// What a reading of the team's files returned.
struct FilesRead {
    /// The watch of the files, if the reading began it.
    watch: Option<Watch>,
    read: Vec<What>,
}

impl HostLoop {
    pub(super) fn new(team: Team, face: mpsc::Sender<Arc<HostEvent>>) -> Self {
        Self {
            face: Face { events: Some(face), waiting: VecDeque::new() },
            files: TeamFiles {
                team,
                watch: None,
                has_new_tasks: false,
                has_new_config: false,
                read_due: None,
                reading: None,
            },
            run: Uuid::new_v4().to_string(),
            state: TeamState::default(),
            tasks: Vec::new(),
            questions: OpenQuestions::default(),
            log: EventLog::default(),
            was_followed: false,
            is_over: false,
            followers: Followers::new(),
            arriving: Vec::new(),
            answered: JoinSet::new(),
        }
    }

    /// Runs until the run has ended and everybody has its last events.
    pub(super) async fn run(mut self, mut sources: Sources) -> RunOutcome {
        loop {
            match self.next(&mut sources).await {
                Wake::Happened(event) => self.append(What::Run(*event)),
                Wake::Over => break,
                Wake::Asked(ask) => {
                    let opened = self.questions.open(*ask, self.files.team.teams().now_ms());
                    let team = self.files.team.name().as_str();
                    let notification = Notification::of_question(team, &opened);
                    self.append(What::QuestionOpened(Box::new(opened)));
                    self.notify(notification);
                }
                Wake::Withdrawn(closed) => self.append(closed),
                Wake::AnsweredHere(AnswerHere { question, digest, choice, reply }) => {
                    let closed = self.questions.answer(&question, digest, choice);
                    // The user interface may have stopped waiting for the result.
                    // It does not wait for the files: the run's warnings reach it, and the run may
                    // wait for it.
                    let _unread = reply.send(closed.map(|(closed, _said)| self.append(closed)));
                }
                Wake::Visited(visitor) => self.visited(visitor).await,
                Wake::Ready(follower) => self.serve(follower),
                Wake::FaceHasRoom => self.face.send_waiting(),
                Wake::Changed(change) => self.files.changed(&change),
                Wake::ReadDue if self.followers.is_empty() => self.files.stop(),
                Wake::ReadDue => self.files.begin_reading(),
                Wake::Read(read) => self.files_read(read),
            }
        }
        self.close(sources.handle).await
    }

    async fn next(&mut self, sources: &mut Sources) -> Wake {
        let Sources { handle, asked, answers } = sources;
        let Self { face, files, questions, followers, .. } = self;
        let reads = face.waiting.is_empty();
        let asks = OptionFuture::from(asked.as_mut().map(mpsc::Receiver::recv));
        let changes = OptionFuture::from(files.watch.as_mut().map(StreamExt::next));
        tokio::select! {
            event = handle.events.recv(), if reads => match event {
                Some(event) => Wake::Happened(Box::new(event)),
                None => Wake::Over,
            },
            Some(Some(ask)) = asks, if reads => Wake::Asked(Box::new(ask)),
            closed = questions.withdrawn() => Wake::Withdrawn(closed),
            Some(answer) = answers.recv() => Wake::AnsweredHere(answer),
            Some(visitor) = handle.visitors.recv() => Wake::Visited(visitor),
            Some(follower) = followers.next() => Wake::Ready(follower),
            () = face.has_room(), if !reads => Wake::FaceHasRoom,
            Some(change) = changes => Wake::Changed(change.unwrap_or(Change::Gone)),
            // A change during a reading is read after it.
            Some(()) = OptionFuture::from(files.read_due.as_mut()), if files.reading.is_none() => {
                Wake::ReadDue
            }
            Some(read) = OptionFuture::from(files.reading.as_mut()) => Wake::Read(read),
        }
    }

    /// Gives an event its number, and passes it to everybody who is interested.
    fn append(&mut self, what: What) {
        let at_ms = self.files.team.teams().now_ms();
        let event = HostEvent { seq: self.log.next_seq(), at_ms, what };
        self.fold(&event.what);
        self.log.push(if self.was_followed { line_of(&event) } else { None });
        self.followers.wake(self.log.next_seq());
        self.face.send(Arc::new(event));
    }

    /// Chooses who shows a notification, and appends it.
    fn notify(&mut self, mut notification: Notification) {
        notification.follower = self.followers.to_notify();
        self.append(What::Notify(Box::new(notification)));
    }

    fn fold(&mut self, what: &What) {
        let event = match what {
            What::Run(event) => ViewEvent::Run(event),
            What::Config(config) => ViewEvent::Config(config),
            What::Ended(outcome) => ViewEvent::Ended(outcome),
            What::Tasks(tasks) => {
                self.tasks.clone_from(tasks);
                ViewEvent::Tasks(tasks)
            }
            What::QuestionOpened(_) | What::QuestionClosed { .. } | What::Notify(_) => return,
        };
        self.state = fold(std::mem::take(&mut self.state), &event);
    }

    async fn visited(&mut self, visitor: Visitor) {
        match visitor {
            Visitor::Follow { since, run, notifies, caller } => {
                let arriving = Arriving { since, run, notifies, caller };
                if self.followers.is_empty() && self.arriving.is_empty() {
                    self.files.begin_watching();
                }
                // The first snapshots need the tasks. Only these processes wait for them.
                let waits = self.files.reading.is_some() && self.followers.is_empty();
                if waits && self.arriving.len() < FOLLOWERS_MOST {
                    self.arriving.push(arriving);
                } else {
                    self.arrived(arriving);
                }
            }
            // It was told that its answer did not count.
            Visitor::Answer { caller, .. } if caller.is_gone() => {}
            Visitor::Answer { question, digest, choice, caller } => {
                match self.questions.answer(&question, digest, choice) {
                    Ok((closed, said)) => {
                        self.append(closed);
                        while self.answered.try_join_next().is_some() {}
                        self.answered.spawn(async move {
                            let taken = match tokio::time::timeout(WRITES_WITHIN, said).await {
                                Ok(said) => said.unwrap_or_else(|_| Err(overtaken(&question))),
                                // The run may wait for a slow disk, and has the answer.
                                Err(_late) => Ok(Taken::Unwritten { reason: NOT_YET.to_owned() }),
                            };
                            let answer = json!({"success": true, "question": question});
                            caller.answer(taken.map(|taken| taken.told(answer))).await;
                        });
                    }
                    Err(error) => caller.answer(Err(error)).await,
                }
            }
        }
    }

    /// Adds a process that follows the host from now on.
    fn arrived(&mut self, Arriving { since, run, notifies, caller }: Arriving) {
        self.was_followed = true;
        let is_same_run = run.is_none_or(|run| run == self.run);
        let mut greeting = json!({
            "success": true, "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION"), "run": self.run,
        });
        let number = bool::from(notifies).then(|| self.followers.number());
        if let (Some(number), Some(fields)) = (&number, greeting.as_object_mut()) {
            fields.insert("follower".to_owned(), json!(**number));
        }
        let greeting = format!("{greeting}\n").into();
        self.followers.add(caller, since.filter(|_| is_same_run), number, greeting);
    }

    /// Sends a follower its next lines. If it has all events, it waits for the next one. If there
    /// is no next one, its connection is closed.
    fn serve(&mut self, mut follower: Follower) {
        let next_seq = self.log.next_seq();
        match follower.next_seq.and_then(|seq| Some((seq, self.log.since(seq)?))) {
            Some((_, lines)) if lines.is_empty() && self.is_over => drop(follower),
            Some((seq, lines)) if lines.is_empty() => self.followers.wait(follower, seq),
            Some((seq, lines)) => {
                follower.next_seq = Some(seq + lines.len() as u64);
                self.followers.write(follower, lines);
            }
            None => {
                let Some(line) = snapshot_line(&self.snapshot()) else { return };
                follower.next_seq = Some(next_seq);
                self.followers.write(follower, vec![line.into()]);
            }
        }
    }

    fn snapshot(&self) -> HostState {
        HostState {
            next_seq: self.log.next_seq(),
            team: self.state.clone(),
            tasks: self.tasks.clone(),
            questions: self.questions.all(),
        }
    }

    /// Takes what was read from the team's files. What could not be read stays as it was until the
    /// next change.
    fn files_read(&mut self, FilesRead { watch, read }: FilesRead) {
        self.files.reading = None;
        self.files.watch = watch.or(self.files.watch.take());
        for what in read {
            if !matches!(&what, What::Tasks(tasks) if *tasks == self.tasks) {
                self.append(what);
            }
        }
        for arriving in std::mem::take(&mut self.arriving) {
            self.arrived(arriving);
        }
    }

    /// Ends the host: appends the last events, and waits until everybody has them.
    async fn close(mut self, mut handle: RunHandle) -> RunOutcome {
        // These requests came while the run ended.
        while let Ok(visitor) = handle.visitors.try_recv() {
            self.visited(visitor).await;
        }
        if let Some(reading) = self.files.reading.take() {
            let read = reading.await;
            self.files_read(read);
        }
        for closed in self.questions.close() {
            self.append(closed);
        }
        let outcome = handle.outcome().await;
        // The run has ended, so what it did with the answers is known.
        while self.answered.join_next().await.is_some() {}
        if let Some(notification) = Notification::of_end(self.files.team.name().as_str(), &outcome)
        {
            self.notify(notification);
        }
        self.is_over = true;
        self.append(What::Ended(Box::new(outcome.clone())));
        let mut farewell = std::pin::pin!(tokio::time::sleep(FAREWELL));
        loop {
            let (is_followed, is_behind) =
                (!self.followers.is_empty(), !self.face.waiting.is_empty());
            tokio::select! {
                follower = self.followers.next(), if is_followed => {
                    follower.into_iter().for_each(|follower| self.serve(follower));
                }
                () = &mut farewell, if is_followed => self.followers = Followers::new(),
                () = self.face.has_room(), if is_behind => self.face.send_waiting(),
                else => return outcome,
            }
        }
    }
}

fn overtaken(question: &str) -> ApiError {
    let says = format!("the permission request '{question}' ended before the answer had an effect");
    ApiError::new(ErrorCode::InvalidStatus, says).with("question", question)
}

impl Face {
    /// Sends an event, or keeps it until there is room.
    fn send(&mut self, event: Arc<HostEvent>) {
        self.waiting.push_back(event);
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        while let Some(event) = self.waiting.pop_front() {
            let sent = self.events.as_ref().map(|events| events.try_send(event));
            match sent {
                Some(Ok(())) => {}
                Some(Err(TrySendError::Full(event))) => return self.waiting.push_front(event),
                // The user interface reads no more events.
                Some(Err(TrySendError::Closed(_))) | None => {
                    self.events = None;
                    return self.waiting.clear();
                }
            }
        }
    }

    /// Waits until the user interface has room for an event, or reads no more events. It is
    /// cancel-safe.
    async fn has_room(&self) {
        if let Some(events) = &self.events {
            // An error means that the user interface is gone. Sending finds the same.
            let _room = events.reserve().await;
        }
    }
}

impl TeamFiles {
    /// Begins to watch the team's files, unless they are watched already, and to read what changed.
    fn begin_watching(&mut self) {
        if self.watch.is_none() {
            (self.has_new_tasks, self.has_new_config) = (true, true);
        }
        if self.has_new_tasks || self.has_new_config {
            self.begin_reading();
        }
    }

    /// Begins to read those of the team's files that changed. While they are being read, further
    /// changes wait.
    fn begin_reading(&mut self) {
        if self.reading.is_some() {
            return;
        }
        self.read_due = None;
        let has_new =
            (std::mem::take(&mut self.has_new_config), std::mem::take(&mut self.has_new_tasks));
        self.reading = Some(read(self.team.clone(), self.watch.is_none(), has_new).boxed());
    }

    /// Stops watching the team's files.
    fn stop(&mut self) {
        (self.watch, self.read_due) = (None, None);
    }

    fn changed(&mut self, change: &Change) {
        match change {
            Change::Tasks => self.has_new_tasks = true,
            Change::Config => self.has_new_config = true,
            Change::Unsure => (self.has_new_tasks, self.has_new_config) = (true, true),
            Change::Gone => return self.stop(),
            Change::Inbox(_)
            | Change::Journal
            | Change::Lease(_)
            // If the files cannot be watched, the run itself prints a warning.
            | Change::Unwatched { .. } => return,
        }
        self.read_due.get_or_insert_with(|| Box::pin(tokio::time::sleep(SETTLES_WITHIN)));
    }
}

/// Reads the team's config and tasks. If `begins`, it begins to watch them before.
async fn read(team: Team, begins: bool, (config, tasks): (bool, bool)) -> FilesRead {
    let watch = if begins { watch(&team).await } else { None };
    let mut read = Vec::new();
    if config && let Ok(config) = team.config().await {
        read.push(What::Config(Box::new(TeamConfig::clone(&config))));
    }
    if tasks && let Ok(tasks) = team.tasks().await {
        read.push(What::Tasks(tasks));
    }
    FilesRead { watch, read }
}

async fn watch(team: &Team) -> Option<Watch> {
    match team.watch().await {
        Ok(watch) => Some(watch),
        // The events of the run do not need the files.
        Err(error) => {
            tracing::warn!(%error, "followers do not see the team's files change");
            None
        }
    }
}
