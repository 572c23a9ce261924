//! The configuration, from the variables that OpenTelemetry defines.
//!
//! Source: the specification of OpenTelemetry, "Environment Variable Specification" and "OTLP
//! Exporter Configuration". The variables are those of the process. The settings of a user or of a
//! repository have none of them, so no repository can send anything away.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use pitcrew_view::masking::Masker;
use reqwest::Url;
use thiserror::Error;

use crate::content::Content;
use crate::list;

/// The endpoint if an exporter is chosen, but no endpoint.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// The only protocol. gRPC would need another stack for HTTP.
const PROTOCOL: &str = "http/protobuf";

/// A list of headers, for an error.
const HEADERS: &str = "api-key=KEY,x-team=a%20b";

/// A list of attributes, for an error.
const ATTRIBUTES: &str = "team=blue,place=room%201";

/// The time limit of one request, if the user sets none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time that a span waits to be sent, if the user sets none.
const SPAN_DELAY: Duration = Duration::from_secs(5);

/// The time between two exports of metrics, if the user sets none.
const METRIC_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time limit, delay and interval. 0 would mean to send without a pause.
const SHORTEST: Duration = Duration::from_millis(10);

/// What is sent, and where to.
#[derive(Debug)]
pub struct Config {
    pub(crate) traces: Option<Target>,
    pub(crate) metrics: Option<Target>,
    pub(crate) content: Content,
    /// The name of the service. `None` if the user sets none.
    pub(crate) service_name: Option<String>,
    /// The further attributes of the service.
    pub(crate) attributes: Vec<(String, String)>,
    /// The span of another program in which the run happens.
    pub(crate) parent: Option<SpanContext>,
    pub(crate) span_delay: Duration,
    pub(crate) metric_interval: Duration,
}

/// The address to which one signal is sent.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Url,
    pub(crate) timeout: Duration,
}

/// A variable that has a value we cannot use.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The value is not one of the possible values.
    #[error("{variable} is {value:?}; use {valid}")]
    Value {
        /// The name of the variable.
        variable: String,
        /// The value of the variable, without characters that a terminal obeys.
        value: String,
        /// The possible values.
        valid: &'static str,
    },
    /// An entry of a list cannot be used. It is not repeated, because it can have a key.
    #[error("entry {number} of {variable} cannot be used; write a list such as {valid}")]
    Entry {
        /// The name of the variable.
        variable: String,
        /// The number of the entry. The first one is 1.
        number: usize,
        /// A list that is valid.
        valid: &'static str,
    },
    /// The value is no address of a collector. It is not repeated, because it can have a password.
    #[error("{variable} has no address such as {DEFAULT_ENDPOINT}")]
    Endpoint {
        /// The name of the variable.
        variable: String,
    },
}

/// The two signals that are sent.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Traces,
    Metrics,
}

/// The environment variables that have a value.
struct Variables<'a>(&'a BTreeMap<String, String>);

