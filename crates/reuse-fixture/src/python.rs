//! The Python module `reuse_fixture`.

use std::sync::{Arc, Mutex};

use datafusion_catalog::TableProvider;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::example::python::{capsule, value_error};
use crate::table::Shape;

/// What the tests load: the example's `ReuseTable`, and one whose plans fail.
#[pymodule]
mod reuse_fixture {
    #[pymodule_export]
    use super::PyFailingTable;
    #[pymodule_export]
    use crate::example::python::PyReuseTable;
}

/// A table of the rows 1 to 4 whose plans go wrong once they are reset: `reset_error`,
/// `reset_panic`, `execute_error`, `execute_panic`, `stream_error` or `stream_panic`.
#[pyclass(name = "FailingTable", module = "reuse_fixture", frozen)]
struct PyFailingTable(Arc<dyn TableProvider>);

#[pymethods]
impl PyFailingTable {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let shape: Shape = shape.parse().map_err(value_error)?;
        let rows = Arc::new(Mutex::new(vec![1, 2, 3, 4]));
        shape.table(rows).map(Self).map_err(value_error)
    }

    fn __datafusion_table_provider__<'py>(
        &self,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(Arc::clone(&self.0), session)
    }
}
