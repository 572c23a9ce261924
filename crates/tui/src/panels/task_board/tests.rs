use crossterm::event::KeyCode;
use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::panels::sample::{key, name, screen, task, tasks};
use crate::theme::{Theme, ThemeKind};

fn drawn(board: &mut TaskBoard, size: (u16, u16), tasks: &[Task]) -> String {
    let theme = Theme::new(ThemeKind::Dark);
    screen(size, |frame, area| board.draw(frame, area, tasks, &theme, true))
}

#[test]
fn the_tasks_are_in_groups_and_blocked_ones_name_their_open_blockers() {
    assert_snapshot!(drawn(&mut TaskBoard::new(), (80, 24), &tasks()), @"
    tasks  1 of 4 completed ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    in progress (1)
    * #2 Mend the parser, which drops the last line of a file without a l…  bob
    ready (1)
    - #3 Measure it
    blocked (1)
    . #4 Write the release notes                          waits for #2, #3
    completed (1)
    x #1 Read the code                                                      ann
    ");
}

#[test]
fn a_narrow_board_keeps_titles_and_blockers() {
    assert_snapshot!(drawn(&mut TaskBoard::new(), (30, 12), &tasks()), @"
    tasks  1 of 4 completed ━━━━━━
    in progress (1)
    * #2 Mend the parser, which d…
    ready (1)
    - #3 Measure it
    blocked (1)
    . #4 Write the…   after #2, #3
    completed (1)
    x #1 Read the code
    ");
}

#[test]
fn the_details_of_the_selected_task_open_below_the_list() {
    let mut board = TaskBoard::new();
    drawn(&mut board, (60, 20), &tasks());
    assert_eq!(board.key(key(KeyCode::Char('p'))), PanelAct::Peek(name("bob")));
    assert_eq!(board.key(key(KeyCode::Enter)), PanelAct::Redraw);
    assert_snapshot!(drawn(&mut board, (60, 20), &tasks()), @"
    tasks  1 of 4 completed ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
    in progress (1)
    * #2 Mend the parser, which drops the last line o…  bob
    ready (1)
    - #3 Measure it
    blocked (1)
    . #4 Write the release notes      waits for #2, #3
    completed (1)
    x #1 Read the code                                  ann


    task #2 ────────────────────────────────────────────────────
    Mend the parser, which drops the last line of a file without
    a line break at its end
    in progress, owner: bob
    blocks #4 Write the release notes

    First a test.

    Then the parser.
    ");
    assert_eq!(board.key(key(KeyCode::Down)), PanelAct::Redraw);
    let other = drawn(&mut board, (60, 20), &tasks());
    assert!(other.contains("task #3") && other.contains("blocks #4 Write"), "{other}");
    assert_eq!(board.key(key(KeyCode::Esc)), PanelAct::Redraw);
    assert_eq!(board.key(key(KeyCode::Esc)), PanelAct::Close);
}

#[test]
fn long_details_are_scrolled_from_their_beginning() {
    let text: String = (0..50).map(|n| format!("line {n}\n")).collect();
    let tasks = [task(1, "Long", json!({"description": text}))];
    let mut board = TaskBoard::new();
    drawn(&mut board, (40, 20), &tasks);
    board.key(key(KeyCode::Enter));
    let first = drawn(&mut board, (40, 20), &tasks);
    assert!(first.contains("line 0\n") && !first.contains("line 20"), "{first}");
    for _ in 0..20 {
        board.key(key(KeyCode::PageDown));
        drawn(&mut board, (40, 20), &tasks);
    }
    assert!(drawn(&mut board, (40, 20), &tasks).ends_with("line 49"));
}

#[test]
fn tasks_that_wait_for_each_other_and_hostile_texts_are_drawn() {
    let tasks = [
        task(1, "one\u{1b}[2J\ntwo", json!({"blockedBy": ["2"], "owner": "e\u{202e}vil"})),
        task(2, "\u{1f469}\u{200d}\u{1f4bb} 日本語", json!({"blockedBy": ["1", "77"]})),
    ];
    let shown = drawn(&mut TaskBoard::new(), (80, 8), &tasks);
    assert!(shown.contains("one\u{fffd}[2J | two"), "{shown}");
    assert!(shown.contains("waits for #2") && shown.contains("e\u{fffd}vil"), "{shown}");
    for size in [(1, 1), (3, 3), (10, 2), (80, 1)] {
        let mut board = TaskBoard::new();
        drawn(&mut board, size, &tasks);
        board.key(key(KeyCode::Enter));
        drawn(&mut board, size, &tasks);
    }
    assert!(drawn(&mut TaskBoard::new(), (30, 4), &[]).contains("no tasks yet"));
}
