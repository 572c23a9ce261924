//! `pitcrew shutdown`: ends a team that another process runs, as its own Ctrl-C would.

use std::os::fd::OwnedFd;
use std::time::Duration;

use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_store::LeaseHolder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::selection;

/// Ask the process that runs a team to shut it down, and wait for its end
///
/// Every agent is asked to stop and is given time to; the team stays on disk and `pitcrew run --resume` goes on with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Shutdown {
    /// The team [default: the only one, else the one named after the repository's folder]
    team: Option<String>,
    /// How long to wait for the end
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
    /// Do not wait for the agents: kill what the process owns, as a second Ctrl-C does
    #[arg(long)]
    kill: bool,
}

impl Shutdown {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let (name, holder) = context.briefly(async {
            let team = selection::open(context, self.team.as_deref()).await?;
            let holder = team.backend().lease_holder(team.dir()).await.map_err(Failure::internal)?;
            Ok((team.name().clone(), holder))
        })?;
        let none = || nobody_runs(name.as_str());
        let holder = holder.ok_or_else(none)?;
        let process = running(&holder)?.ok_or_else(none)?;
        let signals = if self.kill { 2 } else { 1 };
        for _ in 0..signals {
            pidfd_send_signal(&process, Signal::INT).map_err(|e| not_signalled(&holder, e))?;
        }
        if !ends_within(&process, Duration::from_secs(self.wait.into()))? {
            let said = format!("process {} still runs team {name} after {} s", holder.pid, self.wait);
            return Err(Failure::new(FailureKind::Failed, said).hint("--kill does not wait for the agents"));
        }
        let answer = json!({"success": true, "message": format!("team {name} is shut down"), "pid": holder.pid});
        context.output.answer(&answer, |_| format!("team {name} is shut down"))
    }
}

/// A handle on the very process that took the lease; nothing when it is gone and another one has its id.
fn running(holder: &LeaseHolder) -> Result<Option<OwnedFd>, Failure> {
    let Some(pid) = i32::try_from(holder.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(not_signalled(holder, error)),
    };
    // Opened first and looked at after: the id cannot come to mean another process in between without our seeing it.
    Ok((start_ticks(holder.pid) == Some(holder.start_ticks)).then_some(process))
}

/// When a process started, in clock ticks since boot: the 22nd field of its `stat`, counted past a name that may hold
/// anything.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

fn ends_within(process: &OwnedFd, limit: Duration) -> Result<bool, Failure> {
    let timeout = Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout))
        .map_err(|e| Failure::internal(std::io::Error::from(e)))?;
    Ok(ready > 0)
}

fn nobody_runs(team: &str) -> Failure {
    ApiError::new(ErrorCode::InvalidStatus, format!("no process runs team '{team}'")).with("team_name", team).into()
}

fn not_signalled(holder: &LeaseHolder, error: rustix::io::Errno) -> Failure {
    let kind = if error == rustix::io::Errno::PERM { FailureKind::Denied } else { FailureKind::Internal };
    Failure::new(kind, format!("cannot signal process {}: {error}", holder.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_another_start_is_another_process() {
        let pid = std::process::id();
        let since = start_ticks(pid).unwrap();
        let holder = |start_ticks| LeaseHolder { pid, start_ticks, since_ms: 0 };
        assert!(running(&holder(since)).unwrap().is_some());
        assert!(running(&holder(since + 1)).unwrap().is_none());
    }
}
