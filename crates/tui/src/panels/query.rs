//! The search of a panel: a typed text whose words must all be found.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum number of characters of a search.
const CHARS_MOST: usize = 100;

/// A search, as typed. A word that begins with `@` is the beginning of a name. Case makes no
/// difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    text: String,
    words: Vec<Word>,
}

/// A word of a search, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// The beginning of a name.
    Name(String),
    /// A part of a text.
    Text(String),
}

/// The texts in which a search looks for its words.
pub(crate) trait Searched {
    /// Whether a name begins with this text.
    fn has_name(&self, beginning: &str) -> bool;
    /// Whether a text contains this text.
    fn has_text(&self, part: &str) -> bool;
}

impl Query {
    /// Returns the search as typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Changes the search by a key. Returns whether the search changed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers == KeyModifiers::CONTROL;
        let length = self.text.len();
        match key.code {
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('u') if is_control => self.text.clear(),
            KeyCode::Char('w') if is_control => {
                let before = self.text.trim_end();
                let start = before.rfind(' ').map_or(0, |space| space + 1);
                self.text.truncate(start);
            }
            KeyCode::Char(c)
                if key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
                    && self.text.chars().count() < CHARS_MOST =>
            {
                self.text.push(c);
            }
            _ => {}
        }
        self.words = words(&self.text);
        self.text.len() != length
    }

    /// Whether this search finds nothing that `earlier` does not find.
    pub(crate) fn narrows(&self, earlier: &Self) -> bool {
        self.text.starts_with(&earlier.text)
    }

    /// Whether all words are found.
    pub(crate) fn finds(&self, searched: &impl Searched) -> bool {
        self.words.iter().all(|word| match word {
            Word::Name(beginning) => searched.has_name(beginning),
            Word::Text(part) => searched.has_text(part),
        })
    }
}

fn words(text: &str) -> Vec<Word> {
    let word = |word: &str| match word.strip_prefix('@') {
        Some(name) => Word::Name(name.to_lowercase()),
        None => Word::Text(word.to_lowercase()),
    };
    text.split_whitespace().map(word).collect()
}

/// Whether the text begins with `beginning`, which is in lower case.
pub(crate) fn begins_with(text: &str, beginning: &str) -> bool {
    match text.get(..beginning.len()) {
        Some(start) if start.is_ascii() => start.eq_ignore_ascii_case(beginning),
        Some(_) | None => text.to_lowercase().starts_with(beginning),
    }
}

/// Whether the text contains `part`, which is in lower case.
pub(crate) fn contains(text: &str, part: &str) -> bool {
    let Some((first, rest)) = part.as_bytes().split_first() else { return true };
    if !part.is_ascii() {
        return text.to_lowercase().contains(part);
    }
    // Most texts are searched without a copy: a long timeline is searched while a person types.
    let mut text = text.as_bytes();
    while let Some(at) = text.iter().position(|byte| byte.eq_ignore_ascii_case(first)) {
        let (_, found) = text.split_at(at + 1);
        if found.get(..rest.len()).is_some_and(|there| there.eq_ignore_ascii_case(rest)) {
            return true;
        }
        text = found;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(text: &str) -> Query {
        let mut query = Query::default();
        for c in text.chars() {
            query.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
        query
    }

    struct Message(&'static str, &'static str);

    impl Searched for Message {
        fn has_name(&self, beginning: &str) -> bool {
            begins_with(self.0, beginning)
        }

        fn has_text(&self, part: &str) -> bool {
            contains(self.1, part)
        }
    }

    #[test]
    fn each_word_must_be_found_and_case_makes_no_difference() {
        let message = Message("Bob", "The Parser is ÜBER slow");
        for found in ["", "parser", "SLOW parser", "@bob", "@B slow", "über", "the is"] {
            assert!(typed(found).finds(&message), "{found}");
        }
        for missing in ["parsers", "@ob", "@bob fast", "bob", "slow @ann"] {
            assert!(!typed(missing).finds(&message), "{missing}");
        }
    }

    #[test]
    fn a_search_is_edited_by_character_by_word_and_whole() {
        let mut query = typed("one two");
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert!(query.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE)));
        assert_eq!(query.text(), "one tw");
        assert!(query.key(control('w')));
        assert_eq!(query.text(), "one ");
        assert!(!query.key(control('o')), "an unknown key changes nothing");
        assert!(query.key(control('u')));
        assert!(query.is_empty() && !query.key(control('u')));
        assert_eq!(typed(&"x".repeat(500)).text().len(), CHARS_MOST);
    }

    proptest! {
        #[test]
        fn a_longer_search_finds_nothing_more(
            text in "[a-cA-C @]{0,20}",
            query in "[a-c@ ]{0,4}",
            more in "[a-c@ ]{0,3}",
        ) {
            struct Text(String);
            impl Searched for Text {
                fn has_name(&self, beginning: &str) -> bool {
                    self.0.split(' ').any(|name| begins_with(name, beginning))
                }
                fn has_text(&self, part: &str) -> bool {
                    contains(&self.0, part)
                }
            }
            let (query, longer) = (typed(&query), typed(&format!("{query}{more}")));
            prop_assert!(longer.narrows(&query));
            let text = Text(text);
            prop_assert!(!longer.finds(&text) || query.finds(&text));
        }

        #[test]
        fn a_text_is_found_as_in_its_lower_case_form(
            text in "[a-dA-DäöüÄÖÜ日 ]{0,30}",
            part in "[a-dA-DäöüÄÖÜ日 ]{0,3}",
        ) {
            let part = part.to_lowercase();
            prop_assert_eq!(contains(&text, &part), text.to_lowercase().contains(&part));
        }
    }
}
