//! Permission modes by their names on the wire, as the team's config has them, and what a run that goes on leaves of them.

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, Member, PermissionMode};
use pitcrew_team::{KnownMode, ModeLowered, SpawnRecord, Team};

/// Whether the config says anything of a member's mode.
pub(crate) fn says_mode(member: &Member) -> bool {
    member.mode.is_some()
        || member.plan_mode_required == Some(true)
        || SpawnRecord::of(member).is_some_and(|record| record.mode.is_some())
}

/// The other mode of a mode that this run does not allow.
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

/// The members that work in a mode which this run does not allow, or would after their plan: [`lower_modes`] lowers it.
///
/// # Errors
/// When the team's files cannot be read.
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

/// Takes from the members of a team that goes on what this run does not allow: `bypassPermissions` unless the run has it, and
/// the mode that freed the run before as a whole. Answers with what is to be said of each.
///
/// A mode that a lead gave beside that, with the user's yes or by a definition, stays.
///
/// # Errors
/// When the team's files cannot be read or written.
pub(super) async fn lower_modes(team: &Team, run: PermissionMode) -> Result<Vec<String>, ApiError> {
    let lowered = lowered_by(team, run).await?;
    let mut said = Vec::new();
    for member in &team.config().await?.members {
        // Who joined by itself has its mode from whoever started it.
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
