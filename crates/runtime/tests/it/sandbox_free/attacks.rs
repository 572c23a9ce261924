//! Commands that attack the files of a team.

/// Attacks that an agent could try from the working folder. Each attack succeeds without a sandbox.
/// `$ROOT` is pitcrew's root folder, and `$OTHER` is the id of a process outside the sandbox.
const ATTACKS: &[&str] = &[
    "echo forged > $ROOT/teams/t/inboxes/new.json",
    "echo forged > $ROOT/teams/t/inboxes/lead.json",
    "echo forged >> $ROOT/teams/t/inboxes/lead.json",
    ": > $ROOT/tasks/t/1.json",
    "truncate -s 0 $ROOT/tasks/t/1.json",
    "cp mine $ROOT/tasks/t/1.json",
    "mkdir $ROOT/teams/t/inboxes/lead.json.lock",
    "rm $ROOT/tasks/t/1.json",
    "rm -rf $ROOT/teams",
    "rmdir $ROOT/teams/empty",
    "mv mine $ROOT/teams/t/inboxes/lead.json",
    "mv $ROOT/teams/t/inboxes/lead.json $ROOT/teams/t/inboxes/bob.json",
    "mv $ROOT/teams/t/inboxes/lead.json .",
    "ln mine $ROOT/teams/t/inboxes/bob.json",
    "ln -s $PWD/mine $ROOT/teams/t/inboxes/bob.json",
    "ln -sf $PWD/mine $ROOT/teams/t/inboxes/lead.json",
    "ln $ROOT/teams/t/inboxes/lead.json hard && echo forged > hard",
    "ln -s $ROOT/teams soft && echo forged > soft/t/inboxes/bob.json",
    "mkfifo $ROOT/tasks/t/2.json",
    "mv $ROOT/teams $ROOT/teams2 && mkdir -p $ROOT/teams/t/inboxes",
    "mv $ROOT/teams . && ln -s $PWD/teams $ROOT/teams",
    "mv $ROOT $ROOT.old && mkdir -p $ROOT/teams/t/inboxes",
    "mv $ROOT ./root && ln -s $PWD/root $ROOT",
    "cd $ROOT/teams/t/inboxes && echo forged > bob.json",
    "sh -c 'bash -c \"echo forged >> $ROOT/teams/t/inboxes/lead.json\"'",
    "setsid -w sh -c 'echo forged >> $ROOT/teams/t/inboxes/lead.json'",
    "(setsid sh -c 'echo forged >> $ROOT/teams/t/inboxes/lead.json; touch tried' &); until [ -e tried ]; do sleep 0.01; done; rm tried",
    "echo forged | tee -a /proc/self/root$ROOT/teams/t/inboxes/lead.json",
    "echo forged > /proc/$OTHER/root$ROOT/teams/t/inboxes/lead.json",
    "echo forged > $ROOT/settings.json",
    "sed -i s/kept/forged/ $ROOT/settings.json",
    "rm $ROOT/settings.json",
    "mv mine $ROOT/settings.json",
    "ln -sf $PWD/mine $ROOT/settings.json",
    "ln $ROOT/settings.json hard && echo forged > hard",
    "mv $ROOT/settings.json $ROOT/settings.old",
    "echo forged > $ROOT/settings.local.json",
    "mv mine $ROOT/settings.local.json",
    "ln -s $PWD/mine $ROOT/settings.local.json",
    "echo forged > $ROOT/agents/new.md",
    "mv $ROOT/agents . && mkdir $ROOT/agents",
    "echo forged >> $ROOT/hooks/check.sh",
    "mkdir -p $ROOT/plugins/mine/hooks",
    "mv $ROOT/plans $ROOT/plugins",
    "echo forged > $ROOT/pitcrew/rates/calls",
    "rm -r $ROOT/pitcrew/archive",
    "mkdir $ROOT/pitcrew/new",
    "mv $ROOT/pitcrew $ROOT/aside && mkdir -p $ROOT/pitcrew/rates",
    "mv $ROOT/pitcrew/tmp $ROOT/pitcrew/rates/",
    "echo forged > $ROOT/pitcrew/repositories/k/worktrees/w.json",
    "echo forged > $ROOT/pitcrew/repositories/k/worktrees/new.json",
    "rm $ROOT/pitcrew/repositories/k/lock; ln -s $PWD/mine $ROOT/pitcrew/repositories/k/lock",
    "mv $ROOT/pitcrew/repositories $ROOT/pitcrew/worktrees/r && echo forged > $ROOT/pitcrew/worktrees/r/k/worktrees/w.json",
    "ln -s ../repositories $ROOT/pitcrew/worktrees/r && echo forged > $ROOT/pitcrew/worktrees/r/k/worktrees/w.json; rm $ROOT/pitcrew/worktrees/r",
    "mkdir $ROOT/pitcrew/repositories/new",
    "git init -q g && cd g && echo 'echo forged >> $ROOT/teams/t/inboxes/lead.json' > .git/hooks/post-commit && \
     chmod +x .git/hooks/post-commit && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x",
];

