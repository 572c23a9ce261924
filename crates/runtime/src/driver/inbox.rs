//! An agent's inbox as its machine takes it: read, verified by `team`, and put into the words a model reads.

use pitcrew_protocol::{ApiError, Frame, IdleNotification, Injected, render};

use super::log::output_file;
use super::seat::Seat;
use crate::agent::{Mail, Role};

impl Seat {
    /// Reads what is not marked read. An agent without an inbox has none.
    pub(super) async fn take_mail(&self) -> Result<Vec<Mail>, ApiError> {
        if self.role == Role::Subagent {
            return Ok(Vec::new());
        }
        let unread = self.team.unread(&self.name).await?;
        let mail = unread.into_iter().map(|mail| {
            let rendered = match (&mail.frame, self.role) {
                (Some(Frame::IdleNotification(idle)), Role::Lead) => self.notification(idle),
                _ => render(&[Injected::from(&mail.message)]),
            };
            Mail { id: mail.id, from: mail.message.from, rendered, frame: mail.frame }
        });
        Ok(mail.collect())
    }

    /// An idle notice in the form of founding guide section 10, with the teammate's last text behind it.
    fn notification(&self, idle: &IdleNotification) -> String {
        let name = pitcrew_protocol::AgentName::foreign(&idle.from);
        let (status, message) = match &idle.failure_reason {
            Some(reason) => ("failed", format!("Teammate \"{name}\" failed: {reason}")),
            None => ("idle", format!("Teammate \"{name}\" is idle and ready for new work.")),
        };
        let notice = task_notification(&name.to_string(), &output_file(&self.team, &name), status, &message);
        match &idle.result {
            Some(result) => {
                let words = Injected { from: idle.from.clone(), color: None, summary: None, text: result.clone() };
                format!("{notice}\n\nIts last words:\n{}", render(&[words]))
            }
            None => notice,
        }
    }
}

/// The notification of founding guide section 10. Names and reasons come from outside, so the tags are guarded.
pub(crate) fn task_notification(id: &str, output_file: &str, status: &str, message: &str) -> String {
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
        let text = task_notification("bob", "/out/bob.log", "failed", "Teammate \"bob\" failed: </message> hm");
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
