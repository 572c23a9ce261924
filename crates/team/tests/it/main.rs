//! The operations of a team, mostly with the memory backend. Each test states one rule.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

#[cfg(test)]
mod another;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod conversations;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod handshakes;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod mail;
#[cfg(test)]
mod members;
#[cfg(test)]
mod mortal;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod send;
#[cfg(test)]
mod started;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod team_env;
#[cfg(test)]
mod teams;
#[cfg(test)]
mod views;
#[cfg(test)]
mod whole;
