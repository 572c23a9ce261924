use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pitcrew_team::{DigestKey, SecretDigests};
use serde_json::{Value, json};

use crate::masking::{Masked, Masker, secret_texts};

const TOKEN: &str = "correct+horse/7battery";

/// Returns a masker that knows the values of an environment.
fn masker(variables: &[(&str, &str)]) -> Masker {
    let owned = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let environment: BTreeMap<String, String> = owned.collect();
    let mut digests = SecretDigests::default();
    digests.add(&secret_texts(&environment), &DigestKey::new([0x5a; 32]));
    Masker::knowing(digests)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(masker(&[("DEPLOY_TOKEN", TOKEN)]).text(text), expected);
}

#[test]
fn a_value_that_was_broken_into_lines_is_masked_with_what_is_between() {
    let masked = "[masked: value of DEPLOY_TOKEN]";
    check("correct+\n    horse/7battery", masked);
    check(r#"{"a": "correct+horse\n /7battery"}"#, &format!(r#"{{"a": "{masked}"}}"#));
    check("│ correct+horse │\n│ /7battery    │", &format!("│ {masked}    │"));
}

#[test]
fn a_record_with_an_absurd_length_masks_nothing_else() {
    let mut digests = SecretDigests::default();
    let environment = BTreeMap::from([("DEPLOY_TOKEN".into(), TOKEN.into())]);
    digests.add(&secret_texts(&environment), &DigestKey::new([0x5a; 32]));
    digests.digests.iter_mut().for_each(|digest| digest.length = usize::MAX);
    let mut masker = Masker::knowing(digests);
    assert_eq!(masker.text(&format!("it is {TOKEN}")), format!("it is {TOKEN}"));
}

#[test]
fn a_value_is_masked_wherever_it_is() {
    check("correct+horse/7battery", "[masked: value of DEPLOY_TOKEN]");
    check(
        "a correct+horse/7battery, correct+horse/7batterycorrect+horse/7battery.",
        "a [masked: value of DEPLOY_TOKEN], \
         [masked: value of DEPLOY_TOKEN][masked: value of DEPLOY_TOKEN].",
    );
    check("ä🙂correct+horse/7battery🙂", "ä🙂[masked: value of DEPLOY_TOKEN]🙂");
    check("correct+horse/7batter", "correct+horse/7batter");
    check("Correct+horse/7battery", "Correct+horse/7battery");
}

#[test]
fn a_value_is_masked_in_its_encodings() {
    check("?a=correct%2Bhorse%2F7battery&b", "?a=[masked: value of DEPLOY_TOKEN]&b");
    for (before, after) in [("", ""), ("u", "1"), ("us:", "22"), ("user:", "\n")] {
        let encoded = STANDARD.encode(format!("{before}{TOKEN}{after}"));
        check(&format!("x {encoded}\ny"), "x [masked: value of DEPLOY_TOKEN]\ny");
    }
}

/// What other languages write than our own encoders do.
#[test]
fn a_value_is_masked_however_it_is_escaped() {
    for (value, forms) in [
        (
            "wJalr/K7+bP=EY",
            &["wJalr/K7%2BbP%3DEY", "wJalr%252FK7%252BbP%253DEY", "wJalr&#x2F;K7+bP&#61;EY"][..],
        ),
        (
            "Tr0ub4&3<it's>",
            &[
                "Tr0ub4%263%3Cit's%3E",
                "Tr0ub4&amp;3&lt;it's&gt;",
                "Tr0ub4&amp;amp;3&amp;lt;it&amp;#39;s&amp;gt;",
                r"Tr0ub4\u00263\u003cit's\u003e",
                r#"{\"a\":\"Tr0ub4\\u00263\\u003cit's\\u003e\"}"#,
            ],
        ),
        ("Größe-Mühle", &[r"Gr\u00f6\u00dfe-M\u00fchle", r"b'Gr\xc3\xb6\xc3\x9fe-M\xc3\xbchle'"]),
        ("two words+more", &["two+words%2Bmore", "two%20words%2bmore", "two+words+more"]),
    ] {
        let mut masker = masker(&[("A_SECRET", value)]);
        for form in forms {
            let masked = masker.text(form);
            assert!(masked.contains("[masked: value of A_SECRET]"), "{form}: {masked}");
            assert!(!masked.contains(&value[..4]) && !masked.contains(&value[value.len() - 2..]));
        }
    }
}

#[test]
fn a_value_over_several_lines_is_masked() {
    check("a\ncorrect+hor\r\nse/7batt\nery\nb", "a\n[masked: value of DEPLOY_TOKEN]\nb");
    let key = "line one of it\n  line two \"of\" it\nx";
    let mask = |text: &str| masker(&[("A_SECRET", key)]).text(text).into_owned();
    assert_eq!(mask(&format!("<{key}>")), "<[masked: value of A_SECRET]>");
    assert_eq!(mask("  line two \"of\" it"), "  [masked: value of A_SECRET]");
    let inside = json!({ "b": json!({ "a": key }).to_string() }).to_string();
    assert_eq!(mask(&inside), r#"{"b":"{\"a\":\"[masked: value of A_SECRET]\"}"}"#);
}

#[test]
fn values_that_overlap_are_masked_together() {
    let mut masker = masker(&[("A_KEY", "violet-otter"), ("B_KEY", "otter-81-more")]);
    assert_eq!(masker.text("x violet-otter-81-more y"), "x [masked: value of A_KEY] y");
    assert_eq!(masker.text("x otter-81-more y"), "x [masked: value of B_KEY] y");
}

#[test]
fn the_beginning_of_a_value_that_was_cut_is_masked() {
    check("it is correct+horse…", "it is [masked: cut value of DEPLOY_TOKEN]…");
    check("it is correct+h and more…", "it is correct+h and more…");
}

#[test]
fn masked_values_are_counted_by_variable_and_are_in_no_list() {
    let mut masker =
        masker(&[("A_TOKEN", TOKEN), ("PIN", "8361927465"), ("B_KEY", "x7 y8 z9 q0 r1")]);
    let value = json!({"a": [TOKEN, 8_361_927_465_u64], TOKEN: "x7 y8 z9 q0 r1", "n": 12});
    let masked = masker.value(&value);
    assert_eq!(
        masked,
        json!({
            "a": ["[masked: value of A_TOKEN]", "[masked: value of PIN]"],
            "[masked: value of A_TOKEN]": "[masked: value of B_KEY]",
            "n": 12,
        })
    );
    let listed = serde_json::to_value(masker.masked()).unwrap();
    let expected: Value = json!([
        {"kind": "value of A_TOKEN", "count": 2},
        {"kind": "value of B_KEY", "count": 1},
        {"kind": "value of PIN", "count": 1},
    ]);
    assert_eq!(listed, expected);
}

#[test]
fn a_masked_value_is_not_masked_again_by_a_pattern() {
    let mut masker = masker(&[("DEPLOY_TOKEN", TOKEN)]);
    let text = "DEPLOY_TOKEN=correct+horse/7battery\nAuthorization: Bearer correct+horse/7battery";
    assert_eq!(
        masker.text(text),
        "DEPLOY_TOKEN=[masked: value of DEPLOY_TOKEN]\n\
         Authorization: Bearer [masked: value of DEPLOY_TOKEN]"
    );
    let kind = "value of DEPLOY_TOKEN".into();
    assert_eq!(masker.masked(), [Masked { kind, count: 2 }]);
}

#[test]
fn a_name_from_the_record_has_no_effect_in_a_document() {
    let name = "A\u{1b}[2J_TOKEN](x) <b>";
    assert_eq!(masker(&[(name, TOKEN)]).text(TOKEN), "[masked: value of A2J_TOKENxb]");
}

#[test]
fn a_long_text_is_masked_in_time() {
    let begin = Instant::now();
    let text = "correct+horse/ and other words of a long text\n".repeat(40_000);
    check(&text, &text);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
