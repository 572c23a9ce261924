//! Hides and shows the pane of a member, and records in the config which panes are hidden.

use pitcrew_panes::{PaneError, PaneId, PaneView, Panes};
use pitcrew_protocol::ApiError;
use pitcrew_team::Team;

/// Why a pane was not hidden or shown.
#[derive(Debug, thiserror::Error)]
pub enum MemberPaneError {
    /// The terminal refused.
    #[error(transparent)]
    Pane(#[from] PaneError),
    /// The config could not be changed.
    #[error(transparent)]
    Team(#[from] ApiError),
}

/// Hides a pane. The member in it continues.
///
/// # Errors
/// If the terminal refuses, or if the config cannot be changed.
pub async fn hide(team: &Team, panes: &dyn Panes, pane: &PaneId) -> Result<(), MemberPaneError> {
    panes.hide(pane).await?;
    Ok(team.set_hidden(&pane.0, true).await?)
}

/// Shows a hidden pane again, and returns where a person can see it. The place is `None` if the
/// terminal cannot report it: the pane is shown anyway.
///
/// # Errors
/// If the terminal refuses, or if the config cannot be changed.
pub async fn show(
    team: &Team,
    panes: &dyn Panes,
    pane: &PaneId,
) -> Result<Option<PaneView>, MemberPaneError> {
    panes.show(pane).await?;
    team.set_hidden(&pane.0, false).await?;
    Ok(panes.in_view_at(pane).await.ok().flatten())
}
