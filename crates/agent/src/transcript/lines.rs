//! Reads the lines of a transcript.

use pitcrew_protocol::{FORMAT_VERSION, newer_line};
use serde_json::Value;

use super::Entry;

/// The error for a transcript that a later version of pitcrew wrote.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line} is of version {version}, written by a newer pitcrew; this one reads up to version {FORMAT_VERSION}"
)]
pub struct NewerTranscript {
    /// The number of the line in the transcript, starting at 1.
    pub line: usize,
    /// The format version that the line states.
    pub version: u64,
}

/// The content of a transcript file.
#[derive(Debug, Default, PartialEq)]
pub struct Read {
    /// The steps of the transcript.
    pub entries: Vec<Entry>,
    /// The numbers of the lines that are not valid steps, starting at 1. Such lines are skipped,
    /// but they stay in the file.
    pub unread: Vec<usize>,
}

/// Reads the lines of a transcript. Lines that are not valid steps are skipped, and their numbers
/// are returned. Blank lines are skipped too, but their numbers are not returned. The caller must
/// pass complete lines: the crate `store` removes an incomplete last line.
///
/// # Errors
/// When a later version of pitcrew wrote a line.
pub fn read(lines: &[String]) -> Result<Read, NewerTranscript> {
    let mut read = Read::default();
    for (line, text) in (1..).zip(lines).filter(|(_, text)| !text.trim().is_empty()) {
        if let Ok(entry) = serde_json::from_str(text)
            && !text.contains(VERSION_MARK)
        {
            read.entries.push(entry);
            continue;
        }
        let value: Option<Value> = serde_json::from_str(text).ok();
        if let Some(version) = value.as_ref().and_then(newer_line) {
            return Err(NewerTranscript { line, version });
        }
        match value.and_then(|value| serde_json::from_value(value).ok()) {
            Some(entry) => read.entries.push(entry),
            None => read.unread.push(line),
        }
    }
    Ok(read)
}

/// Every line that states its format version contains this text. A line without this text needs no
/// check of its version.
const VERSION_MARK: &str = "\"v\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_steps_are_passed_over_and_those_of_a_later_version_refused() {
        let rested = r#"{"seq":1,"kind":"rested"}"#;
        let later = r#"{"v":2,"seq":5,"kind":"rested"}"#;
        let lines =
            [rested, "", "  ", r#"{"seq":2,"kind":"sang"}"#, "{\"seq\":", "17"].map(str::to_owned);
        let found = read(&lines).unwrap();
        assert_eq!((found.entries.len(), found.unread), (1, vec![4, 5, 6]));
        let error = read(&[rested.to_owned(), later.to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 is of version 2, written by a newer pitcrew; this one reads up to version 1"
        );
        assert_eq!(
            read(&[r#"{"v":1,"seq":5,"kind":"rested"}"#.to_owned()]).unwrap().entries.len(),
            1
        );
    }
}
