//! Handles the news of the host.

use pitcrew_protocol::LEAD_NAME;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::RunOutcome;
use pitcrew_view::client::News;
use pitcrew_view::conversation::follows_written_steps;
use pitcrew_view::host::{HostEvent, HostState, What};
use pitcrew_view::text::printable;
use pitcrew_view::{ViewEvent, fold};

use super::status::end_in_words;
use super::{Action, App, CanStart, Focus, LastRun, Leaving, Left, Stage, read};
use crate::question::QuestionView;

/// How many ids of delivered messages are kept. An id is needed only for the moment between the
/// delivery and the receipt.
const DELIVERED_MOST: usize = 64;

impl App {
    pub(super) fn heard(&mut self, news: News) -> Vec<Action> {
        match news {
            News::Open(version) => self.opened(&version),
            News::Snapshot(state) | News::Recorded(state) => self.replaced(*state),
            News::Event(event) => self.happened(*event),
            News::Nobody => self.lost(),
            News::TeamGone => self.team_gone(),
            News::Unwatched(reason) => {
                self.problem(format!("{reason}; the team is looked for every second"));
                Vec::new()
            }
        }
    }

    fn opened(&mut self, version: &str) -> Vec<Action> {
        let was = std::mem::replace(&mut self.stage, Stage::Running);
        let own = env!("CARGO_PKG_VERSION");
        if version != own {
            self.problem(format!(
                "pitcrew {version} runs the team, and this is {own}; some events may be missing"
            ));
        } else if matches!(was, Stage::NoHost) && self.has_been_attached() {
            self.tell(format!("team {} is run again", self.team_name()));
        } else {
            self.notice = None;
        }
        self.read_again()
    }

    /// Reads the conversations on the screen again.
    fn read_again(&mut self) -> Vec<Action> {
        let lead = self.lead.refresh();
        let mut actions = read(lead, self.lead.agent());
        if let Some(peeked) = &mut self.peeked {
            let reading = peeked.refresh();
            actions.extend(read(reading, peeked.agent()));
        }
        actions
    }

    /// Returns whether the team was displayed before.
    fn has_been_attached(&self) -> bool {
        !self.state.agents.is_empty()
    }

    fn replaced(&mut self, state: HostState) -> Vec<Action> {
        // The timeline comes from the team's log, not from the host.
        let timeline = std::mem::take(&mut self.state.timeline);
        self.state = state.team;
        self.state.timeline = timeline;
        self.questions = state.questions.into();
        self.show_question();
        Vec::new()
    }

    fn happened(&mut self, event: HostEvent) -> Vec<Action> {
        match event.what {
            What::Run(event) => return self.happened_in_run(&event),
            What::QuestionOpened(question) => self.questions.push_back(*question),
            What::QuestionClosed { id, closed: _ } => {
                self.questions.retain(|question| question.id != id);
                if self.refusing.as_ref().is_some_and(|question| question.id == id) {
                    self.refusing = None;
                    self.tell("the request needs no answer any more");
                }
            }
            What::Tasks(tasks) => self.fold(&ViewEvent::Tasks(&tasks)),
            What::Config(config) => self.fold(&ViewEvent::Config(&config)),
            // The event loop sends the signals to the terminal.
            What::Notify(_) => return Vec::new(),
            What::Ended(outcome) => return self.ended(outcome),
        }
        self.show_question();
        Vec::new()
    }

    fn fold(&mut self, event: &ViewEvent<'_>) {
        self.state = fold(std::mem::take(&mut self.state), event);
    }

