//! The extension as a library for Rust hosts; see `lib.rs`.

mod nodes;
mod root_module;
mod runtime;
mod sql_table;
mod table;
