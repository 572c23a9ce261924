//! What the user and the project tell every agent: `CLAUDE.md`, `AGENTS.md` and what they import.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The names read in each folder, in this order.
const NAMES: [&str; 2] = ["CLAUDE.md", "AGENTS.md"];

/// All texts together may be this long; they are sent with every turn.
const TOTAL_LIMIT_BYTES: usize = 256 * 1024;

/// An import may import, this often.
const IMPORT_DEPTH: usize = 5;

/// Where to look for instructions.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSources<'a> {
    /// The agent's working folder.
    pub cwd: &'a Path,
    /// The user's home, where the walk upwards ends.
    pub home: Option<&'a Path>,
    /// The root (`~/.claude` by default), which may hold the user's own `CLAUDE.md`.
    pub root: Option<&'a Path>,
}

/// One instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The instructions found, the most general first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files, each once, an import right after the file that asks for it.
    pub files: Vec<Instruction>,
    /// What could not be read or was left out.
    pub warnings: Vec<String>,
}

impl Instructions {
    /// Reads the user's file, then those of every folder from the top of the repository (or, outside
    /// of one, from below the home folder) down to the working folder.
    #[must_use]
    pub fn load(sources: &InstructionSources<'_>) -> Self {
        let mut reader = Reader::default();
        if let Some(root) = sources.root {
            reader.add(&root.join("CLAUDE.md"), root, 0);
        }
        let folders = folders(sources);
        let top = folders.first().cloned().unwrap_or_else(|| sources.cwd.to_path_buf());
        for folder in folders {
            for name in NAMES {
                reader.add(&folder.join(name), &top, 0);
            }
        }
        reader.found
    }
}

/// The folders to read, outermost first. Outside of a repository and of the home folder only the
/// working folder counts: what lies above may be anybody's.
fn folders(sources: &InstructionSources<'_>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let is_home = |folder: &Path| sources.home == Some(folder);
    for folder in sources.cwd.ancestors() {
        if is_home(folder) && !folders.is_empty() {
            folders.reverse();
            return folders;
        }
        folders.push(folder.to_path_buf());
        if folder.join(".git").exists() {
            folders.reverse();
            return folders;
        }
    }
    vec![sources.cwd.to_path_buf()]
}

#[derive(Default)]
struct Reader {
    found: Instructions,
    seen: Vec<PathBuf>,
    total: usize,
}

impl Reader {
    /// Reads a file and what it imports; imports may not lead out of `top`.
    fn add(&mut self, path: &Path, top: &Path, depth: usize) {
        let Ok(real) = fs::canonicalize(path) else {
            if depth > 0 {
                self.warn(format!("the import {} does not exist", path.display()));
            }
            return;
        };
        let inside = fs::canonicalize(top).is_ok_and(|top| real.starts_with(top));
        if depth > 0 && !inside {
            return self.warn(format!("the import {} leads out of {}", path.display(), top.display()));
        }
        if self.seen.contains(&real) {
            return;
        }
        self.seen.push(real.clone());
        let Some(text) = self.read(&real, path) else {
            return;
        };
        let imports: Vec<PathBuf> = imports(&text).map(|import| real.with_file_name(import)).collect();
        self.found.files.push(Instruction { path: path.to_path_buf(), text });
        if depth >= IMPORT_DEPTH && !imports.is_empty() {
            return self.warn(format!("the imports of {} are nested too deeply", path.display()));
        }
        for import in imports {
            self.add(&import, top, depth + 1);
        }
    }

