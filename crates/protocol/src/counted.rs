//! Formats counts in texts: `1 file`, `2 files`.

use std::fmt::Display;

/// Puts a count before a noun, and adds an `s` to the noun unless the count is one.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Puts a count before a noun and its verb: `1 file is`, `2 files are`.
#[must_use]
pub fn counted_is<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let verb = if count == N::from(1) { "is" } else { "are" };
    format!("{} {verb}", counted(count, noun))
}

#[cfg(test)]
mod tests {
    use super::{counted, counted_is};

    #[test]
    fn one_of_it_has_no_plural() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| counted(count, "file")),
            ["0 files", "1 file", "2 files"]
        );
        assert_eq!([1_u64, 2].map(|count| counted_is(count, "file")), ["1 file is", "2 files are"]);
    }
}
