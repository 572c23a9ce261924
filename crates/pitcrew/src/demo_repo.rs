//! The repository of the demo. It contains a small crate with failing tests. The files of the crate
//! are part of this binary and are unpacked into a new git repository.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_process::job::{Job, Stream};
use pitcrew_process::our_git::{OurGit, OurGitError};
use pitcrew_team::store::own_mode;
use serde::Serialize;
use tokio::process::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind, chain};

/// The files of the demo. Each path is relative to the demo's folder.
const FILES: [(&str, &str); 11] = [
    // The settings file of the demo's root. Only the demo uses this root. A later `run --resume` of
    // the demo's team reads its settings from this file.
    ("root/settings.json", include_str!("../demo/settings.json")),
    ("script.yaml", include_str!("../demo/script.yaml")),
    ("repository/.gitignore", include_str!("../demo/crate/gitignore")),
    ("repository/CLAUDE.md", include_str!("../demo/crate/CLAUDE.md")),
    ("repository/Cargo.toml", include_str!("../demo/crate/Cargo.toml")),
    ("repository/src/lib.rs", include_str!("../demo/crate/src/lib.rs")),
    ("repository/src/slug.rs", include_str!("../demo/crate/src/slug.rs")),
    ("repository/src/stats.rs", include_str!("../demo/crate/src/stats.rs")),
    ("repository/src/wrap.rs", include_str!("../demo/crate/src/wrap.rs")),
    ("repository/tests/slug.rs", include_str!("../demo/crate/tests/slug.rs")),
    ("repository/tests/stats.rs", include_str!("../demo/crate/tests/stats.rs")),
];

/// The file that is written last. If this file exists, all other files exist too.
const LAST_FILE: (&str, &str) =
    ("repository/tests/wrap.rs", include_str!("../demo/crate/tests/wrap.rs"));

/// The time limit of one command. The slowest command compiles a crate of 80 lines.
const COMMAND_TIME: Duration = Duration::from_secs(120);

/// The time between the signals TERM and KILL, when a command has reached its time limit.
const GRACE: Duration = Duration::from_secs(2);

/// The hint that is shown when the folder contains no demo to resume.
const DIR_HINT: &str = "`pitcrew demo --dir NEW_FOLDER` starts a demo that can be resumed";

/// A demo that was unpacked into a folder.
#[derive(Debug)]
pub(crate) struct Showcase {
    folder: PathBuf,
}

/// The results of the crate's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tests {
    /// The number of tests that passed.
    pub(crate) passed: u32,
    /// The number of tests that failed.
    pub(crate) failed: u32,
}

fn write_to_root(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), own_mode::create_folders)?;
    own_mode::file_options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

#[expect(clippy::disallowed_methods, reason = "the repository of a demo belongs to this crate")]
fn write_to_repository(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, text)
}

