//! A command in *read*, tried with the real kernel as an attacker would: it changes nothing, reads nothing kept, signals and
//! reaches nobody.
//!
//! What this machine cannot do is skipped, and said loudly.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use pitcrew_runtime::gate::Gate;
use pitcrew_runtime::sandbox::{Machine, Profile, Sandbox, Support};
use pitcrew_runtime::settings::{Layer, Settings};
use pitcrew_runtime::tools::ToolContext;
use serde_json::json;

use crate::tools_env::TestEnv;

/// Changes that work where nothing holds a command, from the working folder; `$OUT` is a folder beside it.
const CHANGES: &[&str] = &[
    "echo x > new",
    "echo x >> kept",
    ": > kept",
    "truncate -s 0 kept",
    "rm kept",
    "rm -rf sub",
    "mkdir made",
    "rmdir empty",
    "mv kept moved",
    "mv sub/inner .",
    "ln kept hard",
    "ln -s kept soft",
    "mkfifo pipe",
    "cp kept copy",
    "chmod 600 kept",
    "chmod -R a+w sub",
    "touch -d 2001-01-01 kept",
    "touch -h -d 2001-01-01 link",
    "sed -i s/k/x/ kept",
    "sort -o kept kept",
    "dd if=/dev/zero of=kept bs=1 count=1 conv=notrunc",
    "git -C repo commit -q --allow-empty -m x",
    "git -C repo config user.name mallory",
    "git -C repo branch other",
    "git init -q fresh",
    "tar cf archive.tar kept",
    "tar xf packed.tar",
    "install -m 755 kept program",
    "rsync -a kept copied || cp kept copied",
    "find . -name kept -delete",
    "find . -name kept -exec rm {} +",
    "xargs rm < list",
    "tee kept < /dev/null",
    "awk 'BEGIN { print \"x\" > \"new\" }'",
    "perl -e 'open F, \">new\"'",
    "bash -c 'echo x > new'",
    "env sh -c 'echo x > new'",
    "./script",
    "setsid -w sh -c 'echo x > new'",
    "nohup sh -c 'echo x > new' > /dev/null",
    "echo x > $OUT/new",
    "echo x > ../outside/new",
    "echo x > link-out/new",
    "echo x | tee -a /proc/self/cwd/kept",
    "echo x > /proc/self/root$PWD/kept",
    "exec 3< . && cd /proc/self/fd/3 && echo x > new",
    "python3 -c \"import os; os.rename('kept', 'moved')\"",
    "python3 -c \"import os; os.link('kept', 'hard')\"",
    "python3 -c \"import os; os.chmod('kept', 0)\"",
    "python3 -c \"import os; os.utime('kept', (1, 1))\"",
    "python3 -c \"import os; os.utime(os.open('kept', os.O_RDONLY), (1, 1))\"",
    "python3 -c \"import os; os.fchmod(os.open('kept', os.O_RDONLY), 0)\"",
    "python3 -c \"import os; os.truncate('kept', 0)\"",
    "python3 -c \"import os; os.open('kept', os.O_RDONLY | os.O_TRUNC)\"",
    "python3 -c \"import os; os.mknod('node')\"",
    "python3 -c \"import os; os.symlink('kept', 'soft')\"",
    "python3 -c \"import sqlite3; sqlite3.connect('db').execute('create table t (x)')\"",
    "python3 -c \"import shutil; shutil.copytree('sub', 'copied')\"",
];

