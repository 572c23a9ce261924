//! Reads permission modes from the team's config. If a resumed run does not allow a member's mode,
//! replaces that mode by a stricter one.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Member, PermissionMode};
use pitcrew_team::{KnownMode, ModeLowered, SpawnRecord, Team};

/// Returns true if the config sets a mode for the member.
pub(crate) fn says_mode(member: &Member) -> bool {
    member.mode.is_some()
        || member.plan_mode_required == Some(true)
        || SpawnRecord::of(member).is_some_and(|record| record.mode.is_some())
}

/// Returns a function that maps a mode to its replacement. The function returns `None` for a mode
/// that this run allows.
async fn lowered_by(
    team: &Team,
    run: PermissionMode,
) -> Result<impl Fn(&str) -> Option<&'static str> + Clone + use<>, ApiError> {
    let before = team.kept_bounds().await?.mode;
    Ok(move |name: &str| {
        let mode = PermissionMode::named(name)?;
        let is_runs = mode == PermissionMode::BypassPermissions || before.as_deref() == Some(name);
        (is_runs && mode.freedom() > run.freedom()).then(|| run.handed_down().as_str())
    })
}

/// Returns the members whose permission mode [`lower_modes`] must replace, because this run does
/// not allow it. The mode that a member will get after the approval of its plan counts too.
pub(super) async fn too_free(team: &Team, run: PermissionMode) -> Result<Vec<AgentName>, ApiError> {
    let (lowered, config) = (lowered_by(team, run).await?, team.config().await?);
    let is_too_free = |member: &&Member| {
        let spawned = SpawnRecord::of(member).and_then(|record| record.mode);
        let works = KnownMode::of(team, member).0.mode().to_owned();
        let says = KnownMode::of_another_client(member).mode().to_owned();
        spawned.into_iter().chain([works, says]).any(|mode| lowered(&mode).is_some())
    };
    Ok(config.teammates().filter(is_too_free).map(|member| member.name.clone()).collect())
}

/// Replaces members' permission modes that a resumed run does not allow. Two modes can be replaced:
/// `bypassPermissions`, and the mode of the previous run. They are replaced only if they allow more
/// than the mode of this run. Returns one notice for each change.
///
/// Every other mode stays, because the user approved it or an agent definition sets it.
///
/// # Errors
/// When the team's files cannot be read or written.
pub(super) async fn lower_modes(team: &Team, run: PermissionMode) -> Result<Vec<String>, ApiError> {
    let lowered = lowered_by(team, run).await?;
    let mut said = Vec::new();
    for member in &team.config().await?.members {
        // A member that joined by itself got its mode from the process that started it. This run
        // does not change such a mode.
        let is_its_own = member.prompt.is_none() && member.name.as_str() != LEAD_NAME;
        if is_its_own {
            continue;
        }
        if let Some(ModeLowered { before, now }) =
            team.lower_mode(&member.name, lowered.clone()).await?
        {
            let name = &member.name;
            said.push(format!(
                "{name} worked in {before} in the run before, which this run does not allow; it goes on in {now} \
                 (`pitcrew member mode {name} {before}` frees it again while the team runs)"
            ));
        }
    }
    Ok(said)
}
