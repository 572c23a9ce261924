//! Checks that a pane program follows all rules of the protocol. Each check starts real programs in
//! real panes, and closes the panes afterwards.
//!
//! A check does not panic at a wrong behavior, but reports it. So anyone can test a pane program
//! with `pitcrew pane check`.

use std::fmt;
use std::io;
use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pitcrew_protocol::{AgentName, TeamDir};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::Connection;
use super::probe::{Meeting, Met};
use super::wire::{Alive, Capability, Hello, Listed, Op, Refusal, Screen, Start, Started, code};
use crate::{NewPane, PaneError, PaneId, PaneTag};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The name of the rule that was tested, as words joined by underscores.
    pub name: &'static str,
    /// The result: passed, failed or skipped.
    pub result: Verdict,
    /// The reason why the check failed or was skipped. `None` if it passed.
    pub why: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The pane program follows the rule.
    Passed,
    /// The pane program breaks the rule.
    Failed,
    /// The check was not run, because it needs a capability that the pane program does not claim to
    /// have.
    Skipped,
}

/// A wrong behavior that a check observed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{what}: expected {expected}, found {found}")]
    Differs { what: &'static str, expected: String, found: String },
    #[error(transparent)]
    Pane(#[from] PaneError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

type Outcome = Result<(), Failure>;

/// One check: its name, the capability that it needs, and the function that runs it.
struct Check {
    name: &'static str,
    needs: Option<Capability>,
    run: for<'a> fn(&'a mut Bench) -> BoxFuture<'a, Outcome>,
}

macro_rules! checks {
    ($($name:ident $(needs $needs:ident)?),* $(,)?) => {
        const CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            needs: checks!(@ $($needs)?),
            run: |bench| $name(bench).boxed(),
        }),*];
    };
    (@) => { None };
    (@ $needs:ident) => { Some(Capability::$needs) };
}

checks![
    it_says_hello,
    arguments_arrive_byte_for_byte,
    folder_and_variables_arrive_as_they_are,
    a_long_environment_arrives,
    the_process_told_is_the_programs_own,
    a_second_start_gets_a_pane_of_its_own,
    a_running_program_is_told_as_running_and_an_ended_one_not,
    an_exit_status_is_told needs Exit,
    the_screen_shows_what_was_printed needs Screen,
    the_last_screen_is_kept needs Exit,
    stopping_ends_the_program_and_stopping_twice_is_well,
    a_pane_with_another_tag_is_not_stopped,
    a_pane_that_never_was_is_gone,
    a_hidden_pane_runs_on_and_comes_back needs Hide,
    panes_are_found_by_agent_and_by_team needs List,
    what_is_no_request_is_refused_and_does_no_harm,
    eight_run_at_once,
    panes_outlive_the_program_that_made_them,
];

/// Runs all checks on the pane program that `argv` starts. `probe` is the command that starts the
/// test program in a pane. A check appends the path of a socket to this command, and then the
/// arguments that it tests.
///
/// Calls `tell` with each result as soon as the result is known.
pub async fn check_all(argv: &[String], probe: &[String], mut tell: impl FnMut(Checked)) {
    let mut known: Option<Vec<Capability>> = None;
    for (n, check) in CHECKS.iter().enumerate() {
        let lacking = match (&known, check.needs) {
            (None, _) if n > 0 => Some("it did not say hello".to_owned()),
            (Some(known), Some(needed)) if !known.contains(&needed) => {
                Some(format!("it does not say that it can do {needed:?}").to_lowercase())
            }
            (None | Some(_), _) => None,
        };
        if lacking.is_some() {
            tell(Checked { name: check.name, result: Verdict::Skipped, why: lacking });
            continue;
        }
        let outcome = async {
            let mut bench = Bench::open(argv, probe).await?;
            // The first check stores the capabilities of the program. They decide which of the
            // later checks are skipped.
            known.get_or_insert_with(|| bench.hello.capabilities.clone());
            let outcome = (check.run)(&mut bench).await;
            // Always close the panes of the check. If both the check and this cleanup fail, report
            // the error of the check.
            let tidied = bench.tidy().await;
            outcome.and(tidied)
        };
        let why = outcome.await.err().map(|failure| chain(&failure));
        let result = if why.is_some() { Verdict::Failed } else { Verdict::Passed };
        tell(Checked { name: check.name, result, why });
    }
}

