//! The Python module `reuse_extension`.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_catalog::TableProvider;
use datafusion_common::DataFusionError;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::nodes::Rows;
use super::table::{ReuseTable, Shape, export};

const TABLE: &CStr = c"datafusion_table_provider";
const CODEC: &CStr = c"datafusion_logical_extension_codec";

/// An FFI extension of DataFusion to copy: a table whose plans keep state while they run,
/// and can be reset and run again.
#[pymodule]
mod reuse_extension {
    #[pymodule_export]
    use super::PyReuseTable;
}

/// A table of 64-bit integers whose scan is a plan of the given shape: `build_side`,
/// `one_shot`, `counter` or `local_child`.
///
/// >>> ctx.register_table("t", ReuseTable("counter", [7, 8, 9]))
#[pyclass(name = "ReuseTable", module = "reuse_extension", frozen)]
pub struct PyReuseTable {
    table: Arc<ReuseTable>,
    rows: Arc<Mutex<Vec<i64>>>,
}

#[pymethods]
impl PyReuseTable {
    /// Raises ValueError for a shape that it does not know.
    #[new]
    #[pyo3(signature = (shape, rows = vec![1, 2, 3, 4]))]
    fn new(shape: &str, rows: Vec<i64>) -> PyResult<Self> {
        let shape: Shape = shape.parse().map_err(value_error)?;
        let rows = Arc::new(Mutex::new(rows));
        let table = ReuseTable::try_new(shape, Arc::clone(&rows) as Arc<dyn Rows>)
            .map_err(value_error)?;
        Ok(Self {
            table: Arc::new(table),
            rows,
        })
    }

    /// Changes the rows, for every run that starts from now on.
    fn set_rows(&self, rows: Vec<i64>) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// What `SessionContext.register_table` asks for; `session` is the one it is called on.
    fn __datafusion_table_provider__<'py>(
        &self,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(Arc::clone(&self.table) as _, session)
    }
}

/// `table` for the session that it is registered with.
pub fn capsule<'py>(
    table: Arc<dyn TableProvider>,
    session: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let provider = export(table, codec_of(session)?);
    PyCapsule::new_with_value(session.py(), provider, TABLE)
}

fn codec_of(session: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let capsule = session.call_method0("__datafusion_logical_extension_codec__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let codec = capsule.pointer_checked(Some(CODEC))?;
    // SAFETY: a capsule of this name holds such a struct, and keeps it alive while it is
    // itself, which is until the end of this function.
    let codec = unsafe { codec.cast::<FFI_LogicalExtensionCodec>().as_ref() };
    // SAFETY: `version` takes no argument and is at the same place in every build of 53 to
    // 55. A host of another version may keep it elsewhere; nothing else tells which it is.
    let (theirs, ours) = (unsafe { (codec.version)() }, datafusion_ffi::version());
    if theirs != ours {
        return Err(PyImportError::new_err(format!(
            "reuse_extension was built for DataFusion {ours} and this session is of \
             DataFusion {theirs}: install the extension that was built for it"
        )));
    }
    Ok(codec.clone())
}

/// An error of DataFusion as Python shows it.
pub fn value_error(error: DataFusionError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
