//! The review of a member's worktree: its differences, and the merge of what was shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::server_env::ServerEnv;

fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args).current_dir(folder);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A team whose member bob has a worktree with one commit. Returns the worktree's folder too.
async fn with_work() -> (ServerEnv, std::path::PathBuf) {
    let env = ServerEnv::new().await;
    let work = env.work();
    fs::write(work.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    env.team("work", &["bob"]).await;
    let worktree = env.worktrees.create("work", "bob").await.unwrap().path;
    let config = env.root().join("teams/work/config.json");
    let mut team: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    team["members"][1]["worktreePath"] = json!(worktree);
    fs::write(&config, team.to_string()).unwrap();
    fs::write(worktree.join("a.txt"), "one\n2\nthree\n").unwrap();
    git(&worktree, &["commit", "-q", "-a", "-m", "second"]);
    (env, worktree)
}

#[tokio::test]
async fn what_was_shown_is_merged_and_nothing_else() {
    let (env, worktree) = with_work().await;
    let (client, of_bob) = (&env.client, "/api/teams/work/members/bob");
    let seen = client.get(&format!("{of_bob}/changes")).await.of(200);
    let file = &seen["files"][0];
    assert_eq!((&file["path"], &file["status"]), (&json!("a.txt"), &json!("changed")), "{seen}");
    assert_eq!(file["diff"], "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    assert_eq!((&seen["branch"]["ahead"], &seen["left_out"]), (&json!(1), &json!(0)));
    let counts = json!([{"member": "bob", "files": 1}]);
    assert_eq!(seen["counts"], counts);
    let of_lead = client.get("/api/teams/work/members/team-lead/changes").await.of(200);
    assert_eq!((&of_lead["files"], &of_lead["counts"]), (&json!([]), &counts));
    fs::write(worktree.join("a.txt"), "one\n2\n3\n").unwrap();
    git(&worktree, &["commit", "-q", "-a", "-m", "third"]);
    let merge = |commit: Value| {
        let body = json!({"commit": commit});
        async move { client.post(&format!("{of_bob}/merge"), &body).await }
    };
    let stale = merge(seen["branch"]["commit"].clone()).await.error(409, "changed");
    assert_eq!(fs::read_to_string(env.work().join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    let now = client.get(&format!("{of_bob}/changes")).await.of(200);
    assert_eq!(stale["details"]["commit"], now["branch"]["commit"]);
    let merged = merge(now["branch"]["commit"].clone()).await.of(200);
    assert_eq!(merged, json!({"success": true, "branch": "main"}));
    assert_eq!(fs::read_to_string(env.work().join("a.txt")).unwrap(), "one\n2\n3\n");
    let none = client.get(&format!("{of_bob}/changes")).await.of(200);
    assert_eq!((&none["files"], &none["counts"]), (&json!([]), &json!([])), "{none}");
}
