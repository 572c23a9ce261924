//! Builds the command line and the environment of a process in a pane.
//!
//! The reference client's command line is described in the wire format, section "Pane spawn".

use std::sync::Arc;

use pitcrew_model::{Endpoints, ModelSpec};
use pitcrew_permission::settings::Settings;
use pitcrew_protocol::{PermissionMode, Program};
use pitcrew_runtime::hosting::{Conversation, Launch, LaunchSpec, Launcher};

use super::in_settings::client_of;
use crate::context::Context;
use crate::reference_client;

/// Prefixes of the environment variables that a pane process needs: for model providers, for logs,
/// and for the reference client.
const PASSED_ON: [&str; 8] = [
    "ANTHROPIC_",
    "AWS_",
    "CLAUDE_CODE_",
    "GOOGLE_",
    "NODE_EXTRA_CA_CERTS",
    "OPENAI_",
    "PITCREW_LOG",
    "RUST_LOG",
];

/// The environment variables that configure proxies. Their names are recognized in upper and lower
/// case.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

pub(super) fn launcher(context: &Context, settings: &Settings) -> Launcher {
    let exe = context.exe.display().to_string();
    let root = context.root.display().to_string();
    let claude = client_of(settings).to_owned();
    let denied = reference_client::deny_rules(&settings.permissions());
    let passed_on = passed_on(context, settings);
    Arc::new(move |launch_spec: &LaunchSpec| {
        let mut env = passed_on.clone();
        env.push(("CLAUDE_CONFIG_DIR".to_owned(), root.clone()));
        // pitcrew's specification (the founding guide, see `docs/conformance.md`) requires these
        // variables for every teammate's process.
        env.push(("CLAUDECODE".to_owned(), "1".to_owned()));
        env.push(("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS".to_owned(), "1".to_owned()));
        let argv = match launch_spec.program {
            Program::Pitcrew => {
                let ours =
                    [exe.clone(), "agent".to_owned()].into_iter().chain(recorded(launch_spec));
                ours.chain(more(launch_spec)).collect()
            }
            Program::Claude => {
                let rights = reference_client::rights(&denied);
                std::iter::once(claude.clone()).chain(recorded(launch_spec)).chain(rights).collect()
            }
        };
        Launch { argv, env }
    })
}

/// Returns the variables that a process in a pane needs but does not inherit from its terminal.
/// Most of them are for model providers.
fn passed_on(context: &Context, settings: &Settings) -> Vec<(String, String)> {
    let env = settings.env();
    let is_passed_on = |name: &str| {
        PASSED_ON.iter().any(|prefix| name.starts_with(prefix))
            || PROXIES.contains(&name.to_uppercase().as_str())
    };
    let own = context.environment.iter().filter(|(name, _)| is_passed_on(name));
    let mut passed: Vec<(String, String)> =
        own.map(|(name, value)| (name.clone(), value.clone())).collect();
    // `Endpoints` knows which variables the model providers need. To find these variables, this
    // code records every name that `Endpoints` looks up. `env` in the settings has precedence over
    // the environment.
    let looked_up = std::cell::RefCell::new(Vec::new());
    let _endpoints = Endpoints::from_lookup(|name| {
        let value = env.get(name).or_else(|| context.environment.get(name)).cloned();
        looked_up.borrow_mut().extend(value.clone().map(|value| (name.to_owned(), value)));
        value
    });
    for (name, value) in looked_up.into_inner() {
        passed.retain(|(known, _)| *known != name);
        passed.push((name, value));
    }
    passed.retain(|(name, _)| {
        !matches!(name.as_str(), "CLAUDE_CODE_ENTRYPOINT" | "CLAUDE_CODE_SSE_PORT")
    });
    passed
}

/// Returns the flags of the reference client's command line, in the same order as in the command
/// lines that were recorded from the client.
fn recorded(launch_spec: &LaunchSpec) -> Vec<String> {
    let mut flags = Vec::new();
    let mut say = |flag: &str, value: &str| flags.extend([flag.to_owned(), value.to_owned()]);
    say("--agent-id", &launch_spec.agent_id);
    say("--agent-name", launch_spec.name.as_str());
    say("--team-name", launch_spec.team.as_str());
    if let Some(color) = &launch_spec.color {
        say("--agent-color", color);
    }
    say("--parent-session-id", &launch_spec.session_id);
    if launch_spec.plan_mode_required {
        flags.push("--plan-mode-required".to_owned());
    }
    let mut say = |flag: &str, value: &str| flags.extend([flag.to_owned(), value.to_owned()]);
    if let Some(agent_type) = &launch_spec.agent_type {
        say("--agent-type", agent_type);
    }
    let has_mode = match (launch_spec.program, launch_spec.mode) {
        // The reference client always gets the flag `--permission-mode`. Without the flag, later
        // versions of the client start in a mode that runs commands without asking.
        (Program::Claude, _) => true,
        (Program::Pitcrew, PermissionMode::Default | PermissionMode::Plan) => false,
        (
            Program::Pitcrew,
            PermissionMode::AcceptEdits
            | PermissionMode::Delegate
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions,
        ) => true,
    };
    if has_mode {
        say("--permission-mode", launch_spec.mode.as_str());
    }
    if let Some(model) = &launch_spec.model {
        say("--model", &model_for(launch_spec.program, model));
    }
    match &launch_spec.conversation {
        Some(Conversation::New(id)) => say("--session-id", id),
        Some(Conversation::Former(id)) => say("--resume", id),
        None => {}
    }
    flags
}

