//! The rows above the diff: the author, the state of the branch, and the file.

use pitcrew_protocol::{counted, counted_is};
use pitcrew_view::changes::{BranchState, MemberChanges};
use ratatui::text::{Line, Span};

use crate::render::{Blanks, clean, rows, wrap};
use crate::theme::Theme;

/// Returns the rows for the selected member and file.
pub(super) fn lines(
    all: &[MemberChanges],
    member: usize,
    file: usize,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let Some(changes) = all.get(member) else {
        return wrap("nobody has changed a file yet", width, theme.dim);
    };
    let of_members = place(member, all.len());
    let mut spans = vec![
        Span::styled(clean(changes.author.as_str()).into_owned(), theme.agent(changes.color)),
        Span::styled(of_members, theme.dim),
    ];
    spans.extend(
        changes
            .branch
            .as_ref()
            .map(|branch| Span::styled(format!("  {}", clean(&in_words(branch))), theme.text)),
    );
    let mut lines: Vec<Line<'static>> =
        rows(&spans, usize::from(width), Blanks::Dropped).map(Line::from).collect();
    if changes.branch.as_ref().is_some_and(|branch| branch.has_more_files) {
        let count = counted(changes.files.len(), "changed file");
        let text = format!("only {count} can be listed here: `git diff` in the worktree shows all");
        lines.extend(wrap(&text, width, theme.error));
    }
    if let Some(failure) = &changes.failure {
        let text = format!("the changes are not known: {failure}");
        lines.extend(wrap(&text, width, theme.error));
    }
    if let Some(name) = changes.files.get(file) {
        let is_open = |branch: &BranchState| branch.uncommitted.contains(name);
        let note = match &changes.branch {
            Some(branch) if is_open(branch) => "  not committed",
            Some(_) | None => "",
        };
        let text = format!("{name}{}{note}", place(file, changes.files.len()));
        lines.extend(wrap(&text, width, theme.heading));
    }
    lines
}

/// Returns the place among several, such as ` (2 of 3)`.
fn place(at: usize, count: usize) -> String {
    if count > 1 { format!(" ({} of {count})", at + 1) } else { String::new() }
}

fn in_words(branch: &BranchState) -> String {
    let BranchState { branch: name, base, ahead, behind, uncommitted, .. } = branch;
    let mut text = format!("{name}: {} ahead of {base}", counted(*ahead, "commit"));
    if *behind > 0 {
        text.push_str(&format!(", {behind} behind"));
    }
    if !uncommitted.is_empty() {
        text.push_str(&format!(", {} not committed", counted_is(uncommitted.len(), "file")));
    }
    text
}
