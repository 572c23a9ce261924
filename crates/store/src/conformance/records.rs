//! Checks that every backend must pass for pitcrew's own documents and logs.

use std::sync::Arc;

use pitcrew_protocol::{AgentName, ApiError, ErrorCode};

use super::{Failure, same, team};
use crate::{Backend, LogName};

pub(super) async fn a_document_is_edited_and_removed(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    same("no document", backend.document(&dir, "requests").await?, None)?;
    for expected in 0..3 {
        let count = move |document: &mut Option<serde_json::Value>| {
            let there = document.as_ref().and_then(serde_json::Value::as_i64).unwrap_or(0);
            if there != expected {
                return Err(ApiError::new(
                    ErrorCode::InternalError,
                    format!("{there}, not {expected}"),
                ));
            }
            *document = Some((there + 1).into());
            Ok(())
        };
        backend.edit_document(&dir, "requests", Box::new(count)).await?;
    }
    same("the document", backend.document(&dir, "requests").await?, Some(3.into()))?;
    same("another one", backend.document(&dir, "lead").await?, None)?;
    let remove = |document: &mut Option<serde_json::Value>| {
        *document = None;
        Ok(())
    };
    backend.edit_document(&dir, "requests", Box::new(remove)).await?;
    same("removed", backend.document(&dir, "requests").await?, None)
}

pub(super) async fn logs_are_apart_and_in_order(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let (transcript, output) =
        (LogName::Transcript(AgentName::lead()), LogName::Output(AgentName::lead()));
    same("empty", backend.log(&dir, &transcript).await?, Vec::new())?;
    backend.append_log(&dir, &transcript, &["one".into(), "two".into()]).await?;
    backend.append_log(&dir, &output, &["other".into()]).await?;
    backend.append_log(&dir, &transcript, &["three".into()]).await?;
    same(
        "transcript",
        backend.log(&dir, &transcript).await?,
        vec!["one".into(), "two".into(), "three".into()],
    )?;
    same("output", backend.log(&dir, &output).await?, vec!["other".to_owned()])
}

pub(super) async fn the_end_of_a_log_is_read_by_whole_lines(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let log = LogName::Transcript(AgentName::lead());
    same("no log", backend.log_end(&dir, &log, 100).await?, Vec::new())?;
    let lines = ["one", "two", "three"].map(str::to_owned);
    backend.append_log(&dir, &log, &lines).await?;
    same("all", backend.log_end(&dir, &log, 100).await?, lines.to_vec())?;
    same(
        "the last two",
        backend.log_end(&dir, &log, 12).await?,
        vec!["two".into(), "three".into()],
    )?;
    same("less than a line", backend.log_end(&dir, &log, 3).await?, Vec::new())
}

pub(super) async fn a_replaced_log_is_kept_under_another_name(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let log = LogName::Transcript(AgentName::lead());
    let kept = LogName::Former { agent: AgentName::lead(), until_ms: 7 };
    backend.append_log(&dir, &log, &["one".into(), "two".into()]).await?;
    backend.replace_log(&dir, &log, &["new".into()], &kept).await?;
    same("kept", backend.log(&dir, &kept).await?, vec!["one".into(), "two".into()])?;
    backend.append_log(&dir, &log, &["newer".into()]).await?;
    same("in its place", backend.log(&dir, &log).await?, vec!["new".into(), "newer".into()])?;
    let (none, empty) = (
        LogName::Output(AgentName::lead()),
        LogName::Former { agent: AgentName::lead(), until_ms: 8 },
    );
    backend.replace_log(&dir, &none, &[], &empty).await?;
    same("nothing for nothing", backend.log(&dir, &none).await?, Vec::new())?;
    same("nothing kept", backend.log(&dir, &empty).await?, Vec::new())
}
