//! OpenTelemetry traces and metrics of a run, sent over OTLP to the collector that the user names.
