//! A pane backend without a terminal. Each pane is a plain process, and its screen is the file to
//! which the process writes.

use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_panes::{NewPane, PaneError, PaneId, PaneState, PaneTag, Panes, StartedPane};
use pitcrew_process::identity::ProcessIdentity;
use tempfile::TempDir;

#[derive(Clone, Debug)]
pub(crate) struct ProcessPanes {
    inner: Arc<Inner>,
    /// If true, `start` returns only after the program in the pane has written its first output.
    waits_for_words: bool,
}

#[derive(Debug)]
struct Inner {
    screens: TempDir,
    made: AtomicUsize,
    panes: Mutex<BTreeMap<PaneId, Kept>>,
}

#[derive(Clone, Debug)]
struct Kept {
    tag: PaneTag,
    process: ProcessIdentity,
    screen: PathBuf,
    exit: Arc<Mutex<Option<Option<i32>>>>,
}

impl ProcessPanes {
    pub(crate) fn new() -> Self {
        let screens = tempfile::tempdir().unwrap();
        let inner = Inner { screens, made: AtomicUsize::new(0), panes: Mutex::default() };
        Self { inner: Arc::new(inner), waits_for_words: false }
    }

    /// Returns the same panes, but `start` now waits for the first output of the program in the
    /// pane. So the screen is never empty. The programs must write something.
    pub(crate) fn speaking(self) -> Self {
        Self { waits_for_words: true, ..self }
    }

    fn panes(&self) -> BTreeMap<PaneId, Kept> {
        self.inner.panes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn processes(&self) -> Vec<ProcessIdentity> {
        self.panes().into_values().map(|kept| kept.process).collect()
    }

    /// Starts a pane with the tag of another team. The pane imitates a pane of the user, which
    /// pitcrew must not change.
    pub(crate) async fn foreign(&self) -> PaneId {
        let tag = PaneTag {
            root: "theirs".to_owned(),
            team: pitcrew_protocol::TeamDir::of("theirs"),
            agent: None,
        };
        let pane = NewPane {
            argv: vec!["sleep".to_owned(), "1000".to_owned()],
            cwd: "/".into(),
            env: Vec::new(),
            title: "mine".to_owned(),
            color: None,
            tag,
        };
        Self { waits_for_words: false, ..self.clone() }.start(&pane).await.unwrap().id
    }
}

#[async_trait]
impl Panes for ProcessPanes {
    fn backend_type(&self) -> &'static str {
        "pane"
    }

    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError> {
        pane.check()?;
        let number = self.inner.made.fetch_add(1, Ordering::Relaxed);
        let id = PaneId(format!("p{number}-{}", pane.title));
        let screen = self.inner.screens.path().join(&id.0);
        let out = std::fs::File::create(&screen).unwrap();
        let mut command = Command::new(&pane.argv[0]);
        command
            .args(&pane.argv[1..])
            .current_dir(&pane.cwd)
            .envs(pane.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        let mut child =
            command.spawn().map_err(|error| PaneError::Unfit { what: error.to_string() })?;
        let pid = child.id();
        let process = ProcessIdentity::of(pid).unwrap_or(ProcessIdentity { pid, start_ticks: 0 });
        let exit = Arc::new(Mutex::new(None));
        let kept =
            Kept { tag: pane.tag.clone(), process, screen: screen.clone(), exit: exit.clone() };
        self.inner.panes.lock().unwrap().insert(id.clone(), kept);
        std::thread::spawn(move || {
            let status = child.wait().unwrap();
            *exit.lock().unwrap() =
                Some(status.code().or_else(|| status.signal().map(|signal| 128 + signal)));
        });
        while self.waits_for_words
            && process.is_alive()
            && std::fs::metadata(&screen).unwrap().len() == 0
        {
            tokio::task::yield_now().await;
        }
        Ok(StartedPane { id, pid: Some(pid), session: None, window: None, is_split: None })
    }

    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError> {
        let Some(kept) = self.panes().remove(pane) else { return Ok(PaneState::Gone) };
        // The kernel may report the end of a process before the waiting thread has stored the exit
        // status. So wait for the exit status.
        while !kept.process.is_alive() && kept.exit.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let exit = *kept.exit.lock().unwrap();
        Ok(match exit {
            Some(exit) => PaneState::Ended { exit },
            None => PaneState::Running { pid: Some(kept.process.pid) },
        })
    }

    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError> {
        Ok(self.panes().remove(pane).map(|kept| std::fs::read_to_string(kept.screen).unwrap()))
    }

    async fn show(&self, _pane: &PaneId) -> Result<(), PaneError> {
        Err(PaneError::Unsupported { terminal: "a process".to_owned(), what: "be shown" })
    }

    async fn hide(&self, _pane: &PaneId) -> Result<(), PaneError> {
        Err(PaneError::Unsupported { terminal: "a process".to_owned(), what: "be hidden" })
    }

    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError> {
        let Some(kept) = self.panes().remove(pane) else { return Ok(()) };
        if !tag.covers(&kept.tag) {
            return Err(PaneError::Foreign { pane: pane.clone(), tag: tag.to_string() });
        }
        let _either = kept.process.stop(Duration::from_millis(100)).await;
        self.inner.panes.lock().unwrap().remove(pane);
        Ok(())
    }

    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError> {
        let panes = self.panes().into_iter().filter(|(_, kept)| tag.covers(&kept.tag));
        Ok(panes.map(|(id, kept)| (id, kept.tag)).collect())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for kept in self.panes.lock().unwrap_or_else(PoisonError::into_inner).values() {
            // An error is ignored, because the process may have ended already.
            let _either = kept.process.signal_group(rustix::process::Signal::KILL);
        }
    }
}
