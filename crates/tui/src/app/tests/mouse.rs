//! The mouse: the wheel scrolls, a click selects, and no click answers a permission request.

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use pitcrew_view::host::What;

use super::{Input, LARGE, Person, SMALL, question};

impl Person {
    fn points(&mut self, kind: MouseEventKind, (column, row): (u16, u16)) {
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        self.gives(Input::Terminal(Event::Mouse(event), self.now));
    }

    fn clicks(&mut self, place: (u16, u16)) {
        self.points(MouseEventKind::Down(MouseButton::Left), place);
        self.points(MouseEventKind::Up(MouseButton::Left), place);
    }

    /// Returns the place of a text on the screen.
    fn place_of(&mut self, text: &str, size: (u16, u16)) -> (u16, u16) {
        let screen = self.sees(size);
        let found = screen.lines().enumerate().find_map(|(row, line)| {
            let at = line.find(text)?;
            Some((line[..at].chars().count(), row))
        });
        let (column, row) = found.unwrap_or_else(|| panic!("{text}: {screen}"));
        (u16::try_from(column).unwrap(), u16::try_from(row).unwrap())
    }
}

#[test]
fn a_click_selects_an_agent_and_enter_shows_its_conversation() {
    let mut person = Person::with_team();
    person.presses_ctrl('t');
    let bob = person.place_of("bob", SMALL);
    person.clicks(bob);
    person.presses(KeyCode::Enter);
    assert!(person.sees(SMALL).contains("bob: Esc goes back to the lead"));
    // On a wide screen the list is beside the conversation, and a click gives it the keys.
    let mut person = Person::with_team();
    let bob = person.place_of("bob", LARGE);
    person.clicks(bob);
    person.sees(LARGE);
    person.presses(KeyCode::Enter);
    assert!(person.sees(LARGE).contains("bob: Esc goes back to the lead"));
}

#[test]
fn the_wheel_scrolls_what_is_below_the_pointer() {
    let mut person = Person::with_team();
    person.types("/help");
    person.presses(KeyCode::Enter);
    let first = person.place_of("send; Alt-Enter", SMALL);
    person.points(MouseEventKind::ScrollDown, first);
    assert!(!person.sees(SMALL).contains("send; Alt-Enter"));
    person.points(MouseEventKind::ScrollUp, first);
    assert!(person.sees(SMALL).contains("send; Alt-Enter"));
}

#[test]
fn no_click_answers_a_permission_request() {
    let mut person = Person::with_team();
    person.happens(What::QuestionOpened(Box::new(question("q1", "touch it"))));
    person.took();
    for text in ["[y] yes, once", "[n] no", "touch it"] {
        let place = person.place_of(text, SMALL);
        person.clicks(place);
        assert!(person.took().is_empty(), "{text}");
        let screen = person.sees(SMALL);
        assert!(screen.contains("bob asks permission for Bash"), "{screen}");
        assert!(screen.contains("a click answers no request"), "{screen}");
    }
}
