//! `cargo xtask test`: all set-up, then everything that proves the series.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::apply;
use crate::artifact;
use crate::check;
use crate::client;
use crate::extension::{self, Extension};
use crate::git;
use crate::layout;
use crate::process::{self, Steps};
use crate::project::Project;
use crate::python::{self, Venv};
use crate::wheel;

#[derive(clap::Args)]
pub struct Args {
    /// Also run upstream's whole suites of every patched crate and package.
    #[arg(long)]
    upstream: bool,
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    let mut steps = Steps::new(12 + 4 * usize::from(args.upstream));
    steps.step("test the tool itself", || {
        process::run(
            process::cargo()?
                .args(["test", "--quiet", "--manifest-path"])
                .arg(project.root.join("crates/xtask/Cargo.toml"))
                .arg("--target-dir")
                .arg(project.root.join("target/xtask")),
            "test xtask",
        )
    })?;
    steps.step("make upstream/ from the pinned artifacts", || {
        apply::run(project)
    })?;
    steps.step(
        "check patches/, UPSTREAM.md and the workspace against each other",
        || check::run(project, &check::Args::default()),
    )?;
    // The wheel first: the Rust tests share its build of DataFusion.
    let wheel = steps.step(
        "build the patched wheel (the first time: 20 to 40 minutes)",
        || wheel::build(project, false),
    )?;
    let (extension, stock_extension, other_layout) = steps.step(
        "build the example extension, against the patched and the released crates",
        || {
            Ok((
                extension::patched(project)?,
                extension::stock(project)?,
                extension::other_layout(project)?,
            ))
        },
    )?;
    let layouts = steps.step("lay out the FFI types, released and patched", || {
        Ok([
            layout::write(project, layout::STOCK, git::BASE)?,
            layout::write(project, "patched", "HEAD")?,
        ])
    })?;
    steps.step(
        "test the patched crates, the kit and the query shapes",
        || {
            let mut cargo = rust_tests(project, args.upstream)?;
            extension_env(&mut cargo, &extension, &stock_extension)
                .env("REUSE_EXTENSION_OTHER_LAYOUT", &other_layout)
                .env("FFI_LAYOUT_STOCK", &layouts[0])
                .env("FFI_LAYOUT_PATCHED", &layouts[1]);
            process::run(&mut cargo, "test the patched workspace")
        },
    )?;
    let stock = steps.step("install the released wheel", || python::stock(project))?;
    let patched = steps.step("install the patched wheel", || {
        python::patched(project, &wheel)
    })?;
    // The tests that the patches bring, where upstream would run them.
    steps.step("run the patches' Python tests on the wheel", || {
        let tree = project.upstream().join("datafusion-python");
        pytest(&patched, &tree, "the patches' tests", |pytest| {
            pytest.arg("python/tests");
        })?;
        let module = if args.upstream {
            "datafusion"
        } else {
            "datafusion.plan"
        };
        doctests(project, &patched, module)
    })?;
    steps.step("run our own Python tests on the wheel", || {
        pytest(
            &patched,
            &project.root.join("python"),
            "our tests",
            |pytest| {
                extension_env(pytest, &extension, &stock_extension)
                    .arg("tests")
                    .env("STOCK_PYTHON", stock.python());
            },
        )
    })?;
    steps.step(
        "run the suite of a real client, ddxdb, on both wheels",
        || {
            let sdist = artifact::fetch(project, client::pinned(project, "ddxdb")?)?;
            process::run(
                patched
                    .command("python")
                    .arg(project.root.join("python/clients/ddxdb_suite.py"))
                    .arg("--sdist")
                    .arg(sdist)
                    .arg("--stock")
                    .arg(stock.python())
                    .arg("--patched")
                    .arg(patched.python()),
                "compare ddxdb's tests on the released and the patched wheel",
            )
        },
    )?;
    if args.upstream {
        // First what shares the wheel's build.
        steps.step("run upstream's SQL tests on the patched crates", || {
            client::sqllogictest(project)
        })?;
        steps.step(
            "run the suite of a real Rust client, ddx-datafusion, on the patched crates",
            || client::ddx(project),
        )?;
        steps.step(
            "try the query shapes and random plans on the released crates",
            || {
                process::run(
                    &mut released_tests(project)?,
                    "find what the patches repair in the released crates",
                )
            },
        )?;
        steps.step("run upstream's suites of the patched crates", || {
            process::run(&mut upstream_tests(project)?, "run upstream's suites")?;
            process::run(&mut planner_tests(project)?, "run the planner's tests")
        })?;
    }
    steps.finish("test");
    Ok(())
}

