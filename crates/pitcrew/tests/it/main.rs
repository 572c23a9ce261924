//! The binary as its users meet it: what they type, what they see, what is on disk afterwards.

#![cfg(test)]

mod agent;
mod attacks;
mod bad_input;
mod crashes;
mod damage;
mod demo;
mod desk;
mod doctor;
mod drift;
mod failure_reasons;
mod help;
mod hostile_files;
mod hostile_repository;
mod interop;
mod kitty;
mod lead;
mod limits;
mod linked_folders;
mod lock_oracle;
mod members;
mod messages;
mod model_faults;
mod models_over_http;
mod moved;
mod not_started;
mod odd_places;
mod overwritten;
mod own_files;
mod panes;
mod patience;
mod prices;
mod processes;
mod recordings;
mod room;
mod run;
mod running;
mod service;
mod session;
mod strays;
mod supervision;
mod tasks;
mod teams;
mod terminal;
mod tmux_runs;
