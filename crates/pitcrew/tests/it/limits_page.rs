//! Holds `docs/limits.md` equal to the code: each bound to its constant, and each test to a test that
//! exists.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// A row of a table on the page.
struct Row {
    input: String,
    bound: u64,
    file: PathBuf,
    /// The name of a constant, or of a field of a constant (`NAME.field`).
    constant: String,
    test: String,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the number of a cell such as `64 KiB`, `2,000` or `10 s`.
fn number(cell: &str) -> u64 {
    let mut words = cell.split_whitespace();
    let number: u64 = words.next().unwrap().replace(',', "").parse().unwrap();
    match words.next() {
        None | Some("s") => number,
        Some("KiB") => number << 10,
        Some("MiB") => number << 20,
        Some(unit) => panic!("{unit} is no unit of {cell}"),
    }
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(top().join("docs/limits.md")).unwrap();
    let quoted = Regex::new("^`([^`]+)` `([^`]+)`$").unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let place = quoted.captures(cells.get(2)?)?;
        Some(Row {
            input: cells[0].to_owned(),
            bound: number(cells[1]),
            file: top().join("crates").join(&place[1]),
            constant: place[2].to_owned(),
            test: cells.last()?.trim_matches('`').to_owned(),
        })
    };
    page.lines().filter(|line| line.starts_with('|')).filter_map(row).collect()
}

/// Evaluates an expression of numbers, `*` and `<<`.
fn value_of(expression: &str) -> u64 {
    let expression = expression.replace("Duration::from_secs(", "").replace([')', '_'], "");
    let product =
        |text: &str| text.split('*').map(|it| it.trim().parse::<u64>().unwrap()).product();
    match expression.split_once("<<") {
        Some((left, right)) => {
            let left: u64 = product(left);
            left << right.trim().parse::<u32>().unwrap()
        }
        None => product(&expression),
    }
}

/// Returns the value of a constant in a source file.
fn constant(file: &Path, name: &str) -> Option<u64> {
    let source = fs::read_to_string(file).ok()?;
    let pattern = match name.split_once('.') {
        None => format!(r"const {name}: \w+ = ([^;]+);"),
        Some((name, field)) => {
            format!(r"(?s)const {name}: Self =\s+Self \{{[^}}]*?\b{field}: ([\d_ *]+)")
        }
    };
    let found = Regex::new(&pattern).unwrap().captures(&source)?;
    Some(value_of(found[1].trim().trim_end_matches('}').trim()))
}

/// Returns the text of all source files of the crates.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_bound_of_the_page_is_that_of_its_constant() {
    let rows = rows();
    assert!(rows.len() > 35, "{} rows", rows.len());
    for row in rows {
        let found = constant(&row.file, &row.constant);
        assert_eq!(
            found,
            Some(row.bound),
            "{}: {} in {}",
            row.input,
            row.constant,
            row.file.display()
        );
    }
}

#[test]
fn each_test_of_the_page_exists() {
    let mut text = String::new();
    sources(&top().join("crates"), &mut text);
    for row in rows() {
        assert!(text.contains(&format!("fn {}()", row.test)), "{}: {}", row.input, row.test);
    }
}

#[test]
fn each_bound_of_an_answer_is_on_the_page() {
    let source = fs::read_to_string(top().join("crates/model/src/bounds.rs")).unwrap();
    let rows = rows();
    for found in Regex::new(r"pub const (\w+):").unwrap().captures_iter(&source) {
        assert!(
            rows.iter().any(|row| row.constant == found[1]),
            "{} is not on the page",
            &found[1]
        );
    }
}