fn chain(failure: &Failure) -> String {
    let mut said = failure.to_string();
    let mut under = std::error::Error::source(failure);
    while let Some(error) = under {
        said += &format!(": {error}");
        under = error.source();
    }
    said
}

/// A pane program under test, and the panes that were started with it.
struct Bench {
    argv: Vec<String>,
    probe: Vec<String>,
    link: Connection,
    hello: Hello,
    meeting: Meeting,
    root: String,
    left: Vec<(PaneId, String)>,
}

impl Bench {
    async fn open(argv: &[String], probe: &[String]) -> Result<Self, Failure> {
        let meeting = Meeting::open()?;
        let mut link = Connection::open(argv)?;
        let hello = link.hello().await?;
        // Every tag of this check contains a new random id. So this check never changes a pane of
        // another check or of a real team.
        let root = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self {
            argv: argv.to_vec(),
            probe: probe.to_vec(),
            link,
            hello,
            meeting,
            root,
            left: Vec::new(),
        })
    }

    fn tag(&self, agent: &str) -> PaneTag {
        let agent = (!agent.is_empty()).then(|| AgentName::foreign(agent));
        PaneTag { root: self.root.clone(), team: TeamDir::of("check"), agent }
    }

    fn pane(&self, agent: &str, arguments: &[&str]) -> NewPane {
        let mut argv = self.probe.clone();
        argv.push(self.meeting.socket().to_string_lossy().into_owned());
        argv.extend(arguments.iter().map(ToString::to_string));
        NewPane {
            argv,
            cwd: self.meeting.folder().to_owned(),
            env: Vec::new(),
            title: format!("check {agent}"),
            color: Some("cyan".to_owned()),
            tag: self.tag(agent),
        }
    }

    async fn ask(&mut self, op: Op) -> Result<Result<Value, Refusal>, Failure> {
        Ok(self.link.ask(op).await?)
    }

    /// Starts a pane and waits until the test program in the pane has connected.
    async fn start(&mut self, pane: NewPane) -> Result<(Started, Met), Failure> {
        let answer = self.ask(Op::Start(Start::of(&pane))).await?;
        let started: Started = self.link.read(answer)?;
        // Store the pane now, so that it is closed even if the next step fails.
        self.left.push((started.pane.clone(), pane.tag.to_string()));
        let met = self.meeting.next().await?;
        Ok((started, met))
    }

    async fn alive(&mut self, pane: &PaneId) -> Result<Alive, Failure> {
        let answer = self.ask(Op::Alive { pane: pane.clone() }).await?;
        Ok(self.link.read(answer)?)
    }

    /// Returns the state of a pane whose program has just ended. Asks repeatedly, because the
    /// terminal may notice the end late.
    async fn after_the_end(&mut self, pane: &PaneId) -> Result<Alive, Failure> {
        let mut looks = END_LOOKS;
        loop {
            let alive = self.alive(pane).await?;
            looks -= 1;
            if looks == 0 || !matches!(alive, Alive::Running { .. }) {
                return Ok(alive);
            }
            tokio::time::sleep(END_TICK).await;
        }
    }

    async fn screen(&mut self, pane: &PaneId) -> Result<String, Failure> {
        let answer = self.ask(Op::Screen { pane: pane.clone() }).await?;
        let screen: Screen = self.link.read(answer)?;
        Ok(screen.text.unwrap_or_default())
    }

    /// Reads the screen repeatedly until it contains `text`, because the terminal may need a moment
    /// to show the text. Returns the last screen text, even if `text` never appeared.
    async fn screen_with(&mut self, pane: &PaneId, text: &str) -> Result<String, Failure> {
        let mut looks = END_LOOKS;
        loop {
            let screen = self.screen(pane).await?;
            looks -= 1;
            if looks == 0 || screen.contains(text) {
                return Ok(screen);
            }
            tokio::time::sleep(END_TICK).await;
        }
    }

    async fn stop(&mut self, pane: &PaneId, tag: &str) -> Result<Result<Value, Refusal>, Failure> {
        self.ask(Op::Stop { pane: pane.clone(), tag: tag.to_owned() }).await
    }

    async fn stopped(&mut self, pane: &PaneId, tag: &str) -> Outcome {
        let answer = self.stop(pane, tag).await?;
        self.link.read::<Value>(answer)?;
        Ok(())
    }

    async fn listed(&mut self, tag: &PaneTag) -> Result<Vec<String>, Failure> {
        let answer = self.ask(Op::List { tag: tag.to_string() }).await?;
        let listed: Listed = self.link.read(answer)?;
        let mut tags: Vec<String> = listed.panes.into_iter().map(|pane| pane.tag).collect();
        tags.sort();
        Ok(tags)
    }

    async fn tidy(&mut self) -> Outcome {
        for (pane, tag) in std::mem::take(&mut self.left) {
            self.stopped(&pane, &tag).await?;
        }
        Ok(())
    }
}

