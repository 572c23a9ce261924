//! pitcrew together with the reference client itself, without network access and with a scripted
//! model behind it (`interop/`).
//!
//! Each test checks the files, the screens and the requests to the models. The tests need node,
//! npm, python3, tmux, ip and namespaces. Without these they print a message and skip, but in CI
//! they fail.

mod bounded;
mod client_writes;
mod joined;
mod led;
mod planned;
mod resumed;
mod script;
mod sockets;
mod stage;
mod today;
