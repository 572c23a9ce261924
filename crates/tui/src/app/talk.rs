//! The conversation of one agent: its transcript, the events after it, and the text that its model is
//! writing.
//!
//! The transcript on disk is the truth. An answer of a model arrives as an event before it is in the
//! transcript. It is therefore shown from the event until the transcript has been read again.

use pitcrew_protocol::AgentName;
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::conversation::{Conversation, follows_written_steps};

use super::talk_view::TalkView;

/// The maximum length in bytes of a text that is being written. A longer text is shown when it is
/// complete.
const LIVE_BYTES_MOST: usize = 256 * 1024;

/// The conversation of an agent.
#[derive(Debug)]
pub(crate) struct Talk {
    agent: AgentName,
    /// What the transcript contained when it was last read.
    recorded: Conversation,
    /// The answers that came after the transcript was read, each with its number.
    answers: Vec<(u64, Conversation)>,
    /// The text that the model is writing.
    live: String,
    /// The number of the latest event of the agent.
    latest: u64,
    /// The number of the latest event when the running read of the transcript began.
    reading: Option<u64>,
    /// Whether the transcript changed after the running read began.
    is_stale: bool,
    view: TalkView,
}

/// Whether the transcript must be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Reading {
    /// Read the transcript, and pass the result to [`Talk::read`].
    Begin,
    /// Read nothing now.
    No,
}

impl Talk {
    /// Begins a conversation whose transcript was not read yet.
    pub(crate) fn new(agent: AgentName) -> Self {
        Self {
            agent,
            recorded: Conversation::default(),
            answers: Vec::new(),
            live: String::new(),
            latest: 0,
            reading: None,
            is_stale: false,
            view: TalkView::default(),
        }
    }

    /// Returns the agent.
    pub(crate) fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// Returns the lines of the conversation on the screen.
    pub(crate) fn view(&mut self) -> &mut TalkView {
        &mut self.view
    }

    /// Returns whether the conversation has no part yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.recorded.parts.is_empty() && self.answers.is_empty() && self.live.is_empty()
    }

    /// Decides whether the transcript must be read now, because it may have changed.
    pub(crate) fn refresh(&mut self) -> Reading {
        if self.reading.is_some() {
            self.is_stale = true;
            return Reading::No;
        }
        self.is_stale = false;
        self.reading = Some(self.latest);
        Reading::Begin
    }

    /// Takes the result of a read. `None` means that the transcript could not be read.
    pub(crate) fn read(&mut self, recorded: Option<Conversation>) -> Reading {
        let began = self.reading.take();
        if let (Some(recorded), Some(began)) = (recorded, began) {
            self.recorded = recorded;
            self.answers.retain(|(number, _)| *number > began);
            self.update_parts();
        }
        if self.is_stale { self.refresh() } else { Reading::No }
    }

    /// Handles an event of the run. Events of other agents are ignored.
    pub(crate) fn happened(&mut self, event: &RunEvent) -> Reading {
        if agent_of(event) != Some(&self.agent) {
            return Reading::No;
        }
        match event {
            RunEvent::TextDelta { text, .. } => self.wrote(text),
            // The model begins its answer again.
            RunEvent::ModelWaits { .. } => self.live.clear(),
            RunEvent::Answered(answered) => {
                self.live.clear();
                self.latest += 1;
                let mut answer = Conversation::default();
                answer.add_answer(answered);
                self.answers.push((self.latest, answer));
            }
            RunEvent::ToolEnded(ended) => {
                self.answers.iter_mut().for_each(|(_, answer)| answer.add_result(ended));
            }
            RunEvent::AgentChanged { status, .. } => {
                if status.is_over() {
                    self.live.clear();
                }
            }
            RunEvent::Started(_)
            | RunEvent::AgentStarted(_)
            | RunEvent::AgentLaunched { .. }
            | RunEvent::TurnEnded { .. }
            | RunEvent::TaskChanged { .. }
            | RunEvent::PlanHandedIn { .. }
            | RunEvent::ModelSilent { .. }
            | RunEvent::Compacted(_)
            | RunEvent::ToolStarted { .. }
            | RunEvent::MailDelivered { .. }
            | RunEvent::PermissionAsked { .. }
            | RunEvent::PermissionAnswered { .. }
            | RunEvent::AllowedAlways { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModelChanged { .. }
            | RunEvent::ModeRecorded { .. }
            | RunEvent::ShuttingDown { .. }
            | RunEvent::Warning { .. } => {}
        }
        self.update_parts();
        if follows_written_steps(event) { self.refresh() } else { Reading::No }
    }

    fn wrote(&mut self, text: &str) {
        if self.live.len() + text.len() <= LIVE_BYTES_MOST {
            self.live.push_str(text);
        }
    }

    /// Forgets the text that the model is writing, because its end will not arrive.
    pub(crate) fn forget_live(&mut self) {
        self.live.clear();
        self.update_parts();
    }

    fn update_parts(&mut self) {
        let answers = self.answers.iter().flat_map(|(_, answer)| &answer.parts);
        let parts = self.recorded.parts.iter().chain(answers);
        self.view.set(parts, &self.live, self.recorded.is_cut);
    }
}

/// Returns the agent that an event is about. Events of a subagent belong to nobody here, because a
/// subagent has no conversation of its own on disk.
fn agent_of(event: &RunEvent) -> Option<&AgentName> {
    match event {
        RunEvent::Answered(answered) => {
            Some(&answered.agent).filter(|_| answered.parent_call.is_none())
        }
        RunEvent::ToolEnded(ended) => Some(&ended.agent).filter(|_| ended.parent_call.is_none()),
        RunEvent::Compacted(compacted) => Some(&compacted.agent),
        RunEvent::TurnEnded { agent, .. }
        | RunEvent::TaskChanged { agent, .. }
        | RunEvent::PlanHandedIn { agent }
        | RunEvent::AgentChanged { agent, .. }
        | RunEvent::TextDelta { agent, .. }
        | RunEvent::ModelWaits { agent, .. }
        | RunEvent::ModelSilent { agent, .. }
        | RunEvent::ToolStarted { agent, .. }
        | RunEvent::MailDelivered { agent, .. }
        | RunEvent::PermissionAsked { agent, .. }
        | RunEvent::PermissionAnswered { agent, .. } => Some(agent),
        RunEvent::Started(started) => Some(&started.agent),
        RunEvent::AgentStarted(started) => Some(&started.agent),
        RunEvent::AgentLaunched { .. }
        | RunEvent::AllowedAlways { .. }
        | RunEvent::ModeChanged { .. }
        | RunEvent::ModelChanged { .. }
        | RunEvent::ModeRecorded { .. }
        | RunEvent::ShuttingDown { .. }
        | RunEvent::Warning { .. } => None,
    }
}
