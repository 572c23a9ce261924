//! System calls that sandboxed commands are refused, by seccomp.
//!
//! Landlock decides about files. It knows no sockets but TCP, no changes of modes, owners and times, no namespaces, and no
//! handles: those are refused here. A refused call answers with an error, so that programs fall back or say what they
//! lack; no command is ever killed for one. Calls that this table does not know yet, and those of other calling
//! conventions (32-bit, x32), answer `ENOSYS`: programs are used to kernels without them.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Profile;

/// Whether the kernel itself keeps signals within a Landlock domain (Linux 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signals {
    /// It does.
    Scoped,
    /// It does not: a command may signal its own process group only.
    OwnGroup,
}

/// The filters of one profile, compiled.
#[derive(Debug, Clone)]
pub(super) struct Filters(Vec<BpfProgram>);

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = Result<T, BackendError>;

impl Filters {
    /// Compiles what a profile refuses.
    ///
    /// # Errors
    /// When this machine's instruction set has no filters, or a table here is wrong.
    pub(super) fn of(profile: Profile, signals: Signals) -> Built<Self> {
        let mut refused = Table::default();
        refused.calls(EVERYWHERE)?;
        refused.calls(LEGACY_EVERYWHERE)?;
        refused.namespaces()?;
        refused.oddities()?;
        refused.set_id_modes()?;
        match profile {
            Profile::Read => {
                refused.ioctls(IOCTLS.iter())?;
                refused.calls(IN_READ)?;
                refused.calls(LEGACY_IN_READ)?;
                refused.others_processes()?;
                refused.socket_pairs()?;
            }
            Profile::Work => {
                refused.ioctls(IOCTLS.iter().chain(IOCTLS_IN_WORK))?;
                refused.foreign_sockets()?;
            }
            Profile::Free => {}
        }
        if signals == Signals::OwnGroup {
            refused.signals()?;
        }
        let mut missing = Table::default();
        missing.calls(MISSING)?;
        let refused = refused.compile(libc::EPERM)?;
        Ok(Self(vec![refused, missing.compile(libc::ENOSYS)?]))
    }

    /// One that refuses nothing: by it a command is known as one of an agent's, whatever becomes of its session, its environment
    /// and its parents, since no process can shed a filter.
    pub(super) fn mark() -> Self {
        const RETURN: u16 = 0x06;
        Self(vec![vec![sock_filter {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: u32::from(SeccompAction::Allow),
        }]])
    }

    /// Applies them to this thread and all it starts, for good. No program it runs can gain rights from then on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn apply(&self) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(io::Error::other))
    }
}

/// The first number that no kernel gave away when this table was written (Linux 6.18).
const FIRST_UNKNOWN: u32 = 470;

/// Numbers since 5.1 are the same everywhere; the newest are not named by all libraries.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Answered with `ENOSYS`: what programs have an older way for that can be looked at. `clone3` and `openat2` hide their flags
/// and modes in memory, and io_uring does by a queue what is refused as a call.
const MISSING: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The modes by which a program runs with the rights of its owner or group: they would hand the user's to everybody.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// Calls that set a mode, and the argument that it is.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
];

