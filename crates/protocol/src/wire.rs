//! JSON objects of the wire format. Each object has typed fields in the recorded order, and also
//! keeps all its unknown fields.
//!
//! [`wire_object!`] defines a struct for such an object. Its reader keeps unknown fields, and its
//! writer puts each field back in its place. If an optional field is `null` or has an unexpected
//! type, the field is read as absent and its text is kept unchanged.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{DeserializeSeed, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The unknown fields of an object, and the order in which all fields of the object were read.
#[derive(Clone, Default)]
pub struct Foreign {
    slots: Vec<(Cow<'static, str>, Option<Box<RawValue>>)>,
}

impl Foreign {
    /// Creates a value without fields, and reserves memory for `fields` fields.
    pub(crate) fn with_capacity(fields: usize) -> Self {
        Self { slots: Vec::with_capacity(fields) }
    }

    /// Returns the raw text of the unknown field `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.slots.iter().find(|(k, _)| k == key).and_then(|(_, raw)| raw.as_deref())
    }

    /// Sets the field `key`. An existing field keeps its place, and a new field is added at the
    /// end.
    pub fn put(&mut self, key: &str, value: Box<RawValue>) {
        self.keep(key.to_owned().into(), Some(value));
    }

    /// Returns the unknown fields, in the order in which they were read.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.slots.iter().filter_map(|(key, raw)| Some((key.as_ref(), raw.as_deref()?)))
    }

    /// Returns the unknown field `key` in a form that can be serialized.
    pub(crate) fn written(&self, key: &str) -> Option<Written<'_>> {
        self.get(key).map(Written)
    }

    /// Removes and returns the raw text of the unknown field `key`. Used if `key` is the older name
    /// of a known field.
    pub(crate) fn take(&mut self, key: &str) -> Option<Box<RawValue>> {
        self.slots.iter_mut().find(|(k, _)| k == key).and_then(|(_, raw)| raw.take())
    }

    /// Returns the name under which a known field was read: `older` if the text has that name,
    /// otherwise `key`.
    pub(crate) fn spelled<'a>(&self, key: &'a str, older: Option<&'a str>) -> &'a str {
        older
            .filter(|older| self.slots.iter().any(|(k, raw)| k == older && raw.is_none()))
            .unwrap_or(key)
    }

    pub(crate) fn keep(&mut self, key: Cow<'static, str>, raw: Option<Box<RawValue>>) {
        match self.slots.iter_mut().find(|(k, _)| *k == key) {
            Some(slot) => slot.1 = raw,
            None => self.slots.push((key, raw)),
        }
    }

    /// Returns the keys of all fields to write. The keys that were read come in the order of
    /// reading. A key of `known` that was not read comes after the key that precedes it in `known`.
    pub(crate) fn order<'a>(&'a self, known: &[&'a str]) -> Vec<&'a str> {
        let mut order: Vec<&str> = self.slots.iter().map(|(key, _)| key.as_ref()).collect();
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

/// The raw text of a field, in a form that can be serialized. The text is not changed, with one
/// exception: a text with line breaks loses the white space between its tokens, because the output
/// can require a single line.
pub(crate) struct Written<'a>(&'a RawValue);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.get();
        if !text.contains(['\n', '\r']) {
            return self.0.serialize(serializer);
        }
        let compact = without_layout(text);
        match serde_json::from_str::<Value>(text) {
            Ok(value) if serde_json::to_string(&value).is_ok_and(|text| text == compact) => {
                value.serialize(serializer)
            }
            Ok(_) | Err(_) => RawValue::from_string(compact)
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
        }
    }
}

/// Returns the JSON text without white space between its tokens. Every token is unchanged.
fn without_layout(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let is_kept = |c: &char| {
        let kept = in_string || !matches!(c, ' ' | '\t' | '\n' | '\r');
        (in_string, escaped) = match (c, escaped) {
            ('"', false) => (!in_string, false),
            ('\\', false) => (in_string, in_string),
            (_, _) => (in_string, false),
        };
        kept
    };
    text.chars().filter(is_kept).collect()
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

/// Reads the key of a field. A key from the list in this struct is returned without a copy. Any
/// other key is copied.
pub(crate) struct Key(pub(crate) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'static, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Cow<'static, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let known = self.0.iter().find(|known| **known == key);
        Ok(known.map_or_else(|| Cow::Owned(key.to_owned()), |known| Cow::Borrowed(*known)))
    }
}

