//! Takes HTML, images and links that run programs out of markdown that an agent wrote. The rest stays
//! markdown.
//!
//! Code keeps its characters, because escapes are not read there. Text is code only if every reader
//! of markdown agrees. Where readers could disagree, the text is escaped: then a block of code may
//! show `&lt;`, but no HTML is ever free.

/// The beginnings of the addresses to which a link may lead.
const SCHEMES: &[&str] = &["http", "https", "mailto"];

/// Returns a text in which no HTML, no character reference and no image has an effect, and no link
/// runs a program.
pub(super) fn harmless(text: &str) -> String {
    let are_fences_plain = !text.lines().any(opens_nested);
    let mut fence: Option<Fence> = None;
    let mut is_sure = true;
    let mut escaped = String::new();
    for line in text.lines() {
        if let Some(open) = &fence {
            escaped.push_str(line);
            if open.is_closed_by(line) {
                fence = None;
                is_sure = true;
            }
        } else if let Some(open) = Fence::of(line).filter(|_| are_fences_plain) {
            // The word after a fence is read as text.
            escape(line, &mut escaped);
            fence = Some(open);
        } else {
            // A construct within a line never goes on over an empty line.
            is_sure |= line.trim().is_empty();
            is_sure = escape_line(line, is_sure, &mut escaped);
        }
        escaped.push('\n');
    }
    escaped
}

/// The line that begins a block of code.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Reads a fence at the very beginning of a line.
    fn of(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        // Three backticks with another one after them are code within a line.
        let is_fence = length >= 3 && !(mark == '`' && rest.contains('`'));
        is_fence.then_some(Self { mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let marks = line.trim_start_matches(' ');
        let rest = marks.trim_start_matches(self.mark);
        line.len() - marks.len() <= 3
            && marks.len() - rest.len() >= self.length
            && rest.trim().is_empty()
    }
}

/// Whether a line may begin a block of code within a list or a quote. Such a block ends with the
/// list, and this module does not know where a list ends.
fn opens_nested(line: &str) -> bool {
    let is_marker = |c: char| c.is_whitespace() || c.is_ascii_digit() || ">-+*.)".contains(c);
    let inner = line.trim_start_matches(is_marker);
    inner.len() < line.len() && Fence::of(inner).is_some()
}

/// Escapes a line outside blocks of code. Returns whether code in the next line is recognized.
fn escape_line(line: &str, is_sure: bool, escaped: &mut String) -> bool {
    if !is_sure {
        escape(line, escaped);
        return false;
    }
    let mut rest = line;
    loop {
        let Some(at) = rest.find('`') else {
            escape(rest, escaped);
            return !has_link(rest);
        };
        let (before, from) = rest.split_at(at);
        // An address and an escape can reach into what looks like code, and so can a link.
        let is_apart = before.is_empty() || before.ends_with(char::is_whitespace);
        let Some(length) = code_length(from).filter(|_| is_apart && !has_link(before)) else {
            break;
        };
        let (code, after) = from.split_at(length);
        escape(before, escaped);
        escaped.push_str(code);
        // Code directly after code would be joined to it.
        if !after.is_empty()
            && !after.starts_with(|c: char| c.is_whitespace() || ".,:;".contains(c))
        {
            escape(after, escaped);
            return !after.contains('`') && !has_link(after);
        }
        rest = after;
    }
    escape(rest, escaped);
    false
}

/// Returns the length of the code at the beginning of a text, with its backticks. A table would
/// divide code at a bar.
fn code_length(text: &str) -> Option<usize> {
    let inner = text.trim_start_matches('`');
    let length = text.len() - inner.len();
    let mut at = length;
    loop {
        let begin = at + text.get(at..)?.find('`')?;
        let after = text.get(begin..)?.trim_start_matches('`');
        at = text.len() - after.len();
        if at - begin == length {
            return text.get(..at).filter(|code| !code.contains('|')).map(str::len);
        }
    }
}

/// Whether a part of a line can be the end of the text of a link, or of its name.
fn has_link(text: &str) -> bool {
    text.contains(']')
}

/// Escapes what begins HTML, a character reference, an image, or a link to anything but the web.
fn escape(text: &str, escaped: &mut String) {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '[' if before == '!' => escaped.push_str("\\["),
            '(' | ':' if before == ']' && !is_harmless_target(text.get(at + 1..)) => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
        before = c;
    }
}