/// Tries that need rights of root, or that nothing comes of here where nothing holds a command.
const TRIES: &[&str] = &[
    "chown 1:1 kept",
    "python3 -c \"import os; f = os.open('.', os.O_TMPFILE | os.O_RDWR); os.link(f'/proc/self/fd/{f}', 'new', follow_symlinks=True)\"",
    "chattr +i kept; chattr +a kept",
    "mount -t tmpfs none sub && echo x > new",
    "mount --bind $OUT sub; echo x > sub/new",
    "unshare -rm sh -c 'mount -t tmpfs none sub; echo x > kept'",
    "unshare -m sh -c 'echo x > kept'",
    "unshare -U sh -c 'echo x > kept'",
    "chroot . /bin/sh -c 'echo x > /kept'",
    "nsenter -t 1 -m sh -c \"echo x > $PWD/kept\"",
    "nsenter -t $OTHER -m sh -c \"echo x > $PWD/kept\"",
    "echo x > /proc/$PPID/root$PWD/kept",
    "echo x > /proc/$OTHER/root$PWD/kept",
    "echo x > /proc/1/root$PWD/kept",
    "echo x > /proc/$OTHER/cwd/kept",
    "mknod sda b 8 0",
    "mknod $TMPDIR/sda b 8 0 && head -c1 $TMPDIR/sda",
    "gdb -p $OTHER -batch -ex 'call (int)unlink(\"kept\")'",
    "ln -s $PWD/kept $TMPDIR/l && echo x > $TMPDIR/l",
    "ln kept $TMPDIR/hard && echo x > $TMPDIR/hard",
    "mv kept $TMPDIR/",
    "mv $TMPDIR ./moved",
    "swapoff -a; sysctl -w kernel.hostname=x; echo x > /proc/sys/kernel/domainname",
    "hostname mallory",
    "date -s 2001-01-01",
    "dmesg > $TMPDIR/d && test -s $TMPDIR/d && echo LEAK",
    "head -c 64 /proc/kcore > $TMPDIR/k && test -s $TMPDIR/k && echo LEAK",
    "head -c 1 /dev/sda /dev/vda /dev/nvme0n1 /dev/mem /dev/kmsg 2> /dev/null | grep -q . && echo LEAK",
    "ipcmk -M 4096 && echo LEAK",
    "keyctl add user k v @u && echo LEAK",
];

/// What reads something kept, `$HOME_` being the user's home and `$OUT` a folder beside; each prints it where nothing holds a
/// command.
pub(crate) const READS: &[&str] = &[
    "cat $HOME_/.ssh/id_rsa",
    "cat $HOME_/notes",
    "cat $HOME_/.cargo/credentials.toml",
    "cat $HOME_/../moved/credentials.toml",
    "cat $HOME_/../moved/config.toml",
    "cat $HOME_/.config/gh/hosts.yml",
    "cat $HOME_/.nvm/versions/node/*/etc/npmrc; cat $HOME_/miniconda3/.condarc",
    "cat $HOME_/.pyenv/versions/*/pip.conf; cat $HOME_/go/pkg/mod/cache/vcs/*/config",
    "cat $HOME_/.cargo/git/db/*/FETCH_HEAD; cat $HOME_/.local/share/pnpm/global/5/.npmrc",
    "cat $HOME_/.rbenv/x/.gem/credentials; grep -r . $HOME_/.asdf",
    "cat $HOME_/.gitconfig",
    "cat $OUT/secret",
    "cat link-out/secret",
    "cat link-key",
    "cat ../outside/secret",
    "cat /proc/self/root$OUT/secret",
    "cat /proc/self/cwd/../outside/secret",
    "cat denied/key",
    "cat deep/er/.env",
    "cat link-env",
    "grep -r SECRET denied deep/er/.env",
    "cd denied && cat key",
    "ln -s $OUT/secret $TMPDIR/s; cat $TMPDIR/s $OUT/secret",
    "cp $OUT/secret $TMPDIR/c; cat $TMPDIR/c $OUT/secret",
    "git -C $OUT config -f secret --list; cat $OUT/secret",
    "python3 -c \"print(open('$OUT/secret').read())\"",
    "tar cO -C $OUT secret",
    "diff --from-file=$OUT/secret kept",
    "find $OUT -type f -exec cat {} +",
    "tr '\\0' '\\n' < /proc/$OTHER/environ | grep SECRET",
    "cat /proc/$OTHER/cwd/secret",
    "ls $HOME_ | grep notes-SECRET",
    "bash -c 'exec 3< $OUT/secret; cat <&3'",
    "xxd -r -p <(xxd -p $OUT/secret) 2> /dev/null || cat $OUT/secret",
    "env | grep SECRET",
];

