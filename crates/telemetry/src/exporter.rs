//! Sends spans and metrics to the collector. The encoding is that of the crate `opentelemetry-otlp`.

use std::net::IpAddr;
use std::sync::Once;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use reqwest::Url;
use thiserror::Error;

use crate::config::{Config, Target};

/// The attribute of the resource that has the name of the service.
const SERVICE_NAME: &str = "service.name";

/// The name of the service if the user sets none.
const PITCREW: &str = "pitcrew";

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A collector that cannot be called, for example because a header is not valid.
#[derive(Debug, Error)]
pub enum ExporterError {
    /// The HTTP client cannot be made.
    #[error("no HTTP client for the collector")]
    Client(#[source] reqwest::Error),
    /// The crate that encodes the signals refuses its configuration.
    #[error("no exporter")]
    Exporter(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// The connections to the collector.
#[derive(Debug)]
pub(crate) struct Exporter {
    spans: Option<SpanExporter>,
    metrics: Option<MetricExporter>,
}

impl Exporter {
    /// Prepares the connections. No connection is opened before something is sent.
    pub(crate) fn open(config: &Config, resource: &Resource) -> Result<Self, ExporterError> {
        let spans = config.traces.as_ref().map(span_exporter).transpose()?;
        let metrics = config.metrics.as_ref().map(metric_exporter).transpose()?;
        let spans = spans.map(|mut spans| {
            spans.set_resource(resource);
            spans
        });
        Ok(Self { spans, metrics })
    }

    /// Returns true if spans are sent.
    pub(crate) fn takes_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// Returns how metrics are added up. Returns `None` if no metrics are sent.
    pub(crate) fn temporality(&self) -> Option<Temporality> {
        self.metrics.as_ref().map(|metrics| metrics.temporality())
    }

    /// Sends spans once. An error is a text.
    pub(crate) async fn send_spans(&self, spans: Vec<SpanData>) -> Result<(), String> {
        let Some(exporter) = &self.spans else { return Ok(()) };
        exporter.export(spans).await.map_err(|error| error.to_string())
    }

    /// Sends metrics once. An error is a text.
    pub(crate) async fn send_metrics(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        let Some(exporter) = &self.metrics else { return Ok(()) };
        exporter.export(metrics).await.map_err(|error| error.to_string())
    }
}

/// Returns the resource of all signals: the attributes of the environment and the version. The SDK
/// would read the environment itself, but it decodes no value.
pub(crate) fn resource(config: &Config) -> Resource {
    let attribute = |(name, value): &(String, String)| KeyValue::new(name.clone(), value.clone());
    let of_attributes = config.attributes.iter().rev().find(|(name, _)| name == SERVICE_NAME);
    let name = config.service_name.as_ref().or(of_attributes.map(|(_, value)| value));
    let name = name.filter(|name| !name.is_empty()).map_or(PITCREW, String::as_str).to_owned();
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(config.attributes.iter().map(attribute))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_service_name(name)
        .build()
}

fn span_exporter(target: &Target) -> Result<SpanExporter, ExporterError> {
    let builder = SpanExporter::builder().with_http().with_http_client(client(target)?);
    let builder = builder.with_endpoint(target.endpoint.as_str()).with_timeout(target.timeout);
    // The pipeline sends again what was not sent. Meanwhile it does not wait.
    builder.with_retry_policy(RetryPolicy::disabled()).build().map_err(ExporterError::Exporter)
}

fn metric_exporter(target: &Target) -> Result<MetricExporter, ExporterError> {
    let builder = MetricExporter::builder().with_http().with_http_client(client(target)?);
    let builder = builder.with_endpoint(target.endpoint.as_str()).with_timeout(target.timeout);
    builder.with_retry_policy(RetryPolicy::disabled()).build().map_err(ExporterError::Exporter)
}

fn client(target: &Target) -> Result<reqwest::Client, ExporterError> {
    install_crypto();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("pitcrew/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT.min(target.timeout))
        .timeout(target.timeout)
        // A redirect would send the headers, which can have a key, to another host.
        .redirect(reqwest::redirect::Policy::none());
    // Plain http needs no certificates. The client then also works where there are none.
    let is_plain = target.endpoint.scheme() == "http";
    let builder = if is_plain { builder.tls_certs_only([]) } else { builder };
    let builder = if is_loopback(&target.endpoint) { builder.no_proxy() } else { builder };
    builder.build().map_err(ExporterError::Client)
}

/// Returns true for an address of this machine, which a proxy cannot reach.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn install_crypto() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is installed already");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(variables: &[(&str, &str)], name: &'static str) -> Option<String> {
        let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1")];
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let config = Config::of(&endpoint.iter().chain(variables).map(own).collect());
        let found = resource(&config.unwrap().unwrap()).get(&name.into());
        found.map(|value| value.to_string())
    }

    #[test]
    fn the_attributes_of_the_service_are_sent_decoded() {
        let team = ("OTEL_RESOURCE_ATTRIBUTES", "team=x%20y,service.name=a%2Fb");
        assert_eq!(attribute(&[team], "team").as_deref(), Some("x y"));
        assert_eq!(attribute(&[team], "service.name").as_deref(), Some("a/b"));
        let name = ("OTEL_SERVICE_NAME", "mine");
        assert_eq!(attribute(&[team, name], "service.name").as_deref(), Some("mine"));
        assert_eq!(attribute(&[], "service.name").as_deref(), Some(PITCREW));
        assert_eq!(attribute(&[], "telemetry.sdk.language").as_deref(), Some("rust"));
        let version =
            attribute(&[("OTEL_RESOURCE_ATTRIBUTES", "service.version=0")], "service.version");
        assert_eq!(version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }
}
