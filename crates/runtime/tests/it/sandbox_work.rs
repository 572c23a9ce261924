//! Tests the sandbox profile `work` with the real kernel and with attacks. A command in this
//! profile must change only its working folder. In the working folder, it must not change files
//! that grant permissions or that run by themselves.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use pitcrew_process::sandbox::{Profile, Sandbox, Support};
use serde_json::json;

use crate::sandbox_read::{CONTACT_PRELUDE, FileState, Ground, READS, git};

/// Commands with which an agent tries to change protected files: `.git/config`, hooks, settings,
/// and files outside the working folder.
const ATTACKS: &[&str] = &[
    "echo x >> .git/config",
    "git config core.fsmonitor 'touch x'",
    "git config --worktree core.pager x",
    "rm .git/config",
    "mv .git/config .git/config2",
    "cp .git/config c && mv c .git/config",
    "ln -f kept .git/config",
    "sed -i s/x/y/ .git/config",
    "echo x > .git/hooks/post-commit",
    "mv .git/hooks .git/hooks2; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
    "rm -rf .git/hooks && mkdir .git/hooks",
    "mv .git .git2; mkdir .git; echo x > .git/config",
    "mv .git .git2 && cp -r .git2 .git && echo x >> .git/config",
    "python3 -c \"import os; os.rename('.git', 'g')\"",
    "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(316, -100, b'.git', -100, b'sub', 2)\"",
    "echo /tmp/evil > .git/commondir",
    "mkdir -p .git/modules/m && echo x > .git/modules/m/config",
    "echo x > .claude/settings.json",
    "mkdir -p .claude/hooks && echo x > .claude/hooks/h",
    "mv .claude c; mkdir .claude; echo x > .claude/settings.json",
    "ln -sfn sub .claude",
    "echo x > .envrc",
    "mkdir -p .vscode && echo x > .vscode/tasks.json",
    "echo x > .mcp.json",
    "echo x > $OUT/new",
    "echo x > ../outside/new",
    "echo x > link-out/new",
    "rm -rf $OUT",
    "touch $OUT/secret; chmod 777 $OUT/secret",
    "echo x > $HOME_/.bashrc",
    "echo x > $HOME_/.ssh/authorized_keys",
    "echo x > $HOME_/.cargo/bin/tool",
    "echo x > $HOME_/.claude/settings.json",
    "mkdir -p $HOME_/.claude/teams/t/inboxes && echo x > $HOME_/.claude/teams/t/inboxes/lead.json",
    "echo x > /etc/pitcrew-test; echo x > /usr/pitcrew-test",
    "umount .git; umount .git/config; mount -o remount,rw /; echo x >> .git/config",
    "mount -o remount,bind,rw .git/hooks; echo x > .git/hooks/x",
    "unshare -Urm sh -c 'umount .git/config; echo x >> .git/config'",
    "unshare -m sh -c 'umount -R .; echo x >> .git/config'",
    "echo x > /proc/$OTHER/root$OUT/new",
    "echo x > /proc/1/root$OUT/new; echo x > /proc/$PPID/root$OUT/new",
    "for p in /proc/[0-9]*; do echo x > $p/root$OUT/new; done",
    "nsenter -t 1 -m sh -c \"echo x > $OUT/new\"",
    "kill -9 $OTHER",
    "git -C tree config user.name mallory",
    "echo gitdir: /tmp > tree/.git",
    "echo x >> denied/key",
    "rm -r denied",
    "mknod $TMPDIR/sda b 8 0 && head -c1 $TMPDIR/sda",
    "chattr +i kept",
    "date -s 2001-01-01; hostname mallory",
    "setsid sh -c 'echo x > $OUT/new'",
    "(setsid sh -c 'sleep 0.1; echo x > .mcp.json' &) ; true",
    "rm -rf .git",
    "echo x >> .git/config; echo x > .git/commondir",
];

/// Files that do not exist at first. If a command creates one of them, pitcrew moves this file
/// away.
const APPEARING: &[&str] =
    &[".mcp.json", ".envrc", ".vscode", ".git/commondir", ".git/config.worktree", ".git/modules"];

