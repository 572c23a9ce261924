//! Objects of the wire: typed fields, in the recorded order, beside everything else that stood in the object.
//!
//! [`wire_object!`] makes a struct whose reader keeps what it does not know, and whose writer puts each field back where
//! it was. An optional field that is `null`, or of a type we do not expect, is read as absent and kept as it stands.

use std::fmt;

use serde_json::value::RawValue;

/// The fields of an object that its type does not name, with the order in which all its fields were read.
#[derive(Clone, Default)]
pub struct Foreign {
    slots: Vec<(String, Option<Box<RawValue>>)>,
}

impl Foreign {
    /// The text of the unknown field `key`, as it was read.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.slots.iter().find(|(k, _)| k == key).and_then(|(_, raw)| raw.as_deref())
    }

    /// Puts the field `key`, in place where it stands already, else at the end.
    pub fn put(&mut self, key: &str, value: Box<RawValue>) {
        self.keep(key.to_owned(), Some(value));
    }

    /// The unknown fields, in the order read.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.slots.iter().filter_map(|(key, raw)| Some((key.as_str(), raw.as_deref()?)))
    }

    pub(crate) fn keep(&mut self, key: String, raw: Option<Box<RawValue>>) {
        match self.slots.iter_mut().find(|(k, _)| *k == key) {
            Some(slot) => slot.1 = raw,
            None => self.slots.push((key, raw)),
        }
    }

    /// The keys to write: those read, in their order, and each known key that came since after the one it follows.
    pub(crate) fn order<'a>(&'a self, known: &[&'a str]) -> Vec<&'a str> {
        let mut order: Vec<&str> = self.slots.iter().map(|(key, _)| key.as_str()).collect();
        let mut after = 0;
        for key in known {
            match order.iter().position(|k| k == key) {
                Some(at) => after = at + 1,
                None => {
                    order.insert(after, key);
                    after += 1;
                }
            }
        }
        order
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, raw)| (key, raw.get()))).finish()
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(|(k, v)| (k, v.get())).eq(other.iter().map(|(k, v)| (k, v.get())))
    }
}

/// Declares a wire object: `name: Type => "wireName"` for a required field, `name: Type =>? "wireName"` for an optional one.
///
/// The struct gets a `foreign` field; `Default` is not derived, `new`-like constructors are the type's own.
macro_rules! wire_object {
    (@type $ty:ty, req) => { $ty };
    (@type $ty:ty, opt) => { Option<$ty> };
    (@write $map:ident, $self:ident, $field:ident, $key:literal, req) => { $map.serialize_entry($key, &$self.$field)? };
    (@write $map:ident, $self:ident, $field:ident, $key:literal, opt) => {
        match (&$self.$field, $self.foreign.get($key)) {
            (Some(value), _) => $map.serialize_entry($key, value)?,
            (None, Some(raw)) => $map.serialize_entry($key, raw)?,
            (None, None) => {}
        }
    };
    (@read $raw:ident, $foreign:ident, $slot:ident, $key:literal, req) => {{
        $slot = Some($crate::tolerant::from_raw(&$raw).map_err(|e| serde::de::Error::custom(format_args!("`{}`: {e}", $key)))?);
        $foreign.keep($key.to_owned(), None);
    }};
    (@read $raw:ident, $foreign:ident, $slot:ident, $key:literal, opt) => {
        match $crate::tolerant::from_raw(&$raw) {
            Ok(value) => {
                $slot = value;
                let kept = if $slot.is_some() { None } else { Some($raw) };
                $foreign.keep($key.to_owned(), kept);
            }
            Err(_) => $foreign.keep($key.to_owned(), Some($raw)),
        }
    };
    (@done $slot:ident, $key:literal, req) => { $slot.ok_or_else(|| serde::de::Error::missing_field($key))? };
    (@done $slot:ident, $key:literal, opt) => { $slot };
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$fmeta:meta])* pub $field:ident: $ty:ty => $key:literal $kind:ident,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: wire_object!(@type $ty, $kind),)*
            /// The fields we do not know, kept as read.
            pub foreign: $crate::wire::Foreign,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                for key in self.foreign.order(&[$($key),*]) {
                    match key {
                        $($key => wire_object!(@write map, self, $field, $key, $kind),)*
                        other => {
                            if let Some(raw) = self.foreign.get(other) {
                                map.serialize_entry(other, raw)?;
                            }
                        }
                    }
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut foreign = $crate::wire::Foreign::default();
                        $(let mut $field = None;)*
                        while let Some(key) = map.next_key::<String>()? {
                            let raw: Box<serde_json::value::RawValue> = map.next_value()?;
                            match key.as_str() {
                                $($key => wire_object!(@read raw, foreign, $field, $key, $kind),)*
                                _ => foreign.keep(key, Some(raw)),
                            }
                        }
                        Ok($name { $($field: wire_object!(@done $field, $key, $kind),)* foreign })
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    };
}
pub(crate) use wire_object;
