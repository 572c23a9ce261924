//! Titles in addresses.

/// Turns a title into lower case words joined by single dashes, without punctuation.
pub fn slug(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}
