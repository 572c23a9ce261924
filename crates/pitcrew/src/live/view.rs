//! What every agent of a run does now, and what of each event is worth a line to a person. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pitcrew_model::{Block, Usage};
use pitcrew_protocol::{AgentName, Color, Status};
use pitcrew_runtime::events::{
    AgentStarted, Answered, Compacted, RemoteActivity, RunEvent, Spending, ToolEnded,
    waiting_for_model,
};
use pitcrew_runtime::question::visible;
use serde_json::Value;

use crate::output::{first_line, in_one_line};

/// The widest description of what an agent does now.
const DOING_CHARS: usize = 60;

/// The widest line of what an agent said.
const SAID_CHARS: usize = 160;

/// A run as far as it was told.
#[derive(Debug, Default)]
pub(crate) struct View {
    agents: Vec<AgentRow>,
}

/// One agent.
#[derive(Debug)]
pub(crate) struct AgentRow {
    /// Its name.
    pub(crate) name: AgentName,
    /// Its color; the lead has none.
    pub(crate) color: Option<Color>,
    /// Its state.
    pub(crate) status: Status,
    /// The tool it runs, or what it waits for.
    doing: Option<String>,
    /// The tools it asks permission for, by the calls.
    asks: BTreeMap<String, String>,
    usage: Usage,
    cost_usd: f64,
    has_price: bool,
}

/// Something worth a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Who it is about; the run itself when absent.
    pub(crate) agent: Option<AgentName>,
    /// What.
    pub(crate) text: String,
}

impl View {
    /// The agents, in the order of their start.
    pub(crate) fn agents(&self) -> &[AgentRow] {
        &self.agents
    }

    /// Takes an event in, and says what of it is worth a line.
    pub(crate) fn apply(&mut self, event: &RunEvent) -> Vec<Remark> {
        match event {
            RunEvent::Started(started) => {
                self.start(started.agent.clone(), None);
                let verb = if started.resumed { "goes on" } else { "starts" };
                vec![Remark::of_run(format!("team {} {verb} on {}", started.team, started.model))]
            }
            RunEvent::AgentStarted(started) => {
                let color = started.color.as_deref().and_then(named);
                self.start(started.agent.clone(), color);
                vec![Remark::of(&started.agent, joins(started))]
            }
            RunEvent::AgentLaunched { agent, stage } => {
                vec![Remark::of(agent, format!("in its pane: {}", stage.as_str()))]
            }
            RunEvent::DoneElsewhere { agent, activity } => self.done_elsewhere(agent, activity),
            RunEvent::AgentChanged { agent, status, detail } => {
                self.changed(agent, *status, detail.as_deref())
            }
            RunEvent::TextDelta { agent, .. } => {
                self.does(agent, Some("writes".to_owned()));
                Vec::new()
            }
            RunEvent::ModelWaits { agent, reason, delay } => {
                self.is_at(agent, waiting_for_model(reason, *delay))
            }
            RunEvent::ModelSilent { agent, silent_for } => self.is_at(
                agent,
                format!("no answer from the model for {} s, still waiting", silent_for.as_secs()),
            ),
            RunEvent::Answered(answered) => self.answered(answered),
            RunEvent::Compacted(compacted) => self.compacted(compacted),
            RunEvent::ToolStarted { agent, tool, input, .. } => {
                self.is_at(agent, brief(tool, input))
            }
            RunEvent::ToolEnded(ended) => self.tool_ended(ended),
            RunEvent::MailDelivered { agent, from, .. } => {
                vec![Remark::of(agent, reads_mail(from))]
            }
            RunEvent::PermissionAsked { agent, call, tool } => {
                if let Some(agent) = self.agent(agent) {
                    agent.asks.insert(call.clone(), tool.clone());
                }
                self.is_at(agent, asks_for(tool))
            }
            RunEvent::PermissionAnswered { agent, call, refused, .. } => {
                if let Some(agent) = self.agent(agent) {
                    agent.asks.remove(call);
                }
                self.does(agent, None);
                vec![Remark::of(agent, answered_permission(refused.as_deref()))]
            }
            RunEvent::AllowedAlways { agent, what } => {
                let what = in_one_line(what);
                let text = format!("may do this from now on, by an answer beside it: {what}");
                vec![Remark::of(agent, text)]
            }
            RunEvent::ModeChanged { agent, mode } => {
                vec![Remark::of(agent, format!("is in mode {mode} now"))]
            }
            RunEvent::ModeRecorded { agent, mode } => {
                let takes = "its client takes it with the approval of its plan, else when it is started again";
                vec![Remark::of(agent, format!("has mode {mode} on record; {takes}"))]
            }
            RunEvent::ShuttingDown { reason } => {
                vec![Remark::of_run(format!("shutting down: {reason}"))]
            }
            RunEvent::Warning { text } => {
                vec![Remark::of_run(format!("warning: {}", in_one_line(text)))]
            }
        }
    }

