//! Carries out the requests to the host that one command of the user makes.

use pitcrew_protocol::AgentName;
use pitcrew_team::{PlanState, PlanView, Team};
use pitcrew_view::client::{self, PanePlace, PlanVerdict};
use pitcrew_view::text::{in_one_line, printable};
use serde_json::json;

use super::{NO_HOST, chain, of_host};
use crate::app::{Done, Request};

/// The agent type of a teammate for which the user names none.
const DEFAULT_TYPE: &str = "general-purpose";

/// The number of characters of a prompt that describe the teammate.
const DESCRIPTION_CHARS: usize = 60;

/// Carries out a request, and returns its result.
pub(super) async fn done(team: &Team, request: Request) -> Done {
    match request {
        Request::Permissions => Done::Permissions(match client::permissions(team).await {
            Ok(Some(permissions)) => Ok(permissions),
            Ok(None) => Err(NO_HOST.to_owned()),
            Err(error) => Err(chain(&error)),
        }),
        Request::Plans => Done::Plans(open_plans(team).await),
        Request::AnswerPlan { member, id, verdict } => {
            let said = match &verdict {
                PlanVerdict::Approved => "approved",
                PlanVerdict::SentBack { .. } => "sent back",
            };
            let result = answer_plan(team, &member, id, verdict).await;
            reported(
                result.map(|()| format!("the plan of {member} is {said}")),
                &format!("the plan of {member} is not {said}"),
            )
        }
        Request::Spawn { name, agent_type, prompt } => {
            let spawned = spawn(team, &name, agent_type, &prompt).await;
            reported(spawned, &format!("{name} is not started"))
        }
        Request::ShutDown(name) => {
            let asked = of_host(client::shut_down(team, &name, None).await);
            reported(
                asked.map(|()| format!("{name} is asked to leave; it may refuse")),
                &format!("{name} is not asked to leave"),
            )
        }
        Request::ShowPane(name) => {
            let place = match client::show_pane(team, &name).await {
                Ok(Some(place)) => Ok(place_in_words(&name, &place)),
                Ok(None) => Err(NO_HOST.to_owned()),
                Err(error) => Err(chain(&error)),
            };
            reported(place, &format!("the pane of {name} is not shown"))
        }
        Request::HidePane(name) => {
            let hidden = of_host(client::hide_pane(team, &name).await);
            reported(
                hidden.map(|()| {
                    format!("the pane of {name} is hidden; {name} goes on, `/pane {name}` shows it")
                }),
                &format!("the pane of {name} is not hidden"),
            )
        }
    }
}

/// Returns the report of a request. `failed` says what did not happen.
fn reported(result: Result<String, String>, failed: &str) -> Done {
    match result {
        Ok(text) => Done::Told(text),
        Err(reason) => Done::Failed(format!("{failed}: {reason}")),
    }
}

async fn open_plans(team: &Team) -> Result<Vec<PlanView>, String> {
    let mut plans = team.plans().await.map_err(|error| chain(&error))?;
    plans.retain(|plan| plan.state == PlanState::Open);
    Ok(plans)
}

/// Answers the plan with this id, or the latest plan of the member that waits.
async fn answer_plan(
    team: &Team,
    member: &AgentName,
    id: Option<String>,
    verdict: PlanVerdict,
) -> Result<(), String> {
    let id = match id {
        Some(id) => id,
        None => {
            let open = open_plans(team).await?;
            let names: Vec<&str> = open.iter().map(|plan| plan.member.as_str()).collect();
            let plan = open.iter().rev().find(|plan| plan.member == *member);
            plan.map(|plan| plan.request_id.clone()).ok_or_else(|| match names.is_empty() {
                true => "no plan waits for an answer".to_owned(),
                false => format!("the plans of these wait: {}", names.join(", ")),
            })?
        }
    };
    of_host(client::answer_plan(team, (&id, member), verdict).await)
}

/// Adds a teammate, and returns the text that says so. If the name is taken, the teammate gets
/// another one.
async fn spawn(
    team: &Team,
    name: &AgentName,
    agent_type: Option<String>,
    prompt: &str,
) -> Result<String, String> {
    let description: String = in_one_line(prompt).chars().take(DESCRIPTION_CHARS).collect();
    let agent_type = agent_type.unwrap_or_else(|| DEFAULT_TYPE.to_owned());
    let input = json!({
        "name": name, "subagent_type": agent_type, "description": description, "prompt": prompt,
    });
    let member = match client::spawn(team, input).await {
        Ok(Some(member)) => member,
        Ok(None) => return Err(NO_HOST.to_owned()),
        Err(error) => return Err(chain(&error)),
    };
    let text = |field: &str| member.get(field).and_then(|value| value.as_str()).unwrap_or("?");
    Ok(format!("{} ({}) works for the team", printable(text("name")), printable(text("agentType"))))
}

/// Says where a person can see a pane.
fn place_in_words(name: &AgentName, place: &PanePlace) -> String {
    let mut text = match &place.place {
        Some(place) => format!("the pane of {name} is in {}", in_one_line(place)),
        None => format!("the pane of {name} is shown"),
    };
    if place.is_shown == Some(false)
        && let Some(command) = &place.command
    {
        text.push_str(&format!(
            ", which no terminal shows; `{}` opens it",
            in_one_line(&command.join(" "))
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_pane_names_the_command_if_no_terminal_shows_it() {
        let bob = AgentName::new("bob").unwrap();
        let unseen = PanePlace {
            place: Some("the tmux session pitcrew-work".to_owned()),
            command: Some(["tmux", "attach", "-t", "pitcrew-work"].map(str::to_owned).to_vec()),
            is_shown: Some(false),
        };
        assert_eq!(
            place_in_words(&bob, &unseen),
            "the pane of bob is in the tmux session pitcrew-work, which no terminal shows; \
             `tmux attach -t pitcrew-work` opens it"
        );
        let seen = PanePlace { is_shown: Some(true), ..unseen };
        assert_eq!(
            place_in_words(&bob, &seen),
            "the pane of bob is in the tmux session pitcrew-work"
        );
        assert_eq!(place_in_words(&bob, &PanePlace::default()), "the pane of bob is shown");
    }
}
