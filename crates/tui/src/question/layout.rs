//! Divides the rows of the screen between the heading, the call and the answers.

use std::ops::Range;

use pitcrew_runtime::question::PermissionQuestion;
use pitcrew_view::host::OpenQuestion;
use ratatui::text::{Line, Span};

use super::answers;
use super::body::{self, Body};
use super::seen::Reading;
use crate::render::{clean, wrap};
use crate::theme::Theme;

/// Minimum number of rows for the call. If fewer would be left, the answers are in their short
/// form.
const ROWS_FOR_CALL: usize = 6;

/// Maximum number of rows of the heading.
const ROWS_FOR_HEADING: usize = 2;

/// Returns the remark in a heading that more than one request waits.
pub(super) fn count_of(waiting: usize) -> String {
    if waiting > 1 { format!(" (1 of {waiting})") } else { String::new() }
}

/// A permission request as it is laid out for a size.
#[derive(Debug)]
pub(super) struct Layout {
    heading: Vec<Line<'static>>,
    pub(super) body: Body,
    /// The number of rows for the call.
    pub(super) window: usize,
    answers: Vec<Line<'static>>,
    /// Whether the answers are in their short form.
    is_short: bool,
    size: (u16, u16),
    pub(super) theme: Theme,
}

impl Layout {
    /// Returns the layout of before if it is still right, and a new one otherwise.
    pub(super) fn kept(
        before: Option<Self>,
        question: &OpenQuestion,
        waiting: usize,
        size: (u16, u16),
        theme: &Theme,
    ) -> Self {
        let is_right = |layout: &Self| {
            let most = usize::from(size.1);
            // A request that fits has the same layout in each height in which it fits.
            let fits = layout.fits(usize::from(layout.size.1)) && layout.fits(most);
            let fits = fits && !layout.is_short;
            layout.size.0 == size.0 && (layout.size.1 == size.1 || fits) && layout.theme == *theme
        };
        match before.filter(is_right) {
            Some(mut layout) => {
                layout.resize(size);
                layout
            }
            None => Self::of(&question.question, waiting, size, theme),
        }
    }

    fn of(question: &PermissionQuestion, waiting: usize, size: (u16, u16), theme: &Theme) -> Self {
        let (width, height) = (usize::from(size.0), usize::from(size.1));
        let count = count_of(waiting);
        let text = format!("{}{count}", clean(&question.heading()));
        let mut heading = wrap(&text, size.0, theme.warning);
        // A heading that is too long is a part of the call, so that it is read as a whole.
        let long_heading = (heading.len() > ROWS_FOR_HEADING).then_some(text.as_str());
        if long_heading.is_some() {
            heading = vec![Line::styled(format!("permission?{count}"), theme.warning)];
        }
        let mut body = Body::of(question, long_heading, width, theme);
        let mut answers = answers::whole(question, width, theme);
        let for_call = body.rows.len().min(ROWS_FOR_CALL);
        let is_short = heading.len() + answers.len() + for_call > height;
        if is_short {
            answers = answers::short(question, width, theme);
            body.add_rules(&body::rules_of(question), theme);
        }
        // The call needs at least one row, and the row that tells how much is not shown.
        if heading.len() + answers.len() + 2 > height {
            heading.clear();
        }
        let mut layout =
            Self { heading, body, window: 0, answers, is_short, size, theme: theme.clone() };
        layout.resize(size);
        layout
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        let height = usize::from(size.1);
        let room = height.saturating_sub(self.heading.len() + self.answers.len());
        // A call that does not fit gets a row that says so.
        self.window = if self.fits(height) { room } else { room.saturating_sub(1) };
    }

    fn fits(&self, height: usize) -> bool {
        self.height() <= height
    }

    /// Returns the number of rows that are needed to show everything.
    pub(super) fn height(&self) -> usize {
        self.heading.len() + self.body.rows.len() + self.answers.len()
    }

    /// Returns the first row on the screen when the end of the call is shown.
    pub(super) fn last_top(&self) -> usize {
        self.body.rows.len().saturating_sub(self.window)
    }

    /// Returns the rows of the call that are on the screen.
    pub(super) fn shown(&self, top: usize) -> (&Body, Range<usize>) {
        let end = top.saturating_add(self.window).min(self.body.rows.len());
        (&self.body, top.min(end)..end)
    }

    /// Returns all rows to draw.
    pub(super) fn lines(&self, top: usize, reading: &Reading, theme: &Theme) -> Vec<Line<'static>> {
        let (body, range) = self.shown(top);
        let shown = body.rows.get(range.clone()).unwrap_or_default();
        let status = (!self.fits(usize::from(self.size.1))).then(|| {
            let (from, to, all) = (range.start + 1, range.end, body.rows.len());
            let (long, short) = match (reading.unseen_rows(), reading.skipped_rows()) {
                (0, 0) => ("all of it was shown".to_owned(), "all shown".to_owned()),
                (0, skipped) => (format!("{skipped} skipped unread"), format!("{skipped} skipped")),
                (unseen, _) => (
                    format!("{unseen} not shown yet: PgDn reads on, [s] skips them"),
                    format!("{unseen} left: PgDn, [s]kip"),
                ),
            };
            let long = format!("── rows {from}-{to} of {all}, {long} ──");
            let is_fitting = long.chars().count() <= usize::from(self.size.0);
            let text = if is_fitting { long } else { short };
            Line::from(Span::styled(text, theme.warning))
        });
        let shown = shown.iter().map(|row| row.line.clone());
        let heading = self.heading.iter().cloned();
        heading.chain(shown).chain(status).chain(self.answers.iter().cloned()).collect()
    }
}