/// Attempts to reach or harm others, in python: each prints LEAK when it got through. `unix` and `dgram` are sockets of this
/// test, `port` its TCP port, `other` a process of it.
pub(crate) const CONTACTS: &[&str] = &[
    "s = socket.socket(socket.AF_UNIX); s.connect(unix)",
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', dgram)",
    "s = socket.socket(); s.connect(('127.0.0.1', port))",
    "s = socket.socket(socket.AF_INET6)",
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', port))",
    "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "s = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', dgram)",
    "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW); a.sendto(b'x', dgram)",
    "a, b = socket.socketpair(); a.connect(unix)",
    "a, b = socket.socketpair(); a.bind(tmp + '/bound')",
    "a, b = socket.socketpair(); b.close(); a.connect(unix)",
    "os.kill(other, 0)",
    "os.kill(other, 9)",
    "os.kill(os.getppid(), 0)",
    "os.kill(1, 0)",
    "os.killpg(os.getpgid(other), 0)",
    "signal.pidfd_send_signal(os.pidfd_open(other), 0)",
    "f = os.open(tmp + '/f', os.O_CREAT | os.O_RDWR); fcntl.fcntl(f, fcntl.F_SETOWN, other)",
    "resource.prlimit(other, resource.RLIMIT_CPU, (1, 1))",
    "os.setpriority(os.PRIO_PROCESS, other, 19)",
    "os.sched_setaffinity(other, {0})",
    "os.setxattr('kept', b'user.x', b'x')",
    "os.removexattr('kept', b'user.x')",
    "libc_call(101, 16, other, 0, 0)",      // ptrace(PTRACE_ATTACH)
    "libc_call(310, other, 0, 0, 0, 0, 0)", // process_vm_readv
    "libc_call(438, os.pidfd_open(other), 0, 0)", // pidfd_getfd
    "libc_call(304, -100, 0, 0)",           // open_by_handle_at
    "libc_call(303, -100, b'kept', buffer, buffer, 0)", // name_to_handle_at
    "libc_call(425, 4, buffer)",            // io_uring_setup
    "libc_call(435, buffer, 88)",           // clone3
    "libc_call(272, 0x10000000)",           // unshare(CLONE_NEWUSER)
    "libc_call(56, 0x10000000 | 17, 0, 0, 0, 0)", // clone(CLONE_NEWUSER)
    "libc_call(308, os.open('/proc/self/ns/net', 0), 0)", // setns
    "libc_call(165, b'none', b'sub', b'tmpfs', 0, 0)", // mount
    "libc_call(430, b'tmpfs', 0)",          // fsopen
    "libc_call(428, -100, b'sub', 1)",      // open_tree
    "libc_call(321, 0, buffer, 120)",       // bpf
    "libc_call(298, buffer, 0, -1, -1, 0)", // perf_event_open
    "libc_call(323, 0)",                    // userfaultfd
    "libc_call(250, 0, -3, 1)",             // keyctl
    "libc_call(135, 0x0400000)",            // personality(READ_IMPLIES_EXEC)
    "libc_call(29, 0x7357, 4096, 0o1666)",  // shmget
    "libc_call(240, b'mallory', 0o102, 0o600, 0)", // mq_open
    "libc_call(0x40000000 | 39)",           // getpid of x32
    "libc_call(600)",                       // a call that no kernel has yet
    "fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')",
    "fcntl.ioctl(os.open('kept', os.O_RDONLY), 0x40086602, struct.pack('l', 16))",
];

pub(crate) const CONTACT_PRELUDE: &str = "
import os, socket, signal, fcntl, resource, ctypes, struct, sys
unix, dgram, port, other = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tmp = os.environ['TMPDIR']
buffer = ctypes.create_string_buffer(4096)
libc = ctypes.CDLL(None, use_errno=True)
def libc_call(*arguments):
    if libc.syscall(*[a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in arguments]) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
";

