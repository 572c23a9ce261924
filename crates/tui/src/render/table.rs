//! Draws a table of markdown. A table that is too wide gets narrower columns. If these would be too
//! narrow to read, each cell gets its own row.

use pulldown_cmark::Alignment;
use ratatui::style::Modifier;
use ratatui::text::Span;

use super::wrap::{Blanks, rows, width_of};
use crate::theme::Theme;

/// Minimum width of a column that was made narrower.
const LEAST_COLUMN: usize = 6;

/// The sign between two columns.
const SEPARATOR: &str = " │ ";

type Cell = Vec<Span<'static>>;

/// A table. Its first row is the header.
#[derive(Debug, Default)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Cell>>,
    row: Vec<Cell>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, ..Self::default() }
    }

    pub(super) fn push_cell(&mut self, cell: Cell) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }
}

/// Returns the rows of a table on the screen.
pub(super) fn rows_of(table: &Table, width: usize, theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let count = table.rows.iter().map(Vec::len).max().unwrap_or_default();
    let natural = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| width_of(cell)).max().unwrap_or_default().max(1)
    };
    let natural: Vec<usize> = (0..count).map(natural).collect();
    let between = SEPARATOR.chars().count() * count.saturating_sub(1);
    match column_widths(&natural, width.saturating_sub(between)) {
        Some(widths) => grid(table, &widths, theme),
        None => records(table, width, theme),
    }
}

/// Returns the widths of the columns, so that all fit into `room`. Only the widest are made
/// narrower. Returns `None` if they would be too narrow.
fn column_widths(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    let total = |most: usize| natural.iter().map(|width| *width.min(&most)).sum::<usize>();
    let widest = natural.iter().copied().max().unwrap_or_default();
    if total(widest) <= room {
        return Some(natural.to_vec());
    }
    let most = (LEAST_COLUMN..=room.min(widest)).rev().find(|most| total(*most) <= room)?;
    Some(natural.iter().map(|width| *width.min(&most)).collect())
}

fn grid(table: &Table, widths: &[usize], theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let mut drawn = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let wrapped = |(column, width): (usize, &usize)| {
            let cell = row.get(column).map(|cell| if at == 0 { bold(cell) } else { cell.clone() });
            rows(&cell.unwrap_or_default(), *width, Blanks::Dropped).collect::<Vec<_>>()
        };
        let cells: Vec<Vec<Cell>> = widths.iter().enumerate().map(wrapped).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let mut spans = Vec::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    spans.push(Span::styled(SEPARATOR, theme.dim));
                }
                let alignment = table.alignments.get(column).copied();
                let cell = cell.get(line).cloned().unwrap_or_default();
                spans.extend(aligned(cell, *width, alignment.unwrap_or(Alignment::None)));
            }
            drawn.push(spans);
        }
        if at == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            drawn.push(vec![Span::styled(lines.join("─┼─"), theme.dim)]);
        }
    }
    drawn
}

fn aligned(cell: Cell, width: usize, alignment: Alignment) -> Cell {
    let left_over = width.saturating_sub(width_of(&cell));
    let before = match alignment {
        Alignment::None | Alignment::Left => 0,
        Alignment::Center => left_over / 2,
        Alignment::Right => left_over,
    };
    let blanks = |count: usize| Span::raw(" ".repeat(count));
    let padded = std::iter::once(blanks(before)).chain(cell);
    padded.chain(std::iter::once(blanks(left_over - before))).collect()
}

/// Draws each cell in its own row, after the header of its column.
fn records(table: &Table, width: usize, theme: &Theme) -> Vec<Vec<Span<'static>>> {
    let Some((header, body)) = table.rows.split_first() else { return Vec::new() };
    // A table that is being written has no other rows yet.
    let body = if body.is_empty() { std::slice::from_ref(header) } else { body };
    let mut drawn = Vec::new();
    for (at, row) in body.iter().enumerate() {
        if at > 0 {
            drawn.push(Vec::new());
        }
        for (column, cell) in row.iter().enumerate() {
            let mut spans = header.get(column).map(|name| bold(name)).unwrap_or_default();
            if !std::ptr::eq(row, header) {
                spans.push(Span::styled(": ", theme.dim));
                spans.extend(cell.iter().cloned());
            }
            drawn.extend(rows(&spans, width, Blanks::Dropped));
        }
    }
    drawn
}

fn bold(cell: &[Span<'static>]) -> Cell {
    let bold = |span: &Span<'static>| {
        let style = span.style.add_modifier(Modifier::BOLD);
        span.clone().style(style)
    };
    cell.iter().map(bold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_widest_columns_are_made_narrower() {
        assert_eq!(column_widths(&[4, 10, 3], 20), Some(vec![4, 10, 3]));
        assert_eq!(column_widths(&[4, 30, 20], 30), Some(vec![4, 13, 13]));
        assert_eq!(column_widths(&[4, 30, 20], 17), Some(vec![4, 6, 6]));
        assert_eq!(column_widths(&[4, 30, 20], 15), None);
        assert_eq!(column_widths(&[usize::MAX / 4; 3], 60), Some(vec![20; 3]));
    }
}
