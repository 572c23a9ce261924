//! The process that leads the team: whether there is one, its end, and by what its word is known.

use std::time::Duration;

use futures_util::future::BoxFuture;
use pitcrew_team::store::{LeaseHolder, LeaseName, StoreError};
use pitcrew_team::{LeadKeys, NotRenewed, Team, Trust};
use tokio::sync::watch;

use crate::identity::ProcessIdentity;

/// The pause before the next look at a lease whose recorded holder is dead: a new lead locks it before it writes its name.
const NAME_FOLLOWS: Duration = Duration::from_millis(20);

/// How often such a lease is looked at; a holder that is never seen alive runs in another process namespace.
const NAME_LOOKS: u32 = 100;

/// The lead's process, as the lease of the run names it. A lead of another client holds none, and is not watched.
pub(super) struct Lead {
    /// The last one that was followed, which may have ended; before the first look, the one that started this member.
    followed: Option<LeaseHolder>,
    is_there: bool,
    /// The lease is between two leads: the next look may find another answer, though nobody changes the lease.
    is_changing: bool,
    /// How many looks in a row have found a dead holder.
    dead_holders: u32,
    /// Resolves when the lease is to be looked at again: when the lead's process ends, which the kernel tells, or while the
    /// lead is changing.
    look_due: Option<BoxFuture<'static, ()>>,
    trust: watch::Sender<Trust>,
}

/// What a look at the lead found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Somebody leads who may.
    Led,
    /// Nobody leads.
    Nobody,
    /// Somebody holds the lease who is not taken for the lead.
    Refused(NotRenewed),
}

impl Lead {
    /// A lead whose word is known by `key`, or by what its process shows when it is first seen. `process` is the one that
    /// has that key: only after its end another key is accepted.
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
                // While nobody leads, the word of the lead that was is the only one there can be: a name proves nothing.
                let shown = match leads {
                    None => team.last_holder(&LeaseName::Run).await?,
                    leads => leads,
                };
                // What is shown and is no key is met again, and refused, at the first look.
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

    /// Whether somebody led the team when it was looked at last.
    pub(super) fn is_known(&self) -> bool {
        self.is_there
    }

    /// Whether the lease is between two leads, so that what a new one has signed cannot be judged yet.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Where the trust of the moment can be read.
    pub(super) fn trust(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Looks who leads the team now.
    ///
    /// # Errors
    /// When the lease cannot be read; then what was known stays.
    pub(super) async fn look(&mut self, team: &Team) -> Result<Look, StoreError> {
        let Some(holder) = team.lease_holder(&LeaseName::Run).await? else {
            (self.is_there, self.is_changing, self.look_due) = (false, false, None);
            return Ok(Look::Nobody);
        };
        let process = identity(&holder);
        if !process.is_alive() && self.dead_holders < NAME_LOOKS {
            self.dead_holders += 1;
            let pause: BoxFuture<'static, ()> = Box::pin(tokio::time::sleep(NAME_FOLLOWS));
            (self.is_there, self.is_changing, self.look_due) = (false, true, Some(pause));
            return Ok(Look::Nobody);
        }
        self.dead_holders = 0;
        if holder.prepares {
            // It says so in the lease when it leads, or ends before that.
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
                // A process lets go of its lease a moment before it has ended.
                let is_ending = old_is_alive && old != process;
                (self.is_there, self.is_changing) = (false, is_ending);
                self.look_due = is_ending.then(|| -> BoxFuture<'static, ()> {
                    Box::pin(async move { old.ended().await })
                });
                Ok(Look::Refused(refused))
            }
        }
    }

    /// Waits until the lead is to be looked at again; for ever when only a change of the lease can tell more.
    pub(super) async fn next_look(&mut self) {
        match &mut self.look_due {
            Some(due) => due.await,
            None => std::future::pending().await,
        }
        self.look_due = None;
    }
}

/// Adds to the trust in a new lead the keys of the leads between it and the one that was followed: what they signed may still
/// be unread. The new lead itself accepts them from the same record.
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
