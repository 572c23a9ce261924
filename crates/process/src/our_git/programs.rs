//! Finds the programs and files that the configuration of a working copy names, and replaces those
//! that the repository itself names.
//!
//! Git lists the configuration, so conditions and included files count exactly as they do when git
//! runs the command in the same folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// A pattern for the names of all settings that matter here. `git config --get-regexp` reads it.
pub(super) const NAMES: &str = "^(filter|lfs|hook|credential)\\.\
    |^core\\.(sshcommand|askpass|sharedrepository|attributesfile|excludesfile)$\
    |(command|cmd|program|helper|driver|textconv|clean|smudge|process|agent)$";

/// The value of a setting that names no file. An empty value is an error in some settings.
pub(super) const NO_FILE: &str = "/dev/null";

/// What a setting of the repository's becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// The value in the user's or the machine's configuration, or this one.
    UsersOr(&'static str),
    /// The list of values in the user's and the machine's configuration.
    UsersList,
    /// Nothing. The command goes without this kind of program.
    Off,
    /// What the repository says, because no command of ours starts such a program, or because the
    /// setting names none.
    AsItIs,
}

/// The treatment of each setting, by its section and the last part of its name. An empty last part
/// stands for all others of the section.
const TREATMENTS: &[(&str, &str, Treatment)] = &[
    ("filter", "clean", Treatment::UsersOr("")),
    ("filter", "smudge", Treatment::UsersOr("")),
    ("filter", "process", Treatment::UsersOr("")),
    ("filter", "required", Treatment::UsersOr("false")),
    // Git-lfs, as a filter of the user's, starts these.
    ("lfs", "path", Treatment::UsersOr("")),
    ("lfs", "args", Treatment::UsersOr("")),
    ("lfs", "standalonetransferagent", Treatment::UsersOr("")),
    ("lfs", "clean", Treatment::UsersOr("")),
    ("lfs", "smudge", Treatment::UsersOr("")),
    ("lfs", "", Treatment::AsItIs),
    ("core", "sshcommand", Treatment::UsersOr("")),
    ("core", "askpass", Treatment::UsersOr("")),
    // Git reads these files, whatever they are.
    ("core", "attributesfile", Treatment::UsersOr(NO_FILE)),
    ("core", "excludesfile", Treatment::UsersOr(NO_FILE)),
    ("credential", "helper", Treatment::UsersList),
    ("credential", "", Treatment::AsItIs),
    ("hook", "", Treatment::Off),
    // No command of ours shows differences of lines, merges files, signs, talks to a remote or opens
    // an editor.
    ("core", "", Treatment::AsItIs),
    ("diff", "", Treatment::AsItIs),
    ("difftool", "", Treatment::AsItIs),
    ("merge", "", Treatment::AsItIs),
    ("mergetool", "", Treatment::AsItIs),
    ("gpg", "", Treatment::AsItIs),
    ("alias", "", Treatment::AsItIs),
    ("browser", "", Treatment::AsItIs),
    ("guitool", "", Treatment::AsItIs),
    ("man", "", Treatment::AsItIs),
    ("remote", "", Treatment::AsItIs),
    ("branch", "", Treatment::AsItIs),
    ("sendemail", "", Treatment::AsItIs),
    ("tar", "", Treatment::AsItIs),
    ("trailer", "", Treatment::AsItIs),
];

/// The programs that the configuration of working copies names.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Settings that replace those of the repository.
    settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the user's or the machine's configuration names a filter.
    has_users_filters: bool,
    /// Whether several users share the repository.
    is_shared: bool,
    /// A setting of the repository's that looks like a program, and that no treatment covers.
    unknown: Option<String>,
}

/// One setting in a list of git's.
struct Entry<'a> {
    is_repositorys: bool,
    key: &'a [u8],
    value: &'a [u8],
}

impl Programs {
    /// Returns the settings of a command that reads no file of a checkout. It needs no file of the
    /// user's that tells about them.
    pub(super) fn of_look() -> Self {
        let names = ["core.attributesFile", "core.excludesFile"];
        let settings = names.map(|name| (name.into(), NO_FILE.into())).into();
        Self { settings, ..Self::default() }
    }

