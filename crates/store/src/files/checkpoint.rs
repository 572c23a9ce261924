//! The checkpoint of a journal: a summary of the journal up to a position. It is stored in a
//! document beside the journal. A resume reads the checkpoint and only the lines after its
//! position, so a long journal does not make the resume slower.
//!
//! A checkpoint also stores what identifies its journal: the identity of the journal file, the
//! position, and the bytes before the position. The checkpoint is valid only if the journal still
//! matches and the checksum of the checkpoint is correct. An invalid checkpoint is ignored, and the
//! whole journal is read from its beginning. The resulting summary is the same with and without a
//! checkpoint.
//!
//! Before a checkpoint is written, the journal up to its position is forced to disk. The checkpoint
//! is replaced as a whole, so a crash leaves the old checkpoint or the new one. Two processes can
//! replace the checkpoint at the same time. Both write a correct checkpoint. If the older
//! checkpoint remains, the next read takes longer but has the same result.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::disk::{Disk, Stamp, failed, is_absent};
use super::journal::entry_of;
use super::lines;
use super::plain::{self, Unopened};
use crate::{JournalSummary, StoreError};

pub(crate) const CHECKPOINT: &str = "journal-checkpoint";

/// Version of the checkpoint format. Increase this number when the format changes, or when a
/// summary uses other data of the journal.
///
/// A checkpoint with any other version, even a later one, is ignored and replaced. This costs only
/// time. Pitcrew's other documents are refused if their version is newer. For this reason the
/// checkpoint has a separate version number.
const FORM: u64 = 7;

/// Number of bytes by which the journal grows before the next checkpoint is written. Reading that
/// many bytes takes about 10 ms.
const INTERVAL: u64 = 1024 * 1024;

/// The journal must also grow by this many times the length of the checkpoint before the next
/// checkpoint is written. This rule matters only if the checkpoint has become long.
const LENGTHS: u64 = 4;

/// A checkpoint stores this many bytes of the journal before its position, to recognize the
/// journal. Most lines are shorter, so these bytes usually contain the time of a line and differ
/// between two journals.
const KNOWN: u64 = 256;

pub(crate) struct Checkpoint<'a> {
    disk: &'a Disk,
    journal: PathBuf,
    document: PathBuf,
    interval: u64,
}

/// The checkpoint document as it is stored.
#[derive(Deserialize, Serialize)]
struct Document<'a> {
    form: u64,
    /// The [`checksum`] of `covered`.
    checksum: u64,
    #[serde(borrow)]
    covered: &'a RawValue,
}

/// The part of a journal that a checkpoint covers, and the summary of this part.
#[derive(Default, Deserialize, Serialize)]
struct Covered {
    /// The stamp (metadata) of the journal file at the time of the checkpoint.
    file: Option<Stamp>,
    /// End of the covered part. The covered part begins at the start of the file and ends at the
    /// end of a line.
    position: u64,
    /// The last bytes of the covered part, as text.
    before: String,
    summary: JournalSummary,
}

impl<'a> Checkpoint<'a> {
    pub(crate) fn new(disk: &'a Disk, journal: PathBuf, document: PathBuf) -> Self {
        Self { disk, journal, document, interval: INTERVAL }
    }

    /// Returns a checkpoint that is read and never written.
    pub(crate) fn only_read(self) -> Self {
        Self { interval: u64::MAX, ..self }
    }

