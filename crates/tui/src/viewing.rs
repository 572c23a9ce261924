//! The event loop of the display that takes no part in a run. It passes keys and the bytes of a
//! stream to the [`Viewer`], and draws. Nothing here ticks.

use std::io;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, LocalBoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use pitcrew_protocol::AgentName;
use pitcrew_view::conversation::Conversation;
use pitcrew_view::recorded::Recorded;
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::keyboard::Keys;
use crate::terminal::{Mouse, Screen};
use crate::theme::ThemeKind;
use crate::viewer::{End, Viewer, ViewerAction, ViewerInput};

/// The maximum number of inputs that are handled before the screen is drawn again. With blocks of
/// the usual size, a long file is drawn after each few megabytes.
const INPUTS_AT_ONCE: usize = 32;

/// Reads the conversation of an agent from the records of a team.
pub type ReadConversation<'a> =
    Box<dyn Fn(AgentName) -> LocalBoxFuture<'a, Option<Conversation>> + 'a>;

/// What the display shows.
pub enum Viewed<'a> {
    /// A stream: its bytes, and news about its end. After [`End::Reached`] and [`End::Broken`],
    /// nothing more may come.
    Stream(LocalBoxStream<'a, Result<Vec<u8>, End>>),
    /// The records of a team, and the function that reads a conversation.
    Records(Box<Recorded>, ReadConversation<'a>),
}

/// What the display needs from its caller.
pub struct ViewOptions<'v, 'a> {
    /// The theme.
    pub theme: ThemeKind,
    /// The name of the file, stream or team.
    pub source: String,
    /// What the display shows.
    pub viewed: Viewed<'v>,
    /// The warnings of this process. The stream does not end.
    pub remarks: LocalBoxStream<'a, String>,
    /// Is ready when the process must end.
    pub end: LocalBoxFuture<'a, ()>,
}

/// Why the display was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The user left.
    ByUser,
    /// The process must end, or its terminal is gone.
    Signal,
}

/// The sources of the event loop.
struct Sources<'v, 'a> {
    keys: Keys,
    stream: Option<LocalBoxStream<'v, Result<Vec<u8>, End>>>,
    read: Option<ReadConversation<'v>>,
    /// The conversations that are being read.
    reading: FuturesUnordered<LocalBoxFuture<'v, ViewerInput>>,
    remarks: LocalBoxStream<'a, String>,
    resumed: Signals,
    end: LocalBoxFuture<'a, ()>,
}

/// Displays a stream or a team's records until the user leaves. The terminal is then as it was
/// before. Keys come from the terminal of this process, also if the standard input is a pipe.
///
/// # Errors
/// If the terminal or the system refuses something.
pub async fn view(options: ViewOptions<'_, '_>) -> io::Result<Closed> {
    let ViewOptions { theme, source, viewed, remarks, end } = options;
    let (viewer, actions, stream, read) = match viewed {
        Viewed::Stream(stream) => {
            (Viewer::of_stream(theme, &source), Vec::new(), Some(stream), None)
        }
        Viewed::Records(recorded, read) => {
            let (viewer, actions) = Viewer::of_records(theme, &source, *recorded);
            (viewer, actions, None, Some(read))
        }
    };
    let mut sources = Sources {
        keys: Keys::open()?,
        stream,
        read,
        reading: FuturesUnordered::new(),
        remarks,
        resumed: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        end,
    };
    let mut screen = Screen::open(Mouse::Off)?;
    if let Some(closed) = carry_out(actions, &mut screen, &mut sources)? {
        return Ok(closed);
    }
    until_closed(viewer, &mut screen, &mut sources).await
}

async fn until_closed(
    mut viewer: Viewer,
    screen: &mut Screen,
    sources: &mut Sources<'_, '_>,
) -> io::Result<Closed> {
    loop {
        // The terminal is gone if it cannot be drawn on.
        if screen.draw(|frame| viewer.draw(frame)).is_err() {
            return Ok(Closed::Signal);
        }
        let mut next = Some(sources.next().await);
        let mut handled = 0;
        // What is there already is handled before the screen is drawn again.
        while let Some(input) = next {
            let Some(input) = input else { return Ok(Closed::Signal) };
            let actions = viewer.handle(input);
            if let Some(closed) = carry_out(actions, screen, sources)? {
                return Ok(closed);
            }
            handled += 1;
            // An input that was taken would be lost if it were not handled.
            next = match handled < INPUTS_AT_ONCE {
                true => sources.next().now_or_never(),
                false => None,
            };
        }
    }
}

fn carry_out(
    actions: Vec<ViewerAction>,
    screen: &mut Screen,
    sources: &mut Sources<'_, '_>,
) -> io::Result<Option<Closed>> {
    for action in actions {
        match action {
            ViewerAction::Leave => return Ok(Some(Closed::ByUser)),
            ViewerAction::Suspend => screen.suspend()?,
            ViewerAction::Redraw => screen.redraw()?,
            ViewerAction::Read(agent) => {
                if let Some(read) = &sources.read {
                    let reading = read(agent.clone());
                    let input = reading
                        .map(|conversation| ViewerInput::Read { agent, conversation })
                        .boxed_local();
                    sources.reading.push(input);
                }
            }
        }
    }
    Ok(None)
}

impl Sources<'_, '_> {
    /// Waits for the next input. `None` means that the process must end. It is cancel-safe.
    async fn next(&mut self) -> Option<ViewerInput> {
        tokio::select! {
            biased;
            () = &mut self.end => None,
            key = self.keys.next() => Some(ViewerInput::Terminal(key)),
            _ = self.resumed.recv() => Some(ViewerInput::Resumed),
            Some(read) = self.reading.next() => Some(read),
            Some(remark) = self.remarks.next() => Some(ViewerInput::Remark(remark)),
            piece = piece(&mut self.stream) => Some(piece),
        }
    }
}

/// Waits for the next piece of a stream. Without a stream, and after its end, this function waits
/// forever. It is cancel-safe.
async fn piece(stream: &mut Option<LocalBoxStream<'_, Result<Vec<u8>, End>>>) -> ViewerInput {
    let next = match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    };
    match next {
        Some(Ok(bytes)) => ViewerInput::Bytes(bytes),
        Some(Err(end)) => ViewerInput::Ended(end),
        None => {
            *stream = None;
            std::future::pending().await
        }
    }
}
