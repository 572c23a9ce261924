//! Reads from the team's records how its last run ended.

use pitcrew_team::store::EndedRun;
use pitcrew_team::{Team, TeamRecords};
use pitcrew_view::text::{first_line, printable};

use super::newest_archive;
use crate::app::Done;

/// The end of a run whose work is done, as the journal names it.
const COMPLETED: &str = "completed";

/// The maximum number of characters of the reason why a run ended.
const REASON_CHARS: usize = 100;

/// Describes the end of the team's last run.
pub(super) async fn of_last_run(team: &Team) -> Done {
    let summary = match TeamRecords::Live(team.clone()).summary().await {
        Ok(summary) => Some(summary),
        // A completed team has gone into the archive.
        Err(_no_team) => match newest_archive(team).await {
            Some(records) => records.summary().await.ok(),
            None => None,
        },
    };
    match summary {
        Some(summary) => in_words(summary.runs.ended.as_ref()),
        None => Done::Failed("the run has ended; the team's records cannot be read".to_owned()),
    }
}

fn in_words(ended: Option<&EndedRun>) -> Done {
    let Some(end) = ended.and_then(|ended| ended.end.as_deref()) else {
        return Done::Failed("the process of the run ended without a word".to_owned());
    };
    if end == COMPLETED {
        return Done::Told("the run is complete".to_owned());
    }
    let end = printable(end).replace('_', " ");
    match ended.and_then(|ended| ended.reason.as_deref()) {
        Some(reason) => {
            Done::Told(format!("the run ended, {end}: {}", first_line(reason, REASON_CHARS)))
        }
        None => Done::Told(format!("the run ended, {end}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_described_as_the_host_describes_it() {
        let said = |end: Option<(&str, Option<&str>)>| {
            let ended = end.map(|(end, reason)| EndedRun {
                at_ms: 0,
                end: Some(end.to_owned()),
                reason: reason.map(str::to_owned),
            });
            match in_words(ended.as_ref()) {
                Done::Told(text) | Done::Failed(text) => text,
                done => panic!("{done:?}"),
            }
        };
        assert_eq!(said(Some(("completed", None))), "the run is complete");
        let stalled = said(Some(("limit_reached", Some("it made 3 calls"))));
        assert_eq!(stalled, "the run ended, limit reached: it made 3 calls");
        assert_eq!(said(None), "the process of the run ended without a word");
    }
}
