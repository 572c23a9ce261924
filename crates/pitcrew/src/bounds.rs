//! Copies the restrictions of a team's previous run into the command line of a resumed run. The
//! restrictions are the deny and ask rules, the permission mode, the limits and the teammate
//! settings. This module also tells the user which restrictions hold.

use clap::ValueEnum as _;
use pitcrew_permission::gate::allow_flag;
use pitcrew_protocol::PermissionMode;
use pitcrew_runtime::run::Begin;
use pitcrew_team::RunBounds;
use serde_json::{Map, Value, json};

use crate::commands::run::{LimitArgs, Models, PermissionArgs};
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::{self, HostingArgs, TeammateMode, TeammateProgram};
use crate::output::shell_word;

/// The parts of a command line that restrict a run or give it more permissions.
#[derive(Debug)]
pub(crate) struct Bounded<'a> {
    pub(crate) models: &'a mut Models,
    pub(crate) hosting: &'a mut HostingArgs,
    pub(crate) permissions: &'a mut PermissionArgs,
    pub(crate) limits: &'a mut LimitArgs,
    /// The layer of settings that comes from the command line.
    pub(crate) layer: &'a mut Map<String, Value>,
}

/// The flags of the previous run, as reported to the user: `held` contains the flags that still
/// hold, `replaced` those that the new command line replaces.
#[derive(Debug, Default)]
struct Said {
    held: Vec<String>,
    replaced: Vec<String>,
}

impl Said {
    /// Copies a value of the previous run into `own`, unless the command line already sets `own`.
    /// Records the flag of the previous run as held or as replaced.
    fn take<T: Clone + PartialEq>(
        &mut self,
        own: &mut Option<T>,
        before: Option<T>,
        flag: impl Fn(&T) -> String,
    ) {
        match (own.as_ref(), before) {
            (None, Some(before)) => {
                self.held.push(flag(&before));
                *own = Some(before);
            }
            (Some(own), Some(before)) if *own != before => self.replaced.push(flag(&before)),
            (Some(_) | None, _) => {}
        }
    }
}

/// Copies the restrictions of the previous run into the command line of a resumed run, and tells
/// the user which of them hold. A restriction is not copied if the command line sets another value
/// for the same option. `default_mode` is the permission mode from the settings. Returns the
/// restrictions that hold now, to be recorded for the next run.
///
/// # Errors
/// Returns an error if the team or the record of its restrictions cannot be read.
pub(crate) async fn taken_over(
    context: &Context,
    begin: &Begin,
    default_mode: PermissionMode,
    mut now: Bounded<'_>,
) -> Result<RunBounds, Failure> {
    let freed_by = now.freed_by();
    match begin {
        Begin::New { .. } => {}
        Begin::Resume { team, .. } | Begin::TakeOver { team, .. } => {
            let before = context.teams()?.open(team).await?.kept_bounds().await?;
            // `named_programs` is needed only if the previous mode names a pane program. Computing
            // `named_programs` may print a warning, so it is not computed for other modes.
            let named_programs = match before.teammate_mode.as_deref() {
                Some(mode) if mode.starts_with("pane:") => hosting::named_programs(context),
                Some(_) | None => Vec::new(),
            };
            let mut said = now.heed(&before, default_mode, &named_programs);
            let gone: Vec<&str> = before
                .freed_by
                .iter()
                .filter(|flag| !freed_by.contains(*flag))
                .map(String::as_str)
                .collect();
            if !said.held.is_empty() {
                context.tell_of_options(format!("from the run before: {}", said.held.join(" ")));
            }
            // The code below reports the flags in `gone` in a separate remark, so this remark omits
            // them.
            said.replaced.retain(|flag| !gone.contains(&flag.as_str()));
            if !said.replaced.is_empty() {
                let (flags, verb) = (said.replaced.join(" "), "this command line replaces it");
                context.tell_of_options(format!("the run before had {flags}; {verb}"));
            }
            if !gone.is_empty() {
                let flags = gone.join(" ");
                context.tell_of_options(format!(
                    "of the run before, {flags} is no longer in effect; it can be given again"
                ));
            }
        }
    }
    Ok(now.bounds(freed_by))
}

