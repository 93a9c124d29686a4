//! What the check cannot work with is an error, and the closures' errors come through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::error::DataFusionError;
use reuse_check::ReuseCheck;

use crate::node::{Data, Kind, NodeExec, SourceExec};

async fn error(check: ReuseCheck) -> DataFusionError {
    check.run().await.expect_err("a report")
}

#[tokio::test]
async fn one_plan_twice() {
    let plan = SourceExec::plan(&Data::new(0..3), 1);
    let check = ReuseCheck::new(move || {
        let plan = Arc::clone(&plan);
        async { Ok(plan) }
    });
    assert_eq!(
        error(check).await.to_string(),
        "Execution error: make_plan returned the same plan twice: it has to plan anew each time"
    );
}

#[tokio::test]
async fn plans_of_different_shapes() {
    let calls = AtomicUsize::new(0);
    let check = ReuseCheck::new(move || {
        let source = SourceExec::plan(&Data::new(0..3), 1);
        let plan = match calls.fetch_add(1, Ordering::SeqCst) {
            0 => NodeExec::plan(Kind::Cache, source),
            _ => source,
        };
        async { Ok(plan) }
    });
    assert_eq!(
        error(check).await.to_string(),
        "Execution error: make_plan returned plans of different shapes: where the first had node 0, CacheExec, another has SourceExec. Plan the same query each time, and let `change` keep what planning looks at"
    );
}

#[tokio::test]
async fn errors_of_the_closures() {
    #[derive(Debug)]
    struct Mine;
    impl std::fmt::Display for Mine {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("mine")
        }
    }
    impl std::error::Error for Mine {}

    let check =
        ReuseCheck::new(|| async { Err(DataFusionError::External(Box::new(Mine))) });
    match error(check).await {
        DataFusionError::External(error) => assert!(error.is::<Mine>()),
        other => panic!("{other}"),
    }

    let data = Data::new(0..3);
    let check = ReuseCheck::new(move || {
        let plan = SourceExec::plan(&data, 1);
        async { Ok(plan) }
    })
    .with_change(|| async { Err(DataFusionError::External(Box::new(Mine))) });
    match error(check).await {
        DataFusionError::External(error) => assert!(error.is::<Mine>()),
        other => panic!("{other}"),
    }

    let check = ReuseCheck::new(|| async { panic!("no plan") });
    assert!(matches!(
        error(check).await,
        DataFusionError::ExecutionJoin(_)
    ));
}

#[tokio::test]
async fn a_dropped_check_ends() {
    struct Sets(Arc<AtomicBool>);
    impl Drop for Sets {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let ended = Arc::new(AtomicBool::new(false));
    let sets = Sets(Arc::clone(&ended));
    let check = ReuseCheck::new(move || {
        let _owned_by_the_check = &sets;
        let source = SourceExec::plan(&Data::new(0..3), 1);
        let plan = NodeExec::plan(Kind::Hangs, source);
        async { Ok(plan) }
    });
    let run = tokio::time::timeout(Duration::from_millis(100), check.run());
    assert!(run.await.is_err());
    tokio::time::timeout(Duration::from_secs(10), async {
        while !ended.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the check goes on");
}
