//! Tests commands that earlier versions of the permission gate wrongly allowed, because the parser
//! misread them. The gate must now give the expected verdict on these commands and on similar
//! commands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use pitcrew_protocol::PermissionMode::{self, AcceptEdits, BypassPermissions, Default, Plan};
use serde_json::json;

use crate::gate_modes::Place;

/// Checks that the permission gate gives each command the expected verdict. Fails with a list of
/// the commands that get another verdict.
fn check(place: &Place, mode: PermissionMode, expected: &str, commands: &[&str]) {
    let wrong: Vec<_> = commands
        .iter()
        .map(|command| (place.bash(mode, command), *command))
        .filter(|(word, _)| *word != expected)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} are not {expected} in {mode}: {wrong:#?}",
        wrong.len(),
        commands.len()
    );
}

#[test]
fn an_expansion_that_the_shell_sees_is_seen() {
    let hidden = [
        "echo \"$ $(rm x)\"",
        "echo \"$ `rm x`\"",
        "echo \"$\t$(rm x)\"",
        "echo \"$\n$(rm x)\"",
        "echo \"a $ b $(rm x)\"",
        "echo \"$ $ $(rm x)\"",
        "echo \"$/$(rm x)\"",
        "echo \"$. `rm x` $\"",
        "echo \"'$(rm x)'\"",
        "echo \"'\" $(rm x) \"'\"",
        "echo \"${x} $ $(rm x)\"",
        "ls \"$ $(rm x)\" | wc -l",
        "x=\"$ $(rm x)\"",
        "[ -f \"$ $(rm x)\" ]",
        "[[ \"$ $(rm x)\" == a ]]",
        "for i in \"$ $(rm x)\"; do ls; done",
        "ls > /dev/null \"$ $(rm x)\"",
        "echo <<< \"$ $(rm x)\"",
    ];
    let denying =
        Place::new(json!({"allow": ["Bash(echo:*)", "Bash(ls:*)"], "deny": ["Bash(rm:*)"]}));
    check(&denying, Default, "deny", &hidden);
    check(&denying, BypassPermissions, "deny", &hidden);
    let allowing = Place::new(json!({"allow": ["Bash(echo:*)", "Bash(ls:*)"]}));
    check(&allowing, Default, "ask", &hidden);
    check(&allowing, Plan, "deny", &hidden);
    let plain = [
        "echo \"$ (rm x)\"",
        "echo \"$$(rm x)\"",
        "echo \"costs 5$\"",
        "echo '$ $(rm x)'",
        "echo \"\\$(rm x)\"",
        "echo a\\ b",
    ];
    check(&denying, Default, "allow", &plain);
}

#[test]
fn a_wrapper_with_a_flag_still_runs_its_command() {
    let place = Place::new(json!({"deny": ["Bash(rm:*)"]}));
    let wrapped = ["command -p rm x", "command -- rm x", "builtin -- rm x", "time -- rm x"];
    check(&place, BypassPermissions, "deny", &wrapped);
    let place = Place::new(json!({}));
    let wrapped =
        ["command -p touch x", "command -- touch x", "command -x touch x", "command -pp touch x"];
    check(&place, Default, "ask", &wrapped);
    check(&place, Plan, "deny", &wrapped);
    check(
        &place,
        Default,
        "allow",
        &["command -v cargo", "command -V ls", "command -pv ls", "command ls", "command -p ls"],
    );
}

