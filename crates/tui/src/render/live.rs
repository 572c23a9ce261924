//! Draws markdown that is still being written. Only its last block is drawn again for each new
//! piece of text.

use ratatui::text::Line;

use super::markdown::{IsGrowing, last_block, write};
use crate::theme::Theme;

/// The lines of a markdown text that grows at its end.
#[derive(Debug, Default)]
pub struct LiveMarkdown {
    lines: Vec<Line<'static>>,
    /// The number of bytes of the text whose lines are final.
    done_bytes: usize,
    /// The number of lines that are final.
    done_lines: usize,
    drawn_for: Option<(u16, Theme)>,
}

impl LiveMarkdown {
    /// Draws the text. It begins with the text of the call before. For another text, a new value is
    /// needed.
    pub fn update(&mut self, text: &str, width: u16, theme: &Theme) {
        let is_same = self
            .drawn_for
            .as_ref()
            .is_some_and(|(of_width, of_theme)| (*of_width, of_theme) == (width, theme));
        if !is_same || text.get(self.done_bytes..).is_none() {
            *self = Self { drawn_for: Some((width, theme.clone())), ..Self::default() };
        }
        self.lines.truncate(self.done_lines);
        let rest = text.get(self.done_bytes..).unwrap_or_default();
        let (done, last) = rest.split_at(last_block(rest));
        if !done.trim().is_empty() {
            self.push(write(done, width, theme, IsGrowing::No));
            self.done_lines = self.lines.len();
            self.done_bytes += done.len();
        }
        self.push(write(last, width, theme, IsGrowing::Yes));
    }

    /// Returns the lines of the text.
    #[must_use]
    pub fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    /// Adds the lines of blocks, after a blank line.
    fn push(&mut self, lines: Vec<Line<'static>>) {
        if !self.lines.is_empty() && !lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.lines.extend(lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown;
    use crate::theme::ThemeKind;

    const TEXT: &str = "# Title\nSome *text* of\ntwo lines.\n\n- one\n- two\n\n  more of two\n\n\
        ```rust\nfn main() {\n\n    a();\n}\n```\n> quoted\n\n    indented\n\n---\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\nThe end.\n";

    fn text_of(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_text_that_grows_looks_like_the_whole_text_at_each_of_its_characters() {
        let theme = Theme::new(ThemeKind::Dark);
        let mut live = LiveMarkdown::default();
        for (end, _) in TEXT.char_indices().chain([(TEXT.len(), ' ')]) {
            let text = &TEXT[..end];
            live.update(text, 40, &theme);
            assert_eq!(text_of(live.lines()), text_of(&markdown(text, 40, &theme)), "{text}");
        }
        assert!(live.done_bytes > TEXT.len() / 2, "{live:?}");
    }

    #[test]
    fn another_width_draws_everything_again() {
        let theme = Theme::new(ThemeKind::Dark);
        let mut live = LiveMarkdown::default();
        for width in [40, 12, 80] {
            live.update(TEXT, width, &theme);
            assert_eq!(text_of(live.lines()), text_of(&markdown(TEXT, width, &theme)));
        }
    }
}
