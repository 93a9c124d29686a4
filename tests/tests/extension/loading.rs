//! Which files a host loads, and what becomes of a plan whose library is let go.

use std::error::Error;
use std::fs;
use std::path::Path;

use abi_stable::library::RawLibrary;
use datafusion::error::Result;
use reuse_extension_interface::{Rows, load};
use reuse_tests::run::reset;
use reuse_tests::settings::Settings;

use super::host::{Build, Host, path, plan};

/// Both builds have the same layout, so a host loads either, and both.
#[test]
fn both_builds() {
    for build in [Build::Patched, Build::Stock, Build::Patched] {
        load(&build.path()).unwrap_or_else(|error| panic!("{build:?}: {error}"));
    }
}

/// A library of another layout is refused by name, before it is asked for anything.
#[test]
fn another_layout() {
    let path = path("REUSE_EXTENSION_OTHER_LAYOUT");
    let error = refused(&path);
    assert!(
        error.contains("was built with another layout of datafusion-ffi's structs"),
        "{error}"
    );
    let cause = load(&path).err().expect("the layouts differ");
    let cause = cause.source().expect("abi_stable says why").to_string();
    assert!(cause.contains("offsets in FFI_ExecutionPlan"), "{cause}");
}

#[test]
fn no_extension() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    fs::write(&text, "not a library").unwrap();
    for path in [folder.path().join("missing.so"), text] {
        let error = refused(&path);
        assert!(
            error.contains("is no library that can be loaded"),
            "{error}"
        );
    }
}

/// One of those that this process has loaded anyway.
#[cfg(target_os = "linux")]
#[test]
fn another_library() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("libc.so") || path.contains("libm.so"));
    let error = refused(Path::new(libc.expect("a process has a libc")));
    assert!(
        error.contains("no reuse extension for Rust hosts"),
        "{error}"
    );
}

/// The error, which names the file.
fn refused(path: &Path) -> String {
    let error = load(path).err().expect("the file is refused").to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    error
}

/// abi_stable never unloads a library: a plan keeps working when every handle to it, and
/// the file itself, is gone.
#[tokio::test(flavor = "multi_thread")]
async fn library_is_let_go() -> Result<()> {
    for build in [Build::Patched, Build::Stock] {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("extension.so");
        fs::copy(build.path(), &copy)?;
        let handle = RawLibrary::load_at(&copy).unwrap_or_else(|error| panic!("{error}"));
        let library = load(&copy).unwrap_or_else(|error| panic!("{error}"));
        let rows = Rows::new(vec![1, 2]);
        let fresh = plan(library, "one_shot", &rows)?;
        let p = plan(library, "one_shot", &rows)?;
        drop(handle);
        // Where the system lets go of a file in use.
        let _ = folder.close();

        let host = Host::new(&Settings::new(1, true))?;
        let fresh = host.run(&fresh).await;
        assert_eq!(fresh.to_string(), "2 rows: (1) (2)");
        assert_eq!(host.run(&p).await, fresh);
        if build == Build::Patched {
            assert_eq!(host.run(&reset(&p)?).await, fresh);
        }
    }
    Ok(())
}
