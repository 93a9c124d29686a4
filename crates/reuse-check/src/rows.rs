//! The rows that a run gave, in a form that two runs can be compared in.
//!
//! ```text
//!   partition 0: batch, batch ─┐                    ┌─ sorted: equal as multisets
//!   partition 1: batch ────────┼─► arrow's row form ┤
//!   partition n: (nothing) ────┘                    └─ in_order: each partition as the
//!                                                      plan declares, ties in any order
//! ```
//!
//! Values are compared by their bits: `0.0` is not `-0.0`, and a NaN equals itself.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::look::SUBQUERY;

/// Differing rows that are shown of each kind.
const SHOWN: usize = 3;

/// What a run gave; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Rows {
    schema: SchemaRef,
    /// Made `sorted`, and turns it back into columns.
    converter: Arc<RowConverter>,
    /// Apart from `sorted`, which a result without columns leaves empty.
    count: usize,
    sorted: Vec<OwnedRow>,
    /// The same, one partition after the other.
    given: Vec<OwnedRow>,
    in_order: bool,
}

impl Rows {
    /// The rows of `plan`'s partitions.
    ///
    /// # Errors
    ///
    /// If a batch has columns of other types than the plan's schema, or if a sort
    /// expression cannot be evaluated.
    pub(crate) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        partitions: &[Vec<RecordBatch>],
    ) -> Result<Self> {
        let schema = plan.schema();
        let converter = Arc::new(RowConverter::new(sort_fields(&schema))?);
        let mut rows = Self {
            converter: Arc::clone(&converter),
            count: 0,
            sorted: vec![],
            given: vec![],
            in_order: true,
            schema,
        };
        for batches in partitions {
            for batch in batches {
                rows.check_types(batch)?;
                rows.count += batch.num_rows();
                if rows.schema.fields().is_empty() {
                    continue;
                }
                let columns = batch
                    .columns()
                    .iter()
                    .map(|column| comparable(column))
                    .collect::<Result<Vec<_>>>()?;
                let converted = converter.convert_columns(&columns)?;
                rows.given.extend(converted.iter().map(|row| row.owned()));
            }
            rows.in_order &= in_order(plan, batches)?;
        }
        rows.sorted.clone_from(&rows.given);
        rows.sorted.sort_unstable();
        Ok(rows)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// True if these are the rows of `fresh` one after the other, whatever is declared.
    pub fn are_one_by_one(&self, fresh: &Rows) -> bool {
        self.same_types(fresh) && self.given == fresh.given
    }

    /// True if these are the rows of `fresh`, in their declared order if they are there.
    pub(crate) fn are(&self, fresh: &Rows) -> bool {
        self.same_types(fresh)
            && self.count == fresh.count
            && self.sorted == fresh.sorted
            && (self.in_order || !fresh.in_order)
    }

    /// These rows beside those of `fresh`, from which they differ.
    pub(crate) fn beside(&self, fresh: &Rows) -> String {
        let mut text =
            format!("{}; a fresh plan gives {}", number(self.count), fresh.count);
        if !self.same_types(fresh) {
            text.push_str(", of other types");
            return text;
        }
        for (what, of, all_but) in [("missing", fresh, self), ("unexpected", self, fresh)]
        {
            let rows = difference(&of.sorted, &all_but.sorted);
            if !rows.is_empty() {
                text.push_str(&format!("; {what} {}", of.show(&rows)));
            }
        }
        if !self.in_order && fresh.in_order {
            text.push_str("; not in the declared order");
        }
        text
    }

    fn same_types(&self, other: &Rows) -> bool {
        let types = |rows: &Rows| -> Vec<DataType> {
            let fields = rows.schema.fields().iter();
            fields.map(|field| field.data_type().clone()).collect()
        };
        types(self) == types(other)
    }

    fn check_types(&self, batch: &RecordBatch) -> Result<()> {
        let declared = self.schema.fields();
        let given = batch.schema_ref().fields();
        let same = declared.len() == given.len()
            && declared
                .iter()
                .zip(given)
                .all(|(one, other)| one.data_type() == other.data_type());
        let types = |fields: &arrow::datatypes::Fields| {
            let types: Vec<_> = fields.iter().map(|it| it.data_type()).collect();
            format!("{types:?}")
        };
        match same {
            true => Ok(()),
            false => Err(DataFusionError::Execution(format!(
                "a batch of types {}, where the plan's schema has {}",
                types(given),
                types(declared)
            ))),
        }
    }

    /// The first of `rows` as text: `(1, a) (2, b) ..`.
    fn show(&self, rows: &[&OwnedRow]) -> String {
        let shown = rows.iter().take(SHOWN).map(|row| row.row());
        let text = self.converter.convert_rows(shown).and_then(|columns| {
            let columns = columns.iter().map(values);
            columns.collect::<Result<Vec<_>, _>>()
        });
        let columns = match text {
            Ok(columns) => columns,
            Err(error) => return format!("rows that cannot be shown: {error}"),
        };
        let mut texts: Vec<String> = (0..rows.len().min(SHOWN))
            .map(|row| {
                let values: Vec<_> =
                    columns.iter().map(|column| column[row].as_str()).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        if rows.len() > SHOWN {
            texts.push("..".to_string());
        }
        texts.join(" ")
    }
}

/// `1 row`, `2 rows`.
pub(crate) fn number(rows: usize) -> String {
    match rows {
        1 => "1 row".to_string(),
        n => format!("{n} rows"),
    }
}

/// The rows of `of` that `all_but` lacks, each as many times as it is lacking. Both are
/// sorted.
fn difference<'a>(of: &'a [OwnedRow], all_but: &[OwnedRow]) -> Vec<&'a OwnedRow> {
    let mut rest = all_but;
    let mut found = vec![];
    for row in of {
        loop {
            match rest.first().map(|other| other.cmp(row)) {
                Some(Ordering::Less) => rest = &rest[1..],
                Some(Ordering::Equal) => {
                    rest = &rest[1..];
                    break;
                }
                Some(Ordering::Greater) | None => {
                    found.push(row);
                    break;
                }
            }
        }
    }
    found
}

