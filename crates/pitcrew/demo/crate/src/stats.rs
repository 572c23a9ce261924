//! Counting words.

use std::collections::BTreeMap;

use crate::slug::slug;

/// Returns each word and the number of times it occurs. The most frequent word comes first. Words
/// that occur equally often are in alphabetical order.
pub fn frequencies(text: &str) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(slug(word)).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
