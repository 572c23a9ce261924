//! Holds `docs/security.md` to its word: each statement of its tables names at least one test, and
//! each test that it names exists.

use std::fs;
use std::path::{Path, PathBuf};

/// The heading of the column that names tests.
const TESTS: &str = "tests";

/// A row of a table with a column of tests.
#[derive(Debug)]
struct Statement {
    text: String,
    tests: Vec<String>,
}

/// Returns the texts between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn statements(page: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut is_table_of_tests = false;
    for line in page.lines() {
        if !line.starts_with('|') {
            is_table_of_tests = false;
            continue;
        }
        let cells = cells(line);
        let last = *cells.last().unwrap();
        if last == TESTS {
            is_table_of_tests = true;
        } else if is_table_of_tests && !last.starts_with("---") {
            found.push(Statement { text: cells[0].to_owned(), tests: quoted(last) });
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// Returns true if `text` has a test function called `name`.
fn has_test(text: &str, name: &str) -> bool {
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    // The attribute is at most a few lines above: other attributes and comments may follow it.
    let before: Vec<&str> = text[..at].lines().rev().take(6).collect();
    before.iter().any(|line| line.contains("test]") || line.contains("::test("))
}

#[test]
fn each_statement_of_the_page_on_security_names_tests_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(top.join("docs/security.md")).unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(top.join("crates")).unwrap() {
        for folder in ["src", "tests"] {
            let folder = entry.as_ref().unwrap().path().join(folder);
            if folder.is_dir() {
                sources(&folder, &mut files);
            }
        }
    }
    let is_there = |named: &str| {
        let (module, name) = named.rsplit_once("::").unwrap_or(("", named));
        let is_in_module = |path: &Path| {
            let of_file = path.with_extension("");
            module.split("::").all(|part| of_file.iter().any(|it| it == part))
        };
        files.iter().any(|(path, text)| is_in_module(path) && has_test(text, name))
    };
    let all = statements(&page);
    assert!(all.len() > 50, "the tables were not found: {all:?}");
    let mut wrong = Vec::new();
    for statement in &all {
        if statement.tests.is_empty() {
            wrong.push(format!("no test: {}", statement.text));
        }
        let missing = statement.tests.iter().filter(|named| !is_there(named));
        wrong.extend(missing.map(|named| format!("no such test: {named}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_statement_without_a_test_and_a_test_that_is_gone_are_found() {
    let page = "| it cannot | tests |\n| --- | --- |\n| fly | |\n| swim | `a::b`, `c` |\n\n| x | y |\n| z | w |\n";
    let found = statements(page);
    assert_eq!(found.len(), 2);
    assert!(found[0].tests.is_empty());
    assert_eq!(found[1].tests, ["a::b", "c"]);
    assert!(has_test("#[test]\nfn c() {}", "c"));
    assert!(!has_test("fn helper() {}\n\n\n\n\n\n\n\nfn c() {}", "c"));
}
