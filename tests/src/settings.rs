//! The settings that a query is planned under, and how its rows are compared.

use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

/// How rows of two runs are compared, and which of them a snapshot keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The query leaves the order open: rows are sorted first.
    Any,
    /// The query asks for an order: rows stay as they came.
    Kept,
    /// The query leaves open which rows it returns: only their number counts.
    RowsOpen,
}

/// What a query is planned under; all else is DataFusion's default.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `datafusion.execution.target_partitions`
    pub partitions: usize,
    /// `datafusion.optimizer.enable_dynamic_filter_pushdown`
    pub dynamic_filters: bool,
    /// Further options, without the leading `datafusion.`.
    pub options: &'static [(&'static str, &'static str)],
    /// Bytes of memory; above them operators spill. Only
    /// [`Tables`](crate::tables::Tables) look at it.
    pub memory: Option<usize>,
}

impl Settings {
    pub const fn new(partitions: usize, dynamic_filters: bool) -> Self {
        Self {
            partitions,
            dynamic_filters,
            options: &[],
            memory: None,
        }
    }

    pub const fn within(mut self, memory: usize) -> Self {
        self.memory = Some(memory);
        self
    }

    pub const fn with(
        mut self,
        options: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.options = options;
        self
    }

    pub fn config(&self) -> Result<SessionConfig> {
        let mut config = SessionConfig::new().with_target_partitions(self.partitions);
        let options = config.options_mut();
        if !self.dynamic_filters {
            options.set(
                "datafusion.optimizer.enable_dynamic_filter_pushdown",
                "false",
            )?;
        }
        for (key, value) in self.options {
            options.set(&format!("datafusion.{key}"), value)?;
        }
        Ok(config)
    }
}

impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters = if self.dynamic_filters { "on" } else { "off" };
        write!(
            f,
            "target_partitions {}, dynamic filters {filters}",
            self.partitions
        )?;
        for (key, value) in self.options {
            write!(f, ", {key}={value}")?;
        }
        Ok(())
    }
}

/// One and four partitions, dynamic filters on (the default) and off.
pub const EVERY_SETTING: &[Settings] = &[
    Settings::new(1, true),
    Settings::new(1, false),
    Settings::new(4, true),
    Settings::new(4, false),
];