/// Maximum number of times that the pane program is asked about a pane, until the expected change
/// of the pane is visible. `END_TICK` is the pause between two questions, so the maximum time is
/// about 30 seconds.
const END_LOOKS: usize = 1500;
const END_TICK: std::time::Duration = std::time::Duration::from_millis(20);

fn same<T: PartialEq + fmt::Debug>(what: &'static str, expected: &T, found: &T) -> Outcome {
    if expected == found {
        return Ok(());
    }
    let shown = |it: &T| format!("{it:?}").chars().take(300).collect();
    Err(Failure::Differs { what, expected: shown(expected), found: shown(found) })
}

fn holds(what: &'static str, found: &impl fmt::Debug, is_so: bool) -> Outcome {
    if is_so {
        return Ok(());
    }
    Err(Failure::Differs { what, expected: "it to be so".to_owned(), found: format!("{found:?}") })
}

fn refused(what: &'static str, expected: &str, answer: Result<Value, Refusal>) -> Outcome {
    match answer {
        Err(refusal) => same(what, &expected.to_owned(), &refusal.code),
        Ok(value) => {
            Err(Failure::Differs { what, expected: expected.to_owned(), found: value.to_string() })
        }
    }
}

/// Arguments that are easily changed by a shell, a format string or a careless script. A pane
/// program must pass them on unchanged.
const HOSTILE: &[&str] = &[
    "", " ", ";", "a;", "a\\;", "\\", "\\\\", "'", "\"", "$HOME", "${HOME}", "`id`", "$(id)",
    "#{pid}", "#(id)", "##[x]", "%1", "%%", "~", "*", "?", "!x", "^x^", "-", "--", "-x", "a\nb",
    "\t", "\r", "\x1b[2J", "\x07", "ä", "😀", "a=b", "&", "|", "<", ">", "{}", "[]",
];

async fn it_says_hello(bench: &mut Bench) -> Outcome {
    holds("it names its terminal", &bench.hello, !bench.hello.name.is_empty())?;
    let again = bench.link.hello().await?;
    same("the second hello", &bench.hello.clone(), &again)
}

async fn arguments_arrive_byte_for_byte(bench: &mut Bench) -> Outcome {
    let (_, met) = bench.start(bench.pane("bob", HOSTILE)).await?;
    let expected: Vec<String> = HOSTILE.iter().map(ToString::to_string).collect();
    for (expected, found) in expected.iter().zip(&met.probed.arguments) {
        same("an argument", expected, found)?;
    }
    same("how many arguments", &expected.len(), &met.probed.arguments.len())
}