    /// Returns the summary of the whole journal and the end position of the journal. Returns an
    /// empty summary and 0 if the journal does not exist. Writes a new checkpoint if the part after
    /// the old checkpoint was long.
    pub(crate) fn summary(&self) -> Result<(JournalSummary, u64), StoreError> {
        let file = match plain::open(&self.journal) {
            Ok(file) => file,
            Err(Unopened::Failed(error)) if is_absent(&error) => {
                return Ok((JournalSummary::default(), 0));
            }
            Err(error) => return Err(error.at("read", &self.journal)),
        };
        let stamp = Stamp::of(&file.metadata().map_err(failed("read", &self.journal))?);
        // Without a valid checkpoint, the start position is 0 and the whole journal is read.
        let (mut covered, length) = self.read(&file, &stamp).unwrap_or_default();
        plain::check_length(
            &self.journal,
            stamp.size.saturating_sub(covered.position),
            plain::LOG_MOST,
        )?;
        let end = lines::settled_end(self.disk, &file, &self.journal)?;
        let unread = covered.position..end;
        lines::search_on(&file, &self.journal, unread.clone(), &JournalSummary::texts(), |line| {
            if let Some(entry) = entry_of(line) {
                covered.summary.add(entry);
            }
        })?;
        if unread.end.saturating_sub(unread.start)
            >= self.interval.max(length.saturating_mul(LENGTHS))
        {
            covered = Covered { file: Some(stamp), position: end, ..covered };
            if let Err(error) = self.write(&file, &mut covered) {
                // A checkpoint that cannot be written loses no data. It only makes the next read
                // slower.
                tracing::debug!(path = %self.document.display(), %error, "no checkpoint of the journal is written");
            }
        }
        Ok((covered.summary, end))
    }

    /// Updates the checkpoint if the bytes that were just appended cross a multiple of the
    /// interval.
    pub(crate) fn follow(&self, appended: &Range<u64>) {
        // Only the process whose append crosses a multiple of the interval reads the journal. All
        // other appends return here at almost no cost.
        if appended.start.checked_div(self.interval) == appended.end.checked_div(self.interval) {
            return;
        }
        if let Err(error) = self.summary() {
            tracing::debug!(path = %self.journal.display(), %error, "the journal is not summed up");
        }
    }

    /// Reads the checkpoint, and returns it with its length in bytes. Returns `None` if the
    /// checkpoint is missing, invalid or written for another journal.
    fn read(&self, journal: &File, stamp: &Stamp) -> Option<(Covered, u64)> {
        let bytes = plain::read(&self.document, plain::FILE_MOST).ok()??;
        let document: Document<'_> = serde_json::from_slice(&bytes).ok()?;
        if document.form != FORM || document.checksum != checksum(document.covered.get()) {
            return None;
        }
        let covered: Covered = serde_json::from_str(document.covered.get()).ok()?;
        let is_same = covered.file.is_some_and(|file| file.is_same_file(stamp))
            && covered.position <= stamp.size
            && bytes_before(journal, covered.position)
                .is_some_and(|before| before == covered.before);
        is_same.then_some((covered, bytes.len() as u64))
    }

    fn write(&self, journal: &File, covered: &mut Covered) -> Result<(), StoreError> {
        let failed_to_write = failed("write", &self.document);
        covered.before = bytes_before(journal, covered.position).unwrap_or_default();
        let document = serde_json::value::to_raw_value(&covered).and_then(|covered| {
            serde_json::to_vec(&Document {
                form: FORM,
                checksum: checksum(covered.get()),
                covered: &covered,
            })
        });
        let document = document.map_err(|error| failed_to_write(error.into()))?;
        // The journal is forced to disk before the checkpoint is written. Otherwise a power cut
        // could leave a checkpoint that covers lost lines.
        self.disk.force(journal).map_err(failed("force to disk", &self.journal))?;
        self.disk.create(&self.document, &document)?;
        self.disk.crash_point("checkpoint written");
        Ok(())
    }
}