fn has_row_form(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

fn sort_fields(schema: &SchemaRef) -> Vec<SortField> {
    let types = schema.fields().iter().map(|field| match field.data_type() {
        data_type if has_row_form(data_type) => data_type.clone(),
        _ => DataType::Utf8,
    });
    types.map(SortField::new).collect()
}

/// The column itself, or its values as text where its type has no row form.
fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
    match has_row_form(column.data_type()) {
        true => Ok(Arc::clone(column)),
        false => Ok(Arc::new(StringArray::from(values(column)?))),
    }
}

fn values(column: &ArrayRef) -> arrow::error::Result<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    (0..column.len())
        .map(|row| formatter.value(row).try_to_string())
        .collect()
}

/// True if the rows of one partition are in the order that `plan` declares, or if it
/// declares none.
fn in_order(plan: &Arc<dyn ExecutionPlan>, batches: &[RecordBatch]) -> Result<bool> {
    let Some(ordering) = plan.output_ordering() else {
        return Ok(true);
    };
    // A copy declares its order by expressions of its original, which may not have run.
    let ordering: Vec<_> = ordering
        .iter()
        .take_while(|sort| !sort.expr.to_string().contains(SUBQUERY))
        .collect();
    if ordering.is_empty() {
        return Ok(true);
    }
    let mut last: Option<OwnedRow> = None;
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        let mut fields = vec![];
        let mut keys = vec![];
        for sort in &ordering {
            let key = sort.expr.evaluate(batch)?.into_array(batch.num_rows())?;
            if !has_row_form(key.data_type()) {
                // Text has another order; nothing that sorts has such a key.
                return Ok(true);
            }
            fields.push(SortField::new_with_options(
                key.data_type().clone(),
                sort.options,
            ));
            keys.push(key);
        }
        for row in &RowConverter::new(fields)?.convert_columns(&keys)? {
            if last.as_ref().is_some_and(|last| last.row() > row) {
                return Ok(false);
            }
            last = Some(row.owned());
        }
    }
    Ok(true)
}
