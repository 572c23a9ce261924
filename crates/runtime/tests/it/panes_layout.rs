//! Tests the layout of panes in real tmux servers. Pitcrew's panes must be large enough to read,
//! and must be beside the lead's pane. They must never replace the user's own panes.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use pitcrew_panes::{PaneId, PaneState, Panes, Tmux};

use crate::panes_env::{Server, tag};

const LASTING: &[&str] = &["sleep", "300"];

/// Unusual tmux settings. A program that relies on tmux's default settings fails with them.
const ODD_CONFIG: &str = "set -g prefix C-a
    set -g base-index 1
    setw -g pane-base-index 1
    set -g renumber-windows on
    set -g default-command 'sh -c \"sleep 0.2; exec cat\"'
    set -g remain-on-exit on
    set -g destroy-unattached on
    set -g allow-rename on
    set -g set-titles on
    set-hook -g after-split-window 'display-message -p \"a hook says hi\"'
    set-hook -g after-new-window 'display-message -p \"pitcrew is noted\"'
    run-shell 'sleep 1'";

async fn start_eight(server: &Server, tmux: &Tmux) -> Vec<PaneId> {
    let mut panes = Vec::new();
    for n in 0..8 {
        panes.push(tmux.start(&server.pane(&format!("mate-{n}"), LASTING)).await.unwrap().id);
    }
    panes
}

fn assert_readable(server: &Server) {
    for line in server.panes("#{pane_width} #{pane_height} #{@pitcrew}") {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<u32>().unwrap();
        assert!(
            number() >= 50 && number() >= 8,
            "{:?}",
            server.panes("#{pane_id} #{pane_width}x#{pane_height}")
        );
    }
}

#[tokio::test]
async fn eight_are_readable_in_a_session_of_our_own() {
    let Some(server) = Server::new() else { return };
    start_eight(&server, &server.outside()).await;
    assert_readable(&server);
    assert_eq!(server.panes("#{session_name} #{window_name}"), ["pitcrew-crew crew"; 8]);
}

#[tokio::test]
async fn eight_are_readable_beside_the_lead_who_keeps_place_and_focus() {
    let Some(server) = Server::new() else { return };
    let lead = server.users_session();
    start_eight(&server, &server.beside(&lead)).await;
    assert_readable(&server);
    let shown = server.panes("#{pane_id} #{pane_left} #{pane_top} #{pane_active}");
    assert!(shown.contains(&format!("{lead} 0 0 1")), "{shown:?}");
    assert_eq!(
        server.user(&["display-message", "-p", "-t", "mine:", "#{window_id} #{pane_id}"]),
        "@0 %0"
    );
}

#[tokio::test]
async fn an_odd_configuration_changes_nothing() {
    let Some(server) = Server::with_config(ODD_CONFIG) else { return };
    let tmux = server.outside();
    let panes = start_eight(&server, &tmux).await;
    assert_eq!(panes.iter().collect::<BTreeSet<_>>().len(), 8);
    for pane in &panes {
        assert!(matches!(tmux.state(pane).await.unwrap(), PaneState::Running { pid: Some(_) }));
    }
    tmux.hide(&panes[0]).await.unwrap();
    tmux.show(&panes[0]).await.unwrap();
    for (n, pane) in panes.iter().enumerate() {
        tmux.stop(pane, &tag(Some(&format!("mate-{n}")))).await.unwrap();
    }
    assert_eq!(server.panes("#{pane_id}"), [""; 0]);
}

#[tokio::test]
async fn a_layout_of_four_panes_of_the_users_survives_with_its_focus() {
    let Some(server) = Server::with_config("set -g base-index 1\nsetw -g pane-base-index 1\n")
    else {
        return;
    };
    let lead = server.users_session();
    for _ in 0..3 {
        server.user(&["split-window", "-t", "mine:", "cat"]);
        server.user(&["select-layout", "-t", "mine:", "tiled"]);
    }
    server.user(&["select-pane", "-t", "%2"]);
    let look = || {
        server.user(&[
            "list-panes",
            "-t",
            "mine:",
            "-F",
            "#{pane_id} #{window_layout} #{pane_active} #{pane_pid}",
        ])
    };
    let before = look();
    let tmux = server.beside(&lead);
    let panes = start_eight(&server, &tmux).await;
    assert_eq!(look(), before);
    assert!(server.panes("#{session_name}").iter().all(|session| session == "mine"));
    for pane in panes {
        tmux.stop(&pane, &tag(None)).await.unwrap();
    }
    assert_eq!(look(), before);
    assert_eq!(server.panes("#{pane_id}").len(), 4);
}

#[tokio::test]
async fn a_pane_is_hidden_and_shown_again_while_its_program_runs() {
    // With automatic renaming, tmux would give the window the name of its program a moment later,
    // and the test would see another name.
    let Some(server) = Server::with_config("setw -g automatic-rename off\n") else { return };
    let lead = server.users_session();
    for tmux in [server.beside(&lead), server.outside()] {
        let pane = tmux.start(&server.pane("bob", LASTING)).await.unwrap();
        let place = || {
            server.user(&[
                "display-message",
                "-p",
                "-t",
                &pane.id.0,
                "#{session_name}:#{window_name}",
            ])
        };
        let shown = place();
        for _ in 0..2 {
            tmux.hide(&pane.id).await.unwrap();
            assert_eq!(place(), "pitcrew-hidden:crew");
        }
        assert_eq!(tmux.state(&pane.id).await.unwrap(), PaneState::Running { pid: pane.pid });
        assert_eq!(tmux.tagged(&tag(None)).await.unwrap().len(), 1);
        for _ in 0..2 {
            tmux.show(&pane.id).await.unwrap();
            assert_eq!(place(), shown);
        }
        assert!(!server.panes("#{session_name}").contains(&"pitcrew-hidden".to_owned()));
        assert_eq!(tmux.state(&pane.id).await.unwrap(), PaneState::Running { pid: pane.pid });
        tmux.stop(&pane.id, &tag(Some("bob"))).await.unwrap();
    }
    assert_eq!(server.panes("#{pane_id}"), [lead.0]);
}

#[tokio::test]
async fn concurrent_starts_all_get_a_pane_even_from_several_processes() {
    let Some(server) = Server::new() else { return };
    let several = [server.outside(), server.outside(), server.outside()];
    let starts = (0..9).map(|n| {
        let (tmux, pane) = (&several[n % 3], server.pane(&format!("mate-{n}"), LASTING));
        async move { tmux.start(&pane).await.unwrap().id }
    });
    let panes: BTreeSet<PaneId> = join_all(starts).await.into_iter().collect();
    assert_eq!(panes.len(), 9);
    assert_eq!(server.outside().tagged(&tag(None)).await.unwrap().len(), 9);
    assert_eq!(server.panes("#{pane_id}").len(), 9);
}

#[tokio::test]
async fn what_cannot_be_started_leaves_no_pane() {
    let Some(server) = Server::new() else { return };
    let lead = server.users_session();
    let tmux = server.beside(&lead);
    let mut pane = server.pane("bob", &["x"]);
    pane.cwd = server.path().join("nowhere");
    tmux.start(&pane).await.unwrap_err();
    let mut pane = server.pane("bob", &["x", "y\0z"]);
    tmux.start(&pane).await.unwrap_err();
    pane.argv.clear();
    tmux.start(&pane).await.unwrap_err();
    assert_eq!(server.panes("#{pane_id}"), [lead.0]);
}
