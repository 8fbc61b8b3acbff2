//! A policy file of any bytes.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

#[allow(dead_code)]
#[path = "../bodies.rs"]
mod bodies;

// One directory a process: several may fuzz at once.
static SHELF: LazyLock<bodies::Shelf> = LazyLock::new(|| {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/policies");
    bodies::Shelf::new(&target.join(std::process::id().to_string()))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bodies::policy_text(data, &SHELF);
});
