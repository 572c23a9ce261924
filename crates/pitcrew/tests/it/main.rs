//! Tests of the binary as users see it: the commands that users type, the output, and the files on
//! disk afterwards.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![cfg(test)]

mod advice;
mod agent;
mod agent_screen;
mod another_team;
mod asked_team;
mod attacks;
mod bad_input;
mod bounds;
mod crashes;
mod damage;
mod demo;
mod dependencies;
mod doctor;
mod drift;
mod earlier_binary;
mod ends;
mod failure_reasons;
mod for_the_lead;
mod founding;
mod git_folders;
mod help;
mod hostile_files;
mod hostile_repository;
mod interop;
mod kitty;
mod lead;
mod limits;
mod linked_folders;
mod lock_oracle;
mod lost_tasks;
mod member_names;
mod members;
mod messages;
mod model_fault_table;
mod model_faults;
mod models_over_http;
mod modes;
mod moved;
mod not_started;
mod odd_places;
mod other_mode;
mod outlived;
mod overwritten;
mod own_files;
mod panes;
mod past;
#[cfg(test)]
mod patience;
mod plans;
mod prices;
mod processes;
mod recorded_forms;
mod recordings;
mod rooms;
mod run;
mod running;
mod service;
mod session;
mod shown_commands;
mod strays;
mod stream_schema;
mod supervision;
mod tasks;
mod teams;
mod terminal;
mod terminal_gone;
mod test_env;
mod tmux_runs;
mod unknown_settings;
mod which_team;
