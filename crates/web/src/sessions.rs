//! The one-time link that opens the page, and the sessions of browsers that opened it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How long a link can be opened.
const LINK_LASTS: Duration = Duration::from_secs(10 * 60);

/// The maximum number of links that wait to be opened. An older one is then void.
const LINKS_MOST: usize = 16;

/// The maximum number of sessions. The oldest one ends when there are more.
const SESSIONS_MOST: usize = 64;

/// The open links and the sessions. They end with the server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    links: VecDeque<(String, Instant)>,
    sessions: VecDeque<String>,
}

impl Sessions {
    /// Makes a link that can be opened once. Returns its secret part.
    pub(crate) fn new_link(&self) -> String {
        let nonce = secret();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.links.push_back((nonce.clone(), Instant::now() + LINK_LASTS));
        while known.links.len() > LINKS_MOST {
            known.links.pop_front();
        }
        nonce
    }

    /// Opens a link. Returns the id of a new session, or `None` if there is no such link, or if it
    /// was opened before.
    pub(crate) fn open(&self, nonce: &str) -> Option<String> {
        self.open_at(nonce, Instant::now())
    }

    fn open_at(&self, nonce: &str, now: Instant) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.links.retain(|(_, ends)| *ends > now);
        let at = known.links.iter().position(|(link, _)| link == nonce)?;
        known.links.remove(at);
        let session = secret();
        known.sessions.push_back(session.clone());
        while known.sessions.len() > SESSIONS_MOST {
            known.sessions.pop_front();
        }
        Some(session)
    }

    /// Whether there is a session with this id.
    pub(crate) fn has(&self, session: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sessions.iter().any(|known| known == session)
    }
}

/// Returns 64 random hexadecimal digits.
fn secret() -> String {
    (0..2).map(|_| Uuid::new_v4().simple().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_one_session_within_its_time() {
        let sessions = Sessions::default();
        let nonce = sessions.new_link();
        let session = sessions.open(&nonce).unwrap();
        assert!(sessions.has(&session));
        assert_eq!(sessions.open(&nonce), None, "opened twice");
        let late = sessions.new_link();
        let later = Instant::now() + LINK_LASTS;
        assert_eq!(sessions.open_at(&late, later), None, "opened late");
        assert!(!sessions.has(&nonce));
    }

    #[test]
    fn the_number_of_links_and_sessions_is_bounded() {
        let sessions = Sessions::default();
        let first = sessions.new_link();
        for _ in 0..LINKS_MOST {
            let _waits = sessions.new_link();
        }
        assert_eq!(sessions.open(&first), None);
        let opened: Vec<String> =
            (0..=SESSIONS_MOST).map(|_| sessions.open(&sessions.new_link()).unwrap()).collect();
        assert!(!sessions.has(&opened[0]));
        assert!(sessions.has(&opened[SESSIONS_MOST]));
    }
}
