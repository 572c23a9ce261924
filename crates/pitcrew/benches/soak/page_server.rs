//! The server of the pages: a process with `pitcrew serve`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use crate::options::Options;
use crate::team::pitcrew;

/// A server of all teams below a root. Dropping it ends the process.
pub(crate) struct PageServer {
    process: Child,
    serving: Serving,
}

/// The line that the server prints when it takes requests.
#[derive(Deserialize)]
struct Serving {
    url: String,
    token_file: String,
}

impl PageServer {
    /// Starts a server on a free port.
    pub(crate) fn start(options: &Options, root: &Path) -> Self {
        let mut command = pitcrew(options, root);
        command.args(["serve", "--port", "0", "--json"]);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut line = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
        lines.read_line(&mut line).expect("the server lives");
        let serving = serde_json::from_str(&line).expect("the address of the server");
        Self { process, serving }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Adds the arguments of a process that follows the event stream of this server.
    pub(crate) fn add_follower_arguments(&self, command: &mut Command) {
        command.args(["--follow-server", &self.serving.url, &self.serving.token_file]);
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        // The process may have ended already, so the result is ignored.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
