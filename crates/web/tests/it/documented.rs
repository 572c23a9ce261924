//! Each operation of the OpenAPI document answers as the document says.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::server_env::ServerEnv;

/// Returns a body that fits the operation.
fn body_for(schema: &str) -> Value {
    match schema {
        "TeamCreate" => json!({"team_name": "other"}),
        "TaskCreate" => json!({"subject": "parse", "description": "do it"}),
        "TaskUpdate" => json!({"status": "in_progress"}),
        "Claim" => json!({"owner": "bob"}),
        "Message" => json!({"to": "bob", "content": "hello"}),
        "Merge" => json!({"commit": "0000"}),
        "Spawn" => json!({"name": "eve", "description": "wait", "prompt": "Wait."}),
        "Mode" => json!({"mode": "plan"}),
        "Model" => json!({"model": "sonnet"}),
        "Answer" => json!({"digest": "0000", "choice": {"no": {"reason": "not now"}}}),
        "PlanAnswer" => json!({"member": "bob", "approve": false, "feedback": "smaller"}),
        "PermissionAnswer" => json!({"allow": false, "reason": "not now"}),
        "End" | "ShutDown" => json!({}),
        other => panic!("no body for {other}"),
    }
}

struct Documented {
    document: Value,
}

/// One operation of the document.
#[derive(Clone)]
struct Operation<'a> {
    method: String,
    path: &'a str,
    described: &'a Value,
}

impl Documented {
    fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = Vec::new();
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            for (method, described) in methods.as_object().unwrap() {
                all.push(Operation { method: method.to_uppercase(), path, described });
            }
        }
        all
    }

    /// Checks a value against a schema of the document.
    #[track_caller]
    fn check(&self, schema: &Value, value: &Value, of: &str) {
        let mut whole = schema.clone();
        whole["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&whole).unwrap();
        let faults: Vec<String> = validator.iter_errors(value).map(|it| it.to_string()).collect();
        assert!(faults.is_empty(), "{of}: {faults:?}\n{value:#}");
    }

    /// Checks that the document has this answer.
    #[track_caller]
    fn answers(&self, operation: &Operation<'_>, answer: &Answer) {
        let of = format!("{} {} -> {}", operation.method, operation.path, answer.status);
        let response = &operation.described["responses"][answer.status.to_string()];
        assert!(response.is_object(), "{of} is not documented: {}", answer.text());
        let Some(content) = response["content"].as_object() else {
            assert!(answer.body.is_empty(), "{of}");
            return;
        };
        let kind = answer.header("Content-Type").unwrap();
        let schema = &content.get(kind).unwrap_or_else(|| panic!("{of}: {kind}"))["schema"];
        if kind == "application/json" {
            self.check(schema, &answer.json(), &of);
        }
    }
}

impl Operation<'_> {
    fn request(&self, team: &str) -> Request {
        let path = self
            .path
            .replace("{team}", team)
            .replace("{name}", "bob")
            .replace("{id}", "1")
            .replace("{request}", "plan-0");
        Request::new(&self.method, &path)
    }

    fn body_schema(&self) -> Option<&Value> {
        let schema = &self.described["requestBody"]["content"]["application/json"]["schema"];
        schema.is_object().then_some(schema)
    }

    fn body(&self) -> Option<Value> {
        let name = self.body_schema()?["$ref"].as_str().unwrap();
        Some(body_for(name.rsplit_once('/').unwrap().1))
    }

    fn whole_request(&self, team: &str) -> Request {
        let request = self.request(team);
        match self.body() {
            Some(body) => request.json(&body),
            None => request,
        }
    }
}

async fn documented(env: &ServerEnv) -> Documented {
    Documented { document: env.client.get("/api/openapi.json").await.of(200) }
}

#[tokio::test]
async fn each_operation_answers_as_documented() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let task = json!({"subject": "parse", "description": "do it"});
    env.client.post("/api/teams/work/tasks", &task).await.of(201);
    // The stream of a team that is not in the archive waits for its next run.
    env.team("past", &[]).await.archive().await.unwrap().unwrap();
    let documented = documented(&env).await;
    let mut statuses = std::collections::BTreeMap::new();
    // The deletion of the team would come before others.
    let (last, first): (Vec<_>, Vec<_>) =
        documented.operations().into_iter().partition(|it| it.method == "DELETE");
    for operation in first.iter().chain(&last) {
        if let (Some(schema), Some(body)) = (operation.body_schema(), operation.body()) {
            documented.check(schema, &body, operation.path);
        }
        let team = if operation.path.ends_with("/events") { "past" } else { "work" };
        let answer = env.client.send(operation.whole_request(team)).await;
        documented.answers(operation, &answer);
        statuses.insert(format!("{} {}", operation.method, operation.path), answer.status);
    }
    // All that needs no running team and no merge succeeds.
    let failed: Vec<_> = statuses
        .iter()
        .filter(|(_, status)| !matches!(status, 200 | 201 | 503))
        .map(|(operation, status)| format!("{operation}: {status}"))
        .collect();
    assert_eq!(
        failed,
        [
            "DELETE /api/teams/{team}: 400",
            "GET /api/teams/{team}/members/{name}/conversation: 404",
            "POST /api/teams/{team}/members/{name}/merge: 409",
        ]
    );
}

#[tokio::test]
async fn each_error_is_documented() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let documented = documented(&env).await;
    for operation in documented.operations() {
        let client = &env.client;
        let send = |request: Request| async { client.send(request).await };
        let no_token = send(operation.whole_request("work").bare()).await;
        let foreign = send(operation.whole_request("work").header("Host", "evil.example")).await;
        let nobody = send(operation.whole_request("nobody")).await;
        assert_eq!(foreign.status, 403, "{}", operation.path);
        assert_eq!(no_token.status == 401, operation.path != "/api/health", "{}", operation.path);
        assert_eq!(nobody.status == 404, operation.path.contains("{team}"), "{}", operation.path);
        for answer in [no_token, foreign, nobody] {
            documented.answers(&operation, &answer);
        }
        if operation.body_schema().is_none() {
            continue;
        }
        let malformed = operation.request("work").json(&json!(["x"]));
        let no_json = operation.request("work").raw_body(b"x");
        let large = operation.request("work").header("Content-Length", "99999999");
        for (request, status) in [(malformed, 400), (no_json, 415), (large, 413)] {
            let answer = send(request).await;
            assert_eq!(answer.status, status, "{} {}", operation.method, operation.path);
            documented.answers(&operation, &answer);
        }
    }
}

#[tokio::test]
async fn the_document_is_a_valid_openapi_document() {
    let env = ServerEnv::new().await;
    let Documented { document } = documented(&env).await;
    assert_eq!(document["openapi"], "3.1.0");
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        let mut whole = schema.clone();
        whole["components"] = document["components"].clone();
        jsonschema::validator_for(&whole).unwrap();
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let given: Vec<&str> = operation["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|it| it["in"] == "path")
                .map(|it| it["name"].as_str().unwrap())
                .collect();
            let in_path: Vec<&str> =
                path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(given, in_path, "{method} {path}");
        }
    }
}
