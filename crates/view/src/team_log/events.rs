//! Log entries about the events of a journal.

use pitcrew_protocol::{AgentName, Status, TaskId};
use pitcrew_team::store::{
    Event, JournalEntry, MemberChange, Overwritten, PermissionOutcome, Spent, StartedProgram,
    TaskChangeKind, Turn,
};

use super::{LogEntry, LogKind, TeamLog, Used};
use crate::wording::{ASKED_TO_SHUT_DOWN, asks_for, brief_with, short};

impl TeamLog {
    /// Returns the log entry for a journal entry. Returns `None` for an event that only changes the
    /// counts of tokens and cost, and for a message that the log already has.
    pub(super) fn entry(&mut self, entry: &JournalEntry) -> Option<LogEntry> {
        let at_ms = entry.at_ms;
        let of = |kind, event: &str, text: String| Some(LogEntry::new(at_ms, kind, event, &text));
        match &entry.event {
            Event::TeamCreated { team } => {
                of(LogKind::Run, "team_created", format!("team {} is made", team))
            }
            Event::TeamDeleted { team } => {
                of(LogKind::Run, "team_deleted", format!("team {} is deleted", team))
            }
            Event::TeamArchived { team } => {
                of(LogKind::Run, "team_archived", format!("team {} moves to the archive", team))
            }
            Event::RunStarted { goal, .. } => Some(self.run_started(at_ms, goal.as_deref())),
            Event::RunEnded { end, reason } => {
                Some(self.run_ended(at_ms, end.as_deref(), reason.as_deref()))
            }
            Event::MessagePersisted { id, from, author, to, frame } => {
                let author = author.as_deref().unwrap_or(from);
                self.message(at_ms, author, to, (id, frame.as_deref()))
            }
            Event::MessageInjected { to, .. }
            | Event::MessageAcknowledged { to, .. }
            | Event::MessageDead { to, .. }
            | Event::FrameRefused { to, .. } => Some(self.way(at_ms, to, &entry.event)),
            Event::TaskChanged { task, by, change, fields } => {
                Some(self.task_changed(at_ms, task, change, fields).by(by))
            }
            Event::Overwritten(it) => Some(overwritten(at_ms, it)),
            // The request itself is in the log. The member may have read it before its sender has
            // recorded it, so the order of the two would differ from run to run.
            Event::MemberChanged {
                state: MemberChange::Status(Status::ShutdownRequested), ..
            } => None,
            Event::MemberChanged { member, state, detail } => {
                Some(self.member_changed(at_ms, member, state, detail.as_deref()))
            }
            Event::Started { member, program, pid, pane, .. } => {
                let text = started(program, *pid, pane.as_deref());
                of(LogKind::Member, "started", text).map(|it| it.by(member))
            }
            Event::Stopped { member, .. } => {
                let text = "has no process and no pane any more".to_owned();
                of(LogKind::State, "stopped", text).map(|it| it.by(member))
            }
            Event::Permission { request, member, tool, telling, outcome } => {
                let call = self.call_of((member, request), tool, telling.as_deref(), outcome);
                let text = permission(outcome, &call);
                of(LogKind::Permission, outcome.as_str(), text).map(|it| it.by(member))
            }
            Event::AllowedAlways { member, what, .. } => {
                let text = format!("may do this from now on: {}", what);
                of(LogKind::Permission, "allowed_always", text).map(|it| it.by(member))
            }
            Event::ConversationCompacted { member, tokens_before, tokens_after } => {
                let (before, after) = (short(*tokens_before), short(*tokens_after));
                let text = format!("sums its conversation up: {before} -> about {after} tokens");
                of(LogKind::Member, "compacted", text).map(|it| it.by(member))
            }
            Event::TurnEnded(turn) => Some(self.turn_ended(at_ms, turn)),
            Event::EarlierTeams { spent, .. } => {
                let models = spent.values().flat_map(|models| models.values());
                models.for_each(|spent| self.total.add_spent(spent));
                let text = "the run goes on from an earlier team".to_owned();
                of(LogKind::Run, "earlier_teams", text).map(|it| it.using(self.total))
            }
        }
    }