#[test]
fn programs_are_known_by_bare_names_that_are_found_outside_of_the_project() {
    let place = Place::new(json!({}));
    fs::create_dir_all(place.path("project/sub")).unwrap();
    for name in ["env", "sub/bash", "timeout", "nice", "ls", "git"] {
        let file = place.path("project").join(name);
        fs::write(&file, "#!/bin/sh\ntouch canary\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let foreign = [
        "./env ls",
        "sub/bash -c ls",
        "./timeout 5 ls",
        "./nice ls",
        "/usr/bin/env ./ls",
        "./ls",
        "./git status",
        "env ./ls",
        "timeout 5 ./ls",
        "sub/../env ls",
        "$PWD/env ls",
        "xargs ./ls",
        "sub/bash -c 'cat src/main.rs'",
    ];
    check(&place, Default, "ask", &foreign);
    check(&place, Plan, "deny", &foreign);
    for path in [
        ".",
        "src/..",
        "",
        "PROJECT",
        ".:/usr/bin:/bin",
        "/nowhere::/usr/bin",
        "PROJECT/src/..:/usr/bin",
    ] {
        let place = Place::new(json!({})).searching(path, &["ls"]);
        check(&place, Default, "ask", &["ls", "ls src | wc -l", "env ls", "sh -c ls"]);
    }
    let place = Place::new(json!({})).searching(".:/usr/bin:/bin", &["other"]);
    check(&place, Default, "allow", &["ls", "cat src/main.rs"]);
    let place = Place::new(json!({"deny": ["Bash(rm:*)"]}));
    check(
        &place,
        Default,
        "deny",
        &["./env rm x", "sub/bash -c 'rm x'", "/usr/bin/timeout 5 rm x"],
    );
}

/// Commands with options that take a path, write a file or run a program.
const OPTIONS: &[&str] = &[
    "uniq src/main.rs out",
    "uniq -c src/main.rs out",
    "uniq -- - out",
    "diff --from-file=../outside/file src/main.rs",
    "diff --to-file=../outside/file src/main.rs",
    "diff --from-file ../outside/file src/main.rs",
    "diff -X../outside/file src src",
    "file -f../outside/file",
    "file -bf../outside/file",
    "file --files-from=../outside/file",
    "file -m../outside/file x",
    "wc --files0-from=../outside/file",
    "wc --files0-from=-",
    "du --files0-from=list",
    "sort --files0-from=-",
    "sort --files0-from=../outside/file",
    "sort --random-source=../outside/file -R src/main.rs",
    "sort -o out src/main.rs",
    "sort -uoout src/main.rs",
    "sort -T. src/main.rs",
    "git blame --ignore-revs-file=../outside/file src/main.rs",
    "git blame --ignore-revs-f=../outside/file src/main.rs",
    "git blame -S ../outside/file src/main.rs",
    "git blame -S../outside/file src/main.rs",
    "git blame --contents ../outside/file src/main.rs",
    "git log -O../outside/file",
    "git ls-files -X ../outside/file -o",
    "git ls-files --exclude-from=../outside/file -o",
    "git grep -f ../outside/file",
    "git diff --no-index src/main.rs ../outside/file",
    "git diff -- ../outside/file /dev/null",
    "git log --output=x",
    "git log --ou=x",
    "git shortlog --output=x",
    "grep -f../outside/file src/main.rs",
    "grep -rf../outside/file src",
    "grep --file=../outside/file src/main.rs",
    "grep --exclude-from=../outside/file -r x src",
    "jq -f ../outside/file src/main.rs",
    "jq --slurpfile a ../outside/file . src/main.rs",
    "jq --rawfile a ../outside/file -n '$a'",
    "jq -L ../outside -n 'import \"a\" as a; a::b'",
    "jq -n 'import \"../outside/file\" as $d; $d'",
    "rg -f ../outside/file",
    "rg --ignore-file=../outside/file x",
    "rg --pre ./x foo",
    "date -f ../outside/file",
    "date --file=../outside/file",
    "stat --file-system ../outside/file",
    "md5sum -c ../outside/file",
    "sha256sum --check list",
    "find . -newerXY ../outside/file",
    "find -files0-from ../outside/file",
    "find . -fls x",
    "find . -fprintf x y",
    "find ../outside",
    "sed -i s/a/b/ src/main.rs",
    "sed -n 'w out' src/main.rs",
    "sed -n 's/a/b/w out' src/main.rs",
    "sed 's/a/touch x/e' src/main.rs",
    "sed -n '1r ../outside/file' src/main.rs",
    "sed '1e touch x' src/main.rs",
    "sed --expression='w out' src/main.rs",
    "sed -n -f ../outside/file src/main.rs",
    "sed -nf../outside/file src/main.rs",
    "sed -n p ../outside/file",
    "sed 's/[/]/x/w out/' src/main.rs",
    "awk '{print > \"out\"}' src/main.rs",
    "awk 'BEGIN{system(\"touch x\")}'",
    "awk 'BEGIN{while((getline l < \"../outside/file\") > 0) print l}'",
    "awk 'BEGIN{ARGV[1]=\"../outside/file\"; ARGC=2} {print}'",
    "awk '{print | \"sh\"}' src/main.rs",
    "awk -f ../outside/file src/main.rs",
    "awk -f../outside/file src/main.rs",
    "awk -i inplace '{print}' src/main.rs",
    "awk '{print}' ../outside/file",
    "awk '@load \"filefuncs\"; BEGIN{chdir(\"..\")}'",
    "tree -o out",
    "hexdump -f../outside/file src/main.rs",
    "tail --unknown=../outside/file",
    "cat -Z../outside/file",
    "cut -d: --frobnicate=../outside/file src/main.rs",
    "comm --x=../outside/file a b",
    "ls -- ../outside",
];

#[test]
fn an_option_that_takes_a_path_is_read_or_asked() {
    let place = Place::new(json!({}));
    check(&place, Default, "ask", OPTIONS);
}

#[test]
fn an_option_that_is_not_known_is_left_to_the_kernel() {
    let unknown = [
        "cat --frobnicate src/main.rs",
        "sort --unknown=x src/main.rs",
        "head -Zq src/main.rs",
        "grep -R x .",
        "grep --frobnicate=3 x src",
        "diff -r src secrets",
        "find -L . -name x",
        "find . -frobnicate",
        "find . -name \"$x\"",
        "git cat-file --batch",
        "git log --frobnicate",
        "ls --frobnicate | wc --frobnicate",
    ];
    check(&Place::new(json!({})), Default, "allow", &unknown);
    check(&Place::new(json!({})), Plan, "allow", &unknown);
    // The sandbox cannot enforce ask rules. If the settings contain an ask rule, the gate must
    // therefore ask about a command with unknown options. In plan mode, the gate must deny the
    // command.
    check(&Place::new(json!({"ask": ["Read(./asked/**)"]})), Default, "ask", &unknown);
    check(&Place::new(json!({"ask": ["Read(./asked/**)"]})), Plan, "deny", &unknown);
    check(
        &Place::new(json!({"ask": ["Bash(cat:*)"]})),
        Plan,
        "deny",
        &["cat --frobnicate src/main.rs"],
    );
    // The rule allows `make`, so the whole command line runs without a restriction by the sandbox
    // (profile `free`). The second command of the line has an option that the gate does not know.
    // So the gate must ask about the whole line.
    let place = Place::new(json!({"allow": ["Bash(make:*)", "Read(//outside/**)"]}));
    let joined: Vec<String> = unknown.iter().map(|command| format!("make && {command}")).collect();
    check(&place, Default, "ask", &joined.iter().map(String::as_str).collect::<Vec<_>>());
    let proven = [
        "make 2>&1 | tail -20",
        "make && grep -rn x src",
        "make | sort -k 2 --reverse",
        "make && git log -3",
    ];
    check(&place, Default, "allow", &proven);
    let place = Place::new(json!({"deny": ["Edit(./src/**)"]}));
    check(&place, BypassPermissions, "deny", &["sort --unknown=src/main.rs a"]);
}

#[test]
fn a_word_that_expands_into_a_path_is_judged_after_expansion() {
    let place = Place::new(json!({}));
    symlink(place.path("outside"), place.path("project/link")).unwrap();
    symlink(place.path("outside/file"), place.path("project/src/alias.txt")).unwrap();
    fs::write(place.path("project/README"), "text").unwrap();
    let expanding = [
        "x=../outside/file; cat \"./$x\"",
        "x=../outside/file; cat ./$x",
        "x=../outside/file; cat $x",
        "x=..; cat $x/outside/file",
        "x=../outside/file\ncat src/../$x",
        "x=a; x=../outside/file; cat $x",
        "cat \"$y/../../outside/file\"",
        "cat \"$x\"/etc/passwd; x=src",
        "cat ./{../outside/file,README}",
        "cat {README,../outside/file}",
        "cat {..,src}/outside/file",
        "cat ../out*/file",
        "cat .*/outside/file",
        "cat ./.?/outside/file",
        "cat l*/file",
        "cat li[n]k/file",
        "cat src/*.txt",
        "head -3 *",
        "cat $x/etc/hosts; x=src",
        "(x=src); cat $x/etc/hosts",
        "false && x=src; cat $x/etc/hosts",
        "x=src | true; cat $x/etc/hosts",
        "x=src & cat $x/etc/hosts",
        "if false; then x=src; fi; cat $x/etc/hosts",
        "x=src; sh -c 'cat $x/etc/hosts'",
        "x=src; x=; cat $x/etc/hosts",
        "for x in src; do true; done & cat $x/etc/hosts",
        "head -n 3 l?nk/*",
        "cat $(echo ../outside/file)",
        "cat `echo ../outside/file`",
        "cat \"$(echo ../outside/file)\"",
        "cat src/$(echo ../../outside/file)",
        "for f in README ../outside/file; do cat $f; done",
        "for f in README ../outside/file; do cat \"$f\"; done",
        "for f in link/*; do cat \"$f\"; done",
        "for f in $(ls ..); do cat \"$f\"; done",
        "x=\"root ../outside/file\"; grep $x",
        "x='-f ../outside/file'; grep $x README",
        "x='-rf../outside/file'; grep $x README",
        "x=\"-e a ../outside/file\"; grep $x",
        "grep -e a $y",
        "wc -l < $y",
        "wc -l < ../out*/file",
        "x=../outside/file; wc -l < $x",
        "x=../outside/file; wc -l < \"./$x\"",
        "x=--output=out; git log $x",
        "x=-o; sort $x out README",
        "cat ~+/../outside/file",
        "cat ~root/x",
        "cat a=~/x",
        "y=../out*; cat $y/file",
        "cat {1..3}/../../outside/file{,}",
        "read x <<< ../outside/file; cat $x",
        "ls | xargs cat",
        "echo ../outside/file | xargs cat",
        "echo x | xargs grep y",
        "echo ../outside/file | xargs -I{} cat {}",
        "echo ../outside/file | xargs -I{} wc -l ./{}",
        "find . -name file | xargs head",
    ];
    check(&place, Default, "ask", &expanding);
    let known = [
        "x=README; cat \"./$x\"",
        "x=src; ls $x && cat $x/main.rs",
        "cat {README,src/main.rs}",
        "cat src/{main,main}.rs",
        "cat s*/main.rs",
        "wc -l src/*.rs",
        "head -3 R* s*/m*",
        "for f in README src/main.rs; do echo \"== $f\"; head -3 \"$f\"; done",
        "for f in src/*.rs; do wc -l \"$f\"; done",
        "n=3; head -n \"$n\" README",
        "x=\"text README\"; grep $x",
        "grep -c \"t\" README src/[m]*.rs",
        "cd src && wc -l *.rs",
        "echo $x $(pwd) {a,b} *",
        "wc -l < s*/main.rs",
        "cat no-such-*.txt",
    ];
    check(&place, Default, "allow", &known);
    check(&place, Plan, "allow", &known);
}

#[test]
fn a_denied_path_is_met_by_every_word_that_may_become_it() {
    let place = Place::new(json!({"deny": ["Read(./secrets/**)"]}));
    let named = [
        "cat secrets/key",
        "cat s*/key",
        "cat {secrets,src}/key",
        "cat secret[s]/key",
        "x=secrets/key; cat $x",
        "x=secrets; cat \"$x/key\"",
        "for f in src/main.rs secrets/key; do cat $f; done",
        "grep -f secrets/key src/main.rs",
        "diff --from-file=secrets/key src/main.rs",
        "wc --files0-from=secrets/key",
        "file -fsecrets/key",
        "sort -- secrets/key",
        "sed -n p secrets/key",
        "awk 1 secrets/key",
        "head -c5 < secrets/key",
        "cat < s*/key",
    ];
    check(&place, Default, "deny", &named);
    check(&place, BypassPermissions, "deny", &named);
    check(&place, Plan, "deny", &named);
}

#[test]
fn deny_rules_for_reading_hold_in_what_git_keeps() {
    let place = Place::new(json!({"allow": ["Bash"], "deny": ["Read(./secrets/**)"]}));
    let named = [
        "git show HEAD:secrets/key",
        "git show HEAD:./secrets/key",
        "git show :secrets/key",
        "git show :0:secrets/key",
        "git cat-file -p HEAD:secrets/key",
        "git cat-file blob main:secrets/key",
        "git log -p -- secrets",
        "git log -p -- secrets/key",
        "git log -p secrets/key",
        "git diff HEAD~1 -- secrets/key",
        "git diff HEAD~1:secrets/key HEAD:secrets/key",
        "git blame secrets/key",
        "git blame HEAD -- secrets/key",
        "git grep text -- secrets",
        "git grep text HEAD -- secrets/key",
        "git grep text HEAD:secrets",
        "git log -L 1,5:secrets/key",
        "git archive HEAD secrets",
        "git checkout-index -p secrets/key",
        "git --no-pager show HEAD:secrets/key",
        "git -C . show HEAD:secrets/key",
        "git -C src show HEAD:secrets/key",
        "git -P blame secrets/key",
        "git log --patch -- ':(top)secrets'",
        "git log -p -- ':/secrets'",
        "cd src && git show HEAD:secrets/key",
        "cd src && git log -p -- ../secrets",
    ];
    check(&place, Default, "deny", &named);
    check(&place, BypassPermissions, "deny", &named);
    let whole = [
        "git log -p",
        "git log --patch -3",
        "git log -u",
        "git log -U3",
        "git log -p -- 's*'",
        "git log -p -- ':(glob)s*/key'",
        "git diff",
        "git diff HEAD~1",
        "git diff --cached",
        "git show",
        "git show HEAD~1",
        "git show abc123",
        "git cat-file -p abc123",
        "git cat-file --batch",
        "git grep text",
        "git grep text HEAD",
        "git stash show -p",
        "git format-patch -1 --stdout",
        "git log -S text -p",
        "git whatchanged -p",
        "git archive HEAD",
        "git log --full-diff -p src",
        "git show :/text",
        "git show ':/one' -- ",
        "git log -p --grep src",
        "git log -p --author src",
        "git log -p --since src",
        "git log -p src --",
        "git log -p -n 1",
        "git diff --src-prefix src HEAD~1",
        "git diff --unknown src HEAD~1",
        "git $x src",
        "git log -p --full-d -- src",
        "git grep -l text",
        "git bundle create - HEAD",
        "git fast-export HEAD",
    ];
    check(&place, Default, "ask", &whole);
    check(&place, BypassPermissions, "deny", &whole);
    let free = [
        "git status",
        "git log --oneline -5",
        "git log --stat",
        "git diff --stat",
        "git diff --name-only HEAD~1",
        "git diff -- src",
        "git log -p -- src/main.rs",
        "git show HEAD:src/main.rs",
        "git blame src/main.rs",
        "git grep text -- src",
        "git branch -a",
        "git ls-files",
    ];
    check(&place, Default, "allow", &free);
    check(&place, BypassPermissions, "allow", &free);
}

#[test]
fn a_copy_is_judged_by_every_file_it_makes() {
    let place = Place::new(json!({}));
    let project = place.path("project");
    fs::create_dir_all(project.join("into")).unwrap();
    fs::create_dir_all(project.join("tree/deep/.claude")).unwrap();
    fs::create_dir_all(project.join("plain/deep")).unwrap();
    fs::write(project.join("tree/deep/.claude/settings.json"), "{}").unwrap();
    fs::write(project.join("plain/deep/a"), "a").unwrap();
    fs::write(project.join("file"), "a").unwrap();
    symlink(place.path("outside/file"), project.join("into/file")).unwrap();
    symlink(place.path("outside"), project.join("into/deep")).unwrap();
    let risky = [
        "cp file into",
        "cp file into/",
        "cp src/main.rs file into",
        "mv file into",
        "cp -r plain/deep into",
        "cp -r plain/. into",
        "cp -a plain/deep into/",
        "cp -r tree copy",
        "cp -R tree/deep copy",
        "cp -r tree/. .",
        "mv tree other",
        "mv tree/deep other",
        "cp -r . copy",
        "cp -r src/.. copy",
    ];
    check(&place, AcceptEdits, "ask", &risky);
    let plain = [
        "cp file other",
        "cp -r plain other",
        "mv file src",
        "mv plain src",
        "cp src/main.rs file plain",
    ];
    check(&place, AcceptEdits, "allow", &plain);
}

#[test]
fn git_is_asked_about_where_a_repository_may_be_made_of_loose_files() {
    let place = Place::new(json!({}));
    check(&place, Default, "allow", &["git status", "git log -3"]);
    for name in ["objects", "refs"] {
        fs::create_dir_all(place.path("project").join(name)).unwrap();
    }
    fs::write(place.path("project/HEAD"), "ref: refs/heads/main").unwrap();
    fs::write(place.path("project/config"), "[core]\n\tfsmonitor = touch canary").unwrap();
    check(&place, Default, "ask", &["git status", "git log -3", "git diff | head"]);
    check(&place, Plan, "deny", &["git status"]);
}

#[test]
fn a_rule_for_one_line_does_not_match_two() {
    let place =
        Place::new(json!({"allow": ["Bash(echo touch b)", "Bash(make \"a  b\")", "Bash(make *)"]}));
    check(&place, Default, "allow", &["echo touch b", "make \"a  b\"", "make all"]);
    let place = Place::new(json!({"allow": ["Bash(true touch b)", "Bash(rm 'a  b')"]}));
    check(&place, Default, "allow", &["true touch b", "  true   touch b ", "rm  'a  b'"]);
    check(
        &place,
        Default,
        "ask",
        &["true\ntouch b", "true \n touch b", "true touch\nb", "true touch\r b", "rm 'a b'"],
    );
}

#[test]
fn a_test_whose_words_may_be_operators_is_asked() {
    let place = Place::new(json!({}));
    let computing = [
        "[ -v 'a[$(touch canary)]' ]",
        "test -v 'a[$(touch canary)]'",
        "test -R x",
        "[ \"$x\" 'a[$(touch canary)]' ]",
        "[ $x a ]",
        "[ ! \"$x\" 'a[0]' ]",
        "[ a -a \"$x\" b ]",
        "[ -n a -a -v 'a[0]' ]",
        "[[ -v a[0] ]]",
        "[[ $x -eq 1 ]]",
        "[[ a[0] -gt 1 ]]",
    ];
    check(&place, Default, "ask", &computing);
    let plain = [
        "[ -n \"$x\" ]",
        "[ \"$x\" = a ]",
        "[ ! -f \"$x\" ]",
        "test -z \"$x\" && ls",
        "[ \"$(ls | wc -l)\" -gt 5 ]",
        "[[ $x == a ]]",
    ];
    check(&place, Default, "allow", &plain);
}
