//! Permission questions, put to the person at the terminal one at a time.

use std::collections::{HashSet, VecDeque};
use std::io::BufRead as _;

use pitcrew_runtime::gate::PermissionMode;
use pitcrew_runtime::run::{Answer, Ask};
use tokio::sync::mpsc;

use super::view::brief;
use crate::output::printable;

/// How many questions may wait before whoever asks the next one waits too; a person answers one at a time anyway.
pub(crate) const QUESTIONS_WAITING: usize = 16;

/// How many typed lines may wait; what is typed before it is asked for is dropped.
const LINES_WAITING: usize = 4;

/// The most of a call's input that is shown, in characters.
const SHOWN_CHARS: usize = 2_000;

/// The questions of a run and the person who answers them.
#[derive(Debug)]
pub(crate) struct Questions {
    asked: mpsc::Receiver<Ask>,
    typed: mpsc::Receiver<String>,
    waiting: VecDeque<Ask>,
    /// Calls that were allowed for the rest of the run, as tool and input.
    always: HashSet<(String, String)>,
}

/// What happened at the terminal.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A question came.
    Asked(Ask),
    /// A line was typed.
    Typed(String),
    /// The question that is now to be answered was answered elsewhere, or is void.
    Settled,
}

impl Questions {
    /// Takes the terminal's input over; the sender is for the run.
    pub(crate) fn at_terminal() -> (mpsc::Sender<Ask>, Self) {
        let (ask, asked) = mpsc::channel(QUESTIONS_WAITING);
        let (line, typed) = mpsc::channel(LINES_WAITING);
        // A thread of its own, which nobody joins: a read of the terminal cannot be taken back, and the runtime would wait
        // for it at the end. It ends with the process, or with its first line after the run.
        std::thread::spawn(move || {
            for text in std::io::stdin().lock().lines() {
                let Ok(text) = text else { return };
                if line.blocking_send(text).is_err() {
                    return;
                }
            }
        });
        (ask, Self { asked, typed, waiting: VecDeque::new(), always: HashSet::new() })
    }

    /// Takes lines from whoever hands them to [`Questions::take`]; the sender is for the run.
    pub(crate) fn typed_elsewhere() -> (mpsc::Sender<Ask>, Self) {
        let (ask, asked) = mpsc::channel(QUESTIONS_WAITING);
        let (_, typed) = mpsc::channel(LINES_WAITING);
        (ask, Self { asked, typed, waiting: VecDeque::new(), always: HashSet::new() })
    }

    /// The question that is now to be answered.
    pub(crate) fn current(&self) -> Option<String> {
        self.waiting.front().map(text)
    }

    /// Waits for the next question or line; for ever when there can be none any more.
    pub(crate) async fn next(&mut self) -> Heard {
        let waiting = &mut self.waiting;
        let settled = async {
            match waiting.front_mut() {
                Some(ask) => ask.answer.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ask) = self.asked.recv() => Heard::Asked(ask),
            Some(line) = self.typed.recv() => Heard::Typed(line),
            () = settled => Heard::Settled,
        }
    }

    /// Takes in what happened, and says what to show: the question that is now to be answered.
    pub(crate) fn take(&mut self, heard: Heard) -> Option<String> {
        match heard {
            Heard::Asked(ask) if self.always.contains(&key(&ask)) => {
                answer(ask, Answer::Allow);
                None
            }
            Heard::Asked(ask) => {
                self.waiting.push_back(ask);
                if self.waiting.len() == 1 { self.question() } else { None }
            }
            Heard::Typed(line) => {
                let ask = self.waiting.pop_front()?;
                match read(&line, &ask) {
                    Some(Choice::Once(said)) => answer(ask, said),
                    Some(Choice::Always) => {
                        self.always.insert(key(&ask));
                        answer(ask, Answer::Allow);
                    }
                    None => self.waiting.push_front(ask),
                }
                self.question()
            }
            Heard::Settled => {
                self.waiting.pop_front();
                self.question()
            }
        }
    }

    /// The question at the head, with those passed over that were allowed for good in the meantime.
    fn question(&mut self) -> Option<String> {
        while self.waiting.front().is_some_and(|ask| self.always.contains(&key(ask))) {
            if let Some(ask) = self.waiting.pop_front() {
                answer(ask, Answer::Allow);
            }
        }
        self.current()
    }
}

enum Choice {
    Once(Answer),
    Always,
}

