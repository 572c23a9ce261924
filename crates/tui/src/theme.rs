//! The styles of the terminal interface, by their meaning. Every part that draws takes its styles
//! from here.
//!
//! A color never is the only sign of a meaning: a changed line has `+` or `-`, and an error is named
//! as one. The theme without colors is therefore complete.

use pitcrew_protocol::Color;
use ratatui::style::{self, Modifier, Style};

/// The themes that a user can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeKind {
    /// For a terminal with a dark background.
    #[default]
    Dark,
    /// For a terminal with a light background.
    Light,
    /// For a dark background, with colors that color-blind people can tell apart: blue and orange
    /// in place of green and red.
    ColorBlind,
    /// Without any color. Bold, underlined, dim and reversed text remain.
    NoColor,
}

/// The styles of a theme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Normal text.
    pub text: Style,
    /// Text of less importance, such as a remark of pitcrew.
    pub dim: Style,
    /// A heading.
    pub heading: Style,
    /// A piece of code within a text.
    pub code: Style,
    /// The sign of an added line.
    pub added: Style,
    /// The sign of a removed line.
    pub removed: Style,
    /// The whole of an added line.
    pub added_line: Style,
    /// The whole of a removed line.
    pub removed_line: Style,
    /// Something that a person should look at.
    pub warning: Style,
    /// An error.
    pub error: Style,
    /// Something that belongs to the interface, such as the name of a key.
    pub accent: Style,
    /// The selected entry of a list.
    pub selected: Style,
    /// The styles of program code.
    pub syntax: SyntaxStyles,
    agents: AgentColors,
}

/// The styles of program code, by the meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxStyles {
    /// A comment.
    pub comment: Style,
    /// A keyword.
    pub keyword: Style,
    /// A string.
    pub string: Style,
    /// A number or another constant.
    pub constant: Style,
    /// The name of a function.
    pub function: Style,
    /// The name of a type or of a tag.
    pub type_name: Style,
}

/// How the colors of agents are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentColors {
    OnDark,
    OnLight,
    ColorBlind,
    None,
}

/// The colors of a theme, as numbers of the 256 colors that terminals have.
struct Palette {
    dim: u8,
    heading: u8,
    code: u8,
    added: u8,
    removed: u8,
    added_line: u8,
    removed_line: u8,
    warning: u8,
    error: u8,
    accent: u8,
    selected: u8,
    keyword: u8,
    string: u8,
    constant: u8,
    function: u8,
    type_name: u8,
}

const DARK: Palette = Palette {
    dim: 245,
    heading: 117,
    code: 180,
    added: 114,
    removed: 210,
    added_line: 22,
    removed_line: 52,
    warning: 221,
    error: 203,
    accent: 80,
    selected: 238,
    keyword: 176,
    string: 114,
    constant: 215,
    function: 111,
    type_name: 80,
};

const LIGHT: Palette = Palette {
    dim: 242,
    heading: 25,
    code: 94,
    added: 28,
    removed: 124,
    added_line: 194,
    removed_line: 224,
    warning: 130,
    error: 160,
    accent: 30,
    selected: 253,
    keyword: 90,
    string: 28,
    constant: 130,
    function: 25,
    type_name: 30,
};

/// Blue means added and orange means removed. Red and green are not used side by side.
const COLOR_BLIND: Palette = Palette {
    dim: 245,
    heading: 117,
    code: 222,
    added: 75,
    removed: 214,
    added_line: 17,
    removed_line: 58,
    warning: 221,
    error: 214,
    accent: 117,
    selected: 238,
    keyword: 117,
    string: 222,
    constant: 214,
    function: 75,
    type_name: 182,
};

impl Theme {
    /// Returns the theme of this kind.
    #[must_use]
    pub fn new(kind: ThemeKind) -> Self {
        match kind {
            ThemeKind::Dark => Self::colored(&DARK, AgentColors::OnDark),
            ThemeKind::Light => Self::colored(&LIGHT, AgentColors::OnLight),
            ThemeKind::ColorBlind => Self::colored(&COLOR_BLIND, AgentColors::ColorBlind),
            ThemeKind::NoColor => Self::without_color(),
        }
    }

