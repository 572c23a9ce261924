//! The HTTP API of all teams below one root, running, stopped and archived, and the page that a
//! browser shows of them.
//!
//! The API is REST over the operations of `team`, over the requests of the control protocol, and
//! over the records that `view` reads. An event stream sends what the host of a team sends to its
//! followers. Nothing of the host, of the control protocol or of a fold is written here again.
//!
//! - [`Server`] binds its address, takes the connections and ends them.
//! - `reach` and `site` are the addresses of the server, `tls` its certificate.
//! - `connection_limits` limits connections, `read_rates` reads, `device_streams` event streams.
//! - `access` decides who may call, `devices` what a paired device may do.
//! - `routes` has one file for each group of operations.
//! - `openapi` describes the operations as an OpenAPI document.
//! - `metrics` counts requests and reads the numbers of teams, for Prometheus.
//! - `assets` has the files of the page.
//! - [`replay_document()`] makes one HTML document of a replay, which needs no server.
//! - `viewing` shows one replay or stream, on a server that was started for it.
//!
//! This crate never reads arguments, the environment or the home folder, and never prints. The
//! caller passes the teams, the token and the address.

mod access;
mod app;
mod assets;
mod body;
mod caller;
mod connection_limits;
mod connections;
mod device_streams;
mod devices;
mod error_page;
mod etag;
mod failure;
mod logs;
mod metrics;
mod one_module;
mod openapi;
mod paging;
mod pairing;
mod reach;
mod read_rates;
mod recent;
mod records;
mod remembered;
mod replay_document;
mod revoked;
mod routes;
mod server;
mod sessions;
mod site;
mod tls;
mod token;
mod viewing;
mod write_timeout;

pub use app::NewTeams;
pub use devices::{Device, DeviceError, Devices, Invitation, Scope, WaitingCode};
pub use one_module::ModuleError;
pub use reach::{HostName, HostNameError, PublicUrl, PublicUrlError, Reach};
pub use replay_document::replay_document;
pub use server::{Options, ServeError, Server};
pub use site::reached_at;
pub use tls::{Certificate, CertificateError};
pub use token::{Token, TokenError};
pub use viewing::{Piece, Viewed};
