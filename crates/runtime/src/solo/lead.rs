//! The process that leads the team: whether there is one, its end, and by what its word is known.

use futures_util::future::BoxFuture;
use pitcrew_team::store::{LeaseHolder, LeaseName, StoreError};
use pitcrew_team::{LeadKeys, NotRenewed, Team, Trust};
use tokio::sync::watch;

use crate::identity::ProcessIdentity;

/// The lead's process, as the lease of the run names it. A lead of another client holds none, and is not watched.
pub(super) struct Lead {
    /// The last one that was followed, which may have ended.
    followed: Option<LeaseHolder>,
    is_there: bool,
    /// Resolves when that process ends; the kernel tells of it.
    end: Option<BoxFuture<'static, ()>>,
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
    /// A lead whose word is known by `key`, or by what its process shows when it is first seen.
    ///
    /// # Errors
    /// When the lease cannot be read.
    pub(super) async fn of(team: &Team, key: Option<LeadKeys>) -> Result<Self, StoreError> {
        let shown = match key {
            Some(_) => None,
            None => team.backend().lease_holder(team.dir(), &LeaseName::Run).await?,
        };
        // What is shown and is no key is met again, and refused, at the first look.
        let key = key.or_else(|| shown.and_then(|holder| holder.verify_key?.parse().ok()));
        Ok(Self {
            followed: None,
            is_there: false,
            end: None,
            trust: watch::Sender::new(key.map_or(Trust::Founding, Trust::Signed)),
        })
    }

    /// Whether somebody led the team when it was looked at last.
    pub(super) fn is_known(&self) -> bool {
        self.is_there
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
        let Some(holder) = team.backend().lease_holder(team.dir(), &LeaseName::Run).await? else {
            (self.is_there, self.end) = (false, None);
            return Ok(Look::Nobody);
        };
        if self.is_there && self.followed.as_ref().is_some_and(|known| identity(known) == identity(&holder)) {
            return Ok(Look::Led);
        }
        let known = self.followed.as_ref().unwrap_or(&holder);
        let renewed = self.trust.borrow().renewed(known, !identity(known).is_alive(), &holder);
        match renewed {
            Ok(trust) => {
                self.trust.send_if_modified(|now| {
                    *now != trust && {
                        *now = trust;
                        true
                    }
                });
                let process = identity(&holder);
                (self.followed, self.is_there) = (Some(holder), true);
                self.end = Some(Box::pin(async move { process.ended().await }));
                Ok(Look::Led)
            }
            Err(refused) => {
                (self.is_there, self.end) = (false, None);
                Ok(Look::Refused(refused))
            }
        }
    }

    /// Waits for the end of the lead's process; for ever when there is none.
    pub(super) async fn ended(&mut self) {
        match &mut self.end {
            Some(end) => end.await,
            None => std::future::pending().await,
        }
        self.end = None;
    }
}

fn identity(holder: &LeaseHolder) -> ProcessIdentity {
    ProcessIdentity::from(holder)
}
