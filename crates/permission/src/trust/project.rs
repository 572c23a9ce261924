//! Reads a project's files once. Determines their effects, and the parts of the files that are
//! used.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::Given;
use pitcrew_process::sandbox::git_folder::{Claim, GitFolder};
use pitcrew_protocol::PermissionMode;
use serde_json::Value;

use super::items::{Item, ItemKind, Lister, counting, without_trust};
use super::record::TrustState;
use super::repository::Repository;
use crate::agent_files::{AgentFiles, Origin};
use crate::settings::{Layer, Paths, Refusal, SettingsError, Source, read, strip};

/// The folder with a project's settings.
const FOLDER: &str = ".claude";

/// The file with a project's MCP servers.
const MCP_FILE: &str = ".mcp.json";

/// The content of a project's files when they were read.
#[derive(Debug)]
pub struct Project {
    /// The project's repository. `None` if the folder cannot be resolved. In that case no file is
    /// read.
    repository: Option<Repository>,
    /// True if the project's folder is the user's own, which means that `<folder>/.claude` is the
    /// configuration root.
    is_user_s: bool,
    layers: Vec<Source>,
    agents: AgentFiles,
    git_folders: Vec<PathBuf>,
    items: Vec<Item>,
    never: Vec<LeftOut>,
    warnings: Vec<String>,
}

/// The parts of a project's files that are used.
#[derive(Debug)]
pub struct Counted {
    /// The settings layers, for [`crate::settings::Settings::load`].
    pub layers: Vec<Source>,
    /// The project's agent definitions, which the caller adds to all other definitions.
    pub agents: AgentFiles,
    /// The git folders and object stores outside the checkout that are treated as part of the
    /// checkout.
    pub git_folders: Vec<PathBuf>,
    /// The parts that are not used, for a report to the user.
    pub left_out: Vec<LeftOut>,
    /// The errors of files that could not be read, for a report to the user.
    pub warnings: Vec<String>,
}

/// The parts of one file that are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The path of the file, relative to the project's folder.
    pub file: PathBuf,
    /// The names of the unused parts, with dots between the parts of a name. A name that occurs
    /// several times has a count.
    pub keys: Vec<String>,
    /// The reason why the parts are not used.
    pub why: WhyLeftOut,
}

/// The reason why parts of a project's files are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// The user has not yet answered the question whether to trust the project.
    NotTrusted,
    /// The user answered not to trust the project.
    Declined,
    /// The user trusted the project, but its files now have more effects.
    Grown,
    /// No project is allowed to set these fields.
    Never,
}

impl Project {
    /// Reads the files of a project. If the project's `.claude` folder is the configuration root
    /// itself, the files belong to the user.
    ///
    /// # Errors
    /// If a settings file cannot be read, is not a plain file, or is not JSON.
    pub fn read(folder: &Path, root: &Path) -> Result<Self, SettingsError> {
        let mut project = Self {
            repository: Repository::of(folder).ok(),
            is_user_s: is_same_folder(&folder.join(FOLDER), root),
            layers: Vec::new(),
            agents: AgentFiles::default(),
            git_folders: Vec::new(),
            items: Vec::new(),
            never: Vec::new(),
            warnings: Vec::new(),
        };
        let Some(repository) = project.repository.clone() else { return Ok(project) };
        let claims = GitFolder::claims(folder);
        project.git_folders = claims.iter().map(|claim| claim.folder.clone()).collect();
        if project.is_user_s {
            // The folder `.claude` is the configuration root, so its `settings.json` is the user's
            // layer, which is read elsewhere. Read only the local layer here.
            project.read_layers(folder, Given::ByUser, &[Layer::Local])?;
            return Ok(project);
        }
        let folders = [repository.checkout.clone(), repository.top.clone()];
        let given = Given::Below(&folders);
        project.read_layers(folder, given, &[Layer::Project, Layer::Local])?;
        project.agents =
            AgentFiles::read(given, &folder.join(FOLDER).join("agents"), Origin::Project);
        // This step comes before the effects are listed, so that the user is not asked about
        // settings that are never used.
        project.strip();
        project.list(&repository.below, folder, given);
        project.list_git_folders(&claims);
        Ok(project)
    }

    /// Returns the effects of the project's files. Commands that run automatically are last.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the parts of the project's files that are never used, even with trust.
    #[must_use]
    pub fn never(&self) -> &[LeftOut] {
        &self.never
    }

    /// Returns the top folder of the repository. The user's trust answer is stored under this path.
    /// Returns `None` if the project's folder cannot be resolved.
    #[must_use]
    pub fn top(&self) -> Option<&Path> {
        self.repository.as_ref().map(|repository| repository.top.as_path())
    }

    /// Returns true if the project's files are the user's own configuration.
    #[must_use]
    pub fn is_user_s(&self) -> bool {
        self.is_user_s
    }

