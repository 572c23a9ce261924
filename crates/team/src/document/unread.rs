//! Entries that cannot be read: listing them and removing them.

use pitcrew_protocol::{ApiError, FORMAT_VERSION, VERSION_KEY};
use serde_json::Value;

use super::Document;
use super::reading::Reading;
use crate::Team;
use crate::bounds::{FirstGoal, RunBounds};
use crate::conversations::ClientConversations;
use crate::ended::Ended;
use crate::escaped::EscapedProcesses;
use crate::lead::Keys;
use crate::pane_hosts::PaneHosts;
use crate::requests::RequestLog;
use crate::secret_digests::SecretDigests;
use crate::send_once::SentOnce;
use crate::started::StartedMembers;
use crate::take_over::TakeOver;

/// An entry that cannot be read, in a document that can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadEntry {
    /// The document's name.
    pub document: &'static str,
    /// The position of the entry in the document, such as `started.bob`.
    pub entry: String,
}

impl Team {
    /// Lists the unreadable entries of each pitcrew document. A document of a later format version,
    /// or one that cannot be read at all, has an error in the list.
    pub async fn unread_entries(&self) -> Vec<(&'static str, Result<Vec<UnreadEntry>, ApiError>)> {
        vec![
            (StartedMembers::NAME, self.unread_of::<StartedMembers>().await),
            (RequestLog::NAME, self.unread_of::<RequestLog>().await),
            (PaneHosts::NAME, self.unread_of::<PaneHosts>().await),
            (RunBounds::NAME, self.unread_of::<RunBounds>().await),
            (FirstGoal::NAME, self.unread_of::<FirstGoal>().await),
            (ClientConversations::NAME, self.unread_of::<ClientConversations>().await),
            (Ended::NAME, self.unread_of::<Ended>().await),
            (Keys::NAME, self.unread_of::<Keys>().await),
            (EscapedProcesses::NAME, self.unread_of::<EscapedProcesses>().await),
            (SentOnce::NAME, self.unread_of::<SentOnce>().await),
            (SecretDigests::NAME, self.unread_of::<SecretDigests>().await),
            (Option::<TakeOver>::NAME, self.unread_of::<Option<TakeOver>>().await),
        ]
    }

    /// Checks that a run can use the team's documents and the inboxes of its members. No file may
    /// be damaged or have a later format version. Single unreadable entries are allowed. This
    /// function changes nothing.
    ///
    /// # Errors
    /// `internal_error` for the first file that is damaged or has a later format version.
    pub async fn check_records(&self) -> Result<(), ApiError> {
        for (document, unread) in self.unread_entries().await {
            // A run needs neither the list of processes that commands left running nor the keys of
            // programs that sent messages.
            if document != EscapedProcesses::NAME && document != SentOnce::NAME {
                unread?;
            }
        }
        // A run reads and changes every inbox, so a damaged inbox would stop the run later.
        for member in &self.config().await?.members {
            self.unread(&member.name).await?;
        }
        Ok(())
    }

    /// Removes the unreadable parts of a document.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn drop_unread_entries(&self, document: &str) -> Result<(), ApiError> {
        self.drop_unread_of::<StartedMembers>(document).await?;
        self.drop_unread_of::<RequestLog>(document).await?;
        self.drop_unread_of::<PaneHosts>(document).await?;
        self.drop_unread_of::<RunBounds>(document).await?;
        self.drop_unread_of::<FirstGoal>(document).await?;
        self.drop_unread_of::<ClientConversations>(document).await?;
        self.drop_unread_of::<Ended>(document).await?;
        self.drop_unread_of::<Keys>(document).await?;
        self.drop_unread_of::<SentOnce>(document).await?;
        self.drop_unread_of::<SecretDigests>(document).await?;
        self.drop_unread_of::<EscapedProcesses>(document).await
    }

    async fn unread_of<D: Document>(&self) -> Result<Vec<UnreadEntry>, ApiError> {
        let entry = |entry: String| UnreadEntry { document: D::NAME, entry };
        Ok(self.reading::<D>().await?.places.into_iter().map(entry).collect())
    }

    async fn drop_unread_of<D: Document>(&self, document: &str) -> Result<(), ApiError> {
        if document != D::NAME {
            return Ok(());
        }
        self.change_document(D::NAME, |stored, _| {
            let reading = Reading::<D>::of(stored.as_ref())?;
            if !reading.places.is_empty() {
                let mut readable = reading.readable;
                if let Value::Object(fields) = &mut readable {
                    fields.insert(VERSION_KEY.to_owned(), FORMAT_VERSION.into());
                }
                *stored = Some(readable);
            }
            Ok(())
        })
        .await
    }
}