impl Showcase {
    /// Unpacks the demo into a folder, and commits the demo's crate to a new git repository.
    ///
    /// # Errors
    /// Returns an error if git or cargo cannot be run, or if the folder cannot be written.
    pub(crate) async fn unpack(folder: &Path) -> Result<Self, Failure> {
        let showcase = Self { folder: folder.to_owned() };
        for (path, text) in FILES.iter().chain([&LAST_FILE]) {
            // As in every root, only the user gets access to the files of the demo's root. The
            // files of the repository get the permissions that the umask allows.
            let is_of_root = path.starts_with("root/");
            let path = folder.join(path);
            let written = if is_of_root {
                write_to_root(&path, text)
            } else {
                write_to_repository(&path, text)
            };
            written
                .map_err(|e| Failure::internal(format!("cannot write {}: {e}", path.display())))?;
        }
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            // The configuration of the demo's repository sets the author's name and e-mail address,
            // and turns signing off. The commits then do not depend on the user's git identity or
            // signing key.
            &["config", "user.name", "pitcrew demo"],
            &["config", "user.email", "demo@pitcrew.invalid"],
            &["config", "commit.gpgsign", "false"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "texttools, with three faults"],
        ] {
            let git = OurGit::default();
            let answer = git.change(&showcase.repository(), args).await.map_err(git_not_run)?;
            if !answer.is_success {
                let said = String::from_utf8_lossy(&answer.stderr);
                return Err(Failure::new(
                    FailureKind::Failed,
                    format!("git {} failed: {said}", args.join(" ")),
                ));
            }
        }
        Ok(showcase)
    }

    /// Finds the demo that an earlier process unpacked into a folder. Writes nothing.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist or does not contain a complete demo.
    pub(crate) async fn find(folder: &Path) -> Result<Self, Failure> {
        let shown = folder.display();
        if !folder.is_dir() {
            return Err(Failure::new(FailureKind::NotFound, format!("there is no folder {shown}"))
                .hint(DIR_HINT));
        }
        let showcase = Self { folder: folder.to_owned() };
        if !showcase.script().is_file() || !showcase.is_committed().await {
            let said = format!("{shown} contains no demo that can be resumed");
            return Err(Failure::new(FailureKind::Conflict, said).hint(DIR_HINT));
        }
        Ok(showcase)
    }

    /// Returns the path of the demo's git repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.join("repository")
    }

    /// Returns the path of the script that contains the answers of the scripted models.
    pub(crate) fn script(&self) -> PathBuf {
        self.folder.join("script.yaml")
    }

    /// Returns the root that the demo's team uses, below the demo's folder.
    pub(crate) fn root(folder: &Path) -> PathBuf {
        folder.join("root")
    }

    /// Runs the crate's tests.
    ///
    /// # Errors
    /// Returns an error if cargo cannot be run, or if the crate does not compile.
    pub(crate) async fn test(&self) -> Result<Tests, Failure> {
        let said = self.cargo(&["test", "--offline", "--no-fail-fast"]).await?;
        let count = |what: &str| {
            said.lines().filter(|line| line.starts_with("test ") && line.ends_with(what)).count()
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let tests = Tests { passed: number(count("... ok")), failed: number(count("... FAILED")) };
        // If the output contains no test result, the crate did not compile or cargo failed.
        if tests.passed + tests.failed == 0 {
            let error = format!("the demo's crate cannot be tested: {}", said.trim_end());
            return Err(Failure::new(FailureKind::Failed, error)
                .hint("the demo needs a cargo that works without the network"));
        }
        Ok(tests)
    }

    /// Returns the commits of the repository, the newest first. Each line is one commit.
    ///
    /// # Errors
    /// Returns an error if git cannot be run.
    pub(crate) async fn commits(&self) -> Result<Vec<String>, Failure> {
        let git = OurGit::default();
        let answer = git.look(&self.repository(), &["log", "--format=%h %s"]).await;
        let said = answer.map_err(git_not_run)?.stdout;
        Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
    }

    async fn is_committed(&self) -> bool {
        let words = ["rev-parse", "--quiet", "--verify", "HEAD"];
        let answer = OurGit::default().look(&self.repository(), &words).await;
        self.folder.join(LAST_FILE.0).is_file() && answer.is_ok_and(|answer| answer.is_success)
    }

    async fn cargo(&self, args: &[&str]) -> Result<String, Failure> {
        let not_run = |e: std::io::Error| {
            Failure::new(FailureKind::Failed, format!("cannot run cargo: {e}"))
                .hint("the demo needs git and cargo on the PATH")
        };
        let mut command = Command::new("cargo");
        // pitcrew parses the output, so the command must print English.
        command
            .args(args)
            .current_dir(self.repository())
            .env("CARGO_TARGET_DIR", "target")
            .env("LC_ALL", "C");
        // A user of the demo does not need the backtraces of rustup and of failing tests. The error
        // messages are enough.
        command.env("RUST_BACKTRACE", "0").env("RUST_LIB_BACKTRACE", "0");
        let job = Job::spawn(&mut command).map_err(not_run)?;
        let mut said = (Vec::new(), Vec::new());
        let sink = |stream: Stream, bytes: &[u8]| match stream {
            Stream::Stdout => said.0.extend_from_slice(bytes),
            Stream::Stderr => said.1.extend_from_slice(bytes),
        };
        let deadline = Some(Instant::now() + COMMAND_TIME);
        let ended =
            job.run(deadline, GRACE, &CancellationToken::new(), sink).await.map_err(not_run)?;
        let is_good = ended.ending.exit_code() == Some(0);
        let (stdout, stderr) = said;
        let text = if is_good || stderr.is_empty() || !stdout.is_empty() { stdout } else { stderr };
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn git_not_run(error: OurGitError) -> Failure {
    Failure::new(FailureKind::Failed, format!("cannot run git: {}", chain(&error)))
        .hint("the demo needs git and cargo on the PATH")
}
