//! Decides permission requests. A person decides, or the run's policy if there is no person. This
//! module also stores what a person has allowed for the rest of the run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_agent::Question;
use pitcrew_agent::transcript::{Grant, ToolCall};
use pitcrew_permission::gate::{AllowingRules, Call, Gate, Judged, Verdict};
use pitcrew_permission::settings::save_allowing_rule;
use pitcrew_process::sandbox::Profile;
use pitcrew_protocol::{
    AgentName, ApiError, CallEffect, ErrorCode, LEAD_NAME, Member, PermissionMode, Program,
    ToolTraits, chain,
};
use pitcrew_team::{KnownMode, Request, RequestKind};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::run_context::RunContext;
use crate::driver::Sink;
use crate::events::RunEvent;
use crate::question::{AskedCall, AskedFile, Choice, Digest, Keep, Offer, PermissionQuestion};
use crate::run::{Answer, AnswerReceipt, Ask, Asks, Granted};

/// The maximum number of granted permissions that are remembered for the user. A person grants far
/// fewer, but agents can write to the journal, from which those of members in panes come.
const GRANTED_MOST: usize = 500;

/// A call that waits for an answer to its permission request.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) agent: AgentName,
    pub(crate) tool: String,
    pub(crate) input: Value,
    /// The folder in which the call runs.
    pub(crate) folder: PathBuf,
    pub(crate) description: String,
    /// The agent's own words about the call, if these words are not part of the call.
    pub(crate) says: Option<String>,
    /// The program whose tools make the call. The tools of pitcrew open exactly the path that the
    /// permission gate has checked. The tools of another client may open a different path.
    pub(crate) program: Program,
}

impl Pending {
    /// Creates the waiting call of an agent that pitcrew runs.
    pub(crate) fn of_ours(
        agent: AgentName,
        call: &ToolCall,
        question: Question,
        folder: PathBuf,
    ) -> Self {
        let (tool, input, description) =
            (call.tool.clone(), call.input.clone(), question.description);
        Self { agent, tool, input, folder, description, says: None, program: Program::Pitcrew }
    }

    fn submits_plan(&self) -> bool {
        ToolTraits::of(&self.tool).effect == CallEffect::SubmitsPlan
    }

    /// Returns the text of the plan, if this call asks for approval of the lead's own plan.
    pub(super) fn own_plan(&self) -> Option<&str> {
        let is_plan = self.submits_plan() && self.agent.as_str() == LEAD_NAME;
        self.input.get("plan").and_then(Value::as_str).filter(|_| is_plan)
    }

    /// Returns the permission updates that apply if a person allows this call and nothing more. If
    /// the call asks for approval of the lead's own plan, the update makes the lead leave plan
    /// mode.
    fn updates_of_yes(&self) -> Vec<Value> {
        self.own_plan().map(|_| mode_update(PermissionMode::Default)).into_iter().collect()
    }

    /// If the agent gives no reason for its permission request, sets plan mode as the reason.
    pub(super) fn in_plan_mode(mut self) -> Self {
        if self.description.is_empty() {
            let said = format!(
                "{} is in plan mode: its plan is not approved yet, and until then it must change nothing",
                self.agent
            );
            self.description = said;
        }
        self
    }

    /// Returns the reason for a refusal if the call's path now goes through a link. Such a call is
    /// refused at once: no person is asked, and no rules are matched. When the gate judged the call
    /// of a pitcrew agent, the path had no link, so somebody created the link after that.
    fn link_refusal(&self, judged: &Judged) -> Option<String> {
        match self.program {
            Program::Pitcrew => judged.link_refusal(),
            Program::Claude => None,
        }
    }

    fn call(&self) -> Call<'_> {
        Call { tool: &self.tool, input: &self.input, cwd: &self.folder, plan_file: None }
    }
}

/// The decision on a call.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) grant: Grant,
    /// The rule that would have allowed the call. It is set only if no person was there to decide.
    pub(crate) would_allow: Option<String>,
    /// The person who decided learns here whether the decision is written.
    pub(crate) receipt: AnswerReceipt,
}

impl From<Grant> for Decided {
    fn from(grant: Grant) -> Self {
        Self { grant, would_allow: None, receipt: AnswerReceipt::default() }
    }
}

impl From<PersonSaid> for Decided {
    fn from(PersonSaid { grant, always: _, receipt }: PersonSaid) -> Self {
        Self { grant, would_allow: None, receipt }
    }
}

/// The answer of a person to a permission request.
#[derive(Debug)]
pub(crate) struct PersonSaid {
    pub(crate) grant: Grant,
    /// The permission that the person granted for the rest of the run, if any.
    pub(crate) always: Option<Offer>,
    pub(crate) receipt: AnswerReceipt,
}

