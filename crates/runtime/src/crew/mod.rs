//! The loop of one team: who lives, who is told what, and when all is over.
//!
//! [`wake`] lists everything that can wake the loop, [`course`] decides the course of the run, purely; the loop in
//! [`team_loop`] carries that out. Agents report and are told things over channels; nobody shares state with them. What an
//! agent does with its turn is `agent`'s and `driver`'s, what a team may do is the room `team`'s. What an agent in a process
//! of its own needs too is lent to `solo`.

mod another_team;
mod answers;
mod body;
mod client_calls;
mod client_start;
mod client_turns;
mod course;
mod departed;
mod desk;
mod elsewhere;
mod ends;
mod errands;
mod goes_on;
mod hire;
mod in_process;
mod ledger;
mod left;
mod mode;
mod open_work;
mod quarters;
mod questions;
mod remote;
mod screen;
mod spawn;
mod start;
mod take_lead;
mod take_over;
mod team_loop;
mod visits;
mod wake;

pub(crate) use answers::{Pending, PersonSaid};
pub(crate) use errands::{Errand, ErrandAnswer, Errands, Sending, outcome};
pub(crate) use hire::{Hire, Hired};
pub(crate) use in_process::InProcess;
pub(crate) use ledger::Ledger;
pub(crate) use mode::{mode_named, says_mode};
pub(crate) use quarters::Quarters;
pub(crate) use start::{EVENTS_WAITING, start, store_error};
pub(crate) use take_lead::holder_of_ours;
pub(crate) use wake::{Desk, REPORTS_WAITING, Request, Wish};
