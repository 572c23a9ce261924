//! Writes the briefing: the facts that an agent must know after a compaction, read from the team's
//! files. The briefing contains the team, the agent's identity, its prompt, its tasks, and the
//! requests that wait for an answer. Nothing in it is summarised. A text that is too long is cut,
//! and a note marks the cut.

use std::collections::BTreeMap;

use pitcrew_agent::Role;
use pitcrew_agent::transcript::{Conversation, shortened};
use pitcrew_protocol::{
    ApiError, Frame, Injected, LEAD_NAME, Task, TaskGraph, TaskStatus, TeamConfig, chain,
    neutralised, render,
};
use pitcrew_team::{Mail, Request, RequestKind};

use super::agent_context::AgentContext;
use crate::prompts::Prompt;

/// Maximum number of characters for each part of a briefing. If a token has about four characters,
/// all parts together take less than a third of the model's context window.
#[derive(Clone, Copy, Debug)]
struct BriefingSize {
    window: usize,
}

impl BriefingSize {
    fn prompts(self) -> usize {
        self.window / 2
    }

    fn requests(self) -> usize {
        self.window / 4
    }

    fn own_requests(self) -> usize {
        self.window / 8
    }

    fn own_tasks(self) -> usize {
        self.window / 8
    }

    fn rest(self) -> usize {
        self.window / 24
    }
}

/// Writes the briefing. If a part cannot be read now, the briefing contains only a note that names
/// the part.
pub(super) async fn write(
    agent_context: &AgentContext,
    conversation: &Conversation,
    window: u64,
) -> String {
    let room = BriefingSize { window: usize::try_from(window).unwrap_or(usize::MAX) };
    let mut facts = vec![who(agent_context)];
    let mut requests = Requests::default();
    if agent_context.role != Role::Subagent {
        match agent_context.team.config().await {
            Ok(config) => {
                facts.push(team(&config, room));
                facts.push(tasks(agent_context, room).await);
                requests = Requests::read(agent_context, conversation, &config, room).await;
            }
            Err(error) => facts.push(format!("The team cannot be read: {}.", chain(&error))),
        }
        facts.extend(requests.asked_by_it.take());
    }
    let facts = facts.join("\n\n");
    let reminder = match Prompt::Briefing.render(&[("facts", &facts)]) {
        Ok(text) => text,
        Err(error) => {
            tracing::error!(%error, "a prompt does not fit its values");
            facts
        }
    };
    let mut parts =
        vec![format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&reminder))];
    parts.extend(prompts(conversation, room));
    parts.extend(requests.asked_of_it);
    parts.join("\n\n")
}

fn who(agent_context: &AgentContext) -> String {
    let team = agent_context.team.name();
    match agent_context.role {
        Role::Lead => {
            format!("# Who you are\nYou are \"{LEAD_NAME}\", and lead the team \"{team}\".")
        }
        Role::Teammate => {
            let as_what = agent_context
                .agent_type
                .as_ref()
                .map(|kind| format!(", of the type {kind}"))
                .unwrap_or_default();
            format!(
                "# Who you are\nYou are \"{}\" on the team \"{team}\"{as_what}. Your lead is \"{LEAD_NAME}\".",
                agent_context.name
            )
        }
        Role::Subagent => {
            "# Who you are\nYou do one job for another agent, which waits for your last message."
                .to_owned()
        }
    }
}

fn team(config: &TeamConfig, room: BriefingSize) -> String {
    let about = config
        .description
        .as_deref()
        .map(|text| format!("It is for: {text}\n"))
        .unwrap_or_default();
    let member = |member: &pitcrew_protocol::Member| {
        let role = if member.is_called(LEAD_NAME) { "the lead" } else { "a teammate" };
        let kind =
            member.agent_type.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        format!("- {}, {role}{kind}", member.name)
    };
    let members: Vec<String> = config.members.iter().map(member).collect();
    format!(
        "# Your team\n{}Its members:\n{}",
        shortened(&about, room.rest()),
        shortened(&members.join("\n"), room.rest())
    )
}

async fn tasks(agent_context: &AgentContext, room: BriefingSize) -> String {
    match agent_context.team.tasks().await {
        Ok(tasks) => task_list(&tasks, agent_context.name.as_str(), room),
        Err(error) => format!("# Tasks\nThe task list cannot be read: {}.", chain(&error)),
    }
}

