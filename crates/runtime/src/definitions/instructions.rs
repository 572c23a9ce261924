//! Instructions of the user and the project for every agent: `CLAUDE.md`, `AGENTS.md` and the files
//! that these two import.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::{Given, Refused};

/// The file names read in each folder, in this order.
const NAMES: [&str; 2] = ["CLAUDE.md", "AGENTS.md"];

/// Maximum total size of all instruction texts. The texts are sent to the model with every turn.
const TOTAL_LIMIT_BYTES: usize = 256 * 1024;

/// Maximum size of one instruction file. Real instruction files are much smaller.
const FILE_LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum depth of nested imports.
const IMPORT_DEPTH: usize = 5;

/// The folders that are searched for instruction files.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSources<'a> {
    /// The agent's working folder.
    pub cwd: &'a Path,
    /// The user's home folder. The search goes from the working folder upwards and stops at the
    /// home folder.
    pub home: Option<&'a Path>,
    /// The root folder (`~/.claude` by default). It may contain the user's own `CLAUDE.md`.
    pub root: Option<&'a Path>,
}

/// One instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The path of the file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
}

/// The instructions that were found, from the most general to the most specific.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files, each listed once. An imported file follows the file that imports it.
    pub files: Vec<Instruction>,
    /// Messages about files that could not be read or were left out.
    pub warnings: Vec<String>,
}

impl Instructions {
    /// Reads the user's own file first. Then reads the files of each folder, from the repository's
    /// top folder down to the working folder. Outside a repository, the first folder is the one
    /// just below the home folder.
    #[must_use]
    pub fn load(sources: &InstructionSources<'_>) -> Self {
        let mut reader = Reader::default();
        if let Some(root) = sources.root {
            reader.add(
                &root.join("CLAUDE.md"),
                &Place { top: root.to_path_buf(), is_user_s: true },
                0,
            );
        }
        for (folder, top) in folders(sources) {
            let place = Place { top, is_user_s: false };
            for name in NAMES {
                reader.add(&folder.join(name), &place, 0);
            }
        }
        reader.found
    }
}

/// Where a group of instruction files comes from: their owner, and the folder that their imports
/// and links must not leave. Only the user's own file may be a link.
struct Place {
    top: PathBuf,
    is_user_s: bool,
}

/// Returns the folders to read, outermost first. Each comes with its limit: the folder that its
/// imports and links must not leave. Inside a repository, the limit is the repository's top folder.
/// Outside a repository, or if the repository contains the user's whole home folder, the limit is
/// the folder itself. Outside both a repository and the home folder, only the working folder is
/// read, because other users may own the folders above it.
fn folders(sources: &InstructionSources<'_>) -> Vec<(PathBuf, PathBuf)> {
    let mut folders: Vec<&Path> = Vec::new();
    let alone = |folder: &Path| (folder.to_path_buf(), folder.to_path_buf());
    for folder in sources.cwd.ancestors() {
        // Outside a repository, stop below the home folder.
        if sources.home == Some(folder) && !folders.is_empty() {
            return folders.into_iter().rev().map(alone).collect();
        }
        folders.push(folder);
        if folder.join(".git").symlink_metadata().is_ok() {
            let holds_home = sources.home.is_some_and(|home| home.starts_with(folder));
            let place = |each: &Path| {
                if holds_home { alone(each) } else { (each.to_path_buf(), folder.to_path_buf()) }
            };
            return folders.into_iter().rev().map(place).collect();
        }
    }
    vec![alone(sources.cwd)]
}

#[derive(Default)]
struct Reader {
    found: Instructions,
    seen: Vec<PathBuf>,
    total: usize,
}

impl Reader {
    /// Reads a file and the files that it imports. Imports must not leave the folder that `place`
    /// names.
    fn add(&mut self, path: &Path, place: &Place, depth: usize) {
        let top = place.top.canonicalize().unwrap_or_else(|_| place.top.clone());
        let tops = [top];
        let given = if place.is_user_s && depth == 0 { Given::ByUser } else { Given::Below(&tops) };
        let real = match given.real(path) {
            Ok(real) => real,
            // Most folders have no instruction file, so a missing instruction file is not an error.
            Err(Refused::Io(_)) if depth == 0 => return,
            Err(Refused::Io(_)) => {
                return self.warn(format!("the import {} does not exist", path.display()));
            }
            Err(refused) => return self.refuse(path, depth, &refused),
        };
        // Files can import each other, so read each file only once.
        if self.seen.contains(&real) {
            return;
        }
        self.seen.push(real.clone());
        let text = match given.read(path, FILE_LIMIT_BYTES) {
            Ok(bytes) => self.fitted(path, &bytes.unwrap_or_default()),
            Err(refused) => return self.refuse(path, depth, &refused),
        };
        let Some(text) = text else { return };
        let imports: Vec<PathBuf> =
            imports(&text).map(|import| real.with_file_name(import)).collect();
        self.found.files.push(Instruction { path: path.to_path_buf(), text });
        if depth >= IMPORT_DEPTH && !imports.is_empty() {
            return self.warn(format!("the imports of {} are nested too deeply", path.display()));
        }
        for import in imports {
            self.add(&import, place, depth + 1);
        }
    }

    /// Returns as much of the text as the total limit still allows.
    fn fitted(&mut self, path: &Path, bytes: &[u8]) -> Option<String> {
        let room = TOTAL_LIMIT_BYTES.saturating_sub(self.total);
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        if text.len() > room {
            self.warn(format!(
                "the instructions {} are cut: all together are too long",
                path.display()
            ));
            // `truncate` panics if the position is inside a character.
            let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        self.total += text.len();
        (!text.trim().is_empty()).then_some(text)
    }

    fn refuse(&mut self, path: &Path, depth: usize, refused: &Refused) {
        let what = if depth == 0 { "instructions" } else { "import" };
        self.warn(format!("left out the {what} {}: {refused}", path.display()));
    }

    fn warn(&mut self, text: String) {
        self.found.warnings.push(text);
    }
}

/// Finds the relative paths in `@path` lines, except inside code blocks.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        // A line such as `@path` in a code block is an example and not an import.
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
        }
        let path = line
            .strip_prefix('@')
            .filter(|path| !path.is_empty() && !path.contains(char::is_whitespace))?;
        // An import must stay in the project, so ignore absolute paths and paths that start with
        // `~`.
        (!in_code && !path.starts_with(['/', '~'])).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(dir: &Path, cwd: &str) -> (Vec<String>, Vec<String>) {
        let (cwd, home, root) = (dir.join(cwd), dir.join("home"), dir.join("home/.claude"));
        let found = Instructions::load(&InstructionSources {
            cwd: &cwd,
            home: Some(&home),
            root: Some(&root),
        });
        let name = |file: &Instruction| file.path.strip_prefix(dir).unwrap().display().to_string();
        let warnings = found
            .warnings
            .iter()
            .map(|text| text.replace(&dir.display().to_string(), "DIR"))
            .collect();
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
            [
                "home/.claude/CLAUDE.md",
                "home/w/r/CLAUDE.md",
                "home/w/r/AGENTS.md",
                "home/w/r/sub/AGENTS.md"
            ]
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
        left out the import DIR/work/../secret.md: it is a link to DIR/secret.md, outside DIR/work
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
