//! Secrets in command lines, in files of logins and beside key ids, and the fields of JSON objects.

use pitcrew_team::DigestKey;
use serde_json::json;

use super::*;

/// Nothing of the secret `@` may stay.
fn check(kind: &str, text: &str, secret: &str) {
    let text = text.replace('@', secret);
    let masked = masked(&text);
    assert!(!masked.contains(secret), "{text} -> {masked}");
    assert!(masked.contains(&sign(kind)), "{text} -> {masked}");
}

#[test]
fn passwords_of_commands_are_masked() {
    for text in [
        "mysql -uroot -p@ app",
        "mysql -u root -p'@' app < dump.sql",
        "docker exec -it db mysqldump \\\n  -h db -p@ app > dump.sql",
        "cd x && /usr/bin/mysql -p@",
        "sshpass -p @ ssh ann@host",
        "sshpass -p'@' ssh ann@host",
        "docker login -u ann -p @ ghcr.io",
        "mongosh --host db -u ann -p @",
        "redis-cli -h db -a @ ping",
        "ldapsearch -x -D cn=admin -w @",
        "zip -P @ a.zip a",
        "7z x -p@ a.7z",
    ] {
        check("password of a command", &text.replace("ann@host", "ann"), "hunter2");
        check("password of a command", &text.replace("ann@host", "ann"), "8912734");
    }
    for text in ["curl -u ann:@ https://a.b", "curl -uann:@ https://a.b", "curl --user ann:@ x"] {
        check("password of a command", text, "hunter2");
    }
    for text in ["run --password=@", "run --password @ more", "wget --http-password=@ https://a"] {
        check("named secret", text, "hunter2");
    }
}

#[test]
fn passwords_of_logins_are_masked() {
    for text in [
        "machine a.b login ann password @",
        "machine a.b\n  login ann\n  password @\nmachine c.d",
        "default login ann password @",
        "machine a.b password @ login ann",
    ] {
        check("password of a login", text, "correcthorse");
    }
}

#[test]
fn the_secret_of_a_key_id_is_masked_with_and_without_a_name() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLE37";
    let id = "AKIAIOSFODNN7EXAMPLE";
    for text in [
        format!("{id} @"),
        format!("{id},@,active"),
        format!("the pair is {id}:@."),
        format!("@\n{id}"),
        format!("| {id} | 2026-01-01 | @ |"),
    ] {
        check("AWS secret key", &text, secret);
        assert!(!masked(&text).contains(id), "{text}");
    }
    for (kind, text) in [
        ("secret setting", "[default]\naws_secret_access_key = @\nregion = x"),
        ("named secret", "aws_secret_access_key=@"),
        ("named secret", r#"{"aws_secret_access_key": "@"}"#),
        ("named secret", r#"{"SecretAccessKey":"@","SessionToken":""}"#),
        ("named secret", "export AWS_SECRET_ACCESS_KEY=@"),
    ] {
        let text = text.replace('@', secret);
        let masked = masked(&text);
        assert!(!masked.contains(secret) && masked.contains("[masked: "), "{kind}: {masked}");
    }
}

#[test]
fn ordinary_options_and_hashes_stay() {
    for text in [
        "find . -name mysql -print",
        "find mysql -prune -o -print0",
        "mkdir -p dir/mysql && cp -pr a b",
        "docker run -p 8080:80 mysql",
        "docker run -p 127.0.0.1:3306:3306 mysql -h db",
        "docker login ghcr.io && docker run -p 8080:80 x",
        "mysql -p app",
        "mysql -P 3306 --protocol=tcp",
        "mysql -p$MYSQL_PASSWORD app",
        "sshpass -p \"$PASSWORD\" ssh a",
        "ssh -p 2222 a.b",
        "cargo test -p mysql-client",
        "zip -r a.zip a",
        "the machine has a login and a password field",
        "machine learning needs a password policy",
        "commit 8f14e45fceea167a5a36dedd4bea2543f2a1b3c4",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    ] {
        assert_eq!(masked(text), text);
    }
    let hash = "8f14e45fceea167a5a36dedd4bea2543f2a1b3c4";
    let masked = masked(&format!("AKIAIOSFODNN7EXAMPLE was added in {hash}"));
    assert_eq!(masked, format!("[masked: AWS key id] was added in {hash}"));
}

/// A masker that knows this value of a variable.
fn knowing(value: &str) -> Masker {
    let environment = BTreeMap::from([("DEPLOY_KEY".to_owned(), value.to_owned())]);
    let mut digests = SecretDigests::default();
    digests.add(&secret_texts(&environment), &DigestKey::new([0x5a; 32]));
    Masker::knowing(digests)
}

#[test]
fn a_secret_that_is_the_name_of_a_field_leaves_the_form_of_the_document() {
    let mut masker = knowing("happened");
    let event = json!({"seq": 1, "what": {"happened": {"text": "it happened"}},
        "input": {"happened": "x", "n": [{"happened": 1}]}});
    let sign = "[masked: value of DEPLOY_KEY]";
    assert_eq!(
        masker.value(&event),
        json!({"seq": 1, "what": {"happened": {"text": format!("it {sign}")}},
            "input": {sign: "x", "n": [{sign: 1}]}})
    );
    assert_eq!(masker.masked().iter().map(|it| it.count).sum::<usize>(), 3);
}

#[test]
fn no_field_is_lost_when_two_names_are_masked() {
    let (one, two) = (format!("ghp_{}", random(36)), format!("ghp_{}", random(30)));
    let masked = Masker::new().value(&json!({"input": {&one: 1, &two: 2}}));
    let names: Vec<_> = masked["input"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["[masked: GitHub token]", "[masked: GitHub token] (2)"]);
}
