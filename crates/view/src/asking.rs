//! Shows permission requests to the user at a terminal, one at a time, and interprets the answers
//! that the user types. The host of the run carries the answers out.

use std::collections::VecDeque;

use pitcrew_runtime::question::{Choice, Keep, Offer, PermissionQuestion, Place, Section};
use pitcrew_runtime::run::Ask;
use tokio::sync::mpsc;

use crate::host::OpenQuestion;

/// Maximum number of permission requests in the queue. When the queue is full, the next agent waits
/// before it can ask. This wait does not delay the answer, because the user answers one request at
/// a time anyway.
pub const QUESTIONS_WAITING: usize = 16;

/// Creates the channel on which a run sends its permission requests to its host.
#[must_use]
pub fn channel() -> (mpsc::Sender<Ask>, mpsc::Receiver<Ask>) {
    mpsc::channel(QUESTIONS_WAITING)
}

/// The permission requests that wait for an answer of the user at this terminal. The host of the
/// run owns the requests. Another user interface may answer them first.
#[derive(Debug)]
pub struct Questions {
    waiting: VecDeque<OpenQuestion>,
    part: Section,
}

impl Default for Questions {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), part: Section::Ends }
    }
}

/// The user's answer to a permission request, which must be sent to the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The permission request that was on the screen.
    pub question: OpenQuestion,
    /// What the user decided.
    pub choice: Choice,
}

/// The permission request that the user must answer next, and its state on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The permission request to show.
    pub question: PermissionQuestion,
    /// The number of waiting permission requests, including this one.
    pub waiting: usize,
    /// The part of the permission request that is on the screen.
    pub part: Section,
}

/// The layout of a permission request on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPages {
    /// The number of pages of the permission request.
    pub pages: usize,
    /// Whether the permission rules that the request offers are on the screen. If they are not, for
    /// lack of room, the user cannot choose a rule.
    pub shows_rules: bool,
    /// For each page, the place in the text where the page starts.
    pub starts: Vec<Place>,
}

impl ShownPages {
    /// Returns the page of this layout that shows the same text as `part` showed in the earlier
    /// layout `before`. The layout changes, for example, after a resize. Returns `None` if the
    /// number of the page has not changed, or if `part` is not a page.
    pub fn kept(&self, before: &Self, part: Section) -> Option<Section> {
        let Section::Page(page) = part else { return None };
        let place = before.starts.get(page).filter(|_| before.starts != self.starts)?;
        let there = self.starts.iter().rposition(|start| start <= place)?;
        (there != page).then_some(Section::Page(there))
    }
}

impl Default for ShownPages {
    fn default() -> Self {
        Self { pages: 1, shows_rules: true, starts: Vec::new() }
    }
}

/// The direction in which the user turns the pages of a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To the next page. After the last page, the screen shows the start and the end of the
    /// permission request.
    On,
    /// To the previous page.
    Back,
}

impl Turn {
    /// Returns the part to show after the user turned the page at `part`. `pages` is the number of
    /// pages of the permission request.
    pub fn from(self, part: Section, pages: usize) -> Section {
        let last = pages.saturating_sub(1);
        match (part, self) {
            _ if pages < 2 => Section::Ends,
            (Section::Ends, Self::On) => Section::Page(0),
            (Section::Ends, Self::Back) => Section::Page(last),
            (Section::Page(page), Self::On) if page >= last => Section::Ends,
            (Section::Page(page), Self::On) => Section::Page(page + 1),
            (Section::Page(0), Self::Back) => Section::Ends,
            (Section::Page(page), Self::Back) => Section::Page(page.min(last + 1) - 1),
        }
    }
}

impl Questions {
    /// Adds a permission request that was opened.
    pub fn opened(&mut self, question: OpenQuestion) {
        self.waiting.push_back(question);
    }

    /// Removes a permission request that was answered elsewhere, or that needs no answer any more.
    pub fn closed(&mut self, id: &str) {
        let is_shown = self.waiting.front().is_some_and(|question| question.id == id);
        self.waiting.retain(|question| question.id != id);
        if is_shown {
            self.show_next();
        }
    }

