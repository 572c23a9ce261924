//! All prompts by name, and the code that fills their placeholders.

/// One of the prompts that agents receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prompt {
    /// The prompt for the lead of a team. Placeholder: `team`.
    Lead,
    /// The prompt for a teammate. Placeholders: `name`, `team` and `lead`.
    Teammate,
    /// The prompt for a teammate that joined a team by itself. Placeholders: `name`, `team` and
    /// `lead`.
    Joined,
    /// The prompt for a lead in delegate mode. Placeholders: `team` and `tasks` (the folder of the
    /// task list).
    Delegate,
    /// The prompt for a lead that wants to end a run in which no user takes part. Placeholder:
    /// `members` (the members that are still in the team).
    HeadlessShutdown,
    /// The prompt for a lead that wants to end a run in which no user takes part, although some
    /// work is open. Placeholder: `open` (a list with one line for each open item).
    OpenWork,
    /// The prompt for a lead that wants to end a run in which no user takes part, although its last
    /// answer was cut off.
    AnswerCutOff,
    /// The prompt for a lead that wants to end a run in which no user takes part, although its last
    /// answer had no text.
    AnswerEmpty,
    /// The prompt for a member that has become the lead. Placeholders: `name` (the name that the
    /// member had before), `team`, `cwd` (the lead's working folder), `members` (the other members)
    /// and `tasks` (the list of tasks).
    TookOver,
    /// The prompt for an agent in plan mode. Placeholders: `plan_file` and `approval` (how to ask
    /// for approval).
    PlanMode,
    /// The prompt for an agent of the built-in type Explore.
    Explore,
    /// The prompt for an agent of the built-in type Plan.
    PlanAgent,
    /// The prompt for an agent of the built-in type general-purpose.
    GeneralPurpose,
    /// The prompt for any subagent that is not a teammate.
    Subagent,
    /// The prompt for an agent that must summarize its conversation.
    Compaction,
    /// The text that gives an agent the facts about its team after its conversation was summarized.
    /// Placeholder: `facts`.
    Briefing,
    /// The text that gives an agent its own summary after its conversation was summarized.
    /// Placeholder: `summary` (the text that the agent wrote).
    Summary,
}

/// Who approves a plan. The prompt of plan mode tells this to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanApprover {
    /// The lead approves the plan by mail.
    Lead,
    /// The user approves the plan. The tool call waits for the answer.
    User,
    /// The agent that started this subagent approves the plan. The subagent's last message is the
    /// plan.
    Caller,
}

impl PlanApprover {
    /// Returns the text that tells an agent how to get its plan approved by this approver.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lead => {
                "Call ExitPlanMode and end your turn. The lead approves or answers with what to change; then improve\n   \
                 the plan and call it again."
            }
            Self::User => {
                "Call ExitPlanMode. The user reads the plan and approves it, or says what to change; then improve the\n   \
                 plan and call it again. As soon as it is approved you may carry it out, also with teammates."
            }
            Self::Caller => "Answer with the plan. Whoever sent you out reads it and decides.",
        }
    }
}

/// Why a prompt could not be filled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The text has a placeholder without a value.
    #[error("the prompt {prompt:?} needs a value for `{name}`")]
    Missing {
        /// The prompt that could not be filled.
        prompt: Prompt,
        /// The name of the placeholder without a value.
        name: String,
    },
    /// A value has no placeholder in the text.
    #[error("the prompt {prompt:?} has no placeholder `{name}`")]
    Unused {
        /// The prompt that could not be filled.
        prompt: Prompt,
        /// The name of the value without a placeholder.
        name: String,
    },
}

impl Prompt {
    /// Fills the placeholders. A value is inserted unchanged: placeholders inside a value are not
    /// filled.
    ///
    /// # Errors
    /// If a placeholder has no value, or a value has no placeholder.
    pub fn render(self, values: &[(&str, &str)]) -> Result<String, RenderError> {
        let text = self.text();
        let missing = |name: &str| RenderError::Missing { prompt: self, name: name.to_owned() };
        if let Some((name, _)) =
            values.iter().find(|(name, _)| !placeholders(text).any(|known| known == *name))
        {
            return Err(RenderError::Unused { prompt: self, name: (*name).to_owned() });
        }
        let mut rendered = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = next_placeholder(rest) {
            let (_, value) =
                values.iter().find(|(known, _)| *known == name).ok_or_else(|| missing(name))?;
            rendered.push_str(before);
            rendered.push_str(value);
            rest = after;
        }
        rendered.push_str(rest);
        Ok(rendered)
    }