#[expect(clippy::disallowed_methods, reason = "the suite makes a folder for the pane")]
async fn folder_and_variables_arrive_as_they_are(bench: &mut Bench) -> Outcome {
    let cwd = bench.meeting.folder().join("a b #{c} #[d] $e 'f' \"g\";");
    std::fs::create_dir(&cwd)?;
    let env: Vec<(String, String)> = HOSTILE
        .iter()
        .enumerate()
        .map(|(n, value)| (format!("PITCREW_CHECK_{n}"), (*value).to_owned()))
        .collect();
    let pane = NewPane { cwd: cwd.clone(), env: env.clone(), ..bench.pane("bob", &[]) };
    let (_, met) = bench.start(pane).await?;
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    same("the folder", &real(&cwd), &real(&met.probed.cwd))?;
    for (name, value) in env {
        same("a variable", &Some(&value), &met.probed.env.get(&name))?;
    }
    Ok(())
}

async fn a_long_environment_arrives(bench: &mut Bench) -> Outcome {
    let long = "x".repeat(100_000);
    let env = vec![("PITCREW_CHECK_LONG".to_owned(), long.clone())];
    let (_, met) = bench.start(NewPane { env, ..bench.pane("bob", &["last"]) }).await?;
    same("the last argument", &Some(&"last".to_owned()), &met.probed.arguments.last())?;
    let found = met.probed.env.get("PITCREW_CHECK_LONG").map(String::len);
    same("the length of a variable", &Some(long.len()), &found)
}

async fn the_process_told_is_the_programs_own(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    if let Some(pid) = started.pid {
        same("the process at start", &met.probed.pid, &pid)?;
    }
    if let Alive::Running { pid: Some(pid) } = bench.alive(&started.pane).await? {
        same("the process while it runs", &met.probed.pid, &pid)?;
    }
    Ok(())
}

async fn a_second_start_gets_a_pane_of_its_own(bench: &mut Bench) -> Outcome {
    let (first, _one) = bench.start(bench.pane("bob", &[])).await?;
    let (second, _two) = bench.start(bench.pane("ann", &[])).await?;
    holds("two panes have two ids", &(&first.pane, &second.pane), first.pane != second.pane)?;
    for started in [first, second] {
        let alive = bench.alive(&started.pane).await?;
        holds("both run", &alive, matches!(alive, Alive::Running { .. }))?;
    }
    Ok(())
}

async fn a_running_program_is_told_as_running_and_an_ended_one_not(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    let alive = bench.alive(&started.pane).await?;
    holds("it runs", &alive, matches!(alive, Alive::Running { .. }))?;
    met.exit(0).await?;
    let alive = bench.after_the_end(&started.pane).await?;
    holds("it runs no more", &alive, !matches!(alive, Alive::Running { .. }))
}

async fn an_exit_status_is_told(bench: &mut Bench) -> Outcome {
    for status in [0, 7] {
        let (started, met) = bench.start(bench.pane("bob", &[])).await?;
        met.exit(status).await?;
        let alive = bench.after_the_end(&started.pane).await?;
        same("how it ended", &Alive::Ended { exit: Some(i32::from(status)) }, &alive)?;
    }
    Ok(())
}

async fn the_screen_shows_what_was_printed(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    let _met = met.show("pitcrew was here").await?;
    let screen = bench.screen_with(&started.pane, "pitcrew was here").await?;
    holds("the screen shows it", &screen, screen.contains("pitcrew was here"))
}

async fn the_last_screen_is_kept(bench: &mut Bench) -> Outcome {
    if !bench.hello.capabilities.contains(&Capability::Screen) {
        return Ok(());
    }
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    let met = met.show("these were its last words").await?;
    met.exit(3).await?;
    bench.after_the_end(&started.pane).await?;
    let screen = bench.screen_with(&started.pane, "last words").await?;
    holds("the screen still shows it", &screen, screen.contains("these were its last words"))
}