/// Commands that must work in the sandbox profile `work`.
const WORK: &[&str] = &[
    "echo x > new && mv new newer && rm newer && mkdir -p a/b && echo x > a/b/c && mv a d && rm -r d",
    "git add -A . && git -c user.email=a@b commit -q -m second && git log --oneline | grep -q second && git status",
    "git branch other && git checkout -q other && git checkout -q - && git branch -D other && git stash list && git gc -q",
    "chmod 755 kept && touch kept && ln kept hard && rm hard",
    "test \"$(cat $HOME_/.cargo/bin/tool | head -1)\" = '#!/bin/sh' && tool | grep -q works && test -r $HOME_/../moved/settings.toml",
    "echo x > $TMPDIR/f && echo x > /tmp/g && f=$(mktemp) && mkdir -p $HOME_/.cache/x && echo x > $HOME_/.cache/x/y",
    "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname())'",
    "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"sock\"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"sock\")' && rm sock",
    "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [1, -2]))'",
    "sleep 60 & kill $! && wait $!; test $? = 143",
    "python3 -c 'import pty; pty.spawn([\"true\"])'",
    "ps -ef | wc -l && id && nproc && df . > /dev/null && test \"$PWD\" = \"$(pwd -P)\"",
    "cd tree && echo y > f && git add f && git -c user.email=a@b commit -q -m here",
];

pub(crate) fn ground() -> Option<Ground> {
    let mut ground = Ground::with(Sandbox::new);
    if let Support::Missing { reason } = ground.sandbox.support(Profile::Work) {
        eprintln!(
            "\n!!! SKIPPED: {reason}. Nothing was proved about *work* on this machine. !!!\n"
        );
        return None;
    }
    ground.setting.context.profile = Profile::Work;
    let cwd = ground.setting.context.cwd.clone();
    git(&cwd, &["init", "-q"]);
    ground.setting.write(".gitignore", "repo\ntree\ndenied\ndeep\n");
    git(&cwd, &["add", "kept", ".gitignore"]);
    git(&cwd, &["commit", "-q", "-m", "first"]);
    fs::remove_dir_all(cwd.join("tree")).unwrap();
    git(&cwd.join("repo"), &["worktree", "prune"]);
    git(&cwd, &["worktree", "add", "-q", "tree"]);
    ground.setting.write(".claude/settings.json", "{}");
    Some(ground)
}

/// Returns the files that no command is allowed to change: all files outside the working folder,
/// and the protected files in the working folder.
fn kept(ground: &Ground) -> BTreeMap<PathBuf, FileState> {
    let cwd = &ground.setting.context.cwd;
    let protected = [
        ".git/config",
        ".git/hooks",
        ".git/commondir",
        ".git/modules",
        ".claude",
        ".mcp.json",
        ".envrc",
    ];
    let protected = protected.iter().chain(&[".vscode", ".idea", "tree/.git", "denied"]);
    let protected: Vec<PathBuf> = protected.map(|name| cwd.join(name)).collect();
    let is_kept =
        |path: &PathBuf| !path.starts_with(cwd) || protected.iter().any(|it| path.starts_with(it));
    ground.files().into_iter().filter(|(path, _)| is_kept(path)).collect()
}

#[tokio::test]
async fn a_command_in_work_changes_nothing_outside_and_nothing_protected() {
    let Some(ground) = ground() else { return };
    let before = kept(&ground);
    for command in ATTACKS {
        let said = ground.bash(command).await;
        let now = kept(&ground);
        let differs: Vec<_> =
            now.iter().filter(|(path, what)| before.get(*path) != Some(what)).collect();
        let gone: Vec<_> = before.keys().filter(|path| !now.contains_key(*path)).collect();
        assert!(now == before, "{command}: {differs:?} {gone:?}: {said}");
    }
    assert!(
        fs::read_to_string(format!("/proc/{}/stat", ground.other.id())).unwrap().contains(") S")
    );
}