impl Config {
    /// Reads the configuration. Returns `None` if nothing is to be sent.
    ///
    /// # Errors
    /// If a variable has a value that cannot be used. Nothing must be sent then.
    pub fn of(variables: &BTreeMap<String, String>) -> Result<Option<Self>, ConfigError> {
        let variables = Variables(variables);
        if variables.is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let mut traces = variables.target(Signal::Traces)?;
        let metrics = variables.target(Signal::Metrics)?;
        let parent = variables.get("TRACEPARENT").and_then(parent);
        // The program that started the run has decided that its trace is not recorded.
        if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
            traces = None;
        }
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let wants_content = variables.is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        let after =
            |name, default| variables.time(name).map(|time| time.unwrap_or(default).max(SHORTEST));
        Ok(Some(Self {
            traces,
            metrics,
            content: if wants_content { Content::Masked(Masker::new()) } else { Content::LeftOut },
            service_name: variables.get("OTEL_SERVICE_NAME").map(str::to_owned),
            attributes: variables.attributes()?,
            parent,
            span_delay: after("OTEL_BSP_SCHEDULE_DELAY", SPAN_DELAY)?,
            metric_interval: after("OTEL_METRIC_EXPORT_INTERVAL", METRIC_INTERVAL)?,
        }))
    }

    /// Returns the addresses of the collector for a text, without user names, passwords and tokens.
    pub(crate) fn collectors(&self) -> String {
        let targets = self.traces.iter().chain(&self.metrics);
        let mut names: Vec<String> =
            targets.map(|target| target.endpoint.origin().ascii_serialization()).collect();
        names.dedup();
        names.join(" and ")
    }
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    /// Returns the end of the path that the signal has below the general address.
    fn path(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

impl Variables<'_> {
    /// Returns the value of a variable. An empty value counts as none.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns a time in milliseconds.
    fn time(&self, name: &str) -> Result<Option<Duration>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.parse() {
            Ok(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
            Err(_) => Err(refused(name, value, "a number of milliseconds")),
        }
    }

    /// Returns the variable of a signal that is set, otherwise the general one, with its name.
    fn of_signal(&self, signal: Signal, end: &str) -> Option<(String, &str)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{end}", signal.name());
        let general = format!("OTEL_EXPORTER_OTLP_{end}");
        [own, general].into_iter().find_map(|name| {
            let value = self.get(&name)?;
            Some((name, value))
        })
    }

    /// Returns the further attributes of the service.
    fn attributes(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let variable = "OTEL_RESOURCE_ATTRIBUTES";
        let list = self.get(variable).unwrap_or_default();
        let refused = |number| ConfigError::Entry {
            variable: variable.to_owned(),
            number,
            valid: ATTRIBUTES,
        };
        list::attributes(list).map_err(refused)
    }

    fn target(&self, signal: Signal) -> Result<Option<Target>, ConfigError> {
        let exporter = format!("OTEL_{}_EXPORTER", signal.name());
        let is_chosen = match self.get(&exporter) {
            Some("none") => return Ok(None),
            Some("otlp") => true,
            Some(value) => return Err(refused(&exporter, value, "otlp or none")),
            None => false,
        };
        let given = self.of_signal(signal, "ENDPOINT");
        if given.is_none() && !is_chosen {
            return Ok(None);
        }
        if let Some((name, value)) = self.of_signal(signal, "PROTOCOL")
            && value != PROTOCOL
        {
            return Err(refused(&name, value, PROTOCOL));
        }
        let endpoint = endpoint(signal, given)?;
        if let Some((variable, headers)) = self.of_signal(signal, "HEADERS") {
            list::check_headers(headers).map_err(|number| ConfigError::Entry {
                variable,
                number,
                valid: HEADERS,
            })?;
        }
        let timeout = match self.of_signal(signal, "TIMEOUT") {
            Some((name, _)) => self.time(&name)?,
            None => None,
        };
        Ok(Some(Target { endpoint, timeout: timeout.unwrap_or(TIMEOUT).max(SHORTEST) }))
    }
}

/// Returns the address for a signal. The address in the signal's own variable is used unchanged. To
/// the general address the path of the signal is added.
fn endpoint(signal: Signal, given: Option<(String, &str)>) -> Result<Url, ConfigError> {
    let (variable, text) =
        given.unwrap_or_else(|| ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), DEFAULT_ENDPOINT));
    let is_own = variable.contains(signal.name());
    let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let mut url = Url::parse(text).ok().filter(is_usable);
    if !is_own && let Some(Ok(mut path)) = url.as_mut().map(Url::path_segments_mut) {
        path.pop_if_empty().extend(["v1", signal.path()]);
    }
    url.ok_or(ConfigError::Endpoint { variable })
}

fn refused(variable: &str, value: &str, valid: &'static str) -> ConfigError {
    let value = value.chars().filter(|c| !c.is_control()).take(100).collect();
    ConfigError::Value { variable: variable.to_owned(), value, valid }
}

