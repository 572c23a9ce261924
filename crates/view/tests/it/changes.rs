//! Tests the changes of the members of a team, as a person reviews them. What git says about a
//! worktree is tested where git is called.

use std::fs;

use pitcrew_agent::transcript::{Entry, Step};
use pitcrew_model::{Block, Usage};
use pitcrew_process::worktree::Worktrees;
use pitcrew_team::TeamRecords;
use pitcrew_team::store::LogName;
use pitcrew_view::changes::{FileText, Merged, accept, comment, of_team, versions};
use serde_json::json;

use crate::host_env::teams_in;
use crate::script::name;

fn wrote(seq: u64, path: &str) -> [Entry; 2] {
    let call = format!("c{seq}");
    let input = json!({"file_path": path, "content": "x"});
    let blocks = vec![Block::tool_use(&call, "Write", input)];
    let result = Step::Result {
        call,
        text: "written".to_owned(),
        is_error: false,
        context: Vec::new(),
        seen: Vec::new(),
    };
    let answer = Step::Assistant { blocks, usage: Usage::default(), cost_usd: None, fault: None };
    [Entry { seq, step: answer }, Entry { seq: seq + 1, step: result }]
}

#[tokio::test]
async fn a_member_without_a_worktree_changed_the_files_that_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (project, team) = (base.join("project"), base.join("root/teams/probe"));
    fs::create_dir_all(project.join("src")).unwrap();
    fs::create_dir_all(&team).unwrap();
    fs::write(project.join("src/a.rs"), "fn a() {}\n").unwrap();
    let member = |name: &str, worktree: Option<&str>| {
        let mut member = json!({
            "agentId": format!("{name}@probe"), "name": name, "joinedAt": 1, "cwd": project,
            "subscriptions": [],
        });
        if let Some(worktree) = worktree {
            member["worktreePath"] = worktree.into();
        }
        member
    };
    let members = [member("bob", None), member("cat", None), member("dan", Some("/nowhere"))];
    let config = json!({
        "name": "probe", "createdAt": 1, "leadAgentId": "team-lead@probe", "members": members,
    });
    fs::write(team.join("config.json"), config.to_string()).unwrap();
    let team = teams_in(&base).open("probe").await.unwrap();
    let written = project.join("src/a.rs").display().to_string();
    let entries = wrote(1, &written).into_iter().chain(wrote(3, "/elsewhere/b.rs"));
    let lines: Vec<String> = entries.map(|entry| serde_json::to_string(&entry).unwrap()).collect();
    team.append_log(&LogName::Transcript(name("bob")), &lines).await.unwrap();

    let worktrees = Worktrees::new(&project, base.join("worktrees"));
    let all = of_team(&TeamRecords::Live(team.clone()), &worktrees).await.unwrap();
    let [bob, cat, dan] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((bob.author.as_str(), &bob.branch, &bob.failure), ("bob", &None, &None));
    assert_eq!(bob.files, ["/elsewhere/b.rs", "src/a.rs"]);
    assert!(bob.is_any() && !cat.is_any() && dan.is_any(), "{all:?}");
    assert!(dan.failure.as_ref().is_some_and(|why| !why.is_empty()), "{dan:?}");
    let both = versions(bob, "src/a.rs", &worktrees).await.unwrap();
    assert_eq!(both.after, FileText::Text("fn a() {}\n".to_owned()));
    assert!(matches!(both.before, FileText::NotShown(_)), "there is no repository: {both:?}");
    let outside = versions(bob, "/elsewhere/b.rs", &worktrees).await.unwrap();
    assert!(matches!(outside.after, FileText::NotShown(_)), "{outside:?}");
    assert!(matches!(accept(&team, bob, &worktrees).await.unwrap(), Merged::Refused { .. }));
}

#[test]
fn a_comment_names_its_place_and_quotes_the_line() {
    assert_eq!(comment("a.rs", None, "", "all of it"), "Review of a.rs:\n\nall of it");
    let text = comment("a.rs", Some(3), "+ x\u{1b}[2J\n", "why?");
    assert_eq!(text, "Review of a.rs, line 3:\n> + x\u{fffd}[2J\n\nwhy?");
    let long = comment("a.rs", Some(3), &"x".repeat(5_000), "why?");
    assert!(long.len() < 300, "{long}");
}
