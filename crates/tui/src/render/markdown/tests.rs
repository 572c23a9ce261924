//! Tests for markdown.

use super::*;
use crate::render::wrap::width_of;
use crate::theme::ThemeKind;

fn drawn(text: &str, width: u16) -> String {
    let lines = markdown(text, width, &Theme::new(ThemeKind::NoColor));
    let line = |line: &Line<'_>| line.to_string().trim_end().to_owned();
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn blocks_are_drawn_in_their_forms() {
    let text = "# Title\nA paragraph with **bold** and `code` that is longer than the row.\n\n\
        - one\n- two\n  - inner\n\n3. three\n4. four\n\n> a quote\n> of two lines\n\n---\n\n\
        - [x] done\n- [ ] open\n\n[here](https://a.example) and <https://b.example>\n";
    insta::assert_snapshot!(drawn(text, 32), @r"
    Title

    A paragraph with bold and `code`
    that is longer than the row.

    • one
    • two
      • inner

    3. three
    4. four

    ▎ a quote
    ▎ of two lines

    ────────────────────────────────

    • [x] done
    • [ ] open

    here (https://a.example) and
    https://b.example
    ");
}

#[test]
fn an_answer_that_is_still_written_shows_its_open_code_block() {
    insta::assert_snapshot!(drawn("See:\n\n```rust\nfn main() {\n    a();", 30), @r"
    See:

      fn main() {
          a();
    ");
    insta::assert_snapshot!(drawn("```mermaid and more\nx\n```\nafter", 30), @r"
    mermaid and more
      x

    after
    ");
}

#[test]
fn a_table_fits_into_the_width() {
    let text = "| Name | State | Done |\n|:--|:-:|--:|\n| bob | works on the parser | 3 |\n| al | idle | 12 |\n";
    insta::assert_snapshot!(drawn(text, 60), @r"
    Name │        State        │ Done
    ─────┼─────────────────────┼─────
    bob  │ works on the parser │    3
    al   │        idle         │   12
    ");
    insta::assert_snapshot!(drawn(text, 24), @r"
    Name │   State    │ Done
    ─────┼────────────┼─────
    bob  │  works on  │    3
         │ the parser │
    al   │    idle    │   12
    ");
    insta::assert_snapshot!(drawn(text, 12), @r"
    Name: bob
    State: works
    on the
    parser
    Done: 3

    Name: al
    State: idle
    Done: 12
    ");
}

#[test]
fn loose_lists_and_nested_blocks_keep_their_indentation() {
    let text = "1. first\n\n   more of it\n\n   ```sh\n   ls\n   ```\n2. second\n\n> - quoted\n>\n>   again\n";
    insta::assert_snapshot!(drawn(text, 30), @r"
    1. first

       more of it

         ls

    2. second

    ▎ • quoted
    ▎
    ▎   again
    ");
}

#[test]
fn nothing_in_a_text_controls_the_terminal_or_makes_rows_too_wide() {
    let text = "a\u{1b}[2J &#27;[2J `\u{202e}`\n\n```\n\u{1b}]0;x\u{7}\n```\n<b\u{8}>\n\n| \u{1b}x |\n|--|\n";
    let shown = drawn(text, 30);
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    let deep = format!("{}deep text\n\n{}item", "> ".repeat(500), "- ".repeat(300));
    for width in [4, 20, 80] {
        let lines = markdown(&deep, width, &Theme::new(ThemeKind::Dark));
        assert!(lines.iter().all(|line| width_of(&line.spans) <= usize::from(width)), "{width}");
        let shown: String = lines.iter().map(ToString::to_string).collect();
        assert!(shown.replace([' ', '▎'], "").contains("text"), "{width}");
    }
}

#[test]
fn a_text_of_which_a_part_would_not_be_drawn_is_found() {
    let whole = [
        "# Plan\n1. Read `a`\n2. **Write** b\n\n```rust\nfn main() {}\n```\n",
        "| a | b |\n|--|--|\n| 1 | 2 |\n",
        "See [the page](https://a.example \"title\") &amp; <!-- this -->\n<div>x</div>\n",
        "- [x] done\n- open\n\nSetext\n======\n\n    indented code\n",
        "![alt](pic.png) <https://a.example> text\\* more",
        "",
    ];
    for text in whole {
        assert!(!hides_text(text), "{text}");
    }
    let hidden = [
        "A plan\n\n[ok]: https://evil.example 'and run rm'\n",
        "[ok]: a\n[ok]: b\n\nsee [ok]\n",
        "see [the page][run it]\n\n[run it]: https://a.example\n",
        "| a |\n|--|\n| 1 | and delete everything |\n",
    ];
    for text in hidden {
        assert!(hides_text(text), "{text}");
    }
}

#[test]
fn emphasis_is_told_by_the_style_of_the_text() {
    let theme = Theme::new(ThemeKind::Dark);
    let lines = markdown("**b** *i* ~~s~~ plain", 40, &theme);
    let modifier_of = |text: &str| {
        let span = lines[0].spans.iter().find(|span| span.content == text).unwrap();
        span.style.add_modifier
    };
    assert_eq!(modifier_of("b"), Modifier::BOLD);
    assert_eq!(modifier_of("i"), Modifier::ITALIC);
    assert_eq!(modifier_of("s"), Modifier::CROSSED_OUT);
}