    fn read(&mut self, real: &Path, path: &Path) -> Option<String> {
        let room = TOTAL_LIMIT_BYTES.saturating_sub(self.total);
        let mut bytes = Vec::new();
        let limit = u64::try_from(room).unwrap_or(u64::MAX).saturating_add(1);
        let read = fs::metadata(real).and_then(|metadata| {
            if !metadata.is_file() {
                return Err(ErrorKind::InvalidInput.into());
            }
            fs::File::open(real)?.take(limit).read_to_end(&mut bytes)
        });
        if let Err(error) = read {
            self.warn(format!("cannot read the instructions {}: {error}", path.display()));
            return None;
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if text.len() > room {
            self.warn(format!("the instructions {} are cut: all together are too long", path.display()));
            let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        self.total += text.len();
        (!text.trim().is_empty()).then_some(text)
    }

    fn warn(&mut self, text: String) {
        self.found.warnings.push(text);
    }
}

/// The relative paths of `@path` lines outside of code blocks.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
        }
        let path = line.strip_prefix('@').filter(|path| !path.is_empty() && !path.contains(char::is_whitespace))?;
        (!in_code && !path.starts_with(['/', '~'])).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(dir: &Path, cwd: &str) -> (Vec<String>, Vec<String>) {
        let (cwd, home, root) = (dir.join(cwd), dir.join("home"), dir.join("home/.claude"));
        let found = Instructions::load(&InstructionSources { cwd: &cwd, home: Some(&home), root: Some(&root) });
        let name = |file: &Instruction| file.path.strip_prefix(dir).unwrap().display().to_string();
        let warnings = found.warnings.iter().map(|text| text.replace(&dir.display().to_string(), "DIR")).collect();
        (found.files.iter().map(name).collect(), warnings)
    }

    #[test]
    fn files_are_read_from_the_repository_s_top_to_the_working_folder() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "home/.claude/CLAUDE.md",
            "home/CLAUDE.md",
            "home/w/CLAUDE.md",
            "home/w/r/AGENTS.md",
            "home/w/r/CLAUDE.md",
            "home/w/r/sub/AGENTS.md",
        ] {
            write(dir.path(), name, name);
        }
        let outside = load(dir.path(), "home/w/r/sub").0;
        assert_eq!(
            outside,
            [
                "home/.claude/CLAUDE.md",
                "home/w/CLAUDE.md",
                "home/w/r/CLAUDE.md",
                "home/w/r/AGENTS.md",
                "home/w/r/sub/AGENTS.md"
            ]
        );
        fs::create_dir(dir.path().join("home/w/r/.git")).unwrap();
        let inside = load(dir.path(), "home/w/r/sub").0;
        assert_eq!(
            inside,
            ["home/.claude/CLAUDE.md", "home/w/r/CLAUDE.md", "home/w/r/AGENTS.md", "home/w/r/sub/AGENTS.md"]
        );
    }

    #[test]
    fn outside_of_home_and_repository_only_the_working_folder_counts() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "CLAUDE.md", "planted");
        write(dir.path(), "work/CLAUDE.md", "mine");
        assert_eq!(load(dir.path(), "work").0, ["work/CLAUDE.md"]);
    }

    #[test]
    fn imports_are_followed_once_and_not_out_of_the_project() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work/.git")).unwrap();
        write(dir.path(), "secret.md", "s");
        write(
            dir.path(),
            "work/CLAUDE.md",
            "@docs/a.md\n@../secret.md\n@missing.md\n```\n@docs/no.md\n```\nmail @docs/no.md\n",
        );
        write(dir.path(), "work/docs/a.md", "@b.md\n");
        write(dir.path(), "work/docs/b.md", "@a.md\n@../CLAUDE.md\n");
        write(dir.path(), "work/docs/no.md", "no");
        let (files, warnings) = load(dir.path(), "work");
        assert_eq!(files, ["work/CLAUDE.md", "work/docs/a.md", "work/docs/b.md"]);
        insta::assert_snapshot!(warnings.join("\n"), @r"
        the import DIR/work/../secret.md leads out of DIR/work
        the import DIR/work/missing.md does not exist
        ");
    }

    #[test]
    fn imports_end_at_the_fifth_level() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "work/CLAUDE.md", "@1.md");
        for level in 1..9 {
            write(dir.path(), &format!("work/{level}.md"), &format!("@{}.md", level + 1));
        }
        let (files, warnings) = load(dir.path(), "work");
        assert_eq!(files.len(), 6);
        insta::assert_snapshot!(warnings.join("\n"), @"the imports of DIR/work/5.md are nested too deeply");
    }

    #[test]
    fn the_total_is_bounded_and_cut_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "work/CLAUDE.md", &format!("x{}", "é".repeat(TOTAL_LIMIT_BYTES)));
        let cwd = dir.path().join("work");
        let found = Instructions::load(&InstructionSources { cwd: &cwd, home: None, root: None });
        let length = found.files.first().unwrap().text.len();
        assert!(length <= TOTAL_LIMIT_BYTES && length > TOTAL_LIMIT_BYTES - 4, "{length}");
        assert_eq!(found.warnings.len(), 1);
    }
}
