//! Draws a QR code in the terminal, two rows of modules in each line.

use qrcode::types::{Color, QrError};
use qrcode::{EcLevel, QrCode};

use crate::output::INK;

/// The width in modules of the light border without which no reader finds the code.
const BORDER: usize = 4;

/// How a QR code is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// In black on white, whatever the colours of the terminal are.
    Ink,
    /// Without styles. Blocks are light modules, which is right on a dark terminal. On a light one
    /// the code is inverted, which most readers can read too.
    Plain,
}

/// Draws a text as a QR code. It is as small as the text allows.
///
/// # Errors
/// If the text is too long for a QR code.
pub(crate) fn drawn(text: &str, drawing: Drawing) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M)?;
    let (width, colors) = (code.width(), code.to_colors());
    let is_dark = |row: usize, column: usize| {
        let at = |place: usize| place.checked_sub(BORDER).filter(|it| *it < width);
        let module = at(row).zip(at(column)).map(|(row, column)| row * width + column);
        module.and_then(|module| colors.get(module)) == Some(&Color::Dark)
    };
    let side = width + 2 * BORDER;
    let line = |row: usize| {
        let modules = (0..side).map(|column| match drawing {
            Drawing::Ink => block(is_dark(row, column), is_dark(row + 1, column)),
            Drawing::Plain => block(!is_dark(row, column), !is_dark(row + 1, column)),
        });
        let modules: String = modules.collect();
        match drawing {
            Drawing::Ink => format!("{INK}{modules}{INK:#}"),
            Drawing::Plain => modules,
        }
    };
    Ok((0..side).step_by(2).map(line).collect::<Vec<_>>().join("\n"))
}

/// Returns the character whose upper and lower half are drawn or left out.
fn block(upper: bool, lower: bool) -> char {
    match (upper, lower) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "https://team.example.org:7420/pair/7KQ2-M9XH";

    /// Returns the halves of characters that are drawn, line by line.
    fn halves(picture: &str) -> Vec<Vec<bool>> {
        let rows = picture.lines().flat_map(|line| {
            let of = |drawn: [char; 2]| line.chars().map(|it| drawn.contains(&it)).collect();
            [of(['█', '▀']), of(['█', '▄'])]
        });
        rows.collect()
    }

    /// Reads a picture of light and dark halves, as a camera does.
    fn read(dark: &[Vec<bool>]) -> String {
        const PIXELS: usize = 4;
        let (width, height) = (dark[0].len() * PIXELS, dark.len() * PIXELS);
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
            if dark[y / PIXELS][x / PIXELS] { 0 } else { 255 }
        });
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1, "no code is found");
        grids[0].decode().unwrap().1
    }

    #[test]
    fn a_reader_finds_the_link_in_the_picture() {
        let ink = drawn(LINK, Drawing::Ink).unwrap();
        let style = INK.render().to_string();
        let bare = ink.replace(&style, "").replace(&INK.render_reset().to_string(), "");
        assert_eq!(read(&halves(&bare)), LINK);
        let plain = drawn(LINK, Drawing::Plain).unwrap();
        let dark: Vec<Vec<bool>> =
            halves(&plain).into_iter().map(|row| row.into_iter().map(|it| !it).collect()).collect();
        assert_eq!(read(&dark), LINK);
        // It fits on a small terminal with the lines around it.
        assert!(plain.lines().count() <= 22, "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 60), "{plain}");
    }

    #[test]
    fn a_text_that_is_too_long_is_an_error() {
        assert!(drawn(&"x".repeat(5_000), Drawing::Ink).is_err());
    }
}
