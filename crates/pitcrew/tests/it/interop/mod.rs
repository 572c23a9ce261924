//! pitcrew beside the reference client itself: sealed from the network, with a scripted model behind it (`interop/`).
//!
//! Each test asserts on the files, on the screens and on what the models were asked. They need node, npm, python3, tmux, ip
//! and namespaces; without these they say so and pass over, but in CI they fail.

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
