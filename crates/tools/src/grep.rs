//! Grep: finds the lines that match a regular expression. The search uses the libraries of ripgrep.

use std::fs::File;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use pitcrew_protocol::{counted, tool_name};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::files::{in_background, real_path, resolve};
use super::input::{count, parse};
use super::search::{Found, Place, newest_first, shown};
use super::walk::{Entry, walk};
use super::{Tool, ToolContext, ToolOutcome};

mod sink;

use sink::{Counting, Listing};

/// The maximum memory for one line of a searched file, in bytes. In a multi-line search, the limit
/// applies to the whole file.
const HEAP_BYTES: usize = 64 << 20;

/// The maximum number of context lines before and after a match.
const MOST_CONTEXT: usize = 1_000;

/// The tool that finds the lines that match a regular expression.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grep;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    r#type: Option<String>,
    #[serde(default)]
    output_mode: Mode,
    #[serde(default, rename = "-B", deserialize_with = "count")]
    before: Option<usize>,
    #[serde(default, rename = "-A", deserialize_with = "count")]
    after: Option<usize>,
    #[serde(default, rename = "-C", deserialize_with = "count")]
    around: Option<usize>,
    #[serde(default, deserialize_with = "count")]
    context: Option<usize>,
    #[serde(default = "yes", rename = "-n")]
    numbers: bool,
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    #[serde(default, deserialize_with = "count")]
    head_limit: Option<usize>,
    #[serde(default, deserialize_with = "count")]
    offset: Option<usize>,
    #[serde(default)]
    multiline: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

fn yes() -> bool {
    true
}

#[async_trait]
impl Tool for Grep {
    fn name(&self) -> &str {
        tool_name::GREP
    }

    fn description(&self) -> &str {
        "Finds lines that match a regular expression (ripgrep's syntax: braces and brackets that are meant \
         as such are escaped) in the files below `path` or the working folder. `output_mode` is \
         `files_with_matches` (the default: paths, the last changed first), `content` (the lines, with -A, -B \
         and -C for those around them) or `count` (matching lines of each file). Narrow it by `glob` (such as `*.rs`) or \
         `type` (such as `rust`). `head_limit` and `offset` page through long results. With `multiline` a \
         match may go over several lines. What git ignores, what you may not read, binary files and files over \
         64 MB are left out."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match parse::<Input>(self, input) {
            Ok(input) => in_background(context, move |context| search(&input, context)).await,
            Err(outcome) => outcome,
        }
    }
}

fn search(input: &Input, context: &ToolContext) -> Result<ToolOutcome, ToolOutcome> {
    let root = resolve(&context.cwd, input.path.as_deref().unwrap_or("."))?;
    let place = Place { real: real_path(&root, context)?, written: root };
    let missing = || {
        ToolOutcome::refused(format_args!(
            "{} does not exist. Relative paths start from {}",
            place.written.display(),
            context.cwd.display()
        ))
    };
    let walk = walk(&place.real, &context.cancel, missing)?;
    let filter = Filter::new(input, &place.written)?;
    let mut search = Search { matcher: matcher(input)?, searcher: searcher(input), context };
    let candidates = walk.filter_map(|entry| candidate(entry, &place, &filter, context));
    let window = Window {
        skip: input.offset.unwrap_or(0),
        most: match input.head_limit {
            None | Some(0) => context.limits.found_lines,
            Some(most) => most,
        },
    };
    let outcome = match input.output_mode {
        Mode::Content => search.content(candidates, input.numbers, &window),
        Mode::FilesWithMatches => search.files(candidates, &window),
        Mode::Count => search.counts(candidates, &window),
    };
    if context.cancel.is_cancelled() {
        return Err(ToolOutcome::interrupted());
    }
    Ok(outcome)
}

fn matcher(input: &Input) -> Result<RegexMatcher, ToolOutcome> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case).multi_line(true);
    if input.multiline {
        builder.dot_matches_new_line(true);
    } else {
        // This search is not a multi-line search. A match must be within one line.
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|problem| {
        ToolOutcome::refused(format_args!(
            "the pattern is not a valid regular expression: {problem}"
        ))
    })
}

fn searcher(input: &Input) -> Searcher {
    let around = input.around.or(input.context).unwrap_or(0);
    let lines = |asked: Option<usize>| match input.output_mode {
        Mode::Content => asked.unwrap_or(around).min(MOST_CONTEXT),
        Mode::FilesWithMatches | Mode::Count => 0,
    };
    SearcherBuilder::new()
        .line_number(true)
        .before_context(lines(input.before))
        .after_context(lines(input.after))
        .multi_line(input.multiline)
        .heap_limit(Some(HEAP_BYTES))
        // A NUL byte means that the file is binary. The search of this file ends there.
        .binary_detection(BinaryDetection::quit(0))
        .build()
}

/// The conditions that a file must meet to be searched.
struct Filter {
    globs: Override,
    types: Types,
}

impl Filter {
    fn new(input: &Input, root: &Path) -> Result<Self, ToolOutcome> {
        let refuse = |problem: ignore::Error| ToolOutcome::refused(problem);
        let mut globs = OverrideBuilder::new(root);
        if let Some(glob) = &input.glob {
            globs.add(glob).map_err(refuse)?;
        }
        let mut types = TypesBuilder::new();
        types.add_defaults();
        if let Some(name) = &input.r#type {
            types.select(name);
        }
        Ok(Self { globs: globs.build().map_err(refuse)?, types: types.build().map_err(refuse)? })
    }

    fn admits(&self, path: &Path) -> bool {
        !self.globs.matched(path, false).is_ignore() && !self.types.matched(path, false).is_ignore()
    }
}

