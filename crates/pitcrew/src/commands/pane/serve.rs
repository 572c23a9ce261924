//! `pitcrew pane serve`: the pane program for terminals that pitcrew supports itself.

use std::io::{self, BufReader};
use std::path::PathBuf;

use clap::ValueEnum;
use pitcrew_panes::wire::Capability;
use pitcrew_panes::{ITerm2, ITerm2Options, PaneError, PaneId, Tmux, TmuxOptions, serve};

use crate::commands::pane_exec;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::hosting::tmux_socket;

/// Speak the pane protocol for a terminal: one JSON line per request on stdin, one per answer on
/// stdout
///
/// The protocol is described in docs/pane-protocol.md. The panes stay open when stdin ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew pane serve tmux
  echo '{\"id\":1,\"op\":\"hello\",\"protocol\":1}' | pitcrew pane serve tmux --session mine")]
pub(crate) struct Serve {
    /// The terminal that shows the panes
    terminal: Terminal,
    /// tmux: the socket of the server [default: the server that this process runs in, else the
    /// user's]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// tmux: the pane beside which others are opened [default: $TMUX_PANE, unless --socket is
    /// given]
    #[arg(long, value_name = "PANE")]
    beside: Option<String>,
    /// tmux: the session to create when there is no pane to open others beside
    #[arg(long, value_name = "NAME", default_value = "pitcrew")]
    session: String,
}

/// The terminals that pitcrew supports.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Terminal {
    /// tmux 3.2 or later
    Tmux,
    /// iTerm2 with its helper it2
    #[value(name = "iterm2")]
    ITerm2,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut input = BufReader::new(io::stdin());
        let mut output = io::stdout();
        match self.terminal {
            Terminal::Tmux => {
                let tmux = self.tmux(context)?;
                let version = tmux.version().await.map_err(not_usable)?;
                serve(&tmux, version, &Capability::ALL, &mut input, &mut output)
                    .await
                    .map_err(Failure::internal)
            }
            Terminal::ITerm2 => {
                let iterm2 = iterm2(context)?;
                let version = iterm2.version().await.map_err(not_usable)?;
                let can = [Capability::Screen, Capability::List];
                serve(&iterm2, &version, &can, &mut input, &mut output)
                    .await
                    .map_err(Failure::internal)
            }
        }
    }

    fn tmux(self, context: &Context) -> Result<Tmux, Failure> {
        let own =
            || context.environment.get("TMUX_PANE").filter(|_| self.socket.is_none()).cloned();
        let beside = self.beside.or_else(own).map(PaneId);
        Ok(Tmux::new(TmuxOptions {
            program: PathBuf::from("tmux"),
            socket: self.socket.or_else(|| tmux_socket(context)),
            config: None,
            beside,
            session: self.session,
            launcher: pane_exec::launcher(context)?,
        }))
    }
}

fn iterm2(context: &Context) -> Result<ITerm2, Failure> {
    Ok(ITerm2::new(ITerm2Options {
        program: PathBuf::from("it2"),
        beside: context.environment.get("ITERM_SESSION_ID").cloned(),
        launcher: pane_exec::launcher(context)?,
    }))
}

fn not_usable(error: PaneError) -> Failure {
    Failure::new(FailureKind::Failed, error)
}
