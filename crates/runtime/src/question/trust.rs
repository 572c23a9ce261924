//! Asks the user whether a project is trusted. The question lists all effects of the project's
//! files, in the same kind of lines as a permission request.

use std::path::Path;

use pitcrew_permission::trust::{Item, LeftOut, Project};

use super::content::{Kind, Line, texts};
use super::visible::visible;

/// Asks the user whether a project is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    /// The line that names the project.
    pub heading: String,
    /// All effects of the project's files, and the parts of the files that are never applied.
    pub lines: Vec<Line>,
    /// The text that asks the user to decide.
    pub asks: String,
}

/// Whether the user has trusted this project before. If the user has, the project's files had fewer
/// effects at that time than now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedBefore {
    /// The project was never trusted.
    Never,
    /// The user has trusted the project before, but since then its files have got more effects.
    Less,
}

impl TrustQuestion {
    /// Creates the question whether this project is trusted.
    #[must_use]
    pub fn of(project: &Project, before: TrustedBefore) -> Self {
        let top = project.top().map(shown).unwrap_or_default();
        let heading = match before {
            TrustedBefore::Less => {
                format!("You trusted {top}, and now its files would do more. All of it:")
            }
            TrustedBefore::Never => format!("{top} is not trusted yet. Its files would do this:"),
        };
        let things = match project.items().len() {
            1 => "this 1 thing".to_owned(),
            count => format!("these {count} things"),
        };
        let left = "Without trust only its rules that deny or ask and its instructions count.";
        let mut lines = Self::list(project);
        lines.push(Line { kind: Kind::Note, text: left.to_owned() });
        Self {
            heading,
            lines,
            asks: format!("Trust it to do {things}, as long as its files ask for no more?"),
        }
    }

    /// Lists all effects of a project's files, and the parts of the files that are never applied.
    #[must_use]
    pub fn list(project: &Project) -> Vec<Line> {
        let items = (1..).zip(project.items()).flat_map(item);
        items.chain(project.never().iter().map(never)).collect()
    }
}

/// Returns the numbered lines of one effect. The file's name follows the last line.
fn item((number, item): (usize, &Item)) -> Vec<Line> {
    let mut lines = texts(&format!("{number}. {}", item.does));
    for line in lines.iter_mut().skip(1) {
        line.text.insert_str(0, "   ");
    }
    if let Some(last) = lines.last_mut() {
        last.text.push_str(&format!(" ({})", shown(&item.file)));
    }
    lines
}

fn never(left: &LeftOut) -> Line {
    let keys: Vec<String> = left.keys.iter().map(|key| one_line(key)).collect();
    let text = format!("never, trusted or not: {} in {}", keys.join(", "), shown(&left.file));
    Line { kind: Kind::Note, text }
}

fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}