fn pytest(
    venv: &Venv,
    folder: &Path,
    what: &str,
    args: impl FnOnce(&mut Command),
) -> Result<()> {
    let mut command = venv.command("python");
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .current_dir(folder);
    args(&mut command);
    process::run(&mut command, &format!("run {what}"))
}

/// The examples in the docstrings of an installed module, with upstream's settings.
fn doctests(project: &Project, venv: &Venv, module: &str) -> Result<()> {
    let tree = project.upstream().join("datafusion-python");
    pytest(venv, &tree, "the docstrings' examples", |pytest| {
        pytest
            .args(["-p", "doctest_names", "--doctest-modules"])
            .args(["--pyargs", module])
            .env("PYTHONPATH", project.root.join("python/plugins"));
    })
}

/// Every test that is asked for, failed ones or not. A snapshot that differs is a failure,
/// never a new snapshot.
fn cargo_test(project: &Project) -> Result<Command> {
    let mut cargo = wheel::cargo(project, "test")?;
    cargo
        .args(["--locked", "--no-fail-fast"])
        .env("INSTA_UPDATE", "no");
    Ok(cargo)
}

/// Ours and datafusion-ffi, with what its integration tests need, in one command: they
/// have the features of the wheel, so that nothing compiles twice. `all` adds the targets
/// that are neither a library nor a test, and the documentation.
fn rust_tests(project: &Project, all: bool) -> Result<Command> {
    let mut cargo = cargo_test(project)?;
    cargo
        .args([
            "-p",
            "reuse-tests",
            "-p",
            "reuse-check",
            "-p",
            "datafusion-ffi",
        ])
        .args(["--features", "datafusion-ffi/integration-tests"]);
    if !all {
        cargo.args(["--lib", "--tests"]);
    }
    Ok(cargo)
}

/// The unit tests and doc tests of the other patched crates. They ask for features that
/// the wheel does not have, so DataFusion is compiled once more for them.
fn upstream_tests(project: &Project) -> Result<Command> {
    let mut cargo = cargo_test(project)?;
    for (name, _) in check::crates(project) {
        if name != "datafusion-ffi" && name != "datafusion" {
            cargo.args(["-p", name]);
        }
    }
    cargo.arg("--");
    skip_without_files(&mut cargo);
    skip(&mut cargo, NEED_NEIGHBOURS);
    Ok(cargo)
}

fn skip_without_files(cargo: &mut Command) {
    for (variable, tests) in NEED_FILES {
        if std::env::var_os(variable).is_none() {
            eprintln!(
                "skipping tests that read files which no package has: set {variable} to the \
                 folder that has them"
            );
            skip(cargo, tests);
        }
    }
}

fn skip(cargo: &mut Command, tests: &[&str]) {
    cargo.args(tests.iter().flat_map(|test| ["--skip", test]));
}

/// The unit tests of the physical planner. Most others of its crate read files that the
/// crate comes without. DataFusion is compiled once more for them, too.
fn planner_tests(project: &Project) -> Result<Command> {
    let mut cargo = cargo_test(project)?;
    cargo.args(["-p", "datafusion", "--lib", "--", "physical_planner::"]);
    skip_without_files(&mut cargo);
    Ok(cargo)
}

