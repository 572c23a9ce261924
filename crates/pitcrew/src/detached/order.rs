//! The messages between the command `run --detach` and the host process that it starts. Each is one
//! JSON document.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use pitcrew_runtime::run::Begin;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::commands::run::RunArgs;
use crate::failure::{Explained, Failure};

/// The maximum length of an order in bytes. A goal from stdin is the largest part of an order.
const ORDER_MOST: u64 = 64 * 1024 * 1024;

/// The maximum length of a report in bytes.
pub(super) const REPORT_MOST: u64 = 1024 * 1024;

/// The run that a host process must start. The starter writes it to the host process's standard
/// input, which ends after it.
///
/// The order is not in the arguments of the host process: a goal can be longer than the system
/// allows for an argument, and other users can read the arguments of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// How the run begins. A team from the archive is already restored.
    pub(crate) begin: Begin,
    /// The options of the run.
    pub(crate) how: RunArgs,
}

impl Order {
    /// Reads the order of this process.
    ///
    /// # Errors
    /// Returns an error if the standard input contains no order.
    pub(crate) fn read() -> Result<Self, Failure> {
        let mut text = Vec::new();
        io::stdin().take(ORDER_MOST).read_to_end(&mut text).map_err(Failure::internal)?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::usage(format!("stdin contains no order: {error}"))
                .hint("only `pitcrew run --detach` starts this command")
        })
    }
}

/// The one line that a host process writes to its starter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The team runs.
    Runs(RunningTeam),
    /// The run did not start. The value is the error envelope ([`Failure::document`]).
    Failed(Map<String, Value>),
}

/// A team that a host process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningTeam {
    /// The team's name. It differs from the requested name if that name was taken.
    pub(super) team: String,
    /// The id of the host process.
    pub(super) pid: u32,
    /// The file with the output of the host process.
    pub(super) log: PathBuf,
}

impl Report {
    /// Writes the report to the starter, which reads the standard output of this process.
    ///
    /// # Errors
    /// Returns an error if the starter has ended.
    pub(super) fn send(&self) -> Result<(), Failure> {
        let said = |error| Explained::new("the command that started this run has ended", error);
        let mut line = serde_json::to_vec(self).map_err(Failure::internal)?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        let written = out.write_all(&line).and_then(|()| out.flush());
        written.map_err(|error| Failure::internal(said(error)))
    }

    /// Parses the line of a host process. Returns `None` if the line is incomplete, because the
    /// host process ended while or before it wrote the line.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_only_as_a_whole_line() {
        let line = b"{\"runs\":{\"team\":\"crew\",\"pid\":7,\"log\":\"/l\"}}\n";
        let Some(Report::Runs(running)) = Report::parse(line) else { panic!("a report") };
        assert_eq!((running.team.as_str(), running.pid), ("crew", 7));
        for torn in [&line[..line.len() - 1], b"", b"\n", b"{\"runs\":{}}\n"] {
            assert!(Report::parse(torn).is_none(), "{}", String::from_utf8_lossy(torn));
        }
    }
}
