//! One operation of the API, as the OpenAPI document describes it.

use serde_json::{Map, Value, json};

use crate::devices::needed;
use crate::metrics::TEXT_FORMAT;

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The HTTP method in lower case.
    pub(super) method: &'static str,
    /// The path, with its parameters in braces.
    pub(super) path: &'static str,
    summary: &'static str,
    status: u16,
    /// The name of the schema of the answer.
    answer: &'static str,
    /// The name of the schema of the body, if there is one.
    body: Option<Body>,
    /// Parameters of the query and of the header.
    parameters: Vec<Value>,
    /// The statuses of further errors.
    errors: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    schema: &'static str,
    is_required: bool,
}

impl Operation {
    /// An operation that reads. Its answer has an ETag. Reads have a rate limit.
    pub(super) fn read(path: &'static str, answer: &'static str, summary: &'static str) -> Self {
        let none_match = json!({
            "name": "If-None-Match", "in": "header", "schema": {"type": "string"},
            "description": "ETags of answers that the caller has.",
        });
        let read = Self::new("get", path, (200, answer), summary);
        Self { parameters: vec![none_match], ..read }.or(429)
    }

    /// An operation that changes something. Changes have a rate limit.
    pub(super) fn change(
        method: &'static str,
        path: &'static str,
        (status, answer): (u16, &'static str),
        summary: &'static str,
    ) -> Self {
        Self { errors: vec![400, 429], ..Self::new(method, path, (status, answer), summary) }
    }

    /// A request that the process of the team carries out.
    pub(super) fn of_host(
        method: &'static str,
        path: &'static str,
        answer: &'static str,
        summary: &'static str,
    ) -> Self {
        let status = if answer == "Spawned" { 201 } else { 200 };
        let change = Self::change(method, path, (status, answer), summary);
        Self { errors: vec![400, 409, 429, 503], ..change }
    }

    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        (status, answer): (u16, &'static str),
        summary: &'static str,
    ) -> Self {
        let (parameters, errors) = (Vec::new(), Vec::new());
        Self { method, path, summary, status, answer, body: None, parameters, errors }
    }

    /// Adds a body that the request must have.
    pub(super) fn with_body(self, schema: &'static str) -> Self {
        Self { body: Some(Body { schema, is_required: true }), ..self }
    }

    /// Adds a body that the request may leave out.
    pub(super) fn with_optional_body(self, schema: &'static str) -> Self {
        Self { body: Some(Body { schema, is_required: false }), ..self }
    }

    /// Adds the parameters of a part of a list.
    pub(super) fn paged(mut self) -> Self {
        for (name, description) in
            [("from", "The number of the first entry."), ("limit", "The number of entries.")]
        {
            let schema =
                json!({"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64});
            self.parameters.push(json!({
                "name": name, "in": "query", "schema": schema, "description": description,
            }));
        }
        self.errors.push(400);
        self
    }

    /// Adds the header with which a request can be repeated.
    pub(super) fn repeatable(mut self) -> Self {
        let schema = json!({"type": "string", "pattern": "^[!-~]{1,128}$"});
        self.parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "schema": schema,
            "description": "The same key and body again make nothing a second time.",
        }));
        self.errors.push(409);
        self
    }

    /// Adds a header of the request.
    pub(super) fn with_header(mut self, name: &str, description: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "header", "schema": {"type": "string"}, "description": description,
        }));
        self
    }

    /// Adds a status of an error.
    pub(super) fn or(mut self, status: u16) -> Self {
        self.errors.push(status);
        self
    }

    /// Returns the name of the operation, such as `get_teams_team_tasks`.
    pub(super) fn id(&self) -> String {
        let words =
            self.path.trim_start_matches("/api").trim_start_matches('/').replace(['/', '.'], "_");
        format!("{}_{}", self.method, words.replace(['{', '}'], ""))
    }

    /// Returns the names of the parameters in the path.
    fn in_path(&self) -> Vec<&'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
    }

    /// Returns the operation as the document has it.
    pub(super) fn described(&self) -> Value {
        let in_path = self.in_path().into_iter().map(|name| {
            json!({
                "name": name, "in": "path", "required": true,
                "schema": {"type": "string", "minLength": 1},
            })
        });
        let parameters: Vec<Value> = in_path.chain(self.parameters.iter().cloned()).collect();
        let mut described = Map::from_iter([
            ("operationId".to_owned(), json!(self.id())),
            ("summary".to_owned(), json!(self.summary)),
            ("parameters".to_owned(), json!(parameters)),
            ("responses".to_owned(), self.responses()),
        ]);
        if let Some(Body { schema, is_required }) = self.body {
            let content = json!({"application/json": {"schema": reference(schema)}});
            let body = json!({"required": is_required, "content": content});
            described.insert("requestBody".to_owned(), body);
        }
        let below_api = self.path.trim_start_matches("/api");
        let scope = needed(&self.method.to_uppercase(), below_api).as_str();
        described.insert("x-scope".to_owned(), json!(scope));
        if self.is_open() {
            described.insert("security".to_owned(), json!([]));
        }
        Value::Object(described)
    }

    /// Whether the operation needs no key.
    fn is_open(&self) -> bool {
        self.path == "/api/health"
    }

    fn responses(&self) -> Value {
        let kind = match self.answer {
            "EventStream" => "text/event-stream",
            "Metrics" => TEXT_FORMAT,
            _ => "application/json",
        };
        let content = json!({kind: {"schema": reference(self.answer)}});
        let mut responses = Map::new();
        responses.insert(
            self.status.to_string(),
            json!({"description": self.summary, "content": content}),
        );
        if self.parameters.iter().any(|parameter| parameter["name"] == "If-None-Match") {
            let known = json!({"description": "The caller has the present answer."});
            responses.insert("304".to_owned(), known);
        }
        if self.answer == "EventStream" {
            let over = json!({"description": "The caller has the event `end`: no more comes."});
            responses.insert("204".to_owned(), over);
        }
        for status in self.error_statuses() {
            let content = json!({"application/json": {"schema": reference("Error")}});
            let description = said(status);
            responses.insert(
                status.to_string(),
                json!({"description": description, "content": content}),
            );
        }
        Value::Object(responses)
    }

    fn error_statuses(&self) -> Vec<u16> {
        let mut all = self.errors.clone();
        all.push(403);
        if !self.is_open() {
            all.extend([401, 500]);
        }
        if !self.in_path().is_empty() {
            all.extend([400, 404]);
        }
        if self.body.is_some() {
            all.extend([400, 408, 413, 415]);
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

pub(super) fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// Says what an error status means.
fn said(status: u16) -> &'static str {
    match status {
        400 => "The request is malformed, or the state of the thing does not allow it.",
        401 => "There is no token, or a wrong one.",
        403 => "The caller may not do this.",
        404 => "The team, agent, task or path does not exist.",
        408 => "The body did not come in time.",
        409 => "The name is taken, the key belongs to another request, or the thing has changed.",
        413 => "The body is too long.",
        415 => "The body is not JSON.",
        429 => "There were too many requests. `Retry-After` says when to try again.",
        503 => "No pitcrew process runs the team, or it does not answer.",
        _ => "The server, the disk or the system failed.",
    }
}
