//! Rate limits that all processes share. The file of a rate limit is a ring buffer with the times
//! of the last allowed actions, in milliseconds. The code calls each entry of the ring a slot.
//!
//! The first 8 bytes of the file are the index of the oldest slot. Then comes one time of 8 bytes
//! for each slot. All numbers are little-endian. Only pitcrew writes this file, so a kernel file
//! lock is enough to protect it. The file is not forced to disk, because every time window is over
//! after a power cut.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use pitcrew_protocol::Rate;

use super::disk::{Disk, failed, make_dir};
use super::flock::Access;
use super::plain;
use crate::{Slot, StoreError};

const WORD: u64 = 8;

/// Highest number of times that are read when the ring gets another size.
const MOST_READ: u64 = 100_000;

/// The value of a slot that was not used yet.
const NEVER: i64 = i64::MIN;

/// Uses one slot of the ring in the file at `path`, if the oldest slot is outside the time window.
pub(crate) fn take_slot(
    disk: &Disk,
    path: &Path,
    rate: Rate,
    now_ms: i64,
) -> Result<Slot, StoreError> {
    make_dir(path.parent().unwrap_or(path))?;
    let open = plain::open_with(
        OpenOptions::new().read(true).write(true).create(true).truncate(false),
        path,
    );
    let file = open.map_err(|error| error.at("open", path))?;
    disk.flock(&file, path, Access::Exclusive)?;
    take(&file, u64::from(rate.count), i64::from(rate.seconds) * 1000, now_ms)
        .map_err(failed("count in", path))
}

fn take(file: &File, slots: u64, window_ms: i64, now_ms: i64) -> io::Result<Slot> {
    if slots == 0 {
        return Ok(Slot::Full { retry_after: millis(window_ms) });
    }
    // If the length of the file does not fit the number of slots, the file is new or the rate
    // setting has changed.
    if file.metadata()?.len() != WORD * (slots + 1) {
        resize(file, slots)?;
    }
    let oldest_at = read_word(file, 0)?.unsigned_abs() % slots;
    let oldest = read_word(file, oldest_at + 1)?;
    // A time in the future comes from a clock that was set back later. Such a time does not count.
    let is_counted = oldest > now_ms.saturating_sub(window_ms) && oldest <= now_ms;
    if is_counted {
        return Ok(Slot::Full { retry_after: millis(oldest + window_ms - now_ms) });
    }
    // The index is written before the time. A crash between the two writes then leaves this action
    // uncounted. If the time were written first, a crash would leave an index that treats the new
    // time as the oldest.
    let next = i64::try_from((oldest_at + 1) % slots).unwrap_or(0);
    file.write_all_at(&next.to_le_bytes(), 0)?;
    file.write_all_at(&now_ms.to_le_bytes(), WORD * (oldest_at + 1))?;
    Ok(Slot::Taken)
}

/// Changes the number of slots of the ring after a change of the rate setting. The newest times
/// stay.
fn resize(file: &File, slots: u64) -> io::Result<()> {
    // Pitcrew never writes a ring that is longer than the highest rate. The times in a longer ring
    // have no meaning, so it is enough to read the first times.
    let there = (file.metadata()?.len() / WORD).saturating_sub(1).min(MOST_READ);
    let mut times = (1..=there).map(|at| read_word(file, at)).collect::<io::Result<Vec<i64>>>()?;
    // The oldest slot can be anywhere in the ring. Therefore the times are sorted before the oldest
    // times are dropped.
    times.sort_unstable();
    let room = usize::try_from(slots).unwrap_or(usize::MAX);
    let mut ring = vec![NEVER; room.saturating_sub(times.len())];
    ring.extend(times.iter().skip(times.len().saturating_sub(room)));
    let bytes: Vec<u8> = std::iter::once(0).chain(ring).flat_map(i64::to_le_bytes).collect();
    file.write_all_at(&bytes, 0)?;
    file.set_len(WORD * (slots + 1))
}

fn read_word(file: &File, at: u64) -> io::Result<i64> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, WORD * at)?;
    Ok(i64::from_le_bytes(word))
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileOptions;

    fn check(path: &Path, count: u32, takes: &[(i64, Option<u64>)]) {
        let disk = Disk::new(FileOptions::default());
        for (at, wait_ms) in takes {
            let expected = wait_ms
                .map_or(Slot::Taken, |ms| Slot::Full { retry_after: Duration::from_millis(ms) });
            assert_eq!(
                take_slot(&disk, path, Rate { count, seconds: 5 }, *at).unwrap(),
                expected,
                "at {at}"
            );
        }
    }

    #[test]
    fn a_window_slides() {
        let dir = tempfile::tempdir().unwrap();
        let takes = [
            (1000, None),
            (2000, None),
            (3000, Some(3000)),
            (6000, None),
            (6500, Some(500)),
            (7000, None),
        ];
        check(&dir.path().join("rate"), 2, &takes);
    }

    #[test]
    fn a_changed_count_keeps_the_newest_takings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rate");
        check(&path, 3, &[(1000, None), (2000, None), (3000, None), (3500, Some(2500))]);
        check(&path, 4, &[(3600, None), (3700, Some(2300))]);
        check(&path, 1, &[(3800, Some(4800)), (8600, None)]);
    }

    #[test]
    fn a_file_of_any_size_is_brought_to_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rate");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        check(&path, 2, &[(101_000, None), (102_000, None), (103_000, Some(3000))]);
        assert_eq!(path.metadata().unwrap().len(), WORD * 3);
    }

    #[test]
    fn a_clock_set_back_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        check(&dir.path().join("rate"), 1, &[(9_000_000, None), (1000, None), (1001, Some(4999))]);
    }
}
