//! Tests the sandbox profile `read` with the real kernel and with attacks. A command in this
//! profile must change nothing, must read no protected file, and must not signal or reach another
//! process.
//!
//! A test that this machine cannot run prints a message and is skipped.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener};

use pitcrew_process::sandbox::{Machine, Options, Profile, Sandbox, Support, Variable};
use serde_json::json;

mod commands;
mod ground;

use commands::{CHANGES, TRIES, WORK};
pub(crate) use commands::{CONTACT_PRELUDE, CONTACTS, READS};
pub(crate) use ground::{FileState, Ground, git, inner};

#[tokio::test]
async fn the_changes_succeed_where_nothing_holds_a_command() {
    for change in CHANGES {
        let ground = Ground::with(|_| Sandbox::default());
        let before = ground.files();
        let said = ground
            .setting
            .call_as(&ground.freely(), "Bash", json!({ "command": change }))
            .await
            .text;
        assert!(ground.files() != before, "{change}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_read_changes_nothing() {
    let Some(ground) = Ground::new() else { return };
    let before = ground.files();
    for command in CHANGES.iter().chain(TRIES) {
        let said = ground.bash(command).await;
        assert!(!said.contains("LEAK"), "{command}: {said}");
        let now = ground.files();
        let differs =
            now.iter().filter(|(path, what)| before.get(*path) != Some(what)).map(|(path, _)| path);
        assert!(now == before, "{command}: {:?}: {said}", differs.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_command_in_read_reads_nothing_kept() {
    let Some(ground) = Ground::new() else { return };
    for command in READS {
        // First run the command without a sandbox. Without a sandbox the command has no private
        // temporary folder. If `$TMPDIR` were empty, the command would write into `/`, so set
        // `$TMPDIR`.
        let free = format!("TMPDIR=$HOME_; {command}");
        let freely =
            ground.setting.call_as(&ground.freely(), "Bash", json!({ "command": free })).await.text;
        assert!(freely.contains("SECRET"), "{command}: {freely}");
        let said = ground.bash(command).await;
        assert!(!said.contains("SECRET"), "{command}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_read_reaches_and_signals_nobody() {
    let Some(ground) = Ground::new() else { return };
    let (unix, dgram) = (ground.base.join("unix"), ground.base.join("dgram"));
    let listener = UnixListener::bind(&unix).unwrap();
    let datagrams = UnixDatagram::bind(&dgram).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let mut script = String::from(CONTACT_PRELUDE);
    for (number, contact) in CONTACTS.iter().enumerate() {
        let indented = contact.replace('\n', "\n    ");
        script.push_str(&format!(
            "try:\n    {indented}\n    print('LEAK', {number})\nexcept OSError as e: print(e.errno)\n"
        ));
    }
    ground.setting.write("contacts.py", script);
    let port = tcp.local_addr().unwrap().port();
    let command = format!(
        "python3 contacts.py {} {} {port} {}",
        unix.display(),
        dgram.display(),
        ground.other.id()
    );
    let said = ground.bash(&command).await;
    assert_eq!(said.lines().count(), CONTACTS.len(), "{said}");
    let through: Vec<_> =
        said.lines().zip(CONTACTS).filter(|(line, _)| line.starts_with("LEAK")).collect();
    assert!(through.is_empty(), "{through:#?}");
    assert!(
        listener.accept().is_err() && tcp.accept().is_err() && datagrams.recv(&mut [0; 1]).is_err()
    );
    assert!(
        fs::read_to_string(format!("/proc/{}/stat", ground.other.id())).unwrap().contains(") S")
    );
}

#[tokio::test]
async fn a_command_in_read_does_its_work() {
    let Some(ground) = Ground::new() else { return };
    for command in WORK {
        let outcome = ground.setting.call("Bash", json!({ "command": command })).await;
        assert!(!outcome.is_error, "{command}: {}", outcome.text);
        assert!(
            !outcome.text.contains("ermission denied") && !outcome.text.contains("not permitted"),
            "{command}: {}",
            outcome.text
        );
    }
}

#[tokio::test]
async fn git_in_read_takes_no_loose_files_for_a_repository_and_asks_no_program() {
    let Some(ground) = Ground::new() else { return };
    let cwd = &ground.setting.context.cwd;
    git(&cwd.join("repo"), &["clone", "-q", "--bare", ".", "../bare"]);
    git(&cwd.join("bare"), &["config", "core.fsmonitor", "touch asked"]);
    let said = ground.bash("cd bare && git log").await;
    assert!(said.contains("cannot use bare repository"), "{said}");
    assert_eq!(ground.bash("cd repo && git config core.fsmonitor").await, "false");
    assert!(ground.bash("cd repo && git log --oneline").await.contains("first"));
}

#[tokio::test]
async fn the_temporary_folder_lasts_from_command_to_command_until_the_run_ends() {
    let Some(mut ground) = Ground::new() else { return };
    let first = ground
        .bash("echo $TMPDIR; echo x > $TMPDIR/f; mkdir -m 000 $TMPDIR/closed; stat -c %a $TMPDIR")
        .await;
    let first: Vec<_> = first.lines().collect();
    assert_eq!(first[1], "700");
    assert_eq!(
        ground.bash("echo $TMPDIR; ls -A $TMPDIR; cat $TMPDIR/f").await,
        format!("{}\nclosed\nf\nx", first[0])
    );
    let folder = ground.base.join(first[0].strip_prefix("ROOT/").unwrap());
    assert!(folder.join("f").exists());
    ground.setting.context.sandbox = Sandbox::default();
    ground.sandbox = Sandbox::default();
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_denied_file_that_is_made_later_is_denied_too() {
    let Some(ground) = Ground::new() else { return };
    assert_eq!(ground.bash("cat kept").await, "kept");
    ground.setting.write("sub/deeper/.env", "SECRET");
    let said = ground.bash("cat sub/deeper/.env").await;
    assert!(!said.contains("SECRET"), "{said}");
    // The file stays denied under every name (`sandbox_pinned`). Another file is not denied.
    fs::rename(ground.setting.path("sub/deeper/.env"), ground.setting.path("sub/plain")).unwrap();
    let said = ground.bash("cat sub/plain").await;
    assert!(!said.contains("SECRET"), "{said}");
    ground.setting.write("sub/other", "SECRET");
    assert_eq!(ground.bash("cat sub/other").await, "SECRET");
}

#[tokio::test]
async fn a_ruleset_made_before_names_changed_hands_is_not_used() {
    let Some(ground) = Ground::new() else { return };
    let path = |name: &str| ground.setting.path(name);
    ground.setting.write("deep/er/plain", "OPEN");
    // Pitcrew does not cache the Landlock ruleset of a folder that has changed recently. So the
    // test waits until the folder's modification time is old enough.
    let changed = fs::metadata(path("deep/er")).unwrap().modified().unwrap();
    while changed.elapsed().is_ok_and(|age| age < std::time::Duration::from_millis(200)) {
        assert_eq!(ground.bash("cat deep/er/plain").await, "OPEN");
    }
    let said = ground.bash("cat deep/er/plain; cat deep/er/.env").await;
    assert!(said.contains("OPEN") && !said.contains("SECRET"), "{said}");
    // Swaps the names of two files. The protected name `.env` is the same as before, but it now
    // belongs to the other file. The first file stays denied under its new name.
    fs::rename(path("deep/er/.env"), path("deep/er/other")).unwrap();
    fs::rename(path("deep/er/plain"), path("deep/er/.env")).unwrap();
    fs::rename(path("deep/er/other"), path("deep/er/plain")).unwrap();
    let said = ground.bash("cat deep/er/plain; cat deep/er/.env").await;
    assert!(!said.contains("SECRET") && !said.contains("OPEN"), "{said}");
    // The sandbox must also notice a new file, and a new folder in place of an old one.
    ground.setting.write("deep/er/new", "NEW");
    assert_eq!(ground.bash("cat deep/er/new").await, "NEW");
    fs::rename(path("deep"), path("sub/deep")).unwrap();
    ground.setting.write("deep/er/plain", "ANOTHER");
    assert_eq!(ground.bash("cat deep/er/plain").await, "ANOTHER");
    let said = ground.bash("cat sub/deep/er/plain; cat sub/deep/er/.env").await;
    assert!(!said.contains("SECRET") && !said.contains("OPEN"), "{said}");
}

#[tokio::test]
async fn a_private_folder_is_closed_to_other_commands() {
    let Some(ground) = Ground::new() else { return };
    let own = ground.bash("echo $TMPDIR").await;
    let own = ground.base.join(own.trim().strip_prefix("ROOT/").unwrap());
    let other = own.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("f"), "SECRET").unwrap();
    for attempt in [
        "cat $ALL/other/f",
        "ls $ALL $ALL/other",
        "echo x > $ALL/other/f",
        "rm $ALL/other/f",
        "mkdir $ALL/new",
    ] {
        let said = ground.bash(&format!("ALL=$(dirname $TMPDIR); {attempt}")).await;
        assert!(said.contains("ermission denied"), "{attempt}: {said}");
    }
    assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "SECRET");
    assert!(!own.parent().unwrap().join("new").exists());
}

#[tokio::test]
async fn a_command_in_read_is_not_started_where_nothing_holds_it() {
    let ground = Ground::with(Sandbox::by_nothing);
    assert!(matches!(ground.sandbox.support(Profile::Read), Support::Missing { .. }));
    let said = ground.bash("echo ran").await;
    assert!(said.contains("could not be run") && !said.contains("\nran"), "{said}");
}

#[test]
fn commands_without_a_question_inherit_only_named_variables_that_look_harmless() {
    let variables = [
        // The variable, its value, and whether commands of read and work inherit it, without and
        // with the user's setting that names it.
        ("PATH", "/bin", [true, true]),
        ("CARGO_HOME", "/c", [true, true]),
        ("LC_TIME", "C", [true, true]),
        ("BW_SESSION", "0fX=", [false, true]),
        ("OP_SESSION_my", "0fX", [false, true]),
        ("SENDGRID_ID", "SG.x", [false, true]),
        ("TWILIO_SID", "AC0", [false, true]),
        ("SOPS_AGE_RECIPIENTS", "age1x", [false, true]),
        ("REDIS_URL", "redis://:pw@h", [false, true]),
        ("HTTPS_PROXY", "http://u:pw@h", [false, true]),
        ("https_proxy", "http://h:1", [true, true]),
        ("CARGO_REGISTRY_TOKEN", "x", [false, true]),
        ("MINE", "x", [false, true]),
        // Keys of model providers reach nobody, whatever the user names.
        ("ANTHROPIC_API_KEY", "sk-x", [false, false]),
    ];
    for (at, passed) in [false, true].into_iter().enumerate() {
        let machine = Machine {
            variables: variables.iter().map(|(name, value, _)| Variable::of(name, value)).collect(),
            ..Machine::default()
        };
        let names = variables.iter().map(|(name, ..)| (*name).to_owned());
        let passed = if passed { names.collect() } else { Vec::new() };
        let withheld = vec!["LC_TIME".to_owned()];
        let sandbox = Sandbox::with_options(
            machine.clone(),
            Options { passed: passed.clone(), ..Options::default() },
        );
        let narrowed =
            Sandbox::with_options(machine, Options { passed, withheld, ..Options::default() });
        for profile in [Profile::Read, Profile::Work] {
            let left_out = sandbox.withheld_variables(profile);
            for (name, _, is_inherited) in variables {
                assert_eq!(
                    !left_out.contains(&name.to_owned()),
                    is_inherited[at],
                    "{name} {profile:?}"
                );
            }
            assert!(narrowed.withheld_variables(profile).contains(&"LC_TIME".to_owned()));
        }
        assert_eq!(sandbox.withheld_variables(Profile::Free), ["ANTHROPIC_API_KEY"]);
    }
}
