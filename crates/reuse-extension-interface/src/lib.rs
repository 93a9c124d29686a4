//! What a Rust host and the example extension agree on.
//!
//! ```text
//!   host                                    library
//!   ────                                    ───────
//!   load(path) ──► layouts equal? ──no──► error, nothing of the library has run
//!                       │ yes
//!                       ▼
//!                  same major version of DataFusion? ──no──► error
//!                       │ yes
//!                       ▼
//!                  ExtensionRef { table, sql_table, plan }
//!                       │
//!                       └─► FFI_TableProvider, FFI_ExecutionPlan
//! ```
//!
//! abi_stable compares the types of this crate, as both sides were compiled with them, and
//! with them what [`layout`] knows of the `FFI_*` structs. Two builds of datafusion-ffi
//! that lay these out differently, such as two major versions, do not get past [`load`].
//!
//! A loaded library stays loaded: abi_stable never unloads one, since tables, plans, their
//! streams and anything that these have spawned run its code. There is no handle to drop
//! too early.

mod layout;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use abi_stable::external_types::RMutex;
use abi_stable::library::{LibraryError, RootModule, lib_header_from_path};
use abi_stable::sabi_types::{VersionNumber, VersionStrings};
use abi_stable::std_types::{RArc, RResult, RSlice, RStr, RString, RVec};
use abi_stable::{StableAbi, declare_root_module_statics, package_version_strings};
use datafusion_ffi::execution_plan::FFI_ExecutionPlan;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::table_provider::FFI_TableProvider;

use crate::layout::LAYOUT;

/// The rows of a table. The host and the table share them, so that the host can change
/// them between two runs.
#[repr(transparent)]
#[derive(Clone, StableAbi)]
pub struct Rows(RArc<RMutex<RVec<i64>>>);

impl Rows {
    pub fn new(rows: Vec<i64>) -> Self {
        Self(RArc::new(RMutex::new(rows.into())))
    }

    /// The rows, for every run that starts from now on.
    pub fn set(&self, rows: Vec<i64>) {
        *self.0.lock() = rows.into();
    }

    /// The rows as they are now.
    pub fn get(&self) -> Vec<i64> {
        self.0.lock().to_vec()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rows").field(&self.get()).finish()
    }
}

/// A table of the library.
#[repr(transparent)]
#[derive(StableAbi)]
#[sabi(unsafe_opaque_fields, tag = LAYOUT)]
pub struct Table(pub FFI_TableProvider);

/// A plan of the library.
#[repr(transparent)]
#[derive(StableAbi)]
#[sabi(unsafe_opaque_fields, tag = LAYOUT)]
pub struct Plan(pub FFI_ExecutionPlan);

/// The host's codec, with which it and a table exchange expressions.
#[repr(transparent)]
#[derive(StableAbi)]
#[sabi(unsafe_opaque_fields, tag = LAYOUT)]
pub struct Codec(pub FFI_LogicalExtensionCodec);

/// What the library has. An error and a panic inside of a function come back as the text of
/// an error.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ExtensionRef)))]
#[sabi(missing_field(panic))]
pub struct Extension {
    /// The major version that datafusion-ffi has there: what the fields of its structs mean.
    pub datafusion: u64,

    /// A table over `rows` whose scan is a plan of the shape that the name says. The
    /// library's `Shape` lists the names; one that it does not know is an error.
    pub table: extern "C" fn(shape: RStr<'_>, rows: Rows, codec: Codec) -> Made<Table>,

    /// The plan that a scan of such a table gives, without a session.
    pub plan: extern "C" fn(shape: RStr<'_>, rows: Rows) -> Made<Plan>,

    /// A table whose scan is the whole plan of `query`, planned by the library's own
    /// session under the settings of the session that scans. `setup` holds the statements
    /// that create the tables that the query reads. An error if the library has no SQL.
    #[sabi(last_prefix_field)]
    pub sql_table: extern "C" fn(
        setup: RSlice<'_, RString>,
        query: RStr<'_>,
        codec: Codec,
    ) -> Made<Table>,
}

/// What a function of the library gives.
pub type Made<T> = RResult<T, RString>;

impl RootModule for ExtensionRef {
    declare_root_module_statics! {ExtensionRef}
    const BASE_NAME: &'static str = "reuse_extension";
    const NAME: &'static str = "reuse_extension";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// Loads the extension in the file at `path`. Several can be loaded; loading one again
/// gives the same.
///
/// # Errors
///
/// If the file is no library, is one without this root module, or was built with another
/// layout of what crosses the boundary. Of the library's code, only its initialisers and
/// abi_stable's own have run then.
pub fn load(path: &Path) -> Result<ExtensionRef, LoadError> {
    // Not `RootModule::load_from`, which keeps the first library that it loaded for all
    // others of the same interface.
    lib_header_from_path(path)
        .and_then(|header| header.init_root_module::<ExtensionRef>())
        .and_then(of_our_version)
        .map_err(|cause| LoadError {
            path: path.to_path_buf(),
            cause,
        })
}

fn of_our_version(extension: ExtensionRef) -> Result<ExtensionRef, LibraryError> {
    let version = |major: u64| VersionNumber {
        major: major as u32,
        minor: 0,
        patch: 0,
    };
    let (ours, theirs) = (datafusion_ffi::version(), extension.datafusion());
    if ours == theirs {
        return Ok(extension);
    }
    Err(LibraryError::IncompatibleVersionNumber {
        library_name: ExtensionRef::NAME,
        expected_version: version(ours),
        actual_version: version(theirs),
    })
}

/// Why [`load`] refused a file.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    cause: LibraryError,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.cause {
            LibraryError::AbiInstability(_) => write!(
                f,
                "{path} was built with another layout of datafusion-ffi's structs or of \
                 this interface than the host: build both with the same crates"
            ),
            LibraryError::IncompatibleVersionNumber { .. } => write!(
                f,
                "{path} was built with another version of DataFusion or of this interface \
                 than the host: build both with the same crates"
            ),
            LibraryError::OpenError { .. } => {
                write!(f, "{path} is no library that can be loaded here")
            }
            LibraryError::GetSymbolError { .. } => {
                write!(
                    f,
                    "{path} is a library, but no reuse extension for Rust hosts"
                )
            }
            _ => write!(f, "{path} cannot be loaded as a reuse extension"),
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}
