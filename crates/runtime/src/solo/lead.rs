//! Tracks the process that leads the team. It finds out whether there is such a process, when the
//! process ends, and which keys verify its signatures.

use std::time::Duration;

use futures_util::future::BoxFuture;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_team::store::{LeaseHolder, LeaseName, StoreError};
use pitcrew_team::{LeadKeys, NotRenewed, Team, Trust};
use tokio::sync::watch;

/// Pause before the lease of the run is read again, if the process named in it is dead. A new lead
/// first locks the lease and then writes its own process into it.
const NAME_FOLLOWS: Duration = Duration::from_millis(20);

/// Maximum number of times that the lease of the run is read while the process named in it is dead.
/// If no living process is named by then, the holder of the lease probably runs in another process
/// namespace.
const NAME_LOOKS: u32 = 100;

/// The process that leads the team. The lease of the run names this process. If another client
/// leads the team, that client holds no lease and is not watched.
pub(super) struct Lead {
    /// The last lead that this member followed, even if that lead has ended. Before the first
    /// check, this is the lead that started this member.
    followed: Option<LeaseHolder>,
    is_there: bool,
    /// Whether the run is changing from one lead to the next. Meanwhile the lease names a process
    /// that may end or become the lead without writing the lease file again. The check must
    /// therefore be repeated even if this file does not change.
    is_changing: bool,
    /// How many checks in a row have found that the process named in the lease is dead.
    dead_holders: u32,
    /// Completes when the lease must be checked again. The kernel reports the end of the lead's
    /// process, or of the process that is becoming the lead. While the lead is changing, a short
    /// pause can also trigger the check.
    look_due: Option<BoxFuture<'static, ()>>,
    trust: watch::Sender<Trust>,
}

/// Who leads the team, as the latest check found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A lead that this member accepts holds the lease.
    Led,
    /// The team has no lead, or its new lead is not ready yet.
    Nobody,
    /// A process holds the lease, but this member does not accept it as the lead.
    Refused(NotRenewed),
}

impl Lead {
    /// Creates the state for a lead. `key` verifies the lead's signatures, and `process` is the
    /// process that owns the key. Another key is accepted only after that process has ended. If
    /// `key` is missing, the first process that is seen as the lead provides the key.
    ///
    /// # Errors
    /// When the lease cannot be read.
    pub(super) async fn of(
        team: &Team,
        key: Option<LeadKeys>,
        process: Option<ProcessIdentity>,
    ) -> Result<Self, StoreError> {
        let (key, followed) = match key {
            Some(key) => {
                let verify_key = Some(key.now().to_string());
                let holder = |ProcessIdentity { pid, start_ticks }| LeaseHolder {
                    pid,
                    start_ticks,
                    since_ms: 0,
                    verify_key: verify_key.clone(),
                    prepares: false,
                };
                let followed = process.map(holder);
                (Some(key), followed)
            }
            None => {
                let leads = team.lease_holder(&LeaseName::Run).await?;
                // While the team has no lead, accept only messages with the signature of the former
                // lead. The sender's name in a message proves nothing.
                let shown = match leads {
                    None => team.last_holder(&LeaseName::Run).await?,
                    leads => leads,
                };
                // If the key is invalid, go on without it. The first call of [`Self::look`] then
                // refuses the lead that has this key.
                let key =
                    shown.as_ref().and_then(|holder| holder.verify_key.as_deref()?.parse().ok());
                (key, shown)
            }
        };
        Ok(Self {
            followed,
            is_there: false,
            is_changing: false,
            dead_holders: 0,
            look_due: None,
            trust: watch::Sender::new(key.map_or(Trust::Founding, Trust::Signed)),
        })
    }

    /// Returns true if the team had a lead at the latest check.
    pub(super) fn is_known(&self) -> bool {
        self.is_there
    }

    /// Returns true if the lease is changing from one lead to the next. Signatures of a new lead
    /// cannot be verified until the change is over.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Returns a receiver of the currently trusted keys.
    pub(super) fn trust(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Checks who leads the team now.
    ///
    /// # Errors
    /// When the lease cannot be read. What is known about the lead then stays unchanged.
    pub(super) async fn look(&mut self, team: &Team) -> Result<Look, StoreError> {
        let Some(holder) = team.lease_holder(&LeaseName::Run).await? else {
            (self.is_there, self.is_changing, self.look_due) = (false, false, None);
            return Ok(Look::Nobody);
        };
        let process = identity(&holder);
        // A new lead locks the lease before it writes its own process into it. The dead process in
        // the lease may therefore be outdated. Check again soon.
        if !process.is_alive() && self.dead_holders < NAME_LOOKS {
            self.dead_holders += 1;
            let pause: BoxFuture<'static, ()> = Box::pin(tokio::time::sleep(NAME_FOLLOWS));
            (self.is_there, self.is_changing, self.look_due) = (false, true, Some(pause));
            return Ok(Look::Nobody);
        }
        self.dead_holders = 0;
        if holder.prepares {
            // Check again when this process ends. If it becomes the lead before that, it changes
            // the lease file, and that change also leads to a check.
            let ended: BoxFuture<'static, ()> = Box::pin(async move { process.ended().await });
            (self.is_there, self.is_changing, self.look_due) = (false, true, Some(ended));
            return Ok(Look::Nobody);
        }
        if self.is_there && self.followed.as_ref().is_some_and(|known| identity(known) == process) {
            return Ok(Look::Led);
        }
        let old = identity(self.followed.as_ref().unwrap_or(&holder));
        let old_is_alive = old.is_alive();
        let renewed = self.trust.borrow().renewed(self.followed.as_ref(), !old_is_alive, &holder);
        match renewed {
            Ok(trust) => {
                let is_new = *self.trust.borrow() != trust;
                let trust =
                    if is_new { with_keys_of_former_leads(team, trust).await } else { trust };
                self.trust.send_if_modified(|now| {
                    *now != trust && {
                        *now = trust;
                        true
                    }
                });
                (self.followed, self.is_there, self.is_changing) = (Some(holder), true, false);
                self.look_due = Some(Box::pin(async move { process.ended().await }));
                Ok(Look::Led)
            }
            Err(refused) => {
                // A process releases its lease a moment before it ends, so the old lead may still
                // be alive for a short time.
                let is_ending = old_is_alive && old != process;
                (self.is_there, self.is_changing) = (false, is_ending);
                self.look_due = is_ending.then(|| -> BoxFuture<'static, ()> {
                    Box::pin(async move { old.ended().await })
                });
                Ok(Look::Refused(refused))
            }
        }
    }

    /// Waits until the lead must be checked again. If the next check depends only on a change of
    /// the lease file, this function waits forever, because the caller watches that file itself.
    pub(super) async fn next_look(&mut self) {
        match &mut self.look_due {
            Some(due) => due.await,
            None => std::future::pending().await,
        }
        self.look_due = None;
    }
}

/// Adds the keys of all leads between the followed lead and the new lead, because some mail that
/// these leads signed may still be unread. The keys come from the team's record of its leads. The
/// new lead reads this record too and accepts the same keys.
async fn with_keys_of_former_leads(team: &Team, trust: Trust) -> Trust {
    match team.keys_of_leads().await {
        Ok(keys) => trust.knowing(keys),
        Err(error) => {
            tracing::warn!(%error, "the keys of former leads cannot be read");
            trust
        }
    }
}

fn identity(holder: &LeaseHolder) -> ProcessIdentity {
    holder.process().into()
}
