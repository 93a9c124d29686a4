//! What a check found, node by node.

use std::fmt;

/// A promise of a reset copy, as [`ExecutionPlan::reset_state`] makes it.
///
/// [`ExecutionPlan::reset_state`]: datafusion::physical_plan::ExecutionPlan::reset_state
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// Run, it gives what a freshly planned plan would give now.
    Result,
    /// Making and running it changes nothing in the original or in another copy, even
    /// one that is running.
    Isolation,
    /// Copies, and the original, can run at the same time.
    AtOnce,
    /// Its schema, partitioning, ordering and other properties are the original's.
    Properties,
    /// Its metrics start empty.
    Metrics,
}

impl Promise {
    /// All of them, in the order of a report's columns.
    pub const ALL: [Promise; 5] = [
        Promise::Result,
        Promise::Isolation,
        Promise::AtOnce,
        Promise::Properties,
        Promise::Metrics,
    ];

    /// The word at the head of its column in a report.
    pub fn name(self) -> &'static str {
        match self {
            Promise::Result => "result",
            Promise::Isolation => "isolation",
            Promise::AtOnce => "at once",
            Promise::Properties => "properties",
            Promise::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Promise {
    /// The promise as a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::Result => "a copy gives what a freshly planned plan gives",
            Promise::Isolation => "making or running a copy changes nothing elsewhere",
            Promise::AtOnce => "copies run at the same time",
            Promise::Properties => "schema, partitioning and properties stay the same",
            Promise::Metrics => "the metrics of a copy start empty",
        })
    }
}

/// What was seen of one promise at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every run kept it.
    Holds,
    /// A run broke it, and none did below this node.
    Broken,
    /// A node below breaks it, so that this one cannot be judged.
    BelowBroken,
    /// It could not be seen; the report's notes or findings say why.
    Unchecked,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "ok",
            Verdict::Broken => "BROKEN",
            Verdict::BelowBroken => "below",
            Verdict::Unchecked => "-",
        })
    }
}

/// One node of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// [`ExecutionPlan::name`](datafusion::physical_plan::ExecutionPlan::name).
    pub name: String,
    /// Child index at each level, from the root down; empty for the root.
    pub path: Vec<usize>,
    /// One verdict for each of [`Promise::ALL`].
    pub verdicts: [Verdict; 5],
}

/// Something to repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Number of the guilty node: its index in [`Report::nodes`].
    pub node: usize,
    /// Its name.
    pub name: String,
    /// What it breaks; `None` where the plan cannot be checked or a node cannot be reset
    /// from here.
    pub promise: Option<Promise>,
    /// What was seen, one line for each run that showed it.
    pub details: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.node, self.name)?;
        if let Some(promise) = self.promise {
            write!(f, " breaks \"{}\": {promise}", promise.name())?;
        }
        for detail in &self.details {
            write!(f, "\n    {detail}")?;
        }
        Ok(())
    }
}

/// What [`ReuseCheck::run`](crate::ReuseCheck::run) found.
///
/// As text it holds no times, addresses or anything else that differs from one check of
/// the same plans to the next, so that it can be kept as a snapshot. What a race decides
/// is not shown: where two plans ran at the same time and gave wrong rows, it does not say
/// which.
///
/// ```text
/// 1 finding
///
///   #  node              result  isolation  at once  properties  metrics
///   0  ProjectionExec    below   ok         ok       ok          ok
///   1    CacheExec       BROKEN  ok         ok       ok          ok
///   2      SourceExec    ok      ok         ok       ok          ok
///
/// findings
///   1 CacheExec breaks "result": a copy gives what a freshly planned plan gives
///     reset after the data changed: 1 row; a fresh plan gives 1; missing (7); unexpected (1)
///
/// notes
///   run again without a reset, which promises nothing: as fresh
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(crate) nodes: Vec<NodeReport>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// True if nothing was found. What could not be checked is in [`Report::notes`].
    pub fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }

    /// What is to be repaired, from the leaves up.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The nodes in the order of `EXPLAIN`.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.nodes
    }

    /// What a reader should know besides, such as nodes that cannot be run alone.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.findings.len() {
            0 => writeln!(f, "ok, nothing found\n")?,
            1 => writeln!(f, "1 finding\n")?,
            n => writeln!(f, "{n} findings\n")?,
        }
        let names = self.nodes.iter().map(|node| {
            let indent = 2 * node.path.len();
            format!("{:indent$}{}", "", node.name)
        });
        let names = Vec::from_iter(names);
        let width = names.iter().map(|name| name.chars().count()).max();
        let width = width.unwrap_or_default().max("node".len());
        let digits = self.nodes.len().saturating_sub(1).to_string().len();
        let mut line =
            |number: &dyn fmt::Display, name: &str, cells: [&dyn fmt::Display; 5]| {
                let mut text = format!("  {number:>digits$}  {name:width$}");
                for (promise, cell) in Promise::ALL.into_iter().zip(cells) {
                    let column = promise.name().len().max("BROKEN".len());
                    text.push_str(&format!("  {cell:column$}"));
                }
                writeln!(f, "{}", text.trim_end())
            };
        let heads = Promise::ALL.map(Promise::name);
        line(
            &"#",
            "node",
            heads.each_ref().map(|it| it as &dyn fmt::Display),
        )?;
        for (number, (node, name)) in self.nodes.iter().zip(&names).enumerate() {
            let cells = node.verdicts.each_ref().map(|it| it as &dyn fmt::Display);
            line(&number, name, cells)?;
        }
        if !self.findings.is_empty() {
            writeln!(f, "\nfindings")?;
        }
        for finding in &self.findings {
            writeln!(f, "  {finding}")?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "\nnotes")?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}
