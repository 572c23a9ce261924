//! The documents that pitcrew stores for a team. Reading skips unknown content, and writing
//! preserves it (module `reading`).
//!
//! A document is an object with a format version and usually one collection of entries. An entry
//! that cannot be read is skipped and stays in the file. An unknown field also stays. pitcrew
//! refuses a document whose format version is later than its own.

use pitcrew_protocol::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::take_over::TakeOver;
use crate::{Team, refusal};

mod reading;
mod unread;

#[cfg(test)]
mod tests;

use reading::{Reading, must_be_of_our_version};

pub use unread::UnreadEntry;

/// One of pitcrew's own documents.
pub(crate) trait Document:
    Default + PartialEq + Clone + Serialize + DeserializeOwned + Send + 'static
{
    /// The name of the document.
    const NAME: &'static str;

    /// Converts a document that an earlier version of pitcrew wrote without a format version into
    /// the current format.
    #[must_use]
    fn from_earlier(document: Value) -> Value {
        document
    }
}

impl Document for Option<TakeOver> {
    const NAME: &'static str = "take-over";
}

/// Returns a document for a new team, with its name.
pub(crate) fn new_document<D: Document>(document: &D) -> Result<(&'static str, Value), ApiError> {
    let reading = Reading::<D>::of(None)?;
    let broken =
        |error| refusal::internal(format!("our document '{}' cannot be written: {error}", D::NAME));
    Ok((D::NAME, reading.written(document).map_err(broken)?))
}

/// Parses a document that was read from the file at `path`. A missing document counts as
/// `D::default()`.
pub(crate) fn parsed<D: Document>(stored: Option<&Value>, path: &str) -> Result<D, ApiError> {
    must_be_of_our_version(stored, path)?;
    Ok(Reading::at(stored, path)?.document)
}

impl Team {
    /// Reads one of pitcrew's documents. A missing document counts as `D::default()`.
    ///
    /// # Errors
    /// `internal_error` for a document of a later format version, or for a document that cannot be
    /// read at all.
    pub(crate) async fn read_document<D: Document>(&self) -> Result<D, ApiError> {
        Ok(self.reading::<D>().await?.document)
    }

    async fn reading<D: Document>(&self) -> Result<Reading<D>, ApiError> {
        let stored = self.ask(self.backend().document(self.dir(), D::NAME)).await?;
        let path = self.document_file(D::NAME).display().to_string();
        must_be_of_our_version(stored.as_ref(), &path)?;
        Reading::at(stored.as_ref(), &path)
    }

    /// Reads and changes one of pitcrew's documents. A missing document counts as `D::default()`.
    ///
    /// # Errors
    /// The errors of `edit`. Also `internal_error` for a document of a later format version, or for
    /// a document that cannot be read at all.
    pub(crate) async fn edit_document<D: Document, T: Send + 'static>(
        &self,
        mut edit: impl FnMut(&mut D) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.change_document(D::NAME, move |stored, path| {
            let reading = Reading::<D>::at(stored.as_ref(), path)?;
            let mut after = reading.document.clone();
            let answer = edit(&mut after)?;
            if after != reading.document {
                let broken = |error| {
                    refusal::internal(format!(
                        "our document '{}' cannot be written: {error}",
                        D::NAME
                    ))
                };
                *stored = Some(reading.written(&after).map_err(broken)?);
            }
            Ok(answer)
        })
        .await
    }

    /// Changes the stored value of a document. Refuses a document of a later format version.
    async fn change_document<T: Send + 'static>(
        &self,
        name: &'static str,
        mut change: impl FnMut(&mut Option<Value>, &str) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let path = self.document_file(name).display().to_string();
        let (inside, outside) = crate::edit::Answer::pair();
        let edit = Box::new(move |stored: &mut Option<Value>| {
            must_be_of_our_version(stored.as_ref(), &path)?;
            inside.put(change(stored, &path)?);
            Ok(())
        });
        self.ask(self.backend().edit_document(self.dir(), name, edit)).await?;
        outside.take()
    }
}