/// Upstream's tests that read files of its submodules `arrow-testing` and
/// `parquet-testing`, or those beside the tests of its core, by the variable that says where
/// these are. A test whose name begins with one of these is skipped as well.
const NEED_FILES: &[(&str, &[&str])] = &[
    (
        "ARROW_TEST_DATA",
        &[
            "physical_planner::tests::errors",
            "physical_planner::tests::hash_agg_group_by_partitioned",
            "physical_planner::tests::hash_agg_grouping_set_by_partitioned",
            "physical_planner::tests::hash_agg_grouping_set_input_schema",
            "physical_planner::tests::hash_agg_input_schema",
            "physical_planner::tests::in_list_types_mixed_string_int_error",
            "physical_planner::tests::in_list_types_struct_literal",
            "physical_planner::tests::test_aggregate_explain_shows_count_all",
            "physical_planner::tests::test_all_operators",
            "physical_planner::tests::test_create_cube_expr",
            "physical_planner::tests::test_create_rollup_expr",
            "physical_planner::tests::test_with_csv_plan",
            "physical_planner::tests::test_with_zero_offset_plan",
            "source::tests::test_avro_basic",
            "source::tests::test_avro_timestamp_logical_types",
            "source::tests::test_avro_with_projection",
            "test::test_read_avro_schema_from_reader",
        ],
    ),
    (
        "PARQUET_TEST_DATA",
        &[
            "test_row_group_bloom_filter_pruning_predicate_multiple_expr",
            "test_row_group_bloom_filter_pruning_predicate_simple_expr",
            "test_row_group_bloom_filter_pruning_predicate_sql_in",
            "test_row_group_bloom_filter_pruning_predicate_with_exists_2_values",
            "test_row_group_bloom_filter_pruning_predicate_with_exists_3_values",
            "test_row_group_bloom_filter_pruning_predicate_with_exists_value",
            "test_row_group_bloom_filter_pruning_predicate_with_or_not_eq",
            "test_row_group_bloom_filter_pruning_predicate_without_bloom_filter",
            "row_filter::test::basic_expr_doesnt_prevent_pushdown",
            "row_filter::test::complex_expr_doesnt_prevent_pushdown",
            "row_filter::test::nested_lists_allow_pushdown_checks",
            "row_filter::test::projected_columns_prevent_pushdown",
            "row_filter::test::test_filter_candidate_builder_supports_list_types",
            "row_filter::test::test_filter_type_coercion",
            "cases::plans::dispatch::roundtrip_physical_plan_node",
            "cases::plans::sources::roundtrip_empty_projection",
            "cases::plans::sources::roundtrip_parquet_select_",
        ],
    ),
    (
        "DATAFUSION_TEST_DATA",
        &[
            "cases::plans::tpch::test_round_trip_date_part_display",
            "cases::plans::tpch::test_round_trip_groups_display",
            "cases::plans::tpch::test_round_trip_human_display",
            "cases::plans::tpch::test_round_trip_tpch_queries",
            "cases::plans::tpch::test_serialize_deserialize_tpch_queries",
            "cases::plans::tpch::test_tpch_part_in_list_query_with_real_parquet_data",
        ],
    ),
];

/// Upstream's tests that read files of other packages of its repository, where these lie
/// beside their own.
const NEED_NEIGHBOURS: &[&str] = &[
    "cases::plans::sources::roundtrip_json_source",
    "cases::plans::sources::roundtrip_listing_table_with_schema_metadata",
    "cases::roundtrip_logical_plan::roundtrip_custom_listing_tables_schema",
    "cases::roundtrip_logical_plan::roundtrip_default_codec_json",
    "cases::roundtrip_logical_plan::roundtrip_default_codec_parquet",
    "cases::roundtrip_logical_plan::roundtrip_logical_plan_copy_to_json",
    "cases::roundtrip_logical_plan::roundtrip_logical_plan_copy_to_parquet",
];

/// The truth table and the random plans against the released crates: fails if these no
/// longer give what the table says of them.
fn released_tests(project: &Project) -> Result<Command> {
    let mut cargo = cargo_test(project)?;
    cargo
        .arg("--manifest-path")
        .arg(project.root.join("tests/stock/Cargo.toml"));
    Ok(cargo)
}

/// Where tests find the example extension, built against the patched and the released
/// crates.
pub fn extension_env<'a>(
    command: &'a mut Command,
    patched: &Extension,
    stock: &Extension,
) -> &'a mut Command {
    command
        .env("REUSE_EXTENSION", &patched.library)
        .env("REUSE_EXTENSION_STOCK", &stock.library)
        .env("EXTENSION_PATCHED_WHEEL", &patched.wheel)
        .env("EXTENSION_STOCK_WHEEL", &stock.wheel)
}