async fn stopping_ends_the_program_and_stopping_twice_is_well(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    let tag = bench.tag("bob").to_string();
    bench.stopped(&started.pane, &tag).await?;
    met.gone().await?;
    same("how it is", &Alive::Gone, &bench.after_the_end(&started.pane).await?)?;
    bench.stopped(&started.pane, &tag).await
}

async fn a_pane_with_another_tag_is_not_stopped(bench: &mut Bench) -> Outcome {
    let (started, _met) = bench.start(bench.pane("bob", &[])).await?;
    let other_root = PaneTag { root: "0".repeat(32), ..bench.tag("bob") };
    for tag in [bench.tag("bo"), bench.tag("bobby"), other_root] {
        let answer = bench.stop(&started.pane, &tag.to_string()).await?;
        refused("stopping with another tag", code::FOREIGN, answer)?;
    }
    let alive = bench.alive(&started.pane).await?;
    holds("it still runs", &alive, matches!(alive, Alive::Running { .. }))?;
    let team = bench.tag("").to_string();
    bench.stopped(&started.pane, &team).await
}

async fn a_pane_that_never_was_is_gone(bench: &mut Bench) -> Outcome {
    let (started, _met) = bench.start(bench.pane("bob", &[])).await?;
    let tag = bench.tag("bob").to_string();
    bench.stopped(&started.pane, &tag).await?;
    bench.left.clear();
    for pane in [
        started.pane,
        PaneId("no such pane".to_owned()),
        PaneId(String::new()),
        PaneId("-1;#{x}".to_owned()),
    ] {
        same("how it is", &Alive::Gone, &bench.alive(&pane).await?)?;
        bench.stopped(&pane, &tag).await?;
    }
    Ok(())
}

async fn a_hidden_pane_runs_on_and_comes_back(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    let mut met = met;
    for op in [Op::Hide { pane: started.pane.clone() }, Op::Show { pane: started.pane.clone() }] {
        for _ in 0..2 {
            let answer = bench.ask(op.clone()).await?;
            bench.link.read::<Value>(answer)?;
        }
        met = met.show("still here").await?;
        let alive = bench.alive(&started.pane).await?;
        holds("it runs", &alive, matches!(alive, Alive::Running { .. }))?;
    }
    bench.tidy().await?;
    let answer = bench.ask(Op::Hide { pane: started.pane }).await?;
    refused("hiding a pane that is gone", code::GONE, answer)
}

async fn panes_are_found_by_agent_and_by_team(bench: &mut Bench) -> Outcome {
    let mut met = Vec::new();
    for agent in ["bob", "bobby", "ann x;"] {
        met.push(bench.start(bench.pane(agent, &[])).await?);
    }
    let (bob, team) = (bench.tag("bob"), bench.tag(""));
    same("the panes of one agent", &vec![bob.to_string()], &bench.listed(&bob).await?)?;
    let mut all = ["bob", "bobby", "ann x;"].map(|agent| bench.tag(agent).to_string()).to_vec();
    all.sort();
    same("the panes of the team", &all, &bench.listed(&team).await?)?;
    let nobody = PaneTag { root: "0".repeat(32), ..team };
    same("the panes of nobody", &Vec::new(), &bench.listed(&nobody).await?)
}

