//! Splits a command into its parts and removes their wrappers (commands such as `timeout` that run
//! another command).

use super::shell::{Effect, Inner, Scope, Script, ShellWord, SimpleCommand, effect, fed, unwrap};

/// Maximum number of wrappers inside each other. The rest of a command with more wrappers is not
/// analyzed.
const WRAP_LIMIT: usize = 8;

/// One part of a command, with its wrappers removed.
pub(super) struct Step {
    pub(super) part: SimpleCommand,
    /// The forms of the command: first as written, then after each wrapper is removed.
    pub(super) forms: Vec<Vec<ShellWord>>,
    /// True if the actual command may start at any word of the innermost form.
    pub(super) hidden: bool,
    /// The forms to which the innermost command may expand.
    pub(super) expanded: Vec<Vec<ShellWord>>,
    /// The parsed script that the command runs, as with `sh -c`.
    pub(super) script: Option<Vec<Step>>,
    /// The parsed scripts that the command gets in another way, such as its input. Only rules that
    /// restrict look into them.
    pub(super) fed: Vec<Step>,
    /// True if the command may also run commands that are not known.
    pub(super) is_unread: bool,
}

impl Step {
    pub(super) fn innermost(&self) -> &[ShellWord] {
        self.forms.last().map_or(&[], Vec::as_slice)
    }

    /// Returns the effect of each form to which the command may expand.
    pub(super) fn effects(&self) -> impl Iterator<Item = Effect> {
        self.expanded.iter().map(|words| effect(words))
    }

    /// Returns true if the command runs a program that normally only reads files, but with unknown
    /// options.
    pub(super) fn is_unproven(&self) -> bool {
        self.effects().any(|effect| matches!(effect, Effect::Reads(reading) if reading.unproven))
    }
}

pub(super) fn each(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        if let Some(script) = &step.script {
            each(script, visit);
        }
        each(&step.fed, visit);
    }
}

/// Expands the words of each step. The steps are expanded in the order of the script, because a
/// variable that a step certainly sets is known to be set in all later steps.
pub(super) fn expand(steps: &mut [Step], mut scope: Scope) {
    for step in steps {
        step.expanded = scope.forms(step.innermost());
        if step.part.certain {
            step.part.assigned.iter().for_each(|assigned| scope.pass(assigned));
        }
        if let Some(script) = &mut step.script {
            expand(script, scope.of_inner());
        }
        expand(&mut step.fed, scope.of_inner());
    }
}

pub(super) fn look_through(script: Script, depth: usize, doubts: &mut Vec<String>) -> Vec<Step> {
    doubts.extend(script.doubts);
    script.parts.into_iter().map(|part| look_through_part(part, depth, doubts)).collect()
}

fn look_through_part(part: SimpleCommand, depth: usize, doubts: &mut Vec<String>) -> Step {
    let mut step = unwrapped(part, depth, doubts);
    let innermost = step.innermost();
    let tails = (1..innermost.len()).filter(|_| step.hidden).filter_map(|at| innermost.get(at..));
    // A script that was unwrapped needs no second look.
    let forms = step.forms.iter().map(Vec::as_slice);
    let own = usize::from(step.script.is_some());
    let found: Vec<_> = forms
        .take(step.forms.len() - own)
        .chain(tails)
        .map(|words| fed(words, step.part.input.as_deref()))
        .collect();
    for fed in found {
        step.is_unread |= fed.is_unread || !fed.scripts.is_empty() && depth >= WRAP_LIMIT;
        for text in fed.scripts.iter().filter(|_| depth < WRAP_LIMIT) {
            let script = Script::parse(text);
            step.is_unread |= script.is_partial;
            // The command is unknown as a whole, so the doubts of the script add nothing.
            step.fed.extend(look_through(script, depth + 1, &mut Vec::new()));
        }
    }
    step
}

/// Removes the wrappers of a command.
fn unwrapped(part: SimpleCommand, depth: usize, doubts: &mut Vec<String>) -> Step {
    let mut step = Step {
        forms: vec![part.words.clone()],
        part,
        hidden: false,
        expanded: Vec::new(),
        script: None,
        fed: Vec::new(),
        is_unread: false,
    };
    for _ in 0..WRAP_LIMIT {
        match unwrap(step.innermost()) {
            Inner::Nothing => return step,
            Inner::Command(words) => step.forms.push(words),
            Inner::Somewhere => {
                step.hidden = true;
                return step;
            }
            Inner::Opaque => {
                step.hidden = true;
                doubts.push("it runs a command that is not written out".to_owned());
                return step;
            }
            Inner::Script(_) if depth >= WRAP_LIMIT => break,
            Inner::Script(text) => {
                let script = Script::parse(&text);
                step.is_unread = script.is_partial;
                step.script = Some(look_through(script, depth + 1, doubts));
                return step;
            }
        }
    }
    doubts.push("its wrappers are nested too deeply".to_owned());
    step.is_unread = true;
    step
}
