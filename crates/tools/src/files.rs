//! File access for the tools: makes paths absolute, limits the size of reads, and makes each change
//! completely or not at all. A tool opens exactly the real path (without links) that the permission
//! gate checked.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pitcrew_permission::gate;
use pitcrew_process::handle::{Folder, Unopened, is_link_in_the_way};
use pitcrew_process::own_mode;
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::read_log::Stamp;
use super::{ToolContext, ToolOutcome};

/// The file mode for a new file. The umask removes bits from it.
const NEW_FILE_MODE: u32 = 0o666;

/// The file mode for a new folder. The umask removes bits from it.
const NEW_FOLDER_MODE: u32 = 0o777;

/// The permission bits that a file keeps when it is rewritten. The set-user-id and set-group-id
/// bits are removed.
const KEPT_RIGHTS: u32 = 0o777;

/// The reason why a file could not be read or changed, as text for the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the path is empty")]
    EmptyPath,
    #[error("the path {path:?} contains a NUL character")]
    Nul { path: String },
    #[error("{} does not exist. Relative paths start from {}", .path.display(), .cwd.display())]
    Missing { path: PathBuf, cwd: PathBuf },
    #[error("{} is a folder; list it with Glob or Bash", .path.display())]
    Folder { path: PathBuf },
    #[error("{} is not a regular file", .path.display())]
    Special { path: PathBuf },
    #[error("{} has {bytes} bytes; the limit is {most} bytes. Use Bash to handle a part of it", .path.display())]
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
    #[error("{} changed during the check: its path contains a link now. Nothing was done", .path.display())]
    Swapped { path: PathBuf },
    #[error("the symbolic links of {} form a cycle", .path.display())]
    Circle { path: PathBuf },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl FileError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match is_link_in_the_way(&source) {
            true => Self::Swapped { path },
            false => Self::Io { doing, path, source },
        }
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
            | FileError::Changed { .. }
            | FileError::Swapped { .. }
            | FileError::Circle { .. } => Self::refused(error),
        }
    }
}

/// Returns the absolute form of a path that the model gave.
pub(super) fn resolve(cwd: &Path, given: &str) -> Result<PathBuf, FileError> {
    if given.is_empty() {
        return Err(FileError::EmptyPath);
    }
    if given.contains('\0') {
        return Err(FileError::Nul { path: given.to_owned() });
    }
    Ok(cwd.join(given))
}

/// Returns the real path of the file of a tool call. Only the path that the permission gate checked
/// is allowed to be opened.
pub(super) fn real_path(path: &Path, context: &ToolContext) -> Result<PathBuf, FileError> {
    let resolved = || gate::resolve(&context.cwd, path);
    context
        .judged
        .clone()
        .or_else(resolved)
        .ok_or_else(|| FileError::Circle { path: path.to_owned() })
}

/// Runs file operations on a thread for blocking work. If the agent was interrupted before, nothing
/// is run.
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

/// Runs a check on a thread for blocking work, and returns the reason if the check refuses the
/// call. Returns `None` if the check does not refuse the call, or if the check itself failed.
pub(super) async fn look_in_background<F>(context: &ToolContext, look: F) -> Option<ToolOutcome>
where
    F: FnOnce(&ToolContext) -> Result<(), ToolOutcome> + Send + 'static,
{
    let context = context.clone();
    tokio::task::spawn_blocking(move || look(&context)).await.ok()?.err()
}

/// A real path, split into the parent folder and the name of the last component.
struct Place<'a> {
    path: &'a Path,
    folder: &'a Path,
    name: &'a OsStr,
}

impl<'a> Place<'a> {
    fn new(path: &'a Path) -> Result<Self, FileError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(FileError::Folder { path: path.to_owned() });
        };
        Ok(Self { path, folder, name })
    }

    /// Opens a regular file that is not larger than the limit. Other kinds of files are refused: a
    /// read of them could block or never end.
    fn open(&self, context: &ToolContext) -> Result<(File, u32), FileError> {
        let path = || self.path.to_owned();
        let folder = Folder::open(self.folder).map_err(Unopened::Io);
        let (file, stat) =
            folder.and_then(|folder| folder.file(self.name)).map_err(|problem| match problem {
                Unopened::NotPlain(FileType::Directory) => FileError::Folder { path: path() },
                // The path that the permission gate checked had no link. Somebody has replaced a
                // part of the path by a link since then.
                Unopened::NotPlain(FileType::Symlink) => FileError::Swapped { path: path() },
                Unopened::NotPlain(_) => FileError::Special { path: path() },
                Unopened::Io(source) if source.kind() == io::ErrorKind::NotFound => {
                    FileError::Missing { path: path(), cwd: context.cwd.clone() }
                }
                Unopened::Io(source) => FileError::io("open", self.path)(source),
            })?;
        let bytes = u64::try_from(stat.st_size).unwrap_or_default();
        let most = context.limits.file_bytes;
        if bytes > most {
            return Err(FileError::TooLarge { path: path(), bytes, most });
        }
        Ok((file, stat.st_mode))
    }
}

/// Opens the regular file at a real path, if the file is not larger than the limit.
pub(super) fn open(real: &Path, context: &ToolContext) -> Result<File, FileError> {
    Ok(Place::new(real)?.open(context)?.0)
}