/// Returns the additional flags that only a pitcrew teammate gets.
fn more(launch_spec: &LaunchSpec) -> Vec<String> {
    let key =
        launch_spec.verify_key.as_ref().map(|key| ["--lead-verify-key".to_owned(), key.clone()]);
    let lead = launch_spec.lead_process.map(|lead| ["--lead-process".to_owned(), lead.to_words()]);
    let turns = launch_spec.max_turns.map(|turns| ["--max-turns".to_owned(), turns.to_string()]);
    let settings = launch_spec
        .settings
        .as_ref()
        .map(|file| ["--settings".to_owned(), file.display().to_string()]);
    key.into_iter().chain(lead).chain(turns).chain(settings).flatten().collect()
}

/// Returns the model name in the form that the program expects. The reference client expects the
/// names of Anthropic models without the `anthropic/` prefix.
fn model_for(program: Program, model: &str) -> String {
    match (program, model.parse()) {
        (Program::Claude, Ok(ModelSpec::Anthropic(name))) => name,
        (Program::Claude | Program::Pitcrew, _) => model.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pitcrew_process::identity::ProcessIdentity;
    use pitcrew_protocol::{AgentName, TeamName};

    use super::*;

    fn launch_spec(program: Program) -> LaunchSpec {
        LaunchSpec {
            program,
            agent_id: "bob@backend".to_owned(),
            name: AgentName::new("bob").unwrap(),
            team: TeamName::new("backend").unwrap(),
            color: Some("blue".to_owned()),
            session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
            plan_mode_required: true,
            agent_type: Some("general-purpose".to_owned()),
            mode: PermissionMode::AcceptEdits,
            model: Some("anthropic/claude-opus-4-6".to_owned()),
            verify_key: None,
            lead_process: Some(ProcessIdentity { pid: 4242, start_ticks: 17 }),
            cwd: PathBuf::from("/"),
            max_turns: Some(7),
            settings: Some(PathBuf::from("/r/settings.json")),
            conversation: None,
        }
    }

    #[test]
    fn the_reference_client_is_called_with_its_own_flags_in_their_order() {
        let launch_spec = launch_spec(Program::Claude);
        insta::assert_snapshot!(recorded(&launch_spec).join(" "), @"--agent-id bob@backend --agent-name bob --team-name backend --agent-color blue --parent-session-id 806a459e-20e5-4ee3-bf49-40e5333a7d9e --plan-mode-required --agent-type general-purpose --permission-mode acceptEdits --model claude-opus-4-6");
    }

    #[test]
    fn the_reference_client_gets_the_id_of_its_conversation() {
        let with = |conversation| {
            recorded(&LaunchSpec {
                conversation: Some(conversation),
                ..launch_spec(Program::Claude)
            })
        };
        let id = "3bacbbef-0790-4d04-a603-4427723f5762";
        assert!(
            with(Conversation::New(id.to_owned()))
                .ends_with(&["--session-id".to_owned(), id.to_owned()])
        );
        assert!(
            with(Conversation::Former(id.to_owned()))
                .ends_with(&["--resume".to_owned(), id.to_owned()])
        );
    }

    #[test]
    fn the_reference_client_always_gets_a_permission_mode() {
        for mode in [PermissionMode::Default, PermissionMode::Plan] {
            let flags = recorded(&LaunchSpec { mode, ..launch_spec(Program::Claude) });
            assert!(
                flags.windows(2).any(|pair| pair == ["--permission-mode", mode.as_str()]),
                "{flags:?}"
            );
            let ours = recorded(&LaunchSpec { mode, ..launch_spec(Program::Pitcrew) });
            assert!(!ours.contains(&"--permission-mode".to_owned()), "{ours:?}");
        }
    }

    #[test]
    fn ours_is_told_its_limits_and_settings_too() {
        let launch_spec = launch_spec(Program::Pitcrew);
        assert!(recorded(&launch_spec).ends_with(&["anthropic/claude-opus-4-6".to_owned()]));
        assert_eq!(
            more(&launch_spec),
            ["--lead-process", "4242.17", "--max-turns", "7", "--settings", "/r/settings.json"]
        );
    }
}
