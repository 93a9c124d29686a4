//! The interface, exported by a library that says to have another layout of datafusion-ffi's
//! structs. Its functions are never called: a host that got to them would have loaded it.

use abi_stable::export_root_module;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{RResult, RSlice, RStr, RString};
use reuse_extension_interface::{
    Codec, Extension, ExtensionRef, Made, Plan, Rows, Table,
};

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

extern "C" fn table(_: RStr<'_>, _: Rows, _: Codec) -> Made<Table> {
    loaded()
}

extern "C" fn plan(_: RStr<'_>, _: Rows) -> Made<Plan> {
    loaded()
}

extern "C" fn sql_table(_: RSlice<'_, RString>, _: RStr<'_>, _: Codec) -> Made<Table> {
    loaded()
}

fn loaded<T>() -> Made<T> {
    RResult::RErr("a library of another layout was loaded".into())
}