/// Passes the bytes of an open file to `take`, piece by piece. Stops when the file ends or `cancel`
/// is set. Returns true if the end of the file was reached.
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
            // A signal interrupted the read. Read again.
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(FileError::io("read", path)(source)),
        }
    }
}

/// A completed change of a file: the content before and after it.
pub(super) struct Change {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// Replaces the content of a file, or creates the file. `make` computes the new content from the
/// current content.
///
/// In one process, only one agent at a time changes a file. The change is refused if this agent has
/// not read the file, or if the file has changed since then. The new content replaces the old
/// content in one step, and the file keeps its permission bits. Exactly the path that the
/// permission gate checked is changed. If that path contains a link now, nothing is changed.
pub(super) fn change(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ToolOutcome>,
) -> Result<Change, ToolOutcome> {
    let real = real_path(path, context)?;
    let place = Place::new(&real)?;
    // Hold the lock during the check of the current content and during the write.
    let _turn = context.reads.take_turn(&real);
    let (before, permissions) = present(&place, context)?.unzip();
    let after = make(before.as_deref())?;
    // A sandboxed command may run meanwhile. The change must not be put aside when it ends.
    context
        .sandbox
        .decide(place.path, &after, || store(&place, &after, permissions, context))
        .map_err(FileError::io("write", place.path))??;
    context.reads.note(real, Stamp::of(&after));
    Ok(Change { before, after })
}

/// Returns an error with the reason if a change of the file in its current state would be refused.
/// Writes nothing.
pub(super) fn refusal(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<(), ToolOutcome>,
) -> Result<(), ToolOutcome> {
    let (before, _) = present(&Place::new(&real_path(path, context)?)?, context)?.unzip();
    make(before.as_deref())
}

/// Returns the content of the file and the permission bits that it keeps, or `None` if the file
/// does not exist. Fails if this agent has not read the current content.
fn present(
    place: &Place<'_>,
    context: &ToolContext,
) -> Result<Option<(Vec<u8>, Permissions)>, FileError> {
    let (mut file, mode) = match place.open(context) {
        Ok(opened) => opened,
        Err(FileError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(FileError::io("read", place.path))?;
    context.reads.check(place.path, &content)?;
    Ok(Some((content, Permissions::from_mode(mode & KEPT_RIGHTS))))
}

/// Writes a file in one step. If `earlier` is `None`, the write fails if the file already exists.
/// The write is done without the right to change the team's own files.
fn store(
    place: &Place<'_>,
    content: &[u8],
    earlier: Option<Permissions>,
    context: &ToolContext,
) -> Result<(), FileError> {
    // A plan file gets stricter permission bits than other new files. As with a transcript, only
    // the user is allowed to read a plan.
    let is_plan = context.sandbox.is_plan(place.path);
    let (file_mode, folder_mode) = if is_plan {
        (own_mode::FILE_MODE, own_mode::FOLDER_MODE)
    } else {
        (NEW_FILE_MODE, NEW_FOLDER_MODE)
    };
    let folder = match Folder::open(place.folder) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => {
            // If the file is protected, fail here. Otherwise new folders would be created for a
            // file that is then refused.
            context
                .sandbox
                .check_free(place.path)
                .map_err(FileError::io("write into", place.folder))?;
            made(place.folder, folder_mode)
        }
        opened => opened,
    };
    let folder = folder.map_err(FileError::io("create the folder", place.folder))?;
    let put = || put(place, &folder, content, earlier, file_mode);
    context
        .sandbox
        .work_on(place.path, place.folder, put)
        .map_err(FileError::io("write into", place.folder))?
}

/// Opens the folder at a real path, and creates the missing folders of the path.
fn made(real: &Path, mode: u32) -> io::Result<Folder> {
    match (Folder::open(real), real.parent(), real.file_name()) {
        (Err(problem), Some(above), Some(name)) if problem.kind() == io::ErrorKind::NotFound => {
            made(above, mode)?.folder_made(name, mode)
        }
        (opened, _, _) => opened,
    }
}

fn put(
    place: &Place<'_>,
    folder: &Folder,
    content: &[u8],
    earlier: Option<Permissions>,
    new_mode: u32,
) -> Result<(), FileError> {
    // Write the content into a temporary file first. A rename then replaces the old file in one
    // step.
    let draft = OsString::from(format!(".pitcrew-{}", Uuid::new_v4().simple()));
    let file =
        folder.make_file(&draft, new_mode).map_err(FileError::io("write into", place.folder))?;
    let put = fill(file, content, earlier.as_ref()).and_then(|()| match earlier {
        Some(_) => folder.rename(&draft, place.name),
        None => folder.rename_to_new(&draft, place.name),
    });
    put.map_err(|problem| {
        if let Err(left) = folder.remove_file(&draft) {
            tracing::debug!(path = %place.path.display(), %left, "a draft was left behind");
        }
        match problem.kind() {
            // Another process created the file after the check above. This agent has not read that
            // file.
            io::ErrorKind::AlreadyExists => FileError::NotRead { path: place.path.to_owned() },
            _ => FileError::io("write", place.path)(problem),
        }
    })
}

fn fill(mut file: File, content: &[u8], earlier: Option<&Permissions>) -> io::Result<()> {
    file.write_all(content)?;
    earlier.map_or(Ok(()), |permissions| file.set_permissions(permissions.clone()))
}
