//! Runs one physical plan in every way that a user of it could, and says what each
//! run gave.
//!
//! ```text
//!              tables (data)                       settings
//!                    │                                │
//!   SQL (shape) ─────┴──────────────┬─────────────────┘
//!                                   ▼
//!               ┌──── a plan, planned anew for each line ────┐
//!               │                   │                        │
//!        run, run again      run, reset, run       change the data, ...
//!               │                   │                        │
//!               └───────────────────┼────────────────────────┘
//!                                   ▼
//!             outcome of each run beside a fresh plan's (compare)
//! ```
//!
//! The tests under `tests/` name the shapes, check what must hold and keep the text
//! of [`compare::Runs`] as a snapshot.

pub mod compare;
pub mod data;
pub mod inspect;
pub mod memory;
pub mod nodes;
pub mod run;
pub mod shape;
pub mod tables;
pub mod version;