    /// Replaces all permission requests. If the request on the screen is still open, the same part
    /// of it stays on the screen.
    pub fn replace(&mut self, questions: Vec<OpenQuestion>) {
        let shown = self.waiting.pop_front().map(|question| question.id);
        self.waiting = questions.into();
        let at = self.waiting.iter().position(|question| Some(&question.id) == shown.as_ref());
        match at.and_then(|at| self.waiting.remove(at)) {
            Some(still_open) => self.waiting.push_front(still_open),
            None => self.show_next(),
        }
    }

    /// Puts a permission request back on the screen, because its answer could not be sent.
    pub fn put_back(&mut self, question: OpenQuestion) {
        self.waiting.push_front(question);
        self.show_next();
    }

    /// Returns the permission request that the user must answer next.
    pub fn current(&self) -> Option<Current> {
        let question = self.waiting.front()?.question.clone();
        Some(Current { question, waiting: self.waiting.len(), part: self.part })
    }

    /// Interprets a typed line as the answer to the permission request on the screen. Takes the
    /// request out of the queue. The caller sends the answer to the host. Returns `None` if no
    /// permission request waits.
    ///
    /// # Errors
    /// If the line is not an answer. The error lists the possible answers, and the permission
    /// request still waits.
    pub fn typed(&mut self, line: &str, seen: &ShownPages) -> Result<Option<Chosen>, String> {
        let Some(asked) = self.waiting.front() else { return Ok(None) };
        // If a permission rule is not on the screen, the user cannot choose it.
        let is_shown = |offer: &&Offer| seen.shows_rules || !matches!(offer, Offer::Rule(_));
        let offers: Vec<Offer> = asked.question.offers.iter().filter(is_shown).cloned().collect();
        let Some(choice) = choice(line, &offers) else {
            let keys: Vec<String> = offers.iter().map(|offer| key(offer).to_string()).collect();
            let more: String = keys.iter().map(|key| format!(", {key}")).collect();
            return Err(format!(
                "this is not an answer, so nothing was answered; the answers are: y, n, n and the reason{more}"
            ));
        };
        let chosen = self.waiting.pop_front().map(|question| Chosen { question, choice });
        self.show_next();
        Ok(chosen)
    }

    /// Turns the pages of the permission request on the screen.
    pub fn turn(&mut self, turn: Turn, ShownPages { pages, .. }: &ShownPages) {
        self.part = turn.from(self.part, *pages);
    }

    /// Shows another part of the permission request.
    pub fn show(&mut self, part: Section) {
        self.part = part;
    }

    fn show_next(&mut self) {
        self.part = Section::Ends;
    }
}

/// Returns the letter that the user types to choose this offered answer.
pub fn key(offer: &Offer) -> char {
    match offer {
        Offer::Exactly { .. } | Offer::Edits => 'a',
        Offer::Rule(_) => 'p',
    }
}

