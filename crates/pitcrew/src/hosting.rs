//! Decides where the teammates of a run are hosted, which means in panes or in the lead's process.
//! The decision depends on the command line, the settings and the terminal.

mod in_settings;
mod launch;
pub(crate) mod recorded;

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;
use pitcrew_panes::{
    ITerm2, ITerm2Options, PaneError, PaneId, PaneProgram, Panes, Tmux, TmuxOptions,
};
use pitcrew_permission::settings::Settings;
use pitcrew_permission::trust::Trust;
use pitcrew_protocol::{AgentName, BACKEND_IN_PROCESS, PaneHost, Program};
use pitcrew_runtime::hosting::{Hosting, TeammatePlace};
use pitcrew_runtime::member_pane::MemberPaneError;
use pitcrew_team::Team;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::in_settings::{client_of, deadline_of, mode_of, program_of};
use self::launch::launcher;
use crate::commands::pane_exec;
use crate::completing;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::{client_version, output};

/// The name of the tmux session that gets the panes when the lead runs outside of tmux.
const TMUX_SESSION: &str = "pitcrew";

/// The options that choose where teammates run.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Teammates")]
pub(crate) struct HostingArgs {
    /// Where teammates run: auto, in-process, tmux, iterm2 or pane:PROGRAM [default: the value from
    /// the settings, else auto]
    #[arg(long, value_name = "MODE", add = ArgValueCompleter::new(completing::teammate_modes))]
    pub(crate) teammate_mode: Option<TeammateMode>,
    /// The program that runs teammates in panes: pitcrew or claude [default: the value from the
    /// settings, else pitcrew]
    #[arg(long, value_name = "PROGRAM", hide_possible_values = true)]
    pub(crate) teammate_program: Option<TeammateProgram>,
}

/// Where the user wants teammates to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TeammateMode {
    /// In panes if the user's terminal supports panes, otherwise in the lead's process.
    Auto,
    /// In the process of the lead.
    InProcess,
    /// In tmux panes.
    Tmux,
    /// In iTerm2 panes.
    ITerm2,
    /// In the panes of a program that implements the pane protocol. The vector contains the program
    /// and its arguments.
    Program(Vec<String>),
}

impl fmt::Display for TeammateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::InProcess => f.write_str(BACKEND_IN_PROCESS),
            Self::Tmux => f.write_str("tmux"),
            Self::ITerm2 => f.write_str("iterm2"),
            Self::Program(argv) => write!(f, "pane:{}", argv.join(" ")),
        }
    }
}

impl FromStr for TeammateMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            BACKEND_IN_PROCESS => Ok(Self::InProcess),
            "tmux" => Ok(Self::Tmux),
            "iterm2" => Ok(Self::ITerm2),
            other => {
                let argv = other
                    .strip_prefix("pane:")
                    .map(|command| command.split_whitespace().map(str::to_owned));
                match argv.map(Iterator::collect::<Vec<_>>).filter(|argv| !argv.is_empty()) {
                    Some(argv) => Ok(Self::Program(argv)),
                    None => {
                        Err("one of auto, in-process, tmux, iterm2 and pane:PROGRAM".to_owned())
                    }
                }
            }
        }
    }
}

/// The program that runs teammates in panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum TeammateProgram {
    /// pitcrew itself
    Pitcrew,
    /// The reference client
    Claude,
}

impl TeammateProgram {
    /// Returns the program's name on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        Program::from(self).as_str()
    }
}

impl From<TeammateProgram> for Program {
    fn from(program: TeammateProgram) -> Self {
        match program {
            TeammateProgram::Pitcrew => Self::Pitcrew,
            TeammateProgram::Claude => Self::Claude,
        }
    }
}

