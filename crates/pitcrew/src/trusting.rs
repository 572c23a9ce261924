//! Trust in a project's files at the command line: the question with its list, and what is said of what is left out.
//!
//! What the files would do and how far they count is `pitcrew_runtime::trust`'s; here it is shown and answered.

use std::io::{BufRead as _, Write as _};
use std::path::Path;

use pitcrew_runtime::trust::{Answer, Item, LeftOut, Project, Standing, TRUSTED_ITEMS, Trust, WhyLeftOut};
use serde_json::{Map, Value, json};

use crate::context::{Context, Loaded};
use crate::failure::Failure;
use crate::output::{self, visible};

/// What is shown of one thing at most, in characters: its head and its tail, with the number between.
const HEAD_CHARS: usize = 1_500;
const TAIL_CHARS: usize = 500;

/// So many names of what is left out are said, the rest as a number.
const MOST_KEYS: usize = 12;

/// So much of a name is said.
const KEY_CHARS: usize = 60;

/// Trusts what a project's files would do now, for this run: it goes into the command line's layer, and from there to
/// teammates in panes.
///
/// # Errors
/// When the files cannot be read.
pub(crate) fn for_this_run(context: &Context, folder: &Path, layer: &mut Map<String, Value>) -> Result<(), Failure> {
    let project = read(context, folder)?;
    let digests: Vec<&str> = project.items().iter().map(|item| item.digest.as_str()).collect();
    if digests.is_empty() {
        return Ok(());
    }
    if let Value::Object(ours) = layer.entry("pitcrew").or_insert_with(|| json!({})) {
        ours.insert(TRUSTED_ITEMS.to_owned(), json!(digests));
    }
    Ok(())
}

/// Asks the person at the terminal whether a project is trusted, unless that was answered before, and keeps the answer.
///
/// # Errors
/// When the files cannot be read, or the answer cannot be kept.
pub(crate) fn ask(context: &Context, folder: &Path) -> Result<(), Failure> {
    let project = read(context, folder)?;
    // Where the answers cannot be read none can be kept; the run says so.
    let Ok(trust) = Trust::load(&context.root) else { return Ok(()) };
    let has_grown = match trust.standing(&project) {
        Standing::UsersOwn | Standing::NothingToTrust | Standing::Trusted | Standing::Declined => return Ok(()),
        Standing::NotTrusted => false,
        Standing::Grown => true,
    };
    output::remark(&question(&project, has_grown));
    match answer() {
        Some(answer) => keep(context, &project, answer),
        None => Ok(()),
    }
}

/// Says what of a project's files was left out, in few words.
pub(crate) fn say(loaded: &Loaded) {
    let top = loaded.top.as_deref().map(|top| visible(&top.display().to_string())).unwrap_or_default();
    let mut can_be_trusted = false;
    for LeftOut { file, keys, why } in &loaded.left_out {
        let because = match why {
            WhyLeftOut::NotTrusted => format!("{top} is not trusted"),
            WhyLeftOut::Declined => format!("you said no to trusting {top}"),
            WhyLeftOut::Grown => format!("it would do more than when you trusted {top}"),
            WhyLeftOut::Never => "no project may set it".to_owned(),
        };
        can_be_trusted |= *why != WhyLeftOut::Never;
        output::remark(&format!("left out of {}: {} ({because})", visible(&file.display().to_string()), few(keys)));
    }
    if can_be_trusted {
        output::remark("`pitcrew trust add` shows and trusts it, --trust for one run");
    }
    for warning in &loaded.warnings {
        output::remark(&format!("warning: {}", visible(warning)));
    }
}

/// Reads a project.
///
/// # Errors
/// When its files cannot be read.
pub(crate) fn read(context: &Context, folder: &Path) -> Result<Project, Failure> {
    Project::read(folder, &context.root).map_err(Failure::unusable)
}

/// Keeps an answer.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep(context: &Context, project: &Project, answer: Answer) -> Result<(), Failure> {
    let now = jiff::Timestamp::now().to_string();
    Trust::answer(&context.root, project, answer, &now).map_err(Failure::unusable)
}

/// What a project's files would do, a line each, and then what counts in no case.
pub(crate) fn list(project: &Project) -> String {
    let mut lines: Vec<String> = project.items().iter().map(line).collect();
    for LeftOut { file, keys, .. } in project.never() {
        lines.push(format!("  never, trusted or not: {} in {}", few(keys), visible(&file.display().to_string())));
    }
    lines.join("\n")
}

fn line(item: &Item) -> String {
    format!("  {} ({})", whole(&item.does), visible(&item.file.display().to_string()))
}

fn question(project: &Project, has_grown: bool) -> String {
    let top = project.top().map(|top| visible(&top.display().to_string())).unwrap_or_default();
    let count = project.items().len();
    let begin = match (has_grown, count) {
        (true, _) => format!("You trusted {top}, and now its files would do more. All of it:"),
        (false, _) => format!("{top} is not trusted yet. Its files would do this:"),
    };
    let things = if count == 1 { "this 1 thing" } else { &format!("these {count} things") };
    format!(
        "{begin}\n{}\nWithout trust only its rules that deny or ask and its instructions count.\n\
         Trust it to do {things}, in every run until it would do more? [y]es, [n]o:",
        list(project)
    )
}

/// The answer of the person at the terminal; none when its input has ended.
fn answer() -> Option<Answer> {
    loop {
        let mut typed = String::new();
        if std::io::stdin().lock().read_line(&mut typed).ok()? == 0 {
            return None;
        }
        match typed.trim().to_lowercase().as_str() {
            "y" | "yes" => return Some(Answer::Trusted),
            "n" | "no" => return Some(Answer::Declined),
            _ => _ = writeln!(anstream::stderr().lock(), "[y]es or [n]o:"),
        }
    }
}

/// A text with what could steer a terminal made visible: whole, or its head and tail with the number between.
fn whole(text: &str) -> String {
    let count = text.chars().count();
    if count <= HEAD_CHARS + TAIL_CHARS {
        return visible(text);
    }
    let head: String = text.chars().take(HEAD_CHARS).collect();
    let tail: String = text.chars().skip(count - TAIL_CHARS).collect();
    let between = count - HEAD_CHARS - TAIL_CHARS;
    format!("{} [... {between} characters, to be read in the file ...] {}", visible(&head), visible(&tail))
}

fn few(keys: &[String]) -> String {
    let short = |key: &String| match key.char_indices().nth(KEY_CHARS) {
        Some((at, _)) => format!("{}...", visible(key.get(..at).unwrap_or_default())),
        None => visible(key),
    };
    let mut said = keys.iter().take(MOST_KEYS).map(short).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = keys.len().checked_sub(MOST_KEYS) {
        said += &format!(" and {more} more");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_shows_its_head_and_its_tail() {
        let long = format!("echo {}; rm -rf ~", " ".repeat(5_000));
        let shown = whole(&long);
        assert!(shown.starts_with("echo ") && shown.ends_with("; rm -rf ~"), "{shown}");
        assert!(shown.contains("[... 3015 characters, to be read in the file ...]"), "{shown}");
        assert_eq!(whole("a\x1b[2K\nb"), "a\\u{1b}[2K\\nb");
    }

    #[test]
    fn many_names_are_a_number() {
        let keys: Vec<String> = (0..15).map(|number| format!("env.V{number}")).collect();
        assert!(few(&keys).ends_with("env.V11 and 3 more"), "{}", few(&keys));
        assert_eq!(few(&["x".repeat(70)]), format!("{}...", "x".repeat(60)));
    }
}
