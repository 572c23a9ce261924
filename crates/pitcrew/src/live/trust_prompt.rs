//! Asks at the terminal, before a run starts, whether a project is trusted. The user can read a
//! long question page by page.

use std::io;

use anstyle::Style;
use pitcrew_permission::trust::Answer;
use pitcrew_runtime::question::{Section, Size, TrustQuestion, lay_out, wrap};
use pitcrew_view::asking::ShownPages;
use rustix::process::{Signal, getpid, kill_process};

use super::agent_screen::{Entry, Footer, Terminal, Typed};
use super::panel::{TURN, styled};
use crate::output::{self, STRONG};

/// `PROMPT` is the first input prompt. `PROMPT_AGAIN` is the prompt after the user typed a line
/// that is not a valid answer.
const PROMPT: &str = "[y]es, [n]o: ";
const PROMPT_AGAIN: &str = "[y]es or [n]o: ";

/// Asks until the user answers. Returns `None` if the terminal is gone. If the user presses Ctrl-C,
/// prints `stopped` and ends the process.
///
/// # Errors
/// Returns an error if the terminal cannot be switched to single-key input.
pub(crate) fn ask(question: &TrustQuestion, stopped: &str) -> io::Result<Option<Answer>> {
    let mut terminal = Terminal::enter()?;
    let (mut entry, mut part, mut prompt) = (Entry::default(), Section::Ends, PROMPT);
    let mut before = ShownPages::default();
    loop {
        let mut footer = foot_of(question, part, Terminal::room(), prompt);
        if let Some(kept) = footer.seen.kept(&before, part) {
            part = kept;
            footer = foot_of(question, part, Terminal::room(), prompt);
        }
        before = footer.seen.clone();
        terminal.draw(&[], &footer, &entry.parts())?;
        let Ok(event) = crossterm::event::read() else { return Ok(None) };
        match entry.take(event) {
            Typed::Line(line) => match answer(&line) {
                Some(answer) => return Ok(Some(answer)),
                None => prompt = PROMPT_AGAIN,
            },
            Typed::Turn(turn) => part = turn.from(part, footer.seen.pages),
            Typed::End => {
                // In raw mode Ctrl-C is only a key. After restoring the terminal, this process
                // sends itself the signal that Ctrl-C normally sends.
                drop(terminal);
                output::remark(stopped);
                kill_process(getpid(), Signal::INT)?;
                return Ok(None);
            }
            Typed::Suspend => terminal.suspend()?,
            Typed::Editing | Typed::Resized | Typed::Interrupt => {}
        }
    }
}

/// Lays out the question as a footer of this size. If the question does not fit, a row says so, and
/// the user can turn pages.
fn foot_of(
    question: &TrustQuestion,
    part: Section,
    Size { columns, rows }: Size,
    prompt: &str,
) -> Footer {
    let strong = |text: &str| {
        wrap(text, columns).into_iter().map(|row| (STRONG, row)).collect::<Vec<(Style, String)>>()
    };
    let (heading, asks) = (strong(&question.heading), strong(&question.asks));
    // The last row of the terminal is reserved for the user's answer.
    let room = rows.saturating_sub(heading.len() + asks.len() + 1).max(1);
    let shown = lay_out(&question.lines, Size { columns, rows: room }, part, TURN);
    let list = shown.rows.into_iter().map(styled);
    let mut lines: Vec<(Style, String)> = heading.into_iter().chain(list).chain(asks).collect();
    // If the terminal has too few rows, the first lines of the footer are removed. The last lines
    // stay, because they contain the question.
    let most = rows.saturating_sub(1).max(1);
    lines.drain(..lines.len().saturating_sub(most));
    Footer {
        lines,
        prompt: prompt.to_owned(),
        seen: ShownPages { pages: shown.pages, starts: shown.starts, ..ShownPages::default() },
    }
}

fn answer(line: &str) -> Option<Answer> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Trusted),
        "n" | "no" => Some(Answer::Declined),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_permission::trust::Project;
    use pitcrew_runtime::question::TrustedBefore;
    use serde_json::json;

    use super::*;

    fn question(settings: &serde_json::Value) -> TrustQuestion {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work/.claude")).unwrap();
        std::fs::write(dir.path().join("work/.claude/settings.json"), settings.to_string())
            .unwrap();
        let project = Project::read(&dir.path().join("work"), &dir.path().join("root")).unwrap();
        let question = TrustQuestion::of(&project, TrustedBefore::Never);
        TrustQuestion {
            heading: "/work is not trusted yet. Its files would do this:".to_owned(),
            ..question
        }
    }

    fn shown(question: &TrustQuestion, (columns, rows): (usize, usize), part: Section) -> String {
        let footer = foot_of(question, part, Size { columns, rows }, PROMPT);
        assert!(footer.lines.len() < rows, "{footer:?}");
        assert!(footer.lines.iter().all(|(_, row)| row.chars().count() <= columns), "{footer:?}");
        footer.lines.iter().map(|(_, row)| row.trim_end()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn everything_that_a_project_would_do_is_shown_with_what_could_not_be_seen() {
        let hook = json!([{"hooks": [{"type": "command", "command": "echo a\u{1b}[2K\necho b"}]}]);
        let settings = json!({"hooks": {"Stop": hook}, "permissions": {"allow": ["Bash"]}, "apiKeyHelper": "./evil"});
        insta::assert_snapshot!(shown(&question(&settings), (80, 20), Section::Ends), @r"
        /work is not trusted yet. Its files would do this:
        │ 1. allows without a question: Bash (.claude/settings.json)
        │ 2. runs on Stop: echo a<U+001B>[2K
        │    echo b (.claude/settings.json)
          never, trusted or not: apiKeyHelper in .claude/settings.json
          Without trust only its rules that deny or ask and its instructions count.
        Trust it to do these 2 things, as long as its files ask for no more?
        ");
    }

    #[test]
    fn a_long_list_is_shown_by_its_ends_and_page_by_page() {
        let rules: Vec<String> = (1..=40).map(|number| format!("Bash(make {number})")).collect();
        let question = question(&json!({"permissions": {"allow": rules}}));
        let pages: Vec<String> =
            (0..10).map(|page| shown(&question, (80, 12), Section::Page(page))).collect();
        for number in 1..=40 {
            assert!(
                pages.iter().any(|page| page.contains(&format!("Bash(make {number})"))),
                "{number}"
            );
        }
        insta::assert_snapshot!(shown(&question, (80, 12), Section::Ends), @r"
        /work is not trusted yet. Its files would do this:
        │ 1. allows without a question: Bash(make 1) (.claude/settings.json)
        │ 2. allows without a question: Bash(make 2) (.claude/settings.json)
        │ 3. allows without a question: Bash(make 3) (.claude/settings.json)
        │ 4. allows without a question: Bash(make 4) (.claude/settings.json)
        ── 33 more lines here, PgDn shows them ──
        │ 38. allows without a question: Bash(make 38) (.claude/settings.json)
        │ 39. allows without a question: Bash(make 39) (.claude/settings.json)
        │ 40. allows without a question: Bash(make 40) (.claude/settings.json)
          Without trust only its rules that deny or ask and its instructions count.
        Trust it to do these 40 things, as long as its files ask for no more?
        ");
    }

    #[test]
    fn only_a_yes_or_a_no_is_an_answer() {
        assert_eq!((answer(" Yes "), answer("n")), (Some(Answer::Trusted), Some(Answer::Declined)));
        assert_eq!((answer("what?"), answer("")), (None, None));
    }
}
