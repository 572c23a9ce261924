//! Where a pane goes, so that every pane stays large enough to read.
//!
//! Beside the lead while its window holds nobody's panes but the lead's and ours: main-vertical, the lead to the left.
//! Otherwise in a window of our own, tiled: in the user's session when we are inside tmux, so that a layout of the
//! user's, and a zoomed pane, is never rearranged. When one more would make them too small, a further window is opened.

use super::listing::Listed;
use crate::PaneId;

/// A pane narrower than this is not readable: a line of a program's text breaks twice.
const MIN_COLUMNS: u32 = 50;

/// A pane lower than this is not readable: a prompt, a question and its context do not fit.
const MIN_ROWS: u32 = 8;

/// How the panes of a window lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The lead to the left, the others below each other to the right.
    MainVertical,
    /// In rows and columns of one size.
    Tiled,
}

impl Layout {
    /// tmux's name for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::MainVertical => "main-vertical",
            Self::Tiled => "tiled",
        }
    }
}

/// Where a pane goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Into a window there is, split off a pane of it.
    Split { pane: PaneId, layout: Layout },
    /// Into a new window of a session there is.
    Window { session: String },
    /// Into the first window of a new session.
    Session,
}

/// Decides where the next pane goes: beside that pane while it is there, else in the session of that name.
pub(super) fn next(panes: &[Listed], beside: Option<&PaneId>, session: &str) -> Place {
    let lead = beside.and_then(|pane| panes.iter().find(|it| it.pane == *pane));
    let Some(session) = lead.or_else(|| panes.iter().find(|it| it.session_name == session)) else {
        return Place::Session;
    };
    let mut windows: Vec<&str> = Vec::new();
    for pane in panes.iter().filter(|it| it.session == session.session) {
        if !windows.contains(&pane.window.as_str()) {
            windows.push(&pane.window);
        }
    }
    // The lead's own window first.
    windows.sort_by_key(|window| lead.is_none_or(|lead| lead.window != *window));
    let free = windows.into_iter().find_map(|window| {
        let inside = inside(panes, &session.session, window);
        let layout = layout(&inside, beside)?;
        let last = inside.last()?;
        is_readable(last, layout, inside.len() + 1)
            .then(|| Place::Split { pane: last.pane.clone(), layout })
    });
    free.unwrap_or_else(|| Place::Window { session: session.session.clone() })
}

/// How a window of those panes is laid out by us; not at all when it holds panes of the user's, or one is zoomed.
pub(super) fn layout(inside: &[&Listed], beside: Option<&PaneId>) -> Option<Layout> {
    let is_lead = |pane: &Listed| Some(&pane.pane) == beside;
    if inside.iter().any(|pane| pane.is_zoomed || !(is_lead(pane) || pane.tag.is_some())) {
        return None;
    }
    Some(if inside.iter().any(|pane| is_lead(pane)) { Layout::MainVertical } else { Layout::Tiled })
}

/// The panes of a window, once each.
pub(super) fn inside<'a>(panes: &'a [Listed], session: &str, window: &str) -> Vec<&'a Listed> {
    panes.iter().filter(|it| it.session == session && it.window == window).collect()
}

/// Whether each of `count` panes would be large enough, by tmux's own arithmetic.
fn is_readable(window: &Listed, layout: Layout, count: usize) -> bool {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let (columns, rows) = match layout {
        Layout::MainVertical => {
            (window.width.saturating_sub(main_width(window) + 1), each(window.height, count - 1))
        }
        Layout::Tiled => {
            let (across, down) = grid(count);
            // The titles take a line.
            (each(window.width, across), each(window.height.saturating_sub(1), down))
        }
    };
    columns >= MIN_COLUMNS && rows >= MIN_ROWS
}

