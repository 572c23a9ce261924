//! Finds files that hold keys in the toolchain folders of a home folder. The files are recognized
//! by their names and contents.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use super::environment;

/// Names of files that hold keys, in any folder.
const NAMES: &[&str] = &[
    ".condarc",
    ".env",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".yarnrc.yml",
    "_netrc",
    "auth.json",
    "condarc",
    "credentials",
    "credentials.toml",
    "id_ed25519",
    "id_rsa",
    "npmrc",
    "pip.conf",
    "pip.ini",
];

/// Names of files in git folders that may contain a URL with a key. Files without a key stay
/// readable, because cargo and go need them.
const OF_GIT: &[&str] = &["FETCH_HEAD", "config"];

/// Folders of installed packages, in any folder. The search skips them, because their files come
/// from the packages' authors and hold no keys of the user.
const OF_PACKAGES: &[&str] = &["dist-packages", "node_modules", "site-packages"];

/// Folders of files from the authors of packages and toolchains, each with the name of its parent
/// folder: cargo's downloaded crates, and the libraries and documents of Rust. The search skips
/// them too. They are most of the folders in a toolchain, and each run would read all of them.
const OF_AUTHORS: &[(&str, &str)] =
    &[("registry", "cache"), ("registry", "src"), ("lib", "rustlib"), ("share", "doc")];

/// Maximum number of folders searched in a toolchain. Outer folders are searched before inner ones.
const MOST_FOLDERS: usize = 4_000;

/// Maximum size of a git file that is searched for keys, in bytes.
const MOST_BYTES: u64 = 256 * 1024;

/// Returns the files with keys in a toolchain's folder. Symbolic links are not followed.
pub(super) fn in_toolchain(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), VecDeque::from([folder.to_path_buf()]));
    let mut looked_at = 0;
    while let Some(folder) = folders.pop_front().filter(|_| looked_at < MOST_FOLDERS) {
        looked_at += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_of_authors(&folder, &name) => {
                    folders.push_back(entry.path())
                }
                Ok(kind) if kind.is_file() && holds_key(&name, &entry) => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Returns true if the folder `name` in `parent` holds only files from the authors of packages and
/// toolchains. `lib/python3.12` is the standard library of Python.
fn is_of_authors(parent: &Path, name: &str) -> bool {
    let parent = parent.file_name().and_then(OsStr::to_str).unwrap_or_default();
    OF_PACKAGES.contains(&name)
        || OF_AUTHORS.contains(&(parent, name))
        || parent == "lib" && name.starts_with("python")
}

fn holds_key(name: &str, entry: &DirEntry) -> bool {
    NAMES.contains(&name)
        || name.starts_with(".env.")
        || OF_GIT.contains(&name) && has_secret(&entry.path())
}

fn has_secret(path: &Path) -> bool {
    let is_short = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.len() <= MOST_BYTES);
    // A larger file does not count as a file with a key. A file that this process cannot read does
    // not count either, because a command cannot read it.
    is_short
        && fs::read(path)
            .is_ok_and(|bytes| environment::holds_secret(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_keys_are_found_at_any_depth_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let url = "[remote \"origin\"]\nurl = https://me:hunter2@git.example/x\n";
        for (file, text, is_key) in [
            ("versions/node/v20/etc/npmrc", "", true),
            ("versions/3.12/pip.conf", "", true),
            (".condarc", "", true),
            ("global/5/.npmrc", "", true),
            ("x/.gem/credentials", "", true),
            ("a/b/c/d/e/f/g/.env", "", true),
            (".env.production", "", true),
            ("db/a/config", url, true),
            ("db/a/FETCH_HEAD", "0123 branch 'main' of https://token@git.example/x", true),
            ("db/b/config", "[remote \"origin\"]\nurl = https://git.example/x\n", false),
            ("db/b/FETCH_HEAD", "0123 branch 'main' of https://git.example/x", false),
            ("registry/index/a/.git/config", url, true),
            ("src/.env", "", true),
            ("lib/pkg/.env", "", true),
            ("lib/node_modules/p/.npmrc", "", false),
            ("registry/src/a/b-1.0/.env", "", false),
            ("toolchains/a/lib/rustlib/.env", "", false),
            ("toolchains/a/share/doc/.env", "", false),
            ("versions/3.12/lib/python3.12/.env", "", false),
            ("env", "export PATH", false),
            ("lib/credentials.py", "", false),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            assert_eq!(in_toolchain(dir.path()).contains(&path), is_key, "{file}");
        }
    }
}
