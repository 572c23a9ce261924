//! The rights that the reference client gets at its start as a teammate of ours: the tools it may call unasked, and the rules
//! that forbid it something.
//!
//! It reads its own settings files, but not the rules of our command line, and it asks its lead only for what its own rules
//! leave open. So every deny rule of the run is given to it. Source: `docs/interop.md`, "As our teammate".

use pitcrew_protocol::tool_name::{
    BASH, SEND_MESSAGE, TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE,
};
use pitcrew_runtime::settings::{Permissions, SourcedRule};

/// The tools it works in its team with. Some models are offered the task tools only when they are named so.
const TEAM_TOOLS: [&str; 5] = [SEND_MESSAGE, TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE];

/// Gives the flags that say what it may do.
pub(crate) fn rights(denied: &[String]) -> Vec<String> {
    let mut flags = vec!["--allowedTools".to_owned()];
    flags.extend(TEAM_TOOLS.map(str::to_owned));
    if !denied.is_empty() {
        flags.push("--disallowedTools".to_owned());
        flags.extend(denied.iter().cloned());
    }
    flags
}

/// Gives the deny rules of a run in the form that counts on the client's command line.
pub(crate) fn deny_rules(permissions: &Permissions) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for rule in &permissions.deny {
        let text = with_absolute_path(rule);
        if !rules.contains(&text) {
            rules.push(text);
        }
    }
    rules
}

/// A path that begins with one slash starts at the folder of its settings, which a command line has not.
fn with_absolute_path(rule: &SourcedRule) -> String {
    let parts =
        rule.text.split_once('(').and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?)));
    match (parts, &rule.base) {
        (Some((tool, path)), Some(base))
            if tool != BASH && path.starts_with('/') && !path.starts_with("//") =>
        {
            format!("{tool}(/{}{path})", base.display())
        }
        (Some(_) | None, _) => rule.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pitcrew_runtime::settings::Layer;

    use super::*;

    fn rule(text: &str) -> SourcedRule {
        let (layer, base) = (Layer::Cli, Some(PathBuf::from("/home/ann/app")));
        SourcedRule { text: text.to_owned(), layer, origin: String::new(), base }
    }

    #[test]
    fn deny_rules_are_passed_on_once_and_with_paths_that_hold_anywhere() {
        let texts = [
            "Read(./secrets/**)",
            "Read(/keys/*)",
            "Read(//etc/shadow)",
            "Bash(/bin/rm:*)",
            "WebFetch",
        ];
        let deny = texts.into_iter().chain(["WebFetch"]).map(rule).collect();
        let given = deny_rules(&Permissions { deny, ..Permissions::default() });
        let expected = [
            "Read(./secrets/**)",
            "Read(//home/ann/app/keys/*)",
            "Read(//etc/shadow)",
            "Bash(/bin/rm:*)",
            "WebFetch",
        ];
        assert_eq!(given, expected);
    }

    #[test]
    fn the_flags_name_the_team_tools_and_no_rules_where_there_are_none() {
        assert_eq!(
            rights(&[]).join(" "),
            "--allowedTools SendMessage TaskCreate TaskGet TaskList TaskUpdate"
        );
        assert!(
            rights(&["WebFetch".to_owned()])
                .ends_with(&["--disallowedTools".to_owned(), "WebFetch".to_owned()])
        );
    }
}
