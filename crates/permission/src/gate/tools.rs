//! What each mode lets be done by tools of a kind, and which names rules may speak of.

use pitcrew_protocol::{
    PermissionMode, RuleScope, ToolDescriptor, ToolKind, ToolTraits, nearest, tool_name,
};

/// The traits of a tool, by which its calls are judged.
pub(super) fn kind_of(tool: &str) -> ToolKind {
    ToolTraits::of(tool).kind
}

/// Whether tools of the kind are allowed in every mode that does not rule them out.
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

/// Whether delegate mode has tools of the kind.
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

/// Whether a model is offered the tool at all in a mode (founding guide section 14).
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

/// Whether the name is a known tool, or the tool of an MCP server.
pub(super) fn is_known(tool: &str) -> bool {
    tool.starts_with("mcp__") || ToolDescriptor::find(tool).is_some()
}

/// Returns the known tool name that is most similar to an unknown name, if one is similar enough.
pub(super) fn meant(tool: &str) -> Option<String> {
    let all = ToolDescriptor::own().iter().chain(ToolDescriptor::of_client());
    nearest(tool, all.map(|known| known.name).chain([tool_name::AGENT]))
}

/// Whether rules for the tool take no argument in parentheses.
pub(super) fn is_whole(tool: &str) -> bool {
    ToolTraits::of(tool).rule == RuleScope::WholeTool
}
