//! Saves what a person decides: a permission rule, or the model. It is written to the user's own
//! settings, never to the settings of a project.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pitcrew_process::given_file::Given;
use pitcrew_process::own_mode;
use serde_json::{Map, Value, json};

use super::error::{SettingsError, origin};
use super::files::read;
use super::layers::Layer;

/// Permission bits of a settings file that is newly created.
const NEW_FILE_MODE: u32 = 0o600;

/// Adds an allow rule to the user's settings, unless the rule is there already. Everything else
/// stays unchanged. The new text is written to a temporary file, which then replaces the settings
/// file. If the settings file is a symbolic link, the link is kept and its target is replaced.
///
/// # Errors
/// If the settings file cannot be read or written, or if its `permissions.allow` is not a list. In
/// these cases the settings file is unchanged.
pub fn save_allowing_rule(file: &Path, rule: &str) -> Result<(), SettingsError> {
    edit(file, |fields| {
        let Value::Object(permissions) = fields.entry("permissions").or_insert_with(|| json!({}))
        else {
            return Err(Misfit { field: "permissions", expected: "an object" });
        };
        let Value::Array(allow) = permissions.entry("allow").or_insert_with(|| json!([])) else {
            return Err(Misfit { field: "permissions.allow", expected: "a list" });
        };
        if !allow.iter().any(|there| there == rule) {
            allow.push(rule.into());
        }
        Ok(())
    })
}

/// Sets `pitcrew.model` in the user's settings, in the same way as [`save_allowing_rule`]. The
/// field `model` stays as it is, because other clients read it and do not know pitcrew's names.
///
/// # Errors
/// If the settings file cannot be read or written, or if its `pitcrew` is not an object. In these
/// cases the settings file is unchanged.
pub fn save_model(file: &Path, model: &str) -> Result<(), SettingsError> {
    edit(file, |fields| {
        let Value::Object(ours) = fields.entry("pitcrew").or_insert_with(|| json!({})) else {
            return Err(Misfit { field: "pitcrew", expected: "an object" });
        };
        ours.insert("model".to_owned(), model.into());
        Ok(())
    })
}

/// A field that has another form than an edit needs.
struct Misfit {
    field: &'static str,
    expected: &'static str,
}

/// Edits the user's settings. Writes nothing if the edit changes nothing.
fn edit(
    file: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), Misfit>,
) -> Result<(), SettingsError> {
    let name = || origin(Layer::User, Some(file));
    let value = read(Given::ByUser, file)?.unwrap_or_else(|| Value::Object(Map::new()));
    let Value::Object(mut fields) = value else {
        return Err(SettingsError::NotAnObject { origin: name() });
    };
    let before = fields.clone();
    change(&mut fields).map_err(|Misfit { field, expected }| SettingsError::Field {
        origin: name(),
        field: field.to_owned(),
        expected,
    })?;
    if fields == before {
        return Ok(());
    }
    let text = format!("{:#}\n", Value::Object(fields));
    replace(file, &text).map_err(|source| SettingsError::Write { path: file.to_path_buf(), source })
}

#[expect(clippy::disallowed_methods, reason = "a folder is opened to be synced")]
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(file) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_path_buf(),
        Err(error) => return Err(error),
    };
    let folder = target.parent().unwrap_or(Path::new("."));
    own_mode::create_folders(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    // Keep the permission bits of an existing file.
    let rights = fs::metadata(&target)
        .map_or(Permissions::from_mode(NEW_FILE_MODE), |metadata| metadata.permissions());
    new.as_file().set_permissions(rights)?;
    new.as_file().sync_all()?;
    new.persist(&target)?;
    // Sync the folder too, so that the rename survives a power failure.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_saved_once_and_everything_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.json");
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap() };
        save_allowing_rule(&file, "Bash(a)").unwrap();
        assert_eq!(read(), json!({"permissions": {"allow": ["Bash(a)"]}}));
        let more =
            json!({"model": "m", "permissions": {"deny": ["Read(x)"], "allow": ["Bash(a)"]}});
        fs::write(&file, more.to_string()).unwrap();
        save_allowing_rule(&file, "Bash(a)").unwrap();
        save_allowing_rule(&file, "Bash(b:*)").unwrap();
        let saved = json!({"model": "m", "permissions": {"deny": ["Read(x)"], "allow": ["Bash(a)", "Bash(b:*)"]}});
        assert_eq!(read(), saved);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_model_is_saved_beside_everything_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("root/settings.json");
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap() };
        save_model(&file, "ollama/a").unwrap();
        assert_eq!(read(), json!({"pitcrew": {"model": "ollama/a"}}));
        let more = json!({"model": "opus", "pitcrew": {"teams": true, "model": "ollama/a"}});
        fs::write(&file, more.to_string()).unwrap();
        save_model(&file, "ollama/b").unwrap();
        let saved = json!({"model": "opus", "pitcrew": {"teams": true, "model": "ollama/b"}});
        assert_eq!(read(), saved);
        fs::write(&file, r#"{"pitcrew": 7}"#).unwrap();
        save_model(&file, "ollama/c").unwrap_err();
        assert_eq!(read(), json!({"pitcrew": 7}));
    }

    #[test]
    fn a_link_is_followed_and_a_broken_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (real, file) = (dir.path().join("dotfiles.json"), dir.path().join("settings.json"));
        fs::write(&real, "{}").unwrap();
        std::os::unix::fs::symlink(&real, &file).unwrap();
        save_allowing_rule(&file, "Bash(a)").unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("Bash(a)"));
        for broken in
            ["nonsense", "[]", r#"{"permissions": 1}"#, r#"{"permissions": {"allow": "Bash"}}"#]
        {
            fs::write(&real, broken).unwrap();
            save_allowing_rule(&file, "Bash(a)").unwrap_err();
            assert_eq!(fs::read_to_string(&real).unwrap(), broken);
        }
    }
}
