//! Tests of the API, over real connections.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod access;
#[cfg(test)]
mod archived;
#[cfg(test)]
mod bad_callers;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod client;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod log;
mod messages;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod server_env;
#[cfg(test)]
mod teams;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod view;