/// What a typed line means; nothing when it means nothing.
fn read(line: &str, ask: &Ask) -> Option<Choice> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Choice::Once(Answer::Allow)),
        "n" | "no" => Some(Choice::Once(Answer::Deny { reason: "the user said no".to_owned() })),
        "a" | "always" if edits(&ask.tool) => Some(Choice::Once(Answer::AllowAndSwitch(PermissionMode::AcceptEdits))),
        "a" | "always" => Some(Choice::Always),
        _ => None,
    }
}

fn answer(ask: Ask, answer: Answer) {
    // Nobody waits for it any more when the agent was stopped in the meantime.
    let _ = ask.answer.send(answer);
}

fn key(ask: &Ask) -> (String, String) {
    (ask.tool.clone(), ask.input.to_string())
}

fn edits(tool: &str) -> bool {
    matches!(tool, "Edit" | "Write")
}

fn text(ask: &Ask) -> String {
    let always = if edits(&ask.tool) { "always: all its edits" } else { "always: this very call" };
    let input: String = ask.input.to_string().chars().take(SHOWN_CHARS).collect();
    format!(
        "\n{} asks for leave: {}\n  {}\n  because {}\n[y]es, [n]o, [a]lways ({always})? ",
        ask.agent,
        brief(&ask.tool, &ask.input),
        printable(&input),
        ask.reason,
    )
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::AgentName;
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;

    fn questions() -> Questions {
        let (_, asked) = mpsc::channel(1);
        let (_, typed) = mpsc::channel(1);
        Questions { asked, typed, waiting: VecDeque::new(), always: HashSet::new() }
    }

    fn ask(tool: &str, command: &str) -> (Ask, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let ask = Ask {
            agent: AgentName::new("bob").unwrap(),
            tool: tool.into(),
            input: json!({"command": command}),
            reason: "no rule speaks of it".into(),
            answer,
        };
        (ask, answered)
    }

    #[test]
    fn one_question_is_shown_at_a_time_and_answered_in_order() {
        let mut questions = questions();
        let (first, mut first_answer) = ask("Bash", "ls");
        let (second, mut second_answer) = ask("Bash", "rm x");
        let shown = questions.take(Heard::Asked(first)).unwrap();
        assert!(shown.contains("bob asks for leave: Bash(ls)"), "{shown}");
        assert_eq!(questions.take(Heard::Asked(second)), None);
        assert!(questions.take(Heard::Typed("what?".into())).unwrap().contains("Bash(ls)"));
        assert!(questions.take(Heard::Typed("y".into())).unwrap().contains("rm x"));
        assert_eq!(first_answer.try_recv().unwrap(), Answer::Allow);
        assert_eq!(questions.take(Heard::Typed("no".into())), None);
        assert!(matches!(second_answer.try_recv().unwrap(), Answer::Deny { .. }));
    }

    #[test]
    fn a_question_that_was_answered_elsewhere_makes_way_for_the_next() {
        let mut questions = questions();
        let (first, first_answer) = ask("Bash", "ls");
        let (second, _second_answer) = ask("Bash", "rm x");
        let _ = questions.take(Heard::Asked(first));
        let _ = questions.take(Heard::Asked(second));
        drop(first_answer);
        let heard = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(questions.next());
        assert!(matches!(heard, Heard::Settled));
        assert!(questions.take(heard).unwrap().contains("rm x"));
    }

    #[test]
    fn always_holds_for_the_very_same_call_only() {
        let mut questions = questions();
        let (first, _first_answer) = ask("Bash", "ls");
        let _ = questions.take(Heard::Asked(first));
        assert_eq!(questions.take(Heard::Typed("always".into())), None);
        let (same, mut same_answer) = ask("Bash", "ls");
        assert_eq!(questions.take(Heard::Asked(same)), None);
        assert_eq!(same_answer.try_recv().unwrap(), Answer::Allow);
        let (other, _other_answer) = ask("Bash", "ls /");
        assert!(questions.take(Heard::Asked(other)).is_some());
    }

    #[test]
    fn always_for_an_edit_switches_the_mode() {
        let mut questions = questions();
        let (edit, mut edit_answer) = ask("Edit", "");
        let _ = questions.take(Heard::Asked(edit));
        let _ = questions.take(Heard::Typed("a".into()));
        assert_eq!(edit_answer.try_recv().unwrap(), Answer::AllowAndSwitch(PermissionMode::AcceptEdits));
    }
}
