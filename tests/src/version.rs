//! Which version of the tables a run reads, so that two runs can read different data at
//! the same time.
//!
//! ```text
//!   at(First, run P)  ── spawns ── tasks, each at First ──┐
//!                                                         ├── Store ── bytes of that version
//!   at(Changed, run R(P)) ──────── tasks, at Changed ─────┘
//! ```
//!
//! The version belongs to a task and to all that it spawns. DataFusion spawns tasks of
//! its own: they get it from the tracer that it lets a program set.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};

/// Which values the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    First,
    Changed,
}

tokio::task_local! {
    static VERSION: Version;
}

/// Runs `future`, and all that it spawns, on this version.
pub fn at<F: Future>(version: Version, future: F) -> impl Future<Output = F::Output> {
    // More than one test of a program may be the first; all set the same.
    let _ = set_join_set_tracer(&Carry);
    VERSION.scope(version, future)
}

/// The version that this task is at.
pub fn current() -> Version {
    VERSION
        .try_with(|version| *version)
        .unwrap_or(Version::First)
}

struct Carry;

impl JoinSetTracer for Carry {
    fn trace_future(
        &self,
        future: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        VERSION.scope(current(), future).boxed()
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        let version = current();
        Box::new(move || VERSION.sync_scope(version, block))
    }
}

/// Files in memory, each in two versions.
#[derive(Debug, Default)]
pub struct Store {
    first: InMemory,
    changed: InMemory,
}

impl Store {
    /// Keeps a file. Both versions must have the same length, which a plan keeps from
    /// the time that it was planned.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn put(&self, path: &str, [first, changed]: [Vec<u8>; 2]) {
        assert_eq!(first.len(), changed.len(), "{path} changes its length");
        let path = Path::from(path);
        for (store, bytes) in [(&self.first, first), (&self.changed, changed)] {
            let put = store.put(&path, PutPayload::from(bytes));
            futures::executor::block_on(put).expect("memory takes any file");
        }
    }

    fn current(&self) -> &InMemory {
        match current() {
            Version::First => &self.first,
            Version::Changed => &self.changed,
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

fn read_only<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented {
        operation: operation.to_string(),
        implementer: "Store".to_string(),
    })
}

#[async_trait]
impl ObjectStore for Store {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.current().get_opts(path, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.current().list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.current().list_with_delimiter(prefix).await
    }

    async fn put_opts(
        &self,
        _: &Path,
        _: PutPayload,
        _: PutOptions,
    ) -> Result<PutResult> {
        read_only("put_opts")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        read_only("put_multipart_opts")
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        futures::stream::once(async { read_only("delete_stream") }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only("copy_opts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::runtime::{JoinSet, SpawnedTask};

    #[tokio::test(flavor = "multi_thread")]
    async fn spawned_tasks_are_at_their_spawners_version() {
        let seen = at(Version::Changed, async {
            let task = SpawnedTask::spawn(async {
                let mut inner = JoinSet::new();
                inner.spawn(async { current() });
                inner.join_next().await.unwrap().unwrap()
            });
            let block = SpawnedTask::spawn_blocking(current);
            [
                task.join().await.unwrap(),
                block.join().await.unwrap(),
                current(),
            ]
        });
        let other = at(Version::First, async { current() });
        let (seen, other) = tokio::join!(seen, other);
        assert_eq!(seen, [Version::Changed; 3]);
        assert_eq!(other, Version::First);
    }
}
