//! Runs git for pitcrew itself. No other code of pitcrew starts git.
//!
//! A working copy can come from an archive, and agents write in it. Its configuration names
//! programs, and links in its git folder lead anywhere. Therefore two layers guard each command:
//!
//! - `programs` gives git settings that replace each program which the repository names. Git
//!   starts none of them. Filters of the user's own configuration, such as git-lfs, keep working.
//!   `written` refuses to write through links that leave the git folder.
//! - The sandbox confines git. A program or a link that the first layer misses changes nothing
//!   outside of the grant: nothing at all where git only looks, and where git writes, the git
//!   folder and the folders that the caller names.
//!
//! `nested` lists the repositories inside a checkout. Git does not descend into them, because
//! each has a configuration of its own. The caller looks into each of them by a command of its own.

mod bounds;
mod confined;
mod error;
mod nested;
mod programs;
mod running;
mod settings;
mod user_config;
mod written;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::job::{Ended, Ending, Stream};
use crate::sandbox::git_folder::{GitFolder, TrustedStores};
use crate::sandbox::{Extent, Sandbox, unfit_include};
use crate::stuck_git::Stuck;
use bounds::Bounds;
use confined::grant;
pub use error::OurGitError;
pub(crate) use nested::Listed;
use programs::Programs;
pub use running::RunningGit;
use settings::Settings;
pub(crate) use user_config::all as user_settings;
pub use user_config::setting as user_setting;
pub(crate) use written::Written;

/// Time limit of one git command. The slowest command is the checkout of a large repository.
const CALL_TIME: Duration = Duration::from_secs(300);

/// Time between the signals TERM and KILL. Git needs this time to remove its lock files.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Maximum number of bytes of each output stream of git that are stored. Lines of the standard
/// output are counted even after this limit.
pub(crate) const ANSWER_BYTES: usize = 64 * 1024;

/// Runs git in working copies.
///
/// Cloning is cheap. The default value confines git by the mechanisms of this machine too.
#[derive(Debug, Clone, Default)]
pub struct OurGit {
    sandbox: Sandbox,
    /// The folders outside of a checkout that git may use in it.
    stores: TrustedStores,
    running: RunningGit,
    bounds: Bounds,
    /// The check that a test switches off.
    #[cfg(test)]
    without: Option<tests::Layer>,
}

/// How git treats the files of a working copy in one command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access<'a> {
    /// Reads the git folder. Git reads no file of the checkout, so it runs no filter.
    Look,
    /// Compares the files of the checkout with commits, and changes nothing. Git runs the user's
    /// filters.
    Compare,
    /// Changes the git folder, and the folders and references that the value names.
    Write(&'a Written<'a>),
}

/// The result of a git command.
#[derive(Debug, Default)]
pub struct Answer {
    /// Whether git reported success.
    pub is_success: bool,
    /// The first bytes of the standard output.
    pub stdout: Vec<u8>,
    /// The number of lines of the whole standard output.
    pub(crate) stdout_lines: usize,
    /// The first bytes of the standard error.
    pub stderr: Vec<u8>,
}

impl Answer {
    /// Returns the path that git printed.
    pub(crate) fn path(self) -> PathBuf {
        let mut bytes = self.stdout;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        PathBuf::from(OsString::from_vec(bytes))
    }

    /// Returns the text that git printed, without blanks around it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

impl OurGit {
    /// Creates a runner. The sandbox names the git folders that the user trusts.
    #[must_use]
    pub fn new(sandbox: Sandbox) -> Self {
        Self { sandbox, ..Self::default() }
    }