    /// Returns the parts of the project that are used with this trust status.
    #[must_use]
    pub fn counted(self, standing: TrustState) -> Counted {
        let why = match standing {
            TrustState::UsersOwn => {
                return Counted {
                    layers: self.layers,
                    agents: self.agents,
                    git_folders: self.git_folders,
                    left_out: Vec::new(),
                    warnings: self.warnings,
                };
            }
            TrustState::Trusted | TrustState::NothingToTrust => {
                return Counted {
                    layers: reduced(self.layers, counting),
                    agents: self.agents,
                    git_folders: self.git_folders,
                    left_out: self.never,
                    warnings: self.warnings,
                };
            }
            TrustState::NotTrusted => WhyLeftOut::NotTrusted,
            TrustState::Declined => WhyLeftOut::Declined,
            TrustState::Grown => WhyLeftOut::Grown,
        };
        let left_out = left_out(&self.items, why).into_iter().chain(self.never).collect();
        Counted {
            layers: reduced(self.layers, without_trust),
            agents: AgentFiles::default(),
            git_folders: Vec::new(),
            left_out,
            warnings: self.warnings,
        }
    }

    fn read_layers(
        &mut self,
        folder: &Path,
        given: Given<'_>,
        layers: &[Layer],
    ) -> Result<(), SettingsError> {
        let paths = Paths { project: Some(folder.to_path_buf()), ..Paths::default() };
        for &layer in layers {
            let Some(file) = paths.file(layer) else { continue };
            if let Some(value) = read(given, &file)? {
                self.layers.push(Source {
                    layer,
                    file: Some(file),
                    base: paths.base(layer),
                    value,
                });
            }
        }
        Ok(())
    }

    /// Removes the settings that no project is allowed to set.
    fn strip(&mut self) {
        for source in &mut self.layers {
            let refused = strip(&mut source.value);
            if !refused.is_empty() {
                let keys = refused.into_iter().map(|Refusal { key, .. }| key).collect();
                self.never.push(LeftOut {
                    file: file_of(source.layer),
                    keys,
                    why: WhyLeftOut::Never,
                });
            }
        }
        for agent in &mut self.agents.agents {
            let is_bypass = agent.permission_mode == Some(PermissionMode::BypassPermissions);
            let bypass = agent
                .permission_mode
                .take_if(|_| is_bypass)
                .map(|_| "permissionMode: bypassPermissions");
            let program = agent.program.take().map(|_| "program");
            let keys: Vec<String> = bypass.into_iter().chain(program).map(str::to_owned).collect();
            if !keys.is_empty() {
                let file = agent_file(agent.path());
                self.never.push(LeftOut { file, keys, why: WhyLeftOut::Never });
            }
        }
    }

    fn list(&mut self, below: &Path, folder: &Path, given: Given<'_>) {
        let mut lister = Lister { below, items: Vec::new() };
        for source in &self.layers {
            lister.settings(&file_of(source.layer), &source.value);
        }
        for agent in &self.agents.agents {
            lister.agent(&agent_file(agent.path()), agent);
        }
        match read(given, &folder.join(MCP_FILE)) {
            Ok(document) => lister.mcp_servers(Path::new(MCP_FILE), &document.unwrap_or_default()),
            Err(error) => self.warnings.push(pitcrew_protocol::chain(&error)),
        }
        self.items = lister.items;
    }

    /// Adds the git folders outside the checkout to the listed effects. These git folders are the
    /// same for every folder of the checkout, so their digests do not include the project's folder.
    fn list_git_folders(&mut self, claims: &[Claim]) {
        let mut lister = Lister { below: Path::new(""), items: std::mem::take(&mut self.items) };
        for claim in claims {
            lister.git_folder(claim);
        }
        lister.items.sort_by_key(|item| item.kind);
        self.items = lister.items;
    }
}

fn reduced(layers: Vec<Source>, part: fn(&Value) -> Value) -> Vec<Source> {
    layers.into_iter().map(|source| Source { value: part(&source.value), ..source }).collect()
}

/// Groups the effects by the file that causes them, for a report to the user. These effects are not
/// used, for the reason `why`.
fn left_out(items: &[Item], why: WhyLeftOut) -> Vec<LeftOut> {
    let mut found: Vec<(PathBuf, Vec<(String, usize)>)> = Vec::new();
    for item in items.iter().filter(|item| item.acts()) {
        // There may be many files with agent definitions, so count them together under their
        // folder.
        let file = if item.kind == ItemKind::Agent {
            item.file.parent().unwrap_or(&item.file)
        } else {
            &item.file
        };
        let at = found.iter().position(|(known, _)| known == file).unwrap_or_else(|| {
            found.push((file.to_path_buf(), Vec::new()));
            found.len() - 1
        });
        let Some((_, counts)) = found.get_mut(at) else { continue };
        let name = item.left_out_name();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let words = |(name, count): (String, usize)| {
        if count == 1 { name } else { format!("{name} ({count})") }
    };
    let of_file = |(file, counts): (PathBuf, Vec<(String, usize)>)| LeftOut {
        file,
        keys: counts.into_iter().map(words).collect(),
        why,
    };
    found.into_iter().map(of_file).collect()
}

fn file_of(layer: Layer) -> PathBuf {
    let name = match layer {
        Layer::Local => "settings.local.json",
        Layer::User | Layer::Project | Layer::Cli | Layer::Managed => "settings.json",
    };
    Path::new(FOLDER).join(name)
}

fn agent_file(path: Option<&Path>) -> PathBuf {
    Path::new(FOLDER).join("agents").join(path.and_then(Path::file_name).unwrap_or_default())
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
}
