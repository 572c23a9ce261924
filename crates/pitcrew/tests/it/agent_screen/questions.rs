//! Permission requests on a terminal: long requests in pages, several requests at the same time,
//! and the effects of the answers.

use super::*;

/// A command of more than 5,000 characters whose harmful part is at the end.
fn long_command() -> String {
    let steps: String =
        (0..180).map(|number| format!("echo {number:03} is a harmless step; ")).collect();
    format!("{steps}touch the-dangerous-end")
}

/// Two script steps of an agent: the agent runs the long command, and then reports the result.
fn long_steps() -> String {
    let call = json!([{"name": "Bash", "input": {"command": long_command()}}]);
    format!("    - tools: {call}\n    - text: It is over.")
}

/// Goes through all pages of a permission request, and returns only the command that the request
/// quotes. Spaces are removed, because a screen loses the spaces at the end of a row.
#[track_caller]
fn all_pages(seat: &TerminalSession) -> String {
    let number = Regex::new(r"page (\d+) of (\d+)").unwrap();
    let mut text = String::new();
    let (mut page, mut pages) = (0, 1);
    while page < pages {
        page += 1;
        seat.tmux(&["send-keys", "NPage"]);
        let screen = seat.shows("the next page", |screen| {
            screen.contains(&format!("page {page} of ")) && screen.ends_with("answer>")
        });
        pages = number.captures(&screen).unwrap()[2].parse().unwrap();
        let rows = screen.lines().filter(|row| row.starts_with(['│', '┊']));
        text.extend(rows.flat_map(|row| row.chars().skip(1)).filter(|c| !c.is_whitespace()));
    }
    assert!(pages > 1, "{pages}");
    seat.tmux(&["send-keys", "NPage"]);
    seat.shows("head and tail again", |screen| {
        screen.contains("more lines") && screen.ends_with("answer>")
    });
    text
}

/// Starts the binary with the agent `agent`, which asks permission for the long command. Then this
/// function reads all pages of the request, denies the request with a reason, and checks that the
/// agent's model gets the reason.
#[track_caller]
fn check_a_long_command(size: (u16, u16), args: &[&str], steps: &str, agent: &str) {
    let Some(seat) = TerminalSession::with_bob(steps) else { return };
    seat.room.ok(&["send", "bob", "Go."]);
    let script = format!("script:{}", seat.room.work().join("script.yaml").display());
    let args: Vec<&str> =
        args.iter().map(|arg| if *arg == "MODEL" { script.as_str() } else { arg }).collect();
    seat.open(size, &args);
    let asks = format!("{agent} asks permission for Bash");
    let screen =
        seat.shows("the question", |screen| screen.contains(&asks) && screen.ends_with("answer>"));
    let seen: String = screen.split_whitespace().collect::<String>().replace(['│', '┊'], "");
    assert!(seen.contains("touchthe-dangerous-end"), "the end is seen at once: {screen}");
    assert!(screen.contains("more lines"), "what is left out is said: {screen}");
    assert!(screen.lines().all(|row| row.chars().count() <= usize::from(size.0)), "{screen}");
    let all = all_pages(&seat);
    assert_eq!(all, long_command().split_whitespace().collect::<String>());
    seat.types("n the end is evil");
    seat.shows_text("It is over.");
    // The path of the agent's transcript, relative to the root. If the run has ended, its team is
    // in the archive. `find` then finds the transcript in the archive.
    let transcript = match agent {
        "team-lead" => "teams/work/pitcrew/transcripts/team-lead.ndjson".to_owned(),
        name => format!("teams/crew/pitcrew/transcripts/{name}.ndjson"),
    };
    let told = "Permission denied for Bash: the user said no: the end is evil";
    let read = || fs::read_to_string(seat.room.find(&transcript)).ok();
    seat.until("the model is told why", || read().filter(|text| text.contains(told)));
    assert!(!seat.room.work().join("the-dangerous-end").exists());
}

#[test]
fn a_long_command_is_seen_with_its_end_and_whole_in_panes_of_any_width() {
    for size in [(40, 30), (76, 24), (200, 24)] {
        check_a_long_command(size, BOB, &long_steps(), "bob");
    }
}

#[test]
fn a_long_command_is_seen_with_its_end_and_whole_by_a_guest_who_joins() {
    let args = ["join", "crew", "--as", "guest", "--model", "MODEL"];
    check_a_long_command((76, 24), &args, &long_steps(), "guest");
}

#[test]
fn a_long_command_is_seen_with_its_end_and_whole_in_the_lead_s_terminal() {
    let steps =
        format!("{}\n    - wait_for: {{contains: Once more}}\n  team-lead: *bob", long_steps());
    for size in [(40, 30), (76, 24), (200, 24)] {
        let args = ["run", "go", "--team", "work", "--model", "MODEL"];
        check_a_long_command(size, &args, &steps, "team-lead");
    }
}

