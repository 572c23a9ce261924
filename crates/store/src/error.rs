//! What can go wrong in a store.

use std::path::PathBuf;

use pitcrew_protocol::{ApiError, TeamDir};

use crate::LeaseName;

/// A store could not do what it was asked to; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No team lives in that folder.
    #[error("no team in folder {team}")]
    NoTeam {
        /// The folder.
        team: TeamDir,
    },
    /// A team lives in that folder already.
    #[error("folder {team} is taken by team {name:?}")]
    TeamTaken {
        /// The folder.
        team: TeamDir,
        /// The name of the team that has it.
        name: String,
    },
    /// A file holds something other than it should, also when read under its lock.
    #[error("{} is not readable: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where in it.
        reason: String,
    },
    /// Something else stands where a folder should be. It is neither followed nor replaced.
    #[error("{} cannot be used: {}", path.display(), what_stands(*.is_link))]
    NoFolder {
        /// What is there.
        path: PathBuf,
        /// Whether it is a link.
        is_link: bool,
    },
    /// The lock was held by somebody else for too long.
    #[error("{} stayed locked for {waited_ms} ms{}", path.display(), by(.holder.as_deref()))]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// How long we waited.
        waited_ms: u64,
        /// The process that holds the lock, where the system tells.
        holder: Option<String>,
    },
    /// This process does not hold that lease.
    #[error("{lease} is not held here")]
    NotHeld {
        /// The lease.
        lease: LeaseName,
    },
    /// The system refused a read or a write.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The caller's own edit said no; what it said is passed through.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// What stands in a folder's place.
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
    /// The same error once more, for each of those who shared an operation.
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