/// The width of the main pane by the window's own option.
fn main_width(window: &Listed) -> u32 {
    let option = &window.main_width;
    match option.strip_suffix('%') {
        Some(percent) => window.width * percent.parse::<u32>().unwrap_or(50).min(100) / 100,
        None => option.parse().unwrap_or(80),
    }
}

/// How long each of `count` panes in a row is, with a line between them.
fn each(length: u32, count: u32) -> u32 {
    length.saturating_sub(count.saturating_sub(1)) / count.max(1)
}

/// Columns and rows of a tiled window.
fn grid(count: u32) -> (u32, u32) {
    let (mut columns, mut rows) = (1_u32, 1_u32);
    while columns.saturating_mul(rows) < count {
        rows += 1;
        if columns.saturating_mul(rows) < count {
            columns += 1;
        }
    }
    (columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PaneState;

    fn pane(id: &str, window: &str, tag: &str) -> Listed {
        Listed {
            session: "$0".to_owned(),
            session_name: "main".to_owned(),
            is_attached: true,
            window: window.to_owned(),
            width: 200,
            height: 50,
            is_zoomed: false,
            main_width: "80".to_owned(),
            pane: PaneId(id.to_owned()),
            tag: tag.parse().ok(),
            state: PaneState::Running { pid: None },
            ending: None,
        }
    }

    fn split(pane: &str, layout: Layout) -> Place {
        Place::Split { pane: PaneId(pane.to_owned()), layout }
    }

    const OURS: &str = "r/crew/bob";

    #[test]
    fn beside_the_lead_while_its_window_holds_nobody_else() {
        let lead = PaneId("%0".to_owned());
        let mut panes = vec![pane("%0", "@0", "")];
        assert_eq!(next(&panes, Some(&lead), "x"), split("%0", Layout::MainVertical));
        panes.push(pane("%1", "@0", OURS));
        assert_eq!(next(&panes, Some(&lead), "x"), split("%1", Layout::MainVertical));
        panes.push(pane("%2", "@0", ""));
        assert_eq!(next(&panes, Some(&lead), "x"), Place::Window { session: "$0".to_owned() });
        panes.push(pane("%3", "@1", OURS));
        assert_eq!(next(&panes, Some(&lead), "x"), split("%3", Layout::Tiled));
    }

    #[test]
    fn a_zoomed_pane_stays_zoomed() {
        let panes = [Listed { is_zoomed: true, ..pane("%0", "@0", "") }];
        let place = next(&panes, Some(&PaneId("%0".to_owned())), "x");
        assert_eq!(place, Place::Window { session: "$0".to_owned() });
    }

    #[test]
    fn a_full_window_is_followed_by_another() {
        let lead = PaneId("%0".to_owned());
        let mut panes = vec![pane("%0", "@0", "")];
        let mut beside = 0;
        while let Place::Split { .. } = next(&panes, Some(&lead), "x") {
            panes.push(pane("%1", "@0", OURS));
            beside += 1;
        }
        assert_eq!(beside, 5);
        for ours in 1..12 {
            panes.push(pane("%2", "@1", OURS));
            let is_full = matches!(next(&panes, Some(&lead), "x"), Place::Window { .. });
            assert_eq!(is_full, ours == 12, "{ours}");
        }
    }

    #[test]
    fn outside_of_tmux_a_session_of_our_own_is_used() {
        assert_eq!(next(&[], None, "crew"), Place::Session);
        assert_eq!(next(&[pane("%0", "@0", "")], None, "crew"), Place::Session);
        let own = Listed { session_name: "crew".to_owned(), ..pane("%0", "@0", OURS) };
        assert_eq!(
            next(&[own], Some(&PaneId("%9".to_owned())), "crew"),
            split("%0", Layout::Tiled)
        );
    }

    #[test]
    fn the_grid_is_that_of_tmux() {
        for (count, expected) in
            [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (8, (3, 3)), (12, (3, 4))]
        {
            assert_eq!(grid(count), expected, "{count}");
        }
    }
}