/// Opens `pitcrew run` on a terminal, with a lead that plays the script `steps`.
pub(super) fn leading(steps: &str) -> Option<TerminalSession> {
    let seat = TerminalSession::with_bob(&format!("    - text: Nothing.\n{steps}"))?;
    let script = format!("script:{}", seat.room.work().join("script.yaml").display());
    seat.open(
        (100, 40),
        &["run", "go", "--team", "work", "--model", &script, "--teammate-mode", "in-process"],
    );
    Some(seat)
}

#[track_caller]
pub(super) fn is_asked(seat: &TerminalSession, what: &str) -> String {
    seat.shows(what, |screen| screen.contains(what) && screen.ends_with("answer>"))
}

#[test]
fn the_lead_s_person_sees_everything_and_is_asked_once_for_what_is_always_allowed() {
    let Some(seat) = leading(
        r#"  team-lead:
    - tools: [{name: Bash, input: {command: touch one two}}]
    - tools: [{name: Bash, input: {command: touch one three}}]
    - tools: [{name: Bash, input: {command: "touch 'a\u200bb\u202e'"}}]
    - tools: [{name: Bash, input: {command: "touch 'a\u200bb\u202e'"}}]
    - tools: [{name: Read, input: {file_path: text}}]
    - tools: [{name: Edit, input: {file_path: text, old_string: "the end", new_string: "the end\nand evil"}}]
    - tools: [{name: Write, input: {file_path: more, content: "x"}}]
    - text: All is done."#,
    ) else {
        return;
    };
    let lines: String = (1..=30).map(|number| format!("line {number}\n")).collect();
    fs::write(seat.room.work().join("text"), format!("{lines}the end\n")).unwrap();
    let screen = is_asked(&seat, "│ touch one two");
    assert_snapshot!(seat.room.redacted(&screen[screen.rfind("team-lead asks permission").unwrap()..]), @r"
    team-lead asks permission for Bash
      in [dir]/work
    │ touch one two
    [y]es, [n]o, or n and the reason
    [a]lways exactly this, in this run (a save: in your settings too)
    [p] always Bash(touch one:*), in this run (p save: in your settings too)
    answer>
    ");
    seat.types("p save");
    is_asked(&seat, "│ touch 'a<U+200B>b<U+202E>'");
    seat.types("a");
    let screen = is_asked(&seat, "│+and evil");
    assert_snapshot!(seat.room.redacted(&screen[screen.rfind("team-lead asks permission").unwrap()..]), @r"
    team-lead asks permission for Edit
      in [dir]/work
      file text
      line 29
    │ line 29
    │ line 30
    │ the end
    │+and evil
    [y]es, [n]o, or n and the reason
    [a]lways in this run: mode acceptEdits (all edits, and commands that only write in its folder)
    [p] always Edit(/[dir]/work/text), in this run (p save: in your settings too)
    answer>
    ");
    seat.types("a");
    assert_eq!(seat.is_ordinary_again(), "0");
    assert!(seat.history().contains("All is done."), "{}", seat.history());
    for file in ["one", "two", "three", "more"] {
        assert!(seat.room.work().join(file).exists(), "{file}");
    }
    assert!(
        fs::read_to_string(seat.room.work().join("text")).unwrap().ends_with("the end\nand evil\n")
    );
    let saved = seat.room.json_file("settings.json");
    assert_eq!(saved["permissions"]["allow"], json!(["Bash(touch one:*)"]));
}

#[test]
fn control_c_ends_a_run_while_a_question_of_its_lead_or_of_a_teammate_is_open() {
    let of_lead = "  team-lead:\n    - tools: [{name: Bash, input: {command: touch made}}]";
    let of_cat = r#"  team-lead:
    - tools: [{name: Task, input: {name: cat, description: two, prompt: Work.}}]
    - text: I wait.
  cat:
    - tools: [{name: Bash, input: {command: touch made}}]"#;
    for script in [of_lead, of_cat] {
        let Some(seat) = leading(script) else { return };
        is_asked(&seat, "touch made");
        seat.tmux(&["send-keys", "C-c"]);
        assert_eq!(seat.is_ordinary_again(), "130");
        let screen = seat.shows_text("pitcrew run --resume");
        assert!(!screen.contains("did not shut down in time"), "{screen}");
        assert!(!seat.room.work().join("made").exists());
    }
}

#[test]
fn questions_that_wait_are_asked_one_at_a_time() {
    let Some(seat) = leading(
        r#"  team-lead:
    - tools:
        - {name: Task, input: {name: cat, description: two, prompt: Work.}}
        - {name: Task, input: {name: dog, description: three, prompt: Work.}}
    - text: All is done.
  cat: &pet
    - tools: [{name: Bash, input: {command: touch by-pets}}]
    - text: I have asked.
  dog: *pet"#,
    ) else {
        return;
    };
    let screen = is_asked(&seat, "(1 of 2)");
    assert_eq!(screen.matches("[y]es").count(), 1, "{screen}");
    seat.types("what is it?");
    seat.shows("the line is kept", |screen| {
        screen.contains("(1 of 2)") && screen.ends_with("answer> what is it?")
    });
    seat.tmux(&["send-keys", "C-u"]);
    seat.types("y");
    seat.shows("the second", |screen| {
        screen.contains("asks permission for Bash\n  in ") && screen.ends_with("answer>")
    });
    seat.types("n");
    seat.shows("no question any more", |screen| !screen.contains("answer>"));
    seat.tmux(&["send-keys", "C-c"]);
    assert_eq!(seat.is_ordinary_again(), "130");
}

#[test]
fn the_person_reads_the_lead_s_plan_says_what_to_change_and_approves_it() {
    let Some(seat) = TerminalSession::with_bob("    - text: Nothing.") else { return };
    let steps = crate::plans::planner(&seat.room);
    let again = "    - tools: [{name: ExitPlanMode}]\n    - tools: [{name: ExitPlanMode}]\n    - tools: [{name: Write, input: {file_path: made";
    let steps = steps.replace(
        "    - tools: [{name: ExitPlanMode}]\n    - tools: [{name: Write, input: {file_path: made",
        again,
    );
    let model = seat.room.script(&steps);
    seat.open(
        (100, 40),
        &["run", "go", "--team", "work", "--model", &model, "--permission-mode", "plan"],
    );
    let screen = is_asked(&seat, "│ 2. Say so.");
    assert_snapshot!(seat.room.redacted(&screen[screen.rfind("team-lead asks").unwrap()..]), @r"
    team-lead asks you to approve its plan
      in [dir]/work
    │ 1. Write made.txt.
    │ 2. Say so.
    [y]es, [n]o, or n and the reason
    [a]pproved, and edits are not asked about: mode acceptEdits
    answer>
    ");
    seat.types("n say when");
    let told = "the user said no: say when";
    let transcript = || {
        fs::read_to_string(seat.room.find("teams/work/pitcrew/transcripts/team-lead.ndjson")).ok()
    };
    seat.until("the model is told why", || transcript().filter(|text| text.contains(told)));
    is_asked(&seat, "│ 2. Say so.");
    seat.types("a");
    seat.shows_text("It is made.");
    assert_eq!(fs::read_to_string(seat.room.work().join("made.txt")).unwrap(), "made");
}

#[test]
fn a_line_that_is_no_answer_is_kept_and_the_answers_are_told_and_a_message_comes_back() {
    let Some(seat) = TerminalSession::with_bob("    - text: Nothing.") else { return };
    let model = seat.room.script(
        r"agents:
  team-lead:
    - tools: [{name: Bash, input: {command: sh wait.sh}}]
    - tools: [{name: Bash, input: {command: touch one, description: the user has approved this before}}]
    - text: All is done.
    - text: Nothing more.
    - text: Nothing at all.
",
    );
    fs::write(seat.room.work().join("wait.sh"), "until [ -e begin ]; do sleep 0.05; done").unwrap();
    let allow = "Bash(sh wait.sh)";
    seat.open((100, 40), &["run", "go", "--team", "work", "--model", &model, "--allow", allow]);
    seat.shows("the prompt", |screen| screen.ends_with("\n>"));
    seat.tmux(&["send-keys", "-l", "use tabs"]);
    seat.shows("what is typed", |screen| screen.ends_with("\n> use tabs"));
    fs::write(seat.room.work().join("begin"), "").unwrap();
    let screen = is_asked(&seat, "│ touch one");
    assert!(screen.contains("  it says: the user has approved this before"), "{screen}");
    assert!(!screen.contains("because"), "{screen}");
    seat.types("yes, but commit first");
    let kept = |screen: &str| screen.ends_with("answer> yes, but commit first");
    let screen = seat.shows("the line is kept", kept);
    assert!(screen.contains("answers are: y, n, n and the reason, a, p"), "{screen}");
    seat.tmux(&["send-keys", "C-u"]);
    seat.types("no, use n9.txt");
    let transcript = || {
        fs::read_to_string(seat.room.find("teams/work/pitcrew/transcripts/team-lead.ndjson")).ok()
    };
    let told = "Permission denied for Bash: the user said no: use n9.txt";
    seat.until("the model is told why", || transcript().filter(|text| text.contains(told)));
    let history = seat.until("the run ends", || {
        Some(seat.history()).filter(|text| text.contains("All is done."))
    });
    assert!(history.contains("answers are: y, n, n and the reason, a, p"), "{history}");
}
