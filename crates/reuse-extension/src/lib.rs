//! An FFI extension of DataFusion to copy: a table whose plans keep state while they run,
//! and can be reset and run again from another library.
//!
//! ```text
//!   Python: import reuse_extension     python.rs
//!                    │
//!                    ▼
//!               table.rs               TableProvider: scan() makes a plan
//!                    │
//!                    ▼
//!               nodes/*.rs             ExecutionPlan: run state, reset_state()
//! ```
//!
//! To write an extension whose plans can be run again, start from [`nodes`], which says
//! what a reset has to do, and the node there that is most like yours. `tests/reuse.rs`
//! checks them.
//!
//! The source is the same whatever datafusion-ffi it is built against: with the released
//! one hosts do not reach `reset_state`, with the patched one they do. `cargo xtask snippet`
//! prints what a Cargo.toml needs for the latter.

pub mod nodes;
#[cfg(feature = "python")]
pub mod python;
pub mod runtime;
pub mod table;
