//! `pitcrew log`: shows what happened in a team.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap_complete::engine::ArgValueCompleter;
use futures_util::StreamExt as _;
use pitcrew_team::TeamRecords;
use pitcrew_team::store::{Change, Watch};
use pitcrew_view::team_log::{LogEntry, LogKind};
use tokio::signal::unix::{Signal, SignalKind, signal};

mod lines;
mod reading;

use lines::Lines;
use reading::Reading;

use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::selection::{self, AnyTeamWord};
use crate::when::{Since, since};

/// Show what happened in a team, running or finished
///
/// The log tells who spawned whom, what was written to whom, what became of tasks, plans and
/// permission requests, and who ended why and at what cost. It comes from the team's journal and
/// mail. Of a team that Claude Code leads there is only the mail. Times are in UTC.
///
/// The log leaves out details: the begin and end of turns (state), the ways of messages (delivery)
/// and the model calls (turn). --kind shows them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew log                              the team of this repository
  pitcrew log backend --agent bob
  pitcrew log --since 10m --kind mail --kind task
  pitcrew log --kind all --json            one JSON line per event
  pitcrew log --follow                     goes on until Ctrl-C, or until the team is gone")]
pub(crate) struct Log {
    #[command(flatten)]
    team: AnyTeamWord,
    /// Show only what this agent did, and what concerns it; may be given several times
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    agent: Vec<String>,
    /// Show only what happened since then: an age such as 10m, 2h or 3d, or a time such as
    /// 2026-11-23 or 2026-11-23T14:05 (UTC)
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Show only events of this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Keep running and show new events as they happen
    #[arg(long, short)]
    follow: bool,
}

/// A value of `--kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    All,
    One(LogKind),
}

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        const KINDS: [Kind; LogKind::ALL.len() + 1] = [
            Kind::One(LogKind::Run),
            Kind::One(LogKind::Member),
            Kind::One(LogKind::State),
            Kind::One(LogKind::Mail),
            Kind::One(LogKind::Delivery),
            Kind::One(LogKind::Task),
            Kind::One(LogKind::Plan),
            Kind::One(LogKind::Permission),
            Kind::One(LogKind::Turn),
            Kind::All,
        ];
        &KINDS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::All => "all",
            Self::One(kind) => kind.as_str(),
        }))
    }
}

/// Selects the entries that a command shows.
#[derive(Debug)]
struct Filter {
    agents: Vec<String>,
    kinds: Vec<Kind>,
    since_ms: Option<i64>,
}

impl Filter {
    fn selects(&self, entry: &LogEntry) -> bool {
        let is_of_kind = match self.kinds.as_slice() {
            [] => !entry.kind.is_detail(),
            kinds => kinds.iter().any(|kind| match kind {
                Kind::All => true,
                Kind::One(kind) => *kind == entry.kind,
            }),
        };
        let is_of_agent =
            self.agents.is_empty() || self.agents.iter().any(|name| entry.concerns(name));
        is_of_kind && is_of_agent && self.since_ms.is_none_or(|since_ms| entry.at_ms >= since_ms)
    }
}

impl Log {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        context.briefly(async {
            let records = selection::records(context, self.team.name()).await?;
            let watching = match &records {
                // The watch starts before the first read. Otherwise a change between the read and
                // the start of the watch would be missed.
                TeamRecords::Live(team) if self.follow => {
                    let changes = team.watch().await.map_err(Failure::internal)?;
                    // The handler is registered here, so that a Ctrl-C during the output below is
                    // not lost.
                    let interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
                    Some((changes, interrupt))
                }
                TeamRecords::Live(_) | TeamRecords::Archived(..) => None,
            };
            let mut reading = Reading::of(records).await?;
            let first = reading.all().await?;
            tell_unread(context, &mut reading)?;
            let filter = self.filter(context, &reading, &first).await?;
            let mut lines = Lines::new(reading.longest_name());
            let mut show = |entries: Vec<LogEntry>| -> Result<(), Failure> {
                let shown = entries.iter().filter(|entry| filter.selects(entry));
                shown
                    .into_iter()
                    .try_for_each(|entry| context.output.item(entry, |entry| lines.of(entry)))
            };
            show(first)?;
            match watching {
                Some(watching) => follow(&mut reading, watching, show).await,
                None if self.follow => {
                    output::remark("the team is in the archive: nothing more happens in it");
                    Ok(())
                }
                None => Ok(()),
            }
        })
    }

    async fn filter(
        &self,
        context: &Context,
        reading: &Reading,
        entries: &[LogEntry],
    ) -> Result<Filter, Failure> {
        let mut agents = Vec::new();
        for given in &self.agent {
            // Users and other programs write to a team too, and subagents make model calls. They
            // are no members.
            let is_known = entries.iter().any(|entry| entry.concerns(given));
            match reading.records().member(given).await {
                Ok(name) => agents.push(name.to_string()),
                Err(_) if is_known => agents.push(given.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        let now_ms = context.teams()?.now_ms();
        let since_ms = self.since.map(|since| since.at_ms(now_ms));
        Ok(Filter { agents, kinds: self.kind.clone(), since_ms })
    }
}

/// Returns all entries of a team's log that can be read, and what cannot be read, as texts for a
/// person.
///
/// # Errors
/// Returns an error if the names of the members or the journal cannot be read.
pub(crate) async fn entries(records: TeamRecords) -> Result<(Vec<LogEntry>, Vec<String>), Failure> {
    let mut reading = Reading::of(records).await?;
    let entries = reading.all().await?;
    Ok((entries, reading.take_unread()))
}

/// Warns about what cannot be read. In JSON each warning is an entry of the log too, whatever the
/// filter selects.
fn tell_unread(context: &Context, reading: &mut Reading) -> Result<(), Failure> {
    for text in reading.take_unread() {
        output::remark(&format!("warning: {text}"));
        if context.output.form() == Form::Json {
            context.output.item(&LogEntry::unread(&text), |_| String::new())?;
        }
    }
    Ok(())
}

/// Shows new entries until the user presses Ctrl-C or the team is gone.
async fn follow(
    reading: &mut Reading,
    (mut changes, mut interrupt): (Watch, Signal),
    mut show: impl FnMut(Vec<LogEntry>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            _ = interrupt.recv() => return Ok(()),
        };
        match change {
            Some(Change::Journal | Change::Unsure) => show(reading.more().await?)?,
            Some(Change::Inbox(inbox)) => show(reading.mail_in(&inbox).await?)?,
            Some(Change::Tasks | Change::Config | Change::Lease(_)) => {}
            Some(Change::Unwatched { reason }) => {
                output::remark(&format!("warning: {reason}; changes are looked for every second"));
            }
            Some(Change::Gone) | None => {
                let (rest, remark) = reading.rest().await?;
                show(rest)?;
                output::remark(&remark);
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_name() {
        let names: Vec<String> = Kind::value_variants()
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        let expected = "run member state mail delivery task plan permission turn all".split(' ');
        assert_eq!(names, expected.collect::<Vec<_>>());
    }
}
