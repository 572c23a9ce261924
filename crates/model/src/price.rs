//! The cost of model calls: a table of list prices, which settings can override.

use std::collections::BTreeMap;

use pitcrew_protocol::{Price, PriceError, longest_named, prices_from};
use serde::Serialize;

use crate::Usage;

/// Where a price comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// The price comes from the built-in list, which is dated [`LISTED_IN`].
    List,
    /// The price comes from the user's settings.
    Settings,
}

/// The month in which the built-in prices were collected.
pub const LISTED_IN: &str = "2026-11";

/// Prices of models. Each entry has a name, and applies to all models whose names begin with it. If
/// several entries match, the longest name counts.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceTable {
    prices: BTreeMap<String, (Price, PriceSource)>,
}

/// The list prices in [`LISTED_IN`] for prompts of ordinary length, in dollars per million tokens.
/// Each line has the name, and the prices of input, output, cache write (5 minutes) and cache read.
const LIST: [(&str, f64, f64, f64, f64); 32] = [
    ("claude-fable-5", 10.0, 50.0, 12.5, 1.0),
    ("claude-fable-5-1", 10.0, 50.0, 12.5, 0.25),
    ("claude-opus-5-5", 4.0, 20.0, 5.0, 0.2),
    ("claude-opus-5", 5.0, 25.0, 6.25, 0.5),
    ("claude-opus-4-8", 5.0, 25.0, 6.25, 0.5),
    ("claude-opus-4-7", 5.0, 25.0, 6.25, 0.5),
    ("claude-opus-4-6", 5.0, 25.0, 6.25, 0.5),
    ("claude-opus-4-5", 5.0, 25.0, 6.25, 0.5),
    ("claude-opus-4", 15.0, 75.0, 18.75, 1.5),
    ("claude-sonnet-5-5", 2.0, 10.0, 2.5, 0.1),
    ("claude-sonnet-5", 2.0, 10.0, 2.5, 0.2),
    ("claude-sonnet-4", 3.0, 15.0, 3.75, 0.3),
    ("claude-3-7-sonnet", 3.0, 15.0, 3.75, 0.3),
    ("claude-haiku-5-5", 0.1, 0.5, 0.125, 0.01),
    ("claude-haiku-4-5", 1.0, 5.0, 1.25, 0.1),
    ("claude-3-5-haiku", 0.8, 4.0, 1.0, 0.08),
    ("gpt-6.1-sol", 2.0, 10.0, 2.5, 0.1),
    ("gpt-6.1-terra", 1.0, 5.0, 1.25, 0.05),
    ("gpt-6-astra", 10.0, 50.0, 12.5, 1.0),
    ("gpt-6-sol", 2.0, 10.0, 2.5, 0.2),
    ("gpt-6-luna", 0.1, 0.5, 0.125, 0.01),
    ("gpt-5.6-terra", 2.0, 12.0, 2.0, 0.2),
    ("gpt-5.6-luna", 0.2, 1.2, 0.2, 0.02),
    ("gpt-5.4", 2.5, 15.0, 2.5, 0.25),
    ("gpt-5.4-mini", 0.75, 4.5, 0.75, 0.075),
    ("gpt-5.3", 1.75, 14.0, 1.75, 0.175),
    ("gpt-5.2", 1.75, 14.0, 1.75, 0.175),
    ("gpt-5.1", 1.25, 10.0, 1.25, 0.125),
    ("gpt-5-mini", 0.25, 2.0, 0.25, 0.025),
    ("gpt-4.1", 2.0, 8.0, 2.0, 0.5),
    ("gpt-4o-mini", 0.15, 0.6, 0.15, 0.075),
    ("gpt-4o", 2.5, 10.0, 2.5, 1.25),
];

impl PriceTable {
    /// Returns the built-in list prices.
    pub fn list() -> Self {
        let price =
            |&(name, input, output, cache_write, cache_read): &(&str, f64, f64, f64, f64)| {
                (
                    name.to_owned(),
                    (Price { input, output, cache_write, cache_read }, PriceSource::List),
                )
            };
        Self { prices: LIST.iter().map(price).collect() }
    }

