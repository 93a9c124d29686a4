//! The layout of what crosses the boundary, as a value that abi_stable compares when it
//! loads a library.
//!
//! The `FFI_*` structs do not implement `StableAbi`: to abi_stable they are opaque bytes,
//! and a library with a field more would be loaded and crash. So their sizes, alignments
//! and offsets become a [`Tag`] on every type of this interface that holds one.

use std::mem::offset_of;

use abi_stable::rslice;
use abi_stable::type_layout::Tag;
use datafusion_ffi::arrow_wrappers::{WrappedArray, WrappedSchema};
use datafusion_ffi::config::FFI_ConfigOptions;
use datafusion_ffi::execution::{FFI_TaskContext, FFI_TaskContextProvider};
use datafusion_ffi::execution_plan::FFI_ExecutionPlan;
use datafusion_ffi::physical_expr::FFI_PhysicalExpr;
use datafusion_ffi::plan_properties::FFI_PlanProperties;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::record_batch_stream::FFI_RecordBatchStream;
use datafusion_ffi::session::config::FFI_SessionConfig;
use datafusion_ffi::table_provider::FFI_TableProvider;
use datafusion_ffi::udaf::FFI_AggregateUDF;
use datafusion_ffi::udf::FFI_ScalarUDF;
use datafusion_ffi::udwf::FFI_WindowUDF;
use datafusion_ffi::util::{FFI_Option, FFI_Result};

/// `"name" => [size, alignment]` of each type.
macro_rules! sizes {
    ($($type:ty),* $(,)?) => {
        Tag::map(rslice![$(Tag::kv(
            Tag::str(stringify!($type)),
            Tag::arr(rslice![
                Tag::uint(size_of::<$type>() as u64),
                Tag::uint(align_of::<$type>() as u64),
            ]),
        )),*])
    };
}

/// `"name" => offset` of each field.
macro_rules! offsets {
    ($type:ty: $($field:ident),* $(,)?) => {
        Tag::map(rslice![$(Tag::kv(
            Tag::str(stringify!($field)),
            Tag::uint((SHIFT + offset_of!($type, $field)) as u64),
        )),*])
    };
}

/// As if the struct had one more field, before all others.
const SHIFT: usize = if cfg!(feature = "other-layout") { 8 } else { 0 };

/// Two libraries can share tables and plans if this is equal in both. What datafusion-ffi
/// does not export has to be covered by its major version, which [`load`](crate::load)
/// compares.
pub(crate) const LAYOUT: Tag = Tag::map(rslice![
    Tag::kv(
        Tag::str("size and alignment, in bytes"),
        sizes![
            FFI_AggregateUDF,
            FFI_ConfigOptions,
            FFI_ExecutionPlan,
            FFI_LogicalExtensionCodec,
            FFI_Option<FFI_ExecutionPlan>,
            FFI_PhysicalExpr,
            FFI_PlanProperties,
            FFI_RecordBatchStream,
            FFI_Result<FFI_ExecutionPlan>,
            FFI_ScalarUDF,
            FFI_SessionConfig,
            FFI_TableProvider,
            FFI_TaskContext,
            FFI_TaskContextProvider,
            FFI_WindowUDF,
            WrappedArray,
            WrappedSchema,
        ],
    ),
    // The struct that the patches of this repository are about.
    Tag::kv(
        Tag::str("offsets in FFI_ExecutionPlan, in bytes"),
        offsets![FFI_ExecutionPlan:
            properties,
            children,
            apply_expressions,
            dynamic_expressions_produced,
            with_new_children,
            name,
            execute,
            repartitioned,
            metrics,
            partition_statistics,
            clone,
            release,
            version,
            private_data,
            library_marker_id,
        ],
    ),
]);
