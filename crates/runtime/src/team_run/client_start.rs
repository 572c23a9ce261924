//! Starts a teammate that another client runs, with a new conversation or with the conversation of
//! the teammate's previous process.
//!
//! Pitcrew chooses the conversation's id and records the id before the client starts. Some mail
//! that the previous process took may be missing from the conversation, because only the memory of
//! that process contained it. Such mail goes back into the inbox.
//!
//! If no conversation can be continued, a new conversation starts with the prompt. After the
//! prompt, the client gets again all mail that it took and that was sent after its second-last idle
//! notice. It is unknown how much of this mail the model had read in the old conversation, and the
//! new conversation contains none of it.

use std::collections::HashSet;
use std::path::Path;

use pitcrew_protocol::{AgentName, ApiError, Frame, LEAD_NAME, Member, MessageId, neutralised};
use pitcrew_team::{Mail, SpawnRecord, Team, sent_at_ms};

use crate::client_conversation::{ClientConversation, enters_conversations};
use crate::hosting::Conversation;

/// First message to a client that continues its conversation. The conversation before this message
/// may be cut off, because the old process ended in the middle of a turn.
const GO_ON: &str = "Your process was ended and has been started again; this conversation is as it was then. A call that was cut \
     off has no result: see whether it took effect. Requests to shut down that came before this are void. If a plan or a \
     question of yours has no answer yet, ask again. Go on with what is left to do; if nothing is, say so.";

/// Text that is added before a message that an earlier process had already taken.
const REMARK: &str = "(Delivered again: the process that took this first has ended.)";

/// Whether the client is allowed to continue its former conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Former {
    /// Continue the former conversation, if that is possible.
    GoesOn,
    /// Do not use the former conversation, because the client failed to start with it.
    Refused,
}

/// The conversation and first message with which a client starts.
pub(super) struct ClientStart {
    pub(super) conversation: Conversation,
    /// The id of the first message that the client takes.
    pub(super) first: MessageId,
    /// A notice for the people who watch the run. `None` if there is nothing to say.
    pub(super) said: Option<String>,
}

impl ClientStart {
    /// Chooses the conversation for a client that is about to start. Puts the first message into
    /// the client's inbox. Also delivers the mail again that the client's previous process had
    /// taken.
    pub(super) async fn of(
        team: &Team,
        root: &Path,
        member: &Member,
        former: Former,
    ) -> Result<Self, ApiError> {
        let name = &member.name;
        let known = team.client_conversation(name).await?;
        let mail = team.known_mail(name).await?;
        if let (Some(known), Former::GoesOn) = (&known, former)
            && let Some(conversation) = read(root, &known.id).await
        {
            let lacking = lacking(&conversation, &mail, known.since_ms);
            let first = team.tell_client(name, GO_ON).await?.id;
            let again = deliver_again(team, name, &lacking, &mail, None).await?;
            if again > 0 {
                put_behind(team, member, &mail).await?;
            }
            team.forget_brought(name, &known.brought).await?;
            let said = format!(
                "{name} goes on with its conversation; {} that it had taken and not read",
                delivered(again)
            );
            let conversation = Conversation::Former(known.id.clone());
            return Ok(Self { conversation, first, said: (again > 0).then_some(said) });
        }
        let has_run = mail.iter().any(|mail| mail.message.is_read());
        let call = SpawnRecord::of(member).and_then(|record| record.call).filter(|_| !has_run);
        let lately = taken_lately(team, member, &mail).await?;
        if has_run {
            // An earlier start may have put a first message into the inbox that the client did not
            // take. Mark such a message as read.
            let untaken =
                mail.iter().filter(|mail| !mail.message.is_read() && is_first(mail, member));
            team.acknowledge(name, &untaken.map(|mail| mail.id.clone()).collect::<Vec<_>>())
                .await?;
        }
        let conversation = Conversation::New(team.begin_client_conversation(name).await?);
        let first = team.send_prompt(member, call.as_deref()).await?.id;
        let again = deliver_again(team, name, &lately, &mail, Some(REMARK)).await?;
        if again > 0 || former == Former::Refused {
            put_behind(team, member, &mail).await?;
        }
        let end_reason = match (known.is_some(), former) {
            (_, Former::Refused) => "its client did not start with the one it had",
            (true, Former::GoesOn) => "the one it had cannot be found",
            (false, Former::GoesOn) => "the one it had was not recorded",
        };
        let more = if again > 0 {
            format!("; {} that it had taken", delivered(again))
        } else {
            String::new()
        };
        let said = format!("{name} begins a new conversation with its prompt: {end_reason}{more}");
        Ok(Self { conversation, first, said: has_run.then_some(said) })
    }
}

