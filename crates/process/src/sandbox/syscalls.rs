//! Refuses some system calls of sandboxed commands, by seccomp.
//!
//! Landlock controls files and TCP. It does not control other sockets, changes of file modes,
//! owners and times, namespaces, or file handles. This module refuses the system calls that
//! Landlock does not control. A refused call returns an error, so that programs can use another way
//! or report the problem. No command is killed because of a call. Calls that are newer than the
//! table in this module, and calls by other calling conventions (32-bit, x32), return `ENOSYS`,
//! because programs are prepared for kernels without such calls.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Profile;
use super::own::Reach;

/// States whether the kernel restricts signals to processes in the same Landlock domain (since
/// Linux 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signals {
    /// The kernel restricts signals.
    Scoped,
    /// The kernel does not restrict signals. In this case the filter allows a command to signal
    /// only its own process group.
    OwnGroup,
}

/// The compiled system call filters of one sandbox profile.
#[derive(Debug, Clone)]
pub(super) struct Filters(Vec<BpfProgram>);

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = Result<T, BackendError>;

impl Filters {
    /// Compiles the filters of a sandbox profile.
    ///
    /// # Errors
    /// If no filters exist for this machine's instruction set, or if a table in this file is wrong.
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
                refused.calls(SOCKETS)?;
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
        Self::compiled(refused)
    }

    /// Compiles the filters of a program of pitcrew's own.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn of_own(reach: Reach, signals: Signals) -> Built<Self> {
        match reach {
            Reach::Files => Self::of(Profile::Read, signals),
            Reach::Network => Self::of(Profile::Work, signals),
            Reach::SharedFiles => {
                let mut refused = Table::default();
                refused.calls(EVERYWHERE)?;
                refused.calls(LEGACY_EVERYWHERE)?;
                refused.namespaces()?;
                refused.oddities()?;
                refused.ioctls(IOCTLS.iter())?;
                refused.calls(SOCKETS)?;
                refused.socket_pairs()?;
                if signals == Signals::OwnGroup {
                    refused.signals()?;
                }
                Self::compiled(refused)
            }
        }
    }

    fn compiled(refused: Table) -> Built<Self> {
        let mut missing = Table::default();
        missing.calls(MISSING)?;
        // Two filters are needed, because one compiled filter returns only one error code.
        let refused = refused.compile(libc::EPERM)?;
        Ok(Self(vec![refused, missing.compile(libc::ENOSYS)?]))
    }

    /// Returns a filter that refuses nothing. The filter marks a command as an agent's command. A
    /// process can never remove a filter, so the mark stays even if the session, environment or
    /// parents of the process change.
    pub(super) fn mark() -> Self {
        const RETURN: u16 = 0x06;
        Self(vec![vec![sock_filter {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: u32::from(SeccompAction::Allow),
        }]])
    }

    /// Permanently applies the filters to this thread and to all processes that the thread starts.
    /// From then on, no program started by this thread can gain rights.
    ///
    /// # Errors
    /// If the kernel refuses a filter.
    pub(super) fn apply(&self) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(io::Error::other))
    }
}

/// The first system call number that no kernel used when this table was written (Linux 6.18).
const FIRST_UNKNOWN: u32 = 470;

/// Numbers of system calls that some C libraries do not name yet. Since Linux 5.1, new calls have
/// the same number on every architecture.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// System calls for which the filter returns `ENOSYS`, so that programs use an older call whose
/// arguments a filter can check. The arguments of `clone3` and `openat2` are in memory, where a
/// filter cannot read them. io_uring would perform refused calls through a queue.
const MISSING: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Mode bits that make a program run with the rights of its owner or group. With such a bit, a
/// program of the user would give the user's rights to every other user who runs it.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// System calls that set the permission bits of a file, with the index of the mode argument.
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

/// System calls that open a file, with the index of the flags argument. The argument after the
/// flags is the mode.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2)];

