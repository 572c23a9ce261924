//! Ends the open event streams of a device that was removed.

use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream;

use crate::devices::{Changes, Device, Devices};

/// Returns the answer for a device. If it is a stream, the stream ends when the device is removed.
pub(crate) fn until_removed(response: Response, devices: Devices, device: Device) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    if kind != Some(b"text/event-stream") {
        return response;
    }
    let changes = devices.changes();
    response.map(|body| {
        let open = Open { data: body.into_data_stream(), changes, devices, device };
        Body::from_stream(stream::unfold(open, |mut open| async move {
            let data = open.next().await?;
            Some((data, open))
        }))
    })
}

/// The open stream of a device.
struct Open {
    data: BodyDataStream,
    changes: Changes,
    devices: Devices,
    device: Device,
}

impl Open {
    /// Waits for the next part of the stream. Returns `None` at its end.
    async fn next(&mut self) -> Option<<BodyDataStream as futures_util::Stream>::Item> {
        loop {
            tokio::select! {
                // A busy stream must not keep the check from its turn.
                biased;
                () = self.changes.next() => match self.devices.has(&self.device).await {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => {
                        tracing::warn!(%error, "the stream of a device ends");
                        return None;
                    }
                },
                data = self.data.next() => return data,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::Bytes;
    use pitcrew_team::SystemClock;
    use pitcrew_team::store::{Durability, FileBackend, FileOptions};

    use super::*;
    use crate::devices::Scope;

    #[tokio::test]
    async fn an_idle_stream_ends_when_its_device_is_removed_and_others_go_on() {
        let root = tempfile::tempdir().unwrap();
        let files = FileBackend::open(root.path(), FileOptions::new(Durability::Process));
        let devices = Devices::new(files, Arc::new(SystemClock));
        let mut streams = Vec::new();
        for name in ["phone", "tablet"] {
            let invitation = devices.invite(Some(name.to_owned()), Scope::Watch).await.unwrap();
            let paired = devices.pair(&invitation.code).await.unwrap().unwrap();
            let device = devices.find(&paired.token).await.unwrap().unwrap();
            let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"data: 1\n\n"))]);
            let body = Body::from_stream(first.chain(stream::pending()));
            let response =
                Response::builder().header(CONTENT_TYPE, "text/event-stream").body(body).unwrap();
            let open = until_removed(response, devices.clone(), device);
            streams.push(open.into_body().into_data_stream());
        }
        let [phone, tablet] = streams.as_mut_slice() else { unreachable!() };
        for stream in [&mut *phone, &mut *tablet] {
            assert_eq!(stream.next().await.unwrap().unwrap(), "data: 1\n\n");
        }
        // The change is noticed long before the next look that comes without a notice.
        let removed = tokio::time::timeout(Duration::from_secs(10), async {
            devices.remove("phone").await.unwrap();
            phone.next().await
        });
        assert!(removed.await.unwrap().is_none());
        let more = tokio::time::timeout(Duration::from_secs(1), tablet.next()).await;
        assert!(more.is_err(), "the stream of another device ended");
    }
}
