//! The types against the recordings, and against texts that nobody should send.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod tools;

/// The names of the tools whose calls the team reads.
#[cfg(test)]
fn team_tools() -> Vec<&'static str> {
    use pitcrew_protocol::{ToolDescriptor, ToolKind};

    let is_of_team = |tool: &&ToolDescriptor| {
        !matches!(tool.traits.kind, ToolKind::Shell | ToolKind::Reader | ToolKind::Writer)
    };
    ToolDescriptor::own().iter().filter(is_of_team).map(|tool| tool.name).collect()
}
