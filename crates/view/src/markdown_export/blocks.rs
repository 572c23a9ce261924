//! The blocks of a markdown document, around texts that may contain anything.

use super::harmless::harmless;
use crate::text::{in_one_line, printable};

/// The characters that begin a construct of markdown within a line.
const SPECIAL: &[char] = &['\\', '`', '*', '_', '[', ']', '<', '>', '|', '#', '~', '!', '&'];

/// Returns a text as a part of a line. Nothing in it is a construct of markdown.
pub(super) fn cell(text: &str) -> String {
    let mut escaped = String::new();
    let line = in_one_line(text);
    for c in line.chars() {
        if SPECIAL.contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns a text as a line of a list.
pub(super) fn bullet(text: &str) -> String {
    format!("- {text}")
}

/// Returns a text as a quote. It is still markdown, but it has no HTML and no images, and nothing in
/// it reaches beyond the quote.
pub(super) fn quoted(text: &str) -> String {
    let text = harmless(&with_line_feeds(text));
    let mut lines = String::new();
    for line in text.lines() {
        lines.push_str(format!("> {line}").trim_end());
        lines.push('\n');
    }
    lines
}

/// Returns a text as code within a line.
pub(super) fn code_span(text: &str) -> String {
    let line = in_one_line(text);
    let fence = "`".repeat(longest_run(&line) + 1);
    // A backtick at an end would join the fence.
    let blank =
        if line.starts_with('`') || line.ends_with('`') || line.is_empty() { " " } else { "" };
    format!("{fence}{blank}{line}{blank}{fence}")
}

/// Returns a text as a block of code, indented as a part of a list.
pub(super) fn code_block(text: &str) -> String {
    let text = with_line_feeds(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let mut block = format!("  {fence}text\n");
    for line in text.lines() {
        block.push_str(format!("  {line}").trim_end());
        block.push('\n');
    }
    format!("{block}  {fence}\n")
}

/// Returns a printable text whose lines end with line feeds only.
fn with_line_feeds(text: &str) -> String {
    let text = text.trim_end().replace("\r\n", "\n").replace('\r', "\n");
    printable(&text).into_owned()
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_block() {
        assert_eq!(quoted("# a\n\n```\nb"), "> # a\n>\n> ```\n> b\n");
        assert_eq!(quoted("a\u{1b}[2J\r\nb"), "> a\u{fffd}[2J\n> b\n");
        assert_eq!(code_span("a `b` ``c``"), "``` a `b` ``c`` ```");
        assert_eq!(code_block("a\n```\nb"), "  ````text\n  a\n  ```\n  b\n  ````\n");
        assert_eq!(cell("a|b <!-- **c**\n# d"), "a\\|b \\<\\!-- \\*\\*c\\*\\* \\| \\# d");
    }
}
