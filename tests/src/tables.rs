//! Tables of any kind in two versions: files in a [`Store`], streams, and memory that
//! changes in place.
//!
//! A run reads the version that it is [at](crate::version::at). Only memory tables do
//! not: [`Tables::set`] changes them for all plans, between runs.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use arrow::json::LineDelimitedWriter;
use datafusion::arrow_avro::writer::AvroWriter;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::options::ArrowReadOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{
    AvroReadOptions, CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext,
    col,
};

use crate::memory::Column;
use crate::settings::Settings;
use crate::version::{Store, Version, current};

/// Where the files are, for DataFusion.
const URL: &str = "test://tables/";

/// The rows of one file or partition, before and after.
pub type Versions = [RecordBatch; 2];

/// How a table is kept.
#[derive(Clone, Debug)]
pub enum Format {
    /// Row groups of this many rows.
    Parquet(usize),
    /// As [`Format::Parquet`], sorted by this column, which the plan may rely on.
    SortedParquet(usize, &'static str),
    Csv,
    Json,
    Arrow,
    Avro,
    /// A stream for each partition, in batches of this many rows.
    Stream(usize),
    /// As [`Format::Stream`], declared infinite.
    UnboundedStream(usize),
}

struct Table {
    name: String,
    format: Format,
    /// The streams of a table that is no file.
    partitions: Vec<Arc<dyn PartitionStream>>,
    schema: SchemaRef,
}

/// A set of tables.
#[derive(Default)]
pub struct Tables {
    store: Arc<Store>,
    tables: Vec<Table>,
}

impl Tables {
    /// Adds a table of these files or partitions.
    pub fn add(&mut self, name: &str, format: Format, parts: &[Versions]) -> Result<()> {
        let mut partitions: Vec<Arc<dyn PartitionStream>> = vec![];
        for (index, part) in parts.iter().enumerate() {
            if let Format::Stream(rows) | Format::UnboundedStream(rows) = format {
                let [first, changed] = part;
                partitions.push(Arc::new(Batches {
                    first: split(first, rows),
                    changed: split(changed, rows),
                    schema: first.schema(),
                }));
                continue;
            }
            type Write = fn(&Format, &RecordBatch) -> Result<Vec<u8>>;
            let (extension, write): (_, Write) = match format {
                Format::Csv => ("csv", csv),
                Format::Json => ("json", json),
                Format::Arrow => ("arrow", ipc),
                Format::Avro => ("avro", avro),
                _ => ("parquet", parquet),
            };
            let [first, changed] = part;
            let mut bytes = [write(&format, first)?, write(&format, changed)?];
            let len = bytes[0].len().max(bytes[1].len());
            for bytes in &mut bytes {
                pad(&format, bytes, len);
            }
            self.store
                .put(&format!("{name}/{index}.{extension}"), bytes);
        }
        self.tables.push(Table {
            name: name.to_string(),
            format,
            partitions,
            schema: parts[0][0].schema(),
        });
        Ok(())
    }