/// Flags with which the calls in `OPENS` create a file. Without these flags, the kernel ignores the
/// mode argument. The value of `O_TMPFILE` contains the bit of `O_DIRECTORY`. That bit alone
/// creates no file, so it is removed here.
const MAKING: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];

/// Calls that are refused in both sandbox profiles *read* and *work*.
const EVERYWHERE: &[i64] = &[
    // Calls that change mounts or root folders.
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
    // Calls that access files by handle. Rules for paths do not limit such access.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    // Calls that access memory and files of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    448, // process_mrelease
    // Calls for kernel keys, BPF programs and tracing.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // Calls for the administration of the machine.
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

/// Calls that are refused to every command without sockets.
const SOCKETS: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Calls that are refused only in the sandbox profile *read*, beside those for sockets. They
/// concern file properties that Landlock does not control (mode, owner, times, attributes), and
/// kernel objects that outlive a command.
const IN_READ: &[i64] = &[
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

/// Flags that create namespaces. `CLONE_NEWTIME` is missing, because in `clone` the bit of this
/// flag is part of the exit signal.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
const NEW_TIME_NAMESPACE: u64 = 0x80;

/// Allowed `ioctl` requests: queries and settings of pipes, files and sockets, and queries of
/// terminals. All other requests are refused, because they reach devices, file attributes and the
/// terminal's input (`TIOCSTI`, `TIOCLINUX`).
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

/// Additional `ioctl` requests that are allowed in the sandbox profile *work*: control of the
/// command's own terminals, and queries of the command's own network.
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

/// Allowed socket families: `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`. Other families, such as
/// `AF_VSOCK`, reach outside a network namespace.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];

/// Allowed types for `socketpair`: `SOCK_STREAM` and `SOCK_SEQPACKET`. A connected pair of these
/// types cannot be connected to another socket later.
const PAIRED: [u64; 2] = [1, 5];

/// The refused system calls, by number.
#[derive(Default)]
struct Table(Rules);

impl Table {
    fn calls(&mut self, numbers: &[i64]) -> Built<()> {
        for number in numbers {
            // A rule without conditions refuses the call with any arguments.
            self.0.insert(*number, Vec::new());
        }
        Ok(())
    }

    /// Refuses a system call if all conditions hold. A second use of this function for the same
    /// number adds an alternative set of conditions.
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

    /// Refuses modes that give the user's rights to other users (set-user-ID, set-group-ID).
    /// Set-group-ID on a folder is harmless, but a filter cannot distinguish folders from files.
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
        // The allowed arguments of `personality` are the default, the query, no address
        // randomization, and 32 bits.
        let kinds = [0, 0xffff_ffff, 0x0004_0000, 0x8];
        let kinds = kinds.into_iter().map(|kind| half(0, Ne, kind)).collect::<Built<_>>()?;
        self.when(libc::SYS_personality, kinds)?;
        // With these `fcntl` commands, a process can make the kernel send a signal to any process
        // when a file is ready. A process can also block other processes with a file lease.
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

    /// Refuses changes to limits and priorities of other processes. A process is still allowed to
    /// pass the process id 0, which means the process itself.
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
        // The lower four bits of the second argument of `socketpair` are the socket type. The other
        // bits are flags.
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

    /// Refuses to send signals outside the command's own process group, and to join another process
    /// group.
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

/// Creates a condition on the lower 32 bits of an argument. For an argument of type `int`, the
/// kernel reads only these bits.
fn half(argument: u8, operator: seccompiler::SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn whole(argument: u8, operator: seccompiler::SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}

/// The kernel's constant `AUDIT_ARCH_*` for this instruction set.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;

/// Returns the instructions that run before each compiled filter. They return `ENOSYS` for calls by
/// another calling convention (32-bit, x32) and for calls with unknown numbers. Without these
/// instructions, the compiled filter would kill a process for a call by another calling convention,
/// and would allow a call with an unknown number.
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
