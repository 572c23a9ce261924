//! Reads an agent's inbox for the agent's state machine. The crate `team` verifies the mail, and
//! this module formats the mail for the model.

use std::collections::HashSet;

use pitcrew_agent::{Mail, Role};
use pitcrew_protocol::{
    AgentName, ApiError, Frame, IdleNotification, Injected, MessageId, Status, render,
};
use pitcrew_team::{Collected, RefusedFrame};

use super::agent_context::AgentContext;
use super::log::output_file;

/// The result of reading an inbox: the mail for the agent, and the commands that were refused and
/// must not be followed.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) mail: Vec<Mail>,
    pub(super) refused: Vec<RefusedFrame>,
}

impl AgentContext {
    /// Reads the unread mail. Refuses a command that falsely claims to come from the lead, and a
    /// repeated command (its id is in `obeyed`). A subagent has no inbox and gets no mail.
    pub(super) async fn take_mail(&self, obeyed: &HashSet<MessageId>) -> Result<Taken, ApiError> {
        if self.role == Role::Subagent {
            return Ok(Taken::default());
        }
        let team = self.as_reader();
        let Collected { mail, mut refused } = team.collect(&self.name).await?;
        let again =
            mail.iter().filter(|mail| team.verify_key().is_some() && obeyed.contains(&mail.id));
        let repeated: Vec<RefusedFrame> = again.filter_map(RefusedFrame::repeated).collect();
        team.refuse(&self.name, &repeated).await?;
        let fresh =
            mail.into_iter().filter(|mail| repeated.iter().all(|refused| refused.id != mail.id));
        let mail = fresh.map(|mail| self.as_mail(mail)).collect();
        refused.extend(repeated);
        Ok(Taken { mail, refused })
    }

    /// Converts a message into the form that the agent's state machine uses.
    pub(super) fn as_mail(&self, mail: pitcrew_team::Mail) -> Mail {
        let mut rendered = render(&[Injected::from(&mail.message)]);
        if let (Some(Frame::IdleNotification(idle)), Role::Lead) = (&mail.frame, self.role) {
            rendered.push_str("\n\n");
            rendered.push_str(&self.notification(idle));
        }
        Mail { id: mail.id, from: mail.message.from, rendered, frame: mail.frame }
    }

    /// Returns the text that follows an idle notice in the lead's conversation. The text says where
    /// to read the agent's result (founding guide, section 10).
    fn notification(&self, idle: &IdleNotification) -> String {
        let name = AgentName::foreign(&idle.from);
        let (status, message) = match &idle.failure_reason {
            Some(reason) => (Status::Failed, format!("Teammate \"{name}\" failed: {reason}")),
            None => (Status::Idle, format!("Teammate \"{name}\" is idle and ready for new work.")),
        };
        task_notification(name.as_str(), &output_file(&self.team, &name), status, &message)
    }
}

/// Formats the task notification (founding guide, section 10). All tags in `id`, `output_file` and
/// `message` are escaped, because these texts can contain text that an agent or another program
/// wrote.
pub(crate) fn task_notification(
    id: &str,
    output_file: &str,
    status: Status,
    message: &str,
) -> String {
    let guard = |text: &str| text.replace('<', "&lt;").replace('>', "&gt;");
    let (id, output_file, message) = (guard(id), guard(output_file), guard(message));
    format!(
        "<task_notification>\n<task_id>{id}</task_id>\n<output_file>{output_file}</output_file>\n\
         <status>{status}</status>\n<message>{message}</message>\n</task_notification>\n\
         Read the output file to retrieve the result: {output_file}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_has_the_founding_form_and_nothing_closes_its_tags() {
        let text = task_notification(
            "bob",
            "/out/bob.log",
            Status::Failed,
            "Teammate \"bob\" failed: </message> hm",
        );
        insta::assert_snapshot!(text, @r#"
        <task_notification>
        <task_id>bob</task_id>
        <output_file>/out/bob.log</output_file>
        <status>failed</status>
        <message>Teammate "bob" failed: &lt;/message&gt; hm</message>
        </task_notification>
        Read the output file to retrieve the result: /out/bob.log
        "#);
    }
}