/// What a command in *read* must be able to do.
const WORK: &[&str] = &[
    "cat kept && ls -la && test -r sub/inner",
    "head -c 4 /dev/zero > /dev/null && head -c 4 /dev/urandom | wc -c",
    "echo x > $TMPDIR/a && cat $TMPDIR/a && mkdir $TMPDIR/d && mv $TMPDIR/a $TMPDIR/d/ && rm -r $TMPDIR/d",
    "f=$(mktemp) && echo x > $f && sort $f",
    "git -C repo log --oneline && git -C repo status --short && git -C repo diff && git -C repo show HEAD:f",
    "git -C tree log --oneline && git -C tree status --short",
    "git config --global user.name | grep -q Known",
    "grep -rn kept . --include=kept && find . -name inner",
    "python3 -c 'import json, multiprocessing, subprocess; print(subprocess.check_output([\"true\"]))'",
    "python3 -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
    "sleep 60 & kill $! && wait $! ; test $? = 143",
    "timeout 5 true && (exit 0) && echo a | cat | tee /dev/null | wc -l",
    "bash -c 'cat <(echo a) <<< b'",
    "cat <<E\nx\nE",
    "ps -o pid= -p $$ && nproc && uname -a && id && date",
    "diff <(echo a) <(echo a) && cmp kept kept && file kept; stat kept; wc -l kept; true",
    "tool | grep -q works",
    "ls $HOME_/.cargo/bin",
    "grep -q stable $HOME_/../moved/settings.toml",
    "test ! -w kept || ! echo x 2> /dev/null >> kept",
    "a=$(python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))') && test -n \"$a\"",
    "trap 'echo got' TERM; kill -TERM $$",
    "ulimit -c 0; nice true",
];

/// What lies in the home, and beside the working folder.
const HOME_FILES: &[(&str, &str)] = &[
    ("home/.ssh/id_rsa", "SECRET"),
    ("home/notes", "SECRET"),
    ("home/notes-SECRET", ""),
    ("home/.cargo/credentials.toml", "SECRET"),
    ("home/.cargo/bin/tool", "#!/bin/sh\necho works"),
    ("home/.config/gh/hosts.yml", "SECRET"),
    ("home/.nvm/versions/node/v20/etc/npmrc", "SECRET"),
    ("home/miniconda3/.condarc", "SECRET"),
    ("home/.pyenv/versions/3.12/pip.conf", "SECRET"),
    ("home/go/pkg/mod/cache/vcs/0a/config", "url = https://u:SECRET@git.example/x"),
    ("home/.cargo/git/db/x/FETCH_HEAD", "0a of https://u:SECRET@git.example/x"),
    ("home/.local/share/pnpm/global/5/.npmrc", "SECRET"),
    ("home/.rbenv/x/.gem/credentials", "SECRET"),
    ("home/.asdf/plugins/p/.env", "SECRET"),
    ("home/.gitconfig", "[user]\nname = Known\nemail = k@x\n[credential]\nhelper = SECRET\n"),
    ("outside/secret", "SECRET"),
    // A toolchain that a variable names, as `RUSTUP_HOME` does.
    ("moved/settings.toml", "default_toolchain = 'stable'"),
    ("moved/credentials.toml", "SECRET"),
    ("moved/config.toml", "[registry]\ntoken = 'SECRET'"),
];

/// Mode, owner, times, links and content.
pub(crate) type FileState = (u32, u32, i64, i64, u64, Vec<u8>);

/// A working folder with things beside it, and a home.
pub(crate) struct Ground {
    pub(crate) setting: TestEnv,
    pub(crate) base: PathBuf,
    pub(crate) sandbox: Sandbox,
    pub(crate) other: Child,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _gone = self.other.kill();
        let _reaped = self.other.wait();
    }
}

/// The program that gives up its rights inside of bubblewrap: an example of this crate.
pub(crate) fn inner() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let inner = deps.ancestors().nth(2).unwrap().join("examples/sandbox_exec");
    assert!(inner.is_file(), "{} is built with the tests", inner.display());
    inner
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let output =
        Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

impl Ground {
    /// The ground, where this machine holds *read*.
    pub(crate) fn new() -> Option<Self> {
        let ground = Self::with(Sandbox::new);
        if let Support::Missing { reason } = ground.sandbox.support(Profile::Read) {
            eprintln!(
                "\n!!! SKIPPED: {reason}. Nothing was proved about *read* on this machine. !!!\n"
            );
            return None;
        }
        Some(ground)
    }

