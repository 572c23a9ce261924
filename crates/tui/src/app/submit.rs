//! Handles a text that the user sends: a goal, a message, a command, or the reason of a refusal.

use pitcrew_protocol::{AgentName, LEAD_NAME};
use pitcrew_view::client::TeamEnding;

use super::status::costs;
use pitcrew_view::markdown_export::Detail;

use super::part_lines::Length;
use super::{
    Action, App, Begin, CanStart, ExportOf, ExportOrder, Focus, LastRun, Leaving, Left, Queued,
    Request, Stage,
};
use crate::commands::{self, Command, ExportScope};

impl App {
    /// Handles a text that the user sends. A text that cannot be sent stays in the composer.
    pub(super) fn submit(&mut self, text: String) -> Vec<Action> {
        if self.refusing.is_some() {
            return self.refuse(&text);
        }
        if self.writing.is_some() {
            return self.write_review(&text);
        }
        match commands::parse(&text) {
            Err(problem) => {
                self.problem(problem);
                Vec::new()
            }
            Ok(Some(command)) => {
                if let Some(why) = self.unread_plan(&command) {
                    self.problem(why);
                    self.tells_unread = true;
                    return Vec::new();
                }
                self.accepted(text);
                self.command(command)
            }
            Ok(None) => self.message(text),
        }
    }

    /// Refuses the call of the permission request, for the reason that the user typed.
    pub(super) fn refuse(&mut self, reason: &str) -> Vec<Action> {
        self.refusing = None;
        self.composer.clear();
        let act = self.question.refuse(reason);
        self.asked(act).unwrap_or_default()
    }

    /// Empties the composer, because its text was taken.
    fn accepted(&mut self, text: String) {
        self.composer.remember(text);
        self.composer.clear();
        self.notice = None;
        self.close_page();
    }

    fn message(&mut self, text: String) -> Vec<Action> {
        match &self.stage {
            Stage::Goal => {
                let goal = text.clone();
                let begin = match &self.completed {
                    Some(completed) => Begin::Resume { team: completed.id.clone(), goal },
                    None => Begin::New { goal },
                };
                self.start(begin, text)
            }
            Stage::Starting(_) => {
                self.problem("the team is being started; send this when it runs");
                Vec::new()
            }
            Stage::Over(_) if self.can_start == CanStart::No => {
                let team = self.team_name();
                self.problem(format!("the run has ended; `pitcrew run --resume {team}` goes on"));
                Vec::new()
            }
            Stage::Over(_) if self.receiver() != self.lead.agent() => {
                let agent = self.receiver().clone();
                self.problem(format!(
                    "the run has ended, so {agent} reads nothing; Esc shows the conversation with {LEAD_NAME}, and a message to it continues the run"
                ));
                Vec::new()
            }
            Stage::Over(_) => {
                let team = self.team_name();
                self.start(Begin::Resume { team, goal: text.clone() }, text)
            }
            Stage::Running | Stage::NoHost => {
                let to = self.receiver().clone();
                let message = commands::message(&text).to_owned();
                self.accepted(text);
                self.shown().view().scroll().to_end();
                self.queued.push(Queued { to: to.clone(), text: message.clone(), id: None });
                vec![Action::Send { to, text: message }]
            }
        }
    }

