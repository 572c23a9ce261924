//! Lists all panes with one `list-panes` command, whose output format pitcrew defines, and parses
//! the output.

use super::client::{MARK, Words, answers, words};
use crate::{PaneId, PaneState, PaneTag};

/// The tmux formats for the data of [`Listed`], in the order of the output.
const FIELDS: [&str; 16] = [
    "session_id",
    "session_name",
    "session_attached",
    "window_id",
    "window_width",
    "window_height",
    "window_zoomed_flag",
    "main-pane-width",
    "pane_id",
    "@pitcrew",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "pane_pid",
    "pane_dead_time",
    // The start command of a pane that is still being created. Such a pane has no options yet, but
    // its start command contains the tag. For other panes this field is empty.
    "?#{m:env*PITCREW_PANE=*@*,#{pane_start_command}},#{pane_start_command},",
];

/// The environment variable with the tag, in the start command of a pane that is still being
/// created. A pane has its start command from the beginning, but gets its options only a moment
/// later.
const HELD_FOR: &str = "PITCREW_PANE";

/// Returns the command that waits in a pane that is being created for `tag`. If pitcrew ends in the
/// meantime, the pane closes when this command ends. The command has several words, because tmux
/// would pass a single word to a shell.
pub(super) fn holding(tag: &PaneTag) -> Words {
    words(["env", &format!("{HELD_FOR}={tag}@"), "sleep", "60"])
}

/// Returns a tmux format that is true for a pane that has `tag`, or that is being created for
/// `tag`.
pub(super) fn is_of(tag: &PaneTag) -> String {
    let (any, held) = if tag.agent.is_some() { ("", "@*") } else { ("*", "*@*") };
    format!(
        "#{{||:#{{m:{tag}{any},#{{@pitcrew}}}},#{{m:env*{HELD_FOR}={tag}{held},#{{pane_start_command}}}}}}"
    )
}

/// Takes the start command of a pane that is still being created, and returns the tag in it.
pub(super) fn held_for(command: &str) -> Option<PaneTag> {
    command.split_once(HELD_FOR)?.1.strip_prefix('=')?.split_once('@')?.0.parse().ok()
}

/// One pane of the tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) session: String,
    pub(super) session_name: String,
    /// True if a terminal is attached to the session.
    pub(super) is_attached: bool,
    pub(super) window: String,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_zoomed: bool,
    /// The window's option `main-pane-width`, as a number of columns or as a percentage.
    pub(super) main_width: String,
    pub(super) pane: PaneId,
    /// The pane's tag, if pitcrew created the pane.
    pub(super) tag: Option<PaneTag>,
    pub(super) state: PaneState,
    /// The process of a pane whose terminal is already closed, while tmux has not noticed the end
    /// of the process. Otherwise `None`.
    pub(super) ending: Option<u32>,
}

/// Returns the command that lists all panes.
pub(super) fn command() -> Words {
    let format: String = FIELDS.iter().map(|field| format!("\t#{{{field}}}")).collect();
    words(["list-panes", "-a", "-F", &format!("{MARK}{format}")])
}

/// Parses the output of the command that lists all panes. A pane can belong to several sessions,
/// and then appears once for each session.
pub(super) fn parse(output: &str) -> Vec<Listed> {
    answers(output).filter_map(|fields| listed(&fields)).collect()
}

fn listed(fields: &[&str]) -> Option<Listed> {
    let [
        session,
        session_name,
        attached,
        window,
        width,
        height,
        zoomed,
        main_width,
        pane,
        tag,
        dead,
        status,
        signal,
        pid,
        time,
        held,
    ] = <[&str; FIELDS.len()]>::try_from(fields).ok()?;
    // tmux reports the number of a signal separately from an exit status. As in a shell, a signal
    // becomes 128 plus its number.
    let by_signal = || signal.parse().ok().map(|number: i32| 128 + number);
    let exit = status.parse().ok().or_else(by_signal);
    let is_dead = dead == "1";
    let state = if is_dead {
        PaneState::Ended { exit }
    } else {
        PaneState::Running { pid: pid.parse().ok() }
    };
    Some(Listed {
        session: session.to_owned(),
        session_name: session_name.to_owned(),
        is_attached: attached != "0",
        window: window.to_owned(),
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        is_zoomed: zoomed == "1",
        main_width: main_width.to_owned(),
        pane: PaneId(pane.to_owned()),
        tag: tag.parse().ok().or_else(|| held_for(held)),
        state,
        ending: pid.parse().ok().filter(|_| is_dead && exit.is_none() && time.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(rest: &str) -> PaneState {
        let line = format!("pitcrew\t$1\tmain\t1\t@2\t200\t50\t0\t80\t%3\tr/crew/bob\t{rest}\t\n");
        let panes = parse(&line);
        assert_eq!(panes[0].tag.as_ref().map(ToString::to_string).as_deref(), Some("r/crew/bob"));
        panes[0].state
    }

    #[test]
    fn a_pane_runs_or_ended_with_its_status_or_signal() {
        assert_eq!(state("0\t\t\t77\t"), PaneState::Running { pid: Some(77) });
        assert_eq!(state("1\t3\t\t77\t1"), PaneState::Ended { exit: Some(3) });
        assert_eq!(state("1\t\t9\t77\t1"), PaneState::Ended { exit: Some(137) });
        assert_eq!(state("1\t\t\t77\t"), PaneState::Ended { exit: None });
    }

    #[test]
    fn a_pane_that_is_being_made_is_known_by_the_command_that_holds_it() {
        let line = "pitcrew\t$1\tmain\t1\t@2\t200\t50\t0\t80\t%3\t\t0\t\t\t77\t\tenv \"PITCREW_PANE=r%2F/crew/bob@\" sleep 60\n";
        let tag = parse(line).remove(0).tag.unwrap();
        assert_eq!(tag.agent.as_ref().map(|agent| agent.as_str()), Some("bob"));
        assert_eq!(holding(&tag)[1], format!("PITCREW_PANE={tag}@"));
    }

    #[test]
    fn what_is_no_pane_is_passed_over() {
        assert_eq!(
            parse("pitcrew\t$1\n\nhook says hi\npitcrew\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\n"),
            []
        );
    }
}
