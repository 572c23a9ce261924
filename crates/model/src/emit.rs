//! Builds a stream from a future that emits events while it runs.
//!
//! Polling the stream polls the future. No task is spawned, so dropping the stream also drops the
//! future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;

use crate::{ModelError, ResponseStream, StreamEvent};

/// Number of events that can wait in the channel between a future and the reader of its stream. If
/// the channel is full, the future waits. A small number is enough, because one read from the
/// network produces only a few events.
const CAPACITY: usize = 16;

/// The sending side of a stream. The future behind the stream emits its events through this type.
pub(crate) struct Emitter {
    events: mpsc::Sender<StreamEvent>,
}

impl Emitter {
    /// Sends an event to the reader, and waits while the channel is full.
    pub(crate) async fn emit(&self, event: StreamEvent) {
        // Sending cannot fail, because the stream drops the receiver only after the future that
        // emits the events.
        let sent = self.events.send(event).await;
        debug_assert!(sent.is_ok(), "the receiver outlives the future");
    }
}

/// Turns a future that emits events into a stream. If the future fails, its error is the last item
/// of the stream.
pub(crate) fn stream<F, Fut>(run: F) -> ResponseStream
where
    F: FnOnce(Emitter) -> Fut,
    Fut: Future<Output = Result<(), ModelError>> + Send + 'static,
{
    let (sender, events) = mpsc::channel(CAPACITY);
    let future = run(Emitter { events: sender });
    Box::pin(Driven { future: Some(Box::pin(future)), events, failure: None })
}

type Call = Pin<Box<dyn Future<Output = Result<(), ModelError>> + Send>>;

struct Driven {
    future: Option<Call>,
    events: mpsc::Receiver<StreamEvent>,
    failure: Option<ModelError>,
}

impl Stream for Driven {
    type Item = Result<StreamEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(Ok(event)));
        }
        if let Some(future) = self.future.as_mut()
            && let Poll::Ready(outcome) = future.as_mut().poll(cx)
        {
            self.future = None;
            // Keep the error until all events in the channel have been read, because it must be the
            // last item.
            self.failure = outcome.err();
        }
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
            Poll::Ready(None) => Poll::Ready(self.failure.take().map(Err)),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn events_come_in_order_and_the_error_comes_last() {
        let events = stream(|out| async move {
            for i in 0..100 {
                out.emit(StreamEvent::TextDelta(i.to_string())).await;
            }
            Err(ModelError::StreamCut { vendor: "test" })
        });
        let items: Vec<_> = events.collect().await;
        assert_eq!(items.len(), 101);
        for (i, item) in items.iter().take(100).enumerate() {
            let event = item.as_ref().unwrap();
            assert_eq!(event, &StreamEvent::TextDelta(i.to_string()));
        }
        assert!(matches!(items.last(), Some(Err(ModelError::StreamCut { .. }))));
    }
}
