//! Tests of pitcrew together with the real reference client. The programs have no network access,
//! and a scripted model answers them (`interop/`).
//!
//! Each test checks the files, the screens and the requests to the models. The tests need node,
//! npm, python3, tmux, ip and namespaces. If one of these is missing, a test prints a message and
//! is skipped. In CI, the test fails instead.

mod bounded;
mod client_writes;
mod hooks;
mod joined;
mod led;
mod planned;
mod resumed;
mod script;
mod sockets;
mod stage;
mod today;