    /// Returns the text with its unfilled placeholders.
    #[must_use]
    pub fn text(self) -> &'static str {
        let text = match self {
            Self::Lead => include_str!("lead.md"),
            Self::Teammate => include_str!("teammate.md"),
            Self::Joined => include_str!("joined.md"),
            Self::Delegate => include_str!("delegate.md"),
            Self::HeadlessShutdown => include_str!("headless_shutdown.md"),
            Self::OpenWork => include_str!("open_work.md"),
            Self::AnswerCutOff => include_str!("answer_cut_off.md"),
            Self::AnswerEmpty => include_str!("answer_empty.md"),
            Self::TookOver => include_str!("took_over.md"),
            Self::PlanMode => include_str!("plan_mode.md"),
            Self::Explore => include_str!("explore.md"),
            Self::PlanAgent => include_str!("plan_agent.md"),
            Self::GeneralPurpose => include_str!("general_purpose.md"),
            Self::Subagent => include_str!("subagent.md"),
            Self::Compaction => include_str!("compaction.md"),
            Self::Briefing => include_str!("briefing.md"),
            Self::Summary => include_str!("summary.md"),
        };
        text.trim_end()
    }
}

fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, after) = next_placeholder(rest)?;
        rest = after;
        Some(name)
    })
}

fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All prompts, each with exactly the placeholders that its documentation names.
    const ALL: [(Prompt, &[&str]); 14] = [
        (Prompt::Lead, &["team"]),
        (Prompt::Teammate, &["name", "team", "lead"]),
        (Prompt::Joined, &["name", "team", "lead"]),
        (Prompt::Delegate, &["team", "tasks"]),
        (Prompt::HeadlessShutdown, &["members"]),
        (Prompt::TookOver, &["name", "team", "cwd", "members", "tasks"]),
        (Prompt::PlanMode, &["plan_file", "approval"]),
        (Prompt::Explore, &[]),
        (Prompt::PlanAgent, &[]),
        (Prompt::GeneralPurpose, &[]),
        (Prompt::Subagent, &[]),
        (Prompt::Compaction, &[]),
        (Prompt::Briefing, &["facts"]),
        (Prompt::Summary, &["summary"]),
    ];

    #[test]
    fn every_prompt_has_the_placeholders_it_documents_and_no_other() {
        for (prompt, names) in ALL {
            let values: Vec<(&str, &str)> = names.iter().map(|name| (*name, "VALUE")).collect();
            let rendered = prompt.render(&values).unwrap();
            assert_eq!(rendered.contains("VALUE"), !names.is_empty(), "{prompt:?}");
            assert!(!rendered.contains("{{") && !rendered.contains("}}"), "{prompt:?}");
        }
    }

    #[test]
    fn a_missing_value_and_a_superfluous_one_are_errors() {
        let missing = Prompt::PlanMode.render(&[]).unwrap_err();
        insta::assert_snapshot!(missing, @"the prompt PlanMode needs a value for `plan_file`");
        let unused = Prompt::Explore.render(&[("team", "x")]).unwrap_err();
        insta::assert_snapshot!(unused, @"the prompt Explore has no placeholder `team`");
    }

    #[test]
    fn a_value_is_not_filled_in_again() {
        let rendered =
            Prompt::PlanMode.render(&[("plan_file", "{{plan_file}}"), ("approval", "x")]).unwrap();
        assert!(rendered.contains("{{plan_file}}"));
    }

    #[test]
    fn the_call_for_a_summary_is_known_to_scripts() {
        assert!(Prompt::Compaction.text().contains(pitcrew_model::COMPACTION));
    }

    #[test]
    fn no_prompt_says_that_nobody_watches_the_run() {
        // Any number of displays can be attached to a run at any time.
        for (prompt, _) in ALL {
            assert!(!prompt.text().to_lowercase().contains("watching"), "{prompt:?}");
        }
    }

    #[test]
    fn the_rules_that_keep_a_team_together_are_told() {
        for (prompt, words) in [
            (Prompt::Lead, ["TaskCreate", "shutdown_request", "TeamDelete", "poll"]),
            (Prompt::Teammate, ["SendMessage", "TaskUpdate", "idle", "permission"]),
        ] {
            for word in words {
                assert!(prompt.text().contains(word), "{prompt:?} does not speak of {word}");
            }
        }
    }
}
