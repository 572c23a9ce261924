//! Files as the tools see them: paths from outside made safe, reads that are bounded, changes that
//! are whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use pitcrew_team::store::own_mode;
use tokio_util::sync::CancellationToken;

use super::read_log::Stamp;
use super::{ToolContext, ToolOutcome};

/// How many links to links are followed.
const MOST_LINKS: usize = 40;

/// Rights of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Why a file could not be read or changed; what the model is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the path is empty")]
    EmptyPath,
    #[error("the path {path:?} holds a NUL character")]
    Nul { path: String },
    #[error("{} does not exist. Relative paths start from {}", .path.display(), .cwd.display())]
    Missing { path: PathBuf, cwd: PathBuf },
    #[error("{} is a folder; list it with Glob or Bash", .path.display())]
    Folder { path: PathBuf },
    #[error("{} is not a regular file", .path.display())]
    Special { path: PathBuf },
    #[error("{} has {bytes} bytes, more than the {most} that are handled; use Bash on a part of it", .path.display())]
    TooLarge { path: PathBuf, bytes: u64, most: u64 },
    #[error("{} is a binary file, which cannot be shown or edited as text; use Bash to look into it", .path.display())]
    Binary { path: PathBuf },
    #[error("{} has not been read yet. Read it first before writing to it", .path.display())]
    NotRead { path: PathBuf },
    #[error(
        "{} has changed since it was read, by a person, a command or another agent. Read it again before writing to it",
        .path.display()
    )]
    Changed { path: PathBuf },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl FileError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl From<FileError> for ToolOutcome {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { .. } => Self::failed(error.to_string()),
            FileError::EmptyPath
            | FileError::Nul { .. }
            | FileError::Missing { .. }
            | FileError::Folder { .. }
            | FileError::Special { .. }
            | FileError::TooLarge { .. }
            | FileError::Binary { .. }
            | FileError::NotRead { .. }
            | FileError::Changed { .. } => Self::refused(error),
        }
    }
}

/// Makes a path from outside absolute.
pub(super) fn resolve(cwd: &Path, given: &str) -> Result<PathBuf, FileError> {
    if given.is_empty() {
        return Err(FileError::EmptyPath);
    }
    if given.contains('\0') {
        return Err(FileError::Nul { path: given.to_owned() });
    }
    Ok(cwd.join(given))
}

/// Runs work on files away from the async threads, unless the agent is interrupted already.
pub(super) async fn in_background<F>(context: &ToolContext, work: F) -> ToolOutcome
where
    F: FnOnce(&ToolContext) -> Result<ToolOutcome, ToolOutcome> + Send + 'static,
{
    if context.cancel.is_cancelled() {
        return ToolOutcome::interrupted();
    }
    let context = context.clone();
    let joined = tokio::task::spawn_blocking(move || work(&context)).await;
    match joined {
        Ok(Ok(outcome) | Err(outcome)) => outcome,
        Err(problem) => ToolOutcome::failed(format!("the tool broke down: {problem}")),
    }
}

/// The same for work that only looks for a reason to refuse: an interrupted agent has none.
pub(super) async fn look_in_background<F>(context: &ToolContext, look: F) -> Option<ToolOutcome>
where
    F: FnOnce(&ToolContext) -> Result<(), ToolOutcome> + Send + 'static,
{
    let context = context.clone();
    tokio::task::spawn_blocking(move || look(&context)).await.ok()?.err()
}

/// Opens a regular file of bounded size; anything else would block or never end.
pub(super) fn open(path: &Path, context: &ToolContext) -> Result<File, FileError> {
    let metadata = fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing { path: path.to_owned(), cwd: context.cwd.clone() },
        _ => FileError::io("look at", path)(source),
    })?;
    let path_buf = path.to_owned();
    if metadata.is_dir() {
        return Err(FileError::Folder { path: path_buf });
    }
    if !metadata.is_file() {
        return Err(FileError::Special { path: path_buf });
    }
    let most = context.limits.file_bytes;
    if metadata.len() > most {
        return Err(FileError::TooLarge { path: path_buf, bytes: metadata.len(), most });
    }
    File::open(path).map_err(FileError::io("open", path))
}

/// Hands the bytes of an open file to `take`, piece by piece, until it ends or `cancel` is set.
/// Answers whether the end was reached.
pub(super) fn each_piece(
    file: &mut File,
    path: &Path,
    cancel: &CancellationToken,
    mut take: impl FnMut(&[u8]),
) -> Result<bool, FileError> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if cancel.is_cancelled() {
            return Ok(false);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => take(buffer.get(..count).unwrap_or_default()),
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(FileError::io("read", path)(source)),
        }
    }
}

