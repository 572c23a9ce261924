//! Draws markdown. An answer that is still being written is drawn too: an open code block is code
//! to the end of the text.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::code::{Effort, Highlighter, grammar};
use super::table::{self, Table};
use super::text::clean;
use super::wrap::{Blanks, rows};
use crate::theme::Theme;

/// The indentation of a code block.
const CODE_INDENT: usize = 2;

/// Draws a markdown text.
#[must_use]
pub fn markdown(text: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    write(text, width, theme, IsGrowing::No)
}

/// Whether more text will follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsGrowing {
    Yes,
    No,
}

/// Draws a markdown text. A code block at the end of a growing text is not highlighted, because it
/// is drawn again soon.
pub(super) fn write(
    text: &str,
    width: u16,
    theme: &Theme,
    is_growing: IsGrowing,
) -> Vec<Line<'static>> {
    let mut writer = Writer::new(usize::from(width), theme);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if is_growing == IsGrowing::Yes && range.end == text.len() {
            writer.effort = Effort::none();
        }
        writer.event(event);
    }
    writer.flush();
    writer.lines
}

/// Returns the place of the last block that follows a blank line. More text at the end does not
/// change how the blocks before it are drawn.
pub(super) fn last_block(text: &str) -> usize {
    let (mut last, mut depth) = (0, 0_usize);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if depth == 0 {
            let before = text.get(..range.start).unwrap_or_default();
            // The indentation belongs to the block.
            let start = before.rfind('\n').map_or(0, |end| end + 1);
            let before = before.get(..start).unwrap_or_default();
            if before.lines().next_back().is_some_and(|line| line.trim().is_empty()) {
                last = start;
            }
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    last
}

/// Whether [`markdown`] would leave out letters or digits of the text, such as a definition of a
/// link. A person must not approve such a text in its rendered form.
#[must_use]
pub fn hides_text(text: &str) -> bool {
    let mut shown_to = 0;
    let is_hidden = |from: usize, to: usize| {
        let gap = text.get(from..to).unwrap_or_default();
        gap.contains(char::is_alphanumeric)
    };
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let shown = match &event {
            Event::Text(_) | Event::Code(_) | Event::Html(_) | Event::InlineHtml(_) => range,
            // The number of an item is drawn.
            Event::Start(Tag::Item) => range.start..text_start(text, range.start),
            // The info string of a code block is drawn, if it is more than a known language.
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                range.start..line_end(text, range.start)
            }
            // The target of a link is drawn after its text, but the label of a reference is not.
            Event::End(TagEnd::Link | TagEnd::Image) if has_target(text, &range) => {
                shown_to.max(range.start)..range.end
            }
            Event::TaskListMarker(_) => range,
            _ => continue,
        };
        if is_hidden(shown_to, shown.start.max(shown_to)) {
            return true;
        }
        shown_to = shown_to.max(shown.end);
    }
    is_hidden(shown_to, text.len())
}

/// Whether a link has its target in itself, as `[text](target)`.
fn has_target(text: &str, link: &std::ops::Range<usize>) -> bool {
    text.get(link.clone()).is_some_and(|link| link.ends_with(')') || link.ends_with('>'))
}

/// Returns the place after the number or sign of a list item.
fn text_start(text: &str, item: usize) -> usize {
    let rest = text.get(item..).unwrap_or_default();
    let is_marker = |c: char| c.is_ascii_digit() || matches!(c, '.' | ')' | '-' | '*' | '+');
    item + rest.find(|c| !is_marker(c)).unwrap_or(rest.len())
}

fn line_end(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.find('\n').unwrap_or(rest.len())
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// A block that contains other blocks.
enum Container {
    Quote,
    /// `marker` is `None` after its row was drawn.
    Item {
        marker: Option<String>,
        indent: usize,
    },
}

impl Container {
    fn width(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item { indent, .. } => *indent,
        }
    }
}

/// A link whose text is being read.
struct Link {
    target: String,
    /// The number of spans before the text of the link.
    start: usize,
}

