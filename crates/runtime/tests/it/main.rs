//! What the runtime promises, tried with real processes, files and repositories.

#![cfg(test)]

mod crew_asked;
mod crew_compaction;
mod crew_confined;
mod crew_crashes;
mod crew_disk;
mod crew_elsewhere;
mod crew_forged;
mod crew_plan_mode;
mod crew_runs;
mod crew_sandboxed;
mod crew_setting;
mod crew_stopped;
mod crew_tags;
mod crew_take_over;
mod crew_told;
mod crew_troubles;
mod gate_common;
mod gate_guarded;
mod gate_holes;
mod gate_modes;
mod gate_profiles;
mod gate_rules;
mod git;
mod hooks;
mod identity;
mod panes_layout;
mod panes_process;
mod panes_setting;
mod panes_tmux;
mod patience;
mod sandbox_attacks;
mod sandbox_free;
mod sandbox_read;
mod sandbox_terminal;
mod sandbox_work;
mod solo_joins;
mod solo_runs;
mod solo_setting;
mod solo_signed;
mod tools_bash;
mod tools_files;
mod tools_search;
mod tools_setting;
mod worktree;