    /// Returns the names of the models that have a price, sorted.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        self.prices.keys().cloned().collect::<Vec<_>>().into_iter()
    }

    /// Adds prices to the table, in dollars per million tokens. If a name exists already, its price
    /// is replaced.
    ///
    /// # Errors
    /// An error if the JSON is not an object of prices, or if a price is negative. In this case the
    /// table does not change.
    pub fn override_with(&mut self, json: &serde_json::Value) -> Result<(), PriceError> {
        let prices = prices_from(json)?;
        self.prices
            .extend(prices.into_iter().map(|(name, price)| (name, (price, PriceSource::Settings))));
        Ok(())
    }

    /// Returns all entries of the table: the name, the price, and the source of the price.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Price, PriceSource)> {
        self.prices.iter().map(|(name, (price, source))| (name.as_str(), *price, *source))
    }

    /// Returns the price of a model. The name may contain the vendor (`anthropic/claude-x`) or not
    /// (`claude-x`).
    ///
    /// An entry of the table matches if the model's name begins with the name of the entry. After
    /// this beginning there must be a dash, a colon, or nothing. So the entry `gpt-5` does not
    /// match the model `gpt-5.1`.
    pub fn price(&self, model: &str) -> Option<Price> {
        longest_named(self.prices.iter().map(|(name, (price, _))| (name.as_str(), *price)), model)
    }

    /// Returns the cost of a call in dollars, or `None` if the model's price is unknown.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let price = self.price(model)?;
        let parts = [
            (usage.input_tokens, price.input),
            (usage.output_tokens, price.output),
            (usage.cache_creation_input_tokens, price.cache_write),
            (usage.cache_read_input_tokens, price.cache_read),
        ];
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let dollars = parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum();
        Some(dollars)
    }
}

impl Default for PriceTable {
    fn default() -> Self {
        Self::list()
    }
}

/// Maximum number of digits after the decimal point in [`in_dollars`].
const MOST_DIGITS: usize = 9;

/// Formats an amount of US dollars, such as `$1.25`. An amount below one cent keeps its first two
/// digits, such as `$0.00060`, because a rounded `$0.00` would read as free.
#[must_use]
pub fn in_dollars(amount: f64) -> String {
    let is_small = amount > 0.0 && amount < 0.01;
    // The logarithm of 0.0006 is -3.2, so its first digit is the fourth behind the point.
    let digits = if is_small { (-amount.log10()).ceil() + 1.0 } else { 2.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number of digits is at least 2, and the cast of a larger float saturates"
    )]
    let digits = (digits as usize).min(MOST_DIGITS);
    format!("${amount:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_small_amount_is_never_shown_as_zero() {
        let amounts = [0.0, 0.0006, 0.009, 0.00994, 0.01, 1.256, 120.0, 1e-12];
        let shown = ["$0.00", "$0.00060", "$0.0090", "$0.0099", "$0.01", "$1.26", "$120.00"];
        let shown = shown.into_iter().chain(["$0.000000000"]);
        assert_eq!(amounts.map(in_dollars).to_vec(), shown.collect::<Vec<_>>());
    }

    #[test]
    fn the_longest_name_that_fits_is_the_price() {
        let table = PriceTable::list();
        let input = |model| table.price(model).map(|price| price.input);
        assert_eq!(input("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(input("anthropic/claude-opus-4-6"), Some(5.0));
        assert_eq!(input("openai/anthropic/claude-opus-4-1"), Some(15.0));
        assert_eq!(input("openai/gpt-5.4-mini"), Some(0.75));
    }

    #[test]
    fn an_unknown_model_has_no_cost() {
        let table = PriceTable::list();
        let usage = Usage { input_tokens: 1, ..Usage::default() };
        for model in ["script:demo.yaml", "ollama/qwen3", "gpt-5.15", "claude", ""] {
            assert_eq!(table.cost(model, &usage), None, "{model}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_creation_input_tokens: 200_000,
            cache_read_input_tokens: 1_000_000,
        };
        let cost = PriceTable::list().cost("claude-opus-5-5", &usage).unwrap();
        assert!((cost - (4.0 + 2.0 + 1.0 + 0.2)).abs() < 1e-9);
    }

    #[test]
    fn settings_override_and_bad_prices_change_nothing() {
        let mut table = PriceTable::list();
        let good = json!({"qwen3": {"input": 0.5, "output": 1.0}, "gpt-4o": {"input": 9.0, "output": 9.0}});
        table.override_with(&good).unwrap();
        assert_eq!(table.price("ollama/qwen3:8b").map(|price| price.output), Some(1.0));
        assert_eq!(table.price("gpt-4o").map(|price| price.input), Some(9.0));
        let before = table.clone();
        for bad in [json!([]), json!({"x": {"input": -1.0, "output": 1.0}}), json!({"x": {}})] {
            assert!(table.override_with(&bad).is_err());
        }
        assert_eq!(table, before);
    }
}
