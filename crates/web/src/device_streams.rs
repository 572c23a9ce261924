//! Limits the event streams that one device has of one team. The host of a team has room for a
//! limited number of followers, and no device may take the room of its user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitcrew_protocol::TeamDir;

/// The maximum number of event streams of one device for one team. A browser has one.
pub(crate) const STREAMS_MOST: usize = 8;

/// A device by its name, and a team.
type Pair = (String, TeamDir);

/// The open event streams of devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceStreams {
    open: Arc<Mutex<HashMap<Pair, usize>>>,
}

/// An event stream that counts until this value is dropped.
#[derive(Debug)]
pub(crate) struct DeviceStream {
    all: DeviceStreams,
    pair: Pair,
}

impl DeviceStreams {
    /// Counts a stream. Returns `None` if the device has too many of this team.
    pub(crate) fn open(&self, device: &str, team: &TeamDir) -> Option<DeviceStream> {
        let pair = (device.to_owned(), team.clone());
        let mut open = self.lock();
        let count = open.entry(pair.clone()).or_default();
        if *count >= STREAMS_MOST {
            return None;
        }
        *count += 1;
        Some(DeviceStream { all: self.clone(), pair })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pair, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DeviceStream {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        if let Some(count) = open.get_mut(&self.pair) {
            *count -= 1;
        }
        open.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_a_limited_number_of_streams_of_each_team() {
        let (streams, team) = (DeviceStreams::default(), TeamDir::of("work"));
        let mut open: Vec<_> =
            (0..STREAMS_MOST).map(|_| streams.open("phone", &team).unwrap()).collect();
        assert!(streams.open("phone", &team).is_none());
        let others = [streams.open("phone", &TeamDir::of("other")), streams.open("tablet", &team)];
        assert!(others.iter().all(Option::is_some));
        open.pop();
        assert!(streams.open("phone", &team).is_some());
        drop((open, others));
        assert!(streams.lock().is_empty());
    }
}
