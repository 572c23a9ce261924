//! Decides which environment variables commands do not inherit.
//!
//! A variable is not inherited if its name or its value looks secret. The name is split into words
//! at underscores and at changes from lower to upper case. The words, their beginnings and their
//! endings are compared with tables of secret words. The value is checked for the form of a secret,
//! whatever the name is.

/// Variables that contain keys and tokens of model providers, or of a collector of OpenTelemetry. No
/// command gets them, in any sandbox profile.
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
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
];

/// Words that mark a variable name as secret. Commands in the sandbox profiles *read* and *work* do
/// not get such variables. A final `S` and final digits of a word are ignored (`API_KEYS`,
/// `TOKEN2`).
const SECRET_WORDS: &[&str] = &[
    "ACCESSKEY",
    "APIKEY",
    "APPKEY",
    "AUTH",
    "AUTHKEY",
    "AUTHORIZATION",
    "BEARER",
    "CONNECTIONSTRING",
    "CONNSTR",
    "COOKIE",
    "CRED",
    "CREDENTIAL",
    "DBPASS",
    "DBPW",
    "DSN",
    "HMAC",
    "JWT",
    "KEY",
    "KEYSTORE",
    "KEYTAB",
    "MASTERKEY",
    "MNEMONIC",
    "NETRC",
    "OAUTH",
    "OAUTH2",
    "OTP",
    "PASS",
    "PASSCODE",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PEM",
    "PEPPER",
    "PFX",
    "PHRASE",
    "PIN",
    "PRIV",
    "PRIVATE",
    "PRIVKEY",
    "PW",
    "PWD",
    "RSA",
    "SALT",
    "SAS",
    "SECRET",
    "SECRETKEY",
    "SIGNATURE",
    "SIGNING",
    "SK",
    "SSHKEY",
    "SSHPASS",
    "TOKEN",
    "TOTP",
    "WEBHOOK",
];

/// Endings of words that mark a variable name as secret: `PGPASSWORD`, `GITHUBTOKEN`, `SMTPPASS`.
const SECRET_ENDS: &[&str] = &[
    "ACCESSKEY",
    "APIKEY",
    "AUTHKEY",
    "BINDPW",
    "CREDENTIAL",
    "DBPW",
    "ENCRYPTIONKEY",
    "MASTERKEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATEKEY",
    "PRIVKEY",
    "PSWD",
    "PWD",
    "ROOTPW",
    "SECRET",
    "SECRETKEY",
    "SIGNINGKEY",
    "SSHKEY",
    "TOKEN",
    "USERPW",
    "WEBHOOK",
];

/// Beginnings of words that mark a variable name as secret: `PASSWORDFILE`, `PRIVATEKEYPATH`.
const SECRET_BEGINNINGS_OF_WORDS: &[&str] = &[
    "ACCESSKEY",
    "APIKEY",
    "CREDENTIAL",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATEKEY",
    "PSWD",
    "SECRETKEY",
];

/// Words that have the ending of a secret word but are harmless.
const HARMLESS_WORDS: &[&str] =
    &["BYPASS", "COMPASS", "OVERPASS", "SURPASS", "TRESPASS", "UNDERPASS"];

/// Pairs of words that mark a variable name as secret only if they stand together.
const SECRET_PAIRS: &[[&str; 2]] =
    &[["CONNECTION", "STRING"], ["CONN", "STRING"], ["CONN", "STR"], ["HOOK", "URL"]];

