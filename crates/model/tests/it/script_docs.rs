//! Checks that the documents about scripts agree with the code.

use std::path::{Path, PathBuf};

use pitcrew_model::Script;
use serde_json::Value;

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

fn examples() -> Vec<String> {
    let text = std::fs::read_to_string(docs("scripts.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_schema_that_is_checked_in_is_the_one_of_the_code() {
    let current = format!("{:#}\n", Script::schema());
    let file = docs("script.schema.json");
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    // If the schema file differs from the schema that the code generates, the test updates the
    // file. The test still fails, so that somebody notices the change.
    if kept != current {
        std::fs::write(&file, &current).unwrap();
    }
    assert!(kept == current, "docs/script.schema.json was stale; look at what changed");
}

#[test]
fn the_examples_are_scripts_and_fit_the_schema() {
    let schema = jsonschema::validator_for(&Script::schema()).unwrap();
    let examples = examples();
    assert!(!examples.is_empty());
    for example in examples {
        Script::parse(Path::new("scripts.md"), &example).unwrap();
        let value: Value = serde_saphyr::from_str(&example).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_what_the_code_refuses() {
    let schema = jsonschema::validator_for(&Script::schema()).unwrap();
    for wrong in [
        "agents: {a: [{say: hi}]}",
        "agents: {a: [{}]}",
        "agents: {a: [{delay_ms: 5}]}",
        "agents: {a: [{wait_for: {}}]}",
        "agents: {a: [{wait_for: {times: 2}}]}",
        "agents: {a: [{text: x, capture: {y: {}}}]}",
        "agents: {a: [{text: x, capture: {y: {regex: a, pointer: /b}}}]}",
        "agents: {a: [{text: x, tools: [{input: {}}]}]}",
        "agents: {a: {text: x}}",
        "{}",
    ] {
        assert!(Script::parse(Path::new("wrong.yaml"), wrong).is_err(), "{wrong}");
        let value: Value = serde_saphyr::from_str(wrong).unwrap();
        assert!(!schema.is_valid(&value), "{wrong}");
    }
}
