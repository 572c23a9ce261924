//! The permission flags for the reference client when it runs as a teammate of pitcrew. The flags
//! contain the tools that the client may call without asking, and the deny rules.
//!
//! The client reads its own settings files, but does not know the rules of pitcrew's command line.
//! The client asks its lead only about calls that its own rules do not decide. Therefore pitcrew
//! passes every deny rule of the run to the client. Source: `docs/interop.md`, "As our teammate".

use pitcrew_permission::settings::{Permissions, SourcedRule};
use pitcrew_protocol::tool_name::{
    BASH, SEND_MESSAGE, TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE,
};

/// The tools with which the client takes part in a team. For some models, the client offers the
/// task tools only if `--allowedTools` names them.
const TEAM_TOOLS: [&str; 5] = [SEND_MESSAGE, TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE];

/// Returns the client's permission flags for these deny rules.
pub(crate) fn rights(denied: &[String]) -> Vec<String> {
    let mut flags = vec!["--allowedTools".to_owned()];
    flags.extend(TEAM_TOOLS.map(str::to_owned));
    if !denied.is_empty() {
        flags.push("--disallowedTools".to_owned());
        flags.extend(denied.iter().cloned());
    }
    flags
}

/// Returns the deny rules of a run for the client's command line. The paths in the rules are
/// absolute, and each rule occurs once.
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

/// Makes the path in a rule absolute. In a settings file, a path with one leading slash is relative
/// to the folder of that file. On a command line there is no such folder.
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

    use pitcrew_permission::settings::Layer;

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