/// The raw text of a field while the object is read. The text is borrowed if the whole JSON text is
/// one string in memory. Otherwise it is owned.
pub(crate) trait FieldText<'de>: Deserialize<'de> + Deref<Target = RawValue> {
    /// Returns the field's raw text as an owned value.
    fn kept(self) -> Box<RawValue>;
}

impl<'de> FieldText<'de> for Box<RawValue> {
    fn kept(self) -> Box<RawValue> {
        self
    }
}

impl<'de> FieldText<'de> for &'de RawValue {
    fn kept(self) -> Box<RawValue> {
        self.to_owned()
    }
}

/// Declares a wire object. `name: Type => "wireName" req` declares a required field. With `opt`
/// instead of `req`, the field is optional. A field with `req or "olderName"` is also read under
/// the older name, and is then written back under the older name.
///
/// The struct gets a further field, `foreign`. `Default` is not derived. Each type defines its own
/// constructors.
macro_rules! wire_object {
    (@type $ty:ty, req) => { $ty };
    (@type $ty:ty, opt) => { Option<$ty> };
    (@write $map:ident, $self:ident, $field:ident, $key:literal, req) => { $map.serialize_entry($key, &$self.$field)? };
    (@write $map:ident, $self:ident, $field:ident, $key:literal, opt) => {
        match (&$self.$field, $self.foreign.written($key)) {
            (Some(value), _) => $map.serialize_entry($key, value)?,
            (None, Some(raw)) => $map.serialize_entry($key, &raw)?,
            (None, None) => {}
        }
    };
    (@read $raw:ident, $foreign:ident, $slot:ident, $key:literal, req) => {{
        $slot = Some($crate::tolerant::from_raw(&$raw).map_err(|e| serde::de::Error::custom(format_args!("`{}`: {e}", $key)))?);
        $foreign.keep(std::borrow::Cow::Borrowed($key), None);
    }};
    (@read $raw:ident, $foreign:ident, $slot:ident, $key:literal, opt) => {
        match $crate::tolerant::from_raw(&$raw) {
            Ok(value) => {
                $slot = value;
                let kept = if $slot.is_some() { None } else { Some($raw.kept()) };
                $foreign.keep(std::borrow::Cow::Borrowed($key), kept);
            }
            Err(_) => $foreign.keep(std::borrow::Cow::Borrowed($key), Some($raw.kept())),
        }
    };
    (@older) => { None };
    (@older $older:literal) => { Some($older) };
    (@done $slot:ident, $key:literal, req) => { $slot.ok_or_else(|| serde::de::Error::missing_field($key))? };
    (@done $slot:ident, $key:literal, opt) => { $slot };
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$fmeta:meta])* pub $field:ident: $ty:ty => $key:literal $kind:ident $(or $older:literal)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: wire_object!(@type $ty, $kind),)*
            /// The unknown fields, unchanged.
            pub foreign: $crate::wire::Foreign,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                let known = [$(self.foreign.spelled($key, wire_object!(@older $($older)?))),*];
                for key in self.foreign.order(&known) {
                    match key {
                        $($key => wire_object!(@write map, self, $field, $key, $kind),)*
                        $($($older if self.foreign.get($older).is_none() => {
                            wire_object!(@write map, self, $field, $older, $kind)
                        })?)*
                        other => {
                            if let Some(raw) = self.foreign.written(other) {
                                map.serialize_entry(other, &raw)?;
                            }
                        }
                    }
                }
                map.end()
            }
        }

        impl $name {
            /// The names of the object's fields on the wire, in the recorded order. If a field has
            /// an older name, the older name comes directly after the current one.
            pub const FIELDS: &'static [&'static str] = &[$($key, $($older,)?)*];

            /// Reads a JSON text. It does the same as `Deserialize`, but faster.
            ///
            /// # Errors
            /// The error of the JSON reader.
            pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                let mut reader = serde_json::Deserializer::from_str(text);
                let read = Self::read::<_, &serde_json::value::RawValue>(&mut reader)?;
                reader.end()?;
                Ok(read)
            }

            fn read<'de, D, R>(deserializer: D) -> Result<Self, D::Error>
            where
                D: serde::Deserializer<'de>,
                R: $crate::wire::FieldText<'de>,
            {
                struct Fields<R>(std::marker::PhantomData<R>);
                impl<'de, R: $crate::wire::FieldText<'de>> serde::de::Visitor<'de> for Fields<R> {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut foreign = $crate::wire::Foreign::with_capacity($name::FIELDS.len());
                        $(let mut $field = None;)*
                        while let Some(key) = map.next_key_seed($crate::wire::Key($name::FIELDS))? {
                            let raw: R = map.next_value()?;
                            match key.as_ref() {
                                $($key => wire_object!(@read raw, foreign, $field, $key, $kind),)*
                                _ => foreign.keep(key, Some(raw.kept())),
                            }
                        }
                        $($(if $field.is_none() && let Some(raw) = foreign.take($older) {
                            wire_object!(@read raw, foreign, $field, $older, $kind);
                        })?)*
                        Ok($name { $($field: wire_object!(@done $field, $key, $kind),)* foreign })
                    }
                }
                deserializer.deserialize_map(Fields::<R>(std::marker::PhantomData))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::read::<D, Box<serde_json::value::RawValue>>(deserializer)
            }
        }
    };
}
pub(crate) use wire_object;

