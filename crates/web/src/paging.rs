//! A part of a long list: `?from=N&limit=M`, where `from` is the number of the first entry.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// The number of entries in an answer if the caller gives none, and the maximum.
pub(crate) const LIMIT: usize = 1_000;

/// The maximum number of bytes of the entries in an answer. A caller that reads slowly holds them all.
const BYTES_MOST: usize = 2 * 1024 * 1024;

/// The part of a list that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    from: usize,
    limit: usize,
}

impl Page {
    fn of(query: &str) -> Result<Self, Failure> {
        let mut given = BTreeMap::from([("from", 0), ("limit", LIMIT)]);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(number) = given.get_mut(name) else {
                return Err(Failure::invalid(format!("there is no parameter '{name}'"))
                    .with("valid_parameters", vec!["from", "limit"]));
            };
            *number = value.parse().map_err(|_| {
                Failure::invalid(format!("the parameter '{name}' must be a whole number"))
            })?;
        }
        let number = |name| given.get(name).copied().unwrap_or_default();
        Ok(Self { from: number("from"), limit: number("limit").min(LIMIT) })
    }

    /// Returns this part of a list as an answer, with the number of the next entry. A part of long
    /// entries has fewer of them, and at least one.
    pub(crate) fn of_list<T: Serialize>(self, list: Vec<T>) -> Map<String, Value> {
        let total = list.len();
        let mut bytes = 0;
        let has_room = |entry: &Value| {
            let is_first = bytes == 0;
            bytes += length_of(entry);
            is_first || bytes <= BYTES_MOST
        };
        let part = list.into_iter().skip(self.from).take(self.limit);
        let entries: Vec<Value> = part.map(|entry| json!(entry)).take_while(has_room).collect();
        let next = self.from.saturating_add(entries.len());
        Map::from_iter([
            ("entries".to_owned(), json!(entries)),
            ("next".to_owned(), next.into()),
            ("total".to_owned(), total.into()),
        ])
    }
}

/// Returns about how many bytes a value has as JSON, and never 0.
fn length_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(length_of).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + length_of(value)).sum::<usize>()
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        Self::of(parts.uri.query().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_list_is_asked_for_by_numbers() {
        let page = |query| Page::of(query).ok().map(|Page { from, limit }| (from, limit));
        assert_eq!(page(""), Some((0, LIMIT)));
        assert_eq!(page("from=3&limit=2"), Some((3, 2)));
        assert_eq!(page("limit=999999"), Some((0, LIMIT)));
        for other in ["from", "from=-1", "from=x", "form=1", "limit=99999999999999999999"] {
            assert_eq!(page(other), None, "{other}");
        }
        let two = Page::of("from=3&limit=2").unwrap().of_list(vec!["a", "b", "c", "d", "e", "f"]);
        assert_eq!(json!(two), json!({"entries": ["d", "e"], "next": 5, "total": 6}));
        let long = "x".repeat(BYTES_MOST / 2 - 10);
        let cut = Page::of("from=1").unwrap().of_list(vec![&long; 4]);
        assert_eq!((&cut["next"], cut["entries"].as_array().unwrap().len()), (&json!(3), 2));
        let longest = Page::of("").unwrap().of_list(vec!["x".repeat(BYTES_MOST + 1); 2]);
        assert_eq!(longest["next"], json!(1));
        let none = Page::of("from=9").unwrap().of_list(vec![1]);
        assert_eq!(json!(none), json!({"entries": [], "next": 9, "total": 1}));
    }
}
