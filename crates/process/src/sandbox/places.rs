//! Finds the protected folders and files, and every path that leads to them.
//!
//! To protect a path, protecting its last component is not enough. If somebody renames a folder on
//! the path or replaces a symbolic link on the path, the same path leads to another folder.
//! Therefore this module also finds all folders on the paths, and the places where another mount
//! shows the same folder.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Stat};

use crate::pieces;

/// Maximum number of symbolic links in a path. The kernel has the same limit.
const MOST_LINKS: usize = 40;

/// Identifies a file, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// The configuration root, the protected files in it, and the folders on the paths to these files.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The paths of the configuration root, with symbolic links resolved: its own path and each
    /// path at which a mount shows the same folder. The root need not exist.
    pub(super) roots: BTreeSet<PathBuf>,
    /// The paths of the protected files and folders, with symbolic links resolved: their own paths
    /// and each path at which a mount shows them. The files and folders need not exist.
    pub(super) kept: BTreeSet<PathBuf>,
    /// All folders on the paths to protected files, starting with the root of the file system.
    pub(super) ways: BTreeSet<PathBuf>,
    /// Unprotected folders inside protected folders.
    pub(super) open: BTreeSet<PathBuf>,
    /// The symbolic links on the paths to protected files.
    links: BTreeSet<PathBuf>,
    /// The identities of protected files and of the folders on their paths. An identity reveals the
    /// same file under another name, such as a name that differs only in case.
    identities: BTreeSet<Identity>,
}

impl Places {
    /// Finds the protected files and folders, which are the entries `names` directly below the
    /// configuration root `root`. The folders `open` inside these entries are not protected.
    pub(super) fn find(root: &Path, names: &[&str], open: &[&str]) -> Self {
        let mut places = Self::default();
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount> =
            mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
        if let Some(root) = places.walk(root) {
            // The root can be changed through every mount that shows it, so protect each of these
            // paths.
            let shown = aliases(&mounts, &root);
            places.roots.insert(root);
            places.roots.extend(shown);
        }
        for root in places.roots.clone() {
            places.walk(&root);
            places.ways.insert(root.clone());
            names.iter().for_each(|name| places.keep(&root.join(name)));
            let open = open.iter().map(|name| root.join(name));
            places
                .open
                .extend(open.filter(|path| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir())));
        }
        for kept in places.kept.clone() {
            aliases(&mounts, &kept).iter().for_each(|alias| places.keep(alias));
        }
        // Every folder inside a protected folder is already protected. Remove such folders from
        // `ways`, even if a path to another protected file leads through them.
        let Self { kept, ways, .. } = &mut places;
        ways.retain(|way| !kept.iter().any(|kept| way.starts_with(kept)));
        let all = places.kept.iter().chain(&places.ways);
        places.identities = all.filter_map(|path| Identity::of(path)).collect();
        places
    }

    /// Returns the places with further protected files.
    pub(super) fn holding(mut self, files: &BTreeSet<PathBuf>) -> Self {
        files.iter().for_each(|file| self.keep(file));
        self
    }

    /// Returns true if the folder is on the path to a protected file. Symbolic links in `folder`
    /// are resolved first.
    pub(super) fn is_on_the_way(&self, folder: &Path) -> bool {
        fs::canonicalize(folder).is_ok_and(|folder| self.ways.contains(&folder))
    }

    /// Returns true if the folder is the configuration root. Symbolic links in `folder` are
    /// resolved first.
    pub(super) fn is_root(&self, folder: &Path) -> bool {
        fs::canonicalize(folder).is_ok_and(|folder| self.roots.contains(&folder))
    }

    /// Returns true if a path without symbolic links is protected. Upper and lower case are not
    /// distinguished.
    pub(super) fn is_kept(&self, path: &Path) -> bool {
        let folded = |path: &Path| path.to_string_lossy().to_lowercase();
        self.kept.iter().any(|kept| folded(kept) == folded(path))
            || Identity::of(path)
                .is_some_and(|it| self.identities.contains(&it) && !self.ways.contains(path))
    }

    /// Returns true if a file is protected or is a folder on the path to a protected file. The path
    /// must not contain symbolic links. `identity` is the identity of the file. By the identity,
    /// the file is found even if it is known under another path.
    pub(super) fn holds(&self, path: &Path, identity: Identity) -> bool {
        self.kept.contains(path) || self.ways.contains(path) || self.identities.contains(&identity)
    }

    /// Returns true if a symbolic link on a path could be replaced. Links directly below the
    /// configuration root cannot be replaced, because the root is read-only.
    pub(super) fn has_loose_links(&self) -> bool {
        self.links
            .iter()
            .any(|link| link.parent().is_none_or(|folder| !self.roots.contains(folder)))
    }

    /// Adds a path to the protected paths, together with the folders on the way to it. Some
    /// configuration managers put a symbolic link at the path of a protected file. If only other
    /// users can change the target of the link, nothing is added for the target, because only the
    /// link itself needs protection.
    fn keep(&mut self, path: &Path) {
        let mut trail = Self::default();
        let Some(end) = trail.walk(path) else {
            return;
        };
        let mut beyond =
            trail.ways.iter().filter(|way| !self.roots.iter().any(|root| root.starts_with(way)));
        if end != path && beyond.all(|way| is_others(way)) && is_others(&end) {
            return;
        }
        self.ways.append(&mut trail.ways);
        self.links.append(&mut trail.links);
        self.kept.insert(end);
    }

    /// Follows a path like the kernel, and records the folders and symbolic links on the way.
    /// Returns the final target of the path.
    fn walk(&mut self, path: &Path) -> Option<PathBuf> {
        let mut todo: VecDeque<OsString> = pieces(path).collect();
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
            self.links.insert(next);
            links += 1;
            if links > MOST_LINKS {
                // The path has too many links, so the kernel does not open it either.
                return None;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in pieces(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(name);
            }
        }
        Some(at)
    }
}

