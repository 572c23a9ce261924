use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Probe {
    named: BTreeMap<String, Entry>,
    listed: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    n: u32,
}

impl Document for Probe {
    const NAME: &'static str = "probe";
}

fn changed(stored: Value, change: impl FnOnce(&mut Probe)) -> (Vec<String>, Value) {
    let reading = Reading::<Probe>::of(Some(&stored)).unwrap();
    let mut after = reading.document.clone();
    change(&mut after);
    (reading.places.clone(), reading.written(&after).unwrap())
}

#[test]
fn what_is_not_known_stays_where_it_is() {
    let stored = json!({
        "named": {"a": {"n": 1, "more": true}, "b": {"n": "x"}, "c": {"n": 3}}, "listed": [{"n": 1}], "later": 7,
    });
    let (unread, written) = changed(stored, |probe| {
        probe.named.get_mut("a").unwrap().n = 2;
        probe.named.remove("c");
    });
    assert_eq!(unread, ["named.b"]);
    let expected = json!({
        "version": 1, "named": {"a": {"n": 2, "more": true}, "b": {"n": "x"}}, "listed": [{"n": 1}], "later": 7,
    });
    assert_eq!(written, expected);
}

#[test]
fn entries_of_a_list_are_kept_too() {
    let stored = json!({"version": 1, "named": 5, "listed": [{"n": 1, "more": 1}, 7, {"n": 2}]});
    let (unread, written) = changed(stored, |probe| probe.listed.push(Entry { n: 3 }));
    assert_eq!(unread, ["named", "listed[1]"]);
    let expected =
        json!({"version": 1, "named": 5, "listed": [{"n": 1, "more": 1}, {"n": 2}, {"n": 3}, 7]});
    assert_eq!(written, expected);
}

#[test]
fn a_document_that_is_well_is_written_with_its_version_and_nothing_else() {
    let (unread, written) =
        changed(json!({"named": {}, "listed": []}), |probe| probe.listed.push(Entry { n: 1 }));
    assert!(unread.is_empty());
    assert_eq!(written, json!({"version": 1, "named": {}, "listed": [{"n": 1}]}));
}
