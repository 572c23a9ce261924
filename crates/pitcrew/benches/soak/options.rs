//! The command line of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

/// The maximum length of a window, in seconds. A window is a part of the run, and the report has
/// one line for each window.
const LONGEST_WINDOW_SECONDS: u64 = 30;

/// The minimum length of a run to which the limits apply, in seconds.
const JUDGED_FROM_SECONDS: u64 = 240;

/// The user interfaces that a benchmark of faces starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaceKind {
    /// Follows the host over its control socket, with the code of `pitcrew attach`.
    Attached,
    /// Follows an event stream of `pitcrew serve`, as a page in a browser does.
    Page,
}

/// What one process must follow, instead of running the benchmark.
#[derive(Clone, Debug)]
pub(crate) enum Followed {
    /// The host of the team below this root.
    Host(PathBuf),
    /// The event stream of the team at the server with this address.
    Server { url: String, token_file: PathBuf },
}

/// The length of each of the three periods with faces, in seconds.
const FACES_SECONDS: u64 = 60;

/// The time for which the model thinks in the benchmark with faces. Fast models take about so long.
/// In less time, 50 agents use all of two processors.
const FACES_THINK: Duration = Duration::from_secs(2);

/// The options of the benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The length of the measurement, in seconds.
    pub(crate) seconds: u64,
    /// The number of agents of the team, including the lead.
    pub(crate) agents: usize,
    /// The average time for which the model thinks before an answer.
    pub(crate) think: Duration,
    /// The maximum length of a conversation, in tokens.
    pub(crate) context_window: u64,
    /// The binary to measure.
    pub(crate) binary: PathBuf,
    /// The folder for the team's files. This folder is not deleted. If it is `None`, a temporary
    /// folder is used.
    pub(crate) folder: Option<PathBuf>,
    /// The number of user interfaces that follow the team. If it is 0, the soak runs.
    pub(crate) faces: usize,
    pub(crate) face_kind: FaceKind,
    /// Whether to measure the first screen and the echo of keys, instead of the soak.
    pub(crate) paints: bool,
    /// What this process must follow, instead of the benchmark.
    pub(crate) follows: Option<Followed>,
    /// Whether this follower counts the bytes of the events.
    pub(crate) counts_bytes: bool,
    /// Whether this process must run the model server instead of the benchmark.
    pub(crate) serves_model: bool,
}

impl FaceKind {
    /// Returns the word for one of them.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Attached => "face",
            Self::Page => "page",
        }
    }
}

impl Options {
    /// Reads the arguments. Arguments that `cargo bench` adds, such as `--bench`, are ignored.
    pub(crate) fn from_arguments() -> Self {
        let mut options = Self {
            seconds: 30,
            agents: 50,
            think: Duration::from_millis(400),
            context_window: 60_000,
            binary: env!("CARGO_BIN_EXE_pitcrew").into(),
            folder: None,
            faces: 0,
            face_kind: FaceKind::Attached,
            paints: false,
            follows: None,
            counts_bytes: false,
            serves_model: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
            match argument.as_str() {
                "--seconds" => options.seconds = number(&value()),
                "--agents" => {
                    options.agents = usize::try_from(number(&value())).expect("a small number")
                }
                "--think-ms" => options.think = Duration::from_millis(number(&value())),
                "--context-window" => options.context_window = number(&value()),
                "--binary" => options.binary = value().into(),
                "--folder" => options.folder = Some(value().into()),
                "--faces" => options.set_faces(FaceKind::Attached, &value()),
                "--pages" => options.set_faces(FaceKind::Page, &value()),
                "--paint" => (options.paints, options.think) = (true, FACES_THINK),
                "--follow-host" => options.follows = Some(Followed::Host(value().into())),
                "--follow-server" => {
                    let (url, token_file) = (value(), value().into());
                    options.follows = Some(Followed::Server { url, token_file });
                }
                "--count-bytes" => options.counts_bytes = true,
                "--serve-model" => options.serves_model = true,
                _ => {}
            }
        }
        assert!(options.agents >= 3, "a soak needs a lead and two teammates");
        options
    }

    fn set_faces(&mut self, kind: FaceKind, count: &str) {
        self.face_kind = kind;
        self.faces = usize::try_from(number(count)).expect("a small number");
        (self.seconds, self.think) = (FACES_SECONDS, FACES_THINK);
    }

    /// Returns the length of one window. The report has one line for each window.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs((self.seconds / 8).clamp(1, LONGEST_WINDOW_SECONDS))
    }

    /// The number of windows of the run.
    pub(crate) fn windows(&self) -> u32 {
        u32::try_from(self.seconds.div_ceil(self.window().as_secs())).expect("a short run")
    }

    /// Whether the run is long enough for the limits to apply.
    pub(crate) fn is_judged(&self) -> bool {
        self.seconds >= JUDGED_FROM_SECONDS
    }
}

/// The name of the nth teammate, counted from 1.
pub(crate) fn teammate(nth: usize) -> String {
    format!("w{nth:02}")
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}