/// Other names of variables that give access to secrets or to the user's programs. The value
/// contains a secret, names a file with a secret, or names a program or socket that accepts
/// requests (such as a display, or the agent of ssh).
const SECRETS: &[&str] = &[
    "DATABASEURL",
    "DATABASE_URL",
    "DBURL",
    "DB_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "PGPASSFILE",
    "SSH_AGENT_PID",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// Variables whose names look secret (`PWD` as in "password") but are not. The shell stores folder
/// paths in them.
const HARMLESS: &[&str] = &["PWD", "OLDPWD"];

/// Texts, in lower case, that occur only in values that contain a secret.
const SECRET_MARKS: &[&str] = &[
    "private key-----",
    "auth\":",
    "credential\":",
    "key\":",
    "pass\":",
    "passphrase\":",
    "passwd\":",
    "password\":",
    "pwd\":",
    "secret\":",
    "token\":",
    "bearer ",
    "accountkey=",
    "accesskey=",
    "api_key=",
    "apikey=",
    "access_key=",
    "passwd=",
    "password=",
    "pwd=",
    "secret=",
    "token=",
    "hooks.slack.com/services/",
    "discord.com/api/webhooks/",
    ".webhook.office.com/",
];

/// Beginnings of keys and tokens. The issuers of the keys chose these beginnings to make the keys
/// recognizable.
const SECRET_BEGINNINGS: &[&str] = &[
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "pypi-",
    "rk_live_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "xoxb-",
    "xoxp-",
    "xapp-",
];

/// Minimum length of a key that is recognized by its beginning.
const KEY_CHARACTERS: usize = 20;

/// Returns true if commands in the sandbox profiles *read* and *work* do not get variables of this
/// name. Exported documents mask the values of these names.
pub fn is_secret(name: &str) -> bool {
    let split = split_at_great_letters(name).to_ascii_uppercase();
    let name = name.to_ascii_uppercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    let words_of = |name: &'_ str| -> Vec<String> {
        let words =
            name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    // Check the words of the name with and without the split at case changes. `dbPwd` is two words,
    // but `OAuth` must stay one word.
    let words: Vec<String> = words_of(&split).into_iter().chain(words_of(&name)).collect();
    let tells = |word: &String| {
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        [word.as_str(), stem, stem.strip_suffix('S').unwrap_or(stem)]
            .iter()
            .any(|it| is_secret_word(it))
    };
    SECRETS.contains(&name.as_str())
        || OF_PROVIDERS.contains(&name.as_str())
        || words.iter().any(tells)
        || words.windows(2).any(|pair| SECRET_PAIRS.iter().any(|it| it == pair))
}

fn is_secret_word(word: &str) -> bool {
    let has_end = SECRET_ENDS.iter().any(|end| word.ends_with(end))
        && !HARMLESS_WORDS.iter().any(|it| word.ends_with(it));
    SECRET_WORDS.contains(&word)
        || has_end
        || SECRET_BEGINNINGS_OF_WORDS.iter().any(|beginning| word.starts_with(beginning))
}

/// Inserts an underscore before each capital letter that follows a small letter: `privateKey`
/// becomes `private_Key`.
fn split_at_great_letters(name: &str) -> String {
    let mut split = String::with_capacity(name.len());
    let mut is_after_small = false;
    for c in name.chars() {
        if is_after_small && c.is_ascii_uppercase() {
            split.push('_');
        }
        is_after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        split.push(c);
    }
    split
}

/// Returns true if a value contains a secret, whatever its variable's name is.
pub(super) fn holds_secret(value: &str) -> bool {
    let small: String = value.to_ascii_lowercase();
    // JSON may have blanks before a colon and escaped quotes. Therefore also search the text
    // without blanks and backslashes.
    let dense: String = small.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
    let is_key = || {
        let is_whole = value.len() >= KEY_CHARACTERS
            && !value.contains(|c: char| c.is_whitespace() || c == '/');
        is_whole && SECRET_BEGINNINGS.iter().any(|beginning| value.starts_with(beginning))
    };
    names_user(value)
        || SECRET_MARKS.iter().any(|mark| small.contains(mark) || dense.contains(mark))
        || is_key()
}

/// Returns true if a URL in the value contains a password (`scheme://user:password@host`, also
/// without the scheme) or a possible token (`https://token@host`).
fn names_user(value: &str) -> bool {
    let addresses = value.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    addresses.into_iter().any(|address| {
        let Some((before, rest)) = address.split_once("://") else {
            let parts = address
                .split_once(':')
                .and_then(|(user, rest)| Some((user, rest.rsplit_once('@')?.0)));
            return parts.is_some_and(|(user, password)| {
                !user.is_empty()
                    && !password.is_empty()
                    && !user.contains('/')
                    && !password.contains('/')
            });
        };
        let is_web = before.ends_with("http") || before.ends_with("https");
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A password may contain an unescaped slash, so search for the `@` in the whole text after
        // `://`.
        let has_password = rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
        // In `https://a://b` a second URL follows the first one, so also check the text after
        // `://`.
        has_password || is_web && authority.contains('@') || names_user(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_of_a_secret_by_its_words() {
        for name in [
            "DBPASS",
            "DB_PASS",
            "DB_PW",
            "DB_PWD",
            "MYSQL_PWD",
            "PGPASSWORD",
            "PGPASSFILE",
            "SSHPASS",
            "REDIS_PASSWORD",
            "GH_PAT",
            "AZURE_DEVOPS_EXT_PAT",
            "JWT",
            "JWT_2",
            "BEARER",
            "COOKIE",
            "SESSION_COOKIES",
            "MNEMONIC",
            "PRIVATE",
            "KEY",
            "API_KEYS",
            "KEY2",
            "AWS_ACCESS_KEY_ID",
            "PIN",
            "SALT",
            "PASSWORD_SALT",
            "SIGNING",
            "CODE_SIGNING_ID",
            "STRIPE_SK",
            "CONNECTION_STRING",
            "DB_CONNECTION_STRING",
            "ConnectionString",
            "ConnectionStrings__Default",
            "SENTRY_DSN",
            "SLACK_WEBHOOK",
            "SLACK_WEBHOOK_URL",
            "GITHUBTOKEN",
            "TOKEN1",
            "token",
            "npm_config__auth",
            "npm_config_//r.example/:_authToken",
            "MY_SECRETS",
            "CLIENT_SECRET_ID",
            "TOTP",
            "AZURE_STORAGE_SAS",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "GIT_ASKPASS",
            "NETRC",
            "OAUTH2_CODE",
            "LUKS_PASSPHRASE",
            "DISPLAY",
            "TMUX",
            "ANTHROPIC_API_KEY",
            "SEED_PHRASE",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn words_are_known_between_small_and_great_letters_and_at_the_ends_of_longer_ones() {
        for name in [
            "privateKey",
            "PRIVATEKEY",
            "dbPwd",
            "dbPW",
            "PGPASS",
            "SMTPPASS",
            "BINDPASS",
            "LDAP_BINDPW",
            "PSWD",
            "DB_PSWD",
            "DATABASEURL",
            "databaseUrl",
            "awsSecretAccessKey",
            "GitHubToken",
            "accessKeyId",
            "PASSWORDFILE",
            "signingKeyFile",
            "MYSQLPWD",
            "rootPassword2",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_only_has_the_letters_of_such_a_word_stays() {
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "KEYBOARD",
            "KEYMAP",
            "MONKEY",
            "TOKENIZERS_PARALLELISM",
            "COMPASS",
            "PINNED",
            "PATTERN",
            "SALTSTACK",
            "TERM",
            "LANG",
            "LC_ALL",
            "LS_COLORS",
            "CARGO_HOME",
            "RUSTFLAGS",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "PRIVATEER",
            "PASSENGER_APP",
            "SKIP",
            "XDG_SESSION_ID",
            "SSH_CONNECTION",
            "COLORTERM",
            "LD_LIBRARY_PATH",
            "PYTHONHASHSEED",
            "STRING",
            "CONNECTION",
            "NODE_OPTIONS",
            "SOURCE_DATE_EPOCH",
            "BYPASS",
            "PROXY_BYPASS",
            "bypassCache",
            "KeyboardLayout",
            "tokenizerPath",
            "INIT_CWD",
            "npm_config_global_prefix",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_value_tells_of_a_secret_whatever_its_name_is() {
        for value in [
            "http://me:hunter2@proxy.example:3128",
            "https://user:p/w@host/simple",
            "postgres://u:p@db/x",
            "amqp://guest:guest@broker//",
            "redis://:pw@cache:6379/0",
            "jdbc:mysql://u:p@h/db",
            "https://ghp_x@host/simple",
            "me:hunter2@proxy:3128",
            "root:pw@tcp(db:3306)/x",
            "https://plain.example https://u:p@host",
            "index=https://u:p@host/simple",
            "Server=db;User Id=sa;Password=x;",
            "host=db user=me password=x",
            "https://hooks.example/?token=abc",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=x==",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nx",
            "Authorization: Bearer x",
            "ghp_0123456789012345678901234567890123456",
            "https://hooks.slack.com/services/T0/B0/x",
            "{\"host\": \"db\", \"password\": \"x\"}",
            "{\"password\" : \"x\"}",
            "{\\\"dbPassword\\\": \\\"x\\\"}",
            "{\"type\":\"service_account\",\"private_key\":\"x\"}",
            "{\"apiKey\":\"x\"}",
            "{\"accessToken\":\"x\"}",
        ] {
            assert!(holds_secret(value), "{value}");
        }
    }

    #[test]
    fn an_ordinary_value_stays() {
        for value in [
            "/usr/bin:/opt/homebrew/opt/openssl@3/bin",
            "http://proxy.example:3128",
            "https://pypi.example/simple",
            "git@github.com:a/b.git",
            "ssh://git@host/a/b.git",
            "file:///etc/x@y",
            "me@example.invalid",
            "unix:path=/run/user/0/bus",
            "xterm-256color",
            "en_US.UTF-8",
            "sk-short",
            "localhost:8080",
            "{\"level\": \"debug\", \"keys\": [\"a\"]}",
            "",
            "10.0.0.1 22 10.0.0.2 22",
        ] {
            assert!(!holds_secret(value), "{value}");
        }
    }
}
