//! What counts as the same: how far fresh plans agree on what they give, and whether one of
//! them might have given what a copy gave.

use crate::rows;
use crate::run::{Failure, Outcome, beside};

/// What a fresh plan gives, and how far fresh plans agree on it.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) outcome: Outcome,
    pub(crate) agreement: Agreement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// On the rows, or on the failure.
    Full,
    /// On the number of rows.
    Count,
    /// On giving rows.
    Rows,
    /// Some give rows and some fail.
    None,
}

impl Fresh {
    pub(crate) fn new(outcome: Outcome, agreement: Agreement) -> Self {
        Self { outcome, agreement }
    }

    /// Takes in what another fresh plan gave.
    pub(crate) fn observe(&mut self, other: &Outcome) {
        while self.agreement != Agreement::None && !self.allows(other) {
            self.agreement = match self.agreement {
                Agreement::Full => Agreement::Count,
                Agreement::Count => Agreement::Rows,
                Agreement::Rows | Agreement::None => Agreement::None,
            };
        }
    }

    /// True if a fresh plan might have given `outcome`.
    pub(crate) fn allows(&self, outcome: &Outcome) -> bool {
        match (self.agreement, outcome, &self.outcome) {
            (Agreement::None, _, _) => true,
            (Agreement::Full, outcome, fresh) => same(outcome, fresh),
            (Agreement::Count, Ok(rows), Ok(fresh)) => rows.count() == fresh.count(),
            (Agreement::Rows, Ok(_), Ok(_)) => true,
            _ => false,
        }
    }

    /// What `outcome`, which these plans do not allow, is beside theirs. Says nothing that
    /// differs from one check to the next, as what runs `at_once` with something else does.
    pub(crate) fn beside(&self, outcome: &Outcome, at_once: bool) -> String {
        match (outcome, &self.outcome) {
            (Ok(_), Ok(_)) if at_once => "other rows than a fresh plan".to_string(),
            (Ok(rows), Ok(fresh)) if self.agreement != Agreement::Full => format!(
                "{}; a fresh plan gives {}",
                rows::number(rows.count()),
                fresh.count()
            ),
            (outcome, fresh) => beside(outcome, fresh),
        }
    }

    /// What follows from fresh plans that do not agree.
    pub(crate) fn disagreement(&self) -> Option<&'static str> {
        match self.agreement {
            Agreement::Full => None,
            Agreement::Count => Some(
                "other rows from one fresh plan to the next, though as many (LIMIT without \
                 an order?): only their number was compared",
            ),
            Agreement::Rows => Some(
                "other rows from one fresh plan to the next, and not as many: only that \
                 there was no error was compared",
            ),
            Agreement::None => {
                Some("one fresh plan gives rows and the next fails: nothing was compared")
            }
        }
    }
}

pub fn same(one: &Outcome, other: &Outcome) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.are(other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

pub(crate) fn hung(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Failure::NoEnd(_)))
}