/// The end of a permission request that was shown to a person.
#[derive(Debug)]
pub(super) enum Reply {
    /// The person's answer.
    Chosen(Choice, AnswerReceipt),
    /// The answer follows without the person, for example from a permission for the whole run.
    Unasked(Grant),
}

/// How a run decides permission requests, and what a person has allowed for the rest of the run.
#[derive(Clone)]
pub(crate) struct Asking {
    asks: Asks,
    gate: Arc<Gate>,
    always: watch::Sender<Always>,
    /// Path of the user's own settings file.
    settings: PathBuf,
    sink: Sink,
}

/// Everything that a person has allowed for the rest of the run.
#[derive(Clone, Debug, Default)]
struct Always {
    /// The allowed calls, each as its folder and its digest.
    calls: HashSet<(PathBuf, Digest)>,
    /// The permission gate of the run, extended by the rules that the person added.
    gate: Option<Gate>,
    /// The permissions in words, for the user.
    granted: Vec<Granted>,
}

impl Always {
    fn remember(&mut self, granted: Granted) {
        if self.granted.len() < GRANTED_MOST && !self.granted.contains(&granted) {
            self.granted.push(granted);
        }
    }

    fn covers(&self, gate: &Gate, pending: &Pending) -> bool {
        let call = (pending.folder.clone(), Digest::of_call(&pending.tool, &pending.input));
        // If the run's permission gate already allows the call, the permission request has another
        // cause, such as a hook. A rule does not answer such a request.
        let by_rule = |with: &Gate| {
            let judged = with.judge_path(PermissionMode::Default, &pending.call());
            pending.link_refusal(&judged).is_none()
                && judged.verdict == Verdict::Allow { profile: Profile::Free }
                && !gate.allows_freely(&pending.call())
        };
        self.calls.contains(&call) || self.gate.as_ref().is_some_and(by_rule)
    }
}

/// Returns the permission mode of a member that another client runs, as far as this process knows
/// the mode. A member in mode `plan` counts as being in that mode until one of its plans is
/// approved.
pub(super) fn mode_of_client(
    run_context: &RunContext,
    member: &Member,
    requests: &BTreeMap<String, Request>,
) -> PermissionMode {
    let (known, _refused) = KnownMode::of(&run_context.team, member);
    // The client receives the approval a moment before its new mode is recorded, so look for the
    // approval too.
    let is_approved = |request: &Request| {
        let answer = request.answer.as_ref().filter(|answer| answer.approved);
        let is_later = answer
            .is_some_and(|answer| known.since_ms().is_none_or(|since_ms| answer.at_ms >= since_ms));
        request.kind == RequestKind::Plan && request.from == member.name && is_later
    };
    match PermissionMode::named(known.mode()).unwrap_or_default() {
        PermissionMode::Plan if requests.values().any(is_approved) => PermissionMode::Default,
        mode => mode,
    }
}

/// Applies the run's rules to a call of another client, because that client does not know these
/// rules. Returns `None` if a person must decide. Agents of pitcrew need no such check, because
/// their own permission gate applies the same rules before they send a permission request.
pub(super) fn by_rule(
    run_context: &RunContext,
    mode: PermissionMode,
    pending: &Pending,
) -> Option<Grant> {
    // The client itself chooses the name of its plan file, so accept every file in the plans folder
    // as a plan file.
    let plan = pending.input.get("file_path").and_then(Value::as_str).map(Path::new);
    let plan = plan.filter(|path| path.parent() == Some(&*run_context.root.join("plans")));
    match run_context.gate.judge(mode, &Call { plan_file: plan, ..pending.call() }) {
        Verdict::Allow { profile: Profile::Free } => Some(allowed(Vec::new())),
        // A person must decide. The client runs its own commands, so pitcrew's sandbox cannot limit
        // them to the sandbox profile of this verdict.
        Verdict::Allow { profile: Profile::Read | Profile::Work } => None,
        Verdict::Deny { reason } => Some(denied(reason)),
        Verdict::Ask { .. } => None,
    }
}

/// Returns the working folder of a member.
pub(super) fn folder_of(run_context: &RunContext, member: Option<&Member>) -> PathBuf {
    let own = member.and_then(|member| member.worktree_path.as_deref().or(member.cwd.as_deref()));
    own.map_or(&*run_context.cwd, Path::new).to_owned()
}

impl Asking {
    pub(super) fn new(asks: Asks, gate: Arc<Gate>, root: &Path, sink: Sink) -> Self {
        let always = watch::Sender::new(Always::default());
        Self { asks, gate, always, settings: root.join("settings.json"), sink }
    }