/// Whether a link leads to the web, to a mail address or to a place in the repository. Browsers run
/// `javascript:` and `data:`. A target in the next line is not known here.
fn is_harmless_target(rest: Option<&str>) -> bool {
    let target = rest.unwrap_or_default().trim_start();
    let target = target.split([')', ' ', '\t']).next().unwrap_or_default();
    // An escape and a control character in a scheme have no effect.
    let plain = |c: &char| *c != '\\' && !c.is_control();
    let target: String = target.chars().filter(plain).collect();
    let scheme = target.split(['/', '?', '#']).next().unwrap_or_default().split_once(':');
    match scheme {
        Some((scheme, _)) => SCHEMES.iter().any(|it| scheme.eq_ignore_ascii_case(it)),
        None => !target.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(harmless(text), format!("{expected}\n"), "{text}");
    }

    #[test]
    fn html_and_images_have_no_effect() {
        check("</blockquote><h1>FORGED</h1><!--", "&lt;/blockquote>&lt;h1>FORGED&lt;/h1>&lt;!--");
        check("![](http://evil/pixel)", "!\\[](http://evil/pixel)");
        check("\\![a][b] &lt;b&gt;", "\\!\\[a][b] &amp;lt;b&amp;gt;");
        check("**bold** [text](http://a)\n- one", "**bold** [text](http://a)\n- one");
    }

    #[test]
    fn only_links_to_the_web_and_into_the_repository_stay_links() {
        for link in ["http://a", "HTTPS://a", "mailto:a@b", "src/a.rs:12", "#top", "/a?b:c", "a"] {
            check(&format!("[x]({link}) and"), &format!("[x]({link}) and"));
            check(&format!("[x]: {link}"), &format!("[x]: {link}"));
        }
        for link in [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            " \tjavascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "java\\script\\:x",
            "java\u{1}script:x",
            "file:///etc/passwd",
            "(javascript:x)",
            "",
        ] {
            check(&format!("[x]({link}) and"), &format!("[x]\\({link}) and"));
            check(&format!("[x]: {link}"), &format!("[x]\\: {link}"));
        }
        check("[x](&#106;avascript:x)", "[x](&amp;#106;avascript:x)");
        check("[x](<javascript:x>)", "[x]\\(&lt;javascript:x>)");
        check("[x](\njavascript:x)", "[x]\\(\njavascript:x)");
        check("a [x][y]\n\n[y]:\n  javascript:x", "a [x][y]\n\n[y]\\:\n  javascript:x");
        check("`[x](javascript:x)`", "`[x](javascript:x)`");
    }

    #[test]
    fn code_keeps_its_characters() {
        check("the `Vec<&str>`, and `a && b`.", "the `Vec<&str>`, and `a && b`.");
        check("``a`<b>`` <i>", "``a`<b>`` &lt;i>");
        check("```rust\nlet a: Vec<u8>;\n```\n<b>", "```rust\nlet a: Vec<u8>;\n```\n&lt;b>");
        check("~~~\n```<b>\n~~~\n`<c>`", "~~~\n```<b>\n~~~\n`<c>`");
    }

    #[test]
    fn what_only_looks_like_code_is_escaped() {
        for text in [
            // Code that began in the line before ends here.
            "a ` b\n` <h1> `",
            // The fence ends with its list, or is another kind of fence.
            "- ~~~\n```\n~~~\n<h1>",
            " ~~~\n```\n ~~~\n<h1>",
            "- a\n  ```\n  b\nc <h1>\n```\n",
            // An address, an escape, a link or a bar of a table takes a backtick away.
            "http://a.b/`<h1>`",
            "\\`<h1>`",
            "[a](b`) <h1> `x",
            "[a\n](b `) <h1> `x",
            "a | b\n--|--\n `c | <h1>` | d",
            "```a`<h1>",
            "`a``<h1>``",
        ] {
            let escaped = harmless(text);
            assert!(!escaped.contains("<h1>"), "{text} -> {escaped}");
        }
    }
}
