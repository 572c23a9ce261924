//! The question whether a project is trusted: everything that its files would do, as lines like those of a call.

use std::path::Path;

use super::content::{Kind, Line, texts};
use super::visible::visible;
use crate::trust::{Item, LeftOut, Project};

/// Whether a project is trusted, as it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    /// Which project it is about.
    pub heading: String,
    /// What its files would do, whole, and what of them counts in no case.
    pub lines: Vec<Line>,
    /// What is to be answered.
    pub asks: String,
}

/// Whether a project was trusted before, when its files would have done less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedBefore {
    /// It was not.
    Never,
    /// It was, and its list has grown.
    Less,
}

impl TrustQuestion {
    /// Makes the question about a project as it was read.
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
            asks: format!("Trust it to do {things}, in every run until it would do more?"),
        }
    }

    /// What a project's files would do, whole, and what of them counts in no case.
    #[must_use]
    pub fn list(project: &Project) -> Vec<Line> {
        let items = (1..).zip(project.items()).flat_map(item);
        items.chain(project.never().iter().map(never)).collect()
    }
}

/// The lines of one thing with its number; its file is named behind the last one.
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
