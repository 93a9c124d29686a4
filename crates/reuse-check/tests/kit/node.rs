//! Nodes whose behaviour is known: a source over data that can change, and a node above
//! it that does one thing wrong, or nothing.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, stream};

/// Values that plans read when they run.
#[derive(Clone, Default)]
pub struct Data(Arc<Mutex<Vec<i64>>>);

impl Data {
    pub fn new(values: impl IntoIterator<Item = i64>) -> Self {
        Self(Arc::new(Mutex::new(Vec::from_iter(values))))
    }

    pub fn set(&self, values: impl IntoIterator<Item = i64>) {
        *self.0.lock().unwrap() = Vec::from_iter(values);
    }

    /// One batch of one row for each value.
    pub fn batches(&self) -> Vec<RecordBatch> {
        let values = self.0.lock().unwrap();
        values.iter().map(|&value| batch(vec![value])).collect()
    }
}

pub fn batch(values: Vec<i64>) -> RecordBatch {
    let column = Arc::new(Int64Array::from(values));
    RecordBatch::try_new(schema(), vec![column]).unwrap()
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]))
}

fn properties(schema: SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// Of rows that ascend in each partition.
fn ordered_properties(partitions: usize) -> Arc<PlanProperties> {
    let ascending = PhysicalSortExpr::new_default(Arc::new(Column::new("v", 0)));
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new_with_orderings(schema(), [[ascending]]),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// Reads [`Data`] anew in each run: partition `i` of `n` gives every `n`th value. It keeps
/// nothing, and needs no `reset_state`.
pub struct SourceExec {
    data: Data,
    properties: Arc<PlanProperties>,
}

impl SourceExec {
    pub fn plan(data: &Data, partitions: usize) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self {
            data: data.clone(),
            properties: properties(schema(), partitions),
        })
    }
}

impl ExecutionPlan for SourceExec {
    fn name(&self) -> &str {
        "SourceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let batches = self.data.batches().into_iter();
        let batches = batches.skip(partition).step_by(partitions).map(Ok);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema(),
            stream::iter(Vec::from_iter(batches)),
        )))
    }
}

/// What a [`NodeExec`] does, beside passing on its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keeps its input of the first run, and gives a reset copy a cache of its own.
    Cache,
    /// Keeps its input of the first run, and has no `reset_state`.
    CacheNotReset,
    /// Can be executed once for each partition, and has no `reset_state`.
    OneShot,
    /// Executed once for each partition, and once more after a reset, of the original or
    /// of the copy: they share what a reset sets back.
    ClearedInPlace,
    /// Ends its stream when another copy starts to run.
    SharedCursor,
    /// The copy has twice the partitions, the new ones empty.
    ResetRepartitions,
    /// The copy's column may be null.
    ResetChangesSchema,
    /// The copy counts in the original's metrics.
    SharedMetrics,
    /// Gives no partition but the first when it runs a second time without a reset, and
    /// adds up the partitions of all copies.
    WorkQueue,
    /// Never gives a batch.
    Hangs,
    /// The copy never gives a batch.
    CopyHangs,
    /// The copy blocks its thread.
    CopyBlocks,
    /// A copy of a copy fails.
    CopyOfCopyFails,
    /// Made while the original is half way, a copy goes on from there.
    KeepsHalf,
    /// A partition of a copy gives the rows of all that were not executed before.
    CopyWorkQueue,
    /// Gives its rows in order, and a copy in reverse.
    CopyReversed,
    /// The same, and declares the order.
    CopyUnordered,
    /// `reset_state` panics.
    ResetPanics,
    /// `reset_state` blocks its thread.
    ResetBlocks,
    /// `reset_state` returns an error.
    ResetFails,
    /// The copy panics when it is executed.
    CopyPanics,
    /// The copy's stream fails.
    CopyFails,
    /// Always fails.
    Fails,
    /// Gives other rows in each run, but as many.
    Random,
    /// Gives other rows in each run; a copy gives none.
    RandomAndCopyEmpty,
    /// Runs only under a node that allows it.
    NotAlone,
    /// The same, and a copy's stream fails.
    NotAloneAndCopyFails,
    /// Allows the node below to run.
    Allows,
}

/// See [`Kind`].
pub struct NodeExec {
    kind: Kind,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// 1 for what `reset_state` made, 2 for what it made of that, and so on.
    generation: usize,
    cache: Arc<Mutex<Vec<Option<Vec<RecordBatch>>>>>,
    /// Of [`Kind::OneShot`] and the like: executions by partition.
    executed: Arc<Mutex<Vec<usize>>>,
    /// Of [`Kind::SharedCursor`]: its own number, and that of the copy that may go on.
    number: usize,
    running: Arc<AtomicUsize>,
    /// Of [`Kind::KeepsHalf`]: batches by partition, for as long as there are more.
    passed_on: Arc<Mutex<Vec<usize>>>,
    metrics: ExecutionPlanMetricsSet,
}

