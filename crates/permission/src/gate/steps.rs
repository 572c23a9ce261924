//! A command's parts with their wrappers taken off.

use super::shell::{Effect, Inner, Scope, Script, ShellWord, SimpleCommand, effect, unwrap};

/// How often wrappers may be nested before it is no longer looked at.
const WRAP_LIMIT: usize = 8;

/// One part of the command, looked through.
pub(super) struct Step {
    pub(super) part: SimpleCommand,
    /// The command as written and with each transparent wrapper taken off.
    pub(super) forms: Vec<Vec<ShellWord>>,
    /// The command may be any tail of the innermost form.
    pub(super) hidden: bool,
    /// The forms that the innermost one may take once its words are expanded.
    pub(super) expanded: Vec<Vec<ShellWord>>,
    /// The script it runs, taken apart.
    pub(super) script: Option<Vec<Step>>,
}

impl Step {
    pub(super) fn innermost(&self) -> &[ShellWord] {
        self.forms.last().map_or(&[], Vec::as_slice)
    }

    /// What it does, in each form it may take.
    pub(super) fn effects(&self) -> impl Iterator<Item = Effect> {
        self.expanded.iter().map(|words| effect(words))
    }

    /// Whether it reads by options that are not known.
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
    }
}

/// Finds out what the words of each step become, in the order in which variables are set.
pub(super) fn expand(steps: &mut [Step], mut scope: Scope) {
    for step in steps {
        step.expanded = scope.forms(step.innermost());
        if step.part.certain {
            step.part.assigned.iter().for_each(|assigned| scope.pass(assigned));
        }
        if let Some(script) = &mut step.script {
            expand(script, scope.of_inner());
        }
    }
}

pub(super) fn look_through(script: Script, depth: usize, doubts: &mut Vec<String>) -> Vec<Step> {
    doubts.extend(script.doubts);
    script.parts.into_iter().map(|part| look_through_part(part, depth, doubts)).collect()
}

fn look_through_part(part: SimpleCommand, depth: usize, doubts: &mut Vec<String>) -> Step {
    let mut step = Step {
        forms: vec![part.words.clone()],
        part,
        hidden: false,
        expanded: Vec::new(),
        script: None,
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
                step.script = Some(look_through(Script::parse(&text), depth + 1, doubts));
                return step;
            }
        }
    }
    doubts.push("its wrappers are nested too deeply".to_owned());
    step
}
