//! The error of a command: its kind, the chain of causes, hints, and the exit code.
//!
//! Each library has its own error types, which are converted to a [`Failure`] here. The module
//! `output` prints a [`Failure`].

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use pitcrew_permission::settings::SettingsError;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::control_socket::PROTOCOL;
use pitcrew_team::store::StoreError;
use pitcrew_view::ViewError;
use pitcrew_view::lead::LeadError;
use serde_json::{Map, Value};

use crate::context::{Context, with_root};
use crate::output::shell_word;

mod hints;

pub(crate) use hints::hint_of;
use hints::{hints_in, limit_hint};

/// The kind of a command's error. Each kind has one exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The command was carried out, but its result is negative.
    Failed,
    /// The command line or other input is malformed.
    Usage,
    /// The team, agent, task or message does not exist.
    NotFound,
    /// The name is already in use, or the state of a team, member or task does not allow the
    /// request.
    Conflict,
    /// The caller does not have the permission for the request.
    Denied,
    /// A limit on size, rate or number was reached.
    RateLimit,
    /// A run reached a limit that the user had set.
    LimitReached,
    /// A run ended before its work was complete. Neither a signal nor a limit ended the run.
    Unfinished,
    /// The process that runs a team ended without a word while its events were displayed.
    HostGone,
    /// A run stopped because its model was unavailable. The run can be resumed.
    Parked,
    /// The disk, the system or pitcrew itself failed.
    Internal,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The process received SIGTERM.
    Terminated,
}

impl FailureKind {
    const ALL: [Self; 13] = [
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Conflict,
        Self::Denied,
        Self::RateLimit,
        Self::LimitReached,
        Self::Unfinished,
        Self::HostGone,
        Self::Internal,
        Self::Parked,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// Returns the exit code of this kind.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Denied => 5,
            Self::RateLimit => 6,
            Self::LimitReached => 7,
            Self::Unfinished => 8,
            Self::HostGone => 9,
            Self::Internal => 70,
            Self::Parked => 75,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Describes the exit code for the help and for the manual.
    fn meaning(self) -> &'static str {
        match self {
            Self::Failed => {
                "failed: the run's lead failed, its team is gone, doctor found something, teammates remain"
            }
            Self::Usage => "the request is malformed: an option, a name, a text over its limit",
            Self::NotFound => "no such team, agent, task or message",
            Self::Conflict => "the name is taken, or the thing's state does not allow it",
            Self::Denied => "the caller may not do this",
            Self::RateLimit => "too many or too soon; try later",
            Self::LimitReached => "a run ended at its --max-turns or --max-cost-usd",
            Self::Internal => {
                "the disk, the system or pitcrew itself failed; nothing was changed, or the message says so"
            }
            Self::Unfinished => {
                "a run ended by itself before its work was complete; the message says why"
            }
            Self::HostGone => "`attach` lost the process that ran the team; the run can be resumed",
            Self::Parked => {
                "a run's model was unavailable for too long; the run can be resumed later"
            }
            Self::Interrupted => "stopped by Ctrl-C, or its team was ended by `pitcrew shutdown`",
            Self::Terminated => "stopped by SIGTERM, or its terminal is gone",
        }
    }

    /// Returns the value of the JSON field `error`, for errors that do not come from the API.
    fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => ErrorCode::InvalidRequest.as_str(),
            Self::NotFound => "not_found",
            Self::Conflict => ErrorCode::InvalidStatus.as_str(),
            Self::Denied => ErrorCode::PermissionDenied.as_str(),
            Self::RateLimit => ErrorCode::RateLimit.as_str(),
            Self::LimitReached => "limit_reached",
            Self::Unfinished => "unfinished",
            Self::HostGone => "host_gone",
            Self::Internal => ErrorCode::InternalError.as_str(),
            Self::Parked => "parked",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }

    fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::TeamNotFound
            | ErrorCode::AgentNotFound
            | ErrorCode::TaskNotFound
            | ErrorCode::MessageNotFound => Self::NotFound,
            ErrorCode::TeamAlreadyExists
            | ErrorCode::AgentAlreadyExists
            | ErrorCode::InvalidStatus
            | ErrorCode::CircularDependency => Self::Conflict,
            ErrorCode::PermissionDenied => Self::Denied,
            ErrorCode::RateLimit => Self::RateLimit,
            ErrorCode::InternalError => Self::Internal,
            ErrorCode::InvalidRequest => Self::Usage,
        }
    }
}

