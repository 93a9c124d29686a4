//! Plans of another library: the example extension, built against the patched crates and,
//! from the same source, against the released ones.
//!
//! ```text
//!   this test ── patched datafusion-ffi ──┬── REUSE_EXTENSION        patched
//!                                         └── REUSE_EXTENSION_STOCK  released
//! ```
//!
//! Nothing is simulated: each library has DataFusion, Tokio and a panic handler of its own.
//! Where a reset is not forwarded, as for the released one, its tests show what the state
//! of the first run makes of the second.

mod contract;
mod failures;
mod host;
mod loading;
mod operators;
mod trees;
