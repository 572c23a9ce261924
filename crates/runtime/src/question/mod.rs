//! Permission requests to a person, in a form that every user interface can show. This module does
//! not depend on a terminal.
//!
//! [`PermissionQuestion`] contains the asking agent, the whole call, the possible answers, and a
//! digest of all that is shown. `content` creates the readable lines of a call, and `diff` creates
//! the lines of a file change. `visible` writes out invisible characters. [`lay_out`] fits lines
//! into a width and a height without losing any line. The team's run decides who is asked, and
//! applies the answer.
//!
//! [`TrustQuestion`] asks whether a project is trusted, with the same kind of lines.

mod content;
mod diff;
mod layout;
mod model;
mod trust;
mod visible;

pub use content::{Kind, Line};
pub use layout::{Place, Row, Section, Shown, Size, lay_out, wrap};
pub use model::{AskedCall, AskedFile, Choice, Keep, Offer, PermissionQuestion};
pub use pitcrew_agent::Digest;
pub use trust::{TrustQuestion, TrustedBefore};
pub use visible::visible;