/// Records the mail that a client took but never showed to its model. Returns how many of the newly
/// recorded messages are plain text. This function must be called only after the client has ended
/// for good.
pub(super) async fn note_never_read(
    team: &Team,
    root: &Path,
    name: &AgentName,
) -> Result<usize, ApiError> {
    let Some(known) = team.client_conversation(name).await? else { return Ok(0) };
    let Some(conversation) = read(root, &known.id).await else { return Ok(0) };
    let mail = team.known_mail(name).await?;
    let lacking = lacking(&conversation.ended(), &mail, known.since_ms);
    let mut told = 0;
    for mail in &lacking {
        let is_news = team.never_read(name, mail).await?;
        told += usize::from(is_news && mail.frame.is_none());
    }
    Ok(told)
}

async fn read(root: &Path, id: &str) -> Option<ClientConversation> {
    let (root, id) = (root.to_owned(), id.to_owned());
    tokio::task::spawn_blocking(move || ClientConversation::read(&root, &id)).await.ok().flatten()
}

/// Returns the mail that the client took but that is missing from the conversation. Shutdown
/// requests are left out, because they have no effect after the process is gone.
fn lacking<'a>(
    conversation: &ClientConversation,
    mail: &'a [Mail],
    since_ms: i64,
) -> Vec<&'a Mail> {
    let for_it = mail.iter().filter(|mail| mail.message.is_read() && sent_at_ms(mail) >= since_ms);
    let mut lacking = conversation.lacks(&for_it.collect::<Vec<_>>());
    lacking.retain(|mail| is_delivered_again(mail) && mail.message.text != GO_ON);
    lacking
}

fn is_delivered_again(mail: &Mail) -> bool {
    enters_conversations(mail) && !matches!(mail.frame, Some(Frame::ShutdownRequest(_)))
}

/// Returns the mail that the client took and that was sent after the client's second-last idle
/// notice. If the client has sent fewer than two notices, returns all mail that it took. Mail sent
/// before the last notice is included, because the client may take a message during a turn and show
/// it to its model only in the next turn. The prompt is left out, because it is always sent again.
async fn taken_lately<'a>(
    team: &Team,
    member: &Member,
    mail: &'a [Mail],
) -> Result<Vec<&'a Mail>, ApiError> {
    let of_lead = team.known_mail(&AgentName::lead()).await?;
    let is_notice = |mail: &&Mail| {
        AgentName::foreign(&mail.message.from) == member.name
            && matches!(mail.frame, Some(Frame::IdleNotification(_)))
    };
    let notices: Vec<i64> = of_lead.iter().filter(is_notice).map(sent_at_ms).collect();
    let since_ms = notices.iter().rev().nth(1).copied().unwrap_or(i64::MIN);
    let is_wanted = |mail: &&Mail| {
        mail.message.is_read()
            && sent_at_ms(mail) > since_ms
            && is_delivered_again(mail)
            && !is_first(mail, member)
    };
    Ok(mail.iter().filter(is_wanted).collect())
}

/// Delivers mail again that a client had already taken, in order. Returns how many such messages
/// now wait in the inbox. The number includes messages that an earlier start delivered again.
async fn deliver_again(
    team: &Team,
    name: &AgentName,
    taken: &[&Mail],
    all: &[Mail],
    remark: Option<&str>,
) -> Result<usize, ApiError> {
    for mail in taken {
        team.deliver_again(name, mail, remark).await?;
    }
    let unread: HashSet<MessageId> =
        team.unread(name).await?.into_iter().map(|mail| mail.id).collect();
    let waits = |mail: &&Mail| mail.message.is_read() && unread.contains(&team.again_id(&mail.id));
    Ok(all.iter().filter(waits).count())
}

/// Puts a copy of the mail that the client has not taken yet at the end of the inbox. This mail
/// then comes after the mail that was delivered again.
async fn put_behind(team: &Team, member: &Member, mail: &[Mail]) -> Result<(), ApiError> {
    let waits = |mail: &&Mail| {
        !mail.message.is_read() && is_delivered_again(mail) && !is_first(mail, member)
    };
    for mail in mail.iter().filter(waits) {
        team.deliver_again(&member.name, mail, None).await?;
    }
    Ok(())
}

/// Returns true if the message starts a client. Such a message is the prompt, or the note that
/// tells the client to continue.
fn is_first(mail: &Mail, member: &Member) -> bool {
    let text = &mail.message.text;
    let is_prompt = || member.prompt.as_deref().map(neutralised).as_deref() == Some(text.as_str());
    mail.message.from == LEAD_NAME && (text == GO_ON || is_prompt())
}

fn delivered(count: usize) -> String {
    if count == 1 {
        "1 message is delivered again".to_owned()
    } else {
        format!("{count} messages are delivered again")
    }
}
