//! Files as the tools see them: paths from outside made safe, reads that are bounded, changes that
//! are whole or not at all. What is opened is what was judged: a real path, no part of which is a link.

use pitcrew_process::own_mode;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::read_log::Stamp;
use super::{ToolContext, ToolOutcome};
use pitcrew_permission::gate;
use pitcrew_process::handle::{Folder, Unopened, is_link_in_the_way};

/// Rights of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Rights of a new folder, before the umask.
const NEW_FOLDER_MODE: u32 = 0o777;

/// The rights that a file keeps when it is written: a program that runs as its owner or group is none any more.
const KEPT_RIGHTS: u32 = 0o777;

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
    #[error("{} changed while it was looked at: a link stands in its path now. Nothing was done", .path.display())]
    Swapped { path: PathBuf },
    #[error("the symbolic links of {} go in a circle", .path.display())]
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

/// The real path of what a call is about, which alone is opened: the path that was judged.
pub(super) fn real_path(path: &Path, context: &ToolContext) -> Result<PathBuf, FileError> {
    let resolved = || gate::resolve(&context.cwd, path);
    context
        .judged
        .clone()
        .or_else(resolved)
        .ok_or_else(|| FileError::Circle { path: path.to_owned() })
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

/// A real path, as the folder that holds it and the name in it.
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

    /// Opens a regular file of bounded size; anything else would block or never end.
    fn open(&self, context: &ToolContext) -> Result<(File, u32), FileError> {
        let path = || self.path.to_owned();
        let folder = Folder::open(self.folder).map_err(Unopened::Io);
        let (file, stat) =
            folder.and_then(|folder| folder.file(self.name)).map_err(|problem| match problem {
                Unopened::NotPlain(FileType::Directory) => FileError::Folder { path: path() },
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

/// Opens the regular file of a real path, if it is of bounded size.
pub(super) fn open(real: &Path, context: &ToolContext) -> Result<File, FileError> {
    Ok(Place::new(real)?.open(context)?.0)
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

/// A change that was made.
pub(super) struct Change {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// Replaces the content of a file, or creates it, with what `make` answers to its present content.
///
/// Of the agents of this process one at a time does this to a file. A file that this agent has not
/// read, or that changed since, is refused. The new content appears whole under the name, with the
/// rights the file had. What is changed is the file of the judged path; where a link stands in that path by now, nothing is.
pub(super) fn change(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ToolOutcome>,
) -> Result<Change, ToolOutcome> {
    let real = real_path(path, context)?;
    let place = Place::new(&real)?;
    let _turn = context.reads.take_turn(&real);
    let (before, permissions) = present(&place, context)?.unzip();
    let after = make(before.as_deref())?;
    store(&place, &after, permissions, context)?;
    context.reads.note(real, Stamp::of(&after));
    Ok(Change { before, after })
}

/// Why a change would be refused as the file is now; nothing is written.
pub(super) fn refusal(
    path: &Path,
    context: &ToolContext,
    make: impl FnOnce(Option<&[u8]>) -> Result<(), ToolOutcome>,
) -> Result<(), ToolOutcome> {
    let (before, _) = present(&Place::new(&real_path(path, context)?)?, context)?.unzip();
    make(before.as_deref())
}

/// What a file holds, and the rights that it keeps, if it exists. It must be as this agent has read it.
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

/// Puts content under a name in one step; without rights of an earlier file it must be a new name. It is done without the
/// right to change the team's own files.
fn store(
    place: &Place<'_>,
    content: &[u8],
    earlier: Option<Permissions>,
    context: &ToolContext,
) -> Result<(), FileError> {
    let is_plan = context.sandbox.is_plan(place.path);
    let (file_mode, folder_mode) = if is_plan {
        (own_mode::FILE_MODE, own_mode::FOLDER_MODE)
    } else {
        (NEW_FILE_MODE, NEW_FOLDER_MODE)
    };
    let folder = match Folder::open(place.folder) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => {
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

/// The folder of a real path; the folders that are missing are made.
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
            io::ErrorKind::AlreadyExists => FileError::NotRead { path: place.path.to_owned() },
            _ => FileError::io("write", place.path)(problem),
        }
    })
}

fn fill(mut file: File, content: &[u8], earlier: Option<&Permissions>) -> io::Result<()> {
    file.write_all(content)?;
    earlier.map_or(Ok(()), |permissions| file.set_permissions(permissions.clone()))
}
