//! Where the layers are on disk: reading them all, editing one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::layers::{Layer, Settings, Source};
use super::{SettingsError, error};

/// No honest settings file is larger; the bound keeps a hostile one from filling the memory.
const FILE_LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// Says where the layers are.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The machine's policy file, such as `/etc/claude-code/managed-settings.json`.
    pub managed: Option<PathBuf>,
    /// Settings given on the command line.
    pub cli: Option<Value>,
    /// The project's folder, which may hold `.claude/`.
    pub project: Option<PathBuf>,
    /// The root (`~/.claude` by default), which may hold `settings.json`.
    pub root: Option<PathBuf>,
}

impl Paths {
    /// The file of a layer, when the layer has one.
    #[must_use]
    pub fn file(&self, layer: Layer) -> Option<PathBuf> {
        let in_project = |name: &str| self.project.as_ref().map(|dir| dir.join(".claude").join(name));
        match layer {
            Layer::User => self.root.as_ref().map(|root| root.join("settings.json")),
            Layer::Project => in_project("settings.json"),
            Layer::Local => in_project("settings.local.json"),
            Layer::Cli => None,
            Layer::Managed => self.managed.clone(),
        }
    }

    fn base(&self, layer: Layer) -> Option<PathBuf> {
        match layer {
            Layer::User => self.root.clone(),
            Layer::Project | Layer::Local | Layer::Cli => self.project.clone(),
            Layer::Managed => Some(self.managed.as_ref()?.parent()?.to_path_buf()),
        }
    }
}

impl Settings {
    /// Reads every layer that exists and merges them. A missing file is an empty layer.
    ///
    /// # Errors
    /// When a file cannot be read, is not a JSON object, or a known field has the wrong shape.
    pub fn load(paths: &Paths) -> Result<Self, SettingsError> {
        let mut sources = Vec::new();
        for layer in [Layer::User, Layer::Project, Layer::Local, Layer::Managed] {
            let Some(file) = paths.file(layer) else {
                continue;
            };
            let Some(value) = read(&file)? else {
                continue;
            };
            sources.push(Source { layer, file: Some(file), base: paths.base(layer), value });
        }
        if let Some(value) = paths.cli.clone() {
            sources.push(Source { layer: Layer::Cli, file: None, base: paths.base(Layer::Cli), value });
        }
        Self::from_sources(sources)
    }
}

/// Edits one layer's file in place and keeps everything the edit does not touch.
///
/// The new text reaches the disk as a temporary file that is renamed over the old one; a symbolic
/// link is followed, not replaced.
///
/// # Errors
/// When the file cannot be read, is not a JSON object, or cannot be written; it is then unchanged.
pub fn edit_layer(layer: Layer, file: &Path, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<(), SettingsError> {
    let mut value = read(file)?.unwrap_or_else(|| Value::Object(Map::new()));
    let Value::Object(fields) = &mut value else {
        return Err(SettingsError::NotAnObject { origin: error::origin(layer, Some(file)) });
    };
    edit(fields);
    replace(file, &format!("{value:#}\n")).map_err(|source| SettingsError::Write { path: file.to_path_buf(), source })
}

fn read(path: &Path) -> Result<Option<Value>, SettingsError> {
    let unreadable = |source| SettingsError::Read { path: path.to_path_buf(), source };
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if size > FILE_LIMIT_BYTES {
        return Err(SettingsError::TooLarge { path: path.to_path_buf(), size, limit: FILE_LIMIT_BYTES });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(Some(Value::Object(Map::new())));
    }
    let value =
        serde_json::from_str(text).map_err(|source| SettingsError::Json { path: path.to_path_buf(), source })?;
    Ok(Some(value))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(error),
    };
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(&target) {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            managed: Some(dir.path().join("policy.json")),
            cli: None,
            project: Some(dir.path().join("project")),
            root: Some(dir.path().join("root")),
        };
        fs::create_dir_all(dir.path().join("project/.claude")).unwrap();
        fs::create_dir_all(dir.path().join("root")).unwrap();
        (dir, paths)
    }

    fn write(paths: &Paths, layer: Layer, text: &str) {
        fs::write(paths.file(layer).unwrap(), text).unwrap();
    }

    #[test]
    fn every_file_is_read_and_a_missing_one_is_empty() {
        let (_dir, mut paths) = project();
        assert!(Settings::load(&paths).unwrap().merged().is_empty());
        write(&paths, Layer::User, r#"{"model": "user", "a": 1}"#);
        write(&paths, Layer::Project, r#"{"model": "project", "b": 1}"#);
        write(&paths, Layer::Local, r#"{"model": "local", "c": 1}"#);
        paths.cli = Some(json!({"model": "cli"}));
        let settings = Settings::load(&paths).unwrap();
        assert_eq!(settings.model(), Some("cli"));
        assert_eq!(settings.sources().len(), 4);
        write(&paths, Layer::Managed, r#"{"model": "managed"}"#);
        assert_eq!(Settings::load(&paths).unwrap().model(), Some("managed"));
    }

    #[test]
    fn a_malformed_file_is_named_with_the_place() {
        let (dir, paths) = project();
        write(&paths, Layer::Local, "{\"model\": ");
        let error = Settings::load(&paths).unwrap_err();
        let text = error.to_string().replace(&dir.path().display().to_string(), "DIR");
        insta::assert_snapshot!(text, @"the settings file DIR/project/.claude/settings.local.json is not valid json");
        let source = std::error::Error::source(&error).unwrap().to_string();
        insta::assert_snapshot!(source, @"EOF while parsing a value at line 1 column 10");
    }

    #[test]
    fn an_edit_keeps_what_it_does_not_touch_and_its_order() {
        let (_dir, paths) = project();
        let file = paths.file(Layer::Local).unwrap();
        fs::write(&file, r#"{"zeta":1,"permissions":{"allow":["A"],"other":2},"alpha":3}"#).unwrap();
        edit_layer(Layer::Local, &file, |fields| {
            fields.insert("model".to_owned(), json!("m"));
        })
        .unwrap();
        let kept: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let keys: Vec<_> = kept.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["zeta", "permissions", "alpha", "model"]);
        assert_eq!(kept.pointer("/permissions/other"), Some(&json!(2)));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn an_edit_makes_a_missing_file_and_refuses_a_broken_one() {
        let (_dir, paths) = project();
        let file = paths.file(Layer::User).unwrap();
        edit_layer(Layer::User, &file, |fields| {
            fields.insert("a".to_owned(), json!(1));
        })
        .unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"a\": 1\n}\n");
        fs::write(&file, "nonsense").unwrap();
        edit_layer(Layer::User, &file, |_| ()).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "nonsense");
    }

    #[test]
    fn an_edit_follows_a_symbolic_link() {
        let (dir, paths) = project();
        let real = dir.path().join("dotfiles.json");
        fs::write(&real, "{}").unwrap();
        let file = paths.file(Layer::User).unwrap();
        std::os::unix::fs::symlink(&real, &file).unwrap();
        edit_layer(Layer::User, &file, |fields| {
            fields.insert("a".to_owned(), json!(1));
        })
        .unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("\"a\""));
    }
}
