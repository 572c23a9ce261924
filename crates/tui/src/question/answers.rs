//! The possible answers to a permission request, with their keys.

use pitcrew_runtime::question::{Offer, PermissionQuestion};
use pitcrew_view::asking;
use ratatui::text::{Line, Span};

use crate::render::{Blanks, clean, rows};
use crate::theme::Theme;

/// Returns the rows of the answers with their whole meaning.
pub(super) fn whole(
    question: &PermissionQuestion,
    width: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (yes, no) = match question.is_plan() {
        true => ("yes, it can be carried out", "no, send it back (say what must change)"),
        false => ("yes, once", "no (a reason can follow)"),
    };
    let first = vec![('y', yes.to_owned()), ('n', no.to_owned())];
    let lines = std::iter::once(first).chain(question.offers.iter().map(|offer| {
        let (key, text) = (asking::key(offer), always(question, offer));
        let save = (key.to_ascii_uppercase(), "and save it in your settings".to_owned());
        let saves = offer.rule().is_some().then_some(save);
        std::iter::once((key, text)).chain(saves).collect()
    }));
    lines.flat_map(|keys| drawn(&keys, width, theme)).collect()
}

/// Returns the meaning of an offer.
pub(super) fn always(question: &PermissionQuestion, offer: &Offer) -> String {
    match offer {
        Offer::Exactly { .. } => "always exactly this call, in this run".to_owned(),
        Offer::Edits => edits(question).to_owned(),
        Offer::Rule(rule) => format!("always {}, in this run", clean(rule)),
    }
}

/// Returns the row of the answers for a screen with little room. The rules of the request are
/// shown elsewhere.
pub(super) fn short(
    question: &PermissionQuestion,
    width: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut keys = vec![('y', "yes".to_owned()), ('n', "no".to_owned())];
    for offer in &question.offers {
        let text = match offer {
            Offer::Exactly { .. } => ('a', "always"),
            Offer::Edits => ('a', "all edits"),
            Offer::Rule(_) => ('p', "by rule"),
        };
        keys.push((text.0, text.1.to_owned()));
    }
    drawn(&keys, width, theme)
}

/// Returns the meaning of the offer that allows edits.
pub(super) fn edits(question: &PermissionQuestion) -> &'static str {
    if question.is_plan() {
        "yes, and edits are not asked about: mode acceptEdits"
    } else {
        "always in this run: mode acceptEdits (all edits, and commands that only write in its folder)"
    }
}

fn drawn(keys: &[(char, String)], width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut spans = Vec::new();
    for (at, (key, text)) in keys.iter().enumerate() {
        let before = if at > 0 { "   " } else { "" };
        spans.push(Span::raw(before));
        spans.push(Span::styled(format!("[{key}]"), theme.accent));
        spans.push(Span::styled(format!(" {text}"), theme.text));
    }
    rows(&spans, width, Blanks::Dropped).map(Line::from).collect()
}
