//! Resolves paths to the files that the system will open, and matches gitignore patterns against
//! them.
//!
//! Resolving reads symbolic links from the file system and changes nothing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pitcrew_process::pieces;
use pitcrew_process::protected::{LOOSE_REPOSITORY, protected_at};
use pitcrew_process::worktree::BELOW_ROOT;

/// Maximum number of symbolic links in one path. The kernel has the same limit.
const LINK_LIMIT: usize = 40;

/// The folder with a project's settings.
pub(crate) const CONFIG_FOLDER: &str = ".claude";

/// The files and folders in `.claude` that control the permissions of agents, or that contain
/// programs which run outside any sandbox.
const DECIDING: [&str; 4] = ["settings.json", "settings.local.json", "agents", "hooks"];

/// A file name that no pattern contains literally. A pattern that matches this name in a folder
/// matches any file in that folder.
const ANY_CHILD: &str = "\u{1}";

/// Resolves a path in the same way as the system. Resolves `.`, `..` and every symbolic link,
/// including dangling links. Parts that do not exist yet stay as written. Returns `None` if the
/// links form a loop.
pub fn resolve(cwd: &Path, path: &Path) -> Option<PathBuf> {
    let mut todo: VecDeque<OsString> = pieces(&cwd.join(path)).collect();
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(piece) = todo.pop_front() {
        if piece == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&piece);
        // The name is not a symbolic link or does not exist, so keep it as written.
        let Ok(target) = fs::read_link(&next) else {
            resolved = next;
            continue;
        };
        links += 1;
        if links > LINK_LIMIT {
            return None;
        }
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for piece in pieces(&target).collect::<Vec<_>>().into_iter().rev() {
            todo.push_front(piece);
        }
    }
    Some(resolved)
}

/// Makes a path absolute and removes `.` and `..` from its text, without reading the file system.
pub(crate) fn lexical(cwd: &Path, path: &Path) -> PathBuf {
    let mut flat = PathBuf::from("/");
    for piece in pieces(&cwd.join(path)) {
        if piece == ".." {
            flat.pop();
        } else {
            flat.push(piece);
        }
    }
    flat
}

/// Replaces a leading `~/` by the home folder. Other tildes stay unchanged.
pub fn expand_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

/// The path pattern of a rule. It consists of a base folder and a gitignore pattern that applies
/// below this folder.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    base: Base,
    matcher: Gitignore,
    /// The only path below the base folder that the pattern names, if it has no wildcard. It is
    /// empty if the pattern names the whole base folder.
    exact: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum Base {
    /// A path relative to the working folder of the call.
    Cwd(PathBuf),
    Fixed(PathBuf),
}

/// Reason why a path pattern is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern is empty")]
    Empty,
    #[error("the pattern cannot start with `!`")]
    Negated,
    #[error("the pattern contains a control character")]
    Control,
    #[error("`..` is allowed only at the start of the pattern")]
    Parent,
    #[error("`~` needs a home folder, but none is known")]
    NoHome,
    #[error("`/path` needs the settings file's folder, but none is known")]
    NoFolder,
    #[error("the pattern does not parse")]
    Glob(#[source] ignore::Error),
}

