//! `pitcrew models`: lists the known models with their prices and context windows.

use std::collections::BTreeSet;

use pitcrew_model::{
    ALIASES, Endpoints, LISTED_IN, ModelSpec, PriceSource, PriceTable, known_window,
};
use pitcrew_permission::settings::Settings;
use pitcrew_protocol::Price;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::openable::has_key;
use crate::output;
use crate::run_options;

/// List models with their prices and context windows, and the source of each figure
///
/// Prices are in US dollars per million tokens. Prices and context windows can be set under
/// pitcrew.prices and pitcrew.contextWindow in the settings. Newer models of a vendor can be used
/// too, but without a price their cost is not known. The models of a local Ollama are listed if it
/// answers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew models
  pitcrew models --json")]
pub(crate) struct Models {}

#[derive(Debug, Serialize)]
struct Answer {
    /// The model of a run that names no model. `None` if there is neither an API key nor a local
    /// model.
    default: Option<String>,
    models: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    /// The model's name, as `--model` accepts it.
    name: String,
    /// Shorter names that mean the same model.
    aliases: Vec<&'static str>,
    /// Whether the model can be used: either there is an API key for its vendor, or the model runs
    /// on this machine.
    usable: bool,
    /// The price in US dollars per million tokens. `None` for a local model, which costs nothing.
    price: Option<Price>,
    price_source: String,
    /// The size of the context window, in tokens.
    context_window: Option<u64>,
    window_source: &'static str,
}

impl Models {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let Self {} = self;
        let settings = context.usable_settings();
        let endpoints = run_options::endpoints(context, &settings);
        let prices = run_options::prices(&settings)?;
        let local = context.briefly(async {
            // Most machines do not run Ollama, so an error here only means that there are no local
            // models.
            Ok(pitcrew_model::ollama_models(&endpoints).await.unwrap_or_default())
        })?;
        let default =
            pitcrew_model::default_spec(run_options::model_of(&settings), &endpoints, Some(&local));
        let answer = Answer {
            default: default.ok().map(|spec| spec.to_string()),
            models: entries(&settings, &endpoints, &prices, &local),
        };
        context.output.answer(&answer, Answer::text)
    }
}

fn entries(
    settings: &Settings,
    endpoints: &Endpoints,
    prices: &PriceTable,
    local: &[String],
) -> Vec<Entry> {
    let windows = settings.context_windows();
    let window = |name: &str| match windows.named(name) {
        Some(tokens) => (Some(tokens), "settings"),
        None => (known_window(name), "list"),
    };
    let mut named = BTreeSet::new();
    let mut entries: Vec<Entry> = Vec::new();
    for (name, price, source) in prices.iter() {
        let spec = spec_of(name);
        let name = spec.as_ref().map_or_else(|| name.to_owned(), ToString::to_string);
        let (context_window, window_source) = window(&name);
        named.insert(name.clone());
        entries.push(Entry {
            aliases: aliases(&name),
            usable: spec.as_ref().is_some_and(|spec| has_key(spec, endpoints)),
            price: Some(price),
            price_source: match source {
                PriceSource::List => format!("list of {LISTED_IN}"),
                PriceSource::Settings => "settings".to_owned(),
            },
            context_window,
            window_source,
            name,
        });
    }
    let local = local.iter().map(|name| ModelSpec::Ollama(name.clone()).to_string());
    for name in local.filter(|name| !named.contains(name)) {
        let (context_window, window_source) = window(&name);
        let price_source = "runs here".to_owned();
        entries.push(Entry {
            aliases: Vec::new(),
            usable: true,
            price: None,
            price_source,
            context_window,
            window_source,
            name,
        });
    }
    entries
}

/// Converts a model name from the price table to a model. Returns `None` if the vendor of the model
/// is not known.
fn spec_of(name: &str) -> Option<ModelSpec> {
    let spec = name.parse().ok();
    spec.or_else(|| name.starts_with("gpt-").then(|| ModelSpec::OpenAi(name.to_owned())))
}

fn aliases(name: &str) -> Vec<&'static str> {
    let full = name.rsplit('/').next().unwrap_or(name);
    ALIASES.iter().filter(|(_, of)| *of == full).map(|(alias, _)| *alias).collect()
}

impl Answer {
    fn text(&self) -> String {
        let dollars = |price: f64| format!("{price:.2}");
        let rows: Vec<[String; 9]> = self
            .models
            .iter()
            .map(|entry| {
                let [input, output, written, read] = match entry.price {
                    Some(price) => [price.input, price.output, price.cache_write, price.cache_read]
                        .map(dollars),
                    None => ["-", "-", "-", "-"].map(str::to_owned),
                };
                let window = entry
                    .context_window
                    .map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
                [
                    entry.name.clone(),
                    entry.aliases.join(" "),
                    if entry.usable { "yes" } else { "no key" }.to_owned(),
                    input,
                    output,
                    written,
                    read,
                    window,
                    entry.price_source.clone(),
                ]
            })
            .collect();
        let heading = [
            "MODEL",
            "ALIAS",
            "USABLE",
            "INPUT",
            "OUTPUT",
            "CACHE WRITE",
            "CACHE READ",
            "WINDOW",
            "SOURCE",
        ];
        let default = match &self.default {
            Some(default) => format!("a run that names no model uses {default}"),
            None => {
                "a run must name a model: there is no key in the environment, and no local Ollama answers".to_owned()
            }
        };
        format!("{}\n\nUS dollars per million tokens; {default}", output::table(heading, &rows))
    }
}
