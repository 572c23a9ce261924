//! A replay as one HTML document, which a browser shows without a server and without any other
//! file.
//!
//! The document has the style of the page, the modules of the page that show a replay as one
//! module, and the replay as JSON. Its policy allows this style and this module by their digests,
//! and no request at all. So even a fault of the page could not run a text of an agent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::assets;
use crate::one_module::{ModuleError, put_together};

/// The module that shows a replay.
const ENTRY: &str = "view.js";

/// The licences of the vendored code, which is a part of the document.
const LICENCES: &str = "/*! preact 11.2.0, MIT, Copyright (c) 2015-present Jason Miller; \
    htm 3.1.1, Apache-2.0, Copyright 2018 Google Inc. */\n";

/// Returns a document that shows a replay. Its secrets must be masked already.
///
/// `replay` is a [`Replay`](pitcrew_view::replay::Replay) as JSON text. It can have the field
/// `masked`, a text that says what was masked.
///
/// # Errors
/// Returns an error if the modules of the page cannot be put together.
pub fn replay_document(title: &str, replay: &str) -> Result<String, ModuleError> {
    let style = assets::text_of("style.css").unwrap_or_default();
    let script = format!("{LICENCES}{}", put_together(ENTRY, assets::text_of)?);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        digest_of(&script),
        digest_of(style)
    );
    let title = escaped(title);
    let replay = inlined(replay);
    Ok(format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<meta name="generator" content="pitcrew {version}">
<title>{title}: replay</title>
<style>{style}</style>
</head>
<body>
<div id="app"><p class="loading">Loading…</p></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="replay">{replay}</script>
<script type="module">{script}</script>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    ))
}

/// Returns JSON as the content of a script element. Nothing in it ends the element or begins a
/// comment, because every `<` is written as an escape.
fn inlined(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Returns a text as a part of HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the digest of the content of an element, in the form of a policy.
fn digest_of(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    use super::*;

    /// Returns the text between two texts.
    fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
        text.split_once(before).unwrap().1.split_once(after).unwrap().0
    }

    #[test]
    fn every_module_of_the_page_can_be_put_together() {
        for name in assets::names().filter(|name| name.ends_with(".js")) {
            let whole = put_together(name, assets::text_of);
            assert!(whole.is_ok(), "{name}: {whole:?}");
        }
    }

    #[test]
    fn the_module_can_be_parsed() {
        let document = replay_document("work", "{}").unwrap();
        let script = between(&document, "<script type=\"module\">", "</script>");
        let mut node = Command::new("node");
        node.args(["--input-type=module", "--check", "-"]);
        let Ok(mut node) = node.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
            eprintln!("skipped: node is not installed");
            return;
        };
        node.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let checked = node.wait_with_output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }

    #[test]
    fn texts_of_a_replay_stay_texts() {
        let hostile = "</script><script>alert(1)</script><!-- <script> \u{2028}\u{2029} & \"";
        let replay = json!({"name": hostile, "events": [{"text": hostile}]});
        let document = replay_document(hostile, &replay.to_string()).unwrap();
        let written = between(&document, "id=\"replay\">", "</script>");
        assert!(!written.contains(['<', '\u{2028}', '\u{2029}']), "{written}");
        assert_eq!(serde_json::from_str::<Value>(written).unwrap(), replay);
        assert_eq!(document.matches("<script").count(), 2);
        assert_eq!(document.matches("</script").count(), 2);
        assert_eq!(document.matches("<!--").count(), 0);
        let title = between(&document, "<title>", "</title>");
        assert!(title.starts_with("&lt;/script&gt;&lt;script&gt;alert(1)"), "{title}");
    }

    #[test]
    fn the_policy_allows_the_style_and_the_module_and_nothing_else() {
        let document = replay_document("work", r#"{"name": "work"}"#).unwrap();
        let policy = between(&document, "Content-Security-Policy\" content=\"", "\"");
        let script = between(&document, "<script type=\"module\">", "</script>");
        let style = between(&document, "<style>", "</style>");
        let wanted = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; \
             form-action 'none'",
            digest_of(script),
            digest_of(style)
        );
        assert_eq!(policy, wanted);
        // A browser reads other line ends as `\n`, and the digests would be others.
        assert!(!document.contains('\r'));
        assert_eq!(style, assets::text_of("style.css").unwrap());
        for address in ["src=", "href=\"http", "url(", "@import"] {
            assert!(!style.contains(address), "{address}");
        }
        assert_eq!(digest_of(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn the_licences_are_those_of_the_vendored_code() {
        let readme = include_str!("../page/vendor/README.md");
        for words in ["11.2.0", "3.1.1", "(c) 2015-present Jason Miller", "2018 Google Inc."] {
            assert!(readme.contains(words) && LICENCES.contains(words), "{words}");
        }
    }
}
