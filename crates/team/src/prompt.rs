//! Sends a teammate's spawn prompt, the first message in the teammate's inbox. This is for a
//! teammate that runs in its own process.
//!
//! Source: `fixtures/claude-2.1.39/tmux-permissions`, `inboxes/{worker,planner}.json`. In these
//! files, the message is from the lead and has no summary.

use pitcrew_protocol::{ApiError, LEAD_NAME, Member, Program, neutralised};
use pitcrew_store::UnreadLimit;

use crate::delivery::{OutgoingMessage, Receipt, as_text};
use crate::ours::SpawnRecord;
use crate::{Team, refusal};

impl Team {
    /// Puts the spawn prompt of `member` into the inbox of `member`. `call` is the id of the tool
    /// call that spawns the member. A second attempt with the same `call` does not send the prompt
    /// again.
    ///
    /// # Errors
    /// `invalid_request` for a member without a prompt, `agent_not_found`, `internal_error`.
    pub async fn send_prompt(
        &self,
        member: &Member,
        call: Option<&str>,
    ) -> Result<Receipt, ApiError> {
        let config = self.config().await?;
        let Some(known) = config.member(member.name.as_str()) else {
            return Err(refusal::unknown_agent(&config, member.name.as_str()));
        };
        let prompt = known.prompt.as_deref().unwrap_or_default();
        refusal::check_filled("prompt", prompt)?;
        let program = SpawnRecord::of(known).map_or(Program::Claude, |record| record.program);
        let text = match program {
            Program::Pitcrew => prompt.into(),
            // The reference client copies an inbox text into its conversation unchanged. Tags in
            // the text must therefore be made harmless here.
            Program::Claude => neutralised(prompt),
        };
        self.deliver(OutgoingMessage {
            id: self.letter_id(&config, call, ["prompt", LEAD_NAME, known.name.as_str()])?,
            from: LEAD_NAME.to_owned(),
            author: None,
            color: None,
            to: known.name.clone(),
            text: as_text(&text),
            summary: None,
            limit: UnreadLimit::None,
        })
        .await
    }
}