/// The range of results that are shown.
struct Window {
    skip: usize,
    most: usize,
}

impl Window {
    fn end(&self) -> usize {
        self.skip.saturating_add(self.most)
    }

    /// Returns a note for the model if the search has more results after the ones that are shown.
    /// Otherwise the text is empty.
    fn rest(&self, total: usize, things: &str) -> String {
        if total > self.end() {
            format!("\n[more {things}; go on with offset {}]", self.end())
        } else {
            String::new()
        }
    }
}

struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    context: &'a ToolContext,
}

/// A file that will be searched.
struct Candidate {
    path: PathBuf,
    entry: Entry,
    file: File,
}

/// Opens a found file for the search. Returns `None` if the file is not searched: it does not meet
/// the conditions, the agent is not allowed to read it, or it is too large.
fn candidate(
    entry: Entry,
    place: &Place,
    filter: &Filter,
    context: &ToolContext,
) -> Option<Candidate> {
    let path = place.path_of(&entry);
    if entry.kind != FileType::RegularFile || !filter.admits(&path) || !place.shows(&entry, context)
    {
        return None;
    }
    // A file that cannot be opened is left out of the search.
    let (file, stat) = entry.open().ok()?;
    let is_bounded =
        u64::try_from(stat.st_size).is_ok_and(|bytes| bytes <= context.limits.file_bytes);
    is_bounded.then_some(Candidate { path, entry, file })
}

impl Search<'_> {
    fn content(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        numbers: bool,
        window: &Window,
    ) -> ToolOutcome {
        let mut lines = Vec::new();
        let mut files = 0;
        let end = window.end();
        for candidate in candidates {
            let before = lines.len();
            let name = shown(&candidate.path, &self.context.cwd);
            let mut listing = Listing {
                name: &name,
                numbers,
                line_chars: self.context.limits.line_chars,
                lines: &mut lines,
                // Collect one line more than will be shown. It tells whether there are more
                // results.
                most: end.saturating_add(1),
                cancel: &self.context.cancel,
            };
            self.look_into(&candidate, &mut listing);
            files += usize::from(lines.len() > before);
            if lines.len() > end || self.context.cancel.is_cancelled() {
                break;
            }
        }
        let total = lines.len();
        let mut text = String::new();
        let mut shown_lines = 0;
        for line in lines.iter().skip(window.skip).take(window.most) {
            // Stop before the text gets too long. The model can get the remaining lines with the
            // parameter `offset`.
            if text.len() + line.len() > self.context.limits.output_chars {
                break;
            }
            text.push_str(line);
            text.push('\n');
            shown_lines += 1;
        }
        let window = Window { most: shown_lines, ..*window };
        let text = match text.trim_end() {
            "" => "No matches found".to_owned(),
            found => format!("{found}{}", window.rest(total, "lines")),
        };
        let data = json!({
            "mode": "content", "numFiles": files, "filenames": [], "content": text, "numLines": shown_lines,
        });
        ToolOutcome::done(text, data)
    }

    fn files(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        window: &Window,
    ) -> ToolOutcome {
        let mut found = Vec::new();
        for candidate in candidates {
            if self.count(&candidate, 1) > 0 {
                found.push(Found { modified: candidate.entry.modified(), path: candidate.path });
            }
        }
        newest_first(&mut found);
        let names: Vec<_> = found
            .iter()
            .skip(window.skip)
            .take(window.most)
            .map(|found| shown(&found.path, &self.context.cwd))
            .collect();
        let text = if names.is_empty() {
            "No files found".to_owned()
        } else {
            format!("{}{}", names.join("\n"), window.rest(found.len(), "files"))
        };
        let data =
            json!({"mode": "files_with_matches", "numFiles": names.len(), "filenames": names});
        ToolOutcome::done(text, data)
    }

    fn counts(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        window: &Window,
    ) -> ToolOutcome {
        let mut counts = Vec::new();
        let mut matches = 0;
        for candidate in candidates {
            let count = self.count(&candidate, u64::MAX);
            if count > 0 {
                counts.push(format!("{}:{count}", shown(&candidate.path, &self.context.cwd)));
                matches += count;
            }
        }
        let lines: Vec<_> =
            counts.iter().skip(window.skip).take(window.most).map(String::as_str).collect();
        let content = if lines.is_empty() {
            "No matches found".to_owned()
        } else {
            format!("{}{}", lines.join("\n"), window.rest(counts.len(), "files"))
        };
        let text = format!(
            "{content}\n{} in {}",
            counted(matches, "matching line"),
            counted(counts.len(), "file")
        );
        let data = json!({
            "mode": "count", "numFiles": counts.len(), "filenames": [], "content": content, "numMatches": matches,
        });
        ToolOutcome::done(text, data)
    }

    fn count(&mut self, candidate: &Candidate, most: u64) -> u64 {
        let mut counting = Counting { count: 0, most, cancel: &self.context.cancel };
        self.look_into(candidate, &mut counting);
        counting.count
    }

    fn look_into<S: grep_searcher::Sink<Error = std::io::Error>>(
        &mut self,
        candidate: &Candidate,
        sink: S,
    ) {
        if let Err(problem) = self.searcher.search_file(&self.matcher, &candidate.file, sink) {
            tracing::debug!(path = %candidate.path.display(), %problem, "a file was left out of a search");
        }
    }
}
