//! Chooses the place of a new pane so that every pane stays large enough to read.
//!
//! If the lead's window contains only the lead's pane and pitcrew's panes, the new pane is placed
//! in that window. That window gets the layout main-vertical, with the lead's pane on the left.
//! Otherwise the new pane is placed in a separate window with the layout tiled. The separate window
//! is in the user's session if pitcrew runs inside tmux. So pitcrew never rearranges a window with
//! the user's own panes or with a zoomed pane. If the panes of a window would become too small,
//! pitcrew opens another window.

use super::listing::Listed;
use crate::PaneId;

/// Minimum width of a pane in columns. In a narrower pane, an ordinary line of text would be broken
/// into three or more lines.
const MIN_COLUMNS: u32 = 50;

/// Minimum height of a pane in rows. A smaller pane has no room for an input line, a permission
/// request and the text that explains the request.
const MIN_ROWS: u32 = 8;

/// The layout of the panes in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The lead's pane is on the left. The other panes are on the right, one below another.
    MainVertical,
    /// The panes form rows and columns of equal size.
    Tiled,
}

impl Layout {
    /// Returns tmux's name of the layout.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::MainVertical => "main-vertical",
            Self::Tiled => "tiled",
        }
    }
}

/// The place of a new pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The new pane is split from this pane, in an existing window.
    Split { pane: PaneId, layout: Layout },
    /// The new pane gets a new window in this existing session.
    Window { session: String },
    /// The new pane is in the first window of a new session.
    Session,
}

/// Chooses the place of the next pane. If the pane `beside` exists, the place is in the session of
/// that pane, and if possible in its window. Otherwise the place is in the session named `session`.
/// If that session does not exist, the result is `Place::Session`.
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
    // Sort the windows so that the lead's own window comes first.
    windows.sort_by_key(|window| lead.is_none_or(|lead| lead.window != *window));
    let free = windows.into_iter().find_map(|window| {
        let inside = inside(panes, &session.session, window);
        let layout = layout(&inside, beside)?;
        // Split the last pane of the window, so that the new pane comes after the others.
        let last = inside.last()?;
        is_readable(last, layout, inside.len() + 1)
            .then(|| Place::Split { pane: last.pane.clone(), layout })
    });
    free.unwrap_or_else(|| Place::Window { session: session.session.clone() })
}

/// Returns the layout that pitcrew uses for a window with these panes. Returns `None` if one of the
/// panes is zoomed, or if one belongs neither to pitcrew nor to the lead.
pub(super) fn layout(inside: &[&Listed], beside: Option<&PaneId>) -> Option<Layout> {
    let is_lead = |pane: &Listed| Some(&pane.pane) == beside;
    if inside.iter().any(|pane| pane.is_zoomed || !(is_lead(pane) || pane.tag.is_some())) {
        return None;
    }
    Some(if inside.iter().any(|pane| is_lead(pane)) { Layout::MainVertical } else { Layout::Tiled })
}

/// Returns the panes of a window. Each pane appears only once.
pub(super) fn inside<'a>(panes: &'a [Listed], session: &str, window: &str) -> Vec<&'a Listed> {
    panes.iter().filter(|it| it.session == session && it.window == window).collect()
}

/// Returns true if `count` panes in this layout would all be large enough. The sizes are computed
/// as tmux computes them.
fn is_readable(window: &Listed, layout: Layout, count: usize) -> bool {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let (columns, rows) = match layout {
        Layout::MainVertical => {
            (window.width.saturating_sub(main_width(window) + 1), each(window.height, count - 1))
        }
        Layout::Tiled => {
            let (across, down) = grid(count);
            // One line of the height is subtracted, because the titles of the panes need it.
            (each(window.width, across), each(window.height.saturating_sub(1), down))
        }
    };
    columns >= MIN_COLUMNS && rows >= MIN_ROWS
}

/// Returns the width of the main pane in columns, computed from the window's option
/// `main-pane-width`.
fn main_width(window: &Listed) -> u32 {
    let option = &window.main_width;
    match option.strip_suffix('%') {
        Some(percent) => window.width * percent.parse::<u32>().unwrap_or(50).min(100) / 100,
        None => option.parse().unwrap_or(80),
    }
}

/// Returns the size of each pane if `count` panes share `length` cells. One cell between two panes
/// is used for the separator line.
fn each(length: u32, count: u32) -> u32 {
    length.saturating_sub(count.saturating_sub(1)) / count.max(1)
}

/// Returns the number of columns and the number of rows that a tiled window with `count` panes has.
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
