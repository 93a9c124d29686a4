//! An FFI extension of DataFusion to copy: tables whose plans keep state while they run,
//! and can be reset and run again from another library.
//!
//! ```text
//!   Python: import reuse_extension      Rust: reuse_extension_interface::load(path)
//!                │ python.rs                          │ root_module.rs
//!                └───────────────┬────────────────────┘
//!                                ▼
//!                 table.rs, sql_table.rs   TableProvider: scan() makes a plan
//!                                │
//!                                ▼
//!                     nodes/*.rs           ExecutionPlan: run state, reset_state()
//! ```
//!
//! To write an extension whose plans can be run again, start from [`nodes`], which says
//! what a reset has to do, and the node there that is most like yours.
//!
//! This file makes the Python module, a wheel with `maturin build`; `rust_host.rs` makes the
//! library for Rust hosts from the same modules, with
//! `cargo build --example reuse_extension_rust`. The source is the same whatever
//! datafusion-ffi it is built against: with the released one hosts do not reach
//! `reset_state`, with the patched one they do. `cargo xtask snippet` prints what a
//! Cargo.toml needs for the latter.

mod nodes;
mod python;
mod runtime;
mod sql_table;
mod table;