/// Returns the final target of a path with symbolic links resolved, and the links on the way. The
/// target is `None` if there are too many links.
pub(crate) fn trail(path: &Path) -> (Option<PathBuf>, BTreeSet<PathBuf>) {
    let mut places = Places::default();
    let end = places.walk(path);
    (end, places.links)
}

/// Returns true if the file belongs to other users, so that no process of this user can change it
/// or make it writable.
fn is_others(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return true;
    };
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    !is_own
        && rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_err()
}

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    /// The folder inside the mounted file system that is visible at the mount point.
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

/// Decodes escapes such as `\040`, which the kernel writes for a space.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
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

/// Returns the other paths at which mounts show `folder`.
fn aliases(mounts: &[Mount], folder: &Path) -> Vec<PathBuf> {
    let depth = |mount: &&Mount| mount.point.components().count();
    // The mount with the deepest mount point shows the folder. If several mounts have the same
    // mount point, the last one is visible.
    let Some(own) =
        mounts.iter().filter(|mount| folder.starts_with(&mount.point)).max_by_key(depth)
    else {
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
        let places = Places::find(&base.join("home/.claude"), &["teams"], &[]);
        assert_eq!(places.roots, BTreeSet::from([base.join("dotfiles/claude")]));
        assert!(places.kept.contains(&base.join("dotfiles/claude/teams")), "{places:?}");
        assert!(places.has_loose_links());
        for way in ["", "home", "dotfiles", "dotfiles/claude"] {
            assert!(places.ways.contains(&base.join(way)), "{way}: {places:?}");
        }
        assert!(places.ways.contains(Path::new("/")));
    }

    #[test]
    fn a_folder_that_does_not_exist_has_its_way_all_the_same() {
        let places = Places::find(Path::new("/no/such/../root"), &["teams"], &[]);
        assert!(places.kept.contains(Path::new("/no/root/teams")), "{places:?}");
        assert!(places.ways.contains(Path::new("/no/root")));
    }

    #[test]
    fn a_link_straight_below_the_root_is_held_by_it_and_leads_to_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("dotfiles")).unwrap();
        fs::create_dir_all(base.join("root")).unwrap();
        fs::write(base.join("dotfiles/claude.json"), "{}").unwrap();
        symlink("../dotfiles/claude.json", base.join("root/settings.json")).unwrap();
        let find = || Places::find(&base.join("root"), &["settings.json"], &[]);
        assert_eq!(find().kept, BTreeSet::from([base.join("dotfiles/claude.json")]));
        assert!(find().ways.contains(&base.join("dotfiles")));
        assert!(!find().has_loose_links());
        fs::rename(base.join("dotfiles"), base.join("real")).unwrap();
        symlink("real", base.join("dotfiles")).unwrap();
        assert!(find().has_loose_links());
    }

    #[test]
    fn what_others_own_needs_no_keeping_where_a_link_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        symlink("/usr/bin", base.join("agents")).unwrap();
        let places = Places::find(&base, &["agents"], &[]);
        // The user root could change the target of the link. Therefore the target is protected if
        // root runs the test.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(places.kept.contains(Path::new("/usr/bin")), is_root, "{places:?}");
        assert_eq!(places.ways.contains(Path::new("/usr")), is_root, "{places:?}");
        assert!(places.ways.contains(&base));
    }

    #[test]
    fn a_link_into_a_kept_folder_opens_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("teams")).unwrap();
        fs::write(base.join("teams/mine"), "{}").unwrap();
        symlink("teams/mine", base.join("settings.json")).unwrap();
        let places = Places::find(&base, &["settings.json", "teams"], &[]);
        assert!(places.kept.contains(&base.join("teams")));
        assert!(!places.ways.contains(&base.join("teams")), "{places:?}");
    }

    #[test]
    fn a_kept_file_is_known_in_other_letters_and_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::write(base.join("settings.json"), "{}").unwrap();
        fs::hard_link(base.join("settings.json"), base.join("hard")).unwrap();
        fs::write(base.join("other"), "{}").unwrap();
        let places = Places::find(&base, &["settings.json", "agents"], &[]);
        for (name, expected) in [
            ("settings.json", true),
            ("Settings.JSON", true),
            ("agents", true),
            ("hard", true),
            ("other", false),
        ] {
            assert_eq!(places.is_kept(&base.join(name)), expected, "{name}");
        }
        assert!(!places.is_kept(&base));
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
        // The mount table in this test says that `base` is also visible at `elsewhere`. `elsewhere`
        // is another spelling of `base`, so no real mount is needed.
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
