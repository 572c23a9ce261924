//! Edits that answer: what the store applies under its lock, with a value brought out of it.

use std::sync::{Arc, Mutex, PoisonError};

use pitcrew_protocol::{ApiError, TeamConfig};
use pitcrew_store::TaskTable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Team, refusal};

/// What the last run of an edit answered; an edit may run more than once, and only its last run counts.
struct Answer<T>(Arc<Mutex<Option<T>>>);

impl<T> Answer<T> {
    fn pair() -> (Self, Self) {
        let cell = Arc::new(Mutex::new(None));
        (Self(Arc::clone(&cell)), Self(cell))
    }

    fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> Result<T, ApiError> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| refusal::internal("the store did not apply an edit"))
    }
}

impl Team {
    /// Changes the tasks by `edit`, all of it or nothing.
    pub(crate) async fn edit_tasks<T: Send + 'static>(
        &self,
        mut edit: impl FnMut(&mut TaskTable) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (inside, outside) = Answer::pair();
        let edit = Box::new(move |table: &mut TaskTable| {
            inside.put(edit(table)?);
            Ok(())
        });
        self.ask(self.backend().edit_tasks(self.dir(), edit)).await?;
        outside.take()
    }

    /// Changes the config by `edit`, which may be applied again to a newer one.
    pub(crate) async fn edit_config(
        &self,
        edit: impl Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Result<TeamConfig, ApiError> {
        self.ask(self.backend().edit_team(self.dir(), Arc::new(edit))).await
    }

    /// Reads and changes one of our documents; one that is not there yet is `D`'s default.
    pub(crate) async fn edit_document<D, T>(
        &self,
        name: &'static str,
        mut edit: impl FnMut(&mut D) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        D: Default + PartialEq + Clone + Serialize + DeserializeOwned,
        T: Send + 'static,
    {
        let (inside, outside) = Answer::pair();
        let edit = Box::new(move |stored: &mut Option<Value>| {
            let broken =
                |e: serde_json::Error| refusal::internal(format!("our document '{name}' is not readable: {e}"));
            let before: D = match stored {
                Some(value) => serde_json::from_value(value.clone()).map_err(broken)?,
                None => D::default(),
            };
            let mut after = before.clone();
            inside.put(edit(&mut after)?);
            if after != before {
                *stored = Some(serde_json::to_value(&after).map_err(broken)?);
            }
            Ok(())
        });
        self.ask(self.backend().edit_document(self.dir(), name, edit)).await?;
        outside.take()
    }
}
