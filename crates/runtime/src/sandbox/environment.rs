//! Which variables commands do not inherit.

/// Keys and tokens of model providers: no command gets them, in any profile.
pub(super) const OF_PROVIDERS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AZURE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "CEREBRAS_API_KEY",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "MOONSHOT_API_KEY",
    "DASHSCOPE_API_KEY",
    "NVIDIA_API_KEY",
    "PERPLEXITY_API_KEY",
    "REPLICATE_API_TOKEN",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "VOYAGE_API_KEY",
];

/// Ends of names that tell of a secret: *read* and *work* get none of these.
const SECRET_ENDS: &[&str] = &[
    "_TOKEN",
    "_API_KEY",
    "_APIKEY",
    "_ACCESS_KEY",
    "_SECRET",
    "_SECRET_KEY",
    "_PRIVATE_KEY",
    "_PASSWORD",
    "_PASSWD",
    "_PASSPHRASE",
    "_CREDENTIALS",
    "_AUTH",
];

/// Others that hold a secret, lead to one, or to somebody who acts on request.
const SECRETS: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DATABASE_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "NETRC",
    "PGPASSWORD",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "SUDO_ASKPASS",
    "TMUX",
    "WAYLAND_DISPLAY",
];

/// Whether a command in *read* or *work* goes without the variable.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRETS.contains(&name.as_str())
        || OF_PROVIDERS.contains(&name.as_str())
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}
