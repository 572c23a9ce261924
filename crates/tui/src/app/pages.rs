//! The pages of the application: the help, the permissions of the run, and the plans that wait.

use crossterm::event::{KeyCode, KeyEvent};
use pitcrew_protocol::AgentName;
use pitcrew_runtime::run::RunPermissions;
use pitcrew_team::PlanView;
use pitcrew_view::client::PlanVerdict;
use pitcrew_view::permissions::in_sections;
use pitcrew_view::text::in_one_line;

use super::{Action, App, Focus, Request, help};
use crate::commands::{Command, PlanCommand};
use crate::panels::Page;

impl App {
    /// Shows a page in place of the conversation.
    fn show_page(&mut self, page: Page) {
        self.note_plans_read();
        self.plans_shown.is_on_page = false;
        self.page = Some(page);
        self.focus = Focus::Conversation;
    }

    pub(super) fn show_help(&mut self) {
        self.show_page(help::page());
    }

    /// Handles a key for the page on the screen. Returns whether the key was for it.
    pub(super) fn page_key(&mut self, key: KeyEvent) -> bool {
        if self.composer.has_completions() {
            return false;
        }
        let is_typing = !self.composer.is_empty() || self.refusing.is_some();
        let Some(page) = &mut self.page else { return false };
        if key.code == KeyCode::Esc && !is_typing {
            self.close_page();
            return true;
        }
        page.key(key, is_typing)
    }

    /// Closes the page. What was read of it still counts.
    pub(super) fn close_page(&mut self) {
        self.note_plans_read();
        self.page = None;
    }

    /// Takes note whether the page of the plans was on the screen as a whole.
    fn note_plans_read(&mut self) {
        let shown = &mut self.plans_shown;
        if let Some(page) = self.page.as_ref().filter(|_| shown.is_on_page) {
            shown.is_read = page.unseen_rows() == 0;
        }
    }

    pub(super) fn permissions_read(
        &mut self,
        result: Result<RunPermissions, String>,
    ) -> Vec<Action> {
        match result {
            Ok(permissions) => {
                let mut page = Page::new("permissions");
                for section in in_sections(&permissions, &self.state) {
                    page.heading(section.heading);
                    section.lines.into_iter().for_each(|line| page.text(line));
                }
                self.show_page(page);
            }
            Err(reason) => self.problem(format!("the permissions are not known: {reason}")),
        }
        Vec::new()
    }

    /// Shows the plans that wait for an answer.
    pub(super) fn plans_read(&mut self, result: Result<Vec<PlanView>, String>) -> Vec<Action> {
        match result {
            Ok(plans) if plans.is_empty() => {
                self.plans_shown = PlansShown::default();
                self.tell(
                    "no plan waits for an answer; `/mode plan NAME` makes an agent plan first",
                );
            }
            Ok(plans) => {
                self.show_page(page_of(&plans));
                let ids = plans.into_iter().map(|it| (it.member, it.request_id)).collect();
                self.plans_shown = PlansShown { ids, is_on_page: true, is_read: false };
            }
            Err(reason) => self.problem(format!("the plans are not known: {reason}")),
        }
        Vec::new()
    }

    pub(super) fn plan_command(&mut self, command: PlanCommand) -> Vec<Action> {
        match command {
            PlanCommand::Show => vec![Action::Request(Request::Plans)],
            PlanCommand::Approve(member) => self.approve_plan(member),
            PlanCommand::Reject { member, remarks } => {
                let id = self.shown_plan(&member);
                let verdict = PlanVerdict::SentBack { feedback: remarks };
                vec![Action::Request(Request::AnswerPlan { member, id, verdict })]
            }
        }
    }

    /// Returns why a command must wait in the line of input: it approves a plan on the page, and a
    /// part of the page was not on the screen yet.
    pub(super) fn unread_plan(&self, command: &Command) -> Option<String> {
        let Command::Plan(PlanCommand::Approve(member)) = command else { return None };
        let page = self.page.as_ref().filter(|_| self.plans_shown.is_on_page)?;
        self.shown_plan(member)?;
        let rows = match page.unseen_rows() {
            0 => return None,
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        Some(format!("{rows} of this page were not on the screen yet: PgDn reads on"))
    }

    /// Approves the plan that was shown. If it was not shown as a whole, it is shown first: the user
    /// must not approve a plan unseen.
    fn approve_plan(&mut self, member: AgentName) -> Vec<Action> {
        let Some(id) = self.shown_plan(&member).filter(|_| self.plans_shown.is_read) else {
            self.tell(format!("read the plan first; `/plan approve {member}` then approves it"));
            return vec![Action::Request(Request::Plans)];
        };
        let (id, verdict) = (Some(id), PlanVerdict::Approved);
        vec![Action::Request(Request::AnswerPlan { member, id, verdict })]
    }

    /// Returns the id of the plan of a member that was shown last.
    fn shown_plan(&self, member: &AgentName) -> Option<String> {
        let is_its = |(name, _): &&(AgentName, String)| name == member;
        self.plans_shown.ids.iter().rev().find(is_its).map(|(_, id)| id.clone())
    }
}

/// The plans that were shown last.
#[derive(Debug, Default)]
pub(super) struct PlansShown {
    /// The member of each plan, and the id of its request.
    ids: Vec<(AgentName, String)>,
    /// Whether the open page shows them.
    is_on_page: bool,
    /// Whether their page was on the screen as a whole, when it was closed.
    is_read: bool,
}

fn page_of(plans: &[PlanView]) -> Page {
    let mut page = Page::new("plans that wait for an answer");
    for plan in plans {
        let member = &plan.member;
        page.heading(format!("the plan of {member}"));
        if let Some(file) = &plan.plan_file_path {
            page.note(in_one_line(file));
        }
        match &plan.plan {
            Some(text) => page.markdown(text.clone()),
            None => page.text("The message with the plan is gone. The plan is in its file."),
        }
        page.note(format!("/plan approve {member}   /plan reject {member} REMARKS"));
    }
    page
}
