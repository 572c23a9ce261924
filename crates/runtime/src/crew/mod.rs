//! The loop of one team: who lives, who is told what, and when all is over.
//!
//! [`wake`] lists everything that can wake the loop, [`course`] decides the course of the run, purely; the loop in
//! [`team_loop`] carries that out. Agents report and are told things over channels; nobody shares state with them. What an
//! agent does with its turn is `agent`'s and `driver`'s, what a team may do is the room `team`'s.

mod answers;
mod course;
mod desk;
mod ends;
mod hire;
mod in_process;
mod ledger;
mod quarters;
mod spawn;
mod start;
mod team_loop;
mod wake;

pub(crate) use start::start;