/// Decides where the teammates of a run are hosted. A resumed team keeps the kind of panes of its
/// earlier run, unless the command line sets another teammate mode.
///
/// # Errors
/// Returns an error if the settings name a program that does not exist, or if the requested panes
/// are not available here.
pub(crate) fn hosting(
    context: &Context,
    settings: &Settings,
    args: &HostingArgs,
    left: Option<Left>,
    layer: Map<String, Value>,
) -> Result<Hosting, Failure> {
    let programs = named_programs(context);
    let former = left.clone();
    let (asked, socket) = match (&args.teammate_mode, left) {
        (Some(mode), left) => {
            (Some(chosen(context, mode.clone())?), left.and_then(|left| left.socket))
        }
        (None, Some(left)) => (Some(must_be_named(left.mode, &programs)?), left.socket),
        // `mode_of` returns an error if the mode in the settings is invalid. The error is ignored
        // here, because `named_programs` has already printed it as a warning.
        (None, None) => {
            (mode_of(settings).ok().flatten().map(|mode| chosen(context, mode)).transpose()?, None)
        }
    };
    let mode = match asked.unwrap_or(TeammateMode::Auto) {
        TeammateMode::Auto => here(context),
        mode @ (TeammateMode::InProcess
        | TeammateMode::Tmux
        | TeammateMode::ITerm2
        | TeammateMode::Program(_)) => mode,
    };
    let socket = socket.or_else(|| tmux_socket(context));
    // Teammates of an earlier run may still run in panes. If the earlier panes are of another kind
    // than the new panes, the earlier panes are opened too.
    let former_panes = former
        .filter(|left| left.mode != mode)
        .and_then(|left| former_panes(context, left, &programs));
    let panes = panes(context, &mode, socket.clone())?;
    // The lead runs outside of tmux, so the user cannot see the panes. A remark says how to attach
    // to them.
    if mode == TeammateMode::Tmux && context.variable("TMUX").is_none() {
        let server = socket.as_ref().map_or_else(String::new, |socket| {
            format!(" -S {}", output::shell_word(&socket.to_string_lossy()))
        });
        context.tell_when_started(format!(
            "teammates get panes in the tmux session {TMUX_SESSION}, which no terminal shows yet; once it has panes, \
             `tmux{server} attach -t {TMUX_SESSION}` goes there"
        ));
    }
    if args.teammate_program == Some(TeammateProgram::Claude) && panes.is_none() {
        return Err(Failure::usage("claude runs in panes only, and this run has none")
            .hint("give it panes: --teammate-mode tmux, or start the run inside tmux"));
    }
    let program = match args.teammate_program {
        Some(program) => program.into(),
        None => program_of(settings),
    };
    // If the teammates are to run in the reference client, the client's program must exist. The
    // client runs only in panes, so without panes the program is not checked.
    if program == Program::Claude && panes.is_some() {
        must_be_there(context, client_of(settings), "the client that runs the teammates")?;
    }
    let own = match &mode {
        TeammateMode::Program(argv) => Some(as_recorded(context, argv)),
        TeammateMode::Auto
        | TeammateMode::InProcess
        | TeammateMode::Tmux
        | TeammateMode::ITerm2 => None,
    };
    Ok(Hosting {
        pane_programs: programs.into_iter().chain(own).collect(),
        default: if panes.is_some() { TeammatePlace::Pane } else { TeammatePlace::InProcess },
        panes,
        former_panes,
        launch: launcher(context, settings),
        program,
        client_remark: client_version::find(context, client_of(settings))
            .map(client_version::remark),
        settings: layer,
        prompt_deadline: deadline_of(settings),
    })
}

/// Opens the panes of an earlier run, because teammates may still run in them. If the panes cannot
/// be reached, the run continues with a warning.
fn former_panes(context: &Context, left: Left, programs: &[Vec<String>]) -> Option<Arc<dyn Panes>> {
    let panes =
        must_be_named(left.mode, programs).and_then(|mode| panes(context, &mode, left.socket));
    panes.unwrap_or_else(|error| {
        output::remark(&format!(
            "warning: the panes of the run before cannot be reached: {}",
            error.chain()
        ));
        None
    })
}

/// Accepts a mode that the user named, and records the mode's pane program. The record allows later
/// commands to run that program to control its panes.
fn chosen(context: &Context, mode: TeammateMode) -> Result<TeammateMode, Failure> {
    if let TeammateMode::Program(argv) = &mode {
        Trust::keep_pane_program(&context.root, &as_recorded(context, argv))
            .map_err(Failure::internal)?;
    }
    Ok(mode)
}

/// Checks a mode that comes from a record of the team. Other programs can write that record, so a
/// pane program is accepted only if the user named the program.
fn must_be_named(mode: TeammateMode, programs: &[Vec<String>]) -> Result<TeammateMode, Failure> {
    match &mode {
        TeammateMode::Program(argv) if !programs.contains(argv) => {
            let argv = argv.join(" ");
            let said = format!(
                "only a record of the team names the pane program {argv:?}, which is not run"
            );
            Err(Failure::new(FailureKind::Denied, said)
                .hint(format!("--teammate-mode 'pane:{argv}' runs it; --teammate-mode in-process does without panes")))
        }
        TeammateMode::Program(_)
        | TeammateMode::Auto
        | TeammateMode::InProcess
        | TeammateMode::Tmux
        | TeammateMode::ITerm2 => Ok(mode),
    }
}

/// The kind of panes that an earlier run of the team used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    mode: TeammateMode,
    socket: Option<PathBuf>,
}

