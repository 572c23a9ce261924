//! `pitcrew doctor --reference`: finds fields and files of the reference client that pitcrew does
//! not know.
//!
//! The `protocol` crate defines the known fields. This module compares every file below the root
//! with these fields. The installed client is run only to get its version.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pitcrew_protocol::{Drift, DriftKind, RECORDED_VERSIONS, Written, counted, drift};
use pitcrew_team::store::WrittenFile;
use serde::Serialize;

use crate::client_version;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::printable;

/// The reference client's program name on the `PATH`.
const CLIENT: &str = "claude";

/// The result that `pitcrew doctor --reference` prints.
#[derive(Debug, Serialize)]
struct Compared {
    /// The output of `claude --version`. `None` if no client is installed.
    version: Option<String>,
    /// The client versions whose files were recorded. The format of these files is known.
    recorded_versions: [&'static str; 4],
    /// The number of files that were compared, by kind.
    looked_at: LookedAt,
    findings: Vec<Finding>,
    total: usize,
}

#[derive(Debug, Default, Serialize)]
struct LookedAt {
    configs: usize,
    inboxes: usize,
    tasks: usize,
}

/// A difference from the known format, and the files that have it.
#[derive(Debug, Serialize)]
struct Finding {
    #[serde(flatten)]
    drift: Drift,
    /// The first file that has the difference.
    path: PathBuf,
    /// The number of files that have the difference.
    files: usize,
}

/// Compares the files below the root with the known format of the reference client.
///
/// # Errors
/// Returns an error if something new was found, or if a folder cannot be listed.
pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let files =
        context.files(&context.settings_for_looking()?)?.written().map_err(Failure::internal)?;
    let version = match client_version::find(context, CLIENT) {
        Some(client) => client_version::of(&client).await,
        None => None,
    };
    let compared = Compared::of(version, &files);
    context.output.answer(&compared, Compared::text)?;
    if compared.findings.is_empty() {
        return Ok(());
    }
    Err(Failure::told(FailureKind::Failed))
}

impl Compared {
    fn of(version: Option<String>, files: &[WrittenFile]) -> Self {
        let (mut looked_at, mut found) = (LookedAt::default(), BTreeMap::<Drift, Finding>::new());
        for file in files {
            match file.written {
                Written::Config => looked_at.configs += 1,
                Written::Inbox => looked_at.inboxes += 1,
                Written::Task => looked_at.tasks += 1,
            }
            for drift in drift(file.written, &file.text) {
                let finding = Finding { drift: drift.clone(), path: file.path.clone(), files: 0 };
                found.entry(drift).or_insert(finding).files += 1;
            }
        }
        let findings: Vec<_> = found.into_values().collect();
        Self {
            version,
            recorded_versions: RECORDED_VERSIONS,
            looked_at,
            total: findings.len(),
            findings,
        }
    }

    fn text(&self) -> String {
        let LookedAt { configs, inboxes, tasks } = self.looked_at;
        let client = match self.version.as_deref() {
            None => "no claude on the PATH".to_owned(),
            Some(version) if RECORDED_VERSIONS.contains(&version) => {
                format!("claude {version}, which was recorded")
            }
            Some(version) => {
                format!("claude {version}; recorded were {}", RECORDED_VERSIONS.join(", "))
            }
        };
        let mut text = format!("{}\n", printable(&client));
        for finding in &self.findings {
            text += &format!("{}\n", printable(&finding.text()));
        }
        let end = if self.findings.is_empty() {
            "nothing new".to_owned()
        } else {
            format!("{} new", self.total)
        };
        text + &format!(
            "{end} in {}, {inboxes} {} and {}",
            counted(configs, "config"),
            if inboxes == 1 { "inbox" } else { "inboxes" },
            counted(tasks, "task")
        )
    }
}

impl Finding {
    fn text(&self) -> String {
        let Drift { kind, object, field } = &self.drift;
        let what = match kind {
            DriftKind::NewFrame => format!("new frame {field}"),
            DriftKind::NewField => format!("new field {object}.{field}"),
            DriftKind::MissingField => format!("missing field {object}.{field}"),
            DriftKind::OtherOrder => format!("in another place {object}.{field}"),
        };
        let more =
            if self.files > 1 { format!(" and {} more", self.files - 1) } else { String::new() };
        format!("{what}: {}{more}", self.path.display())
    }
}
