//! OpenTelemetry traces and metrics of a run, sent over OTLP to the collector that the user names.
//!
//! - [`Config`] reads the standard variables (`OTEL_...`). Without an endpoint nothing is sent.
//! - `run_fold` makes spans and measurements from the events of a host and from the team's journal.
//!   It is pure: ids and times come from its input.
//! - `message_fold` is its part for messages, `span` has the spans that are not finished.
//! - `conventions` has the names of attributes, `model_name` the providers.
//! - `content` masks texts, if the user wants texts to be sent.
//! - `metrics` adds measurements up, and `exporter` sends both signals.
//! - `team_feed` reads the team's journal and tasks.
//! - [`Telemetry`] connects these modules in a task of its own. The run never waits for the task.
//!
//! This crate never prints. The crates of OpenTelemetry read `OTEL_EXPORTER_OTLP_HEADERS`, which
//! `list` checks, `..._COMPRESSION` and `..._METRICS_TEMPORALITY_PREFERENCE` from the environment of
//! the process.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod config;
mod content;
mod conventions;
mod exporter;
mod list;
mod message_fold;
mod metrics;
mod model_name;
mod pipeline;
mod run_fold;
mod span;
mod team_feed;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError};
pub use exporter::ExporterError;
pub use pipeline::{Report, Telemetry};
