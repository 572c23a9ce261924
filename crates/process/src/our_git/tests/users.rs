//! Filters of the user's own configuration.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::super::programs::Programs;
use super::{Guard, Layer, Scene, commit, git};

#[tokio::test]
async fn a_filter_of_the_user_works_with_its_network_and_its_files_also_confined() {
    for guard in [Guard::Both, Guard::FirstAlone] {
        let scene = Scene::new();
        if !guard.can_be_tried(&scene) {
            continue;
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        // As git-lfs does, it downloads, stores files in the git folder, and uses a temporary one.
        let filter = scene.base.join("store.sh");
        let text = format!(
            "#!/bin/bash\nset -e\nexec 3<>/dev/tcp/127.0.0.1/{port}\necho hello >&3\nexec 3>&-\n\
             mkdir -p \"$(git rev-parse --git-common-dir)/store\"\necho > \"$TMPDIR/x\"\nsed s/^/full-/\n"
        );
        fs::write(&filter, text).unwrap();
        fs::set_permissions(&filter, fs::Permissions::from_mode(0o755)).unwrap();
        let config =
            format!("[filter \"store\"]\n\tsmudge = {}\n\trequired = true\n", filter.display());
        fs::write(scene.home.join(".gitconfig"), config).unwrap();
        fs::write(scene.repository.join(".gitattributes"), "*.big filter=store\n").unwrap();
        commit(&scene.repository, "movie.big");
        // The repository names another program for the same filter.
        git(&scene.repository, &format!("config filter.store.smudge {}", scene.program()));
        let worktrees = scene.worktrees(guard.git(&scene, Layer::Settings));
        let worktree = worktrees.create("probe", "worker").await.unwrap();
        let text = fs::read_to_string(worktree.path.join("movie.big")).unwrap();
        assert_eq!(text, "full-movie.big", "{guard:?}");
        assert_eq!(heard.join().unwrap(), "hello\n", "{guard:?}");
        assert!(scene.repository.join(".git/store").is_dir(), "{guard:?}");
        assert_eq!(fs::read_to_string(scene.home.join(".bashrc")).unwrap(), super::START_FILE);
    }
}

#[test]
fn settings_of_the_repository_become_those_of_the_user_or_nothing() {
    let listed: String = [
        ("global", "credential.helper", "store"),
        ("global", "credential.https://x.helper", "mine"),
        ("global", "filter.lfs.clean", "git-lfs clean -- %f"),
        ("local", "credential.helper", "evil"),
        ("local", "filter.lfs.clean", "evil"),
        ("local", "filter.a.b.c.process", "evil"),
        ("worktree", "lfs.customtransfer.x.path", "evil"),
        ("local", "core.sshcommand", "evil"),
        ("local", "hook.x.command", "evil"),
        ("local", "diff.x.textconv", "evil"),
    ]
    .map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0"))
    .concat();
    let programs = Programs::of(listed.as_bytes());
    assert!(programs.has_users_filters() && programs.unknown().is_none());
    let settings: Vec<String> = programs
        .into_settings()
        .map(|(key, value)| format!("{} = {}", key.display(), value.display()))
        .collect();
    assert_eq!(
        settings,
        [
            "core.sshcommand = ",
            "filter.a.b.c.process = ",
            "filter.lfs.clean = git-lfs clean -- %f",
            "hook.x.enabled = false",
            "lfs.customtransfer.x.path = ",
            "credential.helper = ",
            "credential.helper = store",
            "credential.https://x.helper = mine",
        ]
    );
}
