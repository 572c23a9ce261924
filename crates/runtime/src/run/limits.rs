//! The limits of a run.

use pitcrew_model::{ModelSpec, PriceTable};
use pitcrew_protocol::Member;
use pitcrew_team::SpawnRecord;
use serde::{Deserialize, Serialize};

/// The limits of a run. When the run reaches the limit on model calls or on cost, it ends with an
/// orderly shutdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Maximum number of model calls of each agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Maximum cost of the whole team in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Maximum number of teammates at one time. When this number is reached, further spawn requests
    /// are refused and the run continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_teammates: Option<u32>,
}

impl RunLimits {
    /// Returns true if the cost limit has no effect with this model. That is the case if the
    /// model's price is unknown and the number of model calls is not limited. Returns false for a
    /// model name that cannot be parsed.
    #[must_use]
    pub fn needs_price_of(&self, model: &str, prices: &PriceTable) -> bool {
        // A limit on model calls ends the run even if the cost is unknown.
        let is_bounded = self.max_cost_usd.is_none() || self.max_turns.is_some();
        let has_cost = || model.parse::<ModelSpec>().is_ok_and(|spec| !spec.is_free());
        !is_bounded && has_cost() && prices.price(model).is_none()
    }

    /// Returns the maximum number of model calls of a member: the smaller of its own limit and the
    /// run's limit.
    #[must_use]
    pub fn turns_of(&self, member: &Member) -> Option<u32> {
        // A spawn request is able to set a lower limit than the run's limit, but not a higher one.
        let own = SpawnRecord::of(member).and_then(|record| record.max_turns);
        own.into_iter().chain(self.max_turns).min()
    }
}