fn task_list(tasks: &[Task], me: &str, room: BriefingSize) -> String {
    let graph = TaskGraph::of(tasks);
    let head = |task: &Task| {
        let waits: Vec<String> =
            graph.open_blockers(&task.id).into_iter().map(|id| format!("#{id}")).collect();
        let waits = if waits.is_empty() {
            String::new()
        } else {
            format!(", waits for {}", waits.join(", "))
        };
        let owner = task
            .owner
            .as_deref()
            .map_or_else(|| "nobody's".to_owned(), |owner| format!("{owner}'s"));
        format!("#{} ({}, {owner}{waits}): {}", task.id, task.status.as_str(), task.subject)
    };
    let open = |task: &&Task| task.status != TaskStatus::Completed && !task.is_internal();
    let (own, others): (Vec<&Task>, Vec<&Task>) = tasks
        .iter()
        .filter(open)
        .partition(|task| task.owner.as_deref().is_some_and(|owner| owner == me));
    let each = room.own_tasks() / own.len().max(1);
    let whole = |task: &&Task| shortened(&format!("{}\n{}", head(task), task.description), each);
    let own: Vec<String> = own.iter().map(whole).collect();
    let others: Vec<String> = others.iter().map(|task| head(task)).collect();
    let or_none =
        |lines: Vec<String>| if lines.is_empty() { "none".to_owned() } else { lines.join("\n") };
    format!(
        "# Your tasks that are not completed\n{}\n\n# Other tasks that are not completed (TaskGet tells all of one)\n{}",
        or_none(own),
        shortened(&or_none(others), room.rest())
    )
}

/// Returns the agent's prompt and later instructions, exactly as they were given.
fn prompts(conversation: &Conversation, room: BriefingSize) -> Option<String> {
    let prompts = conversation.prompts();
    let each = room.prompts() / prompts.len().max(1);
    let told: Vec<String> = prompts.iter().map(|prompt| shortened(prompt, each)).collect();
    (!told.is_empty())
        .then(|| format!("What you were given to do, word for word:\n\n{}", told.join("\n\n")))
}

/// The requests to and from the agent that have no answer yet.
#[derive(Debug, Default)]
struct Requests {
    asked_of_it: Option<String>,
    asked_by_it: Option<String>,
}

impl Requests {
    async fn read(
        agent_context: &AgentContext,
        conversation: &Conversation,
        config: &TeamConfig,
        room: BriefingSize,
    ) -> Self {
        let read = async {
            let recorded = agent_context.team.requests().await?;
            let to_it = agent_context.team.mail(&agent_context.name).await?;
            let by_it = asked_by(agent_context, &recorded, room).await?;
            Ok::<_, ApiError>((asked_of(&to_it, &recorded, conversation, config, room), by_it))
        };
        match read.await {
            Ok((asked_of_it, asked_by_it)) => Self { asked_of_it, asked_by_it },
            Err(error) => Self {
                asked_of_it: None,
                asked_by_it: Some(format!("# Requests\nThey cannot be read: {}.", chain(&error))),
            },
        }
    }
}

/// Returns the requests of other agents that this agent has read but not answered, each in the form
/// in which it was delivered. Unread requests are left out, because they are delivered later
/// anyway. Permission requests are left out, because the team's loop handles them, not the model.
fn asked_of(
    mail: &[Mail],
    recorded: &BTreeMap<String, Request>,
    conversation: &Conversation,
    config: &TeamConfig,
    room: BriefingSize,
) -> Option<String> {
    let is_open = |mail: &&Mail| {
        let Some(id) = mail.request_id() else { return false };
        let is_for_its_model = !matches!(mail.frame, Some(Frame::PermissionRequest(_)));
        // A request that pitcrew did not write gets a record only when it is answered. Without a
        // record, the request is open as long as its sender is a member of the team.
        let is_unanswered = recorded
            .get(id)
            .map_or_else(|| config.member(&mail.message.from).is_some(), Request::is_open);
        is_for_its_model && is_unanswered && conversation.holds(&mail.id)
    };
    let open: Vec<&Mail> = mail.iter().filter(is_open).collect();
    let each = room.requests() / open.len().max(1);
    let told = open.iter().map(|mail| {
        let message = Injected::from(&mail.message);
        render(&[Injected { text: shortened(&message.text, each), ..message }])
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!("Requests that wait for your answer, word for word:\n\n{}", told.join("\n\n"))
    })
}

