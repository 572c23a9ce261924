//! Merges the five settings layers into one object. Each layer is also stored separately, to show
//! where a rule comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::error::{SettingsError, origin};
use super::values;

/// The origin of settings. A later variant overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The user's settings: `<root>/settings.json`.
    User,
    /// The project's shared settings: `.claude/settings.json`.
    Project,
    /// One person's settings for the project: `.claude/settings.local.json`.
    Local,
    /// Settings from the command line.
    Cli,
    /// The machine's policy. Nothing overrides it.
    Managed,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Cli => "command-line",
            Self::Managed => "managed",
        })
    }
}

/// One settings layer before it is merged with the other layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The origin of the layer. The origin decides which other layers this layer overrides.
    pub layer: Layer,
    /// The file from which the layer was read.
    pub file: Option<PathBuf>,
    /// The folder to which `/path` in a rule is relative. For project, local and command line
    /// settings it is the project's folder. For user and managed settings it is the file's own
    /// folder.
    pub base: Option<PathBuf>,
    /// The content of the layer.
    pub value: Value,
}

/// The effective settings: the merged object, and the layers from which it was built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    sources: Vec<Source>,
    merged: Map<String, Value>,
    git_folders: Vec<PathBuf>,
    unheeded: Vec<String>,
}

impl Settings {
    /// Merges layers that have no files and base folders, given in any order.
    ///
    /// # Errors
    /// The errors of [`Settings::from_sources`].
    pub fn merge(layers: Vec<(Layer, Value)>) -> Result<Self, SettingsError> {
        let bare = |(layer, value)| Source { layer, file: None, base: None, value };
        Self::from_sources(layers.into_iter().map(bare).collect())
    }

    /// Merges layers with their files and base folders, given in any order.
    ///
    /// Objects are merged key by key. Lists are joined, lowest layer first, without repetitions.
    /// For any other value, the value of the higher layer is used. A field with an unknown value is
    /// removed from its layer and reported by [`Settings::unheeded`].
    ///
    /// # Errors
    /// If a layer is not an object, or if an unknown value is from the command line or is in a
    /// field that limits agents.
    pub fn from_sources(sources: Vec<Source>) -> Result<Self, SettingsError> {
        let (settings, mut refused) = Self::usable(sources);
        if refused.is_empty() { Ok(settings) } else { Err(refused.swap_remove(0)) }
    }

    /// Merges the layers for a command that runs no agent. Values that would cause an error in a
    /// run with agents are removed from the layers, and the errors are returned.
    pub(super) fn usable(mut sources: Vec<Source>) -> (Self, Vec<SettingsError>) {
        sources.sort_by_key(|source| source.layer);
        let (mut merged, mut unheeded, mut refused) = (Map::new(), Vec::new(), Vec::new());
        for source in &mut sources {
            let not_known = values::heed(source);
            unheeded.extend(not_known.unheeded);
            refused.extend(not_known.refused);
            match &source.value {
                Value::Object(fields) => merge_object(&mut merged, fields),
                _ => refused.push(SettingsError::NotAnObject { origin: source.origin() }),
            }
        }
        // A layer that is not an object has no fields. Its error was recorded above.
        sources.retain(|source| source.value.is_object());
        (Self { sources, merged, git_folders: Vec::new(), unheeded }, refused)
    }

    /// Sets the git folders outside the checkout that are treated as part of the checkout. The user
    /// trusts these folders.
    #[must_use]
    pub fn with_git_folders(self, git_folders: Vec<PathBuf>) -> Self {
        Self { git_folders, ..self }
    }

    /// Returns the git folders and object stores outside the checkout that are treated as part of
    /// the checkout.
    #[must_use]
    pub fn git_folders(&self) -> &[PathBuf] {
        &self.git_folders
    }

    /// Returns the merged object with all known and unknown fields. Ignored values are not
    /// included.
    #[must_use]
    pub fn merged(&self) -> &Map<String, Value> {
        &self.merged
    }

    /// Returns descriptions of the ignored parts of the layers. The ignored parts are unknown
    /// values and names that seem misspelled. Each description names the layer.
    #[must_use]
    pub fn unheeded(&self) -> Vec<String> {
        let mut told = Vec::new();
        for words in self.unheeded.iter().cloned().chain(self.misspelt()) {
            if !told.contains(&words) {
                told.push(words);
            }
        }
        told
    }

    /// Returns a digest of all layers. The digest is the same for equal settings, whatever the
    /// order of their fields.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for source in &self.sources {
            let value = canonical(&source.value).unwrap_or_default();
            digest.update(format!("{:?} {:?} {value}\n", source.layer, source.base));
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the layers, lowest first, without ignored values.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// Returns the value with sorted fields and without empty parts. Returns `None` if nothing remains.
fn canonical(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let mut kept: Vec<(String, Value)> = fields
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), canonical(value)?)))
                .collect();
            kept.sort_by(|a, b| a.0.cmp(&b.0));
            (!kept.is_empty()).then(|| Value::Object(kept.into_iter().collect()))
        }
        Value::Array(items) => (!items.is_empty()).then(|| value.clone()),
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

fn merge_object(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge_object(old, new),
            (Some(Value::Array(old)), Value::Array(new)) => {
                for item in new {
                    if !old.contains(item) {
                        old.push(item.clone());
                    }
                }
            }
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

impl Source {
    /// Returns the name of the layer and its file, for an error message.
    #[must_use]
    pub fn origin(&self) -> String {
        origin(self.layer, self.file.as_deref())
    }

    /// Returns the field that is reached by this path of keys.
    pub(super) fn field(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, key| value.get(key))
    }

    /// Returns a mutable reference to the field that is reached by this path of keys.
    pub(super) fn field_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(&mut self.value, |value, key| value.get_mut(key))
    }

    /// Returns the folder to which `/path` in a rule of this layer is relative.
    #[must_use]
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(layers: Vec<(Layer, Value)>) -> Value {
        Value::Object(Settings::merge(layers).unwrap().merged().clone())
    }

    #[test]
    fn objects_merge_lists_join_and_scalars_are_overridden() {
        let result = merged(vec![
            (
                Layer::Local,
                json!({"model": "b", "permissions": {"allow": ["Y", "X"]}, "env": {"B": "2"}}),
            ),
            (
                Layer::User,
                json!({"model": "a", "theme": "dark", "permissions": {"allow": ["X"]}, "env": {"A": "1"}}),
            ),
        ]);
        assert_eq!(
            result,
            json!({"model": "b", "theme": "dark", "permissions": {"allow": ["X", "Y"]}, "env": {"A": "1", "B": "2"}})
        );
    }

    #[test]
    fn managed_settings_win_whatever_the_order_given() {
        let result = merged(vec![
            (Layer::Managed, json!({"model": "policy"})),
            (Layer::Cli, json!({"model": "flag"})),
            (Layer::Project, json!({"model": "project"})),
        ]);
        assert_eq!(result, json!({"model": "policy"}));
    }

    #[test]
    fn unknown_fields_survive_at_every_level() {
        let value = json!({"$schema": "s", "permissions": {"future": {"a": [1, {"b": null}]}}, "statusLine": {"type": "x"}});
        assert_eq!(merged(vec![(Layer::User, value.clone())]), value);
    }

    #[test]
    fn a_layer_that_is_not_an_object_is_named() {
        let error = Settings::merge(vec![(Layer::Cli, json!([1]))]).unwrap_err();
        insta::assert_snapshot!(error, @"the command-line settings must be a json object");
    }
}
