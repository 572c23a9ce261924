//! Damages in pitcrew's own records of a team: unreadable entries, unreadable lines, and files with
//! a later format version.

use super::scene::paths;
use super::{Damage, Expect};

const OURS: &str = "root/teams/crew/pitcrew";

/// Journal lines that end with a newline but that pitcrew did not write.
const BAD_LINES: [(&str, &[u8]); 5] = [
    ("a cut line", b"{\"seq\":\n"),
    ("a line that is no text", b"\xff\xfe\n"),
    ("a line that is a number", b"17\n"),
    ("a line of zeros", b"\0\0\0\0\n"),
    ("a line of somebody else", b"hello\n"),
];

pub(super) fn all() -> Vec<Damage> {
    let mut all = lines();
    all.extend(entries());
    all.extend(newer());
    all
}

fn lines() -> Vec<Damage> {
    let mut all = Vec::new();
    for (what, line) in BAD_LINES {
        for (log, first) in
            [("transcripts/ann.ndjson", true), ("journal.ndjson", false), ("read/ann.ndjson", true)]
        {
            let path = format!("{OURS}/{log}");
            all.push(Damage::new(
                format!("{what} in {log}"),
                Expect::Mended("bad_lines"),
                move |scene| {
                    let was = std::fs::read(scene.at(&path)).unwrap_or_else(|_| b"{}\n".to_vec());
                    let text = if first { [line, &was].concat() } else { [&was, line].concat() };
                    scene.write(&path, text);
                    paths(&[&path])
                },
            ));
        }
    }
    for (what, line) in [("a blank line", "\n"), ("a line of spaces", "    \n")] {
        for log in ["transcripts/ann.ndjson", "journal.ndjson"] {
            let path = format!("{OURS}/{log}");
            all.push(Damage::new(format!("{what} in {log}"), Expect::Untouched, move |scene| {
                scene.write(&path, format!("{line}{}", scene.read(&path)));
                Vec::new()
            }));
        }
    }
    let unknown = "{\"seq\":3,\"kind\":\"sang\",\"song\":\"mine\"}\n";
    let path = format!("{OURS}/transcripts/ann.ndjson");
    all.push(Damage::new(
        "an unknown step in a transcript",
        Expect::Mended("bad_lines"),
        move |scene| {
            scene.write(&path, format!("{}{unknown}", scene.read(&path)));
            paths(&[&path])
        },
    ));
    let path = format!("{OURS}/transcripts/team-lead.ndjson");
    all.push(Damage::new("a last line that a crash tore", Expect::Untouched, move |scene| {
        scene.write(&path, format!("{}{{\"seq\":", scene.read(&path)));
        Vec::new()
    }));
    all
}

fn entries() -> Vec<Damage> {
    let mut all = Vec::new();
    for (document, text) in [
        ("started", r#"{"version":1,"started":{"bob":{"sang":true}}}"#),
        ("started", r#"{"version":1,"started":{"bob":7}}"#),
        ("started", r#"{"version":1,"started":[]}"#),
        ("started", r#"{"bob":{"sang":true}}"#),
        (
            "requests",
            r#"{"version":1,"requests":{"perm-1":{"kind":"dance","from":"bob","to":"team-lead","at_ms":1}}}"#,
        ),
        ("requests", r#"{"requests":{"perm-1":null}}"#),
        ("requests", r#"{"requests":7}"#),
        ("panes", r#"{"version":1,"hosts":[7]}"#),
        ("panes", r#"[7]"#),
        ("bounds", r#"{"version":1,"deny":[7]}"#),
        ("bounds", r#"{"version":1,"maxTurns":"many"}"#),
        ("conversations", r#"{"version":1,"conversations":{"bob":{"sung":true}}}"#),
        ("ended", r#"{"members":[{"name":"bob"}]}"#),
        ("keys", r#"{"keys":["no key"]}"#),
        ("escaped", r#"{"version":1,"escaped":[{"process":7}]}"#),
        ("secret-digests", r#"{"version":1,"digests":[{"name":"A_KEY"}]}"#),
        ("secret-digests", r#"{"version":1,"key":"AAAA","digests":[]}"#),
    ] {
        let path = format!("{OURS}/{document}.json");
        all.push(Damage::new(
            format!("{text} in {document}.json"),
            Expect::Mended("bad_entry"),
            move |scene| {
                scene.write(&path, text);
                paths(&[&path])
            },
        ));
    }
    let path = format!("{OURS}/take-over.json");
    all.push(Damage::new(
        "a change of the lead that names nobody",
        Expect::Mended("torn"),
        move |scene| {
            scene.write(&path, "{}");
            paths(&[&path])
        },
    ));
    for (document, text) in [
        ("started", r#"{"version":1,"started":{},"later":{"a":1}}"#),
        ("requests", r#"{"version":1,"requests":{},"later":[1]}"#),
        ("started", "{}"),
        ("panes", "[]"),
        ("settings", r#"{"version":99,"permissions":{}}"#),
    ] {
        let path = format!("{OURS}/{document}.json");
        all.push(Damage::new(
            format!("{document}.json with {text}"),
            Expect::Untouched,
            move |scene| {
                scene.write(&path, text);
                Vec::new()
            },
        ));
    }
    all
}

fn newer() -> Vec<Damage> {
    let mut all = Vec::new();
    for document in [
        "started",
        "requests",
        "panes",
        "bounds",
        "ended",
        "keys",
        "take-over",
        "escaped",
        "conversations",
        "secret-digests",
    ] {
        let path = format!("{OURS}/{document}.json");
        all.push(Damage::new(
            format!("{document}.json of a later version"),
            Expect::Named("newer"),
            move |scene| {
                scene.write(&path, r#"{"version":2,"sung":[]}"#);
                Vec::new()
            },
        ));
    }
    for log in ["transcripts/ann.ndjson", "journal.ndjson"] {
        let path = format!("{OURS}/{log}");
        all.push(Damage::new(
            format!("a line of a later version in {log}"),
            Expect::Named("newer"),
            move |scene| {
                scene.write(
                    &path,
                    format!("{}{{\"v\":2,\"seq\":9,\"kind\":\"sang\"}}\n", scene.read(&path)),
                );
                Vec::new()
            },
        ));
    }
    all
}