impl Left {
    /// Returns the kind of panes that the team recorded last. Returns `None` if the team has no
    /// record of panes, or if the kind in the record is unknown.
    ///
    /// # Errors
    /// Returns an error if the team cannot be read.
    pub(crate) async fn by(team: &Team) -> Result<Option<Self>, Failure> {
        let latest = team.pane_hosts().await?.pop();
        Ok(latest.and_then(|host| {
            Some(Self { mode: TeammateMode::of(&host)?, socket: host.socket.map(PathBuf::from) })
        }))
    }
}

/// Returns the pane of a member, and the panes backend that controls the pane.
///
/// # Errors
/// Returns an error if the member has no pane, or if the pane cannot be reached from this process.
pub(crate) async fn pane_of(
    context: &Context,
    team: &Team,
    member: &AgentName,
) -> Result<(Arc<dyn Panes>, PaneId), Failure> {
    let place = team.started().await?.remove(member).and_then(|started| started.pane);
    let mode = place.as_ref().and_then(|place| TeammateMode::of(&place.host));
    let (Some(place), Some(mode)) = (place, mode) else {
        return Err(Failure::new(
            FailureKind::Conflict,
            format!("{member} is not in a pane of pitcrew"),
        ));
    };
    let mode = must_be_named(mode, &named_programs(context))?;
    // Without a socket it is the default server, because the lead ran outside tmux.
    let socket = place.host.socket.map(PathBuf::from);
    match panes(context, &mode, socket)? {
        Some(panes) => Ok((panes, PaneId(place.id))),
        None => Err(Failure::internal(format!(
            "{member} is in a pane, but no program for panes is available"
        ))),
    }
}

/// Returns a text that says where the panes of the teammates are. Returns `None` if no teammate has a
/// pane in view, or if the terminal does not tell.
pub(crate) async fn place_of_panes(context: &Context, team: &Team) -> Option<String> {
    let started = team.started().await.ok()?;
    let in_panes = started.into_iter().filter(|(_, started)| started.pane.is_some());
    for (name, _) in in_panes {
        let Ok((panes, pane)) = pane_of(context, team, &name).await else { continue };
        let Ok(Some(view)) = panes.in_view_at(&pane).await else { continue };
        let words: Vec<_> = view.command.iter().map(|word| output::shell_word(word)).collect();
        let command = words.join(" ");
        let unseen = if view.is_shown { "" } else { ", which no terminal shows now" };
        return Some(format!(
            "the panes of the teammates are in {}{unseen}; `{command}` goes there",
            output::printable(&view.place)
        ));
    }
    None
}

/// Builds the failure for a pane that cannot be shown or hidden. If the pane is closed, the kind is
/// a conflict, not an internal error.
pub(crate) fn pane_failure(name: &str, error: MemberPaneError) -> Failure {
    match error {
        MemberPaneError::Pane(PaneError::Gone { pane }) => {
            Failure::new(FailureKind::Conflict, format!("{name}'s pane {pane} no longer exists"))
        }
        MemberPaneError::Pane(error) => Failure::internal(error),
        MemberPaneError::Team(error) => error.into(),
    }
}

impl TeammateMode {
    /// Returns the mode that opens panes in the same program as the recorded host of panes. Returns
    /// `None` if this version does not know the recorded program.
    fn of(host: &PaneHost) -> Option<Self> {
        match host.backend.as_str() {
            "tmux" => Some(Self::Tmux),
            "iterm2" => Some(Self::ITerm2),
            "pane" if !host.command.is_empty() => Some(Self::Program(host.command.clone())),
            _ => None,
        }
    }
}

/// Resolves the mode `auto`: panes if the user's terminal supports panes, otherwise the lead's
/// process.
fn here(context: &Context) -> TeammateMode {
    if !context.has_terminal() {
        return TeammateMode::InProcess;
    }
    if context.variable("TMUX").is_some() {
        return TeammateMode::Tmux;
    }
    if context.variable("TERM_PROGRAM") == Some("iTerm.app") && context.is_on_path("it2") {
        return TeammateMode::ITerm2;
    }
    TeammateMode::InProcess
}

fn panes(
    context: &Context,
    mode: &TeammateMode,
    socket: Option<PathBuf>,
) -> Result<Option<Arc<dyn Panes>>, Failure> {
    match mode {
        TeammateMode::Auto | TeammateMode::InProcess => Ok(None),
        TeammateMode::Tmux => Ok(Some(Arc::new(tmux(context, socket)?))),
        TeammateMode::ITerm2 => Ok(Some(Arc::new(iterm2(context)?))),
        TeammateMode::Program(argv) => {
            let argv = as_recorded(context, argv);
            must_be_there(
                context,
                argv.first().map_or("", String::as_str),
                "the program for panes",
            )?;
            Ok(Some(Arc::new(PaneProgram::new(argv, pane_exec::launcher(context)?))))
        }
    }
}

