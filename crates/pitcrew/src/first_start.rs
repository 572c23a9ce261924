//! The first start: no model is named and no vendor's key is set. At a terminal, pitcrew says what
//! it has found, and the user chooses a model, the demo, or to leave. A chosen model is kept in the
//! user's settings. The values of keys are never printed and never stored.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use pitcrew_model::{Endpoints, ModelError, ModelSpec, default_spec, ollama_models};
use pitcrew_permission::settings::{Settings, save_model};

use crate::client_version;
use crate::context::Context;
use crate::failure::Failure;
use crate::openable::has_key;
use crate::output::{self, printable, visible};
use crate::run_options::{endpoints, model_of};

/// The environment variables with a key that pitcrew uses.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// The client whose teammates can join a team of pitcrew.
const CLIENT: &str = "claude";

/// Maximum number of local models in the list. Others can be named.
const LOCAL_MOST: usize = 9;

/// Maximum length in bytes of a line that the user types.
const LINE_MOST: u64 = 4096;

/// The user's decision at the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FirstStart {
    /// Use this model. It is kept in the user's settings, unless a warning was printed.
    Model(String),
    /// Play the demo.
    Demo,
    /// Leave without an action.
    Leave,
}

/// What was found on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    /// The names of the variables with keys that are set.
    keys: Vec<&'static str>,
    /// The names of the models of a local Ollama, or `None` if none answers.
    local: Option<Vec<String>>,
    /// The path of another client.
    client: Option<PathBuf>,
}

/// Returns true if the settings name no model and no key is set, so that a user at a terminal must
/// choose.
pub(crate) fn is_due(context: &Context, settings: &Settings) -> bool {
    let usual = default_spec(model_of(settings), &endpoints(context, settings), None);
    matches!(usual, Err(ModelError::NoModel))
}

/// Says what was found, and asks the user until the answer is valid. Keeps a chosen model in the
/// user's settings. The caller has checked that there is a terminal.
///
/// # Errors
/// Returns an error if the runtime for the search cannot be started.
pub(crate) fn ask(context: &Context, settings: &Settings) -> Result<FirstStart, Failure> {
    let endpoints = endpoints(context, settings);
    let found = context.briefly(async { Ok(Found::on(context, &endpoints).await) })?;
    output::remark(&found.text(&endpoints));
    let choices = found.choices();
    output::remark(&menu(&choices));
    let chosen = asked(&choices, &endpoints);
    if let FirstStart::Model(model) = &chosen {
        keep(context, model);
    }
    Ok(chosen)
}

/// Keeps the model in the user's settings. If that is not possible, the user learns why, and the
/// model is used this time only.
fn keep(context: &Context, model: &str) {
    let file = context.root.join("settings.json");
    let shown = visible(&file.display().to_string());
    output::remark(&match save_model(&file, model) {
        Ok(()) => format!("{model} is kept as pitcrew.model in {shown}; --model names another"),
        Err(error) => {
            format!("warning: {model} is used this time only: {}", Failure::internal(error).chain())
        }
    });
}

/// Reads lines until one of them is a valid answer. The end of the input means to leave.
fn asked(choices: &[String], endpoints: &Endpoints) -> FirstStart {
    let mut stdin = io::stdin().lock();
    loop {
        prompt();
        let mut line = Vec::new();
        let read = io::Read::take(&mut stdin, LINE_MOST).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return FirstStart::Leave;
        }
        match answer(&String::from_utf8_lossy(&line), choices, endpoints) {
            Ok(chosen) => return chosen,
            Err(text) => output::remark(&text),
        }
    }
}

/// Writes the prompt to the terminal, where the user's line follows it.
fn prompt() {
    let mut err = io::stderr().lock();
    // If the terminal is gone, reading from it fails too.
    let _either = err.write_all(b"number, name, d or q> ").and_then(|()| err.flush());
}

/// Interprets a line of the user.
///
/// # Errors
/// Returns a text that says what is wrong. The text does not repeat the line, because the line may
/// be a key.
fn answer(line: &str, choices: &[String], endpoints: &Endpoints) -> Result<FirstStart, String> {
    let line = line.trim();
    match line {
        "d" | "demo" => return Ok(FirstStart::Demo),
        "q" | "quit" => return Ok(FirstStart::Leave),
        _ => {}
    }
    if let Ok(number) = line.parse::<usize>() {
        let chosen = number.checked_sub(1).and_then(|at| choices.get(at));
        return chosen
            .map(|model| FirstStart::Model(model.clone()))
            .ok_or_else(|| "there is no such number".to_owned());
    }
    let spec: ModelSpec = line.parse().map_err(|_any| {
        "that names no model; a name is ollama/NAME, anthropic/NAME, openai/NAME or script:FILE"
            .to_owned()
    })?;
    if has_key(&spec, endpoints) {
        return Ok(FirstStart::Model(spec.to_string()));
    }
    let key = match spec {
        ModelSpec::OpenAi(_) => "OPENAI_API_KEY",
        ModelSpec::Anthropic(_) | ModelSpec::Ollama(_) | ModelSpec::Script(_) => {
            "ANTHROPIC_API_KEY"
        }
    };
    Err(format!("this model needs a key: leave, set {key} in your shell and start again"))
}