    fn run_started(&mut self, at_ms: i64, goal: Option<&str>) -> LogEntry {
        let text = if self.runs == 0 { "the run starts" } else { "the team goes on" };
        self.runs += 1;
        LogEntry::new(at_ms, LogKind::Run, "run_started", text).saying(goal)
    }

    fn run_ended(&self, at_ms: i64, end: Option<&str>, reason: Option<&str>) -> LogEntry {
        let text = match end {
            Some(end) => format!("the run ends, {}", end.replace('_', " ")),
            None => "the run ends".to_owned(),
        };
        LogEntry::new(at_ms, LogKind::Run, "run_ended", &text).saying(reason).using(self.total)
    }

    /// Returns the call of a permission request in one line. Only the request says it, and not its
    /// answer.
    fn call_of(
        &mut self,
        (member, request): (&AgentName, &str),
        tool: &str,
        telling: Option<&str>,
        outcome: &PermissionOutcome,
    ) -> String {
        let asked = (member.clone(), request.to_owned());
        if *outcome != PermissionOutcome::Asked {
            return self.calls.get(&asked).cloned().unwrap_or_else(|| tool.to_owned());
        }
        let call = brief_with(tool, telling);
        self.calls.insert(asked, call.clone());
        call
    }

    /// Returns the entry for a step of a message on its way, or for its end.
    fn way(&self, at_ms: i64, to: &AgentName, event: &Event) -> LogEntry {
        let from = event
            .message()
            .and_then(|id| self.mail.get(&(to.clone(), id.clone())))
            .map(|mail| mail.message.from.clone());
        let whose = from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
        let entry = match event {
            Event::MessageDead { reason, .. } => {
                let text = format!("does not get a message{whose}");
                LogEntry::new(at_ms, LogKind::Mail, "message_dead", &text).saying(Some(reason))
            }
            Event::FrameRefused { from, frame, reason, .. } => {
                let frame = frame.replace('_', " ");
                let text = format!("does not take a {frame} that claims to be from {from}");
                LogEntry::new(at_ms, LogKind::Mail, "frame_refused", &text).saying(Some(reason))
            }
            Event::MessageInjected { .. } => {
                let text = format!("gets a message{whose}");
                LogEntry::new(at_ms, LogKind::Delivery, "message_injected", &text)
            }
            _ => {
                let text = format!("has read a message{whose}");
                LogEntry::new(at_ms, LogKind::Delivery, "message_acknowledged", &text)
            }
        };
        let entry = entry.by(to);
        LogEntry { to: from.into_iter().collect(), ..entry }
    }

    fn task_changed(
        &self,
        at_ms: i64,
        task: &TaskId,
        change: &TaskChangeKind,
        fields: &[String],
    ) -> LogEntry {
        let named = self.task_in_words(task);
        let text = match change {
            TaskChangeKind::Created => format!("creates {named}"),
            TaskChangeKind::Claimed => format!("claims {named}"),
            TaskChangeKind::Completed => format!("completes {named}"),
            TaskChangeKind::Deleted => format!("removes {named}"),
            TaskChangeKind::Released => format!("leaves {named}, which is free again"),
            TaskChangeKind::Updated if fields.is_empty() => format!("changes {named}"),
            TaskChangeKind::Updated => {
                format!("changes {named} ({})", fields.join(", "))
            }
            TaskChangeKind::Other(word) => format!("{named}: {}", word),
        };
        let event = format!("task_{change}");
        LogEntry::new(at_ms, LogKind::Task, &event, &text).with_task(task.clone())
    }

    /// Returns a task's number with its subject.
    pub(super) fn task_in_words(&self, task: &TaskId) -> String {
        match self.subjects.get(task) {
            Some(subject) => format!("task #{task} {subject}"),
            None => format!("task #{task}"),
        }
    }

