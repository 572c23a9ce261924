//! Runs the conformance suite on both backends.

use std::sync::Arc;

use pitcrew_store::conformance::CHECKS;
use pitcrew_store::{Backend, Durability, FileBackend, FileOptions, MemoryBackend};

async fn pass_all(mut empty: impl FnMut() -> Arc<dyn Backend>) {
    for check in CHECKS {
        if let Err(failure) = (check.run)(empty()).await {
            panic!("{}: {failure:?}", check.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_passes_every_check() {
    pass_all(|| Arc::new(MemoryBackend::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_pass_every_check() {
    for durability in [Durability::Disk, Durability::Process] {
        let mut roots = Vec::new();
        pass_all(|| {
            let root = tempfile::tempdir().unwrap();
            let options = FileOptions { durability, ..FileOptions::default() };
            let backend = FileBackend::open(root.path(), options);
            roots.push(root);
            Arc::new(backend)
        })
        .await;
    }
}
