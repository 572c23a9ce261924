//! Lays out the call of a permission request as rows: its folder, its reason, and the whole call.

use std::ops::Range;

use pitcrew_runtime::question::{Kind, Line as AskedLine, Offer, PermissionQuestion};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::render::{Blanks, clean, hides_text, markdown, rows};
use crate::theme::Theme;

/// The width of the margin before each row of a call.
const MARGIN: usize = 2;

/// The first place of a heading that is among the rows of a call. The places of the call are the
/// same with and without such a heading.
const HEADING_START: usize = usize::MAX / 2;

/// The part of a permission request to which a row belongs. The range names the place in that part.
/// It is independent of the width, except for a plan that is drawn as markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Call(Range<usize>),
    Rules(Range<usize>),
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: Line<'static>,
    pub(super) part: Part,
}

/// All rows of a call.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) rows: Vec<Row>,
    pub(super) width: usize,
    is_markdown: bool,
}

impl Body {
    /// Lays out the call of a request. `heading` is a text that did not fit above the call.
    pub(super) fn of(
        question: &PermissionQuestion,
        heading: Option<&str>,
        width: usize,
        theme: &Theme,
    ) -> Self {
        let plan = question.is_plan().then(|| plan_of(question));
        let is_markdown = plan.as_ref().is_some_and(|plan| !hides_text(plan));
        let mut body = Self { rows: Vec::new(), width, is_markdown };
        if let Some(heading) = heading {
            let line = AskedLine { kind: Kind::Note, text: heading.to_owned() };
            body.line(&line, HEADING_START, Part::Call, theme);
        }
        let lines: Vec<AskedLine> =
            question.notes().into_iter().chain(question.lines.clone()).collect();
        match plan.filter(|_| is_markdown) {
            Some(plan) => body.plan(&lines, &plan, theme),
            None => body.lines(&lines, theme),
        }
        body
    }

    /// Whether the places of the rows depend on the width.
    pub(super) fn depends_on_width(&self) -> bool {
        self.is_markdown
    }

    /// Adds the rules that the request offers, for a screen with too little room for them beside
    /// the keys.
    pub(super) fn add_rules(&mut self, texts: &[String], theme: &Theme) {
        let mut start = 0;
        for text in texts {
            let line = AskedLine { kind: Kind::Note, text: clean(text).into_owned() };
            start = self.line(&line, start, Part::Rules, theme);
        }
    }

    fn lines(&mut self, lines: &[AskedLine], theme: &Theme) {
        let mut start = 0;
        for line in lines {
            start = self.line(line, start, Part::Call, theme);
        }
    }

    /// Adds a line, and returns the place after it.
    fn line(
        &mut self,
        line: &AskedLine,
        start: usize,
        part: fn(Range<usize>) -> Part,
        theme: &Theme,
    ) -> usize {
        let (sign, sign_style, style) = match line.kind {
            Kind::Text => (" ", theme.text, theme.text),
            Kind::Added => ("+", theme.added, theme.added_line),
            Kind::Removed => ("-", theme.removed, theme.removed_line),
            Kind::Note => (" ", theme.dim, theme.dim),
            Kind::Mark => (" ", theme.warning, theme.warning),
        };
        // A note has no margin mark. Text of a call always has one, so it cannot look like a note.
        let (first, next) = if line.kind == Kind::Note { (" ", " ") } else { ("│", "┊") };
        let (mut from, mut margin_sign) = (start, first);
        let text = [Span::styled(clean(&line.text), style)];
        for row in rows(&text, self.width.saturating_sub(MARGIN), Blanks::Kept) {
            let to = from + row.iter().map(|span| span.content.chars().count()).sum::<usize>();
            let sign_style = sign_style.patch(background(style));
            let margin = [Span::styled(margin_sign, theme.dim), Span::styled(sign, sign_style)];
            let line = Line::from_iter(margin.into_iter().chain(row));
            self.rows.push(Row { line, part: part(from..to) });
            from = to;
            margin_sign = next;
        }
        // The line break has a place too, so that an empty line is seen or not seen.
        if let Some(Row { part: Part::Call(range) | Part::Rules(range), .. }) = self.rows.last_mut()
        {
            range.end += 1;
        }
        from + 1
    }

    /// Adds a plan as markdown, with the notes around it.
    fn plan(&mut self, lines: &[AskedLine], plan: &str, theme: &Theme) {
        let is_text = |line: &AskedLine| line.kind == Kind::Text;
        let before = self.rows.len();
        let first = lines.iter().position(is_text).unwrap_or(lines.len());
        let (notes, rest) = lines.split_at(first);
        self.lines(notes, theme);
        let width = u16::try_from(self.width.saturating_sub(MARGIN)).unwrap_or(u16::MAX);
        for line in markdown(plan, width, theme) {
            let margin = std::iter::once(Span::styled("│ ", theme.dim));
            let line = Line::from_iter(margin.chain(line.spans));
            self.rows.push(Row { line, part: Part::Call(0..0) });
        }
        for line in rest.iter().filter(|line| !is_text(line)) {
            self.line(line, 0, Part::Call, theme);
        }
        for (at, row) in self.rows.iter_mut().skip(before).enumerate() {
            row.part = Part::Call(at..at + 1);
        }
    }
}

fn background(style: Style) -> Style {
    Style { bg: style.bg, ..Style::new() }
}

/// Returns the text of a plan. Its lines have kept only visible characters.
fn plan_of(question: &PermissionQuestion) -> String {
    let lines = question.lines.iter().filter(|line| line.kind == Kind::Text);
    lines.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the permissions for later calls that the request offers, as texts to be read as a whole.
pub(super) fn rules_of(question: &PermissionQuestion) -> Vec<String> {
    let text = |offer: &Offer| match offer {
        Offer::Exactly { .. } => None,
        Offer::Rule(rule) => Some(format!("the rule of the key p: {rule}")),
        Offer::Edits => Some(format!("the key a allows: {}", super::answers::edits(question))),
    };
    question.offers.iter().filter_map(text).collect()
}
