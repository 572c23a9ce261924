//! The task that makes signals from events and sends them. The run never waits for it: what does
//! not fit into its queues is dropped and counted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use opentelemetry::trace::TraceId;
use opentelemetry_sdk::trace::SpanData;
use pitcrew_runtime::events::RunEvent;
use pitcrew_team::Team;
use pitcrew_view::host::{HostEvent, What};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep, timeout};
use uuid::Uuid;

use crate::config::Config;
use crate::content::Content;
use crate::exporter::{Exporter, ExporterError, resource};
use crate::metrics::Metrics;
use crate::run_fold::{RunFold, Signals, counted_tasks};
use crate::team_feed::{News, TeamFeed};

/// Capacity of the queue of events. The task only waits for the team's files, so a full queue
/// means that the disk or the processor is overloaded.
const EVENTS_WAITING: usize = 1_024;

/// Maximum number of finished spans that wait to be sent. It is the limit that the SDKs of
/// OpenTelemetry have by default.
const SPANS_MOST: usize = 2_048;

/// Maximum number of spans in a request. It is the default of the SDKs too.
const BATCH: usize = 512;

/// How often the same spans are sent. A collector that refuses them must not hold up all others.
const ATTEMPTS_MOST: u32 = 3;

/// The time between an event and the reading of the journal. Several events then need one reading.
const JOURNAL_DELAY: Duration = Duration::from_millis(200);

/// The time that the last signals have at the end of a run.
const FLUSH: Duration = Duration::from_millis(2_800);

/// The time that a run waits for the end of the task.
const FINISH: Duration = Duration::from_secs(3);

/// The traces and metrics of one run. Dropping it drops all that was not sent.
#[derive(Debug)]
pub struct Telemetry {
    /// `None` after the run.
    events: Option<mpsc::Sender<Arc<HostEvent>>>,
    /// The number of events that did not fit into the queue.
    missed: u64,
    collectors: String,
    task: JoinHandle<Report>,
}

/// What was not sent.
#[derive(Debug, Default)]
pub struct Report {
    collectors: String,
    missed_events: u64,
    sent_spans: u64,
    dropped_spans: u64,
    lost_metrics: bool,
    /// The latest error of the collector.
    error: Option<String>,
}

/// What wakes the task.
enum Wake {
    Happened(Arc<HostEvent>),
    Over,
    JournalDue,
    SpansDue,
    SpansSent(Sent),
    MetricsDue,
    MetricsSent(Result<(), String>),
}

/// The result of sending spans.
struct Sent {
    batch: Vec<SpanData>,
    result: Result<(), String>,
}

type Timer = Option<Pin<Box<Sleep>>>;

struct Pipeline {
    events: mpsc::Receiver<Arc<HostEvent>>,
    exporter: Arc<Exporter>,
    metrics: Option<Metrics>,
    fold: RunFold,
    /// What the user wants of the texts.
    content: Content,
    feed: TeamFeed,
    span_delay: Duration,
    metric_interval: Duration,
    /// The finished spans that wait to be sent.
    spans: VecDeque<SpanData>,
    /// The time of the latest event.
    now_ms: i64,
    /// How often the spans at the front of the queue were sent without success.
    attempts: u32,
    /// The number of spans that are being sent.
    in_flight: usize,
    sending: Option<BoxFuture<'static, Sent>>,
    measuring: Option<BoxFuture<'static, Result<(), String>>>,
    journal_due: Timer,
    spans_due: Timer,
    metrics_due: Timer,
    report: Report,
}

impl Telemetry {
    /// Begins to send the traces and metrics of a run. It opens no connection yet.
    ///
    /// # Errors
    /// If the configuration is refused. The run can go on without telemetry.
    pub fn open(config: &Config, team: Team) -> Result<Self, ExporterError> {
        let resource = resource(config);
        let exporter = Exporter::open(config, &resource)?;
        let metrics = exporter
            .temporality()
            .map(|temporality| Metrics::new(resource, temporality, team.name().as_str()));
        let trace = TraceId::from_bytes(*Uuid::new_v4().as_bytes());
        let (sender, events) = mpsc::channel(EVENTS_WAITING);
        let pipeline = Pipeline {
            events,
            exporter: Arc::new(exporter),
            metrics,
            // Texts are sent only when the secrets of the team are known.
            fold: RunFold::new(trace, config.parent.clone(), Content::LeftOut),
            content: config.content.clone(),
            feed: TeamFeed::new(team),
            span_delay: config.span_delay,
            metric_interval: config.metric_interval,
            spans: VecDeque::new(),
            now_ms: 0,
            attempts: 0,
            in_flight: 0,
            sending: None,
            measuring: None,
            journal_due: None,
            spans_due: None,
            metrics_due: None,
            report: Report::default(),
        };
        let task = tokio::spawn(pipeline.run());
        Ok(Self { events: Some(sender), missed: 0, collectors: config.collectors(), task })
    }

