//! The permission request that waits for the user. It stays on the screen until it is answered.
//!
//! - A call is shown whole. If it does not fit, the user scrolls.
//! - A call cannot be allowed before every row of it was on the screen, or before the user skipped
//!   the rest with a key of its own.
//! - A key counts only for the request that was drawn last. If the request changed while the user
//!   looked at it, the first key only says so.
//! - A key that allows more than this call counts when it is pressed twice.
//! - A key that comes less than half a second after the request was drawn was meant for something
//!   else.
//!
//! `body` lays out the call, `answers` the possible answers, and `seen` remembers what was on the
//! screen. The caller sends the answers to the host.

mod answers;
mod body;
mod layout;
mod seen;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use pitcrew_runtime::question::{Choice, Keep, Offer};
use pitcrew_view::asking::{self, Chosen};
use pitcrew_view::host::OpenQuestion;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::panels::cell::cut;
use crate::theme::{Theme, ThemeKind};
use layout::Layout;
use seen::Reading;

/// Minimum width at which a row counts as seen. On a narrower screen, wide characters are cut.
pub(crate) const LEAST_WIDTH: u16 = 8;

/// How long a request must be on the screen without a key for an answer, before such a key counts.
/// Nobody reads a request faster. The second of two quick keys and a key that is held down come
/// faster.
pub(crate) const QUIET: Duration = Duration::from_millis(500);

/// The part of a permission request that is on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The whole request, or as much of it as has room.
    #[default]
    Whole,
    /// The same, but a list covers rows of it. No row counts as seen.
    Covered,
    /// One row with the heading, because the user reads a page. No key answers the request.
    Heading,
}

/// The permission request on the screen, and what the user has seen of it.
#[derive(Debug, Default)]
pub struct QuestionView {
    question: Option<OpenQuestion>,
    extent: Extent,
    /// The number of requests that wait, including this one.
    waiting: usize,
    /// Whether this request was drawn. Keys that came before were meant for something else.
    is_drawn: bool,
    /// When the request came on the screen, or when a key came too early. A key that is held down
    /// thus never answers.
    quiet_since: Option<Instant>,
    /// The key that allows more than this call and was pressed once, and when it was pressed.
    pressed_once: Option<(char, Instant)>,
    /// Whether another request was on the screen, which went away without the user's answer.
    has_changed: bool,
    /// The request for which the user types the reason of a refusal.
    refusing: Option<OpenQuestion>,
    reading: Reading,
    /// The first row of the call on the screen.
    top: usize,
    layout: Option<Layout>,
}

/// The effect of a key on the permission request.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one value for each key, and it is moved on"
)]
pub enum QuestionAct {
    /// The key is not for the permission request.
    None,
    /// The screen must be drawn again.
    Redraw,
    /// Nothing was answered. The text says why.
    Refused(String),
    /// The key answers when it is pressed again. The text says what it then allows.
    Again(String),
    /// The answer to send to the host.
    Answer(Chosen),
    /// The user wants to refuse the call. The caller reads the reason, and passes it to
    /// [`QuestionView::refuse`].
    Edit,
}

