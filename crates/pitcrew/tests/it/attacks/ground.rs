//! The targets of the attacks: a home folder, a root with a team, files outside the working folder,
//! listening sockets, and a process. Together they are called the ground.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::host::Host;

/// A text that is in every file that no attack is allowed to read.
pub(super) const CANARY: &str = "CANARY-7391";

/// The files that contain [`CANARY`]. The paths are relative to the ground's folder.
const SECRETS: [&str; 4] = ["outside/secret", "home/.ssh/id_rsa", "home/notes", "work/denied/key"];

/// The files that no attack is allowed to change, each with its content. The paths are relative to
/// the ground's folder.
const KEPT: [(&str, &str); 10] = [
    ("home/.bashrc", "true"),
    ("home/.gitconfig", "[user]\nname = a\nemail = a@b\n[init]\ndefaultBranch = main\n"),
    (
        "home/.claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: reviews\n---\nReview.\n",
    ),
    ("home/.claude/hooks/check", "#!/bin/sh\n"),
    ("home/.claude/teams/other/config.json", "{}"),
    ("home/.claude/teams/other/inboxes/bob.json", "[]"),
    ("home/.claude/tasks/other/1.json", "{}"),
    ("home/.claude/pitcrew/trusted.json", "{}"),
    ("home/.claude/pitcrew/shells/other/bob/b1.output", ""),
    ("work/.claude/settings.json", "{}"),
];

/// Paths in the working folder that must stay unchanged, even if agents are allowed to write in the
/// working folder.
const PROTECTED: [&str; 7] = [
    ".git/config",
    ".git/hooks",
    ".git/commondir",
    ".git/modules",
    ".claude",
    ".mcp.json",
    "denied",
];

/// Paths in the root that the run itself writes. The tests ignore changes there.
const OF_THE_RUN: [&str; 13] = [
    "teams/attacked",
    "tasks/attacked",
    "pitcrew/shells/attacked",
    "pitcrew/tmp",
    "pitcrew/sandbox",
    "pitcrew/rates",
    "pitcrew/lifecycle.lock",
    "pitcrew/worktrees",
    "pitcrew/quarantine",
    "pitcrew/denied-files",
    "pitcrew/launches",
    "pitcrew/repositories",
    // When the run ends, it moves the team's files to the archive.
    "pitcrew/archive",
];

/// The mode, owner, modification time, number of hard links, and content of a file. The time and
/// the links of a folder are set to 0, because temporary files come and go in folders.
pub(super) type State = (u32, u32, i64, u64, Vec<u8>);

/// The part of the ground that an attack is allowed to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bounds {
    /// An attack must change nothing.
    Nothing,
    /// An attack may change the working folder, except for files there that grant permissions or
    /// that another program runs.
    WorkingFolder,
    /// An attack may change everything, except for the content of files in the root, which belong
    /// to the team and the user.
    AllButRoot,
}

/// The files of a host's user, the listening sockets, and the process. Attacks try to reach all of
/// these.
pub(super) struct Ground {
    base: tempfile::TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
    named: UnixListener,
    other: Child,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _gone = self.other.kill();
        let _reaped = self.other.wait();
    }
}

/// The variables that tell the attacks their targets. Commands that nobody was asked about get them
/// only because the user's settings name them.
pub(super) const PASSED: [&str; 10] =
    ["W", "OUT", "SOCK", "DGRAM", "ROOT", "ABSTRACT", "PITCREW", "TCP", "UDP", "PID"];