    /// Reads a list of git's. For each setting it contains the scope, the key, a line break and the
    /// value, with a zero byte after the scope and after the value.
    pub(super) fn of(listed: &[u8]) -> Self {
        let entries = entries(listed);
        let mut of_user = BTreeMap::new();
        let mut helpers = Vec::new();
        let mut programs = Self::default();
        for entry in entries.iter().filter(|entry| !entry.is_repositorys) {
            of_user.insert(entry.key, entry.value);
            match treatment(entry.key) {
                Some(Treatment::UsersList) => {
                    helpers.push((entry.key.to_vec(), entry.value.to_vec()))
                }
                Some(Treatment::Off) => programs.switch_off(entry.key),
                Some(Treatment::UsersOr(_) | Treatment::AsItIs) | None => {}
            }
            programs.has_users_filters |= is_filter(entry.key) && !entry.value.is_empty();
        }
        let of_repository = entries.iter().filter(|entry| entry.is_repositorys);
        let keys: BTreeSet<_> = of_repository.map(|entry| entry.key).collect();
        let mut is_list_replaced = false;
        for key in keys {
            match treatment(key) {
                Some(Treatment::UsersOr(otherwise)) => {
                    let value = of_user.get(key).copied().unwrap_or(otherwise.as_bytes());
                    programs.settings.push((key.to_vec(), value.to_vec()));
                }
                Some(Treatment::UsersList) => is_list_replaced = true,
                Some(Treatment::Off) => programs.switch_off(key),
                Some(Treatment::AsItIs) => {}
                None => programs.unknown = Some(String::from_utf8_lossy(key).into()),
            }
        }
        if is_list_replaced {
            // An empty value empties the list, whichever addresses its entries are for.
            programs.settings.push((b"credential.helper".to_vec(), Vec::new()));
            programs.settings.extend(helpers);
        }
        programs.is_shared = entries.iter().any(|entry| entry.key == b"core.sharedrepository");
        programs
    }

    /// Adds the programs of another working copy that the same command reads.
    pub(super) fn add(&mut self, other: Self) {
        self.settings.extend(other.settings);
        self.has_users_filters |= other.has_users_filters;
        self.is_shared |= other.is_shared;
        self.unknown = self.unknown.take().or(other.unknown);
    }

    /// Returns a setting of the repository's that may name a program which nothing replaces.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    pub(super) fn has_users_filters(&self) -> bool {
        self.has_users_filters
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the settings that replace those of the repository.
    pub(super) fn into_settings(self) -> impl Iterator<Item = (OsString, OsString)> {
        let pair = |(key, value)| (OsString::from_vec(key), OsString::from_vec(value));
        self.settings.into_iter().map(pair)
    }

    /// Switches off the hook that a setting `hook.NAME.FIELD` describes.
    fn switch_off(&mut self, key: &[u8]) {
        if let Some(at) = key.iter().rposition(|byte| *byte == b'.') {
            let hook = key.get(..at).unwrap_or_default();
            self.settings.push(([hook, b".enabled"].concat(), b"false".to_vec()));
        }
    }
}

fn entries(listed: &[u8]) -> Vec<Entry<'_>> {
    let mut parts = listed.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(scope), Some(entry)) = (parts.next(), parts.next()) {
        let end = entry.iter().position(|byte| *byte == b'\n');
        let key = entry.get(..end.unwrap_or(entry.len())).unwrap_or_default();
        let value = end.and_then(|end| entry.get(end + 1..)).unwrap_or_default();
        // All other scopes, such as `local` and `worktree`, belong to the repository.
        let is_repositorys = !matches!(scope, b"system" | b"global" | b"command");
        entries.push(Entry { is_repositorys, key, value });
    }
    entries
}

/// Returns the treatment of a setting. Git writes its section and the last part of its name in
/// small letters.
fn treatment(key: &[u8]) -> Option<Treatment> {
    let section = key.split(|byte| *byte == b'.').next().unwrap_or_default();
    let last = key.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let of_section = || TREATMENTS.iter().filter(|(it, ..)| it.as_bytes() == section);
    let exact = of_section().find(|(_, it, _)| it.as_bytes() == last);
    let found = exact.or_else(|| of_section().find(|(_, it, _)| it.is_empty()));
    found.map(|(.., treatment)| *treatment)
}

fn is_filter(key: &[u8]) -> bool {
    let fields: [&[u8]; 3] = [b".clean", b".smudge", b".process"];
    key.starts_with(b"filter.") && fields.iter().any(|field| key.ends_with(field))
}