    /// Returns a runner with another sandbox.
    #[must_use]
    pub(crate) fn confined(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Returns a runner that works in checkouts that borrow these stores.
    #[must_use]
    pub fn trusting(self, stores: TrustedStores) -> Self {
        Self { stores, ..self }
    }

    /// Returns a runner whose commands `running` ends.
    #[must_use]
    pub fn ended_by(self, running: RunningGit) -> Self {
        Self { running, ..self }
    }

    /// Refuses to run git where it would use another's store, wait for a FIFO, or read without end.
    fn check_git_folder(&self, folder: &Path) -> Result<(), OurGitError> {
        #[cfg(test)]
        if self.without == Some(tests::Layer::Links) {
            return Ok(());
        }
        if let Some(claim) = self.stores.refused(folder) {
            let checkout = folder.to_owned();
            return Err(OurGitError::Borrowed { checkout, file: claim.file, folder: claim.folder });
        }
        match GitFolder::unfit(folder, Extent::Names) {
            Some(unfit) => Err(OurGitError::io("run git in", folder)(unfit.into())),
            None => Ok(()),
        }
    }

    /// Runs a git command that changes the git folder of a checkout and the checkout itself.
    /// Returns the result even if the command fails.
    ///
    /// # Errors
    /// If git cannot run, or would write through a link that leaves the git folder.
    pub async fn change(&self, folder: &Path, words: &[&str]) -> Result<Answer, OurGitError> {
        // Git tries out modes when it makes a repository, and sets that of a new configuration.
        let written = Written { folders: &[folder], changes_modes: true, ..Written::default() };
        self.ask(folder, words, Access::Write(&written)).await
    }

    /// Runs a git command that only reads the git folder of a checkout. Returns the result even if
    /// the command fails.
    ///
    /// # Errors
    /// If git cannot run.
    pub async fn look(&self, folder: &Path, words: &[&str]) -> Result<Answer, OurGitError> {
        self.ask(folder, words, Access::Look).await
    }

    /// Runs git. Returns an error if the command fails.
    pub(crate) async fn tell<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
        access: Access<'_>,
    ) -> Result<Answer, OurGitError> {
        let words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_os_string()).collect();
        let answer = self.ask(folder, &words, access).await?;
        if answer.is_success {
            return Ok(answer);
        }
        let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
        Err(OurGitError::Git { command: shown(&words), answer: said })
    }