    /// A session with every table registered, planning on the version that this is at.
    pub async fn session(&self, settings: &Settings) -> Result<SessionContext> {
        // Planning would keep the metadata of Parquet files, and a scan use what
        // planning kept, of the version that it was.
        let mut runtime = RuntimeEnvBuilder::new().with_metadata_cache_limit(0);
        if let Some(bytes) = settings.memory {
            runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
        }
        let ctx =
            SessionContext::new_with_config_rt(settings.config()?, runtime.build_arc()?);
        let url = ListingTableUrl::parse(URL)?.object_store();
        let store = Arc::<Store>::clone(&self.store);
        ctx.register_object_store(url.as_ref(), store);
        for table in &self.tables {
            let name = table.name.as_str();
            let path = format!("{URL}{name}/");
            match &table.format {
                Format::Parquet(_) => {
                    let options = ParquetReadOptions::default();
                    ctx.register_parquet(name, path, options).await?;
                }
                Format::SortedParquet(_, by) => {
                    let order = vec![vec![col(*by).sort(true, false)]];
                    let options = ParquetReadOptions::default().file_sort_order(order);
                    ctx.register_parquet(name, path, options).await?;
                }
                Format::Csv => {
                    let options = CsvReadOptions::new().schema(&table.schema);
                    ctx.register_csv(name, path, options).await?;
                }
                Format::Json => {
                    let options = JsonReadOptions::default().schema(&table.schema);
                    ctx.register_json(name, path, options).await?;
                }
                Format::Arrow => {
                    let options = ArrowReadOptions::default();
                    ctx.register_arrow(name, path, options).await?;
                }
                Format::Avro => {
                    let options = AvroReadOptions::default();
                    ctx.register_avro(name, path, options).await?;
                }
                Format::Stream(_) | Format::UnboundedStream(_) => {
                    let infinite = matches!(table.format, Format::UnboundedStream(_));
                    let stream = StreamingTable::try_new(
                        Arc::clone(&table.schema),
                        table.partitions.clone(),
                    )?;
                    ctx.register_table(
                        name,
                        Arc::new(stream.with_infinite_table(infinite)),
                    )?;
                }
            }
        }
        Ok(ctx)
    }
}

/// A table in memory, of columns without nulls that change in place.
pub struct Memory {
    name: &'static str,
    columns: Vec<(&'static str, Column, [Vec<i64>; 2])>,
    /// Rows of a batch.
    rows: usize,
}

impl Memory {
    pub fn new(
        name: &'static str,
        rows: usize,
        columns: Vec<(&'static str, [Vec<i64>; 2])>,
    ) -> Self {
        let columns = columns
            .into_iter()
            .map(|(name, values)| (name, Column::new(values[0].len()), values))
            .collect();
        let table = Self {
            name,
            columns,
            rows,
        };
        table.set(Version::First);
        table
    }

    /// Overwrites the values in place. Must not be called while a plan over this table
    /// runs.
    pub fn set(&self, version: Version) {
        for (_, column, values) in &self.columns {
            let values = &values[usize::from(version == Version::Changed)];
            column.set(|i| values[i as usize]);
        }
    }

    /// Registers the table over the shared columns.
    pub fn register(&self, ctx: &SessionContext) -> Result<()> {
        let fields: Vec<_> = self
            .columns
            .iter()
            .map(|(name, _, _)| Field::new(*name, DataType::Int64, true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let len = self.columns[0].1.len();
        let batches = (0..len)
            .step_by(self.rows)
            .map(|row| {
                let rows = self.rows.min(len - row);
                let arrays = self
                    .columns
                    .iter()
                    .map(|(_, column, _)| column.slice(row, rows))
                    .collect();
                Ok(RecordBatch::try_new(Arc::clone(&schema), arrays)?)
            })
            .collect::<Result<Vec<_>>>()?;
        let table = MemTable::try_new(schema, vec![batches])?;
        ctx.register_table(self.name, Arc::new(table))?;
        Ok(())
    }
}

/// `batch`, and the same with its `columns` turned by so many rows: the values of each
/// column stay the same, and so what planning knows of them, but the rows do not.
pub fn turned(batch: RecordBatch, columns: &[(&str, usize)]) -> Result<Versions> {
    let mut arrays = batch.columns().to_vec();
    for (column, by) in columns {
        let index = batch.schema().index_of(column)?;
        let rows = batch.num_rows();
        let order = UInt32Array::from_iter_values(
            (0..rows).map(|row| ((row + by) % rows.max(1)) as u32),
        );
        arrays[index] = take(&arrays[index], &order, None)?;
    }
    let changed = RecordBatch::try_new(batch.schema(), arrays)?;
    Ok([batch, changed])
}

/// A batch of nullable columns.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// The rows of `batches` in so many parts.
pub fn parts(batches: &[RecordBatch], parts: usize) -> Result<Vec<RecordBatch>> {
    let whole = concat_batches(&batches[0].schema(), batches)?;
    Ok(split(&whole, whole.num_rows().div_ceil(parts).max(1)))
}

fn split(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    (0..batch.num_rows())
        .step_by(rows)
        .map(|row| batch.slice(row, rows.min(batch.num_rows() - row)))
        .collect()
}

/// One partition of a [`StreamingTable`].
#[derive(Debug)]
struct Batches {
    first: Vec<RecordBatch>,
    changed: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl PartitionStream for Batches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = match current() {
            Version::First => self.first.clone(),
            Version::Changed => self.changed.clone(),
        };
        let stream = MemoryStream::try_new(batches, Arc::clone(&self.schema), None);
        Box::pin(stream.expect("the schema is the batches' own"))
    }
}

fn parquet(format: &Format, batch: &RecordBatch) -> Result<Vec<u8>> {
    let (Format::Parquet(rows) | Format::SortedParquet(rows, _)) = format else {
        unreachable!("called for Parquet alone")
    };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(*rows))
        .build();
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(bytes)
}

fn csv(_: &Format, batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    arrow::csv::Writer::new(&mut bytes).write(batch)?;
    Ok(bytes)
}

fn json(_: &Format, batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    let mut writer = LineDelimitedWriter::new(&mut bytes);
    writer.write(batch)?;
    writer.finish()?;
    Ok(bytes)
}

fn ipc(_: &Format, batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    // DataFusion expects the schema where eight bytes of padding put it, unless the file
    // is on a disk.
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let mut writer =
        FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options)?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

fn avro(_: &Format, batch: &RecordBatch) -> Result<Vec<u8>> {
    let external = |error| DataFusionError::External(Box::new(error));
    let mut bytes = Cursor::new(vec![]);
    let schema = batch.schema().as_ref().clone();
    let mut writer = AvroWriter::new(&mut bytes, schema).map_err(external)?;
    writer.write(batch).map_err(external)?;
    writer.finish().map_err(external)?;
    drop(writer);
    Ok(bytes.into_inner())
}

/// Makes a file `len` bytes long and changes nothing of what a reader gets.
fn pad(format: &Format, bytes: &mut Vec<u8>, len: usize) {
    let more = len - bytes.len();
    match format {
        Format::Csv | Format::Json => bytes.extend(std::iter::repeat_n(b'\n', more)),
        // The metadata at the end says where the rest is: between the two is room.
        Format::Parquet(_) | Format::SortedParquet(..) => {
            let tail = bytes.len() - 8;
            let length = bytes[tail..tail + 4].try_into().expect("four bytes");
            let metadata = tail - u32::from_le_bytes(length) as usize;
            bytes.splice(metadata..metadata, std::iter::repeat_n(0, more));
        }
        // Numbers alone, turned: the same length already.
        _ => assert_eq!(more, 0, "{format:?} cannot be padded"),
    }
}