impl Found {
    async fn on(context: &Context, endpoints: &Endpoints) -> Self {
        Self {
            keys: KEYS.into_iter().filter(|key| context.variable(key).is_some()).collect(),
            // Most machines do not run Ollama. Then nothing answers.
            local: ollama_models(endpoints).await.ok(),
            client: client_version::find(context, CLIENT),
        }
    }

    /// Returns the models that the user can choose by a number.
    fn choices(&self) -> Vec<String> {
        let local = self.local.iter().flatten().take(LOCAL_MOST);
        local.map(|name| ModelSpec::Ollama(name.clone()).to_string()).collect()
    }

    fn text(&self, endpoints: &Endpoints) -> String {
        let keys = match self.keys.as_slice() {
            [] => format!("none of {} is set", KEYS.join(", ")),
            keys => format!("{} set", keys.join(", ")),
        };
        let at = match endpoints.ollama_base_url.as_deref() {
            Some(url) => format!("at {}", printable(url)),
            None => "on this machine".to_owned(),
        };
        let local = match &self.local {
            None => format!("does not run {at}"),
            Some(models) if models.is_empty() => {
                format!("runs {at}, and has no model; `ollama pull NAME` gets one")
            }
            Some(models) => format!("runs {at}, and has {}", counted(models.len())),
        };
        let client = match &self.client {
            None => format!("there is no `{CLIENT}` on the PATH; none is needed"),
            Some(path) => format!("{}; teammates can run in it, the lead cannot", shown(path)),
        };
        format!(
            "pitcrew needs a language model, and none is chosen yet. This is what it found:\n  API keys     {keys}\n  Ollama       {local}\n  Claude Code  {client}"
        )
    }
}

fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

fn counted(models: usize) -> String {
    pitcrew_protocol::counted(models, "model")
}

/// Returns the list of choices.
fn menu(choices: &[String]) -> String {
    let numbered = choices.iter().enumerate();
    let mut lines: Vec<String> =
        numbered.map(|(at, model)| format!("  {}  {}", at + 1, printable(model))).collect();
    lines.insert(0, "Which model shall the agents use?".to_owned());
    lines.push("  or type the name of a model, such as ollama/qwen3 or anthropic/NAME".to_owned());
    lines.push("  d  watch a demo, which needs no model".to_owned());
    lines.push("  q  leave".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use pitcrew_model::Secret;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<FirstStart, &str>) {
        let choices = ["ollama/one".to_owned(), "ollama/two".to_owned()];
        let given = answer(line, &choices, &Endpoints::default());
        match expected {
            Ok(chosen) => assert_eq!(given, Ok(chosen)),
            Err(part) => assert!(given.as_ref().unwrap_err().contains(part), "{given:?}"),
        }
    }

    #[test]
    fn a_number_a_name_and_a_letter_are_answers() {
        let model = |name: &str| Ok(FirstStart::Model(name.to_owned()));
        check("2\n", model("ollama/two"));
        check(" ollama/three ", model("ollama/three"));
        check("script:a b.yaml", model("script:a b.yaml"));
        check("d", Ok(FirstStart::Demo));
        check("quit\r\n", Ok(FirstStart::Leave));
        for number in ["0", "3", "99999999999999999999"] {
            check(number, Err("no"));
        }
        check("", Err("names no model"));
        check("sonnet", Err("set ANTHROPIC_API_KEY"));
        check("openai/x", Err("set OPENAI_API_KEY"));
        let endpoints =
            Endpoints { anthropic_api_key: Some(Secret::new("k")), ..Endpoints::default() };
        let named = answer("anthropic/x", &[], &endpoints);
        assert_eq!(named, Ok(FirstStart::Model("anthropic/x".to_owned())));
    }

    #[test]
    fn a_key_that_was_typed_by_mistake_is_not_repeated() {
        let told = answer("sk-ant-secret", &[], &Endpoints::default()).unwrap_err();
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn the_list_is_short_and_the_text_says_what_was_found() {
        let many = (0..20).map(|number| format!("m{number}\u{1b}[2J")).collect();
        let found = Found { local: Some(many), ..Found::default() };
        assert_eq!(found.choices().len(), LOCAL_MOST);
        assert!(!menu(&found.choices()).contains('\u{1b}'));
        insta::assert_snapshot!(found.text(&Endpoints::default()), @r"
        pitcrew needs a language model, and none is chosen yet. This is what it found:
          API keys     none of ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY is set
          Ollama       runs on this machine, and has 20 models
          Claude Code  there is no `claude` on the PATH; none is needed
        ");
    }
}
