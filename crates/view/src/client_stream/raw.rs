//! The values of known fields. A value of an unexpected type counts as absent, so that a new
//! version of a client cannot make a whole line unreadable.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pitcrew_protocol::from_text;
use serde::Deserialize;

use super::json::{Cursor, Field, Fields, Read};

/// Maximum length of an id, in bytes. The ids of clients have up to 40.
const ID_BYTES_MOST: usize = 400;

/// The highest cost in US dollars that a stream can have.
const DOLLARS_MOST: f64 = 1e9;

/// A value as a part of the JSON text. It is read only when it is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Raw<'a> {
    /// No value, or null.
    #[default]
    Absent,
    /// A text that has no escapes in JSON, without its quotes.
    Text(&'a str),
    /// A text with escapes, as JSON.
    Escaped(&'a str),
    /// Any other value, as JSON.
    Other(&'a str),
}

impl<'a> Raw<'a> {
    /// Whether the value is this text. The text must need no escape in JSON.
    #[inline]
    pub(super) fn is(self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }

    /// Whether the value is there and not null.
    #[inline]
    pub(super) fn is_some(self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Whether the value is a text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Text(_) | Self::Escaped(_))
    }

    /// Returns the value if it is a text that can be an id: not empty and not long.
    #[inline]
    pub(super) fn id(self) -> Option<Cow<'a, str>> {
        self.text().filter(|id| id.len() <= ID_BYTES_MOST)
    }

    /// Returns the value if it is a text that is not empty.
    #[inline]
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        let text = match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Escaped(json) => Cow::Owned(unescaped(json)?),
            Self::Absent | Self::Other(_) => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the value if it is a whole number that is not negative.
    pub(super) fn count(self) -> Option<u64> {
        self.other()?.parse().ok()
    }

    /// Returns the value if it is a number.
    pub(super) fn number(self) -> Option<f64> {
        self.other()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns the value if it can be a cost in US dollars. An absurd one is not known.
    pub(super) fn dollars(self) -> Option<f64> {
        self.number().filter(|usd| (0.0..=DOLLARS_MOST).contains(usd))
    }

    /// Returns the value if it is `true` or `false`.
    pub(super) fn flag(self) -> Option<bool> {
        self.other()?.parse().ok()
    }

    /// Reads the value as a `T` that is not a text.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.other()?).ok()
    }

    /// Reads the value if it is an object.
    pub(super) fn object<T: Fields<'a>>(self) -> Option<T> {
        let mut object = T::default();
        Cursor::new(self.other()?).object(&mut object).ok()?.then_some(object)
    }

    /// Returns the ids in the value if it is a list, up to `most` of them.
    pub(super) fn ids(self, most: usize) -> Vec<String> {
        let mut ids = Vec::new();
        // The value was checked when it was read.
        let _ = Cursor::new(self.other().unwrap_or("[]")).list(|cursor| {
            let id = cursor.raw()?.id().filter(|_| ids.len() < most);
            ids.extend(id.map(Cow::into_owned));
            Ok(())
        });
        ids
    }

    /// Returns the objects in the value if it is a list.
    pub(super) fn objects<T: Fields<'a>>(self) -> Vec<T> {
        Cursor::new(self.other().unwrap_or("[]")).objects().unwrap_or_default()
    }

    #[inline]
    fn other(self) -> Option<&'a str> {
        match self {
            Self::Other(json) => Some(json),
            Self::Absent | Self::Text(_) | Self::Escaped(_) => None,
        }
    }
}

impl<'a> Field<'a> for Raw<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        *self = cursor.raw()?;
        Ok(())
    }
}

/// Reads an object. Any other value is nothing.
impl<'a, T: Fields<'a>> Field<'a> for Option<T> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        if !cursor.object(self.insert(T::default()))? {
            *self = None;
        }
        Ok(())
    }
}

/// Reads the objects of a list.
impl<'a, T: Fields<'a>> Field<'a> for Vec<T> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        *self = cursor.objects()?;
        Ok(())
    }
}

/// The content of a message. A value of another type has no blocks.
#[derive(Clone, Debug)]
pub(super) enum Content<'a, T> {
    /// A single text.
    Text(Raw<'a>),
    /// A list of blocks. List entries that are not objects are left out.
    Blocks(Vec<T>),
}

impl<T> Default for Content<'_, T> {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl<'a, T: Fields<'a>> Field<'a> for Content<'a, T> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        *self = if cursor.peek() == Some(b'"') {
            Self::Text(cursor.raw()?)
        } else {
            Self::Blocks(cursor.objects()?)
        };
        Ok(())
    }
}

/// Objects by their names, up to `MOST` of them.
#[derive(Debug)]
pub(super) struct Named<T, const MOST: usize>(pub(super) BTreeMap<String, T>);

impl<T, const MOST: usize> Default for Named<T, MOST> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, T: Fields<'a>, const MOST: usize> Fields<'a> for Named<T, MOST> {
    fn read_field(&mut self, name: &str, cursor: &mut Cursor<'a>) -> Read<()> {
        if self.0.len() >= MOST && !self.0.contains_key(name) {
            return cursor.skip();
        }
        let mut object = T::default();
        if cursor.object(&mut object)? {
            self.0.insert(name.to_owned(), object);
        }
        Ok(())
    }
}

impl<'a, T: Fields<'a>, const MOST: usize> Field<'a> for Named<T, MOST> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Read<()> {
        *self = Self::default();
        cursor.object(self)?;
        Ok(())
    }
}

/// Reads a JSON text with escapes. Few have halves of a surrogate pair, which must be mended.
pub(super) fn unescaped(json: &str) -> Option<String> {
    serde_json::from_str(json).or_else(|_| from_text(json)).ok()
}
