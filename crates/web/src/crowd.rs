//! Limits the connections that are open at one time, so that no caller takes the room of the others.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The maximum number of connections.
const CONNECTIONS_MOST: usize = 256;

/// The maximum number of connections of one process. A browser opens six for each profile.
const OF_PROCESS_MOST: usize = 128;

/// The maximum number of connections of another machine. Several devices can share its address.
const OF_MACHINE_MOST: usize = 64;

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

/// The open connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// In the order in which they came.
    all: VecDeque<Open>,
    next_id: u64,
}

/// An open connection.
#[derive(Clone, Debug)]
struct Open {
    id: u64,
    origin: Origin,
    /// Whether a request on it had a valid key.
    is_known: bool,
    /// Cancelled when the connection must make room.
    ends: CancellationToken,
}

/// The place of an open connection. Dropping it frees the place.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    crowd: Crowd,
    id: u64,
    ends: CancellationToken,
}

impl Crowd {
    /// Takes a place for a connection. If all places are taken, the oldest connection ends that never
    /// had a valid key. Returns `None` if there is no place.
    pub(crate) fn enter(&self, origin: Origin) -> Option<Place> {
        let mut known = self.lock();
        let Known { all, next_id } = &mut *known;
        if all.iter().filter(|open| open.origin == origin).count() >= origin.most() {
            return None;
        }
        if all.len() >= CONNECTIONS_MOST {
            let at = all.iter().position(|open| !open.is_known)?;
            all.remove(at)?.ends.cancel();
        }
        let id = *next_id;
        *next_id = id.wrapping_add(1);
        let ends = CancellationToken::new();
        all.push_back(Open { id, origin, is_known: false, ends: ends.clone() });
        Some(Place(Arc::new(Held { crowd: self.clone(), id, ends })))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Records that a request on the connection had a valid key.
    pub(crate) fn know(&self) {
        if let Some(open) = self.0.crowd.lock().all.iter_mut().find(|open| open.id == self.0.id) {
            open.is_known = true;
        }
    }

    /// Waits until the connection must make room for another one.
    pub(crate) async fn ends(&self) {
        self.0.ends.cancelled().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.crowd.lock().all.retain(|open| open.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(number: u8) -> Origin {
        Origin::machine(IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn one_caller_takes_a_part_of_the_places_only() {
        let crowd = Crowd::default();
        for (origin, most) in [
            (Origin::Process(7), OF_PROCESS_MOST),
            (machine(1), OF_MACHINE_MOST),
            (Origin::Refused, OF_REFUSED_MOST),
        ] {
            let mut places: Vec<Place> = (0..most).map(|_| crowd.enter(origin).unwrap()).collect();
            assert!(crowd.enter(origin).is_none(), "{origin:?}");
            assert!(crowd.enter(machine(9)).is_some(), "{origin:?}");
            places.pop();
            assert!(crowd.enter(origin).is_some(), "{origin:?}");
        }
        assert!(crowd.lock().all.is_empty());
    }

    #[test]
    fn a_new_caller_takes_the_place_of_the_oldest_one_without_a_key() {
        let crowd = Crowd::default();
        let mut places = Vec::new();
        for number in 0..CONNECTIONS_MOST {
            let number = u8::try_from(number % 200).unwrap();
            places.push(crowd.enter(machine(number)).unwrap());
        }
        places[0].know();
        let new = crowd.enter(machine(250)).unwrap();
        let ended = |place: &Place| place.0.ends.is_cancelled();
        assert_eq!([&places[0], &places[1], &places[2]].map(ended), [false, true, false]);
        // The place of the ended connection was freed already.
        drop(places.remove(1));
        assert_eq!(crowd.lock().all.len(), CONNECTIONS_MOST);
        places.iter().for_each(Place::know);
        new.know();
        assert!(crowd.enter(machine(251)).is_none(), "all have a key");
    }

    #[test]
    fn the_addresses_of_one_customer_share_a_limit() {
        let of = |text: &str| Origin::machine(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::7"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
    }
}