    /// Takes in what an agent does now, which is worth a line.
    fn is_at(&mut self, agent: &AgentName, text: String) -> Vec<Remark> {
        self.does(agent, Some(text.clone()));
        vec![Remark::of(agent, text)]
    }

    /// Takes an agent in, as one that is just starting.
    pub(crate) fn start(&mut self, name: AgentName, color: Option<Color>) {
        self.agents.retain(|agent| agent.name != name);
        self.agents.push(AgentRow {
            name,
            color,
            status: Status::Pending,
            doing: None,
            asks: BTreeMap::new(),
            usage: Usage::default(),
            cost_usd: 0.0,
            has_price: true,
        });
    }

    fn done_elsewhere(&mut self, name: &AgentName, activity: &RemoteActivity) -> Vec<Remark> {
        match activity {
            RemoteActivity::TurnEnded(Spending { usage, cost_usd, .. }) => {
                if let Some(agent) = self.agent(name) {
                    agent.usage += *usage;
                    agent.cost_usd += cost_usd.unwrap_or(0.0);
                    agent.has_price &= cost_usd.is_some();
                }
                Vec::new()
            }
            RemoteActivity::TaskChanged { task, change } => {
                vec![Remark::of(name, format!("{change} task #{task}"))]
            }
            RemoteActivity::PlanHandedIn => vec![Remark::of(name, "hands in a plan".to_owned())],
        }
    }

    fn changed(&mut self, name: &AgentName, status: Status, detail: Option<&str>) -> Vec<Remark> {
        let Some(agent) = self.agent(name) else { return Vec::new() };
        let is_news = agent.status != status && status != Status::Active;
        agent.status = status;
        agent.doing = None;
        if status.is_over() {
            agent.asks.clear();
        }
        if let (Status::Active, Some(detail)) = (status, detail) {
            // A teammate in a process of its own waits for its model.
            agent.doing = Some(detail.to_owned());
            return vec![Remark::of(name, in_one_line(detail))];
        }
        if !is_news {
            return Vec::new();
        }
        let mut text = match status {
            // Of a teammate it says that it left, of a lead that its run ended: neither that its work is done.
            Status::Completed => "has ended".to_owned(),
            Status::Failed => "has failed".to_owned(),
            Status::Killed => "was stopped".to_owned(),
            Status::Pending
            | Status::Active
            | Status::Idle
            | Status::AwaitingPlanApproval
            | Status::Parked
            | Status::ShutdownRequested => format!("is {}", status.as_str().replace('_', " ")),
        };
        if let Some(detail) = detail {
            let _ = write!(text, ": {}", in_one_line(detail));
        }
        vec![Remark::of(name, text)]
    }

    fn answered(&mut self, answered: &Answered) -> Vec<Remark> {
        if let Some(agent) = self.agent(&answered.agent) {
            agent.doing = None;
            agent.usage += answered.usage;
            agent.cost_usd += answered.cost_usd.unwrap_or(0.0);
            agent.has_price = answered.cost_usd.is_some();
        }
        let said = answered.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } if !text.trim().is_empty() => Some(Remark::of(
                &answered.agent,
                format!("says: {}", first_line(text.trim(), SAID_CHARS)),
            )),
            Block::Text { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolUse { .. }
            | Block::ToolResult { .. }
            | Block::Image { .. }
            | Block::Other(_) => None,
        });
        said.collect()
    }

    fn tool_ended(&mut self, ended: &ToolEnded) -> Vec<Remark> {
        self.does(&ended.agent, None);
        let failed = ended.is_error.then(|| {
            Remark::of(
                &ended.agent,
                format!("{} failed: {}", ended.tool, first_line(&ended.text, SAID_CHARS)),
            )
        });
        failed.into_iter().collect()
    }

    fn compacted(&mut self, compacted: &Compacted) -> Vec<Remark> {
        if let Some(agent) = self.agent(&compacted.agent) {
            agent.usage += compacted.usage;
            agent.cost_usd += compacted.cost_usd.unwrap_or(0.0);
        }
        let (before, after) = (short(compacted.tokens_before), short(compacted.tokens_after));
        let text = if compacted.tokens_after < compacted.tokens_before {
            format!("sums its conversation up: {before} -> about {after} tokens")
        } else {
            format!("cannot sum its conversation up: it stays at {before} tokens")
        };
        vec![Remark::of(&compacted.agent, text)]
    }

    fn does(&mut self, name: &AgentName, doing: Option<String>) {
        if let Some(agent) = self.agent(name) {
            agent.doing = doing;
        }
    }

    fn agent(&mut self, name: &AgentName) -> Option<&mut AgentRow> {
        self.agents.iter_mut().find(|agent| agent.name == *name)
    }
}

