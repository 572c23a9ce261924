//! A permission that somebody is asked for, as every face shows it. Nothing here knows a terminal.
//!
//! [`PermissionQuestion`] is the model: who asks, the call whole, the answers on offer, and a digest of all that is shown.
//! `body` makes readable lines of a call, `diff` those of a change of a file, `visible` writes out what could not be seen,
//! and [`lay_out`] fits lines into a width and a height without losing any. Who is asked, and what becomes of the answer,
//! is the crew's. [`TrustQuestion`] is the question whether a project is trusted, in the same lines.

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