impl PathPattern {
    /// Parses a path pattern: `//absolute`, `~/in the home folder`, `/relative to the settings`, or
    /// a relative path with or without `./`.
    pub(crate) fn parse(
        text: &str,
        settings_folder: Option<&Path>,
        home: Option<&Path>,
    ) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.starts_with('!') {
            return Err(PatternError::Negated);
        }
        if text.chars().any(char::is_control) {
            return Err(PatternError::Control);
        }
        let (base, rest, anchored) = Self::split(text, settings_folder, home)?;
        if rest.split('/').any(|piece| piece == "..") {
            return Err(PatternError::Parent);
        }
        let (base, line) = if anchored { sink_literals(base, &rest) } else { (base, rest) };
        let mut builder = GitignoreBuilder::new("/");
        builder.add_line(None, &line).map_err(PatternError::Glob)?;
        let matcher = builder.build().map_err(PatternError::Glob)?;
        let exact = if anchored { exact(&line) } else { None };
        Ok(Self { base, matcher, exact })
    }

    fn split(
        text: &str,
        settings_folder: Option<&Path>,
        home: Option<&Path>,
    ) -> Result<(Base, String, bool), PatternError> {
        if let Some(rest) = text.strip_prefix("//") {
            return Ok((Base::Fixed(PathBuf::from("/")), rest.to_owned(), true));
        }
        if let Some(rest) = text.strip_prefix("~/") {
            let home = home.ok_or(PatternError::NoHome)?;
            return Ok((Base::Fixed(home.to_path_buf()), rest.to_owned(), true));
        }
        if let Some(rest) = text.strip_prefix('/') {
            let folder = settings_folder.ok_or(PatternError::NoFolder)?;
            return Ok((Base::Fixed(folder.to_path_buf()), rest.to_owned(), true));
        }
        let mut below = PathBuf::new();
        let mut rest = text;
        loop {
            if let Some(shorter) = rest.strip_prefix("./") {
                rest = shorter;
            } else if let Some(shorter) = rest.strip_prefix("../") {
                below.push("..");
                rest = shorter;
            } else {
                break;
            }
        }
        let rest = if rest == "." || rest.is_empty() { "**" } else { rest };
        // As in a gitignore file, a slash that is not at the end anchors the pattern to its folder.
        let anchored = text.starts_with('.') && rest.len() < text.len()
            || rest.trim_end_matches('/').contains('/') && !rest.starts_with("**/");
        Ok((Base::Cwd(below), rest.to_owned(), anchored))
    }

    /// Returns true if the pattern may match the path, as written or resolved. Used for deny and
    /// ask rules.
    pub(crate) fn touches(&self, cwd: &Path, target: &Target) -> bool {
        let base = self.base_path(cwd);
        let bases = [Some(lexical(cwd, &base)), resolve(cwd, &base)];
        let paths = [Some(&target.written), target.resolved.as_ref()];
        let below = |path: &Path| {
            bases
                .iter()
                .flatten()
                .filter_map(|base| path.strip_prefix(base).ok())
                .any(|rest| self.hits(rest))
        };
        paths.into_iter().flatten().any(|path| below(path))
    }

    /// Returns true if the pattern certainly matches the resolved path. Used for allow rules.
    pub(crate) fn covers(&self, cwd: &Path, target: &Target) -> bool {
        let (Some(base), Some(path)) = (resolve(cwd, &self.base_path(cwd)), &target.resolved)
        else {
            return false;
        };
        path.strip_prefix(base).is_ok_and(|rest| self.hits(rest))
    }

    /// Returns true if the pattern may match a file below the folder. Used for tools that search a
    /// whole folder tree.
    pub(crate) fn may_lie_below(&self, cwd: &Path, folder: &Target) -> bool {
        let base = self.base_path(cwd);
        let bases = [Some(lexical(cwd, &base)), resolve(cwd, &base)];
        let folders = [Some(&folder.written), folder.resolved.as_ref()];
        let related = |base: &PathBuf| {
            folders.iter().flatten().any(|dir| base.starts_with(dir) || dir.starts_with(base))
        };
        bases.iter().flatten().any(related)
    }

    /// Returns true if the pattern matches a path below one of the given base folders. The path
    /// must not contain symbolic links.
    pub(crate) fn speaks_of(&self, bases: &[PathBuf], path: &Path) -> bool {
        bases.iter().filter_map(|base| path.strip_prefix(base).ok()).any(|rest| self.hits(rest))
    }

    /// Returns the pattern's base folder twice: as written and with symbolic links resolved.
    pub(crate) fn bases(&self, cwd: &Path) -> Vec<PathBuf> {
        let base = self.base_path(cwd);
        let mut bases = vec![lexical(cwd, &base)];
        bases.extend(resolve(cwd, &base).filter(|resolved| !bases.contains(resolved)));
        bases
    }

    /// Returns the paths that the pattern names without a wildcard. They need not exist.
    pub(crate) fn exact_paths(&self, cwd: &Path) -> Vec<PathBuf> {
        let below = |exact: &PathBuf| {
            let bases = self.bases(cwd);
            let paths = bases.into_iter().map(|base| match exact.as_os_str().is_empty() {
                true => base,
                false => base.join(exact),
            });
            // A whole working folder is no file that a command could make.
            paths.filter(|path| !cwd.starts_with(path)).collect()
        };
        self.exact.as_ref().map(below).unwrap_or_default()
    }

    fn base_path(&self, cwd: &Path) -> PathBuf {
        match &self.base {
            Base::Cwd(below) => cwd.join(below),
            Base::Fixed(path) => path.clone(),
        }
    }

    fn hits(&self, rest: &Path) -> bool {
        let path = Path::new("/").join(rest);
        let matched = |path: &Path, is_dir| {
            self.matcher.matched_path_or_any_parents(path, is_dir).is_ignore()
        };
        // It is not known whether the path is a file or a folder, so try the path as a file and as
        // a folder. The third call makes a pattern `folder/**` also match the folder itself.
        matched(&path, false) || matched(&path, true) || matched(&path.join(ANY_CHILD), false)
    }
}

