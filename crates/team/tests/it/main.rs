//! What a team does, on the memory backend: each test a sentence of the rules.

mod claims;
mod crew;
mod handshakes;
mod mail;
mod members;
mod send;
mod tasks;
mod teams;
