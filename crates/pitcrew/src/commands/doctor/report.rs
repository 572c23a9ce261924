//! The report of `pitcrew doctor`: one line per finding, and the number of faults that are left.

use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;
use serde::Serialize;

use super::kept::Kept;
use super::sandbox::Held;
use crate::context::Context;
use crate::output::printable;

/// A fault or a note, in the form that is shown to the user.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// The kind of the finding, as one word that may contain underscores.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    /// A sentence that says what is wrong.
    detail: String,
    /// What `--repair` would do about the fault. `None` if only a person can repair the fault.
    pub(super) repair: Option<String>,
    /// What the repair did. `None` if the fault was not repaired.
    pub(super) repaired: Option<String>,
    /// The reason why the fault was not repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_because: Option<String>,
    /// Whether the finding is a note. Otherwise the finding is a fault.
    #[serde(skip)]
    pub(super) is_note: bool,
}

/// The report that `pitcrew doctor` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// Findings that inform the user and are not faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Finding>,
    total: usize,
    pub(super) left: usize,
    #[serde(flatten)]
    kept: Kept,
    /// For each sandbox profile, a text that says whether the profile works on this machine.
    sandbox: Held,
}

impl Finding {
    /// Builds a finding of this kind. The finding names no team and no path yet.
    /// Adds the flag for the root of the context to the commands in the text.
    pub(super) fn at_root(self, context: &Context) -> Self {
        Self { detail: context.with_root_flag(&self.detail), ..self }
    }

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

    /// Sets the team to which the finding belongs.
    pub(super) fn in_team(self, team: &TeamDir) -> Self {
        Self { team: Some(team.to_string()), ..self }
    }

    /// Sets the file or folder to which the finding belongs.
    pub(super) fn at(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// Returns the path of the file or folder to which the finding belongs.
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
        // `left` counts the faults that are not repaired. Notes are not counted, so they do not
        // change the exit code.
        let left = findings.iter().filter(|finding| finding.repaired.is_none()).count();
        Self { total: findings.len(), left, findings, notes, kept, sandbox: Held::new() }
    }

    /// Adds the results of the sandbox check.
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
