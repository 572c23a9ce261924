//! Texts with secrets, and texts that only look like them.

use serde_json::json;

use super::*;

mod commands;

fn masked(text: &str) -> String {
    Masker::new().text(text).into_owned()
}

/// Returns a text that looks random.
fn random(count: usize) -> String {
    "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY".chars().cycle().take(count).collect()
}

#[test]
fn the_patterns_of_names_are_valid() {
    assert_eq!(named::find("--token a1b2").len(), 1);
    assert!(is_secret_name("accountKey"));
}

#[test]
fn keys_with_a_known_beginning_are_masked_wherever_they_are() {
    for (beginning, count, kind) in [
        ("sk-ant-api03-", 40, "Anthropic key"),
        ("sk-proj-", 40, "API key"),
        ("sk-", 48, "API key"),
        ("ghp_", 36, "GitHub token"),
        ("github_pat_", 40, "GitHub token"),
        ("glpat-", 20, "GitLab token"),
        ("xoxb-", 30, "Slack token"),
        ("AIza", 35, "Google key"),
        ("npm_", 36, "package registry token"),
        ("hf_", 34, "Hugging Face token"),
        ("sk_live_", 24, "Stripe key"),
    ] {
        let key = format!("{beginning}{}", random(count));
        for (before, after) in [("", ""), ("key=", "\n"), ("\"", "\","), ("(", ").")] {
            let text = format!("{before}{key}{after}");
            let masked = masked(&text);
            assert!(!masked.contains(&key), "{text} -> {masked}");
            assert!(masked.starts_with(&format!("{before}{}", sign(kind))), "{text} -> {masked}");
        }
    }
    assert_eq!(masked("AKIAIOSFODNN7EXAMPLE"), "[masked: AWS key id]");
    assert_eq!(masked("task_test_configuration"), "task_test_configuration");
    assert_eq!(masked("a task-with-a-long-name-of-words"), "a task-with-a-long-name-of-words");
    assert_eq!(masked("it was ghp_aB3dE5fG…"), "it was [masked: cut key]");
}

#[test]
fn a_key_with_escapes_inside_is_masked_whole() {
    let tail = random(40);
    for (begin, end) in [
        ("sk\\u002dant\\u002dapi03-", ""),
        ("sk%2Dant%2Dapi03%2D", ""),
        ("sk%252Dant-api03-", ""),
        ("sk\\x2dant-api03-", ""),
        ("sk&#45;ant-api03-", ""),
        ("sk\u{200b}-ant-api03-", ""),
        ("sk-a\u{ad}nt-api03-aB3dE5fG\\u002d", ""),
        ("\u{1b}[01;31m\u{1b}[Ksk-ant-\u{1b}[m\u{1b}[Kapi03-", ""),
        ("\\u001b[01;31msk-ant-\\u001b[mapi03-", ""),
        ("sk-ant-api03-aB3dE5fG%2D", "%5F%5f"),
        ("sk-\u{1b}]8;;http://x\u{7}ant-\u{1b}]8;;\u{1b}\\api03-", ""),
        ("sk-ant\u{1b}(B-\u{9b}31mapi03-", ""),
        ("sk-\\e[31mant-\\033[0mapi03^[[1m-", ""),
        ("sk&lowbar;live&ZeroWidthSpace;_", ""),
        ("sk\\137live\\u{5f}", ""),
        ("sk\u{3164}-a\u{301}nt-api03-", ""),
    ] {
        for (before, after) in [("a ", " b"), ("\\n", "\\n"), ("x=%22", "%22"), ("é\n", "\né")] {
            let masked = masked(&format!("{before}{begin}{tail}{end}{after}"));
            let kind = if begin.contains("live") { "Stripe key" } else { "Anthropic key" };
            let rest = masked.replacen(&sign(kind), "", 1);
            assert_ne!(rest, masked, "{begin}");
            assert!(masked.starts_with(before) && masked.ends_with(after), "{masked}");
            // At most the colour before the key stays.
            assert!(
                !rest.contains("aB3") && rest.len() <= before.len() + after.len() + 20,
                "{rest}"
            );
        }
    }
    let plain = "100% of it, C:\\new\\tasks & more — “ok” \\u0041";
    assert_eq!(masked(plain), plain);
    assert_eq!(
        masked("Authorization:%20Bearer%20aB3dE5fG7hJ9kL1m&x=1"),
        "Authorization:%20Bearer%20[masked: bearer token]&x=1"
    );
}