impl Bounded<'_> {
    /// Copies the restrictions of the previous run into this command line. Returns the flags to
    /// report to the user.
    fn heed(
        &mut self,
        before: &RunBounds,
        default_mode: PermissionMode,
        named_programs: &[Vec<String>],
    ) -> Said {
        let mut said = Said::default();
        for (list, rules) in [("deny", &before.deny), ("ask", &before.ask)] {
            self.heed_rules(list, rules, &mut said);
        }
        if before.sandbox && !self.is_sandboxed() {
            said.held.push("--sandbox".to_owned());
            if let Some(sandbox) =
                self.layer.entry("sandbox").or_insert_with(|| json!({})).as_object_mut()
            {
                sandbox.insert("autoAllow".to_owned(), json!(true));
            }
        }
        self.heed_mode(before, default_mode, &mut said);
        said.take(&mut self.limits.max_turns, before.max_turns, |turns| {
            format!("--max-turns {turns}")
        });
        said.take(&mut self.limits.max_cost_usd, before.max_cost_usd, |cost| {
            format!("--max-cost-usd {cost}")
        });
        said.take(&mut self.limits.max_teammates, before.max_teammates, |most| {
            format!("--max-teammates {most}")
        });
        let model = before.teammate_model.clone();
        said.take(&mut self.models.teammate_model, model, |model| {
            format!("--teammate-model {}", shell_word(model))
        });
        // A teammate mode and its program belong together. If the command line sets
        // `--teammate-mode`, the `--teammate-program` of the previous run is not kept.
        if self.hosting.teammate_mode.is_none() {
            let program = before
                .teammate_program
                .as_deref()
                .and_then(|name| TeammateProgram::from_str(name, false).ok());
            said.take(&mut self.hosting.teammate_program, program, |it| {
                format!("--teammate-program {}", it.as_str())
            });
            let mode = before.teammate_mode.as_deref().and_then(|mode| mode.parse().ok());
            let mode = mode.filter(|mode| is_taken_over(mode, named_programs));
            let flag =
                |mode: &TeammateMode| format!("--teammate-mode {}", shell_word(&mode.to_string()));
            said.take(&mut self.hosting.teammate_mode, mode, flag);
        } else {
            let own = self.hosting.teammate_mode.as_ref().map(ToString::to_string);
            let other = before.teammate_mode.iter().filter(|mode| own.as_ref() != Some(*mode));
            said.replaced.extend(other.map(|mode| format!("--teammate-mode {}", shell_word(mode))));
        }
        said
    }

    fn heed_rules(&mut self, list: &str, before: &[String], said: &mut Said) {
        let flag = |rule: &String| match list {
            "deny" => allow_flag(rule).replacen("--allow", "--deny", 1),
            _ => format!("permissions.{list} {}", shell_word(rule)),
        };
        let own = self.rules(list);
        // If the command line has rules in the list `list`, these rules replace all earlier ones.
        // The rules of the command line and of the previous run are not merged.
        if !own.is_empty() {
            said.replaced.extend(before.iter().filter(|rule| !own.contains(rule)).map(flag));
            return;
        }
        said.held.extend(before.iter().map(flag));
        let permissions = self.layer.entry("permissions").or_insert_with(|| json!({}));
        if let Some(permissions) = permissions.as_object_mut().filter(|_| !before.is_empty()) {
            permissions.insert(list.to_owned(), json!(before));
        }
    }

    /// Keeps the permission mode of the previous run if the command line sets none and that mode is
    /// more restrictive than `default_mode`.
    fn heed_mode(&mut self, before: &RunBounds, default_mode: PermissionMode, said: &mut Said) {
        let Some(mode) = before.mode.as_deref().and_then(PermissionMode::named) else {
            return;
        };
        match self.mode() {
            Some(own) if own != mode.as_str() => said.replaced.push(mode_flag(mode.as_str())),
            Some(_) => {}
            None if boundness(mode) > boundness(default_mode) => {
                said.held.push(mode_flag(mode.as_str()));
                self.permissions.permission_mode = Some(mode.as_str().to_owned());
            }
            None => {}
        }
    }

    /// Returns the restrictions that hold for this run, to be recorded for the next run.
    fn bounds(&self, freed_by: Vec<String>) -> RunBounds {
        RunBounds {
            deny: self.rules("deny"),
            ask: self.rules("ask"),
            mode: self.mode(),
            sandbox: self.is_sandboxed(),
            max_turns: self.limits.max_turns,
            max_cost_usd: self.limits.max_cost_usd,
            max_teammates: self.limits.max_teammates,
            teammate_mode: self.hosting.teammate_mode.as_ref().map(ToString::to_string),
            teammate_program: self
                .hosting
                .teammate_program
                .map(|program| program.as_str().to_owned()),
            teammate_model: self.models.teammate_model.clone(),
            freed_by,
        }
    }

    /// Returns the flags of this command line that give the run more permissions, such as `--allow`
    /// and `--yes`.
    fn freed_by(&self) -> Vec<String> {
        let allowed = self.rules("allow").iter().map(|rule| allow_flag(rule)).collect::<Vec<_>>();
        let is_freer =
            |mode: &String| PermissionMode::named(mode).is_some_and(|mode| mode.freedom() > 0);
        let mode = self.mode().filter(is_freer);
        let yes = self.permissions.yes.then(|| "--yes".to_owned());
        let trust = self.permissions.trust.then(|| "--trust".to_owned());
        let mode = mode.map(|mode| mode_flag(&mode));
        allowed.into_iter().chain(mode).chain(yes).chain(trust).collect()
    }

    fn mode(&self) -> Option<String> {
        let of_file =
            || self.layer.get("permissions")?.get("defaultMode")?.as_str().map(str::to_owned);
        self.permissions.permission_mode.clone().or_else(of_file)
    }

    fn is_sandboxed(&self) -> bool {
        self.layer.get("sandbox").and_then(|sandbox| sandbox.get("autoAllow")) == Some(&json!(true))
    }

    fn rules(&self, list: &str) -> Vec<String> {
        let rules = self
            .layer
            .get("permissions")
            .and_then(|permissions| permissions.get(list))
            .and_then(Value::as_array);
        rules.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// Returns true if a resumed run keeps the teammate mode of the previous run. `auto` is not kept,
/// because the record of the panes already contains the kind of panes that `auto` selected.
///
/// A pane program is kept only if the user named the program. The previous teammate mode does not
/// prove that the user did so, because other programs can write the team's folder, where the mode
/// is recorded.
fn is_taken_over(mode: &TeammateMode, named_programs: &[Vec<String>]) -> bool {
    match mode {
        TeammateMode::InProcess | TeammateMode::Tmux | TeammateMode::ITerm2 => true,
        TeammateMode::Program(argv) => named_programs.contains(argv),
        TeammateMode::Auto => false,
    }
}

fn mode_flag(mode: &str) -> String {
    format!("--permission-mode {}", shell_word(mode))
}

/// Returns how restrictive a permission mode is. A mode with a higher number lets the agents do
/// less without asking the user.
fn boundness(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::BypassPermissions => 0,
        PermissionMode::AcceptEdits => 1,
        PermissionMode::Default => 2,
        PermissionMode::DontAsk => 3,
        PermissionMode::Delegate => 4,
        PermissionMode::Plan => 5,
    }
}