    /// Runs git. Returns the result even if the command fails.
    pub(crate) async fn ask<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
        access: Access<'_>,
    ) -> Result<Answer, OurGitError> {
        self.ask_at_most(folder, words, access, ANSWER_BYTES).await
    }

    /// Runs git as [`Self::ask`] does, and stores at most `most` bytes of each output stream.
    pub(crate) async fn ask_at_most<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
        access: Access<'_>,
        most: usize,
    ) -> Result<Answer, OurGitError> {
        let mut stdout = Vec::new();
        let mut stdout_lines = 0;
        let mut answer = self
            .stream(folder, words, access, |bytes| {
                stdout_lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                keep(&mut stdout, bytes, most);
            })
            .await?;
        answer.stdout = stdout;
        answer.stdout_lines = stdout_lines;
        Ok(answer)
    }

    /// Runs git and gives its standard output to `sink`, piece by piece.
    async fn stream<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
        access: Access<'_>,
        sink: impl FnMut(&[u8]) + Send,
    ) -> Result<Answer, OurGitError> {
        let programs = match access {
            Access::Look => Programs::of_look(),
            Access::Compare => self.programs(folder).await?,
            // A command about another worktree reads the configuration of that worktree too.
            Access::Write(written) => {
                self.check_links(folder, written)?;
                let mut programs = self.programs(folder).await?;
                for other in written.folders.iter().filter(|other| other.join(".git").exists()) {
                    programs.add(self.programs(other).await?);
                }
                programs
            }
        };
        self.run(folder, words, access, programs, sink).await
    }

    /// Refuses to write through links that leave the git folder.
    fn check_links(&self, folder: &Path, written: &Written<'_>) -> Result<(), OurGitError> {
        #[cfg(test)]
        if self.without == Some(tests::Layer::Links) {
            return Ok(());
        }
        confined::check_links(&self.sandbox, folder, written).map(drop)
    }

    /// Lists the programs that the configuration of a working copy names.
    async fn programs(&self, folder: &Path) -> Result<Programs, OurGitError> {
        let words = ["config", "--show-scope", "--null", "--get-regexp", programs::NAMES];
        let mut listed = Vec::new();
        let keep = |bytes: &[u8]| keep(&mut listed, bytes, ANSWER_BYTES);
        let none = Programs::default();
        let answer = self.run(folder, words, Access::Look, none, keep).await?;
        let failed = |answer| Err(OurGitError::Git { command: "config".to_owned(), answer });
        // A filter that was cut off would stay active.
        if listed.len() >= ANSWER_BYTES {
            return failed("the configuration has too many filters".to_owned());
        }
        // Git also reports no success if there is no such setting.
        if !answer.is_success && answer.stderr.starts_with(b"fatal:") {
            return failed(String::from_utf8_lossy(&answer.stderr).trim().to_owned());
        }
        let programs = Programs::of(&listed);
        self.check_can_run(folder, &programs)?;
        Ok(programs)
    }

    /// Refuses to run git where nothing keeps a program of the repository from running unconfined.
    fn check_can_run(&self, folder: &Path, programs: &Programs) -> Result<(), OurGitError> {
        let Some(setting) = programs.unknown() else { return Ok(()) };
        let Some(reason) = self.sandbox.leaves_own_programs_free() else { return Ok(()) };
        Err(OurGitError::Unconfined {
            folder: folder.to_owned(),
            setting: setting.to_owned(),
            reason,
        })
    }

    async fn run<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        words: impl IntoIterator<Item = S>,
        access: Access<'_>,
        programs: Programs,
        mut sink: impl FnMut(&[u8]) + Send,
    ) -> Result<Answer, OurGitError> {
        let failed = |source: io::Error| OurGitError::io("run git in", folder)(source);
        let words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_os_string()).collect();
        self.check_git_folder(folder)?;
        written::check_files(folder, &words).map_err(failed)?;
        let (top, configuration) = GitFolder::configured(folder).unzip();
        let included = unfit_include(configuration.unwrap_or_default(), self.sandbox.home());
        if let Some((path, why)) = included {
            return Err(OurGitError::Configured { path, why });
        }
        // Git refuses to make a repository in a given checkout.
        let top = top.filter(|_| words.first().is_some_and(|word| word != "init"));
        let (grant, temporary) = match grant(&self.sandbox, folder, access, &programs) {
            #[cfg(test)]
            Err(_link) if self.without == Some(tests::Layer::Links) => {
                (tests::grant_without_check(folder, access), None)
            }
            granted => granted?,
        };
        let settings = Settings::of(programs).in_work_tree(top);
        #[cfg(test)]
        let settings = match self.without {
            Some(tests::Layer::Settings) => Settings::none(),
            Some(tests::Layer::Links) | None => settings,
        };
        let shown = shown(&words);
        let fill = |command: &mut tokio::process::Command| {
            settings.apply(command.as_std_mut());
            if let Some(temporary) = &temporary {
                command.envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, temporary.path())));
            }
            command.args(words);
        };
        let job = self.sandbox.start_own(folder, &grant, "git", fill).map_err(failed)?;
        self.bounds.hold(job.leader());
        let mut answer = Answer::default();
        let deadline = Some(Instant::now() + CALL_TIME);
        let stuck = Stuck::watch(folder, job.leader(), &self.running);
        let ended = job
            .run(deadline, STOP_GRACE, stuck.cancel(), |stream, bytes| match stream {
                Stream::Stdout => sink(bytes),
                Stream::Stderr => keep(&mut answer.stderr, bytes, ANSWER_BYTES),
            })
            .await
            .map_err(failed)?;
        let Ended { ending, left_behind } = ended;
        // Dropping this value kills the processes that git left running.
        drop(left_behind);
        match ending {
            Ending::Exited(status) => answer.is_success = status.success(),
            // What git said until then is no answer, not even that there is none.
            Ending::Cancelled => return Err(stopped(&shown, stuck.reason())),
            Ending::DeadlinePassed => {
                let reason = format!("it took longer than {} s", CALL_TIME.as_secs());
                return Err(stopped(&shown, reason));
            }
        }
        Ok(answer)
    }
}

/// Returns the part of a command that error messages name.
fn shown(words: &[OsString]) -> String {
    let shown = words.iter().take(2).map(|word| word.to_string_lossy());
    shown.collect::<Vec<_>>().join(" ")
}

fn stopped(command: &str, answer: String) -> OurGitError {
    OurGitError::Git { command: command.to_owned(), answer }
}

/// Appends bytes to an answer up to a limit.
fn keep(kept: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len());
    kept.extend(bytes.iter().take(room));
}

#[cfg(test)]
mod tests;
