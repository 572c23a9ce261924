//! Opens the display of the terminal interface that takes no part in a run, and gives it what it
//! needs from this process: the bytes of a stream, the records of a team, warnings and signals.

use std::cell::Cell;
use std::io;
use std::io::IsTerminal as _;
use std::thread;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use pitcrew_process::given_stream::{GivenStream, Piece};
use pitcrew_protocol::AgentName;
use pitcrew_team::TeamRecords;
use pitcrew_tui::viewer::End;
use pitcrew_tui::{self as tui, Closed, ViewOptions, Viewed};
use pitcrew_view::conversation::{Conversation, recorded_by_client};
use pitcrew_view::recorded::{self, Recorded};
use rustix::fs::{Mode, OFlags};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::sync::mpsc;

use super::face::{DUMB, theme};
use super::signals::{EndSignal, Signals};
use super::warnings::Remarks;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The size of one read of a stream.
const BLOCK_BYTES: usize = 64 * 1024;

/// The number of blocks that wait for the display. The reader waits when there are more, and so does
/// a client that writes into a pipe.
const BLOCKS_WAITING: usize = 4;

/// About how many bytes at the end of another client's conversation are read.
const CONVERSATION_BYTES: u64 = 1024 * 1024;

/// Whether this process can open the display. Its standard input may be a pipe, because the keys
/// come from the terminal of the process.
pub(crate) fn is_possible(context: &Context) -> bool {
    let is_in_foreground = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        Some(tcgetpgrp(terminal).ok()? == getpgrp())
    };
    io::stderr().is_terminal()
        && context.variable("TERM") != Some(DUMB)
        && is_in_foreground() == Some(true)
}

/// Displays a stream until the user leaves.
///
/// # Errors
/// Returns an error if the terminal cannot be used, or if a signal ended the display.
pub(crate) async fn stream(
    context: &Context,
    given: GivenStream,
    name: &str,
) -> Result<(), Failure> {
    let pieces = Viewed::Stream(pieces(given).map_err(Failure::internal)?);
    open(context, name.to_owned(), pieces).await
}

/// Displays the records of a team until the user leaves.
///
/// # Errors
/// As for [`stream()`].
pub(crate) async fn records(
    context: &Context,
    records: TeamRecords,
    recorded: Recorded,
) -> Result<(), Failure> {
    let name = format!("team {}", recorded.state.team);
    let read = |agent| conversation(context, records.clone(), agent).boxed_local();
    open(context, name, Viewed::Records(Box::new(recorded), Box::new(read))).await
}

/// Reads the end of a conversation that pitcrew or another client recorded. Returns `None` if there
/// is none, or if it cannot be read.
async fn conversation(
    context: &Context,
    records: TeamRecords,
    agent: AgentName,
) -> Option<Conversation> {
    if let Some(conversation) = recorded::conversation(&records, &agent).await {
        return Some(conversation);
    }
    let config = records.config().await.ok()?;
    let most = (context.root.as_path(), CONVERSATION_BYTES);
    recorded_by_client(&records, &config, &agent, most).await.ok()?
}

async fn open(context: &Context, source: String, viewed: Viewed<'_>) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let signal = Cell::new(EndSignal::Terminate);
    let mut remarks = Remarks::open();
    let options = ViewOptions {
        theme: theme(context),
        source,
        viewed,
        remarks: stream::unfold(&mut remarks, |remarks| async move {
            let remark = remarks.next().await;
            Some((remark, remarks))
        })
        .boxed_local(),
        end: async { signal.set(signals.next().await) }.boxed_local(),
    };
    let closed = tui::view(options).await;
    remarks.left().iter().for_each(|remark| output::remark(remark));
    match closed.map_err(Failure::internal)? {
        Closed::ByUser => Ok(()),
        Closed::Signal => Err(Failure::new(signal.get().failure(), "the display was stopped")),
    }
}

fn pieces(given: GivenStream) -> io::Result<stream::LocalBoxStream<'static, Result<Vec<u8>, End>>> {
    let mut pieces = read_in_thread(given, |piece| piece)?;
    Ok(stream::poll_fn(move |task| pieces.poll_recv(task)).boxed_local())
}

/// Reads a stream in a thread of its own, because a read waits for as long as nobody writes. The
/// thread ends with the stream, and otherwise with the process. `make` is called when a piece was
/// read.
pub(crate) fn read_in_thread<T: Send + 'static>(
    mut given: GivenStream,
    mut make: impl FnMut(Result<Vec<u8>, End>) -> T + Send + 'static,
) -> io::Result<mpsc::Receiver<T>> {
    let (sender, pieces) = mpsc::channel(BLOCKS_WAITING);
    thread::Builder::new().name("stream".to_owned()).spawn(move || {
        loop {
            let (piece, is_last) = next(&mut given);
            let waits = matches!(piece, Err(End::ForNow));
            if sender.blocking_send(make(piece)).is_err() || is_last {
                return;
            }
            if waits && let Err(error) = given.wait() {
                let broken = End::Broken(format!("it cannot be followed: {error}"));
                // The display may be closed already.
                let _either = sender.blocking_send(make(Err(broken)));
                return;
            }
        }
    })?;
    Ok(pieces)
}

/// Returns the next piece of a stream, and whether it is the last one.
fn next(given: &mut GivenStream) -> (Result<Vec<u8>, End>, bool) {
    let mut block = vec![0; BLOCK_BYTES];
    match given.read(&mut block) {
        Ok(Piece::Bytes(count)) => {
            block.truncate(count);
            (Ok(block), false)
        }
        Ok(Piece::EndForNow) => (Err(End::ForNow), false),
        Ok(Piece::BegunAgain) => (Err(End::BegunAgain), false),
        Ok(Piece::End) => (Err(End::Reached), true),
        Err(error) => (Err(End::Broken(format!("it cannot be read: {error}"))), true),
    }
}
