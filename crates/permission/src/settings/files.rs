//! Locates the files of the settings layers and reads them.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::{Given, Refused};
use serde_json::{Map, Value};

use super::SettingsError;
use super::layers::{Layer, Settings, Source};

/// Maximum size of a settings file. Real settings files are much smaller. The limit prevents a
/// hostile file from using up the memory.
const FILE_LIMIT_BYTES: u64 = 4 * 1024 * 1024;

/// The paths of the files of all settings layers, and the settings from the command line.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The machine's policy file, such as `/etc/claude-code/managed-settings.json`.
    pub managed: Option<PathBuf>,
    /// Settings given on the command line.
    pub cli: Option<Value>,
    /// The project's folder, which may contain `.claude/`.
    pub project: Option<PathBuf>,
    /// The configuration root (`~/.claude` by default), which may contain `settings.json`.
    pub root: Option<PathBuf>,
}

impl Paths {
    /// Returns the path of a layer's file, or `None` if the layer has no file.
    #[must_use]
    pub fn file(&self, layer: Layer) -> Option<PathBuf> {
        let in_project =
            |name: &str| self.project.as_ref().map(|dir| dir.join(".claude").join(name));
        match layer {
            Layer::User => self.root.as_ref().map(|root| root.join("settings.json")),
            Layer::Project => in_project("settings.json"),
            Layer::Local => in_project("settings.local.json"),
            Layer::Cli => None,
            Layer::Managed => self.managed.clone(),
        }
    }

    /// Returns the folder to which `/path` in the rules of a layer is relative, or `None` if the
    /// layer has no such folder.
    pub fn base(&self, layer: Layer) -> Option<PathBuf> {
        match layer {
            Layer::User => self.root.clone(),
            Layer::Project | Layer::Local | Layer::Cli => self.project.clone(),
            Layer::Managed => Some(self.managed.as_ref()?.parent()?.to_path_buf()),
        }
    }
}

impl Settings {
    /// Reads the layers of the user and the machine, adds the layers of the command line and the
    /// project, and merges all layers. `project` must contain only the accepted parts of the
    /// project's layers, from [`crate::trust::Project::counted`]. A missing file is an empty layer.
    ///
    /// # Errors
    /// If a file cannot be read, and the errors of [`Settings::from_sources`].
    pub fn load(paths: &Paths, project: Vec<Source>) -> Result<Self, SettingsError> {
        let (sources, mut unread) = sources(paths, project);
        if unread.is_empty() { Self::from_sources(sources) } else { Err(unread.swap_remove(0)) }
    }

    /// Loads the settings like [`Settings::load`], but for a command that runs no agent. Unusable
    /// parts are ignored, and the errors are returned.
    #[must_use]
    pub fn load_usable(paths: &Paths, project: Vec<Source>) -> (Self, Vec<SettingsError>) {
        let (sources, mut unused) = sources(paths, project);
        let (settings, refused) = Self::usable(sources);
        unused.extend(refused);
        (settings, unused)
    }
}

/// Returns the layers that were read, and the errors of the layers that could not be read.
fn sources(paths: &Paths, project: Vec<Source>) -> (Vec<Source>, Vec<SettingsError>) {
    let (mut sources, mut unread) = (project, Vec::new());
    for layer in [Layer::User, Layer::Managed] {
        let Some(file) = paths.file(layer) else { continue };
        match read(Given::ByUser, &file) {
            Ok(Some(value)) => {
                sources.push(Source { layer, file: Some(file), base: paths.base(layer), value })
            }
            Ok(None) => {}
            Err(error) => unread.push(error),
        }
    }
    if let Some(value) = paths.cli.clone() {
        sources.push(Source { layer: Layer::Cli, file: None, base: paths.base(Layer::Cli), value });
    }
    (sources, unread)
}

/// Reads one settings file. Returns `None` if there is no such file.
pub fn read(given: Given<'_>, path: &Path) -> Result<Option<Value>, SettingsError> {
    let unreadable = |source: Refused| SettingsError::Read { path: path.to_path_buf(), source };
    let Some(text) = given.read_text(path, FILE_LIMIT_BYTES).map_err(unreadable)? else {
        return Ok(None);
    };
    // Some editors write a byte order mark at the start of a file.
    let text = text.trim_start_matches('\u{feff}');
    // Treat an empty file like an empty object.
    if text.trim().is_empty() {
        return Ok(Some(Value::Object(Map::new())));
    }
    let value = serde_json::from_str(text)
        .map_err(|source| SettingsError::Json { path: path.to_path_buf(), source })?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    /// Loads the settings, and accepts the project's layers completely.
    fn load(paths: &Paths) -> Result<Settings, SettingsError> {
        let mut project = Vec::new();
        for layer in [Layer::Project, Layer::Local] {
            let file = paths.file(layer).unwrap();
            if let Some(value) = read(Given::ByUser, &file)? {
                project.push(Source { layer, file: Some(file), base: paths.base(layer), value });
            }
        }
        Settings::load(paths, project)
    }

    #[test]
    fn every_file_is_read_and_a_missing_one_is_empty() {
        let (_dir, mut paths) = project();
        assert!(load(&paths).unwrap().merged().is_empty());
        write(&paths, Layer::User, r#"{"model": "user", "a": 1}"#);
        write(&paths, Layer::Project, r#"{"model": "project", "b": 1}"#);
        write(&paths, Layer::Local, r#"{"model": "local", "c": 1}"#);
        paths.cli = Some(json!({"model": "cli"}));
        let settings = load(&paths).unwrap();
        assert_eq!(settings.model(), Some("cli"));
        assert_eq!(settings.sources().len(), 4);
        write(&paths, Layer::Managed, r#"{"model": "managed"}"#);
        assert_eq!(load(&paths).unwrap().model(), Some("managed"));
    }

    #[test]
    fn a_malformed_file_is_named_with_the_place() {
        let (dir, paths) = project();
        write(&paths, Layer::Local, "{\"model\": ");
        let error = load(&paths).unwrap_err();
        let text = error.to_string().replace(&dir.path().display().to_string(), "DIR");
        insta::assert_snapshot!(text, @"the settings file DIR/project/.claude/settings.local.json is not valid json");
        let source = std::error::Error::source(&error).unwrap().to_string();
        insta::assert_snapshot!(source, @"EOF while parsing a value at line 1 column 10");
    }
}