impl AgentRow {
    /// State, current tool, tokens and cost, in one line without the name.
    pub(crate) fn line(&self) -> String {
        let doing = match (&self.doing, self.status) {
            (Some(doing), _) => first_line(doing, DOING_CHARS),
            // Of an agent elsewhere it may be seen that it is in a turn after its question was put.
            (None, Status::Active) => {
                self.asks.values().next().map_or_else(|| "thinks".to_owned(), |tool| asks_for(tool))
            }
            (None, Status::Completed) => "ended".to_owned(),
            (None, status) => status.as_str().replace('_', " "),
        };
        let mut line = format!("{doing:<30}");
        let tokens = self.usage.context_tokens();
        if tokens > 0 {
            let _ = write!(line, "  {} tokens", short(tokens));
            if self.has_price {
                let _ = write!(line, "  ${:.2}", self.cost_usd);
            }
        }
        line.trim_end().to_owned()
    }
}

fn joins(started: &AgentStarted) -> String {
    let place = if started.parent_call.is_some() { "as a subagent" } else { "as a teammate" };
    let agent_type = started.agent_type.as_deref().unwrap_or("agent");
    format!("joins {place} ({agent_type}, {}, mode {})", started.model, started.mode)
}

fn reads_mail(from: &[String]) -> String {
    // Of a teammate elsewhere it is not always known who wrote.
    let known: Vec<String> = from.iter().filter(|name| !name.is_empty()).cloned().collect();
    if known.is_empty() {
        "reads mail".to_owned()
    } else {
        format!("reads mail from {}", counted(&known))
    }
}

fn asks_for(tool: &str) -> String {
    format!("asks permission for {tool}")
}

impl Remark {
    fn of(agent: &AgentName, text: String) -> Self {
        Self { agent: Some(agent.clone()), text }
    }

    fn of_run(text: String) -> Self {
        Self { agent: None, text }
    }
}

/// The answer to a question for a permission.
fn answered_permission(refused: Option<&str>) -> String {
    match refused {
        Some(reason) => format!("was refused: {}", first_line(reason, SAID_CHARS)),
        None => "was allowed".to_owned(),
    }
}

/// A call in one line: the tool, and of its input what tells most.
pub(crate) fn brief(tool: &str, input: &Value) -> String {
    const TELLING: [&str; 10] = [
        "command",
        "file_path",
        "pattern",
        "recipient",
        "to",
        "name",
        "subject",
        "taskId",
        "team_name",
        "request_id",
    ];
    let told = TELLING.iter().find_map(|field| input.get(*field).and_then(Value::as_str));
    match told {
        Some(text) => format!("{tool}({})", first_line(&visible(text), DOING_CHARS)),
        None => tool.to_owned(),
    }
}

/// Names with how often each stands there, in the order of their first.
fn counted(names: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let shown = counts.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{name} ({count})"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn named(color: &str) -> Option<Color> {
    Color::ALL.into_iter().find(|known| known.as_str() == color)
}

