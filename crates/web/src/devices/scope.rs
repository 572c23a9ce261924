//! What a device may do, and which scope each operation needs.

use axum::http::Method;
use serde::{Deserialize, Serialize};

/// What a device may do. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read everything.
    Watch,
    /// Also answer questions and plans, and write messages.
    Answer,
    /// Everything that the user may do.
    Everything,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Watch, Self::Answer, Self::Everything];

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Answer => "answer",
            Self::Everything => "everything",
        }
    }
}

/// Returns the scope that an operation needs. `path` is the path below `/api`. An unknown operation
/// needs the widest scope.
pub(crate) fn needed(method: &str, path: &str) -> Scope {
    if [Method::GET, Method::HEAD].iter().any(|read| method == read.as_str()) {
        return Scope::Watch;
    }
    if method != Method::POST.as_str() {
        return Scope::Everything;
    }
    let parts: Vec<&str> = path.split('/').collect();
    match *parts.as_slice() {
        ["", "teams", _, "messages"]
        | ["", "teams", _, "questions", _, "answer"]
        | ["", "teams", _, "plans" | "permissions", _] => Scope::Answer,
        _ => Scope::Everything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_is_not_listed_needs_the_widest_scope() {
        for (method, path) in [
            ("POST", "/teams/work/messages/"),
            ("POST", "teams/work/messages"),
            ("PATCH", "/teams/work/messages"),
            ("POST", "/teams/work/members/messages/stop"),
            ("POST", "/teams/work/questions/q1"),
            ("OPTIONS", "/teams"),
        ] {
            assert_eq!(needed(method, path), Scope::Everything, "{method} {path}");
        }
        assert_eq!(needed("POST", "/teams/a%2Fb/messages"), Scope::Answer);
        assert_eq!(needed("HEAD", "/teams"), Scope::Watch);
        assert!(Scope::Watch < Scope::Answer && Scope::Answer < Scope::Everything);
    }
}
