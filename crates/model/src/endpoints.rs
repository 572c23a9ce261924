//! The URLs and keys of model servers. This module does not read the environment. The caller
//! supplies the values.

use std::fmt;
use std::time::Duration;

/// A secret key. Formatting it never shows the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The base URLs and keys of all vendors.
///
/// If a base URL is not set, the vendor's own service is used, or for Ollama the server on this
/// machine. If a key is not set, requests contain no key. The services of Anthropic and OpenAI
/// require a key, so opening one of their models without a key is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// The base URL of the Messages API, without `/v1`, such as `https://api.anthropic.com`.
    pub anthropic_base_url: Option<String>,
    /// The Anthropic key, which is sent in the header `x-api-key`.
    pub anthropic_api_key: Option<Secret>,
    /// The Anthropic token, which some gateways require instead of a key. It is sent as a bearer
    /// token. If `anthropic_api_key` is set too, this token is not used.
    pub anthropic_auth_token: Option<Secret>,
    /// The base URL of the API for chat completions, with `/v1`, such as
    /// `https://api.openai.com/v1`.
    pub openai_base_url: Option<String>,
    /// The OpenAI key, sent as a bearer token.
    pub openai_api_key: Option<Secret>,
    /// The base URL of an Ollama server, such as `http://127.0.0.1:11434`.
    pub ollama_base_url: Option<String>,
    /// If the server sends nothing for this time, the call fails. The default is five minutes.
    pub silence: Option<Duration>,
}

impl Endpoints {
    /// Reads the usual environment variables through the function `lookup`. An empty value counts
    /// as not set.
    ///
    /// The variables are `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`,
    /// `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OLLAMA_HOST`. In the value of `OLLAMA_HOST`, the
    /// scheme and the port are optional.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| {
            lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let secret = |name: &str| text(name).map(Secret);
        Self {
            anthropic_base_url: text("ANTHROPIC_BASE_URL"),
            anthropic_api_key: secret("ANTHROPIC_API_KEY"),
            anthropic_auth_token: secret("ANTHROPIC_AUTH_TOKEN"),
            openai_base_url: text("OPENAI_BASE_URL"),
            openai_api_key: secret("OPENAI_API_KEY"),
            ollama_base_url: text("OLLAMA_HOST").map(|host| ollama_url(&host)),
            silence: None,
        }
    }
}

/// Builds a URL from the value of `OLLAMA_HOST`, such as `0.0.0.0`, `box:8000` or `http://box`.
/// Ollama itself accepts these forms.
fn ollama_url(host: &str) -> String {
    let (scheme, authority) = host.split_once("://").unwrap_or(("http", host));
    let authority = authority.trim_end_matches('/');
    // `0.0.0.0` means that the server listens on all addresses. Use the loopback address of this
    // machine instead.
    let authority = match authority.strip_prefix("0.0.0.0") {
        Some(rest) => format!("127.0.0.1{rest}"),
        None => authority.to_owned(),
    };
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    // If the value has no port, add Ollama's port to a plain http URL. Add nothing to an https URL,
    // so that the standard port of https is used.
    if has_port || scheme == "https" {
        format!("{scheme}://{authority}")
    } else {
        format!("{scheme}://{authority}:11434")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_are_read_and_empty_ones_are_none() {
        let endpoints = Endpoints::from_lookup(|name| match name {
            "ANTHROPIC_API_KEY" => Some("sk-1".to_owned()),
            "OPENAI_API_KEY" => Some(" ".to_owned()),
            "OPENAI_BASE_URL" => Some("http://x/v1".to_owned()),
            _ => None,
        });
        let expected = Endpoints {
            anthropic_api_key: Some(Secret::new("sk-1")),
            openai_base_url: Some("http://x/v1".to_owned()),
            ..Endpoints::default()
        };
        assert_eq!(endpoints, expected);
    }

    #[test]
    fn keys_are_not_shown() {
        let endpoints = Endpoints::from_lookup(|_| Some("sk-hidden".to_owned()));
        let shown = format!("{:?}", endpoints.anthropic_api_key);
        assert_eq!(shown, "Some(Secret(..))");
    }

    #[test]
    fn an_ollama_host_becomes_a_url() {
        let cases = [
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("box:8000", "http://box:8000"),
            ("http://box/", "http://box:11434"),
            ("https://box", "https://box"),
        ];
        for (host, url) in cases {
            assert_eq!(ollama_url(host), url);
        }
    }
}