    /// Takes an event of the host. It never waits.
    pub fn observe(&mut self, event: &Arc<HostEvent>) {
        // The parts of an answer that is being written are many, and no span needs them.
        if matches!(event.what, What::Run(RunEvent::TextDelta { .. })) {
            return;
        }
        if let Some(events) = &self.events
            && events.try_send(Arc::clone(event)).is_err()
        {
            self.missed = self.missed.saturating_add(1);
        }
    }

    /// Sends what is left, for at most three seconds.
    pub async fn finish(mut self) -> Report {
        self.events = None;
        let ended = timeout(FINISH, &mut self.task).await;
        let report = match ended {
            Ok(Ok(report)) => report,
            Ok(Err(_panicked)) => Report::unknown("it failed"),
            Err(_elapsed) => Report::unknown("it did not end in time"),
        };
        let collectors = std::mem::take(&mut self.collectors);
        Report { collectors, missed_events: self.missed, ..report }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Report {
    fn unknown(error: &str) -> Self {
        Self { error: Some(error.to_owned()), lost_metrics: true, ..Self::default() }
    }

    /// Returns a line for each kind of loss. There is none if all was sent.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let to = &self.collectors;
        let reason = self.error.as_deref().unwrap_or("no reason is known");
        if self.missed_events > 0 {
            let missed = self.missed_events;
            lines.push(format!("telemetry: {missed} events came too fast and are not recorded"));
        }
        if self.dropped_spans > 0 {
            let (dropped, all) = (self.dropped_spans, self.dropped_spans + self.sent_spans);
            lines.push(format!("telemetry: {dropped} of {all} spans did not reach {to}: {reason}"));
        }
        if self.lost_metrics {
            lines.push(format!("telemetry: the last metrics did not reach {to}: {reason}"));
        }
        lines
    }
}

impl Pipeline {
    async fn run(mut self) -> Report {
        loop {
            match self.next().await {
                Wake::Happened(event) => self.happened(&event).await,
                Wake::Over => break,
                Wake::JournalDue => self.read_journal().await,
                Wake::SpansDue => self.send_spans(),
                Wake::SpansSent(sent) => self.spans_sent(sent),
                Wake::MetricsDue => self.send_metrics(),
                Wake::MetricsSent(result) => self.metrics_sent(result),
            }
        }
        if timeout(FLUSH, self.flush()).await.is_err() {
            self.drop_spans(self.in_flight + self.spans.len());
            self.report.error = Some("the collector did not answer in time".to_owned());
            self.report.lost_metrics |= self.metrics.is_some();
        }
        self.report
    }

    async fn next(&mut self) -> Wake {
        tokio::select! {
            event = self.events.recv() => event.map_or(Wake::Over, Wake::Happened),
            Some(sent) = OptionFuture::from(self.sending.as_mut()) => Wake::SpansSent(sent),
            Some(result) = OptionFuture::from(self.measuring.as_mut()) => {
                Wake::MetricsSent(result)
            }
            Some(()) = OptionFuture::from(self.journal_due.as_mut()) => Wake::JournalDue,
            // A request at a time: the next one waits for the answer to the one before.
            Some(()) = OptionFuture::from(self.spans_due.as_mut()), if self.sending.is_none() => {
                Wake::SpansDue
            }
            Some(()) = OptionFuture::from(self.metrics_due.as_mut()), if self.measuring.is_none() => {
                Wake::MetricsDue
            }
        }
    }

    async fn happened(&mut self, event: &HostEvent) {
        self.now_ms = event.at_ms;
        if let What::Run(RunEvent::Started(started)) = &event.what {
            self.feed.begin(started, event.at_ms).await;
            self.fold.set_content(self.feed.content(&self.content).await);
        }
        let signals = self.fold.happened(event);
        if follows_journal(event) {
            self.journal_due.get_or_insert_with(|| Box::pin(sleep(JOURNAL_DELAY)));
        }
        self.take(signals);
    }

    async fn read_journal(&mut self) {
        self.journal_due = None;
        let News { entries, tasks } = self.feed.read().await;
        for entry in &entries {
            let signals = self.fold.noted(entry);
            self.take(signals);
        }
        if let Some(tasks) = tasks {
            self.take(Signals { measured: vec![counted_tasks(&tasks)], ..Signals::default() });
        }
    }