/// Formats the table of exit codes that the help shows.
pub(crate) fn exit_code_table() -> String {
    let mut table = String::from("  0    done");
    for kind in FailureKind::ALL {
        let _ = write!(table, "\n  {:<4} {}", kind.code(), kind.meaning());
    }
    table
}

/// The error of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    error: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
    /// The flag of [`Context::root_flag`](crate::context::Context::root_flag).
    root: String,
}

impl Failure {
    /// Builds a failure of this kind.
    pub(crate) fn new(kind: FailureKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into(), hints: Vec::new(), root: String::new() }
    }

    /// Builds a failure that the command has already printed as part of its result. Only the exit
    /// code of the failure is still needed.
    pub(crate) fn told(kind: FailureKind) -> Self {
        Self { kind, error: String::new().into(), hints: Vec::new(), root: String::new() }
    }

    /// Whether the failure was already printed.
    pub(crate) fn is_told(&self) -> bool {
        self.error.to_string().is_empty()
    }

    /// Builds a failure for a malformed request.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message.into())
    }

    /// Builds a failure for input that cannot be used. The kind is a usage error, unless the system
    /// failed to read the input. A settings file without read permission is a system failure too,
    /// because the user's request does not name that file.
    pub(crate) fn unusable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let is_of_system = system_error(&*error).is_some() || are_settings_closed(&*error);
        let kind = if is_of_system { FailureKind::Internal } else { FailureKind::Usage };
        Self::new(kind, error)
    }

    /// Builds a failure of the system or of pitcrew itself. If a team was deleted or archived after
    /// the command had opened it, the kind is "not found" instead.
    pub(crate) fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        if let Some(StoreError::NoTeam { team }) = error.downcast_ref() {
            let said = format!("Team '{team}' is not there any more");
            return ApiError::new(ErrorCode::TeamNotFound, said)
                .with("team_name", team.as_str())
                .into();
        }
        Self::new(FailureKind::Internal, error)
    }

    /// Builds the failure that another pitcrew process has described with [`Self::document`].
    pub(crate) fn of_document(document: Map<String, Value>) -> Self {
        let code = document.get("exit_code").and_then(Value::as_u64);
        let kind = Self::kind_of_code(code).unwrap_or(FailureKind::Internal);
        let hints = document.get("hints").and_then(Value::as_array).into_iter().flatten();
        let hints = hints.filter_map(Value::as_str).map(str::to_owned).collect();
        Self { kind, error: Described(document).into(), hints, root: String::new() }
    }

    fn kind_of_code(code: Option<u64>) -> Option<FailureKind> {
        FailureKind::ALL.into_iter().find(|kind| Some(u64::from(kind.code())) == code)
    }

    /// Adds one more hint for the user to the failure.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the flag for the root of the context to the commands in the hints.
    pub(crate) fn at_root(self, context: &Context) -> Self {
        Self { root: context.root_flag(), ..self }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }

    /// Returns the texts of the error and of all its causes, without repetitions.
    pub(crate) fn chain(&self) -> String {
        chain(&*self.error)
    }

    /// Returns hints that tell the user how to solve the problem. The cause comes first.
    pub(crate) fn hints(&self) -> Vec<String> {
        let limit = system_error(&*self.error).and_then(io::Error::raw_os_error);
        let limit = limit.and_then(limit_hint).map(str::to_owned);
        let of_store = self.error.downcast_ref::<StoreError>().and_then(hint_of);
        let hints = limit.into_iter().chain(self.hints.iter().cloned()).chain(of_store);
        hints.map(|hint| with_root(&self.root, &hint)).collect()
    }

    /// Formats the failure as a JSON document: the API's error envelope with the exit code and the
    /// hints.
    pub(crate) fn document(&self) -> Map<String, Value> {
        if let Some(Described(document)) = self.error.downcast_ref() {
            let mut document = document.clone();
            document.insert("hints".to_owned(), self.hints().into());
            return document;
        }
        let mut document = Map::new();
        document.insert("success".to_owned(), false.into());
        let of_api = self.error.downcast_ref::<ApiError>();
        let (name, message) = match of_api {
            Some(error) => (error.code.as_str(), error.message.clone()),
            None => (self.kind.name(), self.chain()),
        };
        document.insert("error".to_owned(), name.into());
        document.insert("message".to_owned(), message.into());
        if let Some(error) = of_api.filter(|error| !error.details.is_empty()) {
            document.insert("details".to_owned(), error.details.clone().into());
        }
        document.insert("exit_code".to_owned(), self.kind.code().into());
        document.insert("hints".to_owned(), self.hints().into());
        document
    }

    /// Marks the failure as already printed.
    pub(crate) fn into_told(self) -> Self {
        Self::told(self.kind)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let hints = hints_in(&error);
        let kind = FailureKind::of(error.code);
        Self { kind, error: error.into(), hints, root: String::new() }
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Team(error) => error.into(),
            ViewError::Store { source, .. } => Self::internal(source),
        }
    }
}

