//! What the kit says of nodes whose behaviour is known, and of DataFusion's own.
//!
//! Run with `INSTA_UPDATE=always` to accept what changed, then read the difference.

#[path = "kit/cost.rs"]
mod cost;
#[path = "kit/datafusion_plans.rs"]
mod datafusion_plans;
#[path = "kit/foreign.rs"]
mod foreign;
#[path = "kit/misuse.rs"]
mod misuse;
#[path = "kit/node.rs"]
mod node;
#[path = "kit/promises.rs"]
mod promises;