    /// Gets the decision on a call. If the person does not answer or has left, the call is denied.
    pub(crate) async fn decide(self, pending: Pending) -> Decided {
        match self.asks.clone() {
            Asks::Allow => allowed(pending.updates_of_yes()).into(),
            Asks::Deny => self.refuse(&pending),
            Asks::Person(person) => {
                let said = self.ask(person, pending).await;
                said.map_or_else(|| denied("the user did not answer".to_owned()).into(), Into::into)
            }
        }
    }

    /// Returns the policy that says who answers permission requests.
    pub(crate) fn asks(&self) -> &Asks {
        &self.asks
    }

    /// Returns the permissions that a person has granted in this run, the oldest first.
    pub(super) fn granted(&self) -> Vec<Granted> {
        self.always.borrow().granted.clone()
    }

    /// Remembers a permission that a member in another process has got there.
    pub(super) fn granted_elsewhere(&self, agent: &AgentName, what: &str) {
        let (agent, what) = (Some(agent.clone()), what.to_owned());
        self.always.send_modify(|always| {
            always.remember(Granted { agent, what, is_saved: false });
        });
    }

    fn refuse(&self, pending: &Pending) -> Decided {
        if pending.own_plan().is_some() {
            let reason =
                "this run asks nobody to approve the plan; it ends here and shows the plan to the user"
                    .to_owned();
            return denied(reason).into();
        }
        let rules = self.gate.allowing_rules(&pending.call());
        let reason = format!(
            "this run asks nobody, and denies every call that no rule allows ({}); {}",
            pending.description,
            self.gate.how_to_allow(&pending.call())
        );
        let would_allow = rules.narrowest().map(str::to_owned);
        Decided { would_allow, ..denied(reason).into() }
    }

    /// Asks a person, and applies the answer. Returns `None` if the person does not answer or has
    /// left.
    pub(crate) async fn ask(
        &self,
        person: mpsc::Sender<Ask>,
        pending: Pending,
    ) -> Option<PersonSaid> {
        let (choice, receipt) = match self.reply(person, &pending).await? {
            Reply::Chosen(choice, receipt) => (choice, receipt),
            Reply::Unasked(grant) => {
                return Some(PersonSaid { grant, always: None, receipt: AnswerReceipt::default() });
            }
        };
        let always = match &choice {
            Choice::Always { offer, .. } => Some(offer.clone()),
            Choice::Once | Choice::No { .. } => None,
        };
        Some(PersonSaid { grant: self.follow(choice, &pending).await, always, receipt })
    }

    /// Asks a person. Returns `None` if the person does not answer or has left. The wait ends early
    /// if the call becomes allowed for the whole run. If the permission request has changed in the
    /// meantime and the person allows the call, the answer does not count, and the person is asked
    /// again. A refusal always counts if it belongs to the request that was shown.
    pub(super) async fn reply(
        &self,
        person: mpsc::Sender<Ask>,
        pending: &Pending,
    ) -> Option<Reply> {
        let mut always = self.always.subscribe();
        loop {
            let question = match self.question(pending).await? {
                Ok(question) => question,
                Err(reason) => return Some(Reply::Unasked(denied(reason))),
            };
            let (answer, answered) = oneshot::channel();
            let asked = Ask { question: question.clone(), input: pending.input.clone(), answer };
            let covered = async {
                always.wait_for(|always| always.covers(&self.gate, pending)).await.map(drop)
            };
            let Answer { digest, choice, mut receipt } = tokio::select! {
                biased;
                Ok(()) = covered => return Some(Reply::Unasked(allowed(Vec::new()))),
                answer = async { person.send(asked).await.ok()?; answered.await.ok() } => answer?,
            };
            let is_offered = match &choice {
                Choice::Always { offer, .. } => question.offers.contains(offer),
                Choice::Once | Choice::No { .. } => true,
            };
            // The file that the call changes may itself have changed while the person looked at the
            // diff. An answer that allows the call therefore counts only if the permission request
            // would still look the same now. A refusal needs no such check.
            let is_refusal = matches!(choice, Choice::No { .. });
            let stands =
                is_refusal || self.question(pending).await?.is_ok_and(|now| now == question);
            if is_offered && stands && digest == *question.digest() {
                return Some(Reply::Chosen(choice, receipt));
            }
            receipt.give(Err(ApiError::new(
                ErrorCode::InvalidStatus,
                "what the call would do has changed since the request was shown; look at it again",
            )));
            tracing::info!(agent = %pending.agent, "an answer to a question that has changed is not taken");
        }
    }

