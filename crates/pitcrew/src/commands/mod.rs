//! The commands of pitcrew, one file each.

pub(crate) mod agent;
pub(crate) mod broadcast;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod join;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod member;
pub(crate) mod message;
pub(crate) mod models;
pub(crate) mod pane;
pub(crate) mod pane_exec;
pub(crate) mod pane_probe;
pub(crate) mod plan;
pub(crate) mod prune;
pub(crate) mod run;
pub(crate) mod sandbox_exec;
pub(crate) mod send;
pub(crate) mod shutdown;
pub(crate) mod task;
pub(crate) mod team;
pub(crate) mod transcript;
pub(crate) mod trust;
