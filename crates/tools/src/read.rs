//! Read: shows a text file with line numbers.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use pitcrew_protocol::{counted, tool_name};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::files::{self, FileError, each_piece, in_background, resolve};
use super::input::{count, parse};
use super::numbered::push_line;
use super::read_log::Stamp;
use super::{Tool, ToolContext, ToolLimits, ToolOutcome};

/// The number of bytes at the start of a file that are checked for a NUL byte. As in git, a NUL
/// byte there means that the file is binary.
const SNIFFED_BYTES: usize = 8_000;

/// The extensions of pictures and documents. Read refuses such files.
const NOT_TEXT: [&str; 8] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "pdf"];

/// The tool that shows a text file with line numbers. It also records the file's content, because
/// an agent is allowed to change only files that it has read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Read;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    #[serde(default, deserialize_with = "count")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "count")]
    limit: Option<usize>,
    pages: Option<String>,
}

#[async_trait]
impl Tool for Read {
    fn name(&self) -> &str {
        tool_name::READ
    }

    fn description(&self) -> &str {
        "Shows a text file, each line with its number and a tab before it, as `cat -n` does. A relative \
         path starts from the working folder. Shows the first 2000 lines unless `offset` (the first line, \
         counted from 1) and `limit` (how many lines) say otherwise; very long lines are cut. A file must \
         be read before it can be changed with Write or Edit. Folders are listed with Glob or Bash. \
         Pictures, PDF and other binary files are not shown."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match parse::<Input>(self, input) {
            Ok(input) => in_background(context, move |context| read(&input, context)).await,
            Err(outcome) => outcome,
        }
    }
}

fn read(input: &Input, context: &ToolContext) -> Result<ToolOutcome, ToolOutcome> {
    let path = files::real_path(&resolve(&context.cwd, &input.file_path)?, context)?;
    let mut file = files::open(&path, context)?;
    if input.pages.is_some() || is_not_text(&path) {
        return Err(FileError::Binary { path }.into());
    }
    let first = input.offset.unwrap_or(1).max(1);
    let mut page = Page::new(first, input.limit, &context.limits);
    let mut hasher = Sha256::new();
    let is_whole = each_piece(&mut file, &path, &context.cancel, |piece| {
        hasher.update(piece);
        page.take(piece);
    })?;
    if !is_whole {
        return Err(ToolOutcome::interrupted());
    }
    page.end_line();
    if page.is_binary {
        return Err(FileError::Binary { path }.into());
    }
    // The hash is computed from the whole file, even if only some of its lines are shown.
    context.reads.note(path.clone(), Stamp::from_hasher(hasher));
    Ok(page.outcome(path))
}

fn is_not_text(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| NOT_TEXT.contains(&extension.to_ascii_lowercase().as_str()))
}

/// The lines that are shown. They are collected while the file is read piece by piece. Several
/// limits keep the use of memory small.
struct Page {
    first: usize,
    lines_most: usize,
    chars_most: usize,
    line_chars: usize,
    text: String,
    content: String,
    shown: usize,
    line: Vec<u8>,
    line_has_bytes: bool,
    lines: usize,
    sniffed: usize,
    is_binary: bool,
}

impl Page {
    fn new(first: usize, limit: Option<usize>, limits: &ToolLimits) -> Self {
        Self {
            first,
            lines_most: limit.unwrap_or(limits.read_lines),
            chars_most: limits.read_chars,
            line_chars: limits.line_chars,
            text: String::new(),
            content: String::new(),
            shown: 0,
            line: Vec::new(),
            line_has_bytes: false,
            lines: 0,
            sniffed: 0,
            is_binary: false,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        let unsniffed = SNIFFED_BYTES.saturating_sub(self.sniffed).min(piece.len());
        self.is_binary |= piece.iter().take(unsniffed).any(|byte| *byte == 0);
        self.sniffed += unsniffed;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (bytes, ends) = match part.strip_suffix(b"\n") {
                Some(bytes) => (bytes, true),
                None => (part, false),
            };
            // Store one character more than is shown. It tells whether the line was cut. A
            // character has at most four bytes.
            let room = ((self.line_chars + 1) * 4).saturating_sub(self.line.len());
            self.line.extend(bytes.iter().take(room));
            self.line_has_bytes = true;
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        // There is no line after the last newline of the file.
        if !self.line_has_bytes {
            return;
        }
        self.lines += 1;
        let is_wanted = self.lines >= self.first
            && self.shown < self.lines_most
            && self.text.len() < self.chars_most;
        if is_wanted {
            let line = String::from_utf8_lossy(&self.line);
            push_line(&mut self.text, self.lines, &line, self.line_chars);
            self.content.push_str(&line);
            self.content.push('\n');
            self.shown += 1;
        }
        self.line.clear();
        self.line_has_bytes = false;
    }

    fn outcome(self, path: PathBuf) -> ToolOutcome {
        let next = self.first + self.shown;
        let text = if self.lines == 0 {
            format!("{} exists but is empty.", path.display())
        } else if self.first > self.lines {
            {
                let lines = counted(self.lines, "line");
                format!("{} has {lines}; line {} is past its end.", path.display(), self.first)
            }
        } else if next <= self.lines {
            let rest = self.lines - next + 1;
            format!("{}\n[{}; go on with offset {next}]", self.text, counted(rest, "more line"))
        } else {
            self.text
        };
        let data = json!({
            "type": "text",
            "file": {
                "filePath": path,
                "content": self.content,
                "numLines": self.shown,
                "startLine": self.first,
                "totalLines": self.lines,
            },
        });
        ToolOutcome::done(text, data)
    }
}
