//! The extension as a library for Rust hosts; see `lib.rs`.

#[path = "../../reuse-extension/src/lib.rs"]
pub mod example;
mod failing;
mod pass_through;
mod root_module;
#[cfg(feature = "sql")]
mod sql_table;
mod table;
