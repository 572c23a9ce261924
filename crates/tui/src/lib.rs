//! The terminal interface: the conversation with the lead of a team, the team beside it, and the
//! permission requests that wait for the person at the terminal.
//!
//! The application is pure, and the shell around it is thin. [`App`] has all state: it handles an
//! [`Input`], returns [`Action`]s, and draws itself. [`run()`] is the event loop around it.
//!
//! - [`app`] is the application, `commands` and `composer` are what the user types.
//! - `run` is the event loop, `actions` and `team_log` carry out what reaches the team, `terminal` is
//!   the screen, and `keyboard` reads keys.
//! - [`render`] draws texts, [`question`] a permission request, [`panels`] the lists beside the
//!   conversation, [`review`] the changes of the team, and [`theme`] has the styles.
//! - [`viewer`] displays a recorded run or a stream without taking part, and `viewing` is its event
//!   loop.
//! - [`choose`](mod@choose) lets the user choose an item of a list, without the application.
//!
//! This crate reads no arguments, no environment and no home folder, and starts no process. Its
//! caller passes what it needs in [`FaceOptions`].

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod actions;
pub mod app;
pub mod choose;
mod commands;
mod composer;
mod keyboard;
pub mod panels;
pub mod question;
pub mod render;
pub mod review;
mod run;
mod team_log;
mod terminal;
pub mod theme;
pub mod viewer;
mod viewing;

pub use app::{
    Action, App, Begin, CanStart, CompletedTeam, Done, ExportOf, ExportOrder, Input, Left, Onward,
    Request, TeamItem,
};
pub use keyboard::Keys;
pub use run::{Export, FaceError, FaceOptions, ListFiles, ListTeams, SignalOf, StartTeam, run};
pub use terminal::Mouse;
pub use theme::ThemeKind;
pub use viewing::{Closed, ReadConversation, ViewOptions, Viewed, view};
