//! A command in the profile *free* attacks the start of a teammate in a pane of tmux, through the
//! binary. It watches from before the start until after it.

use std::fs;

use crate::terminal::{GOODBYE, Terminal, ended};

/// The key that the teammate gets. The attacker's program must not contain it as one word, because
/// it searches files for it.
const KEY: &str = "CANARY-KEY-OF-BOB";

/// Looks for the launch of the next pane in every place where one was or is: files of the temporary
/// folder and of the root, the sockets of launches, and what tmux repeats. It reads each, replaces
/// each by a launch of its own, and takes a launch with pitcrew's own command.
const WATCH: &str = r#"
key=CANARY'-KEY-OF'-BOB
own='{"argv":["touch","WORK/hit"],"cwd":"/","env":[]}'
look() {
  for f in $(grep -rlas -e "$key" TEMPORARY ROOT); do echo "key in $f" >> found; done
  for f in TEMPORARY/pitcrew-*; do [ -f "$f" ] && printf %s "$own" > "$f" && echo "replaced $f" >> found; done
  for s in ROOT/pitcrew/launches/*; do
    [ -S "$s" ] || continue
    name=${s##*/}
    ('PITCREW' pane-exec "$s" "${name%.*}" >> got 2>&1 && echo "started by a launch" >> found) &
    # The slow pane program answers only when both wait at the socket: the pane and the attacker.
    m=0
    while [ "$(grep -c "$name" /proc/net/unix)" -lt 3 ] && [ -S "$s" ] && [ $m -lt 2000 ]; do sleep 0.01; m=$((m + 1)); done
    echo x >> seen
    wait
    rm "$s" 2> /dev/null && echo "removed $s" >> found
  done
  for told in "list-panes -a -F #{pane_start_command}" "show-environment -g" "show-environment -t pitcrew-work"; do
    tmux $told 2> /dev/null | grep -q -e "$key" && echo "key by tmux $told" >> found
  done
}
touch watching
n=0
while [ ! -e over ] && [ $n -lt 3000 ]; do look; n=$((n + 1)); done
"#;

/// A pane program that reports the process of a new pane only when the attacker has had its turn at
/// the socket. The launch waits as long.
const SLOW: &str = r#"
'PITCREW' pane serve tmux | while IFS= read -r line; do
  case $line in *'"split"'*) n=0; while [ ! -s seen ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done ;; esac
  printf '%s\n' "$line"
done
"#;

fn script() -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Bash, input: {{command: sh watch.sh, run_in_background: true}}}}]
    - tools: [{{name: Bash, input: {{command: "for i in $(seq 600); do test -e watching && break; sleep 0.05; done"}}}}]
    - tools: [{{name: Task, input: {{name: bob, description: Work, prompt: Work.}}}}]
    - wait_for: {{contains: my part is done, from: message}}
    - tools: [{{name: Bash, input: {{command: touch over}}}}]
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: All is done.
  bob:
    - tools: [{{name: Bash, input: {{command: 'printf %s "$ANTHROPIC_API_KEY" | wc -c > counted'}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}
"#
    )
}

#[test]
fn a_free_command_gets_no_key_of_a_pane_and_starts_no_program_in_it() {
    for is_slow in [false, true] {
        let Some(terminal) = Terminal::new() else { return };
        let work = terminal.room.work();
        let place = |text: &str| {
            text.replace("PITCREW", env!("CARGO_BIN_EXE_pitcrew"))
                .replace("WORK", &work.display().to_string())
                .replace("TEMPORARY", &terminal.room.temporary().display().to_string())
                .replace("ROOT", &terminal.room.root().display().to_string())
        };
        fs::write(work.join("watch.sh"), place(WATCH)).unwrap();
        fs::write(work.join("slow"), place(SLOW)).unwrap();
        let mode = match is_slow {
            true => format!("pane:sh {}", work.join("slow").display()),
            false => "tmux".to_owned(),
        };
        let mut run =
            terminal.run_in(&mode, &script(), &["--permission-mode", "bypassPermissions"]);
        run.env("ANTHROPIC_API_KEY", KEY).stdin(std::process::Stdio::null());
        run.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let ran = ended(run.spawn().unwrap());
        assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
        let read = |name: &str| fs::read_to_string(work.join(name)).unwrap_or_default();
        assert_eq!(read("found"), "", "slow: {is_slow}");
        assert!(!work.join("hit").exists(), "slow: {is_slow}");
        assert!(work.join("watching").exists() && work.join("counted").exists());
        if is_slow {
            assert!(!read("seen").is_empty(), "the attacker never saw the socket");
            // It was refused, or the launch was already given to the process of the pane.
            assert!(read("got").starts_with("error: "), "{}", read("got"));
        }
        terminal.check_nobody_is_left();
    }
}