    fn start(&mut self, begin: Begin, text: String) -> Vec<Action> {
        self.queued.push(Queued { to: AgentName::lead(), text: text.clone(), id: None });
        self.accepted(text);
        self.peeked = None;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Goal) {
            Stage::Over(last) => Stage::Starting(Some(last)),
            Stage::Goal | Stage::Starting(_) | Stage::Running | Stage::NoHost => {
                Stage::Starting(None)
            }
        };
        self.tell("starting the team");
        vec![Action::Start(begin)]
    }

    fn command(&mut self, command: Command) -> Vec<Action> {
        if command.needs_team() && self.team.is_none() {
            self.problem("there is no team yet; a message starts one");
            return Vec::new();
        }
        let request = |request: Request| vec![Action::Request(request)];
        match command {
            Command::Help => self.show_help(),
            Command::Team => return self.focus_on(Focus::Team),
            Command::Tasks => return self.focus_on(Focus::Tasks),
            Command::Timeline => return self.focus_on(Focus::Timeline),
            Command::Review => return self.open_review(),
            Command::Peek(agent) => return self.peek_known(agent),
            Command::Mode { member, mode } => return vec![Action::ChangeMode { member, mode }],
            Command::Model { member, model } => return vec![Action::ChangeModel { member, model }],
            Command::Compact(agent) => return vec![Action::Compact(agent)],
            Command::Permissions => return request(Request::Permissions),
            Command::Plan(command) => return self.plan_command(command),
            Command::Cost => self.tell(costs(&self.state)),
            Command::Export { scope, file } => return self.export(scope, file),
            Command::Spawn { name, agent_type, prompt } => {
                self.tell(format!("{name} is being started"));
                return request(Request::Spawn { name, agent_type, prompt });
            }
            Command::ShowPane(member) => return request(Request::ShowPane(member)),
            Command::HidePane(member) => return request(Request::HidePane(member)),
            Command::Interrupt => return vec![Action::Interrupt(self.receiver().clone())],
            Command::New => return self.new_team(),
            Command::Resume => return self.choose_team(),
            Command::StopMember(member) => return request(Request::ShutDown(member)),
            Command::Stop => return self.end_team(),
            Command::Quit => return self.leave(),
        }
        Vec::new()
    }

    /// Orders a document. It has as much of the tool calls as the conversation on the screen.
    fn export(&mut self, scope: ExportScope, file: Option<String>) -> Vec<Action> {
        let of = match scope {
            ExportScope::Conversation => ExportOf::Conversation(self.receiver().clone()),
            ExportScope::Run => ExportOf::Run,
        };
        let detail = match self.length {
            Length::Short => Detail::Brief,
            Length::Whole => Detail::Whole,
        };
        vec![Action::Export(ExportOrder { of, file, detail })]
    }

    /// Shows the conversation of an agent, if the team has this agent.
    fn peek_known(&mut self, agent: AgentName) -> Vec<Action> {
        if agent != *self.lead.agent() && self.state.agent(&agent).is_none() {
            let names: Vec<&str> =
                self.state.agents.iter().map(|agent| agent.name.as_str()).collect();
            self.problem(format!("no agent {agent}; the agents are: {}", names.join(", ")));
            return Vec::new();
        }
        self.peek(agent)
    }

    /// Asks the host to end the team. If the team is ending already, stops its run at once.
    pub(super) fn end_team(&mut self) -> Vec<Action> {
        if !matches!(self.stage, Stage::Running) {
            self.problem("no process runs the team");
            return Vec::new();
        }
        if matches!(self.leaving, Leaving::Ending(_) | Leaving::Stopping) {
            self.leaving = Leaving::Stopping;
            let team = self.team_name();
            self.tell(format!(
                "the agents stop at once; `pitcrew run --resume {team}` goes on with them"
            ));
            return vec![Action::StopRun];
        }
        self.leaving = Leaving::Ending(TeamEnding::default());
        self.tell(
            "the teammates are asked to leave; one that works reads this after its present step; \
             /stop again stops them at once; this closes when the run has ended",
        );
        vec![Action::EndTeam]
    }

    /// Leaves, or asks what becomes of a team at work.
    pub(super) fn leave(&mut self) -> Vec<Action> {
        if self.is_at_work() && self.leaving != Leaving::Asked {
            self.leaving = Leaving::Asked;
            return Vec::new();
        }
        vec![Action::Leave(self.left())]
    }

    /// Returns why the terminal interface is closed, if the user closes it now.
    fn left(&mut self) -> Left {
        match std::mem::replace(&mut self.stage, Stage::Goal) {
            Stage::Over(LastRun::Reported(outcome)) => {
                let state = Box::new(std::mem::take(&mut self.state));
                Left::Ended { outcome, state }
            }
            Stage::Over(LastRun::Unseen) => Left::AlreadyOver { team: self.team_name() },
            Stage::NoHost => Left::HostGone { team: self.team_name() },
            Stage::Goal | Stage::Starting(_) => Left::ByUser { team: None },
            Stage::Running => Left::ByUser { team: self.team.clone() },
        }
    }
}
