//! Edits of the tasks and the config that return a value. The store holds a lock while it applies
//! an edit.

use std::sync::{Arc, Mutex, PoisonError};

use pitcrew_protocol::{ApiError, TeamConfig};
use pitcrew_store::TaskTable;

use crate::{Team, refusal};

/// The result of an edit. The store may call an edit several times, and only the result of the last
/// call counts.
pub(crate) struct Answer<T>(Arc<Mutex<Option<T>>>);

impl<T> Answer<T> {
    pub(crate) fn pair() -> (Self, Self) {
        let cell = Arc::new(Mutex::new(None));
        (Self(Arc::clone(&cell)), Self(cell))
    }

    pub(crate) fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(crate) fn take(&self) -> Result<T, ApiError> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| refusal::internal("the store did not apply an edit"))
    }
}

impl Team {
    /// Changes the tasks with `edit`. Either all changes are stored, or none.
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

    /// Changes the config with `edit`. If another process changes the config meanwhile, the store
    /// calls `edit` again with the newer config.
    pub(crate) async fn edit_config(
        &self,
        edit: impl Fn(&mut TeamConfig) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Result<TeamConfig, ApiError> {
        self.ask(self.backend().edit_team(self.dir(), Arc::new(edit))).await
    }
}