/// Returns the choice that a typed line means. Returns `None` if the line is not an answer to a
/// permission request with these offered answers.
fn choice(line: &str, offers: &[Offer]) -> Option<Choice> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // Ignore punctuation after the first word, as in "no, use another file".
    let plain = word.trim_end_matches([',', ':', ';', '.', '!', '-']);
    let (word, rest) = if plain.is_empty() { (word, rest) } else { (plain, rest) };
    let (word, rest) =
        (word.to_lowercase(), rest.trim().trim_start_matches(['-', ':', ',']).trim_start());
    let always = |key_of: char| {
        let offer = offers.iter().find(|offer| key(offer) == key_of)?.clone();
        let keep = match rest.to_lowercase().as_str() {
            "" => Keep::Run,
            "save" if offer.rule().is_some() => Keep::Saved,
            _ => return None,
        };
        Some(Choice::Always { offer, keep })
    };
    match word.as_str() {
        // A "yes" with further words can contain a condition. Such a line does not count as an
        // answer.
        "y" | "yes" if rest.is_empty() => Some(Choice::Once),
        "n" | "no" => Some(Choice::No { reason: (!rest.is_empty()).then(|| rest.to_owned()) }),
        "a" | "always" => always('a'),
        "p" | "prefix" => always('p'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pitcrew_permission::gate::{Call, Gate};
    use pitcrew_protocol::AgentName;
    use pitcrew_runtime::question::AskedCall;
    use serde_json::json;

    use super::*;

    /// A permission request from bob about a Bash command.
    fn question(command: &str) -> PermissionQuestion {
        let (tool, input, folder) = ("Bash", &json!({"command": command}), Path::new("/work"));
        let rules =
            Gate::default().allowing_rules(&Call { tool, input, cwd: folder, plan_file: None });
        let asker = &AgentName::new("bob").unwrap();
        let (file, says) = (None, None);
        PermissionQuestion::of(AskedCall {
            asker,
            tool,
            input,
            folder,
            file,
            reason: command,
            says,
            rules,
        })
    }

    fn asked(id: &str, command: &str) -> OpenQuestion {
        let input = json!({"command": command});
        OpenQuestion { id: id.to_owned(), since_ms: 0, question: question(command), input }
    }

    fn shown(questions: &Questions) -> Option<(String, usize)> {
        questions.current().map(|current| (current.question.lines[0].text.clone(), current.waiting))
    }

    fn asking(commands: &[&str]) -> Questions {
        let mut questions = Questions::default();
        for (at, command) in commands.iter().enumerate() {
            questions.opened(asked(&format!("q{at}"), command));
        }
        questions
    }

    #[test]
    fn one_question_is_shown_at_a_time_and_stays_until_it_is_answered() {
        let mut questions = asking(&["make it", "rm x"]);
        assert_eq!(shown(&questions), Some(("make it".to_owned(), 2)));
        for no_answer in [
            "what?",
            "",
            "?",
            "ok",
            "yes please",
            "yes, but commit first",
            "a now",
            "yno",
            "now",
            "nope",
        ] {
            let said = questions.typed(no_answer, &ShownPages::default()).unwrap_err();
            assert!(said.ends_with("answers are: y, n, n and the reason, a, p"), "{said}");
            assert_eq!(shown(&questions), Some(("make it".to_owned(), 2)), "{no_answer}");
        }
        let said = questions
            .typed("p", &ShownPages { shows_rules: false, ..ShownPages::default() })
            .unwrap_err();
        assert!(said.ends_with("n and the reason, a"), "{said}");
        assert_eq!(
            shown(&questions),
            Some(("make it".to_owned(), 2)),
            "the rule is not to be seen"
        );
        let first = questions.typed("y", &ShownPages::default()).unwrap().unwrap();
        assert_eq!(shown(&questions), Some(("rm x".to_owned(), 1)));
        assert_eq!(first, Chosen { question: asked("q0", "make it"), choice: Choice::Once });
        let second = questions.typed("no  it is mine ", &ShownPages::default()).unwrap().unwrap();
        assert_eq!(shown(&questions), None);
        let reason = Some("it is mine".to_owned());
        assert_eq!(second.choice, Choice::No { reason });
        assert_eq!(questions.typed("y", &ShownPages::default()), Ok(None));
        questions.put_back(second.question);
        assert_eq!(shown(&questions), Some(("rm x".to_owned(), 1)), "the answer was not sent");
    }

    #[test]
    fn a_question_that_was_answered_elsewhere_makes_way_for_the_next() {
        let mut questions = asking(&["ls", "rm x", "make it"]);
        questions.turn(Turn::On, &ShownPages { pages: 3, ..ShownPages::default() });
        questions.closed("q2");
        assert_eq!(questions.current().unwrap().part, Section::Page(0), "ls is read on");
        questions.closed("q0");
        assert_eq!(shown(&questions), Some(("rm x".to_owned(), 1)));
        assert_eq!(questions.current().unwrap().part, Section::Ends);
        questions.closed("q0");
        assert_eq!(shown(&questions), Some(("rm x".to_owned(), 1)));
    }

    #[test]
    fn a_snapshot_leaves_the_question_on_the_screen_where_it_is_while_it_is_open() {
        let mut questions = asking(&["ls", "rm x"]);
        questions.turn(Turn::On, &ShownPages { pages: 3, ..ShownPages::default() });
        questions.replace(vec![asked("q2", "make it"), asked("q0", "ls")]);
        assert_eq!(shown(&questions), Some(("ls".to_owned(), 2)));
        assert_eq!(questions.current().unwrap().part, Section::Page(0));
        questions.replace(vec![asked("q2", "make it")]);
        assert_eq!(shown(&questions), Some(("make it".to_owned(), 1)));
        assert_eq!(questions.current().unwrap().part, Section::Ends);
    }

    #[test]
    fn always_is_for_what_is_offered_and_saved_where_a_rule_can_say_it() {
        let exactly = |rule: Option<&str>| Offer::Exactly { rule: rule.map(str::to_owned) };
        let prefix = Offer::Rule("Bash(make:*)".to_owned());
        let offers = [exactly(Some("Bash(make -j)")), prefix.clone()];
        let always = |offer: Offer, keep| Some(Choice::Always { offer, keep });
        assert_eq!(choice("a", &offers), always(offers[0].clone(), Keep::Run));
        assert_eq!(choice("Always  SAVE", &offers), always(offers[0].clone(), Keep::Saved));
        assert_eq!(choice("p", &offers), always(prefix.clone(), Keep::Run));
        assert_eq!(choice("p save", &offers), always(prefix, Keep::Saved));
        assert_eq!(
            choice("a save", &[exactly(None)]),
            None,
            "no rule says it, so it cannot be saved"
        );
        assert_eq!(choice("a", &[Offer::Edits]), always(Offer::Edits, Keep::Run));
        assert_eq!((choice("p", &[Offer::Edits]), choice("a save", &[Offer::Edits])), (None, None));
    }

    #[test]
    fn a_no_is_taken_with_its_reason_as_people_write_it() {
        let no = |reason: Option<&str>| Some(Choice::No { reason: reason.map(str::to_owned) });
        for line in [
            "no, use n9.txt",
            "n use n9.txt",
            "No: use n9.txt",
            "no - use n9.txt",
            "n, use n9.txt",
            "no. use n9.txt",
        ] {
            assert_eq!(choice(line, &[]), no(Some("use n9.txt")), "{line}");
        }
        assert_eq!([choice("no!", &[]), choice("n.", &[])], [no(None), no(None)]);
        assert_eq!(
            [choice("y.", &[]), choice("Yes!", &[])],
            [Some(Choice::Once), Some(Choice::Once)]
        );
    }

    #[test]
    fn pages_are_turned_from_head_and_tail_and_back_to_them() {
        let mut questions = Questions::default();
        let mut turned = |turn, pages| {
            questions.turn(turn, &ShownPages { pages, ..ShownPages::default() });
            questions.part
        };
        assert_eq!(
            [Turn::On; 4].map(|on| turned(on, 2)),
            [Section::Page(0), Section::Page(1), Section::Ends, Section::Page(0)]
        );
        assert_eq!(
            [Turn::Back; 3].map(|back| turned(back, 2)),
            [Section::Ends, Section::Page(1), Section::Page(0)]
        );
        assert_eq!(
            turned(Turn::On, 1),
            Section::Ends,
            "everything is shown now, as on a terminal that has grown"
        );
    }

    #[test]
    fn a_page_is_found_again_by_its_text_in_another_layout() {
        let seen = |starts: &[usize]| ShownPages {
            pages: starts.len(),
            starts: starts.iter().map(|line| Place { line: *line, chars: 0 }).collect(),
            ..ShownPages::default()
        };
        let (high, low) = (seen(&[0, 20, 40]), seen(&[0, 5, 10, 15, 20, 25, 30, 35, 40, 45]));
        assert_eq!(low.kept(&high, Section::Page(1)), Some(Section::Page(4)));
        assert_eq!(high.kept(&low, Section::Page(7)), Some(Section::Page(1)));
        assert_eq!(
            (low.kept(&low, Section::Page(3)), low.kept(&high, Section::Ends)),
            (None, None)
        );
        assert_eq!(low.kept(&high, Section::Page(0)), None, "it is the same page");
    }
}
