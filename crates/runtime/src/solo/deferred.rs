//! A model that is opened only at its first call. Until then, a waiting member needs no connections
//! and no certificates.

use std::sync::{Arc, OnceLock};

use futures_util::StreamExt as _;
use futures_util::stream;
use pitcrew_model::{Model, Request, ResponseStream};

use crate::run::OpenModel;

/// The name of a model, and the model itself after it was opened.
pub(super) struct Deferred {
    name: String,
    open: OpenModel,
    model: OnceLock<Arc<dyn Model>>,
}

impl Deferred {
    pub(super) fn new(name: String, open: OpenModel) -> Self {
        Self { name, open, model: OnceLock::new() }
    }
}

impl Model for Deferred {
    fn id(&self) -> &str {
        self.model.get().map_or(&self.name, |model| model.id())
    }

    fn context_window(&self) -> Option<u64> {
        self.model.get().and_then(|model| model.context_window())
    }

    fn respond(&self, request: Request) -> ResponseStream {
        if let Some(model) = self.model.get() {
            return model.respond(request);
        }
        match (self.open)(&self.name) {
            // An agent makes one call at a time, so no other call can have opened the model in the
            // meantime.
            Ok(model) => self.model.get_or_init(|| model).respond(request),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }
}
