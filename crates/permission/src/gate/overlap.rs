//! Compares two texts of which some parts are not known.

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// This character.
    Letter(char),
    /// Any text without a space.
    WithinWord,
    /// Any text.
    Anything,
}

impl Piece {
    fn admits(self, letter: char) -> bool {
        match self {
            Self::Letter(own) => own == letter,
            Self::WithinWord => letter != ' ',
            Self::Anything => true,
        }
    }

    fn is_gap(self) -> bool {
        !matches!(self, Self::Letter(_))
    }
}

/// Returns the pieces of a text without gaps.
pub(super) fn letters(text: &str) -> impl Iterator<Item = Piece> {
    text.chars().map(Piece::Letter)
}

/// Returns true if some text fits both `pattern` and `text`. The time is at most proportional to
/// the length of one times the length of the other.
pub(super) fn overlap(pattern: &[Piece], text: &[Piece]) -> bool {
    // Each element says whether this position of the pattern can be reached after the pieces of the
    // text that were read so far.
    let mut places = vec![false; pattern.len() + 1];
    if let Some(first) = places.first_mut() {
        *first = true;
    }
    pass_gaps(pattern, &mut places);
    for piece in text {
        let mut next = vec![false; pattern.len() + 1];
        let mut fills = false;
        for (at, place) in places.iter().enumerate() {
            // A gap of the text may be empty, or stand for a piece of the pattern.
            let is_reached = *place || fills;
            let Some(own) = pattern.get(at).filter(|_| is_reached) else {
                if let Some(there) = next.get_mut(at).filter(|_| is_reached && piece.is_gap()) {
                    *there = true;
                }
                continue;
            };
            let fits = match (*own, *piece) {
                (Piece::Letter(letter), piece) => piece.admits(letter),
                (own, Piece::Letter(letter)) => own.admits(letter),
                _ => true,
            };
            let stays = piece.is_gap() || own.is_gap() && fits;
            if let Some(there) = next.get_mut(at).filter(|_| stays) {
                *there = true;
            }
            if let Some(there) = next.get_mut(at + 1).filter(|_| fits) {
                *there = true;
            }
            fills = piece.is_gap() && fits;
        }
        pass_gaps(pattern, &mut next);
        if !next.contains(&true) {
            return false;
        }
        places = next;
    }
    places.last() == Some(&true)
}

/// Marks the positions that are reached because gaps of the pattern may be empty.
fn pass_gaps(pattern: &[Piece], places: &mut [bool]) {
    for (at, piece) in pattern.iter().enumerate() {
        let passes = piece.is_gap() && places.get(at) == Some(&true);
        if let Some(next) = places.get_mut(at + 1).filter(|_| passes) {
            *next = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        let piece = |c| match c {
            '*' => Piece::Anything,
            '?' => Piece::WithinWord,
            c => Piece::Letter(c),
        };
        text.chars().map(piece).collect()
    }

    #[test]
    fn texts_overlap_if_one_text_fits_both() {
        for (pattern, text, expected) in [
            ("git push", "git push", true),
            ("git push", "git pull", false),
            ("git push", "git *", true),
            ("git push *", "git * main", true),
            ("git push", "git ?", true),
            ("git push", "?sh", false),
            ("git push", "*sh", true),
            ("git push", "git ?ll", false),
            ("a*b", "?c", false),
            ("a*b", "a?", true),
            ("a*b", "*", true),
            ("abc", "a?b?c", true),
            ("abc", "a?c?b", false),
            ("", "*", true),
            ("a", "", false),
        ] {
            assert_eq!(overlap(&pieces(pattern), &pieces(text)), expected, "{pattern} and {text}");
        }
    }
}
