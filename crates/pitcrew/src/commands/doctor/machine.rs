//! The checks of what all teams share: the room on the disk, and the files of the web server.

use std::path::Path;
use std::sync::Arc;

use pitcrew_protocol::chain;
use pitcrew_team::SystemClock;
use pitcrew_web::{DeviceError, Devices};
use rustix::fs::statvfs;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::Rooms;

/// With less room than this on the disk, a team can work no longer than some minutes. On a small disk,
/// the twentieth part counts.
const ROOM_LEAST: u64 = 16 * 1024 * 1024;

pub(super) async fn look(rooms: &Rooms) -> Vec<Fault> {
    let devices = Devices::new(rooms.files.clone(), Arc::new(SystemClock));
    // The check of the files tells the rest, for example that others may read it.
    let unreadable = |error: &DeviceError| matches!(error, DeviceError::Unreadable { .. });
    let of_devices = devices.list().await.err().filter(unreadable).map(|error| {
        let detail = format!(
            "{}: no device is paired while this is so; remove the file, then pair the devices again",
            chain(&error)
        );
        Finding::new("bad_devices", detail).at(&devices.file())
    });
    let token = rooms.files.web_token_file();
    let of_token = std::fs::symlink_metadata(&token).ok().filter(|it| !it.is_file()).map(|_| {
        Finding::new("bad_token", "this is no file, so `pitcrew serve` has no token: remove it")
            .at(&token)
    });
    let faults = [full(&rooms.root), of_devices, of_token].into_iter().flatten();
    faults.map(Fault::left_to_a_person).collect()
}

/// Reports a disk on which a team can write nothing more, or soon nothing more.
fn full(root: &Path) -> Option<Finding> {
    let disk = statvfs(root).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let (free, size) = (bytes(disk.f_bavail), bytes(disk.f_blocks));
    // Some file systems count no inodes.
    let has_inodes = disk.f_files == 0 || disk.f_favail > 0;
    let what = match free {
        _ if !has_inodes => "no new file has room".to_owned(),
        free if free < ROOM_LEAST.min(size / 20) => format!("{} KiB are free", free / 1024),
        _ => return None,
    };
    let detail = format!(
        "the disk is full or nearly full: {what}; what a team does is written only when there is room"
    );
    Some(Finding::new("full_disk", detail).at(root))
}