#[tokio::test]
async fn a_command_in_work_reads_nothing_kept() {
    let Some(ground) = ground() else { return };
    for command in READS {
        let said = ground.bash(command).await;
        assert!(!said.contains("SECRET"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_work_reaches_nobody_outside() {
    let Some(ground) = ground() else { return };
    let outside = ground.base.join("outside/unix");
    let inside = ground.setting.path("served");
    let listeners = [UnixListener::bind(&outside).unwrap(), UnixListener::bind(&inside).unwrap()];
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
    let contacts = [
        "socket.socket(socket.AF_UNIX).connect(unix)",
        "socket.socket(socket.AF_UNIX).connect(dgram)",
        "socket.create_connection(('127.0.0.1', port))",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        "os.kill(other, 0)",
        "libc_call(165, b'none', b'sub', b'tmpfs', 0, 0)",
        "libc_call(425, 4, buffer)",
        "libc_call(304, -100, 0, 0)",
        "libc_call(272, 0x10000000)",
        "libc_call(250, 0, -3, 1)",
    ];
    let mut script = String::from(CONTACT_PRELUDE);
    for (number, contact) in contacts.iter().enumerate() {
        script.push_str(&format!(
            "try:\n    {contact}\n    print('LEAK', {number})\nexcept OSError as e: print(e.errno)\n"
        ));
    }
    ground.setting.write("contacts.py", script);
    let port = tcp.local_addr().unwrap().port();
    let other = ground.other.id();
    let command =
        format!("python3 contacts.py {} {} {port} {other}", outside.display(), inside.display());
    let said = ground.bash(&command).await;
    assert_eq!(said.lines().count(), contacts.len(), "{said}");
    assert!(!said.contains("LEAK"), "{said}");
    assert!(listeners.iter().all(|listener| listener.accept().is_err()) && tcp.accept().is_err());
}

/// Programs outside the sandbox that listen on a socket in the working folder. Each entry has two
/// parts: the path through which a command tries to reach the socket, and the code that creates the
/// socket.
const LISTENING: &[(&str, &str)] = &[
    ("renamed", "s.bind(cwd + '/first'); os.rename(cwd + '/first', cwd + '/renamed')"),
    (
        "linked",
        "s.bind(cwd + '/../outside/other'); os.link(cwd + '/../outside/other', cwd + '/linked')",
    ),
    ("relative", "s.bind('relative')"),
    ("sub/deep", "s.bind('sub/first'); os.rename('sub/first', 'sub/deep')"),
    (
        "through",
        "os.symlink(cwd, cwd + '/../outside/way'); s.bind(cwd + '/../outside/way/through')",
    ),
];

#[tokio::test]
async fn a_command_in_work_reaches_no_socket_by_another_name_of_it() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (name, bind) in LISTENING {
        let script = format!(
            "import os, socket; cwd = os.getcwd(); s = socket.socket(socket.AF_UNIX); {bind}; s.listen(); print('up', flush=True); input()"
        );
        let mut server = std::process::Command::new("python3");
        server.args(["-c", &script]).current_dir(&cwd);
        server.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut up = [0; 2];
        std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut up).unwrap();
        let connect = format!(
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{name}'); print('REACHED')\" 2>&1"
        );
        let said = ground.bash(&connect).await;
        let direct = std::os::unix::net::UnixStream::connect(cwd.join(name));
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(direct.is_ok(), "{name}: it listens");
        assert!(!said.contains("REACHED") && said.contains("Error"), "{name}: {said}");
        fs::remove_file(cwd.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_command_in_work_does_its_work() {
    let Some(ground) = ground() else { return };
    for command in WORK {
        let outcome = ground.setting.call("Bash", json!({ "command": command })).await;
        assert!(!outcome.is_error, "{command}: {}", outcome.text);
    }
}

/// Commands that try to write a file into a folder outside the working folder. The sandbox must
/// refuse this. If the sandbox gave the commands a private copy of the folder, the file would be
/// lost when the command ends.
const SWALLOWING: &[&str] = &[
    "mv f ~/f.bak",
    "cp f ~/.bashrc",
    "mkdir -p ~/new/folder",
    "echo x > /run/f",
    "echo x > /mnt",
    "echo x > /var/f",
];

#[tokio::test]
async fn a_command_in_work_is_refused_where_what_it_writes_would_be_lost() {
    let Some(ground) = ground() else { return };
    for command in SWALLOWING {
        ground.setting.write("f", "f");
        let outcome = ground.setting.call("Bash", json!({ "command": command })).await;
        let is_told = outcome.is_error && outcome.text.contains("Read-only file system");
        assert!(is_told && ground.setting.path("f").exists(), "{command}: {}", outcome.text);
        assert!(
            outcome.text.contains("private folders that last until this run ends"),
            "{command}: {}",
            outcome.text
        );
    }
}

#[tokio::test]
async fn temporary_files_and_caches_last_from_command_to_command() {
    let Some(mut ground) = ground() else { return };
    ground.setting.write("g", "g");
    ground
        .bash("mv g /tmp/; echo t > $TMPDIR/t; echo v > /var/tmp/v; mkdir -p ~/.cache/c && echo c > ~/.cache/c/c")
        .await;
    let said = ground
        .bash("cat /tmp/g /tmp/t /var/tmp/v ~/.cache/c/c; echo $TMPDIR; stat -c %a /tmp")
        .await;
    assert_eq!(said, "gt\nv\nc\n/tmp\n700");
    assert!(!std::path::Path::new("/tmp/t").exists() && !ground.base.join("home/.cache").exists());
    let folder = ground.base.join("root").join("pitcrew/sandbox");
    let folder =
        if folder.exists() { folder } else { ground.base.join("home/.claude/pitcrew/sandbox") };
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    ground.setting.context.sandbox = Sandbox::default();
    ground.sandbox = Sandbox::default();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[tokio::test]
async fn no_command_replaces_the_way_to_the_working_folder_by_a_link() {
    let Some(mut ground) = ground() else { return };
    // The checks below need a working folder that is inside `/tmp`.
    let top = ground.base.iter().take(3).collect::<PathBuf>();
    assert!(top.starts_with("/tmp"), "{}", top.display());
    for command in ["mv $TOP /tmp/away", "rmdir $TOP; ln -s /etc $TOP", "ln -sfnT /etc $TOP"] {
        ground.bash(&command.replace("$TOP", &top.display().to_string())).await;
        assert_eq!(ground.bash("ls kept").await, "kept", "{command}");
    }
    // If a command has another working folder, it also has another private temporary folder.
    let other = tempfile::tempdir().unwrap();
    let cwd =
        std::mem::replace(&mut ground.setting.context.cwd, fs::canonicalize(other.path()).unwrap());
    ground.bash(&format!("ln -s /etc {}", top.display())).await;
    ground.setting.context.cwd = cwd;
    assert_eq!(ground.bash("cat kept").await, "kept");
}

#[tokio::test]
async fn what_appears_in_a_protected_place_is_put_out_of_the_way_and_said() {
    let Some(ground) = ground() else { return };
    for name in APPEARING {
        let said = ground
            .bash(&format!("mkdir -p {name} && echo x > {name}/evil || echo x > {name}"))
            .await;
        assert!(said.contains("put out of the way"), "{name}: {said}");
        assert!(fs::symlink_metadata(ground.setting.path(name)).is_err(), "{name}: {said}");
    }
    symlink("sub", ground.setting.path(".idea")).unwrap();
    let said = ground.bash("rm .idea && mkdir .idea && echo x > .idea/evil").await;
    assert!(said.contains("put out of the way"), "{said}");
    assert_eq!(fs::read_link(ground.setting.path(".idea")).unwrap(), PathBuf::from("sub"));
}

/// Names that differ from a protected name only in upper and lower case. Files with these names are
/// protected too.
const OTHER_CASE: &[&str] = &[
    ".CLAUDE",
    ".Claude",
    ".MCP.JSON",
    ".Envrc",
    ".VSCode",
    ".IDEA",
    ".GitModules",
    ".GIT",
    "sub/.CLAUDE",
    "fresh/.Mcp.Json",
];

#[tokio::test]
async fn what_appears_in_other_letters_is_put_out_of_the_way() {
    let Some(ground) = ground() else { return };
    for name in OTHER_CASE {
        let said = ground.bash(&format!("mkdir -p {name} && echo x > {name}/evil")).await;
        assert!(said.contains("put out of the way"), "{name}: {said}");
        assert!(fs::symlink_metadata(ground.setting.path(name)).is_err(), "{name}: {said}");
    }
    ground.setting.write(".Mcp.json", "mine");
    let said = ground.bash("echo evil > .Mcp.json; mv .Mcp.json x; echo more > sub/own").await;
    assert!(!said.contains("put out of the way"), "{said}");
    assert_eq!(fs::read_to_string(ground.setting.path(".Mcp.json")).unwrap(), "mine");
}

#[tokio::test]
async fn a_working_folder_does_not_become_a_repository_with_a_configuration_of_the_command() {
    let Some(mut ground) = ground() else { return };
    let made = "mkdir -p objects refs/heads; printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor=touch ran;false\\n' > config";
    let git_runs_it = |ground: &Ground| {
        let cwd = &ground.setting.context.cwd;
        let _either =
            std::process::Command::new("git").arg("status").current_dir(cwd).output().unwrap();
        fs::remove_file(cwd.join("ran")).is_ok()
    };
    for (before, command) in [
        ("", "rm .git/HEAD; echo ref: refs/heads/x > HEAD"),
        ("", "rm .git/HEAD; ln -s refs/heads/x HEAD"),
        ("HEAD", "rm .git/HEAD; echo ref: refs/heads/x > HEAD"),
    ] {
        let head = fs::read(ground.setting.path(".git/HEAD")).unwrap();
        if !before.is_empty() {
            ground.setting.write(before, "Just a file.");
        }
        let said = ground.bash(&format!("{command}; {made}")).await;
        assert!(said.contains("put out of the way"), "{command}: {said}");
        assert!(!git_runs_it(&ground), "{command}: {said}");
        fs::write(ground.setting.path(".git/HEAD"), head).unwrap();
        ground.bash("rm -rf HEAD objects refs config").await;
    }
    // The working folder can itself be a bare repository. Then the repository's configuration must
    // be protected.
    let bare = ground.setting.path("bare.git");
    git(&ground.setting.context.cwd, &["init", "-q", "--bare", "bare.git"]);
    ground.setting.context.cwd = bare;
    let said =
        ground.bash("echo x >> config; echo x > hooks/post-update; git branch -f x 2>&1; echo x > description").await;
    assert!(!fs::read_to_string(ground.setting.path("config")).unwrap().ends_with("x\n"), "{said}");
    assert!(!ground.setting.path("hooks/post-update").exists(), "{said}");
}

#[tokio::test]
async fn a_file_that_git_s_configuration_names_is_put_out_of_the_way_when_it_appears() {
    let Some(ground) = ground() else { return };
    let cwd = ground.setting.context.cwd.clone();
    for (key, value, made) in [
        ("core.fsmonitor", "./tools/fsm.sh", "tools/fsm.sh"),
        ("filter.x.clean", "tools/clean %f", "tools/clean"),
        ("diff.x.textconv", "sh -c 'exec tools/text \"$1\"'", "tools/text"),
        ("alias.go", "!tools/go", "tools/go"),
        ("core.attributesFile", "attributes-here", "attributes-here"),
        ("diff.external", "$PWD/tools/ext", "tools/ext"),
    ] {
        let value = value.replace("$PWD", &cwd.display().to_string());
        git(&cwd, &["config", key, &value]);
        let said =
            ground.bash(&format!("mkdir -p tools && echo x > {made}; echo x > tools/other")).await;
        assert!(said.contains("put out of the way") && !cwd.join(made).exists(), "{key}: {said}");
        assert!(cwd.join("tools/other").exists(), "{key}: {said}");
        git(&cwd, &["config", "--unset", key]);
        fs::remove_dir_all(cwd.join("tools")).unwrap();
    }
}

#[tokio::test]
async fn a_worktree_commits_while_its_common_git_folder_s_configuration_stays() {
    let Some(mut ground) = ground() else { return };
    let main = ground.setting.context.cwd.clone();
    ground.setting.context.cwd = main.join("tree");
    let before = kept(&ground);
    let done = ground
        .bash("echo z > f && git add f && git -c user.email=a@b commit -q -m there && git log -1 --format=%s")
        .await;
    assert_eq!(done, "there");
    for command in [
        "git config user.name mallory",
        "echo x > ../.git/hooks/post-commit",
        "echo x > ../kept",
        "echo x > ../.git/worktrees/tree/commondir",
        "echo x > .git",
        "mv ../.git/worktrees ../.git/w",
    ] {
        let said = ground.bash(command).await;
        let now = kept(&ground);
        for path in
            [".git/config", ".git/hooks", "kept", "tree/.git", ".git/worktrees/tree/commondir"]
        {
            let path = main.join(path);
            assert_eq!(
                now.get(&path).map(|it| &it.5),
                before.get(&path).map(|it| &it.5),
                "{command}: {said}"
            );
        }
        assert!(!main.join(".git/hooks/post-commit").exists(), "{said}");
    }
}

#[tokio::test]
async fn a_folder_that_holds_the_home_cannot_be_worked_in() {
    let Some(mut ground) = ground() else { return };
    ground.setting.context.cwd = ground.base.clone();
    assert!(matches!(
        ground.sandbox.support_in(Profile::Work, &ground.base),
        Support::Missing { .. }
    ));
    let said = ground.bash("touch home/.bashrc").await;
    assert!(
        said.contains("contains the home folder") && !ground.base.join("home/.bashrc").exists(),
        "{said}"
    );
}

#[tokio::test]
async fn without_bubblewrap_work_is_not_offered_and_says_why() {
    let ground = Ground::with(Sandbox::by_landlock);
    let Support::Missing { reason } = ground.sandbox.support(Profile::Work) else {
        panic!("it is offered")
    };
    assert!(reason.contains("bubblewrap"), "{reason}");
}
