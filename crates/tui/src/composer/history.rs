//! The messages that the user sent before.

use std::collections::VecDeque;

/// The maximum number of messages.
const MESSAGES_MOST: usize = 200;

/// The sent messages, and the place of the user in them.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The messages, the latest first.
    sent: VecDeque<String>,
    /// The index of the message in the composer. `None` if the composer has the user's draft.
    at: Option<usize>,
    draft: String,
}

impl History {
    /// Adds a message that was sent.
    pub(super) fn push(&mut self, text: String) {
        self.at = None;
        if self.sent.front() != Some(&text) {
            self.sent.push_front(text);
            self.sent.truncate(MESSAGES_MOST);
        }
    }

    /// Returns the message before the present text. The first call stores the present text.
    pub(super) fn earlier(&mut self, present: &str) -> Option<String> {
        let next = self.at.map_or(0, |at| at + 1);
        let text = self.sent.get(next)?.clone();
        if self.at.is_none() {
            present.clone_into(&mut self.draft);
        }
        self.at = Some(next);
        Some(text)
    }

    /// Returns the message after the present one, and at last the draft.
    pub(super) fn later(&mut self) -> Option<String> {
        let at = self.at?;
        self.at = at.checked_sub(1);
        match self.at {
            Some(at) => self.sent.get(at).cloned(),
            None => Some(std::mem::take(&mut self.draft)),
        }
    }

    /// Makes the text in the composer the user's draft, because the user changed it.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }
}
