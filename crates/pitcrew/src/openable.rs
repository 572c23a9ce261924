//! Lists the models that a run can use, for agents that spawn other agents.

use pitcrew_model::{ALIASES, Endpoints, ModelSpec, PriceSource, PriceTable, ollama_models};

/// Lists the models that a run on `model` can use: `model` itself and the models of an Ollama
/// server on this machine. If there is an API key for a vendor, the list also contains the vendor's
/// aliases, the vendor's models with a price in the settings, and a pattern for the vendor's other
/// models. A run with a scripted model does not look for Ollama.
pub(crate) async fn openable(
    model: &str,
    endpoints: &Endpoints,
    prices: &PriceTable,
) -> Vec<String> {
    let is_scripted = matches!(model.parse(), Ok(ModelSpec::Script(_)));
    let local = if is_scripted {
        Vec::new()
    } else {
        // Most machines do not run Ollama, so an error here only means that there are no local
        // models.
        ollama_models(endpoints).await.unwrap_or_default()
    };
    listed(model, endpoints, prices, &local)
}

/// Returns whether the model can be used: either there is an API key for its vendor, or the model
/// runs on this machine.
pub(crate) fn has_key(spec: &ModelSpec, endpoints: &Endpoints) -> bool {
    match spec {
        ModelSpec::Anthropic(_) => {
            endpoints.anthropic_api_key.is_some() || endpoints.anthropic_auth_token.is_some()
        }
        ModelSpec::OpenAi(_) => {
            endpoints.openai_api_key.is_some() || endpoints.openai_base_url.is_some()
        }
        ModelSpec::Ollama(_) | ModelSpec::Script(_) => true,
    }
}

fn listed(
    model: &str,
    endpoints: &Endpoints,
    prices: &PriceTable,
    local: &[String],
) -> Vec<String> {
    let of_anthropic = ModelSpec::Anthropic("NAME".to_owned());
    let of_openai = ModelSpec::OpenAi("NAME".to_owned());
    let mut names = vec![model.to_owned()];
    if has_key(&of_anthropic, endpoints) {
        names.extend(ALIASES.iter().map(|(alias, _)| (*alias).to_owned()));
    }
    let priced = prices.iter().filter(|(_, _, source)| matches!(source, PriceSource::Settings));
    let specs = priced.filter_map(|(name, _, _)| name.parse::<ModelSpec>().ok());
    names.extend(specs.filter(|spec| has_key(spec, endpoints)).map(|spec| spec.to_string()));
    let vendors = [of_anthropic, of_openai].into_iter().filter(|spec| has_key(spec, endpoints));
    names.extend(vendors.map(|spec| spec.to_string()));
    names.extend(local.iter().map(|name| ModelSpec::Ollama(name.clone()).to_string()));
    let mut known = std::collections::BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use pitcrew_model::Secret;

    use super::*;

    #[test]
    fn only_vendors_with_a_key_are_listed_with_local_models_and_aliases() {
        let key = Some(Secret::new("k"));
        let prices = PriceTable::default();
        let list = |model: &str, endpoints: &Endpoints, local: &[&str]| {
            let local: Vec<String> = local.iter().map(|name| (*name).to_owned()).collect();
            listed(model, endpoints, &prices, &local).join(", ")
        };
        let none = Endpoints::default();
        assert_eq!(list("script:a.yaml", &none, &[]), "script:a.yaml");
        assert_eq!(
            list("ollama/qwen3:8b", &none, &["qwen3:8b", "llama3"]),
            "ollama/qwen3:8b, ollama/llama3"
        );
        let anthropic = Endpoints { anthropic_api_key: key.clone(), ..Endpoints::default() };
        insta::assert_snapshot!(
            list("anthropic/claude-x", &anthropic, &[]),
            @"anthropic/claude-x, opus, sonnet, haiku, anthropic/NAME"
        );
        let openai = Endpoints { openai_api_key: key, ..Endpoints::default() };
        assert_eq!(
            list("openai/gpt-5", &openai, &["qwen3"]),
            "openai/gpt-5, openai/NAME, ollama/qwen3"
        );
    }
}