/// Returns the last `KNOWN` bytes before a position, as text.
fn bytes_before(file: &File, position: u64) -> Option<String> {
    let from = position.saturating_sub(KNOWN);
    let mut bytes = vec![0; usize::try_from(position - from).ok()?];
    file.read_exact_at(&mut bytes, from).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the 64-bit FNV-1a hash of a text. This hash detects damage but not forgery.
fn checksum(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::path::Path;

    use pitcrew_protocol::{AgentName, MessageId, TaskAssignment};
    use proptest::prelude::*;

    use super::*;
    use crate::files::disk::FileOptions;
    use crate::files::lines::Force;
    use crate::{Event, JournalEntry, Turn};

    /// A checkpoint interval in bytes that is so short that a few lines exceed it.
    const SHORT: u64 = 300;

    struct Scene {
        folder: tempfile::TempDir,
        disk: Disk,
        lines: i64,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                disk: Disk::new(FileOptions::default()),
                lines: 0,
            }
        }

        fn journal(&self) -> PathBuf {
            self.folder.path().join("journal.ndjson")
        }

        fn document(&self) -> PathBuf {
            self.folder.path().join("journal-checkpoint.json")
        }

        fn checkpoint(&self) -> Checkpoint<'_> {
            Checkpoint {
                interval: SHORT,
                ..Checkpoint::new(&self.disk, self.journal(), self.document())
            }
        }

        /// Appends lines in the same way as a store. Each number in `kinds` selects a kind of
        /// event.
        fn append(&mut self, kinds: &[u8]) {
            let mut lines = Vec::new();
            for kind in kinds {
                self.lines += 1;
                lines.push(serde_json::to_string(&entry(self.lines, *kind)).unwrap());
            }
            let appended =
                lines::append(&self.disk, &self.journal(), &lines, Force::Later).unwrap();
            self.checkpoint().follow(&appended);
        }

        fn summary(&self) -> JournalSummary {
            self.checkpoint().summary().unwrap().0
        }

        /// Computes the summary and the end position from the journal alone, without a checkpoint.
        fn full(&self) -> (JournalSummary, u64) {
            let lines = lines::read(&self.journal()).unwrap();
            let end = lines::read_since(&self.disk, &self.journal(), u64::MAX).unwrap().1;
            (JournalSummary::of(lines.iter().filter_map(|line| entry_of(line))), end)
        }
    }

    fn entry(at_ms: i64, kind: u8) -> JournalEntry {
        let member = AgentName::foreign(["ann", "bob", "cat"][usize::from(kind) / 6 % 3]);
        let changed = |state: &str| {
            let detail = (at_ms % 2 == 0).then(|| format!("since {at_ms}"));
            Event::MemberChanged { member: member.clone(), state: state.to_owned().into(), detail }
        };
        let sent = |frame: Option<&str>| {
            let (id, frame) = (MessageId(format!("m{at_ms}")), frame.map(str::to_owned));
            Event::MessagePersisted {
                id,
                from: "ann".to_owned(),
                author: None,
                to: member.clone(),
                frame,
            }
        };
        let event = match kind % 6 {
            0 => changed("spawned"),
            1 => changed("idle"),
            2 => changed("running"),
            3 => {
                let cost_usd = (at_ms % 3 == 0).then_some(0.1);
                Event::TurnEnded(Turn {
                    input_tokens: 3,
                    cost_usd,
                    took_ms: 7,
                    ..Turn::new(member, "model")
                })
            }
            4 => sent(Some(TaskAssignment::TYPE)),
            _ if kind / 6 == 1 => {
                Event::RunStarted { goal: Some(format!("goal {at_ms}")), head: None }
            }
            _ if kind / 6 == 2 => Event::RunEnded { end: None, reason: None },
            _ => sent(None),
        };
        JournalEntry { at_ms, event }
    }

    #[test]
    fn only_what_is_behind_the_checkpoint_is_read() {
        let mut scene = Scene::new();
        scene.append(&[0, 1, 3, 4, 5, 7, 9, 10, 11, 3]);
        let position = fs::metadata(scene.journal()).unwrap().len();
        scene.append(&[2, 3]);
        let expected = scene.full();
        // Overwrites the part of the journal that the checkpoint covers. The test checks that this
        // part is not read again: a second read would change the summary. No real program
        // overwrites the middle of a journal.
        let blank = vec![b' '; usize::try_from(position - KNOWN).unwrap()];
        OpenOptions::new().write(true).open(scene.journal()).unwrap().write_all(&blank).unwrap();
        assert_ne!(scene.full().0, expected.0);
        assert_eq!(scene.checkpoint().summary().unwrap(), expected);
        fs::remove_file(scene.document()).unwrap();
        assert_eq!(scene.summary(), scene.full().0);
    }

    #[test]
    fn a_checkpoint_of_another_form_or_with_one_changed_digit_is_passed_over_and_replaced() {
        let mut scene = Scene::new();
        scene.append(&[0, 1, 3, 4, 5, 3]);
        let ours = fs::read_to_string(scene.document()).unwrap();
        assert_eq!(scene.summary().members.len(), 1);
        let damages: [fn(&str) -> String; 4] = [
            |text| text.replace(&format!("\"form\":{FORM}"), "\"form\":999"),
            |text| text.replace("\"turns\":2", "\"turns\":3"),
            |text| text[..text.len() / 2].to_owned(),
            |_| String::new(),
        ];
        for damage in damages {
            let damaged = damage(&ours);
            assert_ne!(damaged, ours);
            fs::write(scene.document(), damaged).unwrap();
            assert_eq!(scene.summary(), scene.full().0);
            assert_eq!(fs::read_to_string(scene.document()).unwrap(), ours);
        }
    }

    #[test]
    fn a_checkpoint_that_cannot_be_read_or_written_changes_nothing() {
        let mut scene = Scene::new();
        fs::create_dir(scene.document()).unwrap();
        scene.append(&[0, 1, 3, 4, 5, 7, 9, 10, 11, 3]);
        assert_eq!(scene.checkpoint().summary().unwrap(), scene.full());
    }

    /// A change to a journal or its checkpoint between two reads.
    #[derive(Clone, Debug)]
    enum Step {
        Append(Vec<u8>),
        /// A crash during an append left an incomplete line.
        Torn(String),
        /// An older checkpoint replaced the present checkpoint, as after a crash or a race.
        Older(usize),
        Damaged(usize, u8),
        Removed,
        /// The journal was deleted and created again.
        Journal,
        /// A power cut removed the end of the journal.
        Cut(u64),
        /// A copy replaced the journal file, as after a restore from a backup.
        Copied,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => prop::collection::vec(0_u8..18, 1..12).prop_map(Step::Append),
            1 => "[a-z\"{:]{1,30}".prop_map(Step::Torn),
            2 => (0_usize..9).prop_map(Step::Older),
            1 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Step::Damaged(at, byte)),
            1 => Just(Step::Removed),
            1 => Just(Step::Journal),
            1 => (0_u64..2000).prop_map(Step::Cut),
            1 => Just(Step::Copied),
        ]
    }

    fn happen(scene: &mut Scene, older: &mut Vec<Vec<u8>>, step: &Step) {
        let (journal, document) = (scene.journal(), scene.document());
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path).unwrap();
        match step {
            Step::Append(kinds) => scene.append(kinds),
            Step::Torn(text) => append(&journal).write_all(text.as_bytes()).unwrap(),
            Step::Older(at) => {
                if let Some(bytes) = older.get(*at) {
                    fs::write(&document, bytes).unwrap();
                }
            }
            Step::Damaged(at, byte) => {
                let mut bytes = fs::read(&document).unwrap_or_default();
                let at = at.checked_rem(bytes.len());
                if let Some(place) = at.and_then(|at| bytes.get_mut(at)) {
                    *place = *byte;
                    fs::write(&document, bytes).unwrap();
                }
            }
            Step::Removed => drop(fs::remove_file(&document)),
            Step::Journal => drop(fs::remove_file(&journal)),
            Step::Cut(length) => {
                let file = append(&journal);
                file.set_len(file.metadata().unwrap().len().min(*length)).unwrap();
            }
            Step::Copied => {
                if let Ok(bytes) = fs::read(&journal) {
                    fs::write(journal.with_extension("copy"), bytes).unwrap();
                    fs::rename(journal.with_extension("copy"), &journal).unwrap();
                }
            }
        }
        if let Ok(bytes) = fs::read(&document) {
            older.push(bytes);
        }
    }

    proptest! {
        #[test]
        fn a_summary_is_that_of_the_whole_journal_whatever_becomes_of_the_checkpoint(
            steps in prop::collection::vec(step(), 1..30),
        ) {
            let (mut scene, mut older) = (Scene::new(), Vec::new());
            for step in &steps {
                happen(&mut scene, &mut older, step);
                prop_assert_eq!(scene.checkpoint().summary().unwrap(), scene.full(), "after {:?}", step);
            }
        }
    }
}
