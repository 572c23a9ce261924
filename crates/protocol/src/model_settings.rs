//! The values that settings contain for models: prices and context windows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The smallest context window that settings are allowed to give, in tokens. An agent's
/// instructions and tools alone need this many tokens.
const SMALLEST_WINDOW: u64 = 1_000;

/// The prices of one model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of input tokens that were neither written to the cache nor read from it.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
    /// The price of input tokens that were written to the cache.
    #[serde(default)]
    pub cache_write: f64,
    /// The price of input tokens that were read from the cache.
    #[serde(default)]
    pub cache_read: f64,
}

/// The reason why a price table is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The table does not have the form `{"MODEL": {"input": 1.0, "output": 2.0, "cache_write":
    /// 1.25, "cache_read": 0.1}}`.
    #[error("the price table cannot be read")]
    Form(#[source] serde_json::Error),
    /// A price is negative or not a number.
    #[error("the price of {model:?} is not a positive number")]
    Number {
        /// The name of the model.
        model: String,
    },
}

/// Reads the prices of the models. The keys of the result are the model names.
///
/// # Errors
/// When the JSON is not an object of prices, or a price is negative.
pub fn prices_from(json: &Value) -> Result<BTreeMap<String, Price>, PriceError> {
    let prices: BTreeMap<String, Price> = BTreeMap::deserialize(json).map_err(PriceError::Form)?;
    let valid = |price: &Price| {
        let all = [price.input, price.output, price.cache_write, price.cache_read];
        all.iter().all(|number| number.is_finite() && *number >= 0.0)
    };
    match prices.iter().find(|(_, price)| !valid(price)) {
        Some((model, _)) => Err(PriceError::Number { model: model.clone() }),
        None => Ok(prices),
    }
}

/// The context windows in the settings: one window for all models, or one window for each beginning
/// of a model name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextWindows {
    all: Option<u64>,
    named: BTreeMap<String, u64>,
}

/// The reason why the setting of a context window is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The setting is neither a number like `100000` nor an object like `{"MODEL": 100000}`.
    #[error("a context window is a number of tokens, or one number for each model")]
    Form(#[source] serde_json::Error),
    /// The window is too small to work with.
    #[error("a context window of {tokens} tokens is too small; {SMALLEST_WINDOW} is the least")]
    TooSmall {
        /// The context window that the setting gives, in tokens.
        tokens: u64,
    },
}

impl ContextWindows {
    /// Reads the setting: one number for all models, or an object whose keys are the beginnings of
    /// model names and whose values are numbers.
    ///
    /// # Errors
    /// When the setting is neither a number nor an object of numbers, or when a window has fewer
    /// than 1000 tokens.
    pub fn from_setting(setting: &Value) -> Result<Self, WindowError> {
        let windows = if setting.is_object() {
            Self { all: None, named: BTreeMap::deserialize(setting).map_err(WindowError::Form)? }
        } else {
            Self {
                all: Some(u64::deserialize(setting).map_err(WindowError::Form)?),
                named: BTreeMap::new(),
            }
        };
        match windows
            .all
            .iter()
            .chain(windows.named.values())
            .find(|tokens| **tokens < SMALLEST_WINDOW)
        {
            Some(tokens) => Err(WindowError::TooSmall { tokens: *tokens }),
            None => Ok(windows),
        }
    }

    /// Returns the context window that the settings give for a model.
    #[must_use]
    pub fn named(&self, model: &str) -> Option<u64> {
        let named =
            longest_named(self.named.iter().map(|(name, tokens)| (name.as_str(), *tokens)), model);
        named.or(self.all)
    }
}

/// Finds the table entry for a model. Of all entries whose name is a beginning of the model's name,
/// the entry with the longest name is returned. If no entry matches a name with a vendor, such as
/// `vendor/model`, the name without the vendor is tried.
pub fn longest_named<'a, T>(
    table: impl Iterator<Item = (&'a str, T)> + Clone,
    model: &str,
) -> Option<T> {
    let suffixes = std::iter::successors(Some(model), |name| Some(name.split_once('/')?.1));
    suffixes.into_iter().find_map(|model| {
        let fits = |name: &str| {
            model
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':']))
        };
        let fitting = table.clone().filter(|(name, _)| fits(name));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, entry)| entry)
    })
}
