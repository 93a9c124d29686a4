//! What goes wrong inside of the library is an error here, and the process goes on.

use std::sync::Arc;

use datafusion::error::Result;
use reuse_extension_interface::Rows;
use reuse_tests::run::{Outcome, reset};
use reuse_tests::settings::Settings;

use super::host::{Build, Host, made, plan};
use crate::snapshot::assert_snapshot;

/// Of `reset_state`: the plan that should have been copied still runs.
#[tokio::test(flavor = "multi_thread")]
async fn reset_state() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let mut report = String::new();
    for shape in ["reset_error", "reset_panic"] {
        let p = plan(Build::Patched.library(), shape, &Rows::new(vec![1, 2]))?;
        let fresh = host.run(&p).await;
        for _ in 0..2 {
            let error = reset(&p).expect_err(shape).to_string();
            report += &format!("{shape}: {error}\n");
        }
        assert_eq!(host.run(&p).await, fresh, "{shape}");

        // A library that cannot be asked cannot fail either.
        let p = plan(Build::Stock.library(), shape, &Rows::new(vec![1, 2]))?;
        assert_eq!(host.run(&reset(&p)?).await, fresh, "{shape}");
    }
    assert_snapshot("failures_of_reset_state", &report);
    Ok(())
}

/// Of a reset copy's `execute` and of its stream.
#[tokio::test(flavor = "multi_thread")]
async fn runs() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let mut report = String::new();
    for shape in [
        "execute_error",
        "execute_panic",
        "stream_error",
        "stream_panic",
    ] {
        let p = plan(Build::Patched.library(), shape, &Rows::new(vec![1, 2]))?;
        let fresh = host.run(&p).await;
        let copy = reset(&p)?;
        for _ in 0..2 {
            let Outcome::Error(error) = host.run(&copy).await else {
                panic!("{shape} is no error");
            };
            report += &format!("{shape}: {error}\n");
        }
        assert_eq!(host.run(&p).await, fresh, "{shape}");
    }
    assert_snapshot("failures_of_runs", &report);
    Ok(())
}

/// Of the functions of the root module.
#[test]
fn root_module() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let rows = Rows::new(vec![]);
    for build in [Build::Patched, Build::Stock] {
        let library = build.library();
        for (shape, expected) in [
            ("none", "the extension has no shape `none`"),
            ("chain 0", "a plan has one node at least"),
            ("panic", "panic: deliberate panic of the library"),
        ] {
            let of_plan = made(library.plan()(shape.into(), rows.clone())).err();
            let of_table = host.table(library, shape, &rows).err();
            for error in [of_plan, of_table] {
                let error = error.expect(shape).to_string();
                assert!(error.contains(expected), "{shape}: {error}");
            }
        }
    }
    for (setup, query, expected) in [
        ("SELECT 1 +", "SELECT 1", "SQL error: ParserError"),
        (
            "SELECT 1",
            "SELECT a FROM t",
            "table 'datafusion.public.t' not found",
        ),
    ] {
        let table = host.sql_table(Build::Patched.library(), &[setup.to_string()], query);
        let error = table.expect_err(query).to_string();
        assert!(error.contains(expected), "{error}");
    }
    Ok(())
}

/// Two libraries that fail in one plan do not mix up: see also `trees`.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_copy_leaves_the_others() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let rows = Rows::new(vec![1, 2]);
    let failing = plan(Build::Patched.library(), "execute_panic", &rows)?;
    let counter = plan(Build::Patched.library(), "counter", &rows)?;
    let fresh = host.run(&counter).await;
    for _ in 0..3 {
        let failed = host.run(&reset(&failing)?).await.to_string();
        assert!(failed.contains("deliberate panic of execute"), "{failed}");
        assert_eq!(host.run(&reset(&Arc::clone(&counter))?).await, fresh);
    }
    Ok(())
}