    /// Builds the permission request for a call. If the call would change a file, the request shows
    /// the current content of that file. The file's path is resolved only once, so the shown file
    /// is the file that the gate has judged. If the call must be refused without asking, returns
    /// the reason. Returns `None` if the run ends meanwhile.
    async fn question(&self, pending: &Pending) -> Option<Result<PermissionQuestion, String>> {
        let (gate, pending) = (self.gate.clone(), pending.clone());
        let made = tokio::task::spawn_blocking(move || {
            let judged = gate.judge_path(PermissionMode::Default, &pending.call());
            if let Some(reason) = pending.link_refusal(&judged) {
                return Err(reason);
            }
            let file = judged.path.map(|real| AskedFile { real, is_by_link: judged.is_by_link });
            let Pending { agent, tool, input, folder, description, says, program: _ } = &pending;
            let rule = gate
                .asking_rule(&pending.call())
                .map(|rule| format!("the ask {rule} demands a question"));
            let reason = rule.as_ref().unwrap_or(description);
            let rules = if pending.submits_plan() {
                // Each plan needs its own approval, so no rule is offered. With the approval of the
                // lead's plan, the person is also able to grant the mode `acceptEdits`.
                let accept_edits = pending.own_plan().is_some();
                AllowingRules { accept_edits, ..AllowingRules::default() }
            } else {
                gate.allowing_rules(&pending.call())
            };
            let says = says.as_deref();
            Ok(PermissionQuestion::of(AskedCall {
                asker: agent,
                tool,
                input,
                folder,
                file,
                reason,
                says,
                rules,
            }))
        });
        made.await.ok()
    }

    async fn follow(&self, choice: Choice, pending: &Pending) -> Grant {
        match choice {
            Choice::Once => allowed(pending.updates_of_yes()),
            Choice::No { reason: None } => denied("the user said no".to_owned()),
            Choice::No { reason: Some(reason) } => denied(format!("the user said no: {reason}")),
            Choice::Always { offer, keep } => {
                let is_saved = match (keep, offer.rule()) {
                    (Keep::Saved, Some(rule)) => self.save(rule).await,
                    (Keep::Saved, None) | (Keep::Run, _) => false,
                };
                self.allow_for_the_run(&offer, pending, is_saved)
            }
        }
    }

    fn allow_for_the_run(&self, offer: &Offer, pending: &Pending, is_saved: bool) -> Grant {
        let agent = match offer {
            Offer::Exactly { .. } | Offer::Rule(_) => None,
            Offer::Edits => Some(pending.agent.clone()),
        };
        let granted = Granted { agent, what: offer.allows(&pending.tool), is_saved };
        self.always.send_modify(|always| always.remember(granted));
        match offer {
            Offer::Exactly { .. } => {
                let call = (pending.folder.clone(), Digest::of_call(&pending.tool, &pending.input));
                self.always.send_modify(|always| {
                    always.calls.insert(call);
                });
                allowed(Vec::new())
            }
            Offer::Rule(rule) => {
                let update = rule_update(rule);
                self.always.send_modify(|always| {
                    let gate = always.gate.get_or_insert_with(|| Gate::clone(&self.gate));
                    if let Err(error) = gate.apply(&update) {
                        tracing::warn!(%error, "a rule that was offered is refused");
                    }
                });
                allowed(vec![update])
            }
            Offer::Edits => allowed(vec![mode_update(PermissionMode::AcceptEdits)]),
        }
    }

    /// Writes a rule into the user's settings. Returns whether it is written.
    async fn save(&self, rule: &str) -> bool {
        let (file, rule) = (self.settings.clone(), rule.to_owned());
        let saved = tokio::task::spawn_blocking(move || save_allowing_rule(&file, &rule)).await;
        let text = match saved {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => chain(&error),
            Err(error) => error.to_string(),
        };
        let text = format!("the answer is valid for this run only; it was not saved: {text}");
        self.sink.tell(RunEvent::Warning { text }).await;
        false
    }
}

/// Formats a mode change as a permission update in the wire format.
fn mode_update(mode: PermissionMode) -> Value {
    json!({"type": "setMode", "mode": mode, "destination": "session"})
}

/// Formats a rule as a permission update in the wire format.
fn rule_update(rule: &str) -> Value {
    let named = match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
        Some((tool, content)) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": rule}),
    };
    json!({"type": "addRules", "rules": [named], "behavior": "allow", "destination": "session"})
}

fn allowed(updates: Vec<Value>) -> Grant {
    Grant::Allowed { input: None, updates }
}

fn denied(reason: String) -> Grant {
    Grant::Denied { reason }
}
