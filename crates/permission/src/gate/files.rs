//! Judges calls of the tools Read, Glob, Grep, Write and Edit.

use std::fs;
use std::path::Path;

use pitcrew_protocol::{FileParameter, PermissionMode, ToolKind, ToolTraits, tool_name};
use serde_json::Value;

use super::guarded::refusal;
use super::judge::{
    Call, Gate, Verdict, denied_by, directory_suggestion, edit_suggestions, hard_limit,
};
use super::paths::{CONFIG_FOLDER, Target, resolve};
use super::rules::{Access, Rule};
use super::tools::kind_of;
use crate::split_pattern;

/// Judges a call by the file or folder that it names.
pub(super) fn judge(
    gate: &Gate,
    mode: PermissionMode,
    call: &Call<'_>,
    target: Option<&Target>,
) -> Verdict {
    let kind = kind_of(call.tool);
    if let Some(verdict) = hard_limit(mode, kind, call.tool) {
        return verdict;
    }
    let Some(target) = target else {
        return Verdict::deny(format!("{} names no file", call.tool));
    };
    let access = if kind == ToolKind::Writer { Access::Write } else { Access::Read };
    if access == Access::Write
        && let Some(whose) = gate.guarded.holds(target)
    {
        return refusal(&target.written.to_string_lossy(), whose);
    }
    let is_plan = is_plan_file(call, target);
    if mode == PermissionMode::Plan && access == Access::Write && !is_plan {
        return Verdict::deny("in plan mode only the plan file may be written");
    }
    let speaks = |rule: &&Rule| is_met_by(rule, call, access, target);
    if let Some(rule) = gate.rules.deny.iter().find(speaks) {
        return denied_by(rule);
    }
    if target.resolved.is_none() {
        return Verdict::deny("the path's symbolic links go in a circle");
    }
    if gate.is_remembered(access, target) {
        return Verdict::deny("denied by the rules that denied this file under another name");
    }
    if mode == PermissionMode::BypassPermissions {
        return Verdict::freely();
    }
    if gate.rules.ask.iter().any(|rule| speaks(&rule)) {
        return ask(call, access, target);
    }
    let decides = access == Access::Write && target.decides();
    // A general allow rule must not let an agent change its own permissions. A change of permission
    // files needs a rule that contains `.claude`.
    let opens = |rule: &Rule| !decides || rule.spells_out(CONFIG_FOLDER);
    let allows = |rule: &Rule| {
        opens(rule) && (rule.names_tool(call.tool) || rule.covers(access, call.cwd, target))
    };
    if is_plan || gate.rules.allow.iter().any(allows) {
        return Verdict::freely();
    }
    let free = match access {
        Access::Read => true,
        Access::Write => mode == PermissionMode::AcceptEdits && !target.steers_tools(),
    };
    let is_output = access == Access::Read && target.is_inside(call.cwd, gate.outputs.as_deref());
    if free && gate.is_inside(call.cwd, target) || is_output {
        return Verdict::freely();
    }
    ask(call, access, target)
}

/// Returns true if a rule would deny the call or ask about it.
pub(super) fn is_met_by(rule: &Rule, call: &Call<'_>, access: Access, target: &Target) -> bool {
    rule.names_tool(call.tool) || rule.touches(access, call.cwd, target)
}

/// Returns true if the path is exactly the plan file. A symbolic link in the plan file's place is
/// not accepted, because it could lead to any file.
fn is_plan_file(call: &Call<'_>, target: &Target) -> bool {
    let Some(plan) = call.plan_file else { return false };
    let is_link =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let plan = call.cwd.join(plan);
    !is_link(&plan) && target.resolved.is_some() && target.resolved == resolve(call.cwd, &plan)
}

/// Returns the file or folder that a call names. Glob and Grep start in the working folder if the
/// input names no other folder. A Glob pattern may itself lead to another folder.
pub(super) fn named_file(gate: &Gate, call: &Call<'_>) -> Option<Target> {
    let text =
        |field: &str| call.input.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let path = match ToolTraits::of(call.tool).file {
        FileParameter::FolderAndPattern => {
            let base = Path::new(text("path").unwrap_or("."));
            let (folder, _pattern) = split_pattern(base, text("pattern").unwrap_or_default());
            return Some(gate.target(call.cwd, &folder.to_string_lossy()));
        }
        FileParameter::Folder => text("path").unwrap_or("."),
        FileParameter::NotebookPath => text("notebook_path")?,
        FileParameter::FilePath => text("file_path")?,
        FileParameter::None => return None,
    };
    Some(gate.target(call.cwd, path))
}

fn ask(call: &Call<'_>, access: Access, target: &Target) -> Verdict {
    let folder = target.written.parent().unwrap_or(&target.written).to_path_buf();
    let (verb, suggestions) = match access {
        Access::Read => (tool_name::READ, vec![directory_suggestion(&[folder])]),
        // If the file controls permissions, suggest no rules. No suggested rule would allow the
        // next write to a file that controls permissions.
        Access::Write if target.decides() => (call.tool, Vec::new()),
        Access::Write => (call.tool, edit_suggestions(&[folder])),
    };
    Verdict::ask(format!("{verb} {}", target.written.display()), suggestions)
}
