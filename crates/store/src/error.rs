//! The errors of a store.

use std::path::PathBuf;

use pitcrew_protocol::{ApiError, TeamDir};

use crate::LeaseName;

/// An operation of a store failed. Unless its documentation says otherwise, it changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder contains no team.
    #[error("no team in folder {team}")]
    NoTeam {
        /// The folder that contains no team.
        team: TeamDir,
    },
    /// The folder already contains a team.
    #[error("folder {team} is taken by team {name:?}")]
    TeamTaken {
        /// The folder that is in use.
        team: TeamDir,
        /// The name of the team that uses the folder.
        name: String,
    },
    /// The content of a file is invalid, even if the file is read while its lock is held.
    #[error("{} is not readable: {reason}", path.display())]
    Corrupt {
        /// The path of the file.
        path: PathBuf,
        /// A description of the fault, with its position in the file.
        reason: String,
    },
    /// A link or a file is at a path where a folder must be. The store does not follow or replace
    /// that entry.
    #[error("{} cannot be used: {}", path.display(), what_stands(*.is_link))]
    NoFolder {
        /// The path of the link or file.
        path: PathBuf,
        /// Whether a link is at the path. If not, a file or another special entry is at the path.
        is_link: bool,
    },
    /// Another process held the lock for too long.
    #[error("{} stayed locked for {waited_ms} ms{}", path.display(), by(.holder.as_deref()))]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// Time that this process waited for the lock, in milliseconds.
        waited_ms: u64,
        /// The process that holds the lock, if the operating system reports it.
        holder: Option<String>,
    },
    /// This process does not hold the lease.
    #[error("this process does not hold {lease}")]
    NotHeld {
        /// The lease that this process does not hold.
        lease: LeaseName,
    },
    /// The operating system returned an error for a file operation.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action, as a verb such as `read`.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The caller's edit returned this error. It is passed on unchanged.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// Describes the entry that is at a path where a folder must be.
fn what_stands(is_link: bool) -> &'static str {
    match is_link {
        true => "it is a link, but must be a folder; links are not followed",
        false => "it is not a folder, but must be one",
    }
}

fn by(holder: Option<&str>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

impl StoreError {
    /// Copies the error, because several callers that shared one operation each need the error.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::NoTeam { team } => Self::NoTeam { team: team.clone() },
            Self::TeamTaken { team, name } => {
                Self::TeamTaken { team: team.clone(), name: name.clone() }
            }
            Self::Corrupt { path, reason } => {
                Self::Corrupt { path: path.clone(), reason: reason.clone() }
            }
            Self::NoFolder { path, is_link } => {
                Self::NoFolder { path: path.clone(), is_link: *is_link }
            }
            Self::Locked { path, waited_ms, holder } => {
                Self::Locked { path: path.clone(), waited_ms: *waited_ms, holder: holder.clone() }
            }
            Self::Io { action, path, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(source.kind(), source.to_string()),
                };
                Self::Io { action, path: path.clone(), source }
            }
            Self::NotHeld { lease } => Self::NotHeld { lease: lease.clone() },
            Self::Refused(error) => Self::Refused(error.clone()),
        }
    }
}