impl Ground {
    pub(super) fn new(host: &Host) -> Self {
        let base = tempfile::tempdir_in(host.folder()).unwrap();
        let at = |path: &str| base.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        for (path, text) in KEPT {
            write(path, text);
        }
        for path in SECRETS {
            write(path, &format!("{CANARY}\n"));
        }
        let settings = json!({"permissions": {"deny": ["Read(./denied/**)"]}, "sandbox": {"allowUnsandboxedCommands": true, "passedVariables": PASSED}});
        write("home/.claude/settings.json", &settings.to_string());
        write("work/kept", "kept\n");
        write("work/own", "own\n");
        write("work/.gitignore", "denied\n");
        fs::create_dir(at("tmp")).unwrap();
        host.give(base.path());
        for arguments in [
            &["init", "-q"][..],
            &["add", "own", "kept"],
            &["commit", "-qm", "1"],
            &["commit", "-qm", "2", "--allow-empty"],
        ] {
            let mut git = Self::variables(host.command("git"), base.path());
            let ran = git.args(arguments).current_dir(at("work")).output().unwrap();
            assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        }
        let stream = UnixListener::bind(at("outside/socket")).unwrap();
        let datagram = UnixDatagram::bind(at("outside/datagram")).unwrap();
        host.give(&at("outside"));
        let name =
            SocketAddr::from_abstract_name(base.path().as_os_str().as_encoded_bytes()).unwrap();
        let mut other = host.command("sh");
        other.args(["-c", "exec sleep 1000"]).current_dir(at("outside")).stdin(Stdio::null());
        let ground = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream,
            datagram,
            named: UnixListener::bind_addr(&name).unwrap(),
            other: other.spawn().unwrap(),
            base,
        };
        ground.tcp.set_nonblocking(true).unwrap();
        ground.udp.set_nonblocking(true).unwrap();
        ground.datagram.set_nonblocking(true).unwrap();
        [&ground.stream, &ground.named]
            .into_iter()
            .for_each(|it| it.set_nonblocking(true).unwrap());
        ground
    }

    fn variables(mut command: Command, base: &Path) -> Command {
        command.env("HOME", base.join("home")).env("CLAUDE_CONFIG_DIR", base.join("home/.claude"));
        command
            .env("TMPDIR", base.join("tmp"))
            .env("TMUX_TMPDIR", base.join("tmp"))
            .current_dir(base.join("work"));
        command
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    /// The paths of the files that no attack is allowed to read.
    pub(super) fn secrets(&self) -> Vec<PathBuf> {
        SECRETS.iter().map(|path| self.at(path)).collect()
    }

    /// Returns a command that runs the binary on this ground, with the environment variables that
    /// the attacks use.
    pub(super) fn run(&self, host: &Host) -> Command {
        self.program(host, host.pitcrew())
    }

    /// Returns a command that runs `program` in the folders of this test, with the environment
    /// variables that the attacks use.
    pub(super) fn program(&self, host: &Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Self::variables(host.command(program), self.base.path());
        for (name, path) in [
            ("W", "work"),
            ("OUT", "outside"),
            ("SOCK", "outside/socket"),
            ("DGRAM", "outside/datagram"),
            ("ROOT", "home/.claude"),
        ] {
            command.env(name, self.at(path));
        }
        command.env("ABSTRACT", self.base.path()).env("PITCREW", host.pitcrew());
        command.env("TCP", self.tcp.local_addr().unwrap().port().to_string());
        command.env("UDP", self.udp.local_addr().unwrap().port().to_string());
        command.env("PID", self.other.id().to_string());
        command
    }

    /// Returns the names of the listening sockets that somebody has reached since the last call.
    pub(super) fn reached(&self) -> Vec<&'static str> {
        let came = [
            ("TCP", self.tcp.accept().is_ok()),
            ("UDP", self.udp.recv(&mut [0; 64]).is_ok()),
            ("a socket with a path", self.stream.accept().is_ok()),
            ("a datagram socket with a path", self.datagram.recv(&mut [0; 64]).is_ok()),
            ("an abstract socket", self.named.accept().is_ok()),
        ];
        came.into_iter().filter(|(_, came)| *came).map(|(name, _)| name).collect()
    }

    /// Checks the process that attacks try to signal. If an attack stopped this process or changed
    /// its niceness, returns the process's line from `/proc/PID/stat`.
    pub(super) fn harmed(&self) -> Option<String> {
        let niceness = |stat: &str| {
            stat.rsplit(')').next().unwrap().split_whitespace().nth(16).map(str::to_owned)
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.other.id())).unwrap();
        // The process that attacks try to signal was started with the niceness of this test
        // process. If the two values differ now, an attack changed the niceness.
        let ours = fs::read_to_string("/proc/self/stat").unwrap();
        (!stat.contains(") S") || niceness(&stat) != niceness(&ours)).then_some(stat)
    }

    /// Returns the output of the agents' background commands. Agents are allowed to read this
    /// output.
    pub(super) fn outputs(&self) -> String {
        let agents = ["team-lead", "bob"]
            .map(|name| self.at("home/.claude/pitcrew/shells/attacked").join(name));
        let files = agents
            .into_iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        files
            .map(|file| String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned())
            .collect()
    }

    /// Returns the state of every file that must stay unchanged under `bounds`.
    pub(super) fn kept(&self, bounds: Bounds) -> BTreeMap<PathBuf, State> {
        let mut found = BTreeMap::new();
        let root = self.at("home/.claude");
        let mut todo = vec![if bounds == Bounds::AllButRoot {
            root.clone()
        } else {
            self.base.path().to_path_buf()
        }];
        while let Some(path) = todo.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let below = |folder: &Path| path.strip_prefix(folder).is_ok();
            if OF_THE_RUN.iter().any(|own| below(&root.join(own))) || below(&self.at("tmp")) {
                continue;
            }
            if metadata.is_dir() {
                todo.extend(
                    fs::read_dir(&path).into_iter().flatten().map(|entry| entry.unwrap().path()),
                );
            }
            let work = self.at("work");
            if bounds == Bounds::WorkingFolder
                && below(&work)
                && !PROTECTED.iter().any(|it| below(&work.join(it)))
            {
                continue;
            }
            let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let state = match (bounds, metadata.is_dir()) {
                // In this case, only the content of files is compared. The sandbox profile `free`
                // protects the content of files, but not their modes and times.
                (Bounds::AllButRoot, _) => (0, 0, 0, 0, content),
                (_, true) => (metadata.mode(), metadata.uid(), 0, 0, content),
                (_, false) => {
                    (metadata.mode(), metadata.uid(), metadata.mtime(), metadata.nlink(), content)
                }
            };
            found.insert(path, state);
        }
        found
    }
}
