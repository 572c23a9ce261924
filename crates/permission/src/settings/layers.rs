//! The merge: five layers become one object, and each layer is kept to say where a rule came from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::error::{SettingsError, origin};
use super::values;

/// Ranks the origins of settings; a later one overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// `<root>/settings.json`.
    User,
    /// `.claude/settings.json`, shared by the project.
    Project,
    /// `.claude/settings.local.json`, one person's.
    Local,
    /// Given on the command line.
    Cli,
    /// The machine's policy, which nothing overrides.
    Managed,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Cli => "cli",
            Self::Managed => "managed",
        })
    }
}

/// One layer as it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its rank.
    pub layer: Layer,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// The folder that a rule's `/path` starts at: the project for project, local and CLI settings,
    /// the file's own folder for user and managed ones.
    pub base: Option<PathBuf>,
    /// Its content.
    pub value: Value,
}

/// The settings in force: the merged object and the layers it was made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    sources: Vec<Source>,
    merged: Map<String, Value>,
    git_folders: Vec<PathBuf>,
    unheeded: Vec<String>,
}

impl Settings {
    /// Merges bare layers, in any order.
    ///
    /// # Errors
    /// As those of [`Settings::from_sources`].
    pub fn merge(layers: Vec<(Layer, Value)>) -> Result<Self, SettingsError> {
        let bare = |(layer, value)| Source { layer, file: None, base: None, value };
        Self::from_sources(layers.into_iter().map(bare).collect())
    }

    /// Merges layers that know their file and folder, in any order.
    ///
    /// Objects merge key by key, lists are joined (lowest layer first, repeats dropped), anything
    /// else is overridden by the higher layer. A field with a value that is not known is left out of its layer and told by
    /// [`Settings::unheeded`].
    ///
    /// # Errors
    /// When a layer is not an object, or a value that is not known was typed on the command line or bounds what agents may
    /// do.
    pub fn from_sources(sources: Vec<Source>) -> Result<Self, SettingsError> {
        let (settings, mut refused) = Self::usable(sources);
        if refused.is_empty() { Ok(settings) } else { Err(refused.swap_remove(0)) }
    }

    /// The same for whoever runs no agent: what cannot be left out where agents run is left out as well, and handed back.
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
        sources.retain(|source| source.value.is_object());
        (Self { sources, merged, git_folders: Vec::new(), unheeded }, refused)
    }

    /// The same with git folders outside of the checkout that count as its own: what of a project the user trusts.
    #[must_use]
    pub fn with_git_folders(self, git_folders: Vec<PathBuf>) -> Self {
        Self { git_folders, ..self }
    }

    /// The git folders and stores of objects outside of the checkout that count as its own.
    #[must_use]
    pub fn git_folders(&self) -> &[PathBuf] {
        &self.git_folders
    }

    /// The merged object with every field, known or not, but for values that are not heeded.
    #[must_use]
    pub fn merged(&self) -> &Map<String, Value> {
        &self.merged
    }

    /// What is not heeded in the layers, in words, each with its layer: values that are not known, and names that seem
    /// misspelt.
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

    /// A digest of all layers: equal where the same settings are in force, whatever the order of their fields.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for source in &self.sources {
            let value = canonical(&source.value).unwrap_or_default();
            digest.update(format!("{:?} {:?} {value}\n", source.layer, source.base));
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The layers, lowest first, without the values that are not heeded.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// The value with its fields sorted, and without what is empty; nothing when all of it is.
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
    /// Names the layer and its file for an error text.
    #[must_use]
    pub fn origin(&self) -> String {
        origin(self.layer, self.file.as_deref())
    }

    /// Looks a field up by its path of keys.
    pub(super) fn field(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, key| value.get(key))
    }

    /// The same, to change it.
    pub(super) fn field_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(&mut self.value, |value, key| value.get_mut(key))
    }

    /// The folder a rule's `/path` starts at.
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
        insta::assert_snapshot!(error, @"the cli settings must be a json object");
    }
}