struct Writer<'t> {
    theme: &'t Theme,
    width: usize,
    lines: Vec<Line<'static>>,
    /// The text of the block that is being read.
    spans: Vec<Span<'static>>,
    /// The styles of the elements around the present place, the innermost last.
    styles: Vec<Style>,
    containers: Vec<Container>,
    /// For each list around the present place, the number of its next item.
    lists: Vec<Option<u64>>,
    links: Vec<Link>,
    /// The info string and the text of the code block that is being read.
    code: Option<(String, String)>,
    table: Option<Table>,
    effort: Effort,
    wants_gap: bool,
    /// The blank row before the next row. A block without rows does not draw it.
    gap: Option<Line<'static>>,
}

impl<'t> Writer<'t> {
    fn new(width: usize, theme: &'t Theme) -> Self {
        Self {
            theme,
            width,
            lines: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            effort: Effort::default(),
            wants_gap: false,
            gap: None,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&text, self.style()),
            },
            Event::Code(text) => {
                let style = self.style().patch(self.theme.code);
                self.push(&format!("`{text}`"), style);
            }
            Event::Html(html) => {
                for line in html.lines() {
                    self.push(line, self.theme.dim);
                    self.flush();
                }
            }
            Event::InlineHtml(text) => self.push(&text, self.theme.dim),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push(&text, self.style());
            }
            // A line break of the author stays, because texts of agents are often no prose.
            Event::SoftBreak | Event::HardBreak => self.flush(),
            Event::Rule => {
                self.begin_block();
                self.spans.push(Span::styled("─".repeat(self.room()), self.theme.dim));
                self.end_block();
            }
            Event::TaskListMarker(is_done) => {
                self.push(if is_done { "[x] " } else { "[ ] " }, self.theme.accent);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.begin_block();
                let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
                let is_title = matches!(level, HeadingLevel::H1 | HeadingLevel::H2);
                let heading = self.theme.heading;
                self.styles.push(if is_title { heading.patch(underlined) } else { heading });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::Emphasis => self.add_modifier(Modifier::ITALIC),
            Tag::Strong => self.add_modifier(Modifier::BOLD),
            Tag::Strikethrough => self.add_modifier(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, title, .. } => {
                self.start_link(&dest_url, &title);
                let style = self.style().patch(self.theme.accent);
                self.styles.push(style.add_modifier(Modifier::UNDERLINED));
            }
            Tag::Image { dest_url, title, .. } => {
                self.start_link(&dest_url, &title);
                self.push("[image] ", self.theme.dim);
                self.styles.push(self.style());
            }
            Tag::TableHead | Tag::TableRow | Tag::TableCell => {}
            // The other blocks have no form of their own.
            _ => self.begin_block(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.end_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.wants_gap |= self.lists.is_empty();
            }
            TagEnd::Item => self.end_item(),
            TagEnd::Table => {
                for row in
                    self.table.take().map(|table| self.table_rows(&table)).unwrap_or_default()
                {
                    self.row(row);
                }
                self.end_block();
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.push_cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            _ => self.end_block(),
        }
    }

    fn start_item(&mut self) {
        self.flush();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            Some(None) | None => "• ".to_owned(),
        };
        let indent = marker.chars().count();
        self.containers.push(Container::Item { marker: Some(marker), indent });
    }

    fn end_item(&mut self) {
        self.flush();
        if matches!(self.containers.last(), Some(Container::Item { marker: Some(_), .. })) {
            self.row(Vec::new());
        }
        self.containers.pop();
    }

    fn start_link(&mut self, target: &CowStr<'_>, title: &CowStr<'_>) {
        let title = if title.is_empty() { String::new() } else { format!(" \"{title}\"") };
        self.links.push(Link { target: format!("{target}{title}"), start: self.spans.len() });
    }

    /// Draws the target of a link, unless the text of the link is its target.
    fn end_link(&mut self) {
        let Some(Link { target, start }) = self.links.pop() else { return };
        let text: String =
            self.spans.iter().skip(start).map(|span| span.content.as_ref()).collect();
        let is_shown = text == target || format!("mailto:{text}") == target;
        if !is_shown && !target.is_empty() {
            self.push(&format!(" ({target})"), self.theme.dim);
        }
    }

    fn end_code(&mut self) {
        let Some((info, code)) = self.code.take() else { return };
        let language = grammar(&info);
        // A single known word is only the language. Anything else could be a part of the text.
        if language.is_none() && !info.trim().is_empty() {
            self.push(&info, self.theme.dim);
            self.flush();
        }
        let first_word = info.split([' ', ',', '{']).next().unwrap_or_default();
        let language = language.or_else(|| grammar(first_word));
        let width = self.room().saturating_sub(CODE_INDENT);
        let mut effort = std::mem::take(&mut self.effort);
        let mut highlighter = Highlighter::new(language, self.theme, &mut effort);
        for line in code.lines() {
            let spans = highlighter.line(line);
            for row in rows(&spans, width, Blanks::Kept) {
                let indent = Span::raw(" ".repeat(CODE_INDENT));
                self.row(std::iter::once(indent).chain(row).collect());
            }
        }
        self.effort = effort;
        self.end_block();
    }

    fn table_rows(&self, table: &Table) -> Vec<Vec<Span<'static>>> {
        table::rows_of(table, self.room(), self.theme)
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.text)
    }

    fn add_modifier(&mut self, modifier: Modifier) {
        self.styles.push(self.style().add_modifier(modifier));
    }

    fn push(&mut self, text: &str, style: Style) {
        self.spans.push(Span::styled(clean(text).into_owned(), style));
    }

    /// Begins a block. A blank row separates its rows from the block before it.
    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.wants_gap) && self.gap.is_none() {
            self.gap = Some(Line::from(self.quotes()));
        }
    }

    fn end_block(&mut self) {
        self.flush();
        self.wants_gap = true;
    }

    /// Draws the text that was read so far.
    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.is_empty() {
            return;
        }
        for row in rows(&spans, self.room(), Blanks::Dropped) {
            self.row(row);
        }
    }

    /// Draws one row, after the signs of the containers around it.
    fn row(&mut self, row: Vec<Span<'static>>) {
        self.lines.extend(self.gap.take());
        let mut spans = self.prefix();
        spans.extend(row);
        self.lines.push(Line::from(spans));
    }

    /// Returns the width that the containers leave.
    fn room(&self) -> usize {
        let used: usize = self.shown_containers().map(Container::width).sum();
        self.width.saturating_sub(used)
    }

    /// Returns the containers that fit into half of the width, from the outermost on. Deeper ones
    /// are not drawn.
    fn shown_containers(&self) -> impl Iterator<Item = &Container> {
        let most = self.width / 2;
        self.containers.iter().scan(0, move |used, container| {
            *used += container.width();
            (*used <= most).then_some(container)
        })
    }

    fn prefix(&mut self) -> Vec<Span<'static>> {
        let (theme, shown) = (self.theme, self.shown_containers().count());
        let mut spans = Vec::new();
        for (at, container) in self.containers.iter_mut().enumerate() {
            let span = match container {
                Container::Quote => Span::styled("▎ ", theme.dim),
                Container::Item { marker, indent } => match marker.take() {
                    Some(marker) => Span::styled(marker, theme.accent),
                    None => Span::raw(" ".repeat(*indent)),
                },
            };
            spans.extend((at < shown).then_some(span));
        }
        spans
    }

    /// Returns the signs of the quotes around a blank row.
    fn quotes(&self) -> Vec<Span<'static>> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for container in self.shown_containers() {
            match container {
                Container::Quote => spans.push(Span::styled("▎ ", self.theme.dim)),
                Container::Item { indent, .. } => spans.push(Span::raw(" ".repeat(*indent))),
            }
        }
        let last = spans.iter().rposition(|span| !span.content.trim().is_empty());
        spans.truncate(last.map_or(0, |last| last + 1));
        spans
    }
}

#[cfg(test)]
mod tests;
