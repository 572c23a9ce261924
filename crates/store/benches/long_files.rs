//! Measures two kinds of operations on long files.
//!
//! Queries on a journal of 1,000,000 lines are compared with one read of the whole file. Durable
//! sends into an inbox of 10,000 unread messages (the default limit) and of 100,000 are compared
//! with a plain durable write. That write stores the same bytes in these steps: write a temporary
//! file, fsync, rename, fsync of the folder.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use pitcrew_store::NewTeam;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use pitcrew_protocol::{AgentName, InboxFile, Message, MessageId, TeamConfig, TeamDir};
use pitcrew_store::{
    Appended, Event, FileBackend, FileOptions, JournalEntry, JournalOf, JournalStore, MailStore,
    TeamStore, Turn, UnreadLimit,
};

const LINES: u64 = 1_000_000;
const CHECKPOINT_INTERVAL: u64 = 1024 * 1024;
/// The default limit of unread messages in an inbox (setting `limits.unreadMessages`).
const BOUND: usize = 10_000;
/// Number of messages in an inbox that is longer than the default limit. An inbox can become this
/// long if the user raises the limit or if another client writes to the inbox.
const MESSAGES: usize = 100_000;
const ROUNDS: usize = 9;

fn id(nth: u64) -> MessageId {
    MessageId(format!("01936e4c-0000-7000-8000-{nth:012}"))
}

fn entry(nth: u64) -> JournalEntry {
    let (to, from) = (AgentName::lead(), format!("worker-{}", nth % 50));
    let event = match nth % 10 {
        0..4 => Event::MessagePersisted {
            id: id(nth - nth % 10 + nth % 4),
            from,
            author: None,
            to,
            frame: None,
        },
        4..6 => Event::MessageInjected { id: id(nth - nth % 10 + nth % 4), to },
        6..8 => Event::MessageAcknowledged { id: id(nth - nth % 10 + nth % 4), to },
        8 => {
            let turn = Turn::new(AgentName::foreign(&from), "claude-sonnet");
            Event::TurnEnded(Turn { input_tokens: nth, output_tokens: 9, ..turn })
        }
        _ => Event::MemberChanged {
            member: AgentName::foreign(&from),
            state: pitcrew_protocol::Status::Idle.into(),
            detail: None,
        },
    };
    JournalEntry { at_ms: i64::try_from(nth).unwrap() + 1_795_000_000_000, event }
}

fn message(nth: usize) -> Message {
    let text =
        format!("message {nth}: {}", "the quick brown fox jumps over the lazy dog. ".repeat(4));
    Message::new("worker", text, "2026-11-20T11:48:29.735Z".into()).with_id(&id(nth as u64))
}

fn raw(path: &Path, bytes: &[u8]) {
    let temp = path.with_extension("tmp");
    let mut file = File::create_new(&temp).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_data().unwrap();
    fs::rename(&temp, path).unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    *times.get(times.len() / 2).unwrap()
}

fn show(what: &str, time: Duration, beside: Duration) {
    println!("{what:<44} {time:>10.1?} {:>8.2}", time.as_secs_f64() / beside.as_secs_f64());
}

#[tokio::main]
async fn main() {
    let root = tempfile::tempdir_in(".").unwrap();
    let config: TeamConfig = serde_json::from_str(
        r#"{"name": "bench", "members": [{"name": "team-lead", "pitcrew": {}}]}"#,
    )
    .unwrap();
    let (team, inbox) = (TeamDir::of("bench"), AgentName::lead().inbox_file());
    let open = || FileBackend::open(root.path(), FileOptions::default());
    open().create_team(&config, &NewTeam::default()).await.unwrap();
    journal(root.path(), &team, &open).await;

    for messages in [BOUND, MESSAGES] {
        sends(root.path(), (&team, &inbox), messages, &open).await;
    }
}

