//! The command line of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

/// Windows of at most this length are reported, each on a line.
const LONGEST_WINDOW_SECONDS: u64 = 30;

/// From this length on a run is long enough to be judged.
const JUDGED_FROM_SECONDS: u64 = 240;

/// What the benchmark is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How long the team is measured.
    pub(crate) seconds: u64,
    /// Agents of the team, the lead included.
    pub(crate) agents: usize,
    /// How long the model thinks before each answer, about.
    pub(crate) think: Duration,
    /// Tokens that a conversation may hold.
    pub(crate) context_window: u64,
    /// The binary to measure.
    pub(crate) binary: PathBuf,
    /// A folder for the team's files that is kept; a temporary one when absent.
    pub(crate) folder: Option<PathBuf>,
    /// Whether this process is the model server.
    pub(crate) serves_model: bool,
}

impl Options {
    /// Reads the arguments. Those of `cargo bench` itself, such as `--bench`, are passed over.
    pub(crate) fn from_arguments() -> Self {
        let mut options = Self {
            seconds: 30,
            agents: 50,
            think: Duration::from_millis(400),
            context_window: 60_000,
            binary: env!("CARGO_BIN_EXE_pitcrew").into(),
            folder: None,
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
                "--serve-model" => options.serves_model = true,
                _ => {}
            }
        }
        assert!(options.agents >= 3, "a soak needs a lead and two teammates");
        options
    }

    /// How long one window of the report is.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs((self.seconds / 8).clamp(1, LONGEST_WINDOW_SECONDS))
    }

    /// How many windows the run has.
    pub(crate) fn windows(&self) -> u32 {
        u32::try_from(self.seconds.div_ceil(self.window().as_secs())).expect("a short run")
    }

    /// Whether the run is long enough for the limits to apply.
    pub(crate) fn is_judged(&self) -> bool {
        self.seconds >= JUDGED_FROM_SECONDS
    }
}

/// The name of the nth teammate, from 1 up.
pub(crate) fn teammate(nth: usize) -> String {
    format!("w{nth:02}")
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}
