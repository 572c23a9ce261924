//! Decides which kinds of tools each permission mode allows, and which tool names are valid in a
//! rule.

use pitcrew_protocol::{
    PermissionMode, RuleScope, ToolDescriptor, ToolKind, ToolTraits, nearest, tool_name,
};

/// Returns the kind of a tool. The kind decides how calls of the tool are judged.
pub(super) fn kind_of(tool: &str) -> ToolKind {
    ToolTraits::of(tool).kind
}

/// Returns true if tools of this kind are allowed without asking in every permission mode that does
/// not forbid them.
pub(super) fn is_free(kind: ToolKind) -> bool {
    match kind {
        ToolKind::Spawn
        | ToolKind::Talk
        | ToolKind::TeamControl
        | ToolKind::ExitPlan
        | ToolKind::Output => true,
        ToolKind::Shell | ToolKind::Reader | ToolKind::Writer | ToolKind::Other => false,
    }
}

/// Returns true if tools of this kind are available in delegate mode.
pub(super) fn is_delegation(kind: ToolKind) -> bool {
    match kind {
        ToolKind::Spawn | ToolKind::Talk | ToolKind::TeamControl => true,
        ToolKind::Shell
        | ToolKind::Reader
        | ToolKind::Writer
        | ToolKind::ExitPlan
        | ToolKind::Output
        | ToolKind::Other => false,
    }
}

/// Returns true if the tool is offered to a model in this permission mode (founding guide, section
/// 14).
#[must_use]
pub fn offers(mode: PermissionMode, tool: &str) -> bool {
    match mode {
        PermissionMode::Delegate => is_delegation(kind_of(tool)),
        PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::BypassPermissions => true,
    }
}

/// Returns true if the name is the name of a known tool or of an MCP server's tool.
pub(super) fn is_known(tool: &str) -> bool {
    tool.starts_with("mcp__") || ToolDescriptor::find(tool).is_some()
}

/// Returns the known tool name that is most similar to an unknown name. Returns `None` if no known
/// name is similar enough.
pub(super) fn meant(tool: &str) -> Option<String> {
    let all = ToolDescriptor::own().iter().chain(ToolDescriptor::of_client());
    nearest(tool, all.map(|known| known.name).chain([tool_name::AGENT]))
}

/// Returns true if rules for the tool take no argument in parentheses.
pub(super) fn is_whole(tool: &str) -> bool {
    ToolTraits::of(tool).rule == RuleScope::WholeTool
}
