//! Counting words.

use std::collections::BTreeMap;

use crate::slug::slug;

/// How often each word occurs, the most frequent first, equal ones by the alphabet.
pub fn frequencies(text: &str) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(slug(word)).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
