//! The tests that `tests/stock` builds against the released crates.

mod random;
#[path = "../../crates/reuse-check/tests/kit/snapshot.rs"]
mod snapshot;
mod truth;
