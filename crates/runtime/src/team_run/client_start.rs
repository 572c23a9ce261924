//! How a teammate of another client starts: with a new conversation, or with the one that its process before had.
//!
//! The id of a conversation is ours to give, and recorded before the client starts. Mail that the process before had taken and
//! that is not in the conversation is put into the inbox again: it was in the memory of that process only. Where no
//! conversation can be gone on with, the new one begins with the prompt, and with what was sent since the last notice but one:
//! which of it the former model had read is not known, and the new one knows nothing of it.

use std::collections::HashSet;
use std::path::Path;

use pitcrew_protocol::{AgentName, ApiError, Frame, LEAD_NAME, Member, MessageId, neutralised};
use pitcrew_team::{Mail, SpawnRecord, Team, sent_at_ms};

use crate::client_conversation::{ClientConversation, enters_conversations};
use crate::hosting::Conversation;

/// What a client that goes on with its conversation is told. It follows on whatever the end of its process cut off.
const GO_ON: &str = "Your process was ended and has been started again; this conversation is as it was then. A call that was cut \
     off has no result: see whether it took effect. Requests to shut down that came before this are void. If a plan or a \
     question of yours has no answer yet, ask again. Go on with what is left to do; if nothing is, say so.";

/// What is put in front of a message that a process before had taken.
const REMARK: &str = "(Delivered again: the process that took this first has ended.)";

/// Whether a former conversation may be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Former {
    /// It is gone on with where it can be.
    GoesOn,
    /// The client did not start with it.
    Refused,
}

/// What a client starts with.
pub(super) struct ClientStart {
    /// Its conversation.
    pub(super) conversation: Conversation,
    /// The message that it takes first.
    pub(super) first: MessageId,
    /// What is to be said of it to whoever watches the run.
    pub(super) said: Option<String>,
}

impl ClientStart {
    /// Decides on the conversation of a client that is about to start. Its first message is put into its inbox, and so is the
    /// mail again that its process before had taken.
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
            // What a start before this one was told, and did not take.
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

/// Notes the mail that a client took and that its model never had, now that it has ended for good. Answers with how many texts
/// that is news of.
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

/// What was taken of the mail for a conversation, and is not in it. A request to shut down is void when its process is gone.
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

/// What a client took since its last notice but one; since its start when it gave fewer. A message that it took in the middle
/// of a turn is read by its model after the notice of that turn. The prompt is given anew in any case.
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

/// Delivers taken mail again, in order. Answers with how many of all that was taken now waits to be taken again: a start
/// before this one may have put some of it there.
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

/// Sends again what nobody has taken yet, so that it comes behind what was taken before it.
async fn put_behind(team: &Team, member: &Member, mail: &[Mail]) -> Result<(), ApiError> {
    let waits = |mail: &&Mail| {
        !mail.message.is_read() && is_delivered_again(mail) && !is_first(mail, member)
    };
    for mail in mail.iter().filter(waits) {
        team.deliver_again(&member.name, mail, None).await?;
    }
    Ok(())
}

/// Whether it is what a client is started with.
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
