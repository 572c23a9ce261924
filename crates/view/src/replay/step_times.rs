//! Finds the times of the steps of a transcript. A transcript has no times, so they come from the
//! journal: the ends of the agent's model calls, and the deliveries of its mail.

use std::collections::{HashMap, VecDeque};

use pitcrew_agent::transcript::Step;
use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_team::store::{Event, JournalEntry};

/// The times of an agent, from the journal.
#[derive(Debug, Default)]
pub(super) struct StepTimes {
    /// The model calls: when each began and ended.
    calls: VecDeque<(i64, i64)>,
    delivered: HashMap<MessageId, i64>,
    began_ms: Option<i64>,
    ended_ms: Option<i64>,
}

impl StepTimes {
    /// Reads the times of all agents.
    pub(super) fn of(journal: &[JournalEntry]) -> HashMap<AgentName, Self> {
        let mut all: HashMap<AgentName, Self> = HashMap::new();
        for entry in journal {
            if let Some(agent) = agent_of(&entry.event) {
                all.entry(agent.clone()).or_default().add(entry);
            }
        }
        all
    }

    fn add(&mut self, entry: &JournalEntry) {
        let at_ms = entry.at_ms;
        self.began_ms.get_or_insert(at_ms);
        self.ended_ms = Some(at_ms);
        if let Event::TurnEnded(turn) = &entry.event {
            let took_ms = i64::try_from(turn.took_ms).unwrap_or_default();
            self.calls.push_back((at_ms.saturating_sub(took_ms), at_ms));
        } else if let Event::MessageInjected { id, .. } = &entry.event {
            self.delivered.entry(id.clone()).or_insert(at_ms);
        }
    }

    /// Returns the steps with their times. No time is earlier than the one before.
    pub(super) fn timed(mut self, steps: Vec<Step>) -> Vec<(i64, Step)> {
        // The transcript of an earlier member of this name is gone, and its calls are in the journal.
        let calls = steps.iter().filter(|step| is_model_call(step)).count();
        self.calls.drain(..self.calls.len().saturating_sub(calls));
        let mut now = self.began_ms.unwrap_or_default();
        let mut timed = Vec::with_capacity(steps.len());
        for step in steps {
            now = now.max(self.time_of(&step).unwrap_or(now));
            timed.push((now, step));
        }
        timed
    }

    fn time_of(&mut self, step: &Step) -> Option<i64> {
        match step {
            Step::Assistant { .. } | Step::Compacted { .. } | Step::NotCompacted { .. } => {
                self.calls.pop_front().map(|(_, ended)| ended)
            }
            Step::Mail { ids, .. } => {
                ids.iter().filter_map(|id| self.delivered.get(id)).max().copied()
            }
            // The model gets a result when its next call begins.
            Step::Result { .. } => self.calls.front().map(|(began, _)| *began).or(self.ended_ms),
            Step::Ended { .. } => self.ended_ms,
            Step::Told { .. }
            | Step::Instructed { .. }
            | Step::Parted { .. }
            | Step::Rejoined { .. }
            | Step::TeamMade
            | Step::Replaced { .. }
            | Step::Began { .. }
            | Step::Rested
            | Step::Asked { .. }
            | Step::Granted { .. }
            | Step::PlanSent { .. }
            | Step::PlanAnswered { .. }
            | Step::ShutdownAsked { .. }
            | Step::ShutdownRefused
            | Step::Cut { .. }
            | Step::Shortened { .. } => None,
        }
    }
}

fn is_model_call(step: &Step) -> bool {
    matches!(step, Step::Assistant { .. } | Step::Compacted { .. } | Step::NotCompacted { .. })
}

/// Returns the agent to which the event gives a time.
fn agent_of(event: &Event) -> Option<&AgentName> {
    if let Event::TurnEnded(turn) = event {
        return Some(&turn.member);
    }
    let (Event::MessageInjected { to: agent, .. } | Event::MemberChanged { member: agent, .. }) =
        event
    else {
        return None;
    };
    Some(agent)
}

#[cfg(test)]
mod tests {
    use pitcrew_model::Usage;
    use pitcrew_team::store::Turn;

    use super::*;

    fn bob() -> AgentName {
        AgentName::new("bob").unwrap()
    }

    fn call(at_ms: i64, took_ms: u64) -> JournalEntry {
        let turn = Turn { took_ms, ..Turn::new(bob(), "opus") };
        JournalEntry { at_ms, event: Event::TurnEnded(turn) }
    }

    fn answer() -> Step {
        Step::Assistant { blocks: Vec::new(), usage: Usage::default(), cost_usd: None, fault: None }
    }

    fn result() -> Step {
        Step::Result {
            call: "c".to_owned(),
            text: String::new(),
            is_error: false,
            context: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn times(journal: &[JournalEntry], steps: Vec<Step>) -> Vec<i64> {
        let times = StepTimes::of(journal).remove(&bob()).unwrap();
        times.timed(steps).into_iter().map(|(at_ms, _)| at_ms).collect()
    }

    #[test]
    fn a_result_comes_when_the_next_model_call_begins() {
        let journal = [call(100, 50), call(900, 200)];
        let steps = vec![Step::Told { text: "go".to_owned() }, answer(), result(), answer()];
        assert_eq!(times(&journal, steps), [100, 100, 700, 900]);
    }

    #[test]
    fn the_calls_of_an_earlier_member_of_the_name_are_left_out() {
        let journal = [call(100, 1), call(200, 1), call(300, 1)];
        assert_eq!(times(&journal, vec![answer()]), [300]);
    }

    #[test]
    fn mail_has_the_time_of_its_delivery() {
        let id = MessageId("m1".to_owned());
        let delivered = Event::MessageInjected { id: id.clone(), to: bob() };
        let journal = [call(100, 1), JournalEntry { at_ms: 150, event: delivered }, call(300, 1)];
        let mail = Step::Mail { ids: vec![id], text: "hello".to_owned() };
        assert_eq!(times(&journal, vec![answer(), mail, answer()]), [100, 150, 300]);
    }
}
