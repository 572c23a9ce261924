//! One word of a command: its text as far as it is known before the shell expands it.

use tree_sitter::Node;

/// A word and what expansion may still do to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written, quotes and all.
    pub(crate) raw: String,
    /// Without quotes; up to the first expansion when there is one.
    pub(crate) text: String,
    /// How the word becomes its final form.
    pub(crate) fate: Fate,
}

/// What expansion makes of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It is its text.
    #[default]
    Exact,
    /// One or more words that begin with its text.
    Begins,
    /// Any number of any words.
    Anything,
}

impl Word {
    /// A word that was never written, such as what `xargs` adds.
    pub(crate) fn unknown(raw: &str) -> Self {
        Self { raw: raw.to_owned(), text: String::new(), fate: Fate::Anything }
    }

    /// The folder a command works in when none is named.
    pub(crate) fn here() -> Self {
        Self { raw: ".".to_owned(), text: ".".to_owned(), fate: Fate::Exact }
    }

    /// The word, when it is known whole.
    pub(crate) fn exact(&self) -> Option<&str> {
        (self.fate == Fate::Exact).then_some(self.text.as_str())
    }

    /// Whether a command may take it, or a part of it, for a flag.
    pub(crate) fn may_be_flag(&self) -> bool {
        match self.fate {
            Fate::Exact => self.text.starts_with('-'),
            Fate::Begins => self.text.is_empty() || self.text.starts_with('-'),
            Fate::Anything => true,
        }
    }

    /// Adds literal text.
    pub(super) fn push(&mut self, text: &str) {
        if self.fate == Fate::Exact {
            self.text.push_str(text);
        }
    }

    /// Adds something that expands.
    pub(super) fn expand(&mut self, fate: Fate) {
        self.fate = self.fate.max(fate);
    }

    /// Adds an unquoted piece: backslashes escape, `*?[{` expand, a leading `~` may.
    pub(super) fn push_unquoted(&mut self, piece: &str) {
        if self.raw_start() && piece.starts_with('~') && !(piece == "~" || piece.starts_with("~/")) {
            self.expand(Fate::Begins);
        }
        let mut chars = piece.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => {
                    if let Some(escaped) = chars.next().filter(|c| *c != '\n') {
                        self.push(escaped.encode_utf8(&mut [0; 4]));
                    }
                }
                '*' | '?' | '[' | '{' => self.expand(Fate::Begins),
                _ => self.push(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    /// Adds a piece from between double quotes.
    pub(super) fn push_double_quoted(&mut self, piece: &str) {
        let mut chars = piece.chars().peekable();
        while let Some(c) = chars.next() {
            let escaped = chars.next_if(|next| c == '\\' && matches!(next, '$' | '`' | '"' | '\\' | '\n'));
            match escaped {
                Some('\n') => {}
                Some(escaped) => self.push(escaped.encode_utf8(&mut [0; 4])),
                None => self.push(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    fn raw_start(&self) -> bool {
        self.text.is_empty() && self.fate == Fate::Exact
    }
}

/// What a `$name` expands to: one word between quotes, any number outside them or for `$@`.
pub(super) fn variable_fate(node: Node<'_>, source: &str, quoted: Quoted) -> Fate {
    let text = source.get(node.byte_range()).unwrap_or_default();
    match quoted {
        Quoted::Yes if !text.contains(['@', '*']) => Fate::Begins,
        Quoted::Yes | Quoted::No => Fate::Anything,
    }
}

/// Whether an expansion stands between double quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoted {
    Yes,
    No,
}
