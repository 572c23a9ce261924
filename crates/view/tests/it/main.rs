//! Tests what a user interface shows after a script (a list of run events).

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod agent_now;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod client_mail;
#[cfg(test)]
mod client_stream;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod fold;
#[cfg(test)]
mod from_files;
#[cfg(test)]
mod host;
#[cfg(test)]
mod host_env;
#[cfg(test)]
mod notifications;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod remark;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod script;
#[cfg(test)]
mod slow_disk;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod stream_conversations;
#[cfg(test)]
mod stream_ends;
#[cfg(test)]
mod team_log;