/// Attacks written in Python. They use system calls that a shell script cannot make.
const ATTACKS_IN_PYTHON: &[&str] = &[
    "open(root + '/teams/t/inboxes/bob.json', 'w').write('forged')",
    "os.truncate(root + '/tasks/t/1.json', 0)",
    "os.rename('mine', root + '/tasks/t/1.json')",
    "os.replace(root + '/teams/t', root + '/teams/u')",
    "os.unlink(root + '/tasks/t/1.json')",
    "os.write(os.open(root + '/tasks/t/1.json', os.O_RDWR), b'forged')",
    "os.mknod(root + '/tasks/t/3.json')",
    "os.truncate(root + '/settings.json', 0)",
    "os.rename('mine', root + '/settings.local.json')",
    "os.symlink(os.getcwd(), root + '/plugins')",
];

/// Attacks that first try to leave the sandbox. Without a sandbox, the attempt to leave has no
/// effect.
pub(super) const ESCAPES: &[&str] = &[
    "umount $ROOT/teams; mount -o remount,bind,rw $ROOT/teams; echo forged > $ROOT/teams/t/inboxes/lead.json",
    "umount $ROOT; mount -o remount,bind,rw $ROOT; echo forged > $ROOT/settings.json",
    "mkdir -p dir && mount --bind dir $ROOT/plans && mount --move $ROOT/plans $ROOT/agents",
    "unshare -rm sh -c 'umount $ROOT/teams; echo forged > $ROOT/teams/t/inboxes/lead.json'",
    "mkdir -p m && mount --bind $ROOT/teams m && echo forged > m/t/inboxes/lead.json",
    "unshare -rm sh -c 'mkdir -p m && mount --bind $ROOT/teams m && echo forged > m/t/inboxes/lead.json'",
    // Calls renameat2 with the flag RENAME_EXCHANGE. Number 316 is this system call on x86-64.
    "mkdir -p dir && python3 -c \"import os, ctypes; ctypes.CDLL(None).syscall(316, -100, \
     (os.environ['ROOT'] + '/teams').encode(), -100, b'dir', 2)\"",
    "mkdir -p dir && mv -T --exchange dir $ROOT/teams",
    // Processes outside the sandbox see the file system without the read-only mounts of the
    // command. These attacks write through such a process.
    "echo forged > /proc/$PPID/root$ROOT/settings.json",
    "for process in /proc/[0-9]*; do echo forged > $process/root$ROOT/settings.json; done",
    "cd /proc/$PPID/cwd && cd $(realpath --relative-to=. $ROOT) && echo forged > settings.json",
    "nsenter -t $PPID -m sh -c \"echo forged > $ROOT/settings.json\"",
    "gdb -q -batch -p $PPID -ex \"call (int)truncate(\\\"$ROOT/settings.json\\\", 0)\"",
    // A file can be opened by its handle through any mount of its file system. The numbers 303 and
    // 304 are these system calls on x86-64.
    "python3 -c \"import ctypes, os, struct; c = ctypes.CDLL(None); h = ctypes.create_string_buffer(136); \
     h[0:4] = struct.pack('I', 128); c.syscall(303, -100, (os.environ['ROOT'] + '/settings.json').encode(), h, \
     ctypes.byref(ctypes.c_int()), 0); os.write(c.syscall(304, os.open('/', 0), h, os.O_WRONLY | os.O_TRUNC), b'forged')\"",
    "python3 -c \"import os; f = os.open(os.environ['ROOT'] + '/teams/t/inboxes', os.O_TMPFILE | os.O_RDWR); \
     os.link(f'/proc/self/fd/{f}', os.environ['ROOT'] + '/teams/t/inboxes/bob.json', follow_symlinks=True)\"",
];

pub(super) fn attacks() -> impl Iterator<Item = String> {
    let in_python = ATTACKS_IN_PYTHON.iter();
    let in_python = in_python
        .map(|code| format!("python3 -c \"import os; root = os.environ['ROOT']; {code}\""));
    ATTACKS.iter().map(ToString::to_string).chain(in_python)
}
