//! The check of unwanted files: sandboxed commands of killed runs left them at paths where a
//! sandboxed command must not create files.

use std::path::Path;

use pitcrew_process::sandbox::{Appeared, Unfinished};

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;

pub(super) fn look(root: &Path) -> Vec<Fault> {
    let planted = Unfinished::below(root).into_iter().filter_map(|command| {
        let places: Vec<_> = command.appeared().iter().map(|path| path.display().to_string()).collect();
        let detail = format!(
            "a sandboxed command of a run that was killed made what decides rights or runs by itself: {}",
            places.join(", ")
        );
        let finding = Finding::new("planted", detail);
        (!places.is_empty()).then(|| Fault::mended_by(Remedy::PutAside(command), "put aside", finding))
    });
    planted.collect()
}

pub(super) fn put_aside(command: Unfinished) -> Mended {
    let Appeared { aside, left } = command.put_aside();
    if left.is_empty() {
        Mended::Done(format!("put aside: {}", aside.join("; ")))
    } else {
        Mended::Left(left.join("; "))
    }
}
