use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::*;
use crate::panels::sample::{agent, asked_by, key, name, screen, team};
use crate::theme::{Theme, ThemeKind};

fn theme() -> Theme {
    Theme::new(ThemeKind::Dark)
}

fn drawn(list: &mut TeamList, size: (u16, u16), questions: &[OpenQuestion]) -> String {
    let (state, theme) = (team(), theme());
    screen(size, |frame, area| list.draw(frame, area, &state, questions, &theme, true))
}

#[test]
fn agents_that_need_input_come_first_with_their_reason() {
    let questions = [asked_by("bob", "Bash"), asked_by("bob", "Write")];
    assert_snapshot!(drawn(&mut TeamList::new(), (80, 24), &questions), @"
    team  3 needs input  1 working  1 idle  1 ended ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    needs input (3)
    ! bob        asks permission for Bash (and 1 more)                 900     $0.00
    ! carl       its plan waits for the lead's answer                    -         -
    ! dora       failed: the model refused the key | see the log…        -         -
    working (1)
    * team-lead  thinks                                              23.4k     $1.25
    idle (1)
    - ann        idle                                                    -         -
    ended (1)
      eve        ended                                                   -         -












    Enter: conversation  m: message  o: pane
    ");
}

#[test]
fn a_wide_list_has_tasks_and_models() {
    assert_snapshot!(drawn(&mut TeamList::new(), (200, 60), &[]), @"
    team  2 needs input  2 working  1 idle  1 ended ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    needs input (2)
    ! carl       its plan waits for the lead's answer                                                                                                                  -                         -         -
    ! dora       failed: the model refused the key | see the log�[2J                                                                                                   -                         -         -
    working (2)
    * team-lead  thinks                                                                                                                                                claude-opus-4-6       23.4k     $1.25
    * bob        Bash(cargo test -p parser)                                                                 #2 Mend the parser                                         -                       900     $0.00
    idle (1)
    - ann        idle                                                                                                                                                  -                         -         -
    ended (1)
      eve        ended                                                                                                                                                 -                         -         -
















































    Enter: conversation  m: message  o: pane
    ");
}

#[test]
fn a_list_at_the_side_keeps_names_and_reasons() {
    let questions = [asked_by("bob", "ExitPlanMode")];
    assert_snapshot!(drawn(&mut TeamList::new(), (30, 8), &questions), @"
    team  3 needs input  1 worki…
    needs input (3)
    ! bob        asks to approve…
    ! carl       its plan waits f…
    ! dora       failed: the mode…
    working (1)
    * team-lead  thinks
    Enter: conversation  m: messa…
    ");
}

#[test]
fn the_same_agent_stays_selected_when_the_order_changes() {
    let mut list = TeamList::new();
    drawn(&mut list, (80, 24), &[]);
    assert_eq!(list.selected(), Some(&name("carl")));
    assert_eq!(list.key(key(KeyCode::Up)), PanelAct::None);
    for _ in 0..3 {
        assert_eq!(list.key(key(KeyCode::Down)), PanelAct::Redraw);
    }
    assert_eq!(list.selected(), Some(&name("bob")));
    drawn(&mut list, (80, 24), &[asked_by("bob", "Bash")]);
    assert_eq!(list.key(key(KeyCode::Enter)), PanelAct::Peek(name("bob")));
    assert_eq!(list.key(key(KeyCode::Char('o'))), PanelAct::OpenPane(name("bob")));
    assert_eq!(list.key(key(KeyCode::Char('m'))), PanelAct::Message(name("bob")));
    assert_eq!(list.key(key(KeyCode::Char('x'))), PanelAct::None);
    assert_eq!(list.key(key(KeyCode::Esc)), PanelAct::Close);
}

#[test]
fn the_selected_agent_of_a_long_list_is_visible() {
    let names: Vec<String> = (0..50).map(|n| format!("agent-{n}")).collect();
    let agents = names.iter().map(|name| agent(name, None, pitcrew_protocol::Status::Idle));
    let mut state = TeamState::default();
    state.agents = agents.collect();
    let (mut list, theme) = (TeamList::new(), theme());
    let draw = |list: &mut TeamList| {
        screen((40, 10), |frame, area| list.draw(frame, area, &state, &[], &theme, true))
    };
    assert!(draw(&mut list).contains("agent-0"));
    list.key(key(KeyCode::End));
    assert!(draw(&mut list).contains("agent-49"));
    list.key(key(KeyCode::Home));
    let first = draw(&mut list);
    assert!(first.contains("idle (50)\n- agent-0"), "the heading is visible too:\n{first}");
}

#[test]
fn an_empty_team_and_a_tiny_area_are_drawn_too() {
    let (mut list, theme) = (TeamList::new(), theme());
    let empty = TeamState::default();
    let shown = screen((30, 4), |frame, area| list.draw(frame, area, &empty, &[], &theme, false));
    assert!(shown.contains("no agents yet"), "{shown}");
    assert_eq!(list.key(key(KeyCode::Enter)), PanelAct::None);
    for size in [(1, 1), (2, 2), (5, 3), (80, 1)] {
        drawn(&mut list, size, &[asked_by("bob", "Bash")]);
    }
}