impl From<LeadError> for Failure {
    fn from(error: LeadError) -> Self {
        match error {
            LeadError::View(error) => error.into(),
            LeadError::Refused { error, lead_version: None, .. } => error.into(),
            LeadError::Refused { team, error, lead_version: Some(lead) } => {
                Self::from(error).hint(format!(
                    "the process that leads team {team} runs pitcrew {lead}, and this is {}; the same version understands it",
                    env!("CARGO_PKG_VERSION")
                ))
            }
            LeadError::Unreachable { team, pid, error } => {
                Self::new(FailureKind::Failed, error).hint(format!(
                    "process {pid} leads team {team} and must be asked; is it just starting, or ending?"
                ))
            }
            LeadError::OtherProtocol { team, protocol, version } => {
                let which = if protocol > PROTOCOL { "this one" } else { "the one that runs the team" };
                let hint = format!("update {which}: both must speak the same protocol");
                let error = LeadError::OtherProtocol { team, protocol, version };
                Self::new(FailureKind::Failed, error).hint(hint)
            }
            LeadError::NeedsLead { team, error } => Self::from(error).hint(format!(
                "`pitcrew run --resume {}` starts its lead again",
                shell_word(team.as_str())
            )),
        }
    }
}

/// An error with a preceding sentence that says which step failed.
#[derive(Debug)]
pub(crate) struct Explained {
    said: String,
    source: Box<dyn Error + Send + Sync>,
}

