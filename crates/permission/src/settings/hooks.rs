//! Says which hooks of which layers count. A layer can silence hooks, but never those of a layer
//! that is above it or that belongs to somebody else.

use std::path::Path;

use serde_json::Value;

use super::layers::{Layer, Settings, Source};

/// The `hooks` section of one settings layer.
#[derive(Clone, Copy, Debug)]
pub struct HookSection<'a> {
    source: &'a Source,
    /// The section as written: an object with a list of hooks for each event.
    pub value: &'a Value,
}

impl HookSection<'_> {
    /// Returns the layer that contains the section.
    #[must_use]
    pub fn layer(&self) -> Layer {
        self.source.layer
    }

    /// Returns the name of the layer and its file, for messages.
    #[must_use]
    pub fn origin(&self) -> String {
        self.source.origin()
    }

    /// Returns the folder to which `/path` in a rule of this layer is relative.
    #[must_use]
    pub fn base(&self) -> Option<&Path> {
        self.source.base()
    }
}

impl Settings {
    /// Returns the `hooks` sections that count, lowest layer first.
    #[must_use]
    pub fn hook_sections(&self) -> Vec<HookSection<'_>> {
        let section = |source| Some(HookSection { source, value: source.field(&["hooks"])? });
        self.sources()
            .iter()
            .filter(|source| !self.has_silent_hooks(source.layer))
            .filter_map(section)
            .collect()
    }

    /// Returns true if the hooks of a layer are switched off by `disableAllHooks`, or by
    /// `allowManagedHooksOnly` of the machine's policy.
    ///
    /// The machine's policy silences all hooks. The user and the command line silence their own
    /// and the project's. A project silences its own only.
    fn has_silent_hooks(&self, layer: Layer) -> bool {
        let says = |field: &str, layers: &[Layer]| {
            let of_layers = self.sources().iter().filter(|source| layers.contains(&source.layer));
            let said = |source: &Source| source.field(&[field]).and_then(Value::as_bool);
            // The layers are sorted, so the last value found is from the highest layer.
            of_layers.filter_map(said).next_back().unwrap_or(false)
        };
        let disabled = |layers: &[Layer]| says("disableAllHooks", layers);
        let by_policy = disabled(&[Layer::Managed]);
        match layer {
            Layer::Managed => by_policy,
            _ if by_policy || says("allowManagedHooksOnly", &[Layer::Managed]) => true,
            Layer::User | Layer::Cli => disabled(&[Layer::User, Layer::Cli]),
            Layer::Project | Layer::Local => {
                disabled(&[Layer::User, Layer::Cli]) || disabled(&[Layer::Project, Layer::Local])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_layer_silences_its_own_hooks_and_those_of_the_layers_that_it_governs() {
        use Layer::{Cli, Local, Managed, Project, User};
        let all = [User, Project, Local, Cli, Managed];
        for (field, by, value, left) in [
            ("disableAllHooks", Project, true, &[User, Cli, Managed][..]),
            ("disableAllHooks", Local, true, &[User, Cli, Managed]),
            ("disableAllHooks", User, true, &[Managed]),
            ("disableAllHooks", Cli, true, &[Managed]),
            ("disableAllHooks", Managed, true, &[]),
            ("disableAllHooks", Managed, false, &all),
            ("disableAllHooks", User, false, &all),
            ("allowManagedHooksOnly", Managed, true, &[Managed]),
            ("allowManagedHooksOnly", User, true, &all),
            ("allowManagedHooksOnly", Project, true, &all),
        ] {
            let layer = |layer| {
                let mut settings = json!({"hooks": {"Stop": []}});
                if layer == by {
                    settings[field] = value.into();
                }
                (layer, settings)
            };
            let settings = Settings::merge(all.map(layer).to_vec()).unwrap();
            let counted: Vec<Layer> =
                settings.hook_sections().iter().map(HookSection::layer).collect();
            assert_eq!(counted, left, "{field} {value} in the {by} settings");
        }
    }

    #[test]
    fn hooks_that_are_no_object_are_an_error() {
        for value in [json!({"hooks": 3}), json!({"hooks": []}), json!({"disableAllHooks": "no"})] {
            assert!(Settings::merge(vec![(Layer::User, value)]).is_err());
        }
        assert!(Settings::merge(vec![(Layer::User, json!({"hooks": null}))]).is_ok());
    }
}