/// Returns the path that an anchored pattern names below its base, or `None` if the pattern has a
/// wildcard. The pattern `/**` names the base itself.
fn exact(line: &str) -> Option<PathBuf> {
    let path = line.trim_start_matches('/');
    if path == "**" {
        return Some(PathBuf::new());
    }
    let is_plain = !path.contains(['*', '?', '[', '{', '\\', ' ']);
    is_plain.then(|| PathBuf::from(path.trim_end_matches('/')))
}

/// Moves the leading folders without wildcards from an anchored pattern to its base. When the base
/// is resolved, symbolic links among these folders are resolved too.
fn sink_literals(base: Base, rest: &str) -> (Base, String) {
    let mut pieces: Vec<&str> =
        rest.split('/').filter(|piece| !piece.is_empty() && *piece != ".").collect();
    let plain = |piece: &&&str| !piece.contains(['*', '?', '[', '{', '\\', ' ']);
    let last = pieces.len().saturating_sub(1);
    let literal = pieces.iter().take(last).take_while(plain).count();
    let rest: Vec<&str> = pieces.split_off(literal);
    let deeper: PathBuf = pieces.iter().collect();
    let tail = if rest.is_empty() { "**".to_owned() } else { rest.join("/") };
    let base = match base {
        Base::Cwd(below) => Base::Cwd(below.join(deeper)),
        Base::Fixed(path) => Base::Fixed(path.join(deeper)),
    };
    (base, format!("/{tail}"))
}

/// A path in a call, as written and with symbolic links resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub written: PathBuf,
    /// The path with symbolic links resolved. `None` if the links form a loop.
    pub resolved: Option<PathBuf>,
}

impl Target {
    pub(crate) fn new(cwd: &Path, path: &Path) -> Self {
        Self { written: lexical(cwd, path), resolved: resolve(cwd, path) }
    }

    /// Returns true if the path contains a symbolic link. Links in the path of the working folder
    /// itself do not count.
    pub(crate) fn is_by_link(&self, cwd: &Path) -> bool {
        let Some(resolved) = &self.resolved else { return true };
        let below_cwd =
            || Some(resolve(cwd, Path::new(""))?.join(self.written.strip_prefix(cwd).ok()?));
        // Compare by components, because joining with an empty path adds a trailing slash, which
        // must not make a difference.
        *resolved != self.written
            && below_cwd().is_none_or(|plain| !plain.iter().eq(resolved.iter()))
    }

