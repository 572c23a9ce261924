//! Prices of models. pitcrew reports the prices that it knows, and refuses a cost limit that it is
//! not able to enforce.

use serde_json::{Value, json};

use crate::test_env::TestEnv;

/// Runs pitcrew with an API key of a vendor whose server does not exist.
fn run_with_key(room: &TestEnv, args: &[&str]) -> crate::test_env::Ran {
    let mut command = room.command(args);
    command
        .env("OPENAI_API_KEY", "x")
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .env("OLLAMA_HOST", "127.0.0.1:9");
    crate::test_env::Ran::of(command.output().unwrap())
}

fn entry<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let models = listed["models"].as_array().unwrap();
    models
        .iter()
        .find(|model| model["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not in {listed:#}"))
}

#[test]
fn models_are_listed_with_prices_windows_and_sources() {
    let room = TestEnv::new();
    std::fs::create_dir_all(room.root()).unwrap();
    let settings = json!({"pitcrew": {
        "prices": {"openai/qwen3": {"input": 0.5, "output": 1.0}}, "contextWindow": {"qwen3": 40_000},
    }});
    std::fs::write(room.root().join("settings.json"), settings.to_string()).unwrap();
    let listed: Value =
        serde_json::from_str(&run_with_key(&room, &["models", "--json"]).stdout).unwrap();
    let ours = entry(&listed, "openai/qwen3");
    assert_eq!(
        (&ours["price"]["output"], &ours["price_source"]),
        (&json!(1.0), &json!("settings"))
    );
    assert_eq!((&ours["context_window"], &ours["usable"]), (&json!(40_000), &json!(true)));
    let opus = entry(&listed, "anthropic/claude-opus-5-5");
    assert_eq!((&opus["aliases"], &opus["usable"]), (&json!(["opus"]), &json!(false)));
    assert_eq!(
        (&opus["context_window"], &opus["window_source"]),
        (&json!(1_000_000), &json!("list"))
    );
    assert!(opus["price_source"].as_str().unwrap().starts_with("list of 20"), "{opus}");
    assert!(listed["default"].as_str().unwrap().starts_with("openai/"), "{listed}");
}

#[test]
fn a_limit_on_the_cost_of_a_model_without_a_price_is_refused_before_there_is_a_team() {
    let room = TestEnv::new();
    let limited = ["run", "x", "--model", "openai/unheard-of", "--max-cost-usd", "1"];
    let ran = run_with_key(&room, &limited);
    assert_eq!(ran.code, 2, "{ran:?}");
    for said in ["openai/unheard-of", "pitcrew.prices", "--max-turns", "pitcrew models"] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    let teammates = [
        "run",
        "x",
        "--model",
        "script:x.yaml",
        "--teammate-model",
        "openai/y",
        "--max-cost-usd",
        "1",
    ];
    assert_eq!(run_with_key(&room, &teammates).code, 2);
    assert!(!room.root().join("teams").exists());
}