impl Explained {
    /// Wraps an error and puts a sentence in front of its text.
    pub(crate) fn new(
        said: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { said: said.into(), source: source.into() }
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Explained {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// An error that another pitcrew process has described as a JSON document.
#[derive(Debug)]
struct Described(Map<String, Value>);

impl std::fmt::Display for Described {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = self.0.get("message").and_then(Value::as_str);
        f.write_str(message.unwrap_or("the other process did not say why it failed"))
    }
}

impl Error for Described {}

/// Joins the texts of an error and of all its causes, without repetitions.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut under = error.source();
    while let Some(error) = under {
        let more = format!(": {error}");
        // The text of a wrapper error often ends with the text of its cause. That text is not
        // appended a second time.
        if !said.ends_with(&more) {
            said.push_str(&more);
        }
        under = error.source();
    }
    said
}

/// Returns whether the cause is a settings file for which pitcrew has no read or write permission.
fn are_settings_closed(error: &(dyn Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(settings) = error.downcast_ref::<SettingsError>() {
            return settings.is_of_system();
        }
        at = error.source();
    }
    false
}

/// Returns the system error that caused this error. An error for a wrong path from the user is not
/// a system error.
fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut at = Some(error);
    let found = loop {
        let error = at?;
        if let Some(found) = error.downcast_ref::<io::Error>() {
            break found;
        }
        at = error.source();
    };
    // An error of one of these kinds means that the user named a wrong path. Such an error is not a
    // failure of the system.
    let is_of_the_request = matches!(
        found.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidFilename
    );
    (!is_of_the_request).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the rows of the table in the manual: exit code, names in JSON, and meaning.
    fn rows_of_manual() -> Vec<[String; 3]> {
        let manual = include_str!("../../../docs/exit-codes.md");
        let table = manual.lines().skip_while(|line| !line.starts_with("| code |")).skip(2);
        let cells = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            <[&str; 3]>::try_from(cells).unwrap().map(str::to_owned)
        };
        table.take_while(|line| line.starts_with('|')).map(cells).collect()
    }

    #[test]
    fn the_manual_has_every_exit_code_with_all_its_names_and_no_other() {
        let row = |kind: FailureKind| {
            let of_api = ErrorCode::ALL.into_iter().filter(|code| FailureKind::of(*code) == kind);
            let of_api = of_api.map(ErrorCode::as_str).filter(|name| *name != kind.name());
            let names: Vec<String> = std::iter::once(kind.name())
                .chain(of_api)
                .map(|name| format!("`{name}`"))
                .collect();
            [kind.code().to_string(), names.join(", "), kind.meaning().to_owned()]
        };
        let done = ["0".to_owned(), String::new(), "done".to_owned()];
        let expected: Vec<[String; 3]> =
            std::iter::once(done).chain(FailureKind::ALL.map(row)).collect();
        assert_eq!(rows_of_manual(), expected);
    }

    #[test]
    fn a_code_has_one_meaning_and_a_name_one_code() {
        let codes: std::collections::BTreeSet<u8> = FailureKind::ALL.map(FailureKind::code).into();
        let names: std::collections::BTreeSet<&str> =
            FailureKind::ALL.map(FailureKind::name).into();
        assert_eq!((codes.len(), names.len()), (FailureKind::ALL.len(), FailureKind::ALL.len()));
        for code in ErrorCode::ALL {
            let own = FailureKind::ALL.into_iter().find(|kind| kind.name() == code.as_str());
            assert!(own.is_none_or(|kind| kind == FailureKind::of(code)), "{code:?}");
        }
    }

    #[test]
    fn a_team_that_was_deleted_while_it_was_looked_at_is_not_there_and_nothing_failed() {
        let failure =
            Failure::internal(StoreError::NoTeam { team: pitcrew_protocol::TeamDir::of("work") });
        assert_eq!(failure.kind.code(), 3);
        assert_eq!(failure.document()["error"], "team_not_found");
        assert_eq!(failure.chain(), "Team 'work' is not there any more");
    }

    #[test]
    fn the_details_of_an_api_error_become_hints() {
        let error = ApiError::new(ErrorCode::AgentNotFound, "no agent 'bop'")
            .with("valid_agents", vec!["ann", "bob"]);
        let failure = Failure::from(error);
        assert_eq!(failure.hints(), ["agents: ann, bob"]);
        assert_eq!(failure.kind.code(), 3);
        let torn = ApiError::new(ErrorCode::InternalError, "bob.json is not readable")
            .with("corrupt", true);
        assert!(Failure::from(torn).hints()[0].contains("pitcrew doctor"));
    }

    #[test]
    fn a_failure_is_the_same_after_it_was_passed_on_by_another_process() {
        let error = ApiError::new(ErrorCode::TeamNotFound, "no team 'crew'")
            .with("available_teams", vec!["work"]);
        for failure in [Failure::from(error), Failure::usage("no goal").hint("name one")] {
            let passed_on = Failure::of_document(failure.document());
            assert_eq!(passed_on.document(), failure.document());
            assert_eq!(passed_on.kind, failure.kind);
            assert_eq!(passed_on.chain(), failure.chain());
        }
        assert_eq!(Failure::of_document(Map::new()).kind, FailureKind::Internal);
    }

    #[test]
    fn a_chain_is_printed_once_and_whole() {
        let io = std::io::Error::other("disk on fire");
        let error =
            pitcrew_team::store::StoreError::Io { action: "write", path: "/x".into(), source: io };
        let failure = Failure::internal(error);
        assert_eq!(failure.chain(), "cannot write /x: disk on fire");
        let document = failure.document();
        assert_eq!(
            (&document["error"], &document["exit_code"]),
            (&"internal_error".into(), &70.into())
        );
    }
}
