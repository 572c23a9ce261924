//! The token with which programs call the API.

use std::fmt;

/// The number of hexadecimal digits of a token.
const DIGITS: usize = 64;

/// The token of the server. Its text is never part of a log or of an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The reason why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has {DIGITS} hexadecimal digits")]
pub struct TokenError;

impl Token {
    /// Reads a token.
    ///
    /// # Errors
    /// [`TokenError`] if the text has another form.
    pub fn new(text: impl Into<String>) -> Result<Self, TokenError> {
        let text = text.into();
        let is_token = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_token { Ok(Self(text)) } else { Err(TokenError) }
    }

    /// Whether `given` is this token.
    pub(crate) fn is(&self, given: &str) -> bool {
        is_same(&self.0, given)
    }
}

/// Whether two secret texts are equal. The time that this takes does not depend on where they
/// differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("0a".repeat(32)).unwrap();
        assert!(token.is(&"0a".repeat(32)));
        for other in ["", "0a", &"0a".repeat(33), &"0b".repeat(32), &"0A".repeat(32)] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
        assert_eq!(Token::new("x".repeat(64)), Err(TokenError));
    }
}
