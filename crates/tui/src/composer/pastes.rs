//! Pasted texts that are too long to be shown in the composer.

/// A longer text is shown as a marker.
const CHARS_MOST: usize = 1_000;

/// A text with more lines is shown as a marker.
const LINES_MOST: usize = 10;

/// The long texts that were pasted into the present message.
#[derive(Debug, Default)]
pub(super) struct Pastes {
    texts: Vec<String>,
}

impl Pastes {
    /// Returns the text that the composer shows for a pasted text: the text itself, or a marker.
    pub(super) fn shown(&mut self, text: &str) -> String {
        let lines = text.lines().count();
        if text.chars().count() <= CHARS_MOST && lines <= LINES_MOST {
            return text.to_owned();
        }
        self.texts.push(text.to_owned());
        marker(self.texts.len(), text)
    }

    /// Returns a message with each whole marker replaced by its text. A pasted text that itself
    /// contains a marker is not changed.
    pub(super) fn whole(&self, message: &str) -> String {
        let mut whole = String::new();
        let mut rest = message;
        loop {
            let markers = self.texts.iter().enumerate().filter_map(|(at, text)| {
                let marker = marker(at + 1, text);
                Some((rest.find(&marker)?, marker.len(), text))
            });
            let Some((at, length, text)) = markers.min_by_key(|(at, ..)| *at) else {
                return whole + rest;
            };
            whole += rest.get(..at).unwrap_or_default();
            whole += text;
            rest = rest.get(at + length..).unwrap_or_default();
        }
    }
}

fn marker(number: usize, text: &str) -> String {
    format!("[pasted text {number}: {} lines]", text.lines().count())
}