    fn take(&mut self, Signals { spans, measured }: Signals) {
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !measured.is_empty()) {
            measured.into_iter().for_each(|measurement| metrics.record(measurement));
            let interval = self.metric_interval;
            self.metrics_due.get_or_insert_with(|| Box::pin(sleep(interval)));
        }
        if self.exporter.takes_spans() {
            self.spans.extend(spans);
            self.bound_spans();
        }
    }

    /// Drops the spans that do not fit, and plans the next request.
    fn bound_spans(&mut self) {
        let surplus = self.spans.len().saturating_sub(SPANS_MOST);
        self.spans.truncate(SPANS_MOST);
        self.drop_spans(surplus);
        if self.spans.len() >= BATCH && self.sending.is_none() && self.attempts == 0 {
            self.send_spans();
        } else if !self.spans.is_empty() {
            let delay = self.span_delay;
            self.spans_due.get_or_insert_with(|| Box::pin(sleep(delay)));
        }
    }

    fn drop_spans(&mut self, count: usize) {
        let count = count as u64;
        if count > 0 {
            self.report.dropped_spans += count;
            self.metrics.iter().for_each(|metrics| metrics.dropped(count));
        }
    }

    fn send_spans(&mut self) {
        self.spans_due = None;
        let batch: Vec<SpanData> = self.spans.drain(..self.spans.len().min(BATCH)).collect();
        if batch.is_empty() {
            return;
        }
        self.in_flight = batch.len();
        let exporter = Arc::clone(&self.exporter);
        self.sending = Some(
            async move {
                let result = exporter.send_spans(batch.clone()).await;
                Sent { batch, result }
            }
            .boxed(),
        );
    }

    fn spans_sent(&mut self, Sent { batch, result }: Sent) {
        (self.sending, self.in_flight) = (None, 0);
        match result {
            Ok(()) => {
                self.report.sent_spans += batch.len() as u64;
                self.attempts = 0;
            }
            Err(error) => {
                tracing::warn!(%error, "spans did not reach the collector");
                self.report.error = Some(error);
                self.attempts += 1;
                if self.attempts >= ATTEMPTS_MOST {
                    self.attempts = 0;
                    self.drop_spans(batch.len());
                } else {
                    batch.into_iter().rev().for_each(|span| self.spans.push_front(span));
                }
            }
        }
        self.bound_spans();
    }

    fn send_metrics(&mut self) {
        self.metrics_due = None;
        let Some(collected) = self.metrics.as_ref().and_then(Metrics::collect) else { return };
        let exporter = Arc::clone(&self.exporter);
        self.measuring = Some(async move { exporter.send_metrics(&collected).await }.boxed());
    }

    fn metrics_sent(&mut self, result: Result<(), String>) {
        self.measuring = None;
        self.report.lost_metrics = result.is_err();
        if let Err(error) = result {
            tracing::warn!(%error, "metrics did not reach the collector");
            self.report.error = Some(error);
        }
    }

    /// Sends what is left at the end of the run: each request once.
    async fn flush(&mut self) {
        self.read_journal().await;
        let spans = self.fold.close(self.now_ms);
        self.take(Signals { spans, ..Signals::default() });
        (self.measuring, self.metrics_due) = (None, None);
        let collected = self.metrics.as_ref().and_then(Metrics::collect);
        let exporter = Arc::clone(&self.exporter);
        let metrics = async move {
            match collected {
                Some(collected) => exporter.send_metrics(&collected).await,
                None => Ok(()),
            }
        };
        let (result, ()) = tokio::join!(metrics, self.flush_spans());
        self.metrics_sent(result);
    }

    async fn flush_spans(&mut self) {
        loop {
            if self.sending.is_none() {
                self.send_spans();
            }
            let Some(sending) = self.sending.as_mut() else { return };
            let sent = sending.await;
            let is_refused = sent.result.is_err();
            self.spans_sent(sent);
            if is_refused {
                self.drop_spans(self.in_flight + self.spans.len());
                (self.sending, self.in_flight) = (None, 0);
                return self.spans.clear();
            }
        }
    }
}

/// Whether the journal can have new entries about messages or tasks after this event.
fn follows_journal(event: &HostEvent) -> bool {
    match &event.what {
        What::Run(event) => matches!(
            event,
            RunEvent::Started(_)
                | RunEvent::ToolEnded(_)
                | RunEvent::MailDelivered { .. }
                | RunEvent::AgentChanged { .. }
                | RunEvent::TaskChanged { .. }
        ),
        What::Ended(_) => true,
        What::QuestionOpened(_)
        | What::QuestionClosed { .. }
        | What::Tasks(_)
        | What::Config(_)
        | What::Notify(_) => false,
    }
}
