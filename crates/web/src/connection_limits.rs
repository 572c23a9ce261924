//! Limits the connections that are open at one time, so that no caller takes those of the others.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::read_rates::Reader;

/// The maximum number of connections.
const CONNECTIONS_MOST: usize = 256;

/// The maximum number of connections of one process. A browser opens six for each profile.
const OF_PROCESS_MOST: usize = 128;

/// The maximum number of connections of another machine. Several devices can share its address.
const OF_MACHINE_MOST: usize = 64;

/// The maximum number of connections on which one device has sent its token. Then the oldest one of
/// these ends, so that no device takes the connections of the others.
const OF_DEVICE_MOST: usize = 64;

/// The maximum number of connections of all callers together that may not call anyway.
const OF_REFUSED_MOST: usize = 16;

/// The callers that share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A process of the user.
    Process(u32),
    /// A machine with its IPv4 address, or the IPv6 addresses that one customer gets.
    Machine(IpAddr),
    /// Callers that may not call: other users, tools of agents, and those that cannot be found.
    Refused,
    /// The proxy that the user has named, and all its callers.
    Proxy,
}

impl Origin {
    /// Returns the origin of another machine.
    pub(crate) fn machine(ip: IpAddr) -> Self {
        Self::Machine(match ip.to_canonical() {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
        })
    }

    fn most(self) -> usize {
        match self {
            Self::Process(_) => OF_PROCESS_MOST,
            Self::Machine(_) => OF_MACHINE_MOST,
            Self::Refused => OF_REFUSED_MOST,
            Self::Proxy => CONNECTIONS_MOST,
        }
    }
}

/// The open connections, and how many there may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionLimits {
    open: Arc<Mutex<Connections>>,
}

#[derive(Debug, Default)]
struct Connections {
    /// In the order in which they came.
    all: VecDeque<Open>,
    next_id: u64,
}

/// An open connection.
#[derive(Clone, Debug)]
struct Open {
    id: u64,
    origin: Origin,
    /// The holder of the valid key that a request on it had.
    holder: Option<Reader>,
    /// Cancelled when the connection must end, because another one needs its permit.
    revoked: CancellationToken,
}

/// The permit of an open connection. The connection counts until its permit is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Permit(Arc<Admitted>);

#[derive(Debug)]
struct Admitted {
    limits: ConnectionLimits,
    id: u64,
    revoked: CancellationToken,
}

impl ConnectionLimits {
    /// Returns a permit for a connection. If there are too many connections, the oldest one that
    /// never sent a valid key ends. Returns `None` if the origin has too many, or if all have keys.
    pub(crate) fn admit(&self, origin: Origin) -> Option<Permit> {
        let mut open = self.lock();
        let Connections { all, next_id } = &mut *open;
        if all.iter().filter(|open| open.origin == origin).count() >= origin.most() {
            return None;
        }
        if all.len() >= CONNECTIONS_MOST {
            let at = all.iter().position(|open| open.holder.is_none())?;
            all.remove(at)?.revoked.cancel();
        }
        let id = *next_id;
        *next_id = id.wrapping_add(1);
        let revoked = CancellationToken::new();
        all.push_back(Open { id, origin, holder: None, revoked: revoked.clone() });
        Some(Permit(Arc::new(Admitted { limits: self.clone(), id, revoked })))
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Records that a request on the connection had a valid key.
    pub(crate) fn mark_authorized(&self, holder: &Reader) {
        let mut open = self.0.limits.lock();
        let Some(own) = open.all.iter_mut().find(|open| open.id == self.0.id) else { return };
        if own.holder.as_ref() == Some(holder) {
            return;
        }
        own.holder = Some(holder.clone());
        if !matches!(holder, Reader::Device(_)) {
            return;
        }
        let of_device = |open: &&Open| open.holder.as_ref() == Some(holder);
        if open.all.iter().filter(of_device).count() > OF_DEVICE_MOST
            && let Some(oldest) = open.all.iter().find(of_device)
        {
            oldest.revoked.cancel();
        }
    }

    /// Waits until the connection must end.
    pub(crate) async fn revoked(&self) {
        self.0.revoked.cancelled().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.limits.lock().all.retain(|open| open.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(number: u8) -> Origin {
        Origin::machine(IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn one_caller_gets_a_part_of_the_connections_only() {
        let limits = ConnectionLimits::default();
        for (origin, most) in [
            (Origin::Process(7), OF_PROCESS_MOST),
            (machine(1), OF_MACHINE_MOST),
            (Origin::Refused, OF_REFUSED_MOST),
        ] {
            let mut permits: Vec<Permit> =
                (0..most).map(|_| limits.admit(origin).unwrap()).collect();
            assert!(limits.admit(origin).is_none(), "{origin:?}");
            assert!(limits.admit(machine(9)).is_some(), "{origin:?}");
            permits.pop();
            assert!(limits.admit(origin).is_some(), "{origin:?}");
        }
        assert!(limits.lock().all.is_empty());
    }

    #[test]
    fn a_new_caller_ends_the_oldest_connection_without_a_key() {
        let limits = ConnectionLimits::default();
        let mut permits = Vec::new();
        for number in 0..CONNECTIONS_MOST {
            let number = u8::try_from(number % 200).unwrap();
            permits.push(limits.admit(machine(number)).unwrap());
        }
        permits[0].mark_authorized(&Reader::Token);
        let new = limits.admit(machine(250)).unwrap();
        let ended = |permit: &Permit| permit.0.revoked.is_cancelled();
        assert_eq!([&permits[0], &permits[1], &permits[2]].map(ended), [false, true, false]);
        // The ended connection does not count already.
        drop(permits.remove(1));
        assert_eq!(limits.lock().all.len(), CONNECTIONS_MOST);
        permits.iter().for_each(|permit| permit.mark_authorized(&Reader::Token));
        new.mark_authorized(&Reader::Token);
        assert!(limits.admit(machine(251)).is_none(), "all have a key");
    }

    #[test]
    fn a_device_ends_its_own_oldest_connection_and_no_other() {
        let limits = ConnectionLimits::default();
        let device = |name: &str| Reader::Device(name.to_owned());
        let open = |holder: &Reader, number: u8| {
            let permit = limits.admit(machine(number)).unwrap();
            permit.mark_authorized(holder);
            permit.mark_authorized(holder);
            permit
        };
        let others = [open(&Reader::Token, 1), open(&device("tablet"), 2)];
        let of_phone: Vec<Permit> =
            (0..=OF_DEVICE_MOST).map(|n| open(&device("phone"), n as u8 + 3)).collect();
        let ended = |permit: &Permit| permit.0.revoked.is_cancelled();
        assert!(!others.iter().any(ended));
        assert_eq!(of_phone.iter().map(ended).filter(|ended| *ended).count(), 1);
        assert!(ended(&of_phone[0]));
    }

    #[test]
    fn the_addresses_of_one_customer_share_a_limit() {
        let of = |text: &str| Origin::machine(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::7"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
    }
}