    pub(crate) fn with(sandbox: impl FnOnce(Machine) -> Sandbox) -> Self {
        let mut setting = TestEnv::new();
        let base = setting.context.cwd.parent().unwrap().to_path_buf();
        let home = base.join("home");
        for folder in [
            "home/.ssh",
            "home/.config/gh",
            "home/.cargo/bin",
            "home/bin",
            "home/.claude",
            "outside",
            "moved",
        ] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        HOME_FILES.iter().for_each(|(file, text)| write(&base.join(file), text));
        fs::set_permissions(base.join("home/.cargo/bin/tool"), fs::Permissions::from_mode(0o755))
            .unwrap();
        for (file, text) in [
            ("kept", "kept\n"),
            ("list", "kept\n"),
            ("sub/inner", "kept"),
            ("denied/key", "SECRET"),
            ("deep/er/.env", "SECRET"),
            ("script", "#!/bin/sh\necho x > new\n"),
            ("repo/f", "x"),
        ] {
            setting.write(file, text);
        }
        let cwd = setting.context.cwd.clone();
        fs::set_permissions(cwd.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(cwd.join("empty")).unwrap();
        symlink("kept", cwd.join("link")).unwrap();
        symlink("../outside", cwd.join("link-out")).unwrap();
        symlink(home.join(".ssh/id_rsa"), cwd.join("link-key")).unwrap();
        symlink("deep/er/.env", cwd.join("link-env")).unwrap();
        assert!(
            Command::new("tar")
                .args(["cf", "packed.tar", "sub"])
                .current_dir(&cwd)
                .status()
                .unwrap()
                .success()
        );
        git(&cwd.join("repo"), &["init", "-q"]);
        git(&cwd.join("repo"), &["add", "f"]);
        git(&cwd.join("repo"), &["commit", "-q", "-m", "first"]);
        // Its git folder lies outside of the working folder.
        git(&cwd.join("repo"), &["worktree", "add", "-q", "../tree"]);
        let mut other = Command::new("sleep");
        other.arg("1000").env("SECRET", "SECRET").current_dir(base.join("outside"));
        let other = other.process_group(0).spawn().unwrap();
        let path = std::env::var("PATH").unwrap();
        let tools = home.join(".cargo/bin");
        setting.context.env.extend([
            ("HOME_".to_owned(), home.display().to_string()),
            ("HOME".to_owned(), home.display().to_string()),
            ("OUT".to_owned(), base.join("outside").display().to_string()),
            ("OTHER".to_owned(), other.id().to_string()),
            ("PATH".to_owned(), format!("{path}:{}", tools.display())),
            ("FORGE_TOKEN".to_owned(), "SECRET".to_owned()),
            ("ANTHROPIC_API_KEY".to_owned(), "SECRET".to_owned()),
        ]);
        let named = [
            "DBPASS",
            "MYSQL_PWD",
            "GH_PAT",
            "JWT",
            "KEY",
            "STRIPE_SK",
            "SENTRY_DSN",
            "CONNECTION_STRING",
        ];
        setting.context.env.extend(named.map(|name| (name.to_owned(), "SECRET".to_owned())));
        let proxied = ["HTTPS_PROXY", "PIP_INDEX_URL", "UV_INDEX", "BROKER", "DBURL"];
        setting
            .context
            .env
            .extend(proxied.map(|name| (name.to_owned(), "any://me:SECRET@host/x".to_owned())));
        setting.context.env.retain(|(name, _)| name != "GIT_CONFIG_GLOBAL");
        let settings = json!({"permissions": {"deny": ["Read(./denied/**)", "Read(**/.env)"]}});
        let settings = Settings::merge(vec![(Layer::User, settings)]).unwrap();
        setting.context.gate = Arc::new(Gate::from_settings(&settings, Some(&home)).unwrap());
        let machine = Machine {
            root: home.join(".claude"),
            temporary: tempfile::env::temp_dir(),
            path: std::env::split_paths(&path).chain([tools]).collect(),
            toolchains: vec![base.join("moved")],
            home: Some(home),
            inner: Some(vec![inner().into_os_string()]),
            ..Machine::default()
        };
        setting.context.profile = Profile::Read;
        let sandbox = sandbox(machine);
        setting.context.sandbox = sandbox.clone();
        Self { setting, base, sandbox, other }
    }

    fn freely(&self) -> ToolContext {
        ToolContext { sandbox: Sandbox::default(), ..self.setting.context.clone() }
    }

    pub(crate) async fn bash(&self, command: &str) -> String {
        self.setting.call("Bash", json!({ "command": command })).await.text
    }

    /// All there is outside of the root: what it is, when it was changed, and what it holds.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, FileState> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.base.clone()];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() && path != self.base.join("home/.claude") {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let what = (
                metadata.mode(),
                metadata.uid(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.nlink(),
                content,
            );
            found.insert(path, what);
        }
        found
    }
}