/// Returns the agent's own requests that have no answer.
async fn asked_by(
    agent_context: &AgentContext,
    recorded: &BTreeMap<String, Request>,
    room: BriefingSize,
) -> Result<Option<String>, ApiError> {
    let open: Vec<(&String, &Request)> = recorded
        .iter()
        .filter(|(_, request)| request.from == agent_context.name && request.is_open())
        .collect();
    let each = room.own_requests() / open.len().max(1);
    let mut told = Vec::new();
    for (id, request) in open {
        let mail = agent_context.team.mail(&request.to).await?;
        let text = mail
            .iter()
            .find(|mail| mail.request_id() == Some(id))
            .map(|mail| mail.message.text.as_str());
        let kind = match request.kind {
            RequestKind::Shutdown => "to shut down",
            RequestKind::Plan => "to approve a plan",
            RequestKind::Permission => "to allow a call of a tool",
        };
        let text = text.unwrap_or("Its text is not in the inbox any more.");
        told.push(format!(
            "You asked {} {kind}, in the request {id}:\n{}",
            request.to,
            shortened(text, each)
        ));
    }
    Ok((!told.is_empty())
        .then(|| format!("# What you asked, and has no answer yet\n{}", told.join("\n\n"))))
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::{AgentName, Message, MessageId};
    use serde_json::json;

    use super::*;
    use pitcrew_agent::transcript::Step;

    fn task(id: u64, owner: Option<&str>, status: &str, description: &str) -> Task {
        let blocked_by = if id == 1 { vec!["2"] } else { Vec::new() };
        let task = json!({
            "id": id.to_string(), "subject": format!("Subject {id}"), "description": description, "owner": owner,
            "status": status, "blocks": [], "blockedBy": blocked_by,
        });
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn own_tasks_are_told_whole_and_the_others_in_a_line() {
        let tasks = [
            task(1, Some("bob"), "in_progress", "Write it\nwith care."),
            task(2, Some("ann"), "pending", "Not for bob."),
            task(3, None, "pending", "Free."),
            task(4, Some("bob"), "completed", "Done."),
        ];
        insta::assert_snapshot!(task_list(&tasks, "bob", BriefingSize { window: 10_000 }), @r"
        # Your tasks that are not completed
        #1 (in_progress, bob's, waits for #2): Subject 1
        Write it
        with care.

        # Other tasks that are not completed (TaskGet tells all of one)
        #2 (pending, ann's): Subject 2
        #3 (pending, nobody's): Subject 3
        ");
    }

    #[test]
    fn what_does_not_fit_is_cut_and_says_so() {
        let tasks = [task(1, Some("bob"), "pending", &"x".repeat(5_000))];
        let told = task_list(&tasks, "bob", BriefingSize { window: 8_000 });
        assert!(told.contains("more characters are left out here."), "{told}");
        assert!(told.chars().count() < 1_500, "{told}");
        let mut conversation = Conversation::default();
        conversation.apply(&Step::Told { text: "y".repeat(5_000) });
        let told = prompts(&conversation, BriefingSize { window: 8_000 }).unwrap();
        assert!(told.ends_with("[1000 more characters are left out here.]"), "{}", told.len());
    }

    fn letter(id: &str, from: &str, text: &str) -> Mail {
        let message: Message = serde_json::from_value(
            json!({"from": from, "text": text, "timestamp": "2026-11-20T10:00:00.000Z"}),
        )
        .unwrap();
        Mail { id: MessageId(id.to_owned()), message, frame: Frame::detect(text) }
    }

    fn request(id: &str, is_answered: bool) -> Request {
        let answer =
            is_answered.then(|| json!({"approved": false, "at_ms": 1, "frame": {"message": "a"}}));
        let request = json!({"kind": "shutdown", "from": "team-lead", "to": "bob", "at_ms": 1, "answer": answer});
        let mut request: Request = serde_json::from_value(request).unwrap();
        request.call = Some(id.to_owned());
        request
    }

    #[test]
    fn only_requests_that_were_read_and_not_answered_are_put_back_and_those_whole() {
        let asks = |id: &str| {
            format!(r#"{{"type":"shutdown_request","requestId":"{id}","reason":"<b> \"now\""}}"#)
        };
        let mail = [
            letter("m1", "team-lead", &asks("open")),
            letter("m2", "team-lead", &asks("answered")),
            letter("m3", "team-lead", &asks("unread")),
            letter("m4", "team-lead", &asks("foreign")),
            letter("m5", "gone", &asks("void")),
            letter("m6", "team-lead", "hello"),
        ];
        let recorded = [("open", false), ("answered", true), ("unread", false)];
        let recorded =
            recorded.map(|(id, is_answered)| (id.to_owned(), request(id, is_answered))).into();
        let mut conversation = Conversation::default();
        let read = ["m1", "m2", "m4", "m5", "m6"].map(|id| MessageId(id.to_owned()));
        conversation.apply(&Step::Mail { ids: read.to_vec(), text: "mail".to_owned() });
        let config =
            json!({"name": "t", "members": [{"name": AgentName::lead()}, {"name": "bob"}]});
        let config: TeamConfig = serde_json::from_value(config).unwrap();
        let told =
            asked_of(&mail, &recorded, &conversation, &config, BriefingSize { window: 10_000 })
                .unwrap();
        insta::assert_snapshot!(told, @r#"
        Requests that wait for your answer, word for word:

        <teammate-message teammate_id="team-lead">
        {"type":"shutdown_request","requestId":"open","reason":"<b> \"now\""}
        </teammate-message>

        <teammate-message teammate_id="team-lead">
        {"type":"shutdown_request","requestId":"foreign","reason":"<b> \"now\""}
        </teammate-message>
        "#);
    }
}
