//! The runtime that this library's plans run on.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// A handle to hand to every FFI struct that is made here.
///
/// The host polls our streams on its own threads, and its Tokio is another copy of Tokio
/// than ours: there, a node that spawns a task, waits for a timer or reads a file would
/// find no runtime and panic. With this handle datafusion-ffi enters our runtime around
/// every such call.
pub fn handle() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("reuse-extension")
            .enable_all()
            .build()
            .expect("the system has two threads to give")
    });
    runtime.handle().clone()
}