fn next_number() -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    NUMBER.fetch_add(1, Ordering::SeqCst)
}

thread_local! {
    /// Set while a [`Kind::Allows`] executes its input.
    static ALLOWED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl NodeExec {
    pub fn plan(kind: Kind, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let partitions = input.output_partitioning().partition_count();
        Arc::new(Self {
            kind,
            properties: match kind {
                Kind::CopyUnordered => ordered_properties(partitions),
                _ => properties(input.schema(), partitions),
            },
            input,
            generation: 0,
            cache: Arc::new(Mutex::new(vec![None; partitions])),
            executed: Arc::new(Mutex::new(vec![0; partitions])),
            number: next_number(),
            running: Arc::default(),
            passed_on: Arc::new(Mutex::new(vec![0; partitions])),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// With the same state, as a rewrite of the plan does it.
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            kind: self.kind,
            input,
            properties: Arc::clone(&self.properties),
            generation: self.generation,
            cache: Arc::clone(&self.cache),
            executed: Arc::clone(&self.executed),
            number: next_number(),
            running: Arc::clone(&self.running),
            passed_on: Arc::clone(&self.passed_on),
            metrics: match self.kind {
                Kind::SharedMetrics => self.metrics.clone(),
                _ => ExecutionPlanMetricsSet::new(),
            },
        }
    }

    /// With nothing of a run.
    fn fresh(&self) -> Self {
        let partitions = self.input.output_partitioning().partition_count();
        Self {
            cache: Arc::new(Mutex::new(vec![None; partitions])),
            executed: Arc::new(Mutex::new(vec![0; partitions])),
            passed_on: Arc::new(Mutex::new(vec![0; partitions])),
            ..self.with_input(Arc::clone(&self.input))
        }
    }

    fn execute_once(&self, partition: usize) -> Result<()> {
        // A panic elsewhere is none of this node's business.
        let mut executed = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        executed[partition] += 1;
        match executed[partition] {
            1 => Ok(()),
            _ => Err(DataFusionError::Execution("executed before".to_string())),
        }
    }

    /// Counts rows and batches.
    fn counted(
        &self,
        partition: usize,
        input: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        use datafusion::physical_plan::metrics::RecordOutput;

        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let counted = input.map(move |batch| batch.record_output(&metrics));
        let schema_of_batches = Arc::clone(&schema);
        let counted = counted.map(move |batch| {
            let columns = batch?.columns().to_vec();
            let batch = RecordBatch::try_new(Arc::clone(&schema_of_batches), columns)?;
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }

    fn stream_of<S>(&self, stream: S) -> SendableRecordBatchStream
    where
        S: futures::Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream))
    }
}

impl ExecutionPlan for NodeExec {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Cache => "CacheExec",
            Kind::CacheNotReset => "CacheNotResetExec",
            Kind::OneShot => "OneShotExec",
            Kind::ClearedInPlace => "ClearedInPlaceExec",
            Kind::SharedCursor => "SharedCursorExec",
            Kind::ResetRepartitions => "ResetRepartitionsExec",
            Kind::ResetChangesSchema => "ResetChangesSchemaExec",
            Kind::SharedMetrics => "SharedMetricsExec",
            Kind::WorkQueue => "WorkQueueExec",
            Kind::Hangs => "HangsExec",
            Kind::CopyHangs => "CopyHangsExec",
            Kind::CopyBlocks => "CopyBlocksExec",
            Kind::CopyOfCopyFails => "CopyOfCopyFailsExec",
            Kind::KeepsHalf => "KeepsHalfExec",
            Kind::CopyWorkQueue => "CopyWorkQueueExec",
            Kind::CopyReversed => "CopyReversedExec",
            Kind::CopyUnordered => "CopyUnorderedExec",
            Kind::ResetPanics => "ResetPanicsExec",
            Kind::ResetBlocks => "ResetBlocksExec",
            Kind::ResetFails => "ResetFailsExec",
            Kind::CopyPanics => "CopyPanicsExec",
            Kind::CopyFails => "CopyFailsExec",
            Kind::Fails => "FailsExec",
            Kind::Random => "RandomExec",
            Kind::RandomAndCopyEmpty => "RandomAndCopyEmptyExec",
            Kind::NotAlone => "NotAloneExec",
            Kind::NotAloneAndCopyFails => "NotAloneAndCopyFailsExec",
            Kind::Allows => "AllowsExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_input(children.swap_remove(0))))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_input(children.swap_remove(0))))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = self.input.output_partitioning().partition_count();
        let mut copy = match self.kind {
            Kind::CacheNotReset | Kind::OneShot => {
                self.with_input(Arc::clone(&self.input))
            }
            Kind::ClearedInPlace => {
                self.executed.lock().unwrap().fill(0);
                self.with_input(Arc::clone(&self.input))
            }
            Kind::KeepsHalf => {
                let passed_on = self.passed_on.lock().unwrap().clone();
                Self {
                    passed_on: Arc::new(Mutex::new(passed_on)),
                    ..self.fresh()
                }
            }
            Kind::ResetPanics => panic!("cannot be reset today"),
            Kind::ResetBlocks => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            Kind::ResetFails => {
                return Err(DataFusionError::Execution("no reset today".to_string()));
            }
            Kind::ResetRepartitions => Self {
                properties: properties(schema(), 2 * partitions),
                ..self.fresh()
            },
            Kind::ResetChangesSchema => Self {
                properties: properties(
                    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)])),
                    partitions,
                ),
                ..self.fresh()
            },
            _ => self.fresh(),
        };
        copy.generation = self.generation + 1;
        Ok(Arc::new(copy))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        if self.kind == Kind::ResetRepartitions && partition >= partitions {
            return Ok(self.stream_of(stream::empty()));
        }
        let is_copy = self.generation > 0;
        let allowed = ALLOWED.replace(self.kind == Kind::Allows);
        let input = self.input.execute(partition, Arc::clone(&task));
        ALLOWED.set(allowed);
        let input = input?;
        let stream = match self.kind {
            Kind::Cache | Kind::CacheNotReset => {
                let cache = Arc::clone(&self.cache);
                let batches = async move {
                    let cached = cache.lock().unwrap()[partition].clone();
                    let batches: Vec<RecordBatch> = match cached {
                        Some(batches) => batches,
                        None => input.try_collect().await?,
                    };
                    cache.lock().unwrap()[partition] = Some(batches.clone());
                    Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
                };
                self.stream_of(stream::once(batches).try_flatten())
            }
            Kind::OneShot | Kind::ClearedInPlace => {
                self.execute_once(partition)?;
                input
            }
            Kind::SharedCursor => {
                let (run, running) = (self.number, Arc::clone(&self.running));
                running.store(run, Ordering::SeqCst);
                self.stream_of(input.take_while(move |_| {
                    let goes_on = running.load(Ordering::SeqCst) == run;
                    // Two copies at once are to meet.
                    async move {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        goes_on
                    }
                }))
            }
            Kind::KeepsHalf => {
                let passed_on = Arc::clone(&self.passed_on);
                let start = passed_on.lock().unwrap()[partition];
                let batches = input.skip(start).enumerate();
                let ended = Arc::clone(&passed_on);
                let counted = batches.map(move |(number, batch)| {
                    passed_on.lock().unwrap()[partition] = start + number + 1;
                    batch
                });
                let end = stream::once(async move {
                    ended.lock().unwrap()[partition] = 0;
                    Ok(batch(vec![]))
                });
                self.stream_of(counted.chain(end))
            }
            Kind::CopyOfCopyFails if self.generation > 1 => {
                return Err(DataFusionError::Execution("a copy of a copy".to_string()));
            }
            Kind::CopyReversed | Kind::CopyUnordered if is_copy => {
                let reversed = async move {
                    let mut batches: Vec<RecordBatch> = input.try_collect().await?;
                    batches.reverse();
                    let batches = batches.into_iter().map(Ok);
                    Ok::<_, DataFusionError>(stream::iter(batches))
                };
                self.stream_of(stream::once(reversed).try_flatten())
            }
            Kind::WorkQueue | Kind::CopyWorkQueue
                if is_copy || self.kind == Kind::WorkQueue =>
            {
                // Whoever comes first reads all partitions.
                let mut executed = self.executed.lock().unwrap();
                let first = executed.iter().all(|times| *times == 0);
                executed[partition] += 1;
                if !first {
                    return Ok(self.stream_of(stream::empty()));
                }
                let all = (0..partitions)
                    .map(|it| self.input.execute(it, Arc::clone(&task)))
                    .collect::<Result<Vec<_>>>()?;
                self.stream_of(stream::iter(all).flatten())
            }
            Kind::Hangs => self.stream_of(stream::pending()),
            Kind::CopyHangs if is_copy => self.stream_of(stream::pending()),
            Kind::CopyBlocks if is_copy => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            Kind::CopyPanics if is_copy => panic!("a copy, executed"),
            Kind::NotAlone | Kind::NotAloneAndCopyFails if !allowed => {
                return Err(DataFusionError::Execution("needs a guide".to_string()));
            }
            Kind::CopyFails | Kind::NotAloneAndCopyFails if is_copy => {
                let error = DataFusionError::Execution("a copy, run".to_string());
                self.stream_of(stream::iter([Err(error)]))
            }
            Kind::Fails => {
                return Err(DataFusionError::Execution("never runs".to_string()));
            }
            Kind::RandomAndCopyEmpty if is_copy => self.stream_of(stream::empty()),
            Kind::Random | Kind::RandomAndCopyEmpty => self.stream_of(
                input.map(|it| Ok(batch(vec![next_number() as i64; it?.num_rows()]))),
            ),
            _ => input,
        };
        Ok(self.counted(partition, stream))
    }
}

impl fmt::Debug for SourceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for NodeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DisplayAs for SourceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DisplayAs for NodeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}
