//! What the kit says of nodes whose behaviour is known, and of DataFusion's own.
//!
//! Run with `INSTA_UPDATE=always` to accept what changed, then read the difference.

mod cost;
mod datafusion_plans;
mod foreign;
mod misuse;
mod node;
mod promises;
mod snapshot;