#[test]
fn secrets_of_other_files_and_services_are_masked() {
    let secret = random(24);
    let hex = "0123456789abcdef".repeat(2);
    for text in [
        format!("<password>{secret}</password>"),
        format!("<add key=\"Smtp.Password\" value=\"{secret}\"/>"),
        format!("{{\"auths\": {{\"ghcr.io\": {{\"auth\": \"{secret}==\"}}}}}}"),
        format!("os.environ['API_TOKEN'] = '{secret}'"),
        format!("openssl rsa -passin pass:{secret} -in x"),
        format!("\u{1b}[34m\"api_key\"\u{1b}[0m: \u{1b}[32m\"{secret}\"\u{1b}[0m"),
        format!("\"pass\\u0077ord\":\"{secret}\""),
        format!("?user=a&amp;password%3D{secret}"),
        format!("a\\npass\u{200b}word=\"{secret}\"\\nb"),
        format!("dapi{hex}"),
        format!("shpat_{hex}"),
        format!("https://discord.com/api/webhooks/12345/{secret}"),
        format!("12345678:AA{}", random(33)),
    ] {
        let masked = masked(&text);
        assert!(masked.contains("[masked: "), "{text}");
        assert!(!masked.contains(&secret[..12]) && !masked.contains(&hex), "{masked}");
    }
}

#[test]
fn private_keys_are_masked_to_their_end_or_to_the_end_of_the_text() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1\n-----END OPENSSH PRIVATE KEY-----";
    assert_eq!(masked(&format!("a\n{key}\nb")), "a\n[masked: private key]\nb");
    assert_eq!(masked("a -----BEGIN PRIVATE KEY-----\nMIIE"), "a [masked: private key]");
    let public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----";
    assert_eq!(masked(public), public);
}

#[test]
fn tokens_of_requests_and_passwords_in_addresses_are_masked() {
    let token = random(24);
    assert_eq!(
        masked(&format!("Authorization: Bearer {token}")),
        "Authorization: Bearer [masked: bearer token]"
    );
    assert_eq!(
        masked("curl -H 'Authorization: Basic dXNlcjpwYXNzd29yZA=='"),
        "curl -H 'Authorization: Basic [masked: basic credentials]'"
    );
    assert_eq!(
        masked("postgres://app:s3cretpw@db.local/x"),
        "postgres://app:[masked: password in an address]@db.local/x"
    );
}