/// Finds the file a path means: links followed to their target, which need not exist yet.
pub(super) fn follow(path: &Path) -> Result<PathBuf, FileError> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::canonicalize(&path) {
            Ok(real) => return Ok(real),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(FileError::io("find", &path)(source)),
        }
        let Ok(link) = fs::read_link(&path) else {
            return below_what_exists(&path);
        };
        path = path.parent().unwrap_or(Path::new("/")).join(link);
    }
    Err(FileError::io("find", &path)(io::Error::from(rustix::io::Errno::LOOP)))
}

/// The path of a file that does not exist, with the folders that do made canonical.
fn below_what_exists(path: &Path) -> Result<PathBuf, FileError> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            return Ok(missing.iter().rev().fold(real, |folder, name| folder.join(name)));
        }
        match ancestor.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name),
            _ => break,
        }
    }
    Err(FileError::io("find", path)(io::Error::from(io::ErrorKind::NotFound)))
}

/// A change that was made.
pub(super) struct Change {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// Replaces the content of a file, or creates it, with what `make` answers to its present content.
///
/// Of the agents of this process one at a time does this to a file. A file that this agent has not
/// read, or that changed since, is refused. The new content appears whole under the name, with the
/// rights the file had; links are followed.
pub(super) fn change(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ToolOutcome>,
) -> Result<Change, ToolOutcome> {
    let target = follow(path)?;
    let _turn = context.reads.take_turn(&target);
    let (before, permissions) = present(&target, context)?.unzip();
    let after = make(before.as_deref())?;
    store(&target, &after, permissions, context)?;
    context.reads.note(target, Stamp::of(&after));
    Ok(Change { before, after })
}

/// Why a change would be refused as the file is now; nothing is written.
pub(super) fn refusal(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<(), ToolOutcome>,
) -> Result<(), ToolOutcome> {
    let (before, _) = present(&follow(path)?, context)?.unzip();
    make(before.as_deref())
}

/// What a file holds, and its rights, if it exists. It must be as this agent has read it.
fn present(target: &Path, context: &ToolContext) -> Result<Option<(Vec<u8>, Permissions)>, FileError> {
    let mut file = match open(target, context) {
        Ok(file) => file,
        Err(FileError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(FileError::io("read", target))?;
    let permissions = file.metadata().map_err(FileError::io("look at", target))?.permissions();
    context.reads.check(target, &content)?;
    Ok(Some((content, permissions)))
}

/// Puts content under a name in one step; without rights of an earlier file it must be a new name.
///
/// The path was judged a while ago, and a command in the background may have put a link in its place since: what is
/// written is kept out of the team's own files here too.
fn store(target: &Path, content: &[u8], earlier: Option<Permissions>, context: &ToolContext) -> Result<(), FileError> {
    let folder = target.parent().ok_or_else(|| FileError::Folder { path: target.to_owned() })?;
    let is_plan = context.sandbox.is_plan(target);
    let created = if is_plan { own_mode::create_folders(folder) } else { fs::create_dir_all(folder) };
    created.map_err(FileError::io("create the folder", folder))?;
    let new_mode = if is_plan { own_mode::FILE_MODE } else { NEW_FILE_MODE };
    let put = || put(target, folder, content, earlier, new_mode);
    context.sandbox.work_on(target, folder, put).map_err(FileError::io("write into", folder))?
}

fn put(
    target: &Path,
    folder: &Path,
    content: &[u8],
    earlier: Option<Permissions>,
    new_mode: u32,
) -> Result<(), FileError> {
    let mut file = tempfile::Builder::new()
        .prefix(".pitcrew-")
        .permissions(Permissions::from_mode(new_mode))
        .tempfile_in(folder)
        .map_err(FileError::io("write into", folder))?;
    file.write_all(content).map_err(FileError::io("write", target))?;
    let persisted = match earlier {
        Some(permissions) => {
            file.as_file().set_permissions(permissions).map_err(FileError::io("write", target))?;
            file.persist(target)
        }
        None => file.persist_noclobber(target),
    };
    match persisted {
        Ok(_) => Ok(()),
        Err(problem) if problem.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(FileError::NotRead { path: target.to_owned() })
        }
        Err(problem) => Err(FileError::io("write", target)(problem.error)),
    }
}
