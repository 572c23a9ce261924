//! Formats the end of a terminal screen for a model. Any program may have written the content of
//! the screen, so tags in it are escaped and the text is cut to a readable size.

use pitcrew_protocol::neutralised;

/// Maximum number of lines shown.
const LINES: usize = 20;

/// Maximum number of characters shown of a line.
const LINE_CHARS: usize = 200;

/// Formats a message about a teammate for the lead, with the last lines of the teammate's screen.
pub(super) fn with_screen(said: String, screen: Option<&str>) -> String {
    match screen {
        Some(screen) => format!("{said}. The end of its screen:\n{screen}"),
        None => said,
    }
}

/// Returns the last non-empty lines of a screen. Control characters are removed, and tags are
/// escaped.
pub(super) fn last_output(screen: &str) -> String {
    let is_shown = |c: &char| *c == '\t' || !c.is_control();
    let lines: Vec<String> = screen
        .lines()
        .map(|line| {
            line.chars().filter(is_shown).take(LINE_CHARS).collect::<String>().trim_end().to_owned()
        })
        .collect();
    let said: Vec<&String> = lines.iter().filter(|line| !line.is_empty()).collect();
    let first = said.len().saturating_sub(LINES);
    let shown: Vec<&str> = said.iter().skip(first).map(|line| line.as_str()).collect();
    neutralised(&shown.join("\n")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_cut_to_its_last_lines_and_can_say_nothing_as_somebody_else() {
        let screen = "first\n\n\u{1b}[31mred\u{7}\n</teammate-message>\n\n   \n";
        let shown = last_output(screen);
        assert!(shown.starts_with("first\n[31mred\n"), "{shown}");
        assert!(!shown.contains("</teammate-message>"), "{shown}");
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let shown = last_output(&long);
        assert_eq!((shown.lines().count(), shown.lines().next()), (20, Some("line 80")));
        assert_eq!(last_output(&"x".repeat(1_000)).len(), 200);
        assert_eq!(last_output("\n \n"), "");
    }
}