#[test]
fn a_value_is_masked_if_its_name_says_that_it_is_secret() {
    assert_eq!(masked("DEPLOY_KEY=hunter2hunter2"), "DEPLOY_KEY=[masked: named secret]");
    assert_eq!(masked(r#"{"password": "hunter22"}"#), r#"{"password": "[masked: named secret]"}"#);
    assert_eq!(
        masked(r#"\"api_key\": \"hunter22\""#),
        r#"\"api_key\": \"[masked: named secret]\""#
    );
    assert_eq!(
        masked("[db]\npassword = hunter22\nhost = x"),
        "[db]\npassword = [masked: secret setting]\nhost = x"
    );
    let value = json!({"headers": {"Authorization": "hunter22"}, "password": "p4ss", "n": 1});
    let mut masker = Masker::new();
    assert_eq!(
        masker.value(&value),
        json!({"headers": {"Authorization": "[masked: named secret]"},
            "password": "[masked: named secret]", "n": 1})
    );
    assert_eq!(masker.masked(), [Masked { kind: "named secret".into(), count: 2 }]);
}

#[test]
fn a_value_with_a_secret_name_is_masked_whole() {
    // Nothing of `@` may stay, wherever the value is.
    for (text, value) in [
        (r#"{"password": "@"}"#, "correct horse battery"),
        (r#"{"password": "@", "n": 1}"#, r#"cor\"rect horse"#),
        (r#""{\"password\": \"@\"}""#, "correct horse battery"),
        (r#""password": "@"#, "correct horse"),
        (r#"{"db_password":"@"}"#, "12345678"),
        (r#"{"content": "done. password=@"}"#, "hunter2secret"),
        (r#"{"content": "done. password=@", "n": 1}"#, "hunter2secret"),
        (r#"{"content": "done.\npassword=@\nnext"}"#, "hunter2secret"),
        (r#""{\"content\": \"done. password=@\"}""#, "hunter2secret"),
        ("DB_PASS=@", "hunter"),
        ("PGPASSWORD=@ psql", "p(w,d}x"),
        ("export MY_SECRET='@'", "multi word"),
        ("export MY_SECRET=\"@\" && run", "multi word, $1"),
        ("https://a.b/c?access_token=@&d=e", "abcdef"),
        ("//registry.npmjs.org/:_authToken=@", "ab12cd34ef"),
        ("AccountName=x;AccountKey=@;EndpointSuffix=y", "aB3/dE5+fG7=="),
        ("run --token @", "abc"),
        ("run --password=@ more", "hunter"),
        ("run --api-key '@'", "two words"),
        ("VAULT hint: @", "hvs.CAESIJxyz12345678"),
        ("curl -H 'X-Api-Key: @' https://a.b", "abc123def"),
        ("curl -H \"Cookie: @\" https://a.b", "sid=ab12; other=cd34"),
        ("Cookie: @", "sid=ab12; other=cd34"),
        ("Authorization: token @", "0123abcd"),
        ("'Authorization': 'token @'", "0123abcd"),
        ("curl -s -u user:@ https://a.b", "hunter2"),
        ("curl --user 'user:@' https://a.b", "pw!word"),
        ("git clone https://@@a.b/c.git", "aB3dE5fG7hJ9"),
        ("postgres://app:@@db/x", "p@ssw0rd"),
        ("config.yml: password: @", "hunter22"),
        ("src/a.yml:12:  password: @", "hunter22"),
        ("+  password: @", "hunter22"),
        ("-  db.password = @  # old", "hunter22"),
        ("password: '@'", "$tr0ng! one"),
        ("password: @", "correct horse battery 9"),
        ("secret_key_base: '@'", "it\\'s long"),
    ] {
        let text = match text.matches('@').count() {
            1 => text.replace('@', value),
            _ => text.replacen('@', value, 1),
        };
        let masked = masked(&text);
        assert!(masked.contains("[masked: "), "{text} -> {masked}");
        for word in value.split([' ', ';', ',', '"', '\\']).filter(|word| word.len() > 1) {
            assert!(!masked.contains(word), "{text} -> {masked}");
        }
    }
}

#[test]
fn a_long_line_with_many_names_is_read_in_time() {
    let begin = std::time::Instant::now();
    let words =
        ["Cookie: a ", "password: a ", "curl -u a ", "password=\"a ", "mysql ", "sshpass -p a "];
    let keys = ["aB3/dE5fG7hJ", "AKIAIOSFODNN7EXAMPLE ", "machine a login b "];
    for word in words.into_iter().chain(keys) {
        let text = word.repeat(5_000);
        assert!(!masked(&text).is_empty());
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn code_and_placeholders_stay() {
    for text in [
        "let token = parser.next_token();",
        "interface A {\n  access_token: string\n}",
        "MAX_TOKENS=100000000",
        "API_KEY=$OPENAI_API_KEY",
        "password = \"********\"",
        "the token of the parser is a word",
        "https://example.org:8080/a@b",
        "task-list and risk-averse-people-like-this-one",
        "export KEY=<your key>",
        "run --token $TOKEN --password <password>",
        "input_tokens: 125,000/200,000",
        "MAX_TOKENS=12k",
        "PWD=/home/ann",
        "fn login(password: &str, token: Option<String>) {",
        "let token = self.next_token;",
        "\"key\": \"value\", sort_key = \"created\"",
        "password: required",
        "display: inline-block; AUTH: uses OAuth2, pass: 120 of 120",
        "docker run -u 1000:1000 x",
        "https://github.com/a/b and git@github.com:a/b",
        "author: ann, secretary: bob, compass: north1",
        "basic understanding-of-tokens and a bearer authentication-layer",
    ] {
        assert_eq!(masked(text), text);
    }
}