async fn sends(
    root: &Path,
    to: (&TeamDir, &InboxFile),
    messages: usize,
    open: &impl Fn() -> FileBackend,
) {
    let (team, inbox) = to;
    let path = root.join("teams/bench/inboxes/team-lead.json");
    let all: Vec<Message> = (0..messages).map(message).collect();
    fs::write(&path, serde_json::to_string_pretty(&all).unwrap()).unwrap();
    let (mut ours, mut theirs, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..ROUNDS {
        // The limit `room` allows exactly one more message in the inbox.
        let (backend, room) = (open(), UnreadLimit::OfAll(messages + nth + 1));
        let started = Instant::now();
        let sent = backend.append(team, inbox, message(messages + nth), room).await.unwrap();
        ours.push(started.elapsed());
        assert_eq!(sent, Appended::New);
        let (backend, most) = (open(), messages + nth + 1);
        let started = Instant::now();
        let one_more = message(messages + nth + 1);
        let answer = backend.append(team, inbox, one_more, UnreadLimit::OfAll(most)).await.unwrap();
        refused.push(started.elapsed());
        assert_eq!(answer, Appended::Full { unread: most, most });
        let bytes = fs::read(&path).unwrap();
        let started = Instant::now();
        raw(&path.with_file_name("raw.json"), &bytes);
        theirs.push(started.elapsed());
    }
    let theirs = median(theirs);
    println!(
        "inbox of {messages} messages, {} bytes; medians of {ROUNDS} rounds",
        fs::metadata(&path).unwrap().len()
    );
    show("same bytes, by hand", theirs, theirs);
    show("durable send, the last there is room for", median(ours), theirs);
    show("a send that is refused", median(refused), theirs);
}

async fn journal(root: &Path, team: &TeamDir, open: &impl Fn() -> FileBackend) {
    let path = root.join("teams/bench/pitcrew/journal.ndjson");
    let mut text = String::new();
    for nth in 0..LINES {
        writeln!(text, "{}", serde_json::to_string(&entry(nth)).unwrap()).unwrap();
    }
    fs::write(&path, &text).unwrap();
    drop(text);
    let questions = [
        ("the way of a message, the newest", id(LINES - 10)),
        ("the way of a message, the oldest", id(0)),
        ("no message", id(LINES * 2)),
    ];
    let time = |_| {
        let started = Instant::now();
        assert!(!fs::read(&path).unwrap().is_empty());
        started.elapsed()
    };
    let read = median((0..ROUNDS).map(time).collect());
    println!(
        "journal of {LINES} lines, {} bytes; medians of {ROUNDS} rounds",
        fs::metadata(&path).unwrap().len()
    );
    show("reading the file", read, read);
    for (what, asked) in questions {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let backend = open();
            let started = Instant::now();
            let found = backend.message_journal(JournalOf::Team(team), &asked).await.unwrap();
            times.push(started.elapsed());
            assert_eq!(found.is_empty(), what == "no message");
        }
        show(what, median(times), read);
    }
    let started = Instant::now();
    let (first, _) = open().journal_summary(team).await.unwrap();
    show("the summary for a resume, the first", started.elapsed(), read);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let backend = open();
        let started = Instant::now();
        let (summary, _) = backend.journal_summary(team).await.unwrap();
        times.push(started.elapsed());
        assert_eq!(summary, first);
    }
    show("the summary with a checkpoint at the end", median(times), read);
    let (mut times, mut nth) = (Vec::new(), LINES);
    for _ in 0..ROUNDS {
        // Makes the journal so long that it almost needs its next checkpoint. This is the worst
        // case, because the summary must then read the largest number of bytes after the last
        // checkpoint.
        let before = fs::metadata(&path).unwrap().len();
        while fs::metadata(&path).unwrap().len() < before + CHECKPOINT_INTERVAL * 3 / 2 {
            let entries: Vec<_> = (nth..nth + 500).map(entry).collect();
            nth += 500;
            open().record(team, &entries).await.unwrap();
        }
        let backend = open();
        let started = Instant::now();
        let (summary, _) = backend.journal_summary(team).await.unwrap();
        times.push(started.elapsed());
        assert!(summary != first);
    }
    times.sort();
    show("the summary of a journal that grew, slowest", *times.last().unwrap(), read);
    let started = Instant::now();
    let all = open().journal_since(team, 0).await.unwrap().0.len();
    show("all of it, as it was asked before", started.elapsed(), read);
    assert_eq!(all as u64, nth);
}
