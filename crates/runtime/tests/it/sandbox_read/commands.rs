//! Commands that the sandbox profile `read` must stop, and commands that must still work in this
//! profile.

/// Commands that change something. They run in the working folder, and succeed without a sandbox.
/// `$OUT` is a folder beside the working folder.
pub(super) const CHANGES: &[&str] = &[
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

/// Commands that try to change something, but that change nothing in this test even without a
/// sandbox. For example, some of them need root.
pub(super) const TRIES: &[&str] = &[
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

/// Commands that print a protected file. They succeed without a sandbox. `$HOME_` is the user's
/// home folder, and `$OUT` is a folder beside the working folder.
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

/// Python code that tries to reach or harm other processes. Each attempt prints LEAK if it
/// succeeds. The variables `unix` and `dgram` are sockets of this test, `port` is a TCP port of
/// this test, and `other` is a process that this test started.
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

/// Commands that must work in the sandbox profile `read`.
pub(super) const WORK: &[&str] = &[
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
