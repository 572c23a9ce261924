//! Tests of teams that run with `--sandbox` and get a teammate that does not run inside pitcrew's
//! process. Pitcrew's sandbox does not restrict the commands of such a teammate.

use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::{Profile, Sandbox};
use pitcrew_protocol::Program;
use pitcrew_runtime::hosting::LaunchStage;
use pitcrew_runtime::run::{Begin, RunOptions, Runtime};
use serde_json::json;

use crate::panes_process::ProcessPanes;
use crate::sandbox_read::inner;
use crate::team_elsewhere::{abandoned, hosting, resumed, stages};
use crate::team_env::{TestRun, until};

/// The script of a lead that starts the teammate `bob` with the program `claude`.
const CLIENT: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Do, prompt: Do it., program: claude}}]
    - text: I work alone.
"#;

/// Changes `options` so that the sandbox restricts the agents' commands and the user is not asked
/// about them. `allows_clients` is the value of the setting `sandbox.allowOtherClients`. Returns
/// `None` if this machine cannot provide the sandbox.
fn sandboxed(mut options: RunOptions, allows_clients: bool) -> Option<RunOptions> {
    options.agent_options.machine.inner = Some(vec![inner().into_os_string()]);
    let support = Sandbox::new(options.agent_options.machine.clone()).support(Profile::Work);
    if !support.is_held() {
        eprintln!(
            "\n!!! SKIPPED: {support:?}. Nothing was proved about --sandbox on this machine. !!!\n"
        );
        return None;
    }
    let user = json!({"sandbox": {"autoAllow": true, "allowOtherClients": allows_clients}});
    options.agent_options.settings = Settings::merge(vec![(Layer::User, user)]).unwrap();
    Some(options)
}

#[tokio::test]
async fn under_the_sandbox_another_client_is_no_teammate() {
    for program in [Program::Claude, Program::Pitcrew] {
        let setting = TestRun::new();
        let panes = ProcessPanes::new();
        let mut options = setting.options(CLIENT);
        options.hosting = hosting(&panes, program, &["sleep", "1000"]).0;
        let Some(options) = sandboxed(options, false) else { return };
        let ran = setting.run(options).await;
        let said = ran.results_of("team-lead", "Task");
        assert!(said.len() == 1 && said[0].contains("sandbox.allowOtherClients"), "{said:?}");
        assert!(panes.processes().is_empty() && ran.success() == "I work alone.");
    }
}

#[tokio::test]
async fn another_client_is_a_teammate_under_the_sandbox_when_the_user_opts_in() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let mut options =
        setting.options(&CLIENT.replace("- text: I work alone.", "- wait_for: {contains: never}"));
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    let Some(options) = sandboxed(options, true) else { return };
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    assert_eq!(panes.processes().len(), 1);
}

#[tokio::test]
async fn a_run_that_goes_on_under_the_sandbox_leaves_a_member_of_another_client_alone() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    abandoned(&setting, &panes).await;
    let mut options = resumed(&setting, &panes);
    let (alone, _) = setting.overheard("agents: {team-lead: [{text: I work alone.}]}");
    options.agent_options.open_model = alone.agent_options.open_model;
    assert!(matches!(options.begin, Begin::Resume { .. }));
    let Some(options) = sandboxed(options, false) else { return };
    let ran = setting.run(options).await;
    let said = ran.results().join("\n");
    assert!(said.contains("bob") && said.contains("sandbox.allowOtherClients"), "{said}");
    assert!(stages(&ran.events).is_empty(), "{said}");
}
