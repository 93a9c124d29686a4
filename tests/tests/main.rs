//! All tests over the patched workspace, in one binary.
//!
//! Run with `INSTA_UPDATE=always` to accept what changed, then read the difference.

mod ctes;
mod extension;
mod random;
#[path = "../../crates/reuse-check/tests/kit/snapshot.rs"]
mod snapshot;
mod truth;
