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
async fn an_answer_has_a_limited_amount_of_differences_and_counts_the_other_files() {
    let (env, worktree) = with_work().await;
    for number in 0..8 {
        fs::write(worktree.join(format!("big-{number}.txt")), "line\n".repeat(200_000)).unwrap();
    }
    let answer = env.client.get("/api/teams/work/members/bob/changes").await;
    assert!(answer.body.len() < 16 << 20, "{}", answer.body.len());
    let seen = answer.of(200);
    let shown = seen["files"].as_array().unwrap().len();
    // Besides the big ones there is `a.txt`.
    assert!((2..9).contains(&shown), "{shown}");
    assert_eq!(seen["left_out"], json!(9 - shown));
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
    let told = client.get("/api/teams/work/messages").await.of(200)["entries"][0].clone();
    assert_eq!((&told["to"], &told["agent"]), (&json!(["bob"]), &json!("user")), "{told}");
    assert_eq!(told["content"], "I have merged your branch into main.");
    let none = client.get(&format!("{of_bob}/changes")).await.of(200);
    assert_eq!((&none["files"], &none["counts"]), (&json!([]), &json!([])), "{none}");
}

#[tokio::test]
async fn an_archived_team_has_the_worktree_that_was_kept_and_not_that_of_a_later_run() {
    let (env, worktree) = with_work().await;
    let team = env.teams.open("work").await.unwrap();
    let archive = env.teams.backend().archive_team(team.dir()).await.unwrap();
    let path = format!("/api/teams/{archive}/members/bob/changes");
    let kept = env.client.get(&path).await.of(200);
    assert_eq!(kept["files"][0]["path"], "a.txt", "{kept}");
    git(&env.work(), &["worktree", "remove", "--force", worktree.to_str().unwrap()]);
    git(&env.work(), &["branch", "-D", "pitcrew/work/bob"]);
    let later = env.worktrees.create("work", "bob").await.unwrap().path;
    assert_eq!(later, worktree, "it has the same place");
    fs::write(later.join("a.txt"), "of the later run\n").unwrap();
    let seen = env.client.get(&path).await.of(200);
    assert_eq!((&seen["files"], &seen["counts"]), (&json!([]), &json!([])), "{seen}");
}

#[tokio::test]
async fn ignored_files_are_no_changes_and_a_new_file_is_one() {
    let (env, worktree) = with_work().await;
    let (client, of_bob) = (&env.client, "/api/teams/work/members/bob");
    fs::write(worktree.join(".gitignore"), "target/\nCargo.lock\n").unwrap();
    git(&worktree, &["add", "."]);
    git(&worktree, &["commit", "-q", "-m", "third"]);
    fs::create_dir(worktree.join("target")).unwrap();
    fs::write(worktree.join("target/a.o"), "made").unwrap();
    fs::write(worktree.join("Cargo.lock"), "made").unwrap();
    let seen = client.get(&format!("{of_bob}/changes")).await.of(200);
    let paths = |seen: &Value| -> Vec<Value> {
        seen["files"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect()
    };
    assert_eq!(paths(&seen), [".gitignore", "a.txt"]);
    assert_eq!(seen["branch"]["uncommitted"], json!([]), "{seen}");
    let new = worktree.join("new.txt");
    fs::write(&new, "new").unwrap();
    let open = client.get(&format!("{of_bob}/changes")).await.of(200);
    assert_eq!(open["branch"]["uncommitted"], json!(["new.txt"]), "{open}");
    let body = json!({"commit": open["branch"]["commit"]});
    let refused = client.post(&format!("{of_bob}/merge"), &body).await.error(409, "changed");
    assert_eq!(refused["message"], "1 file is changed or new and not committed");
    fs::remove_file(new).unwrap();
    client.post(&format!("{of_bob}/merge"), &body).await.of(200);
}
