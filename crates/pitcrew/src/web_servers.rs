//! The servers (`pitcrew serve`) that run below the root. Each records how it is reached, so that
//! `pitcrew devices add` can print its link.

use pitcrew_team::store::{FileBackend, StoreError, WebServerRecord};
use serde::{Deserialize, Serialize};

use crate::output;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningServer {
    /// The origin of the page, such as `https://team.example.org:7420`.
    pub(crate) url: String,
    /// Whether other machines can reach it.
    pub(crate) is_public: bool,
    /// The fingerprint of a certificate that browsers do not trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
}

/// Records a server until the result is dropped.
pub(crate) async fn recorded(
    files: &FileBackend,
    server: &RunningServer,
) -> Option<WebServerRecord> {
    let content = serde_json::to_vec(server).ok()?;
    match files.record_web_server(content).await {
        Ok(record) => Some(record),
        Err(error) => {
            let said = pitcrew_protocol::chain(&error);
            output::remark(&format!(
                "warning: `pitcrew devices add` does not find this server: {said}"
            ));
            None
        }
    }
}

/// Returns the server that devices should call: one that other machines can reach, else any.
///
/// # Errors
/// If the records cannot be read.
pub(crate) async fn running(files: &FileBackend) -> Result<Option<RunningServer>, StoreError> {
    let records = files.web_servers().await?;
    let read = |content: &Vec<u8>| serde_json::from_slice::<RunningServer>(content).ok();
    let mut servers: Vec<RunningServer> = records.iter().filter_map(read).collect();
    servers.sort_by_key(|server| !server.is_public);
    Ok(servers.into_iter().next())
}
