//! Writes all metrics. `docs/operators.md` lists them, and a test compares the list.

use pitcrew_team::store::Spent;
use pitcrew_view::recorded::usage_of;

use super::all_teams::Reading;
use super::exposition::{Exposition, Kind, Number};
use super::team_reading::TeamReading;
use crate::app::App;
use crate::failure::Failure;

pub(crate) use super::exposition::TEXT_FORMAT;

/// Returns the text of a scrape.
///
/// # Errors
/// If the teams cannot be listed.
pub(crate) async fn scrape(app: &App) -> Result<String, Failure> {
    let reading = app.metrics.teams.reading(app).await?;
    let mut text = Exposition::default();
    let help = "The version of the server. The value is always 1.";
    text.metric("pitcrew_build_info", Kind::Gauge, help)
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1_u64);
    app.metrics.requests.write(&mut text);
    write_teams(&reading, &mut text);
    write_work(&reading, &mut text);
    write_mail(&reading, &mut text);
    write_usage(&reading, &mut text);
    Ok(text.into_text())
}

fn write_teams(reading: &Reading, text: &mut Exposition) {
    let help =
        "Teams by state. Unknown is led by another client, which does not say whether it runs.";
    let mut teams = text.metric("pitcrew_teams", Kind::Gauge, help);
    let by_state = [
        ("running", reading.running),
        ("stopped", reading.stopped),
        ("unknown", reading.unknown),
        ("archived", reading.archived),
    ];
    for (state, count) in by_state {
        teams.sample(&[("state", state)], count);
    }
    let help = "Teams of which a file cannot be read. They have no series of their own.";
    text.metric("pitcrew_teams_unreadable", Kind::Gauge, help).sample(&[], reading.unreadable);
    let help = "Running teams whose process does not answer. It may be suspended.";
    let silent = reading.teams.iter().filter(|team| team.questions.is_none()).count();
    let silent = u64::try_from(silent).unwrap_or(u64::MAX);
    text.metric("pitcrew_hosts_silent", Kind::Gauge, help).sample(&[], silent);
    let help = "Teams over the limit of teams with series of their own.";
    text.metric("pitcrew_teams_left_out", Kind::Gauge, help).sample(&[], reading.left_out);
}

fn write_work(reading: &Reading, text: &mut Exposition) {
    let mut agents =
        text.metric("pitcrew_agents", Kind::Gauge, "Agents of running teams by state.");
    for team in &reading.teams {
        for (state, count) in team.agents.iter().flatten() {
            agents.sample(&[team.label(), ("state", state)], *count);
        }
    }
    let mut tasks = text.metric("pitcrew_tasks", Kind::Gauge, "Tasks by state.");
    for team in &reading.teams {
        for (state, count) in &team.tasks {
            tasks.sample(&[team.label(), ("state", state)], *count);
        }
    }
    let help = "Permission requests that wait for a person.";
    each(reading, text, ("pitcrew_open_questions", Kind::Gauge, help), |team| {
        Some(team.questions?.count.into())
    });
    let help = "The age of the oldest permission request that waits for a person, or 0.";
    each(reading, text, ("pitcrew_oldest_question_seconds", Kind::Gauge, help), |team| {
        Some(team.questions?.oldest_seconds(reading.at_ms).into())
    });
}

fn write_mail(reading: &Reading, text: &mut Exposition) {
    let help = "Messages that were persisted, delivered, or given up (dead).";
    let mut messages = text.metric("pitcrew_messages_total", Kind::Counter, help);
    for team in &reading.teams {
        let counts = team.messages;
        let by_state = [
            ("persisted", counts.persisted),
            ("delivered", counts.delivered),
            ("dead", counts.dead),
        ];
        for (state, count) in by_state {
            messages.sample(&[team.label(), ("state", state)], count);
        }
    }
    let help = "Messages that their receivers have not read.";
    each(reading, text, ("pitcrew_unread_messages", Kind::Gauge, help), |team| {
        Some(team.unread.count.into())
    });
    let help = "The age of the oldest unread message, or 0.";
    each(reading, text, ("pitcrew_oldest_unread_message_seconds", Kind::Gauge, help), |team| {
        Some(team.unread.oldest_seconds(reading.at_ms).into())
    });
}

fn write_usage(reading: &Reading, text: &mut Exposition) {
    let help = "Tokens by model and type. The types do not overlap.";
    let mut tokens = text.metric("pitcrew_tokens_total", Kind::Counter, help);
    for team in &reading.teams {
        for (model, used) in &team.used {
            let usage = usage_of(used);
            let by_type = [
                ("input", usage.input_tokens),
                ("cache_read", usage.cache_read_input_tokens),
                ("cache_creation", usage.cache_creation_input_tokens),
                ("output", usage.output_tokens),
            ];
            for (kind, count) in by_type {
                tokens.sample(&[team.label(), ("model", model), ("type", kind)], count);
            }
        }
    }
    let help = "The cost in US dollars of the calls with a known price.";
    let mut cost = text.metric("pitcrew_cost_usd_total", Kind::Counter, help);
    for team in &reading.teams {
        for (model, used) in &team.used {
            cost.sample(&[team.label(), ("model", model)], used.cost_usd());
        }
    }
    let turns = ("pitcrew_turns_total", "Model calls.");
    each_model(reading, text, turns, |used| used.turns);
    let unpriced = ("pitcrew_unpriced_turns_total", "Model calls without a known price.");
    each_model(reading, text, unpriced, |used| used.unpriced_turns);
    let tool_calls = ("pitcrew_tool_calls_total", "Tool calls.");
    each_model(reading, text, tool_calls, |used| used.tool_calls);
}

/// Writes a counter that has one sample for each team and model.
fn each_model(
    reading: &Reading,
    text: &mut Exposition,
    (name, help): (&'static str, &str),
    count: impl Fn(&Spent) -> u32,
) {
    let mut metric = text.metric(name, Kind::Counter, help);
    for team in &reading.teams {
        for (model, used) in &team.used {
            metric.sample(&[team.label(), ("model", model)], u64::from(count(used)));
        }
    }
}

/// Writes a metric that has one sample for each team with a value.
fn each(
    reading: &Reading,
    text: &mut Exposition,
    (name, kind, help): (&'static str, Kind, &str),
    value: impl Fn(&TeamReading) -> Option<Number>,
) {
    let mut metric = text.metric(name, kind, help);
    for team in &reading.teams {
        if let Some(value) = value(team) {
            metric.sample(&[team.label()], value);
        }
    }
}

impl TeamReading {
    fn label(&self) -> (&str, &str) {
        ("team", self.folder.as_str())
    }
}
