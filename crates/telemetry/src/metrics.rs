//! Adds up the measurements of a run, with the instruments of the OpenTelemetry SDK.

use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality,
};

use crate::conventions::{TASK_STATUS, TEAM, TOKEN_TYPE};
use crate::run_fold::Measurement;
use crate::span::scope;

/// The limits of the buckets that the conventions want for tokens.
const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The limits of the buckets that the conventions want for durations, in seconds.
const SECOND_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The instruments of a run.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// The instruments work as long as the provider exists.
    _provider: SdkMeterProvider,
    reader: SharedReader,
    team: KeyValue,
    tokens: Histogram<u64>,
    durations: Histogram<f64>,
    sent: Counter<u64>,
    delivered: Counter<u64>,
    tasks: Gauge<u64>,
    questions: Gauge<u64>,
    dropped: Counter<u64>,
}

/// The reader of the provider. We read it when a collection is due, so nothing runs in between.
#[derive(Clone, Debug)]
struct SharedReader(Arc<ManualReader>);

impl Metrics {
    pub(crate) fn new(resource: Resource, temporality: Temporality, team: &str) -> Self {
        let reader = ManualReader::builder().with_temporality(temporality).build();
        let reader = SharedReader(Arc::new(reader));
        let builder = SdkMeterProvider::builder().with_resource(resource);
        let provider = builder.with_reader(reader.clone()).build();
        let meter = provider.meter_with_scope(scope());
        let counter =
            |meter: &Meter, name: &'static str, unit: &'static str, text: &'static str| {
                meter.u64_counter(name).with_unit(unit).with_description(text).build()
            };
        let gauge = |meter: &Meter, name: &'static str, unit: &'static str, text: &'static str| {
            meter.u64_gauge(name).with_unit(unit).with_description(text).build()
        };
        Self {
            reader,
            team: KeyValue::new(TEAM, team.to_owned()),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKEN_BUCKETS.to_vec())
                .build(),
            durations: meter
                .f64_histogram("gen_ai.client.operation.duration")
                .with_unit("s")
                .with_description("GenAI operation duration.")
                .with_boundaries(SECOND_BUCKETS.to_vec())
                .build(),
            sent: counter(&meter, "pitcrew.messages.sent", "{message}", "Messages in inboxes."),
            delivered: counter(
                &meter,
                "pitcrew.messages.delivered",
                "{message}",
                "Messages in the conversations of their receivers.",
            ),
            tasks: gauge(&meter, "pitcrew.tasks", "{task}", "Tasks of the team by status."),
            questions: gauge(
                &meter,
                "pitcrew.questions.open",
                "{question}",
                "Permission requests that wait for a person.",
            ),
            dropped: counter(
                &meter,
                "pitcrew.telemetry.dropped",
                "{span}",
                "Spans that were dropped before they were sent.",
            ),
            _provider: provider,
        }
    }

    /// Records a measurement.
    pub(crate) fn record(&self, measurement: Measurement) {
        let team = [self.team.clone()];
        match measurement {
            Measurement::Called { mut attributes, input_tokens, output_tokens, took } => {
                attributes.push(self.team.clone());
                if let Some(took) = took {
                    self.durations.record(took.as_secs_f64(), &attributes);
                }
                for (kind, tokens) in [("input", input_tokens), ("output", output_tokens)] {
                    let kind = KeyValue::new(TOKEN_TYPE, kind);
                    let with_kind: Vec<_> = attributes.iter().cloned().chain([kind]).collect();
                    self.tokens.record(tokens, &with_kind);
                }
            }
            Measurement::MessageSent => self.sent.add(1, &team),
            Measurement::MessageDelivered => self.delivered.add(1, &team),
            Measurement::Tasks(counts) => {
                for (status, count) in counts {
                    let status = KeyValue::new(TASK_STATUS, status.as_str());
                    self.tasks.record(count, &[self.team.clone(), status]);
                }
            }
            Measurement::OpenQuestions(count) => self.questions.record(count, &team),
        }
    }

    /// Counts spans that were dropped.
    pub(crate) fn dropped(&self, count: u64) {
        self.dropped.add(count, std::slice::from_ref(&self.team));
    }

    /// Returns the present values of all instruments. Returns `None` if there are none.
    pub(crate) fn collect(&self) -> Option<ResourceMetrics> {
        let mut metrics = ResourceMetrics::default();
        self.reader.0.collect(&mut metrics).ok()?;
        let has_values = metrics.scope_metrics().any(|scope| scope.metrics().next().is_some());
        has_values.then_some(metrics)
    }
}

impl MetricReader for SharedReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}
