//! The durable timeline of a team, archived or not.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pitcrew_protocol::{AgentName, chain};
use pitcrew_team::TeamRecords;
use pitcrew_view::team_log::{LogEntry, TeamLog, merged};

use crate::app::{App, Shared};
use crate::etag::tagged;
use crate::failure::Failure;
use crate::paging::Page;

/// `GET /api/teams/{team}/log`
pub(super) async fn page(
    State(app): State<Shared>,
    Path(team): Path<String>,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let log = whole(&app, &app.records(&team).await?).await?;
    tagged(&headers, &page.of_list(log))
}

/// Reads the whole log of a team. Its entries are in the order of their times. Those of one time are
/// in the order of the journal, before the messages that the journal lacks. Entries about inboxes that
/// cannot be read come first.
pub(super) async fn whole(app: &App, records: &TeamRecords) -> Result<Vec<LogEntry>, Failure> {
    let (mut log, mut unread) = (TeamLog::default(), Vec::new());
    log.know_tasks(&records.tasks().await?);
    for name in records.all_members().await? {
        unread.extend(know_mail(&mut log, records, &name).await);
    }
    let journal = app.journals.of(records).await?;
    for name in log.lacks_mail_of(&journal) {
        unread.extend(know_mail(&mut log, records, &name).await);
    }
    let recorded = log.entries(&journal);
    unread.extend(merged(recorded, log.unrecorded_mail()));
    Ok(unread)
}

/// Reads the mail of a member. If that fails, returns an entry that says so.
async fn know_mail(log: &mut TeamLog, records: &TeamRecords, name: &AgentName) -> Option<LogEntry> {
    match records.mail(name).await {
        Ok(mail) => {
            log.know_mail(name, mail);
            None
        }
        Err(error) => {
            let said = format!("the mail of {name} cannot be read: {}", chain(&error));
            Some(LogEntry::unread(&said))
        }
    }
}
