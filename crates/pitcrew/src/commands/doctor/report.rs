//! What the doctor shows: findings, one a line, and how many are left.

use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;
use serde::Serialize;

use super::kept::Kept;
use super::sandbox::Held;
use crate::output::printable;

/// Something that is wrong, as people read it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// What kind of thing it is, one word with underscores.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    /// What is wrong.
    detail: String,
    /// What `--repair` does about it; null when only a person can.
    pub(super) repair: Option<String>,
    /// What was done about it; null while it is as it was.
    pub(super) repaired: Option<String>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_because: Option<String>,
    /// Whether it is no fault.
    #[serde(skip)]
    pub(super) is_note: bool,
}

/// The answer of the command.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// What is to be known and is no fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Finding>,
    total: usize,
    pub(super) left: usize,
    #[serde(flatten)]
    kept: Kept,
    /// What holds of each sandbox profile.
    sandbox: Held,
}

impl Finding {
    /// A finding of that kind.
    pub(super) fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind,
            team: None,
            path: None,
            detail: detail.into(),
            repair: None,
            repaired: None,
            left_because: None,
            is_note: false,
        }
    }

    /// It is about that team.
    pub(super) fn in_team(self, team: &TeamDir) -> Self {
        Self { team: Some(team.to_string()), ..self }
    }

    /// It is about that file or folder.
    pub(super) fn at(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// Where the file or folder is that it is about.
    pub(super) fn place(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.display().to_string())
    }

    fn line(&self) -> String {
        let mut line = if self.is_note { "note: ".to_owned() } else { String::new() };
        line += &self.kind.replace('_', " ");
        if let Some(team) = &self.team {
            line += &format!(" in team {team}");
        }
        if let Some(path) = &self.path {
            line += &format!(" {}", path.display());
        }
        if !self.detail.is_empty() {
            line += &format!(": {}", self.detail);
        }
        match (&self.repaired, &self.left_because, &self.repair) {
            (Some(done), _, _) => line += &format!(" -> {done}"),
            (None, Some(why), _) => line += &format!(" -> left: {why}"),
            (None, None, Some(repair)) => line += &format!(" (--repair: {repair})"),
            (None, None, None) if self.is_note => {}
            (None, None, None) => line += " (left to you)",
        }
        printable(&line).into_owned()
    }
}

impl Report {
    pub(super) fn of(findings: Vec<Finding>, kept: Kept) -> Self {
        let (notes, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.is_note);
        let left = findings.iter().filter(|finding| finding.repaired.is_none()).count();
        Self { total: findings.len(), left, findings, notes, kept, sandbox: Held::new() }
    }

    /// The same with what holds of the sandbox.
    pub(super) fn with_sandbox(self, sandbox: Held) -> Self {
        Self { sandbox, ..self }
    }

    pub(super) fn text(&self) -> String {
        let mut lines: Vec<String> = self.findings.iter().map(Finding::line).collect();
        lines.extend(self.notes.iter().map(Finding::line));
        lines.extend(self.kept.lines());
        lines.push(match (self.findings.is_empty(), self.notes.len()) {
            (true, 0) => "all is well".to_owned(),
            (true, 1) => "no faults, 1 note".to_owned(),
            (true, notes) => format!("no faults, {notes} notes"),
            (false, _) => format!("{} found, {} left", self.total, self.left),
        });
        lines.join("\n")
    }
}