/// Checks that a program can be executed. The check is made before anything that needs the program
/// is started.
///
/// # Errors
/// Returns an error if the program does not exist or is not executable.
fn must_be_there(context: &Context, program: &str, what: &str) -> Result<(), Failure> {
    let is_there = if program.contains('/') {
        let meta = std::fs::metadata(context.cwd.join(program));
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    } else {
        context.is_on_path(program)
    };
    if is_there {
        return Ok(());
    }
    let program = output::visible(program);
    Err(Failure::usage(format!("{what}, {program}, does not exist or cannot be run"))
        .hint("--teammate-mode in-process needs no program and no terminal"))
}

/// Returns the command line of a pane program in the form in which it is recorded. Its path is
/// absolute, so that commands in other folders find the program too.
fn as_recorded(context: &Context, argv: &[String]) -> Vec<String> {
    let found = |(at, word): (usize, &String)| match at {
        0 if word.contains('/') => context.cwd.join(word).to_string_lossy().into_owned(),
        _ => word.clone(),
    };
    argv.iter().enumerate().map(found).collect()
}

/// Returns the pane programs that may be run when a record of the team names them. These are the
/// programs that the user named for a run or in the settings, and `pitcrew pane serve`.
pub(crate) fn named_programs(context: &Context) -> Vec<Vec<String>> {
    let mode = mode_of(&context.usable_settings()).unwrap_or_else(|unknown| {
        output::remark(&format!("warning: {unknown}"));
        None
    });
    let named = match mode {
        Some(TeammateMode::Program(argv)) => Some(as_recorded(context, &argv)),
        Some(
            TeammateMode::Auto
            | TeammateMode::InProcess
            | TeammateMode::Tmux
            | TeammateMode::ITerm2,
        )
        | None => None,
    };
    let own = context.exe.to_string_lossy().into_owned();
    let served = ["tmux", "iterm2"]
        .map(|kind| [own.as_str(), "pane", "serve", kind].map(str::to_owned).to_vec());
    let kept = Trust::load(&context.root).map_or_else(
        |error| {
            let said = Failure::internal(error).chain();
            output::remark(&format!(
                "warning: which pane programs were named for runs is not known: {said}"
            ));
            Vec::new()
        },
        |trust| trust.pane_programs().to_vec(),
    );
    named.into_iter().chain(served).chain(kept).collect()
}

fn tmux(context: &Context, socket: Option<PathBuf>) -> Result<Tmux, Failure> {
    if !context.is_on_path("tmux") {
        return Err(Failure::usage("tmux is not on the PATH")
            .hint("--teammate-mode in-process needs no terminal"));
    }
    // A new pane can be opened beside the current pane only if both are on the same tmux server.
    let is_ours = socket == tmux_socket(context);
    Ok(Tmux::new(TmuxOptions {
        program: PathBuf::from("tmux"),
        socket,
        config: None,
        beside: context
            .variable("TMUX_PANE")
            .filter(|_| is_ours)
            .map(|pane| PaneId(pane.to_owned())),
        session: TMUX_SESSION.to_owned(),
        launcher: pane_exec::launcher(context)?,
    }))
}

fn iterm2(context: &Context) -> Result<ITerm2, Failure> {
    if !context.is_on_path("it2") {
        return Err(Failure::usage("it2, the helper of iTerm2, is not on the PATH")
            .hint("--teammate-mode in-process needs no terminal"));
    }
    Ok(ITerm2::new(ITerm2Options {
        program: PathBuf::from("it2"),
        beside: context.variable("ITERM_SESSION_ID").map(str::to_owned),
        launcher: pane_exec::launcher(context)?,
    }))
}

/// Returns the socket of the tmux server in which this process runs. `$TMUX` contains the socket,
/// the server's process id and the session.
pub(crate) fn tmux_socket(context: &Context) -> Option<PathBuf> {
    let socket = context.variable("TMUX")?.rsplitn(3, ',').nth(2)?;
    Some(PathBuf::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_what_they_are_called() {
        let mode = |text: &str| text.parse::<TeammateMode>();
        assert_eq!(mode("tmux"), Ok(TeammateMode::Tmux));
        let argv = ["wezterm.sh", "--new"].map(str::to_owned).to_vec();
        assert_eq!(mode("pane:wezterm.sh --new"), Ok(TeammateMode::Program(argv)));
        for wrong in ["", "pane:", "pane: ", "TMUX", "screen"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
    }
}