    fn happened_in_run(&mut self, event: &RunEvent) -> Vec<Action> {
        self.fold(&ViewEvent::Run(event));
        match event {
            RunEvent::Warning { text } => self.problem(text.clone()),
            RunEvent::AllowedAlways { agent, what } => {
                self.tell(format!("from now on {agent} may do this unasked: {what}"));
            }
            RunEvent::ModelChanged { agent, model } => {
                self.tell(format!("{agent} uses the model {model} from now on"));
            }
            RunEvent::ShuttingDown { reason } => {
                self.tell(format!("the team is being shut down: {reason}"));
            }
            RunEvent::MailDelivered { ids, .. } => {
                self.queued.retain(|queued| queued.id.as_ref().is_none_or(|id| !ids.contains(id)));
                self.delivered.extend(ids.iter().cloned());
                let surplus = self.delivered.len().saturating_sub(DELIVERED_MOST);
                self.delivered.drain(..surplus);
            }
            RunEvent::Started(_)
            | RunEvent::AgentStarted(_)
            | RunEvent::AgentLaunched { .. }
            | RunEvent::TurnEnded { .. }
            | RunEvent::TaskChanged { .. }
            | RunEvent::PlanHandedIn { .. }
            | RunEvent::AgentChanged { .. }
            | RunEvent::TextDelta { .. }
            | RunEvent::ModelWaits { .. }
            | RunEvent::ModelSilent { .. }
            | RunEvent::Answered(_)
            | RunEvent::Compacted(_)
            | RunEvent::ToolStarted { .. }
            | RunEvent::ToolEnded(_)
            | RunEvent::PermissionAsked { .. }
            | RunEvent::PermissionAnswered { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModeRecorded { .. } => {}
        }
        let lead = self.lead.happened(event);
        let mut actions = read(lead, self.lead.agent());
        if let Some(peeked) = &mut self.peeked {
            let reading = peeked.happened(event);
            actions.extend(read(reading, peeked.agent()));
        }
        if self.focus == Focus::Timeline && follows_written_steps(event) {
            actions.push(Action::ReadLog);
        }
        actions
    }

    fn ended(&mut self, outcome: Box<RunOutcome>) -> Vec<Action> {
        self.fold(&ViewEvent::Ended(&outcome));
        self.no_host();
        if matches!(self.leaving, Leaving::Ending(_) | Leaving::Stopping) {
            let state = Box::new(std::mem::take(&mut self.state));
            return vec![Action::Leave(Left::Ended { outcome, state })];
        }
        self.tell(end_in_words(&outcome));
        self.stage = Stage::Over(LastRun::Reported(outcome));
        // The last steps have no event after them.
        self.read_again()
    }

    /// Handles that no process runs the team.
    fn lost(&mut self) -> Vec<Action> {
        match self.stage {
            Stage::Goal | Stage::Over(_) => return Vec::new(),
            Stage::Starting(_) => return self.already_over(),
            Stage::Running | Stage::NoHost => {}
        }
        self.stage = Stage::NoHost;
        self.no_host();
        let team = self.team_name();
        self.problem(format!(
            "the process of team {team} is gone; after `pitcrew run --resume {team}` this goes on"
        ));
        Vec::new()
    }

    /// Forgets what only a host can end: nobody waits for an answer, and no model writes.
    fn no_host(&mut self) {
        self.questions.clear();
        self.refusing = None;
        // The request of a later host is not one that changed under the user's eyes.
        self.question = QuestionView::new();
        self.lead.forget_live();
        if let Some(peeked) = &mut self.peeked {
            peeked.forget_live();
        }
    }

    fn team_gone(&mut self) -> Vec<Action> {
        match self.stage {
            // A completed team is moved into the archive.
            Stage::Over(_) | Stage::Goal => Vec::new(),
            Stage::Starting(_) => self.already_over(),
            // The host may end between the connection and the event of the end. Its team is then in
            // the archive.
            Stage::Running | Stage::NoHost if self.can_start == CanStart::Yes => {
                self.already_over()
            }
            Stage::Running | Stage::NoHost => {
                vec![Action::Leave(Left::TeamGone { team: self.team_name() })]
            }
        }
    }

    /// Handles that a run is over before its first event arrived. The interface stays open, and
    /// shows what the team's records say.
    fn already_over(&mut self) -> Vec<Action> {
        self.stage = Stage::Over(LastRun::Unseen);
        self.no_host();
        self.tell("the run has ended");
        let mut actions = self.read_again();
        actions.push(Action::ReadEnd);
        actions
    }

    /// Returns the team's name for a text to the user.
    pub(super) fn team_name(&self) -> String {
        printable(self.team.as_deref().unwrap_or(LEAD_NAME)).into_owned()
    }
}
