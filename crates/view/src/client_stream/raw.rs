//! Reads parts of a JSON text without copying them. A part of an unexpected type counts as absent,
//! so that a new version of a client cannot make a whole line unreadable.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use pitcrew_protocol::from_text;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Maximum length of an id, in bytes. The ids of clients have up to 40.
const ID_BYTES_MOST: usize = 400;

/// A value as its JSON text. It is read only when it is needed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Raw<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> Raw<'a> {
    /// Whether the value is this text. The text must need no escape in JSON.
    pub(super) fn is(self, text: &str) -> bool {
        self.quoted() == Some(text)
    }

    /// Whether the value is there and not null.
    pub(super) fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Returns the length of the JSON text in bytes.
    pub(super) fn json_bytes(self) -> usize {
        self.0.map_or(0, |value| value.get().len())
    }

    /// Returns the value if it is a text that can be an id: not empty and not long.
    pub(super) fn id(self) -> Option<Cow<'a, str>> {
        self.text().filter(|id| id.len() <= ID_BYTES_MOST)
    }

    /// Returns the value if it is a text that is not empty.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        let quoted = self.quoted()?;
        let text = if quoted.contains('\\') {
            Cow::Owned(from_text::<String>(self.0?.get()).ok()?)
        } else {
            Cow::Borrowed(quoted)
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the value if it is a whole number that is not negative.
    pub(super) fn count(self) -> Option<u64> {
        self.0?.get().parse().ok()
    }

    /// Returns the value if it is a number.
    pub(super) fn number(self) -> Option<f64> {
        // The check for digits excludes `inf` and `nan`, which are no JSON.
        let text = self.0?.get();
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
    }

    /// Returns the value if it is `true` or `false`.
    pub(super) fn flag(self) -> Option<bool> {
        self.0?.get().parse().ok()
    }

    /// Reads the value as a `T`.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.0?.get()).ok()
    }

    /// Reads the value as a `T` if it is an object.
    pub(super) fn object<T: Deserialize<'a>>(self) -> Option<T> {
        self.read::<Object<T>>()?.0
    }

    /// Whether the value is a text.
    pub(super) fn is_text(self) -> bool {
        self.quoted().is_some()
    }

    fn quoted(self) -> Option<&'a str> {
        self.0?.get().strip_prefix('"')?.strip_suffix('"')
    }
}

/// A JSON object as a `T`, or nothing if the value is not an object.
#[derive(Clone, Debug)]
pub(super) struct Object<T>(pub(super) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Implements the methods of a visitor for values of these types: the values are read as nothing.
macro_rules! absent {
    ($($visit:ident($ty:ty)),*) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        $(fn $visit<E>(self, _: $ty) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        })*
    };
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    absent!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str));

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|read| Object(Some(read)))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object(None))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

/// The content of a message. A value of another type has no blocks.
#[derive(Clone, Debug)]
pub(super) enum Content<'a, T> {
    /// A single text.
    Text(Cow<'a, str>),
    /// A list of blocks. List entries that are not objects are left out.
    Blocks(Vec<T>),
}

impl<T> Default for Content<'_, T> {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

struct ContentVisitor<'a, T>(PhantomData<(&'a str, T)>);

impl<'de: 'a, 'a, T: Deserialize<'de>> Visitor<'de> for ContentVisitor<'a, T> {
    type Value = Content<'a, T>;

    absent!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64));

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut blocks = Vec::new();
        while let Some(Object(block)) = seq.next_element::<Object<T>>()? {
            blocks.extend(block);
        }
        Ok(Content::Blocks(blocks))
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Content<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(PhantomData))
    }
}
