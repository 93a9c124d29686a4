//! What Rust hosts call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use abi_stable::export_root_module;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{RResult, RSlice, RStr, RString};
use datafusion_common::Result;
use datafusion_ffi::execution_plan::FFI_ExecutionPlan;
use reuse_extension_interface::{
    Codec, Extension, ExtensionRef, Made, Plan, Rows, Table,
};

use crate::example::runtime;
use crate::example::table::export;
use crate::table::Shape;

#[export_root_module]
fn root_module() -> ExtensionRef {
    Extension {
        datafusion: datafusion_ffi::version(),
        table,
        plan,
        sql_table,
    }
    .leak_into_prefix()
}

extern "C" fn table(shape: RStr<'_>, rows: Rows, codec: Codec) -> Made<Table> {
    made(|| {
        let shape: Shape = shape.as_str().parse()?;
        Ok(Table(export(shape.table(Arc::new(rows))?, codec.0)))
    })
}

extern "C" fn plan(shape: RStr<'_>, rows: Rows) -> Made<Plan> {
    made(|| {
        let shape: Shape = shape.as_str().parse()?;
        let plan = shape.plan(Arc::new(rows))?;
        Ok(Plan(FFI_ExecutionPlan::new(plan, Some(runtime::handle()))))
    })
}

#[cfg(feature = "sql")]
extern "C" fn sql_table(
    setup: RSlice<'_, RString>,
    query: RStr<'_>,
    codec: Codec,
) -> Made<Table> {
    made(|| {
        let setup: Vec<_> = setup.iter().map(RString::to_string).collect();
        let table = crate::sql_table::SqlTable::try_new(&setup, query.as_str())?;
        Ok(Table(export(Arc::new(table), codec.0)))
    })
}

#[cfg(not(feature = "sql"))]
extern "C" fn sql_table(_: RSlice<'_, RString>, _: RStr<'_>, _: Codec) -> Made<Table> {
    RResult::RErr("the library was built without the feature `sql`".into())
}

/// Runs the body of a function of the root module. An error becomes its text, as the two
/// libraries have different error types, and so does a panic: one that left an
/// `extern "C"` function would end the process.
fn made<T>(body: impl FnOnce() -> Result<T>) -> Made<T> {
    // A panic leaves nothing behind that a later call could find half done: each call makes
    // all that it changes.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => RResult::ROk(value),
        Ok(Err(error)) => RResult::RErr(error.to_string().into()),
        Err(payload) => RResult::RErr(format!("panic: {}", text(&*payload)).into()),
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("its payload is no text")
}
