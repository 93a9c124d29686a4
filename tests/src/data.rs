//! The tables that every shape reads, on disk and in memory, in two versions.
//!
//! | table | kind | first version | changed, in place |
//! | --- | --- | --- | --- |
//! | `big` | Parquet, row groups of 1000 rows | `k`, `v` = 0..99999 | |
//! | `small` | Parquet | `k` = 1, 50000 | |
//! | `multi` | four Parquet files of 100 rows | `a` = 0..399 | |
//! | `bc` | CSV | `k` = 1 | `k` = 7, in as many bytes |
//! | `mem` | memory, ten batches | `k` = 0..99, `g` = k % 7 | `k` = 1..100, `g` = 6 - old `g` |
//! | `unbounded` | stream over `mem`'s batches, declared infinite | as `mem` | as `mem` |
//! | `a`, `b` | memory, four rows | `v` = 0..3, `w` = 10 | `v` = 100 |

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use tempfile::TempDir;

use crate::memory::Column;
use crate::shape::Settings;

/// Which values the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    First,
    Changed,
}

/// The tables of one test; its files go when it is dropped.
pub struct Data {
    dir: TempDir,
    k: Column,
    g: Column,
    v: Column,
}

impl Data {
    /// Writes the files and fills the columns with the first version.
    pub fn new() -> Result<Self> {
        let dir = TempDir::new()?;
        let data = Self {
            k: Column::new(100),
            g: Column::new(100),
            v: Column::new(4),
            dir,
        };
        let all = || numbers(0..100_000);
        write_parquet(&data.path("big.parquet"), vec![("k", all()), ("v", all())])?;
        let small = Arc::new(Int64Array::from(vec![1, 50_000]));
        write_parquet(&data.path("small.parquet"), vec![("k", small)])?;
        fs::create_dir(data.path("multi"))?;
        for file in 0..4 {
            let path = data.path(&format!("multi/{file}.parquet"));
            let rows = numbers(file * 100..(file + 1) * 100);
            write_parquet(&path, vec![("a", rows)])?;
        }
        data.set(Version::First)?;
        Ok(data)
    }

    /// Overwrites what differs between the versions, in place.
    ///
    /// Must not be called while a plan over these tables runs.
    pub fn set(&self, version: Version) -> Result<()> {
        let first = version == Version::First;
        self.k.set(|i| if first { i } else { i + 1 });
        self.g.set(|i| if first { i % 7 } else { 6 - i % 7 });
        self.v.set(|i| if first { i } else { 100 });
        // As long as before: a plan keeps the length that it was planned with.
        fs::write(self.path("bc.csv"), if first { "k\n1\n" } else { "k\n7\n" })?;
        Ok(())
    }

    /// A session with every table registered.
    pub async fn session(&self, settings: &Settings) -> Result<SessionContext> {
        let ctx = SessionContext::new_with_config(settings.config()?);
        for (table, file) in [
            ("big", "big.parquet"),
            ("small", "small.parquet"),
            ("multi", "multi/"),
        ] {
            let path = self.path(file).display().to_string();
            ctx.register_parquet(table, path, ParquetReadOptions::default())
                .await?;
        }
        let bc = self.path("bc.csv").display().to_string();
        ctx.register_csv("bc", bc, CsvReadOptions::new()).await?;

        let mem = self.mem()?;
        let stream = Batches(mem.clone());
        let unbounded = StreamingTable::try_new(mem[0].schema(), vec![Arc::new(stream)])?
            .with_infinite_table(true);
        ctx.register_table("unbounded", Arc::new(unbounded))?;
        register(&ctx, "mem", mem)?;
        register(
            &ctx,
            "a",
            vec![batch(vec![
                ("i", numbers(0..4)),
                ("v", self.v.slice(0, self.v.len())),
            ])?],
        )?;
        let ten: ArrayRef = Arc::new(Int64Array::from(vec![10; 4]));
        register(
            &ctx,
            "b",
            vec![batch(vec![("i", numbers(0..4)), ("w", ten)])?],
        )?;
        Ok(ctx)
    }

    /// `text` without what differs from one machine or run to another: the folder of
    /// the files and the byte ranges that a scan splits them into.
    pub fn redact(&self, text: &str) -> String {
        let dir = self.dir.path().display().to_string();
        let text = text
            .replace(&format!("{dir}/"), "")
            // The form of object store paths, which start without a slash.
            .replace(&format!("{}/", dir.trim_start_matches('/')), "");
        let mut parts = text.split(".parquet:");
        let mut redacted = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            redacted.push_str(".parquet:<range>");
            redacted.push_str(rest);
        }
        redacted
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// `mem` as ten batches over the shared columns.
    fn mem(&self) -> Result<Vec<RecordBatch>> {
        (0..self.k.len())
            .step_by(10)
            .map(|row| {
                batch(vec![
                    ("k", self.k.slice(row, 10)),
                    ("g", self.g.slice(row, 10)),
                ])
            })
            .collect()
    }
}

/// One partition of a [`StreamingTable`] that sends these batches.
#[derive(Debug)]
struct Batches(Vec<RecordBatch>);

impl PartitionStream for Batches {
    fn schema(&self) -> &SchemaRef {
        self.0[0].schema_ref()
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = MemoryStream::try_new(self.0.clone(), self.0[0].schema(), None);
        Box::pin(stream.expect("the schema is the batches' own"))
    }
}

fn numbers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, _)| Field::new(*name, DataType::Int64, true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn register(ctx: &SessionContext, name: &str, batches: Vec<RecordBatch>) -> Result<()> {
    let table = MemTable::try_new(batches[0].schema(), vec![batches])?;
    ctx.register_table(name, Arc::new(table))?;
    Ok(())
}

fn write_parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Result<()> {
    let batch = batch(columns)?;
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_paths_and_ranges() {
        let data = Data::new().unwrap();
        let dir = data.dir.path().display().to_string();
        let object = dir.trim_start_matches('/');
        assert_eq!(
            data.redact(&format!("[[{object}/big.parquet:0..123], [{dir}/bc.csv]]")),
            "[[big.parquet:<range>], [bc.csv]]"
        );
    }
}