/// A count in at most four characters and a unit.
pub(crate) fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pitcrew_model::StopReason;
    use serde_json::json;

    use super::*;

    fn name(name: &str) -> AgentName {
        AgentName::new(name).unwrap()
    }

    fn tool(agent: &str, input: Value) -> RunEvent {
        RunEvent::ToolStarted { agent: name(agent), call: "c1".into(), tool: "Bash".into(), input }
    }

    fn view() -> View {
        let mut view = View::default();
        view.start(name("bob"), Some(Color::Blue));
        view
    }

    #[test]
    fn an_agents_line_says_what_it_does_now() {
        let mut view = view();
        let _ = view.apply(&tool("bob", json!({"command": "cargo test --offline\nls"})));
        assert_eq!(view.agents()[0].line(), "Bash(cargo test --offline)");
        let status = Status::AwaitingPlanApproval;
        let _ = view.apply(&RunEvent::AgentChanged { agent: name("bob"), status, detail: None });
        assert_eq!(view.agents()[0].line(), "awaiting plan approval");
    }

    #[test]
    fn the_reason_of_a_state_is_shown_whole() {
        let reason = format!(
            "the log of bob cannot be used:\n/{}x: No space left on device",
            "folder/".repeat(40)
        );
        let failed =
            |detail| RunEvent::AgentChanged { agent: name("bob"), status: Status::Failed, detail };
        let remarks = view().apply(&failed(Some(reason.clone())));
        assert_eq!(remarks[0].text, format!("has failed: {}", reason.replace('\n', " | ")));
        let remarks = view().apply(&RunEvent::Warning { text: reason.clone() });
        assert!(remarks[0].text.ends_with("No space left on device"), "{}", remarks[0].text);
    }

    #[test]
    fn a_teammate_elsewhere_with_an_open_question_asks_whenever_it_is_seen_in_its_turn() {
        let mut view = View::default();
        view.start(name("bob"), None);
        let asked = |call: &str, tool: &str| RunEvent::PermissionAsked {
            agent: name("bob"),
            call: call.to_owned(),
            tool: tool.to_owned(),
        };
        let changed = |status| RunEvent::AgentChanged { agent: name("bob"), status, detail: None };
        view.apply(&asked("1", "Bash"));
        view.apply(&asked("2", "Write"));
        view.apply(&changed(Status::Active));
        assert_eq!(view.agents()[0].line(), "asks permission for Bash");
        for (call, then) in [("1", "asks permission for Write"), ("2", "thinks")] {
            let (agent, call) = (name("bob"), call.to_owned());
            view.apply(&RunEvent::PermissionAnswered {
                agent,
                call,
                refused: None,
                would_allow: None,
            });
            assert_eq!(view.agents()[0].line(), then);
        }
        view.apply(&asked("3", "Bash"));
        view.apply(&changed(Status::Killed));
        assert_eq!(view.agents()[0].line(), "killed");
    }

    #[test]
    fn a_teammate_elsewhere_that_waits_for_its_model_is_shown() {
        let detail = Some("waits 30 s for the model: slow down".to_owned());
        let mut view = view();
        let waits = RunEvent::AgentChanged { agent: name("bob"), status: Status::Active, detail };
        for _ in 0..2 {
            assert_eq!(view.apply(&waits)[0].text, "waits 30 s for the model: slow down");
        }
        assert_eq!(view.agents()[0].line(), "waits 30 s for the model: slow down");
    }

    #[test]
    fn tokens_and_cost_add_up() {
        let mut view = view();
        for _ in 0..2 {
            let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
            let _ = view.apply(&RunEvent::Answered(Answered {
                agent: name("bob"),
                parent_call: None,
                message_id: "m".into(),
                model: "x".into(),
                blocks: vec![],
                stop: StopReason::EndTurn,
                usage,
                cost_usd: Some(0.25),
                took: Duration::ZERO,
            }));
        }
        assert_eq!(view.agents()[0].line(), "pending                         2.2k tokens  $0.50");
    }

    #[test]
    fn a_compaction_is_told_and_paid_for() {
        let compacted = |tokens_after| {
            RunEvent::Compacted(Compacted {
                agent: name("bob"),
                model: "x".into(),
                tokens_before: 170_000,
                tokens_after,
                usage: Usage { input_tokens: 170_000, output_tokens: 2_000, ..Usage::default() },
                cost_usd: Some(0.25),
            })
        };
        let mut view = view();
        let remarks = view.apply(&compacted(12_000));
        assert_eq!(remarks[0].text, "sums its conversation up: 170.0k -> about 12.0k tokens");
        let remarks = view.apply(&compacted(170_000));
        assert_eq!(remarks[0].text, "cannot sum its conversation up: it stays at 170.0k tokens");
        assert_eq!(view.agents()[0].line(), "pending                         344.0k tokens  $0.50");
    }

    #[test]
    fn mail_is_told_with_its_senders() {
        let from = ["ann", "bob", "ann"].map(str::to_owned).to_vec();
        let remarks =
            view().apply(&RunEvent::MailDelivered { agent: name("bob"), from, ids: vec![] });
        assert_eq!(remarks[0].text, "reads mail from ann (2), bob");
    }

    #[test]
    fn a_text_of_a_model_cannot_steer_the_terminal() {
        assert_eq!(brief("Bash", &json!({"command": "ls \u{1b}[2J"})), "Bash(ls <U+001B>[2J)");
    }

    #[test]
    fn counts_are_short() {
        for (count, text) in [(0, "0"), (999, "999"), (1_250, "1.2k"), (2_345_678, "2.3M")] {
            assert_eq!(short(count), text);
        }
    }
}
