//! The errors of a store.

use std::path::PathBuf;

use pitcrew_protocol::{ApiError, TeamDir};

use crate::LeaseName;

/// An operation of a store failed and changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder contains no team.
    #[error("no team in folder {team}")]
    NoTeam {
        /// The folder.
        team: TeamDir,
    },
    /// The folder already contains a team.
    #[error("folder {team} is taken by team {name:?}")]
    TeamTaken {
        /// The folder.
        team: TeamDir,
        /// The name of that team.
        name: String,
    },
    /// A file has invalid content, even when it is read under its lock.
    #[error("{} is not readable: {reason}", path.display())]
    Corrupt {
        /// The path of the file.
        path: PathBuf,
        /// The fault, and its position in the file.
        reason: String,
    },
    /// A link or a file is at the path of a folder. It is neither followed nor replaced.
    #[error("{} cannot be used: {}", path.display(), what_stands(*.is_link))]
    NoFolder {
        /// The path of the entry that is there.
        path: PathBuf,
        /// Whether it is a link.
        is_link: bool,
    },
    /// Another process held the lock for too long.
    #[error("{} stayed locked for {waited_ms} ms{}", path.display(), by(.holder.as_deref()))]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// Time waited for the lock.
        waited_ms: u64,
        /// The process that holds the lock, if the operating system reports it.
        holder: Option<String>,
    },
    /// This process does not hold the lease.
    #[error("{lease} is not held here")]
    NotHeld {
        /// The lease.
        lease: LeaseName,
    },
    /// The operating system refused a read or a write.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The caller's own edit returned an error, which is passed on unchanged.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// Names the kind of entry that is at the path of a folder.
fn what_stands(is_link: bool) -> &'static str {
    match is_link {
        true => "a link stands where a folder should, and is not followed",
        false => "something else stands where a folder should",
    }
}

fn by(holder: Option<&str>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

impl StoreError {
    /// Makes a copy of the error, one for each caller that shared the operation.
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
