//! Glob: finds files whose paths match a pattern.

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use pitcrew_permission::split_pattern;
use pitcrew_protocol::{counted_is, tool_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{in_background, real_path, resolve};
use super::input::parse;
use super::search::{Found, Place, newest_first, shown};
use super::walk::{Entry, walk};
use super::{Tool, ToolContext, ToolOutcome};

/// The tool that finds files whose paths match a pattern.
#[derive(Debug, Clone, Copy, Default)]
pub struct Glob;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pattern: String,
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn name(&self) -> &str {
        tool_name::GLOB
    }

    fn description(&self) -> &str {
        "Finds files by a pattern such as `**/*.rs` or `src/{a,b}/*.toml`, below `path` or the working \
         folder. `*` stays within one folder, `**` goes through all. Lists at most 100 files, the last \
         changed first, and leaves out what git ignores and what you may not read."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match parse::<Input>(self, input) {
            Ok(input) => in_background(context, move |context| find(&input, context)).await,
            Err(outcome) => outcome,
        }
    }
}

fn find(input: &Input, context: &ToolContext) -> Result<ToolOutcome, ToolOutcome> {
    let folder = resolve(&context.cwd, input.path.as_deref().unwrap_or("."))?;
    let (folder, pattern) = split_pattern(&folder, &input.pattern);
    let place = Place { real: real_path(&folder, context)?, written: folder };
    let no_folder = || {
        ToolOutcome::refused(format_args!(
            "{} is not a folder. Relative paths start from {}",
            place.written.display(),
            context.cwd.display()
        ))
    };
    let walk = walk(&place.real, &context.cancel, no_folder)?;
    if !walk.is_of_folder() {
        return Err(no_folder());
    }
    let matcher = matcher(&pattern)?;
    let is_wanted =
        |entry: &Entry| matcher.is_match(&entry.relative) && place.shows(entry, context);
    let found = |entry: Entry| Found { path: place.path_of(&entry), modified: entry.modified() };
    let mut files: Vec<Found> = walk.filter(is_wanted).map(found).collect();
    if context.cancel.is_cancelled() {
        return Err(ToolOutcome::interrupted());
    }
    newest_first(&mut files);
    Ok(outcome(&files, context))
}

fn outcome(files: &[Found], context: &ToolContext) -> ToolOutcome {
    let most = context.limits.found_files;
    let names: Vec<_> =
        files.iter().take(most).map(|found| shown(&found.path, &context.cwd)).collect();
    let is_truncated = files.len() > most;
    let mut text = if names.is_empty() { "No files found".to_owned() } else { names.join("\n") };
    if is_truncated {
        let rest = files.len() - most;
        text.push_str(&format!(
            "\n[{} not shown; use a narrower pattern or path]",
            counted_is(rest, "more file")
        ));
    }
    let data = json!({"filenames": names, "numFiles": names.len(), "truncated": is_truncated});
    ToolOutcome::done(text, data)
}

fn matcher(pattern: &str) -> Result<GlobMatcher, ToolOutcome> {
    GlobBuilder::new(pattern)
        // `*` does not match `/`. It therefore matches only within one folder name or file name.
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|problem| {
            ToolOutcome::refused(format_args!("the pattern is not valid: {problem}"))
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(pattern: &str) -> (String, String) {
        let (folder, rest) = split_pattern(Path::new("/project"), pattern);
        (folder.display().to_string(), rest)
    }

    #[test]
    fn the_folders_a_pattern_begins_with_are_walked_directly() {
        let pair = |folder: &str, rest: &str| (folder.to_owned(), rest.to_owned());
        assert_eq!(check("**/*.rs"), pair("/project", "**/*.rs"));
        assert_eq!(check("src/a/*.rs"), pair("/project/src/a", "*.rs"));
        assert_eq!(check("./src/lib.rs"), pair("/project/src", "lib.rs"));
        assert_eq!(check("/etc/**/x"), pair("/etc", "**/x"));
        assert_eq!(check("../other/{a,b}"), pair("/project/../other", "{a,b}"));
    }

    #[test]
    fn a_star_stays_within_one_folder() {
        let matcher = matcher("*.rs").unwrap();
        assert!(matcher.is_match("a.rs"));
        assert!(!matcher.is_match("a/b.rs"));
    }
}
