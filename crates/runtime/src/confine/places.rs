//! Where the kept folders are, by every path that leads to them.
//!
//! A path is more than its end: whoever can rename a folder on the way, or replace a symbolic link in it, puts another
//! folder under the same name. So all folders in which one of the names is looked up are told too, and the places
//! where another mount shows the same folder.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links a path may go through, as in the kernel.
const MOST_LINKS: usize = 40;

/// What tells a file from all others, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The kept folders and the ways to them.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The kept folders, links resolved, wherever a mount shows them; they need not exist.
    pub(super) folders: BTreeSet<PathBuf>,
    /// The folders in which a name of a way is looked up, the root of the file system first.
    pub(super) ways: BTreeSet<PathBuf>,
    /// The identities of all of these, for names that differ in case only and the like.
    pub(super) identities: BTreeSet<Identity>,
    /// Whether a symbolic link stands on a way.
    pub(super) has_links: bool,
}

impl Places {
    pub(super) fn find(folders: &[PathBuf]) -> Self {
        let mut places = Self::default();
        for folder in folders {
            places.look_up(folder);
        }
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount> = mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
        for folder in places.folders.clone() {
            for alias in aliases(&mounts, &folder) {
                places.look_up(&alias);
            }
        }
        let all = places.folders.iter().chain(&places.ways);
        places.identities = all.filter_map(|path| Identity::of(path)).collect();
        places
    }

    /// Whether the folder, links resolved, is one in which a name of a way is looked up.
    pub(super) fn is_on_the_way(&self, folder: &Path) -> bool {
        fs::canonicalize(folder).is_ok_and(|folder| self.ways.contains(&folder))
    }

    /// Walks to a folder as the system would, and takes down where it came by.
    fn look_up(&mut self, folder: &Path) {
        let mut todo: VecDeque<OsString> = names(folder).collect();
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            self.ways.insert(at.clone());
            let next = at.join(&name);
            let Ok(target) = fs::read_link(&next) else {
                at = next;
                continue;
            };
            self.has_links = true;
            links += 1;
            if links > MOST_LINKS {
                // Nobody can open it, and nobody can change a link on the way.
                return;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(name);
            }
        }
        self.folders.insert(at);
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    /// The folder of the file system that is shown.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = fields.next()?.to_vec();
        let root = unescaped(fields.next()?);
        let point = unescaped(fields.next()?);
        Some(Self { device, root, point })
    }
}

/// Reads `\040` and its like, as the kernel writes spaces.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// The other paths under which mounts show the folder.
fn aliases(mounts: &[Mount], folder: &Path) -> Vec<PathBuf> {
    let depth = |mount: &&Mount| mount.point.components().count();
    // Of those at one place the last is on top.
    let Some(own) = mounts.iter().filter(|mount| folder.starts_with(&mount.point)).max_by_key(depth) else {
        return Vec::new();
    };
    let Ok(inside) = folder.strip_prefix(&own.point) else {
        return Vec::new();
    };
    let inside = own.root.join(inside);
    let shown = |mount: &Mount| {
        let below = inside.strip_prefix(&mount.root).ok().filter(|_| mount.device == own.device)?;
        let alias = mount.point.join(below);
        let is_same = Identity::of(&alias) == Identity::of(folder);
        (is_same && alias != folder).then_some(alias)
    };
    mounts.iter().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_folders_in_which_a_name_is_looked_up_are_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("dotfiles/claude/teams")).unwrap();
        fs::create_dir(base.join("home")).unwrap();
        symlink("../dotfiles/claude", base.join("home/.claude")).unwrap();
        let places = Places::find(&[base.join("home/.claude/teams")]);
        assert!(places.folders.contains(&base.join("dotfiles/claude/teams")), "{places:?}");
        assert!(places.has_links);
        for way in ["", "home", "dotfiles", "dotfiles/claude"] {
            assert!(places.ways.contains(&base.join(way)), "{way}: {places:?}");
        }
        assert!(places.ways.contains(Path::new("/")));
    }

    #[test]
    fn a_folder_that_does_not_exist_has_its_way_all_the_same() {
        let places = Places::find(&[PathBuf::from("/no/such/../root/teams")]);
        assert!(places.folders.contains(Path::new("/no/root/teams")), "{places:?}");
        assert!(places.ways.contains(Path::new("/no/root")));
    }

    #[test]
    fn a_mount_that_shows_the_folder_elsewhere_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("teams")).unwrap();
        let mount = |device: &str, root: &Path, point: &Path| Mount {
            device: device.into(),
            root: root.to_path_buf(),
            point: point.to_path_buf(),
        };
        // `base` itself stands for a second mount of the same folder.
        let elsewhere = base.join("teams/..");
        let mounts = [
            mount("8:1", Path::new("/"), Path::new("/")),
            mount("8:1", &base, &elsewhere),
            mount("8:2", &base, Path::new("/")),
        ];
        assert_eq!(aliases(&mounts[..2], &base.join("teams")), [elsewhere.join("teams")]);
        assert_eq!(aliases(&mounts[..1], &base.join("teams")), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_escapes() {
        let line = br"36 35 98:0 /a\040b /mnt\134x rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.root, Path::new("/a b"));
        assert_eq!(mount.point, Path::new("/mnt\\x"));
        assert_eq!(Mount::parse(b""), None);
    }
}
