//! Tests of the parts and doubts that the parser finds in a command.

use super::*;

fn seen(command: &str) -> String {
    let script = Script::parse(command);
    let mut lines: Vec<String> = script
        .parts
        .iter()
        .map(|part| {
            let words: Vec<_> =
                part.words.iter().map(|word| format!("{:?}/{:?}", word.text, word.fate)).collect();
            let names: Vec<_> = part.assigned.iter().map(|it| it.name.as_str()).collect();
            format!("{names:?} {} {:?}", words.join(" "), part.redirects.len())
        })
        .collect();
    lines.extend(script.doubts.iter().map(|doubt| format!("doubt: {doubt}")));
    lines.join("\n")
}

#[test]
fn quotes_are_taken_off_and_expansions_marked() {
    insta::assert_snapshot!(seen(r#"cat 'a b' "c \"d\"" e\*f g*.rs "x$HOME" $y r''m ~/z ~bob"#), @r#"
    [] "cat"/Exact "a b"/Exact "c \"d\""/Exact "e*f"/Exact "g"/Anything "x"/Begins ""/Anything "rm"/Exact "~/z"/Exact ""/Anything 0
    "#);
}

#[test]
fn every_part_of_a_compound_command_is_seen() {
    insta::assert_snapshot!(seen("A=1 ls -l && (pwd; rm x) | tee y > z & echo $(id -u) `who`\nwhoami"), @r#"
    ["A"] "ls"/Exact "-l"/Exact 0
    [] "pwd"/Exact 0
    [] "rm"/Exact "x"/Exact 0
    [] "tee"/Exact "y"/Exact 1
    [] "id"/Exact "-u"/Exact 0
    [] "who"/Exact 0
    [] "echo"/Exact ""/Anything ""/Anything 0
    [] "whoami"/Exact 0
    "#);
}

#[test]
fn what_is_not_on_the_list_is_a_doubt_and_still_looked_into() {
    for command in [
        "f() { rm x; }",
        "case a in a) rm x;; esac",
        "export PATH=/x",
        "echo ${x:=y}",
        "echo $((1+1))",
        "cat <<EOF\nx\nEOF",
        "ls\u{a0}x",
        "ls\rrm x",
        "rm\\\nx y",
        "[[ $x -eq 1 ]]",
        "echo $'a'",
        "a=(1 2)",
        "((x=1))",
        "echo 'unfinished",
    ] {
        assert!(!Script::parse(command).doubts.is_empty(), "{command}: {}", seen(command));
    }
    let inner = Script::parse("f() { rm x; }");
    assert!(
        inner.parts.iter().any(|part| part.words.first().is_some_and(|word| word.text == "rm"))
    );
}

#[test]
fn a_deep_or_long_command_is_a_doubt_and_no_overflow() {
    let openers = [
        "$(",
        "${x:-",
        "\"${x:-",
        "\"$(",
        "(",
        "((",
        "{ ",
        "if ",
        "while ",
        "! ",
        "case a in a) ",
        "f() ",
        "`$(",
        "<(",
        "coproc ",
        "time ( ",
        "[[ ",
        "x=(",
        "cat <<E ",
        "{a}",
        "{a,b}",
        "for x in ",
        "function f ",
    ];
    for opener in openers {
        let deep = opener.repeat(30_000 / opener.len());
        assert!(!Script::parse(&deep).doubts.is_empty() || opener.starts_with("{a"), "{opener}");
        let words =
            Script::parse(&format!("cat {deep}")).parts.into_iter().flat_map(|part| part.words);
        let _forms = super::super::Scope::new(&[]).forms(&words.collect::<Vec<_>>());
    }
    assert!(!Script::parse(&"ls;".repeat(20_000)).doubts.is_empty());
}