#[tokio::test]
async fn the_changes_succeed_where_nothing_holds_a_command() {
    for change in CHANGES {
        let ground = Ground::with(|_| Sandbox::default());
        let before = ground.files();
        let said = ground
            .setting
            .call_as(&ground.freely(), "Bash", json!({ "command": change }))
            .await
            .text;
        assert!(ground.files() != before, "{change}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_read_changes_nothing() {
    let Some(ground) = Ground::new() else { return };
    let before = ground.files();
    for command in CHANGES.iter().chain(TRIES) {
        let said = ground.bash(command).await;
        assert!(!said.contains("LEAK"), "{command}: {said}");
        let now = ground.files();
        let differs =
            now.iter().filter(|(path, what)| before.get(*path) != Some(what)).map(|(path, _)| path);
        assert!(now == before, "{command}: {:?}: {said}", differs.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_command_in_read_reads_nothing_kept() {
    let Some(ground) = Ground::new() else { return };
    for command in READS {
        // It has no private folder, and must not write where $TMPDIR is nothing.
        let free = format!("TMPDIR=$HOME_; {command}");
        let freely =
            ground.setting.call_as(&ground.freely(), "Bash", json!({ "command": free })).await.text;
        assert!(freely.contains("SECRET"), "{command}: {freely}");
        let said = ground.bash(command).await;
        assert!(!said.contains("SECRET"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_read_reaches_and_signals_nobody() {
    let Some(ground) = Ground::new() else { return };
    let (unix, dgram) = (ground.base.join("unix"), ground.base.join("dgram"));
    let listener = UnixListener::bind(&unix).unwrap();
    let datagrams = UnixDatagram::bind(&dgram).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let mut script = String::from(CONTACT_PRELUDE);
    for (number, contact) in CONTACTS.iter().enumerate() {
        let indented = contact.replace('\n', "\n    ");
        script.push_str(&format!(
            "try:\n    {indented}\n    print('LEAK', {number})\nexcept OSError as e: print(e.errno)\n"
        ));
    }
    ground.setting.write("contacts.py", script);
    let port = tcp.local_addr().unwrap().port();
    let command = format!(
        "python3 contacts.py {} {} {port} {}",
        unix.display(),
        dgram.display(),
        ground.other.id()
    );
    let said = ground.bash(&command).await;
    assert_eq!(said.lines().count(), CONTACTS.len(), "{said}");
    let through: Vec<_> =
        said.lines().zip(CONTACTS).filter(|(line, _)| line.starts_with("LEAK")).collect();
    assert!(through.is_empty(), "{through:#?}");
    assert!(
        listener.accept().is_err() && tcp.accept().is_err() && datagrams.recv(&mut [0; 1]).is_err()
    );
    assert!(
        fs::read_to_string(format!("/proc/{}/stat", ground.other.id())).unwrap().contains(") S")
    );
}

#[tokio::test]
async fn a_command_in_read_does_its_work() {
    let Some(ground) = Ground::new() else { return };
    for command in WORK {
        let outcome = ground.setting.call("Bash", json!({ "command": command })).await;
        assert!(!outcome.is_error, "{command}: {}", outcome.text);
        assert!(
            !outcome.text.contains("ermission denied") && !outcome.text.contains("not permitted"),
            "{command}: {}",
            outcome.text
        );
    }
}

#[tokio::test]
async fn git_in_read_takes_no_loose_files_for_a_repository_and_asks_no_program() {
    let Some(ground) = Ground::new() else { return };
    let cwd = &ground.setting.context.cwd;
    git(&cwd.join("repo"), &["clone", "-q", "--bare", ".", "../bare"]);
    git(&cwd.join("bare"), &["config", "core.fsmonitor", "touch asked"]);
    let said = ground.bash("cd bare && git log").await;
    assert!(said.contains("cannot use bare repository"), "{said}");
    assert_eq!(ground.bash("cd repo && git config core.fsmonitor").await, "false");
    assert!(ground.bash("cd repo && git log --oneline").await.contains("first"));
}

#[tokio::test]
async fn the_temporary_folder_lasts_from_command_to_command_until_the_run_ends() {
    let Some(mut ground) = Ground::new() else { return };
    let first = ground
        .bash("echo $TMPDIR; echo x > $TMPDIR/f; mkdir -m 000 $TMPDIR/closed; stat -c %a $TMPDIR")
        .await;
    let first: Vec<_> = first.lines().collect();
    assert_eq!(first[1], "700");
    assert_eq!(
        ground.bash("echo $TMPDIR; ls -A $TMPDIR; cat $TMPDIR/f").await,
        format!("{}\nclosed\nf\nx", first[0])
    );
    let folder = ground.base.join(first[0].strip_prefix("ROOT/").unwrap());
    assert!(folder.join("f").exists());
    ground.setting.context.sandbox = Sandbox::default();
    ground.sandbox = Sandbox::default();
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_denied_file_that_is_made_later_is_denied_too() {
    let Some(ground) = Ground::new() else { return };
    assert_eq!(ground.bash("cat kept").await, "kept");
    ground.setting.write("sub/deeper/.env", "SECRET");
    let said = ground.bash("cat sub/deeper/.env").await;
    assert!(!said.contains("SECRET"), "{said}");
    fs::rename(ground.setting.path("sub/deeper/.env"), ground.setting.path("sub/plain")).unwrap();
    assert_eq!(ground.bash("cat sub/plain").await, "SECRET");
}

#[tokio::test]
async fn a_ruleset_made_before_names_changed_hands_is_not_used() {
    let Some(ground) = Ground::new() else { return };
    let path = |name: &str| ground.setting.path(name);
    ground.setting.write("deep/er/plain", "OPEN");
    // Until its time is settled nothing is kept for the folder.
    let changed = fs::metadata(path("deep/er")).unwrap().modified().unwrap();
    while changed.elapsed().is_ok_and(|age| age < std::time::Duration::from_millis(200)) {
        assert_eq!(ground.bash("cat deep/er/plain").await, "OPEN");
    }
    let said = ground.bash("cat deep/er/plain; cat deep/er/.env").await;
    assert!(said.contains("OPEN") && !said.contains("SECRET"), "{said}");
    // The names that are denied are the same as before, and the files are not.
    fs::rename(path("deep/er/.env"), path("deep/er/other")).unwrap();
    fs::rename(path("deep/er/plain"), path("deep/er/.env")).unwrap();
    fs::rename(path("deep/er/other"), path("deep/er/plain")).unwrap();
    let said = ground.bash("cat deep/er/plain; cat deep/er/.env").await;
    assert!(said.contains("SECRET") && !said.contains("OPEN"), "{said}");
    // A file that comes is seen, and so is another folder in the place of one.
    ground.setting.write("deep/er/new", "NEW");
    assert_eq!(ground.bash("cat deep/er/new").await, "NEW");
    fs::rename(path("deep"), path("sub/deep")).unwrap();
    ground.setting.write("deep/er/plain", "ANOTHER");
    assert_eq!(ground.bash("cat deep/er/plain").await, "ANOTHER");
    let said = ground.bash("cat sub/deep/er/plain; cat sub/deep/er/.env").await;
    assert!(said.contains("SECRET") && !said.contains("OPEN"), "{said}");
}

#[tokio::test]
async fn a_private_folder_is_closed_to_other_commands() {
    let Some(ground) = Ground::new() else { return };
    let own = ground.bash("echo $TMPDIR").await;
    let own = ground.base.join(own.trim().strip_prefix("ROOT/").unwrap());
    let other = own.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("f"), "SECRET").unwrap();
    for attempt in [
        "cat $ALL/other/f",
        "ls $ALL $ALL/other",
        "echo x > $ALL/other/f",
        "rm $ALL/other/f",
        "mkdir $ALL/new",
    ] {
        let said = ground.bash(&format!("ALL=$(dirname $TMPDIR); {attempt}")).await;
        assert!(said.contains("ermission denied"), "{attempt}: {said}");
    }
    assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "SECRET");
    assert!(!own.parent().unwrap().join("new").exists());
}

#[tokio::test]
async fn a_command_in_read_is_not_started_where_nothing_holds_it() {
    let ground = Ground::with(Sandbox::by_nothing);
    assert!(matches!(ground.sandbox.support(Profile::Read), Support::Missing { .. }));
    let said = ground.bash("echo ran").await;
    assert!(said.contains("could not be run") && !said.contains("\nran"), "{said}");
}
