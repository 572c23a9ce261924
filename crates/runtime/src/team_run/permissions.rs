//! Reports the permissions of a run to the user's other processes.

use pitcrew_protocol::ApiError;
use serde::Serialize;
use serde_json::{Value, json};

use super::team_loop::TeamLoop;
use crate::control_socket::LINE_MOST;
use crate::run::{Answers, Asks, RunPermissions};

/// About how many bytes of an answer the rules take. An answer is one line of at most
/// [`LINE_MOST`] bytes.
const RULE_BYTES: u64 = LINE_MOST / 4 * 3;

impl TeamLoop {
    /// Returns the rules in force and what a person has granted in this run.
    pub(super) fn permissions_for_user(&self) -> Result<Value, ApiError> {
        let context = &self.run_context;
        let answers = match context.asking.asks() {
            Asks::Person(_) => Answers::Person,
            Asks::Deny => Answers::Nobody,
            Asks::Allow => Answers::Yes,
        };
        let (mut bytes, mut left_out) = (0, 0);
        // What a person granted is new to nobody but the reader, so it comes before the rules.
        let granted = fitting(context.asking.granted(), &mut bytes, &mut left_out);
        let rules = fitting(context.gate.rules_in_force(), &mut bytes, &mut left_out);
        let permissions = RunPermissions { answers, rules, granted, left_out };
        let mut answer = json!(permissions);
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("success".to_owned(), json!(true));
        }
        Ok(answer)
    }
}

/// Returns the items that fit into the answer, and counts the others.
fn fitting<T: Serialize>(items: Vec<T>, bytes: &mut u64, left_out: &mut usize) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        let length = serde_json::to_string(&item).map_or(u64::MAX, |text| text.len() as u64);
        if bytes.saturating_add(length) > RULE_BYTES {
            *left_out += 1;
        } else {
            *bytes += length;
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_rules_as_fit_and_counts_the_others() {
        let long = "x".repeat(usize::try_from(RULE_BYTES).unwrap());
        let items = vec!["one".to_owned(), long, "two".to_owned()];
        let (mut bytes, mut left_out) = (0, 0);
        assert_eq!(fitting(items, &mut bytes, &mut left_out), ["one", "two"]);
        assert_eq!((bytes, left_out), (10, 1));
    }
}