/// Reads the span of the program that started this one, in the form of W3C Trace Context. An
/// invalid text is ignored, as that standard wants.
fn parent(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let (span, flags) = (parts.next()?, parts.next()?);
    let has_form = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
    if !has_form || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let parent = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    parent.is_valid().then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Option<Config>, ConfigError> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Config::of(&variables.iter().map(own).collect())
    }

    /// Returns the addresses for traces and for metrics, or `-`.
    fn targets(variables: &[(&str, &str)]) -> [String; 2] {
        let config = config(variables).unwrap();
        let (traces, metrics) = config.map(|it| (it.traces, it.metrics)).unwrap_or_default();
        [traces, metrics]
            .map(|target| target.map_or("-".to_owned(), |target| target.endpoint.to_string()))
    }

    fn error(variables: &[(&str, &str)]) -> String {
        config(variables).unwrap_err().to_string()
    }

    #[test]
    fn nothing_is_sent_unless_the_environment_names_a_collector() {
        assert_eq!(targets(&[]), ["-", "-"]);
        assert_eq!(targets(&[("OTEL_SERVICE_NAME", "x")]), ["-", "-"]);
        assert_eq!(targets(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")]), ["-", "-"]);
        assert_eq!(
            targets(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1/x/")]),
            ["http://c:1/x/v1/traces", "http://c:1/x/v1/metrics"]
        );
        assert_eq!(
            targets(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/own")]),
            ["https://c/own", "-"]
        );
        assert_eq!(
            targets(&[("OTEL_METRICS_EXPORTER", "otlp")]),
            ["-", "http://localhost:4318/v1/metrics"]
        );
    }

    #[test]
    fn each_signal_can_be_switched_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1");
        assert_eq!(targets(&[endpoint, ("OTEL_SDK_DISABLED", "True")]), ["-", "-"]);
        assert_eq!(
            targets(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]),
            ["-", "http://c:1/v1/metrics"]
        );
        let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(
            targets(&[endpoint, ("TRACEPARENT", unsampled)]),
            ["-", "http://c:1/v1/metrics"]
        );
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_with_the_valid_ones() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1");
        assert_eq!(
            error(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "gr\u{1b}pc")]),
            r#"OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"; use http/protobuf"#
        );
        assert_eq!(
            error(&[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")]),
            r#"OTEL_TRACES_EXPORTER is "zipkin"; use otlp or none"#
        );
        assert_eq!(
            error(&[endpoint, ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1 s")]),
            r#"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT is "1 s"; use a number of milliseconds"#
        );
        for address in ["c:1", "file:///tmp/x", "http://", "user:hunter22@c"] {
            assert_eq!(
                error(&[("OTEL_EXPORTER_OTLP_ENDPOINT", address)]),
                "OTEL_EXPORTER_OTLP_ENDPOINT has no address such as http://localhost:4318"
            );
        }
    }

    #[test]
    fn a_list_that_cannot_be_used_is_refused_and_its_values_are_not_repeated() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1");
        assert_eq!(
            error(&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "good=1,api-key hunter22=x")]),
            "entry 2 of OTEL_EXPORTER_OTLP_HEADERS cannot be used; \
             write a list such as api-key=KEY,x-team=a%20b"
        );
        assert_eq!(
            error(&[endpoint, ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x=a\nb")]),
            "entry 1 of OTEL_EXPORTER_OTLP_METRICS_HEADERS cannot be used; \
             write a list such as api-key=KEY,x-team=a%20b"
        );
        assert_eq!(
            error(&[endpoint, ("OTEL_RESOURCE_ATTRIBUTES", "team=%zz")]),
            "entry 1 of OTEL_RESOURCE_ATTRIBUTES cannot be used; \
             write a list such as team=blue,place=room%201"
        );
        let off = ("OTEL_SDK_DISABLED", "true");
        assert!(config(&[endpoint, off, ("OTEL_EXPORTER_OTLP_HEADERS", "x")]).unwrap().is_none());
    }

    #[test]
    fn the_address_in_a_text_has_no_password() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter22@c:1/?token=x"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://d/x"),
        ];
        assert_eq!(config(&variables).unwrap().unwrap().collectors(), "http://c:1 and https://d");
    }

    #[test]
    fn times_are_read_in_milliseconds_and_are_never_0() {
        let config = config(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2000"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ]);
        let config = config.unwrap().unwrap();
        assert_eq!(config.traces.unwrap().timeout, SHORTEST);
        assert_eq!(config.metrics.unwrap().timeout, Duration::from_secs(2));
        assert_eq!(config.span_delay, Duration::from_millis(100));
        assert_eq!(config.metric_interval, METRIC_INTERVAL);
    }

    #[test]
    fn the_parent_of_the_run_is_read_or_ignored() {
        let valid = parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        assert_eq!(valid.span_id().to_string(), "b7ad6b7169203331");
        assert!(valid.is_remote() && valid.is_sampled());
        for invalid in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-ééééééééééééé0319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(parent(invalid), None, "{invalid}");
        }
    }
}