#[cfg(target_arch = "x86_64")]
const LEGACY_MODES: &[(i64, u8)] =
    &[(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mkdir, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_MODES: &[(i64, u8)] = &[];

/// Calls that open a file, and the argument that is their flags; the mode is the next.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2)];

/// The flags with which they make one, and else know no mode. `O_TMPFILE` holds the bit of `O_DIRECTORY` besides.
const MAKING: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];

/// Refused in *read* and *work*.
const EVERYWHERE: &[i64] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_setns,
    // Files by handle, which no path bounds.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    // Other processes' memory and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    448, // process_mrelease
    // The kernel's keys, programs and traps.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const LEGACY_EVERYWHERE: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_EVERYWHERE: &[i64] = &[];

/// Refused in *read* besides: sockets, what Landlock does not see of a file (mode, owner, times, attributes), and what
/// outlives a command in the kernel.
const IN_READ: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

#[cfg(target_arch = "x86_64")]
const LEGACY_IN_READ: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_IN_READ: &[i64] = &[];

/// The flags that make namespaces; `CLONE_NEWTIME` shares its bit with the exit signal of `clone`.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
const NEW_TIME_NAMESPACE: u64 = 0x80;

/// Pipes, files and sockets are asked and steered by these, and terminals asked. All others are refused: there are devices
/// behind them, attributes of files, and the terminal's own input (`TIOCSTI`, `TIOCLINUX`).
const IOCTLS: &[u64] = &[
    0x5401,      // TCGETS
    0x5405,      // TCGETA
    0x540f,      // TIOCGPGRP
    0x5411,      // TIOCOUTQ
    0x5413,      // TIOCGWINSZ
    0x5429,      // TIOCGSID
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x5452,      // FIOASYNC
    0x5460,      // FIOQSIZE
    0x802c_542a, // TCGETS2
    0x0000_0002, // FIGETBSZ
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0xc020_660b, // FS_IOC_FIEMAP
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
];

/// What *work* has besides: terminals of its own, and questions about its own network.
const IOCTLS_IN_WORK: &[u64] = &[
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5409,      // TCSBRK
    0x540a,      // TCXONC
    0x540b,      // TCFLSH
    0x540e,      // TIOCSCTTY
    0x5410,      // TIOCSPGRP
    0x5414,      // TIOCSWINSZ
    0x5422,      // TIOCNOTTY
    0x5441,      // TIOCGPTPEER
    0x402c_542b, // TCSETS2
    0x402c_542c, // TCSETSW2
    0x402c_542d, // TCSETSF2
    0x8004_5430, // TIOCGPTN
    0x4004_5431, // TIOCSPTLCK
    0x8905,      // SIOCATMARK
    0x8910,      // SIOCGIFNAME
    0x8912,      // SIOCGIFCONF
    0x8913,      // SIOCGIFFLAGS
    0x8915,      // SIOCGIFADDR
    0x891b,      // SIOCGIFNETMASK
    0x8921,      // SIOCGIFMTU
    0x8927,      // SIOCGIFHWADDR
    0x8933,      // SIOCGIFINDEX
];

/// `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`. Others reach past a network namespace, as `AF_VSOCK` does.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];

/// Kinds of sockets that cannot be pointed elsewhere once they are a connected pair: `SOCK_STREAM` and `SOCK_SEQPACKET`.
const PAIRED: [u64; 2] = [1, 5];

/// What is refused, by number.
#[derive(Default)]
struct Table(Rules);

impl Table {
    fn calls(&mut self, numbers: &[i64]) -> Built<()> {
        for number in numbers {
            // Without a condition it is refused whatever its arguments are.
            self.0.insert(*number, Vec::new());
        }
        Ok(())
    }

    /// Refuses a call when all conditions hold; called again, also when the others do.
    fn when(&mut self, number: i64, conditions: Vec<SeccompCondition>) -> Built<()> {
        self.0.entry(number).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    }

    fn namespaces(&mut self) -> Built<()> {
        for flag in NAMESPACES {
            self.when(libc::SYS_clone, vec![half(0, MaskedEq(flag), flag)?])?;
            self.when(libc::SYS_unshare, vec![half(0, MaskedEq(flag), flag)?])?;
        }
        self.when(
            libc::SYS_unshare,
            vec![half(0, MaskedEq(NEW_TIME_NAMESPACE), NEW_TIME_NAMESPACE)?],
        )
    }

    /// Modes that hand the user's rights on. For a folder one of them is harmless, but a filter sees no difference.
    fn set_id_modes(&mut self) -> Built<()> {
        for bit in SET_ID {
            for (call, mode) in MODES.iter().chain(LEGACY_MODES) {
                self.when(*call, vec![half(*mode, MaskedEq(bit), bit)?])?;
            }
            for (call, flags) in OPENS {
                for making in MAKING {
                    let made = half(*flags, MaskedEq(making), making)?;
                    self.when(*call, vec![made, half(*flags + 1, MaskedEq(bit), bit)?])?;
                }
            }
        }
        Ok(())
    }

    fn oddities(&mut self) -> Built<()> {
        // None, the question for it, Linux without address randomisation, and 32 bits.
        let kinds = [0, 0xffff_ffff, 0x0004_0000, 0x8];
        let kinds = kinds.into_iter().map(|kind| half(0, Ne, kind)).collect::<Built<_>>()?;
        self.when(libc::SYS_personality, kinds)?;
        // A signal when a file is ready goes to any process that was named; a lease makes others wait.
        const COMMANDS: [u64; 4] = [8, 10, 15, 1024]; // F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE
        for command in COMMANDS {
            self.when(libc::SYS_fcntl, vec![half(1, Eq, command)?])?;
        }
        Ok(())
    }

    fn ioctls<'a>(&mut self, known: impl Iterator<Item = &'a u64>) -> Built<()> {
        let known = known.map(|request| half(1, Ne, *request)).collect::<Built<_>>()?;
        self.when(libc::SYS_ioctl, known)
    }

    /// Limits and priorities of other processes; those of a process itself go by 0.
    fn others_processes(&mut self) -> Built<()> {
        self.when(libc::SYS_prlimit64, vec![half(0, Ne, 0)?, whole(2, Ne, 0)?])?;
        for call in [
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
        ] {
            self.when(call, vec![half(0, Ne, 0)?])?;
        }
        for (call, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
            self.when(call, vec![half(1, Ne, 0)?])?;
            self.when(call, vec![half(0, Eq, user)?])?;
        }
        Ok(())
    }

    fn socket_pairs(&mut self) -> Built<()> {
        self.when(libc::SYS_socketpair, vec![half(0, Ne, 1)?])?;
        for kind in (0..16).filter(|kind| !PAIRED.contains(kind)) {
            self.when(libc::SYS_socketpair, vec![half(1, MaskedEq(0xf), kind)?])?;
        }
        Ok(())
    }

    fn foreign_sockets(&mut self) -> Built<()> {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            let families =
                FAMILIES.into_iter().map(|family| half(0, Ne, family)).collect::<Built<_>>()?;
            self.when(call, families)?;
        }
        Ok(())
    }

    /// Signals but to the own process group, which is the command's, and into no other group.
    fn signals(&mut self) -> Built<()> {
        self.when(libc::SYS_kill, vec![half(0, Ne, 0)?])?;
        self.when(libc::SYS_setpgid, vec![half(1, Ne, 0)?])?;
        self.calls(&[
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_pidfd_send_signal,
        ])
    }

    fn compile(self, error: libc::c_int) -> Built<BpfProgram> {
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let action = SeccompAction::Errno(error.unsigned_abs());
        let filter = SeccompFilter::new(self.0, SeccompAction::Allow, action, architecture)?;
        let mut program = prologue();
        program.extend(BpfProgram::try_from(filter)?);
        Ok(program)
    }
}

/// A condition on the lower half of an argument, which is all the kernel reads of an `int`.
fn half(argument: u8, operator: seccompiler::SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn whole(argument: u8, operator: seccompiler::SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}

/// `AUDIT_ARCH_*` of this instruction set.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;

/// What stands before each program: calls by another convention and numbers nobody knows do not exist. The compiled program
/// would kill the process for the first and allow the second.
fn prologue() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let no_such_call = u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()));
    vec![
        step(LOAD, 4, 0, 0),
        step(IF_EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, no_such_call, 0, 0),
        step(LOAD, 0, 0, 0),
        step(IF_AT_LEAST, FIRST_UNKNOWN, 0, 1),
        step(RETURN, no_such_call, 0, 0),
    ]
}
