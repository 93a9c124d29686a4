//! The extension that the tests of this repository load: all of the example, nodes that
//! fail, plans of many nodes to measure, and tables that are queries. Nothing here is to be
//! copied but `root_module.rs`, by a library for Rust hosts.
//!
//! This file makes the Python module, a wheel; `rust_host.rs` makes the library for Rust
//! hosts from the same modules.
//!
//! The example is compiled in, not linked: cargo has one place for all builds of a package
//! that is a cdylib, and would build it anew for each set of features.

#[path = "../../reuse-extension/src/lib.rs"]
pub mod example;
pub mod failing;
pub mod pass_through;
#[cfg(feature = "python")]
mod python;
pub mod table;
