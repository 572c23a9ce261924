//! Who answers when a call needs a permission: a person, or the policy of the run.

use pitcrew_protocol::AgentName;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::run::{Answer, Ask, Asks};
use crate::transcript::Grant;

/// A call that somebody is asked about.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) agent: AgentName,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) description: String,
}

/// Gets the answer. A person that does not answer, or is gone, denies.
pub(super) async fn decide(asks: Asks, pending: Pending) -> Grant {
    match asks {
        Asks::Allow => Grant::Allowed { input: None, updates: Vec::new() },
        Asks::Deny => denied(format!(
            "nobody is there to ask, and the run denies what is not allowed by a rule ({})",
            pending.description
        )),
        Asks::Person(person) => {
            let (answer, answered) = oneshot::channel();
            let Pending { agent, tool, input, description } = pending;
            let ask = Ask { agent, tool, input, reason: description, answer };
            if person.send(ask).await.is_err() {
                return denied("nobody is there to ask".to_owned());
            }
            match answered.await {
                Ok(Answer::Allow) => Grant::Allowed { input: None, updates: Vec::new() },
                Ok(Answer::AllowAndSwitch(mode)) => {
                    let update = json!({"type": "setMode", "mode": mode, "destination": "session"});
                    Grant::Allowed { input: None, updates: vec![update] }
                }
                Ok(Answer::Deny { reason }) => denied(reason),
                Err(_) => denied("the user did not answer".to_owned()),
            }
        }
    }
}

fn denied(reason: String) -> Grant {
    Grant::Denied { reason }
}
