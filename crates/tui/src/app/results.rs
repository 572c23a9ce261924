//! Handles the results of actions.

use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_view::asking::Chosen;
use pitcrew_view::conversation::Conversation;
use pitcrew_view::state::{Happened, Timeline, TimelineEntry};

use super::{Action, App, Done, Leaving, Stage, read};

impl App {
    pub(super) fn done(&mut self, done: Done) -> Vec<Action> {
        match done {
            Done::Started(result) => self.started(result),
            Done::Sent { to, text, result } => self.sent(&to, text, result),
            Done::Answered { chosen, result } => self.answered(chosen, result),
            Done::Slow => {
                let team = self.team_name();
                self.problem(format!("sent; the process of team {team} does not answer yet"));
                self.is_host_slow = true;
                Vec::new()
            }
            Done::Ending(Ok(ending)) => {
                self.host_answers();
                if matches!(self.leaving, Leaving::Ending(_)) {
                    self.leaving = Leaving::Ending(ending);
                }
                Vec::new()
            }
            Done::Ending(Err(reason)) => {
                self.leaving = Leaving::No;
                self.problem(format!("the team is not ended: {reason}"));
                Vec::new()
            }
            Done::Stopping(Ok(())) => {
                self.host_answers();
                Vec::new()
            }
            Done::Stopping(Err(reason)) => {
                self.leaving = Leaving::No;
                self.problem(format!("the run is not stopped: {reason}"));
                Vec::new()
            }
            Done::Told(text) => {
                self.tell(text);
                Vec::new()
            }
            Done::Failed(text) => {
                self.problem(text);
                Vec::new()
            }
            Done::Permissions(result) => self.permissions_read(result),
            Done::Plans(result) => self.plans_read(result),
            Done::Teams(result) => self.teams_listed(result),
            Done::Read { agent, recorded } => self.was_read(&agent, recorded),
            Done::Changes(result) => self.changes_read(result),
            Done::Versions { author, file, result } => self.versions_read(&author, &file, result),
            Done::Merged { author, result } => self.merged(&author, result),
            Done::Happened(entries) => {
                entries.into_iter().for_each(|what| self.add_to_timeline(what));
                Vec::new()
            }
            Done::Files { prefix, names } => {
                self.composer.know_files(&prefix, names);
                Vec::new()
            }
        }
    }

    /// Takes back the notice that the host does not answer.
    fn host_answers(&mut self) {
        if std::mem::take(&mut self.is_host_slow) {
            self.notice = None;
        }
    }

    fn add_to_timeline(&mut self, what: Happened) {
        let latest = self.state.timeline.entries().next_back();
        let line = latest.map_or(1, |latest| latest.line + 1);
        self.state.timeline.push(TimelineEntry { line, what });
    }

    fn started(&mut self, result: Result<String, String>) -> Vec<Action> {
        match result {
            // The stage changes when the host answers.
            Ok(team) => {
                self.team = Some(team);
                // The log of the team is read from its beginning.
                self.state.timeline = Timeline::default();
            }
            Err(reason) => {
                // The goal can be corrected and sent again.
                if let Some(queued) = self.queued.pop()
                    && self.composer.is_empty()
                {
                    self.composer.set(&queued.text);
                }
                self.stage = match std::mem::replace(&mut self.stage, Stage::Goal) {
                    Stage::Starting(Some(last)) => Stage::Over(last),
                    Stage::Starting(None) => Stage::Goal,
                    stage @ (Stage::Goal | Stage::Running | Stage::NoHost | Stage::Over(_)) => {
                        stage
                    }
                };
                self.problem(format!("not started: {reason}"));
            }
        }
        self.queued.clear();
        Vec::new()
    }

    fn sent(
        &mut self,
        to: &AgentName,
        text: String,
        result: Result<MessageId, String>,
    ) -> Vec<Action> {
        let is_it = |queued: &super::Queued| queued.id.is_none() && queued.text == text;
        let at = self.queued.iter().position(is_it);
        match (result, at) {
            (Ok(id), Some(at)) if self.delivered.contains(&id) => _ = self.queued.remove(at),
            (Ok(id), Some(at)) => {
                if let Some(queued) = self.queued.get_mut(at) {
                    queued.id = Some(id);
                }
            }
            (Ok(_), None) => {}
            (Err(reason), at) => {
                at.into_iter().for_each(|at| _ = self.queued.remove(at));
                if self.composer.is_empty() {
                    self.composer.set(&text);
                }
                self.problem(format!("not sent to {to}: {reason}"));
            }
        }
        Vec::new()
    }

    fn answered(&mut self, chosen: Box<Chosen>, result: Result<(), String>) -> Vec<Action> {
        self.host_answers();
        if let Err(reason) = result {
            self.problem(format!("not answered: {reason}"));
            // Another answer may have closed the request in the meantime. Then the host has said so,
            // or will say so.
            if matches!(self.stage, Stage::Running) {
                self.questions.push_front(chosen.question);
            }
            self.show_question();
        }
        Vec::new()
    }

    fn was_read(&mut self, agent: &AgentName, recorded: Option<Conversation>) -> Vec<Action> {
        let talk = match &mut self.peeked {
            Some(peeked) if peeked.agent() == agent => peeked,
            Some(_) | None if self.lead.agent() == agent => &mut self.lead,
            Some(_) | None => return Vec::new(),
        };
        let reading = talk.read(recorded);
        read(reading, agent)
    }
}
