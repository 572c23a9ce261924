//! Checks that every backend must pass for leases.

use std::sync::Arc;

use pitcrew_protocol::AgentName;

use super::{Failure, bob, same, team};
use crate::{Backend, LeaseHolder, LeaseName, StoreError};

pub(super) async fn a_lease_has_one_holder(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let run = LeaseName::Run;
    let key = Some("1.key".to_owned());
    let holder = |pid| LeaseHolder {
        pid,
        start_ticks: 7,
        since_ms: 8,
        verify_key: key.clone(),
        prepares: false,
    };
    same("nobody", backend.lease_holder(&dir, &run).await?, None)?;
    same("nobody yet", backend.last_holder(&dir, &run).await?, None)?;
    let lease = backend.take_lease(&dir, &run, &holder(1)).await?.ok();
    same("taken", lease.is_some(), true)?;
    same("refused", backend.take_lease(&dir, &run, &holder(2)).await?.err(), Some(holder(1)))?;
    same("holder", backend.lease_holder(&dir, &run).await?, Some(holder(1)))?;
    let preparing = LeaseHolder { prepares: true, since_ms: 123_456, ..holder(1) };
    for named in [preparing, holder(1)] {
        backend.name_holder(&dir, &run, &named).await?;
        same("named anew", backend.lease_holder(&dir, &run).await?, Some(named))?;
    }
    drop(lease);
    let late = backend.name_holder(&dir, &run, &holder(1)).await.err();
    same(
        "named too late",
        late.is_some_and(|late| matches!(late, StoreError::NotHeld { .. })),
        true,
    )?;
    same("given up", backend.lease_holder(&dir, &run).await?, None)?;
    same("the last one", backend.last_holder(&dir, &run).await?, Some(holder(1)))?;
    same("taken again", backend.take_lease(&dir, &run, &holder(2)).await?.is_ok(), true)
}

pub(super) async fn leases_of_members_are_apart(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let all = [LeaseName::Run, LeaseName::of_member(&AgentName::lead()), LeaseName::Member(bob())];
    let holder =
        |pid| LeaseHolder { pid, start_ticks: 7, since_ms: 8, verify_key: None, prepares: false };
    let mut held = Vec::new();
    for (lease, pid) in all.iter().zip(1..) {
        held.push(backend.take_lease(&dir, lease, &holder(pid)).await?.ok());
    }
    same("all taken", held.iter().all(Option::is_some), true)?;
    held.pop();
    let mut holders = Vec::new();
    for lease in &all {
        holders.push(backend.lease_holder(&dir, lease).await?.map(|holder| holder.pid));
    }
    same("holders", holders, vec![Some(1), Some(2), None])
}