    /// Returns true if the resolved path is inside one of the folders. Symbolic links in the
    /// folders' paths are resolved too.
    pub(crate) fn is_inside<'a>(
        &self,
        cwd: &Path,
        folders: impl IntoIterator<Item = &'a Path>,
    ) -> bool {
        let Some(path) = &self.resolved else { return false };
        let holds =
            |folder: &Path| resolve(cwd, folder).is_some_and(|folder| path.starts_with(folder));
        folders.into_iter().any(holds)
    }

    /// Returns true if the path is a protected file or folder, or is inside a protected folder. A
    /// file or folder is protected if it controls permissions or is run automatically. The sandbox
    /// profile *work* also protects such files and folders. Worktrees below the configuration
    /// folder are exempt.
    pub(crate) fn steers_tools(&self) -> bool {
        let by_name = self.goes_through(|name, rest| {
            let is_worktree =
                || name.eq_ignore_ascii_case(CONFIG_FOLDER) && rest.starts_with(BELOW_ROOT);
            name.eq_ignore_ascii_case(".git")
                || protected_at(name, rest).is_some() && !is_worktree()
        });
        by_name || self.makes_repository()
    }

    /// Returns true if creating the path could make git treat a folder above the path as a
    /// repository, although this folder has no `.git`. Git would obey the configuration in such a
    /// folder.
    fn makes_repository(&self) -> bool {
        [Some(&self.written), self.resolved.as_ref()].into_iter().flatten().any(|path| {
            path.ancestors().skip(1).any(|folder| {
                let part = path.strip_prefix(folder).ok().and_then(|rest| rest.iter().next());
                let has = |name: &str| {
                    part.is_some_and(|part| part.eq_ignore_ascii_case(name))
                        || folder.join(name).symlink_metadata().is_ok()
                };
                // This test accepts more folders than git does. To use a folder as a repository,
                // git may need more than `HEAD` and one of the names in `LOOSE_REPOSITORY`.
                has("HEAD") && LOOSE_REPOSITORY.iter().any(|name| has(name)) && !has(".git")
            })
        })
    }

    /// Returns true if a later run, of any project, would read its agents' permissions from this
    /// path. Names are compared without regard to case.
    pub(crate) fn decides(&self) -> bool {
        let is_deciding = |name: &OsStr| DECIDING.iter().any(|it| name.eq_ignore_ascii_case(it));
        self.goes_through(|name, rest| {
            name.eq_ignore_ascii_case(CONFIG_FOLDER) && rest.iter().next().is_none_or(is_deciding)
        })
    }

    /// Returns true if `is_such` is true for any component of the path, written or resolved. The
    /// function `is_such` gets the component and the rest of the path after it.
    fn goes_through(&self, is_such: impl Fn(&OsStr, &Path) -> bool) -> bool {
        let paths = [Some(&self.written), self.resolved.as_ref()];
        paths.into_iter().flatten().any(|path| {
            let mut names = path.iter();
            std::iter::from_fn(|| Some((names.next()?, names.as_path())))
                .any(|(name, rest)| is_such(name, rest))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn touches(pattern: &str, cwd: &Path, path: &str) -> bool {
        let pattern =
            PathPattern::parse(pattern, Some(Path::new("/settings")), Some(Path::new("/home/me")))
                .unwrap();
        pattern.touches(cwd, &Target::new(cwd, Path::new(path)))
    }

    #[test]
    fn each_kind_of_pattern_starts_where_it_says() {
        let cwd = Path::new("/code/app");
        for (pattern, path, expected) in [
            ("//etc/**", "/etc/passwd", true),
            ("//etc/**", "etc/passwd", false),
            ("~/.ssh/**", "/home/me/.ssh/id", true),
            ("~/.ssh/**", ".ssh/id", false),
            ("/src/**", "/settings/src/a", true),
            ("/src/**", "src/a", false),
            ("./secrets/**", "secrets/a/b", true),
            ("./secrets/**", "sub/secrets/a", false),
            ("secrets/**", "secrets/a", true),
            ("secrets/**", "secrets", true),
            ("*.env", "deep/down/x.env", true),
            (".env", "deep/.env", true),
            ("./.env", "deep/.env", false),
            ("../common/*.txt", "/code/common/a.txt", true),
            ("src", "src/deep/file.rs", true),
            ("**/key.pem", "a/b/key.pem", true),
            ("src/**/*.rs", "src/a/b.rs", true),
            ("src/**/*.rs", "src/a/b.RS", false),
        ] {
            assert_eq!(touches(pattern, cwd, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn detours_do_not_slip_by() {
        let cwd = Path::new("/code/app");
        for path in [
            "secrets/../secrets/x",
            "./././secrets/x",
            "/code/app/secrets/x",
            "../app/secrets/x",
            "a/../secrets//x",
        ] {
            assert!(touches("./secrets/**", cwd, path), "{path}");
        }
    }

    #[test]
    fn symbolic_links_are_followed_on_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir_all(real.join("secrets")).unwrap();
        fs::write(real.join("secrets/key"), "k").unwrap();
        symlink(&real, dir.path().join("alias")).unwrap();
        symlink(real.join("secrets"), real.join("innocent")).unwrap();
        symlink("secrets/not-yet", real.join("dangling")).unwrap();
        let alias = dir.path().join("alias");
        for cwd in [&real, &alias] {
            assert!(touches("./secrets/**", cwd, "innocent/key"));
            assert!(touches("./secrets/**", cwd, "dangling"));
            assert!(touches("innocent/**", cwd, "secrets/key"));
        }
        let inside = Target::new(&alias, Path::new("secrets/key"));
        assert!(inside.is_inside(&alias, [real.as_path()]));
    }

    #[test]
    fn a_link_in_a_path_is_noticed_but_not_one_above_the_working_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("real/d")).unwrap();
        symlink(root.join("real"), root.join("cwd")).unwrap();
        symlink("d", root.join("real/link")).unwrap();
        let is_by_link = |path: &str| {
            Target::new(&root.join("cwd"), Path::new(path)).is_by_link(&root.join("cwd"))
        };
        for (path, expected) in [
            ("d/x", false),
            ("new/x", false),
            (".", false),
            ("link/x", true),
            ("link", true),
            ("link/../x", false),
        ] {
            assert_eq!(is_by_link(path), expected, "{path}");
        }
        let outside = root.join("real/d/x");
        assert!(!is_by_link(outside.to_str().unwrap()));
    }

    #[test]
    fn dots_are_taken_after_the_link_as_the_system_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink(root.join("a/b"), root.join("link")).unwrap();
        assert_eq!(resolve(&root, Path::new("link/../x")), Some(root.join("a/x")));
        symlink(root.join("loop"), root.join("loop")).unwrap();
        assert_eq!(resolve(&root, Path::new("loop/x")), None);
    }

    #[test]
    fn bad_patterns_are_refused() {
        for pattern in ["", "!src", "a/../b", "a\0b"] {
            assert!(PathPattern::parse(pattern, None, None).is_err(), "{pattern:?}");
        }
        assert!(matches!(PathPattern::parse("~/x", None, None), Err(PatternError::NoHome)));
        assert!(matches!(PathPattern::parse("/x", None, None), Err(PatternError::NoFolder)));
    }

    #[test]
    fn a_tree_that_may_hold_a_match_is_told_apart() {
        let cwd = Path::new("/code/app");
        let pattern = PathPattern::parse("./secrets/**", None, None).unwrap();
        let below = |path: &str| pattern.may_lie_below(cwd, &Target::new(cwd, Path::new(path)));
        assert!(below("."));
        assert!(below("/"));
        assert!(below("secrets/deep"));
        assert!(!below("src"));
    }
}