async fn what_is_no_request_is_refused_and_does_no_harm(bench: &mut Bench) -> Outcome {
    let lines = [
        "",
        "x",
        "7",
        "null",
        "[]",
        "{}",
        "{\"op\":\"alive\",\"pane\":\"1\"}",
        "\u{1}",
        "{\"id\":\"x\",\"op\":\"hello\"}",
    ];
    for line in lines {
        bench.link.send_line(line).await?;
        let answer = bench.link.answer().await?;
        same("the id of an answer to what has none", &None, &answer.id)?;
        refused("a line that is no request", code::BAD_REQUEST, bench.link.outcome(answer)?)?;
    }
    let tag = bench.tag("bob").to_string();
    let start = json!({ "id": 1, "op": "start", "argv": ["sleep", "60"], "cwd": "/", "env": {}, "tag": tag });
    let with = |field: &str, value: Value| {
        let mut changed = start.clone();
        if let Some(fields) = changed.as_object_mut() {
            fields.insert(field.to_owned(), value);
        }
        changed
    };
    let bad = [
        json!({ "id": 1 }),
        json!({ "id": 1, "op": "alive" }),
        json!({ "id": 1, "op": "alive", "pane": 7 }),
        json!({ "id": 1, "op": "stop", "pane": "1" }),
        with("argv", json!([])),
        with("argv", json!("sleep 60")),
        with("argv", json!(["sleep", 60])),
        with("argv", json!(["sleep", "6\u{0}0"])),
        with("cwd", json!("/no/such/folder")),
        with("env", json!({ "A": 1 })),
        with("env", json!({ "A=B": "1" })),
        with("tag", json!(null)),
    ];
    for request in bad {
        refused_with_id(bench, &request, code::BAD_REQUEST).await?;
    }
    refused_with_id(bench, &json!({ "id": 1, "op": "dance" }), code::UNKNOWN_OP).await?;
    let again = bench.link.hello().await?;
    same("the hello after all that", &bench.hello.clone(), &again)
}

async fn refused_with_id(bench: &mut Bench, request: &Value, expected: &str) -> Outcome {
    bench.link.send_line(&request.to_string()).await?;
    let answer = bench.link.answer().await?;
    same("the id of the answer", &Some(1), &answer.id)?;
    match bench.link.outcome(answer)? {
        Err(refusal) if refusal.code == expected => Ok(()),
        other => Err(Failure::Differs {
            what: "the answer to a bad request",
            expected: format!("{expected} for {request}"),
            found: format!("{other:?}"),
        }),
    }
}

async fn eight_run_at_once(bench: &mut Bench) -> Outcome {
    const EIGHT: usize = 8;
    let panes: Vec<NewPane> = (0..EIGHT).map(|n| bench.pane(&format!("mate-{n}"), &[])).collect();
    // Send all requests before reading the first answer.
    for pane in &panes {
        bench.link.send(Op::Start(Start::of(pane))).await?;
    }
    let mut ids = Vec::new();
    for pane in &panes {
        let answer = bench.link.answer().await?;
        let outcome = bench.link.outcome(answer)?;
        let started: Started = bench.link.read(outcome)?;
        bench.left.push((started.pane.clone(), pane.tag.to_string()));
        ids.push(started.pane);
    }
    let mut met = Vec::new();
    for _ in 0..EIGHT {
        met.push(bench.meeting.next().await?);
    }
    for pane in &ids {
        let alive = bench.alive(pane).await?;
        holds("each runs", &alive, matches!(alive, Alive::Running { .. }))?;
    }
    ids.sort();
    ids.dedup();
    same("how many panes", &EIGHT, &ids.len())?;
    bench.tidy().await?;
    for met in met {
        met.gone().await?;
    }
    Ok(())
}

async fn panes_outlive_the_program_that_made_them(bench: &mut Bench) -> Outcome {
    let (started, met) = bench.start(bench.pane("bob", &[])).await?;
    // This assignment drops the previous connection, and dropping it kills the previous pane
    // program.
    bench.link = Connection::open(&bench.argv)?;
    bench.link.hello().await?;
    let alive = bench.alive(&started.pane).await?;
    holds("it still runs", &alive, matches!(alive, Alive::Running { .. }))?;
    let other = bench.stop(&started.pane, &bench.tag("ann").to_string()).await?;
    refused("stopping with another tag", code::FOREIGN, other)?;
    bench.tidy().await?;
    Ok(met.gone().await?)
}