impl QuestionView {
    /// Creates a view without a permission request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a permission request, or none. `waiting` is the number of all requests that wait. If
    /// the request is already shown, the same part of it stays on the screen.
    pub fn set(&mut self, question: Option<&OpenQuestion>, waiting: usize) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.layout = None;
        }
        if self.question.as_ref() == question {
            return;
        }
        self.has_changed |= self.is_drawn;
        self.is_drawn = false;
        (self.quiet_since, self.pressed_once) = (None, None);
        self.question = question.cloned();
        self.reading = Reading::default();
        self.top = 0;
        self.layout = None;
    }

    /// Shrinks the request to its heading, or shows it whole again.
    pub fn set_extent(&mut self, extent: Extent) {
        if extent == Extent::Heading {
            // The user must look at the whole request again before a key counts.
            (self.quiet_since, self.pressed_once) = (None, None);
        }
        self.extent = extent;
    }

    /// Forgets that a key was pressed once. The caller says so when the keys go elsewhere.
    pub fn forget_key(&mut self) {
        self.pressed_once = None;
    }

    /// Whether the call or a rule was not on the screen yet.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.is_open() && (self.reading.unseen_rows() > 0 || !self.reading.has_seen_rules())
    }

    /// Whether a permission request is shown.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.question.is_some()
    }

    /// Returns the number of rows that the permission request takes, at most `most`. A caller that
    /// has no room does not draw it, so it counts as not drawn until [`QuestionView::draw`].
    pub fn height(&mut self, width: u16, most: u16) -> u16 {
        if self.extent == Extent::Heading {
            return u16::from(self.is_open()).min(most);
        }
        self.is_drawn = false;
        let Some(question) = &self.question else { return 0 };
        let (before, size) = (self.layout.take(), (width, most));
        // The height does not depend on the theme. The theme of before keeps the layout of before.
        let theme = before.as_ref().map(|layout| layout.theme.clone());
        let theme = theme.unwrap_or_else(|| Theme::new(ThemeKind::NoColor));
        let layout = Layout::kept(before, question, self.waiting, size, &theme);
        let height = layout.height();
        self.layout = Some(layout);
        u16::try_from(height).unwrap_or(u16::MAX).min(most)
    }

    /// Draws the permission request. What was drawn counts as seen, unless a list covers it.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let area = area.intersection(frame.area());
        if self.extent == Extent::Heading {
            return self.draw_heading(frame, area, theme);
        }
        self.is_drawn = false;
        let Some(question) = self.question.as_ref().filter(|_| !area.is_empty()) else { return };
        let size = (area.width, area.height);
        let layout = Layout::kept(self.layout.take(), question, self.waiting, size, theme);
        self.reading.laid_out(&layout.body);
        self.top = self.top.min(layout.last_top());
        if area.width >= LEAST_WIDTH && self.extent == Extent::Whole {
            self.reading.saw(layout.shown(self.top));
        }
        let lines = layout.lines(self.top, &self.reading, theme);
        for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
            frame.render_widget(line, Rect { y, height: 1, ..area });
        }
        self.layout = Some(layout);
        self.is_drawn = true;
    }

    /// Draws the row of a request that is not shown whole. Its beginning is cut if there is no room,
    /// so that the way back is always readable.
    fn draw_heading(&self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let Some(open) = &self.question else { return };
        let count = layout::count_of(self.waiting);
        let back = format!("{count}; Esc goes back to it");
        let room = usize::from(area.width).saturating_sub(back.len());
        let text = format!("{}{back}", cut(&open.question.heading(), room));
        frame.render_widget(Line::styled(text, theme.warning), area);
    }

    /// Takes note that the terminal shows what [`QuestionView::draw`] drew last.
    pub fn is_on_screen(&mut self, now: Instant) {
        if self.is_drawn && self.extent == Extent::Whole {
            self.quiet_since.get_or_insert(now);
        }
    }

    /// Interprets a key. The caller passes only keys that are not for the line of input.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> QuestionAct {
        let with_command = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if self.question.is_none() || key.kind == KeyEventKind::Release || with_command {
            return QuestionAct::None;
        }
        if self.extent == Extent::Heading {
            return self.key_for_heading(key.code);
        }
        let before = self.pressed_once.take();
        let page = self.layout.as_ref().map_or(1, |layout| layout.window.saturating_sub(1).max(1));
        match key.code {
            KeyCode::PageDown => self.scroll(self.top.saturating_add(page)),
            KeyCode::PageUp => self.scroll(self.top.saturating_sub(page)),
            KeyCode::Down => self.scroll(self.top.saturating_add(1)),
            KeyCode::Up => self.scroll(self.top.saturating_sub(1)),
            KeyCode::Home => self.scroll(0),
            KeyCode::End => self.scroll(usize::MAX),
            KeyCode::Char(c) => {
                let is_upper = key.modifiers.contains(KeyModifiers::SHIFT);
                let letter = if is_upper { c.to_ascii_uppercase() } else { c };
                self.letter(letter, now, before)
            }
            _ => QuestionAct::None,
        }
    }

    /// Refuses the call, for the request at which the user pressed the key for a refusal. An empty
    /// reason is no reason.
    pub fn refuse(&mut self, reason: &str) -> QuestionAct {
        let refusing = self.refusing.take();
        if refusing.is_none() || refusing != self.question {
            let why = "the permission request of this reason is not open any more";
            return QuestionAct::Refused(why.to_owned());
        }
        let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
        self.answer(Choice::No { reason: reason.map(str::to_owned) })
    }

    /// Handles a key while only the heading is shown: it says why a key for an answer does nothing.
    fn key_for_heading(&self, code: KeyCode) -> QuestionAct {
        match code {
            KeyCode::Char(letter) if self.is_key(letter) => QuestionAct::Refused(
                "nothing was answered: Esc goes back to the permission request, and a blank begins \
                 a message"
                    .to_owned(),
            ),
            _ => QuestionAct::None,
        }
    }

    fn scroll(&mut self, top: usize) -> QuestionAct {
        let last = self.layout.as_ref().map_or(0, Layout::last_top);
        // If the whole request is on the screen, the key scrolls something else.
        if last == 0 {
            return QuestionAct::None;
        }
        self.top = top.min(last);
        QuestionAct::Redraw
    }

    /// Handles a letter. `before` is the key that was pressed once, directly before this one.
    fn letter(
        &mut self,
        letter: char,
        now: Instant,
        before: Option<(char, Instant)>,
    ) -> QuestionAct {
        if !self.is_key(letter) {
            return QuestionAct::None;
        }
        if let Err(why) = self.meant_for_this(now) {
            return QuestionAct::Refused(why);
        }
        match (letter, self.always_by(letter)) {
            (_, Some((offer, keep))) => self.always(letter, (offer, keep), now, before),
            ('y' | 'Y', None) => match self.call_unread() {
                Some(why) => QuestionAct::Refused(why),
                None => self.answer(Choice::Once),
            },
            ('n' | 'N', None) => {
                self.refusing.clone_from(&self.question);
                QuestionAct::Edit
            }
            _ => {
                self.reading.skip();
                QuestionAct::Redraw
            }
        }
    }

    /// Whether a letter is a key of this request.
    #[must_use]
    pub fn is_key(&self, letter: char) -> bool {
        match letter {
            'y' | 'Y' | 'n' | 'N' => true,
            's' | 'S' => self.reading.unseen_rows() > 0,
            _ => self.always_by(letter).is_some(),
        }
    }

    /// Returns the offer that a letter accepts, and how long it is kept.
    fn always_by(&self, letter: char) -> Option<(Offer, Keep)> {
        match letter {
            'a' | 'p' => self.offer(letter).map(|offer| (offer, Keep::Run)),
            'A' | 'P' => self
                .offer(letter.to_ascii_lowercase())
                .filter(|offer| offer.rule().is_some())
                .map(|offer| (offer, Keep::Saved)),
            _ => None,
        }
    }

    fn offer(&self, key: char) -> Option<Offer> {
        let offers = &self.question.as_ref()?.question.offers;
        offers.iter().find(|offer| asking::key(offer) == key).cloned()
    }

    /// Checks that the user saw this request when the key was pressed.
    fn meant_for_this(&mut self, now: Instant) -> Result<(), String> {
        let is_new = "this permission request is new: nothing was answered, press the key again to \
                      answer it";
        if !self.is_drawn {
            return Err(is_new.to_owned());
        }
        let quiet_since = self.quiet_since.replace(now);
        if std::mem::take(&mut self.has_changed) {
            return Err("the permission request has changed: nothing was answered, press the key \
                        again to answer the one on the screen"
                .to_owned());
        }
        if quiet_since.is_none_or(|since| now.saturating_duration_since(since) < QUIET) {
            return Err(is_new.to_owned());
        }
        self.quiet_since = quiet_since;
        Ok(())
    }

    /// Allows more than this call, at the second press of the key. A message that begins with such
    /// a letter thus allows nothing. The second press must not come too soon: `pp` is in many words,
    /// and a key that is held down comes again and again.
    fn always(
        &mut self,
        letter: char,
        (offer, keep): (Offer, Keep),
        now: Instant,
        before: Option<(char, Instant)>,
    ) -> QuestionAct {
        if let Some(why) = self.call_unread().or_else(|| self.rules_unread()) {
            return QuestionAct::Refused(why);
        }
        let is_second = before.is_some_and(|(before, at)| {
            before == letter && now.saturating_duration_since(at) >= QUIET
        });
        if is_second {
            return self.answer(Choice::Always { offer, keep });
        }
        self.pressed_once = Some((letter, now));
        let Some(open) = &self.question else { return QuestionAct::None };
        let what = answers::always(&open.question, &offer);
        QuestionAct::Again(match keep {
            Keep::Run => format!("nothing is allowed yet; {letter} again: {what}"),
            Keep::Saved => {
                format!(
                    "nothing is allowed yet; {letter} again: {what}, and save it in your settings"
                )
            }
        })
    }

    /// Returns why the call cannot be allowed: a part of it was not on the screen yet.
    fn call_unread(&self) -> Option<String> {
        let rows = match self.reading.unseen_rows() {
            0 => return None,
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        Some(format!(
            "{rows} of this call were not on the screen yet: PgDn reads on, s skips them unread"
        ))
    }

    /// Returns why no rule can be accepted: a part of the rules was not on the screen yet.
    fn rules_unread(&self) -> Option<String> {
        let why = "the rule was not on the screen yet: PgDn reads on";
        (!self.reading.has_seen_rules()).then(|| why.to_owned())
    }

    fn answer(&mut self, choice: Choice) -> QuestionAct {
        let Some(question) = self.question.clone() else { return QuestionAct::None };
        // A second key must not answer the request again, or answer the next one.
        (self.is_drawn, self.quiet_since) = (false, None);
        QuestionAct::Answer(Chosen { question, choice })
    }
}

#[cfg(test)]
mod tests;