    fn member_changed(
        &mut self,
        at_ms: i64,
        member: &AgentName,
        state: &MemberChange,
        detail: Option<&str>,
    ) -> LogEntry {
        let of = |kind, text: &str| LogEntry::new(at_ms, kind, state.as_str(), text);
        match state {
            MemberChange::Spawned => {
                self.used.remove(member);
                match detail {
                    Some(by) => of(LogKind::Member, &format!("spawns {member}")).by(by).to(member),
                    // Older versions did not record who spawned a member.
                    None => of(LogKind::Member, "is spawned").by(member),
                }
            }
            MemberChange::Joined => of(LogKind::Member, "joins the team by itself").by(member),
            MemberChange::Removed => of(LogKind::Member, "leaves the team").by(member),
            MemberChange::Mode => of(LogKind::Member, "gets the mode").saying(detail).by(member),
            MemberChange::ModeRefused => {
                of(LogKind::Member, "does not take the mode in the config")
                    .saying(detail)
                    .by(member)
            }
            MemberChange::Status(status) => {
                let entry = of(kind_of(*status), &status_in_words(*status)).saying(detail);
                let entry = match self.used.get(member).filter(|_| status.is_over()) {
                    Some(used) => entry.using(*used),
                    None => entry,
                };
                entry.by(member)
            }
            MemberChange::Other(word) => of(LogKind::Member, word).saying(detail).by(member),
        }
    }

    fn turn_ended(&mut self, at_ms: i64, turn: &Turn) -> LogEntry {
        let used = Used::of_turn(turn);
        self.used.entry(turn.member.clone()).or_default().add(used);
        self.total.add(used);
        let text = match turn.tool_calls {
            0 => format!("has an answer of {}", turn.model),
            1 => format!("has an answer of {} with 1 tool call", turn.model),
            calls => format!("has an answer of {} with {calls} tool calls", turn.model),
        };
        LogEntry::new(at_ms, LogKind::Turn, "turn", &text).by(&turn.member).using(used)
    }
}

impl Used {
    fn of_turn(turn: &Turn) -> Self {
        Self {
            tokens: turn.input_tokens.saturating_add(turn.output_tokens),
            cost_usd: turn.cost_usd,
        }
    }

    fn add(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        if let Some(usd) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += usd;
        }
    }

    fn add_spent(&mut self, spent: &Spent) {
        let tokens = spent.input_tokens.saturating_add(spent.output_tokens);
        let has_price = spent.turns > spent.unpriced_turns;
        self.add(Self { tokens, cost_usd: has_price.then(|| spent.cost_usd()) });
    }
}

fn kind_of(status: Status) -> LogKind {
    match status {
        Status::Pending | Status::Active | Status::Idle => LogKind::State,
        Status::AwaitingPlanApproval => LogKind::Plan,
        Status::Parked
        | Status::ShutdownRequested
        | Status::Completed
        | Status::Failed
        | Status::Killed => LogKind::Member,
    }
}

fn status_in_words(status: Status) -> String {
    match status {
        Status::Active => "begins a turn".to_owned(),
        Status::Completed => "has ended".to_owned(),
        Status::Failed => "has failed".to_owned(),
        Status::Killed => "was stopped".to_owned(),
        Status::AwaitingPlanApproval => "waits for an answer to its plan".to_owned(),
        Status::ShutdownRequested => ASKED_TO_SHUT_DOWN.to_owned(),
        Status::Pending | Status::Idle | Status::Parked => format!("is {}", status.as_str()),
    }
}

fn started(program: &StartedProgram, pid: Option<u32>, pane: Option<&str>) -> String {
    let mut text = format!("is run by {}", program.as_str());
    if let Some(pid) = pid {
        text += &format!(", process {pid}");
    }
    if let Some(pane) = pane {
        text += &format!(", pane {}", pane);
    }
    text
}

fn permission(outcome: &PermissionOutcome, tool: &str) -> String {
    match outcome {
        PermissionOutcome::Asked => asks_for(tool),
        PermissionOutcome::Allowed => format!("gets permission for {tool}"),
        PermissionOutcome::Denied => format!("gets no permission for {tool}"),
        PermissionOutcome::Other(word) => format!("permission for {tool}: {}", word),
    }
}

fn overwritten(at_ms: i64, it: &Overwritten) -> LogEntry {
    let text = format!("another program has written old content to {}", it.file);
    let entry = LogEntry::new(at_ms, LogKind::Run, "overwritten", &text);
    match it.put_back.is_empty() {
        true => entry,
        false => entry.saying(Some(&format!("restored {}", it.put_back.join(", ")))),
    }
}
