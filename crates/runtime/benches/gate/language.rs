//! Generates random shell commands from a seed. The commands use every kind of shell syntax. Some
//! of them try to read allowed and forbidden files, and others try to create a file called
//! `canary`.
//!
//! No generated command does harm, wherever it runs. A command only reads files, or creates or
//! removes files called `canary`.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::words::{PATHS, PAYLOADS, READERS, WORDS};

/// Templates for whole commands. Each `C` stands for a simple command.
const SHAPES: &[&str] = &[
    "C",
    "C",
    "C",
    "C",
    "C",
    "C",
    "C; C",
    "C && C",
    "C || C",
    "C | C",
    "C |& C",
    "C & C",
    "C\nC",
    "(C)",
    "{ C; }",
    "! C",
    "if C; then C; fi",
    "if C; then C; else C; fi",
    "while C; do C; break; done",
    "until C; do C; done",
    "for x in P P; do C; done",
    "for x in W; do C; done",
    "for x in P\ndo cat $x; done",
    "for x in P; do cat \"$x\"; done",
    "for ((i=0;i<1;i++)); do C; done",
    "case W in a) C;; *) C;; esac",
    "f() { C; }; f",
    "function f { C; }; f",
    "cat() { C; }; cat",
    "x=P; C",
    "x=P; cat $x",
    "x=P; cat \"$x\"",
    "x=P\ngrep . $x",
    "x=W; C",
    "x=\"root P\"; grep $x",
    "x='-f P'; grep $x README",
    "C > canary",
    "C >> canary",
    "C >| canary",
    "C &> canary",
    "C >& canary",
    "C 2> canary",
    "C 3<> canary",
    "> canary C",
    "C > /dev/null",
    "C 2>/dev/null",
    "C 2>&1",
    "C < P",
    "C <<< W",
    "C <<< \"W\"",
    "C <<EOF\nW\nEOF",
    "C <<'EOF'\nW\nEOF",
    "C <<-EOF\n\tW\n\tEOF\nC",
    "C # C",
    "C #\nC",
    "C \\\nP",
    "C \\\n| C",
    "cat <<EOF | C\n$(C)\nEOF",
    "coproc C",
    "time C",
    "select x in W; do C; break; done",
    "[[ W =~ P ]] && C",
    "((x=1)); C",
    "x=(W P); C",
    "C {fd}> canary",
    "echo W",
    "echo \"W W\"",
    "echo $(C)",
    "echo \"$(C)\"",
    "echo `C`",
    "cat <(C)",
    "C >(C)",
    "sh -c 'C'",
    "bash -c 'x=P; cat $x'",
    "eval 'C'",
    "(C; C) | C",
    "{ C; C; } 2>/dev/null",
    "x=README; C; x=P; cat $x",
    "x=src; cat $x/P",
    "cat \"$x/P\"",
    "for x in src/*; do C; done",
    "for x in *; do cat $x; done",
    "cd src && C",
    "cd sub; C",
    "C;;C",
    "C ) C",
    "{ C }",
    "if C then C fi",
    "for x in a b c; do echo $x; done | C",
];

/// Characters that have a special meaning in a shell.
const LETTERS: &[&str] = &[
    "'", "\"", "`", "$", "(", ")", "{", "}", "[", "]", ";", "&", "|", "<", ">", "\\", "#", "*",
    "?", "~", "!", "=", "\n", " ", "\t", "-", "$(", "${", "<(", "<<", "&&", "\\\n", "$ ", "=~",
    "#{", "''", "\"\"",
];

/// A generator of random commands.
#[derive(Debug)]
pub(crate) struct Language {
    chance: StdRng,
    base: String,
}

impl Language {
    /// Creates a generator from a seed. `base` is the folder that contains the project.
    pub(crate) fn new(seed: u64, base: &str) -> Self {
        Self { chance: StdRng::seed_from_u64(seed), base: base.to_owned() }
    }

    pub(crate) fn command(&mut self) -> String {
        let shape = self.pick(SHAPES);
        let mut text = self.fill(shape, 0);
        // Damage every third command at random. This tests text that follows no shell grammar.
        if self.chance.random_range(0..3) == 0 {
            for _ in 0..self.chance.random_range(1..4) {
                self.damage(&mut text);
            }
        }
        text.replace("BASE", &self.base)
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from.choose(&mut self.chance).copied().unwrap_or_default()
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.chance.random_range(0..many) == 0
    }

    /// Replaces the capital letters `P`, `W`, `C` and `S` in a template by generated text, if the
    /// letter stands alone.
    fn fill(&mut self, shape: &str, depth: usize) -> String {
        let letters: Vec<char> = shape.chars().collect();
        let mut text = String::new();
        for (at, letter) in letters.iter().enumerate() {
            let is_alone = |place: Option<&char>| {
                !place.is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_')
            };
            let before = at.checked_sub(1).and_then(|at| letters.get(at));
            // A `P` is also replaced if it directly follows the letter of an option, as in `-fP`.
            let is_joined = *letter == 'P'
                && shape.contains("-")
                && before.is_some_and(char::is_ascii_lowercase);
            if !(is_alone(before) || is_joined) || !is_alone(letters.get(at + 1)) {
                text.push(*letter);
                continue;
            }
            match letter {
                'P' => text.push_str(&self.path(depth)),
                'W' => {
                    let word = self.pick(WORDS);
                    text.push_str(&self.fill(word, depth + 1));
                }
                'C' => text.push_str(&self.simple(depth)),
                'S' => {
                    let inner = self.simple(depth).replace('\'', "\"");
                    text.push_str(&format!("'{inner}'"));
                }
                other => text.push(*other),
            }
        }
        text
    }

    fn path(&mut self, depth: usize) -> String {
        // Take at least half of the paths from files that the gate allows a command to read. With
        // fewer such paths, the gate would allow almost no command.
        let path = if self.one_in(2) {
            self.pick(&["README", "src/main.rs", "src/a.txt", "sub", "src"])
        } else {
            self.pick(PATHS)
        };
        let path = self.fill(path, depth + 1);
        if path.contains(['$', '`', '*', '{', '~', '"', '\'', '(']) {
            return path;
        }
        match self.chance.random_range(0..8) {
            0 => format!("'{path}'"),
            1 => format!("\"{path}\""),
            2 if path.len() > 2 && path.is_ascii() => format!("{}\"{}\"", &path[..1], &path[1..]),
            3 if path.len() > 2 && path.is_ascii() => format!("{}\\{}", &path[..1], &path[1..]),
            _ => path,
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        if depth > 3 {
            return "ls".to_owned();
        }
        let shape = if self.one_in(6) { self.pick(PAYLOADS) } else { self.pick(READERS) };
        let text = self.fill(shape, depth + 1);
        if self.one_in(8) { format!("{text} 2>/dev/null") } else { text }
    }

    fn damage(&mut self, text: &mut String) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let Some(at) = places.choose(&mut self.chance).copied() else {
            return;
        };
        if self.one_in(3) {
            text.remove(at);
        } else {
            let letter = self.pick(LETTERS);
            text.insert_str(at, letter);
        }
    }
}