#[cfg(test)]
mod tests {
    use crate::Task;

    const PRETTY: &str = r#"{
  "id": "1",
  "subject": "s",
  "description": "d",
  "status": "pending",
  "blocks": [],
  "blockedBy": [],
  "owner": {
    "odd": [
      1,
      "a \\\" b\u00e9 "
    ]
  },
  "x": {
    "y": {
      "exact": 1
    },
    "z": {}
  }
}"#;

    #[test]
    fn a_kept_value_takes_the_layout_of_what_is_written() {
        let pretty = PRETTY.replace("\\u00e9", "é");
        let task: Task = crate::from_text(&pretty).unwrap();
        assert_eq!(serde_json::to_string_pretty(&task).unwrap(), pretty);
        let line = serde_json::to_string(&task).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let again: Task = crate::from_text(&line).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), line);
    }

    #[test]
    fn a_kept_value_that_only_a_text_can_hold_keeps_its_tokens() {
        for token in ["100000000000000000000001", "1.10", "1e400", "-0"] {
            let task: Task =
                crate::from_text(&PRETTY.replace("\"exact\": 1", &format!("\"exact\": {token}")))
                    .unwrap();
            let line = serde_json::to_string(&task).unwrap();
            assert!(
                line.contains(&format!("\"exact\":{token}}}")) && line.contains("b\\u00e9 "),
                "{line}"
            );
            assert!(!line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_text_is_read_alike_by_both_readers() {
        let odd = PRETTY.replace("\"status\"", "\"st\\u0061tus\"").replace("\"s\"", "\"\\ud83d\"");
        for text in [
            PRETTY,
            &odd,
            &odd.replace("{\n  \"id\"", "{\"activeForm\":null,\n  \"taskId\""),
            "{}",
            "[1]",
            "{\"id\":",
        ] {
            match (Task::from_json(text), serde_json::from_str::<Task>(text)) {
                (Ok(task), Ok(other)) => {
                    assert_eq!(task, other);
                    assert_eq!(
                        serde_json::to_string(&task).unwrap(),
                        serde_json::to_string(&other).unwrap()
                    );
                }
                (task, other) => {
                    assert_eq!(task.unwrap_err().to_string(), other.unwrap_err().to_string())
                }
            }
        }
        assert!(Task::from_json(&odd).is_ok_and(|task| task.subject == "\u{FFFD}"));
        assert!(Task::from_json(&format!("{PRETTY} x")).is_err());
    }
}