    /// Returns the style of an agent's name. The lead has no color.
    #[must_use]
    pub fn agent(&self, color: Option<Color>) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let Some(color) = color else { return bold };
        // Each row has the color's number on a dark and on a light background, and its number among
        // the colors that color-blind people can tell apart.
        let (on_dark, on_light, color_blind) = match color {
            Color::Blue => (75, 25, 32),
            Color::Green => (114, 28, 36),
            Color::Yellow => (221, 136, 227),
            Color::Purple => (176, 90, 175),
            Color::Orange => (215, 166, 214),
            Color::Pink => (212, 162, 225),
            Color::Cyan => (80, 30, 117),
            Color::Red => (203, 160, 166),
        };
        match self.agents {
            AgentColors::OnDark => bold.fg(style::Color::Indexed(on_dark)),
            AgentColors::OnLight => bold.fg(style::Color::Indexed(on_light)),
            AgentColors::ColorBlind => bold.fg(style::Color::Indexed(color_blind)),
            AgentColors::None => bold,
        }
    }

    fn colored(palette: &Palette, agents: AgentColors) -> Self {
        let fg = |number: u8| Style::new().fg(style::Color::Indexed(number));
        let bg = |number: u8| Style::new().bg(style::Color::Indexed(number));
        Self {
            text: Style::new(),
            dim: fg(palette.dim),
            heading: fg(palette.heading).add_modifier(Modifier::BOLD),
            code: fg(palette.code),
            added: fg(palette.added),
            removed: fg(palette.removed),
            added_line: bg(palette.added_line),
            removed_line: bg(palette.removed_line),
            warning: fg(palette.warning).add_modifier(Modifier::BOLD),
            error: fg(palette.error).add_modifier(Modifier::BOLD),
            accent: fg(palette.accent),
            selected: bg(palette.selected).add_modifier(Modifier::BOLD),
            syntax: SyntaxStyles {
                comment: fg(palette.dim).add_modifier(Modifier::ITALIC),
                keyword: fg(palette.keyword),
                string: fg(palette.string),
                constant: fg(palette.constant),
                function: fg(palette.function),
                type_name: fg(palette.type_name),
            },
            agents,
        }
    }

    fn without_color() -> Self {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        let dim = plain.add_modifier(Modifier::DIM);
        Self {
            text: plain,
            dim,
            heading: bold,
            code: plain,
            added: bold,
            removed: bold,
            added_line: plain,
            removed_line: plain,
            warning: bold,
            error: bold,
            accent: bold,
            selected: plain.add_modifier(Modifier::REVERSED),
            syntax: SyntaxStyles {
                comment: dim,
                keyword: bold,
                string: plain,
                constant: plain,
                function: plain,
                type_name: plain,
            },
            agents: AgentColors::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all styles of a theme.
    fn styles(theme: &Theme) -> Vec<Style> {
        let Theme { text, dim, heading, code, added, removed, added_line, removed_line, .. } =
            *theme;
        let Theme { warning, error, accent, selected, syntax, .. } = *theme;
        let SyntaxStyles { comment, keyword, string, constant, function, type_name } = syntax;
        let own = [
            text,
            dim,
            heading,
            code,
            added,
            removed,
            added_line,
            removed_line,
            warning,
            error,
            accent,
            selected,
            comment,
            keyword,
            string,
            constant,
            function,
            type_name,
        ];
        let agents = Color::ALL.map(|color| theme.agent(Some(color)));
        own.into_iter().chain(agents).collect()
    }

    #[test]
    fn a_theme_without_color_has_no_color_and_still_tells_a_selection() {
        let theme = Theme::new(ThemeKind::NoColor);
        assert!(styles(&theme).iter().all(|style| style.fg.is_none() && style.bg.is_none()));
        assert_ne!(theme.selected, theme.text);
        assert_ne!(theme.heading, theme.text);
    }

    #[test]
    fn every_agent_of_a_team_has_another_color() {
        for kind in [ThemeKind::Dark, ThemeKind::Light, ThemeKind::ColorBlind] {
            let theme = Theme::new(kind);
            let mut colors: Vec<_> =
                Color::ALL.iter().filter_map(|color| theme.agent(Some(*color)).fg).collect();
            colors.sort_by_key(|color| format!("{color:?}"));
            colors.dedup();
            assert_eq!(colors.len(), Color::ALL.len(), "{kind:?}");
        }
    }
}
