//! A column whose values change in place, under the plans that read it.
//!
//! ```text
//!   Column ──► [AtomicI64; n] ◄── Buffer ◄── Int64Array ◄── DataSourceExec of a plan
//!      │             ▲
//!      └── set() ────┘   no copy in between: the next run sees the new values
//! ```
//!
//! It is what a NumPy array is to a record batch that wraps it. A plan that keeps
//! what its first run read shows it by not following the change.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use arrow::buffer::{Buffer, ScalarBuffer};

/// 64-bit integers that arrays share and [`Column::set`] overwrites.
pub struct Column(Arc<Vec<AtomicI64>>);

impl Column {
    /// A column of `len` values, all zero until they are set.
    pub fn new(len: usize) -> Self {
        Self(Arc::new((0..len).map(|_| AtomicI64::new(0)).collect()))
    }

    /// Overwrites the values in place, with `value` of each index.
    ///
    /// Must not be called while a plan over this column runs.
    pub fn set(&self, value: impl Fn(i64) -> i64) {
        for (index, slot) in self.0.iter().enumerate() {
            slot.store(value(index as i64), Ordering::SeqCst);
        }
    }

    /// The `len` values from `offset` on, as an array over this column's memory.
    ///
    /// # Panics
    ///
    /// If the column has fewer values.
    pub fn slice(&self, offset: usize, len: usize) -> ArrayRef {
        let values = &self.0[offset..offset + len];
        let start = NonNull::from(values).cast::<u8>();
        let owner = Arc::clone(&self.0);
        // SAFETY: the buffer owns a share of the vector, which never grows, so the
        // memory is valid as long as the buffer is. An AtomicI64 has the layout of an
        // i64 and is always initialised. Stores and reads never overlap: `set` is only
        // called between runs.
        let buffer =
            unsafe { Buffer::from_custom_allocation(start, size_of_val(values), owner) };
        Arc::new(Int64Array::new(ScalarBuffer::new(buffer, 0, len), None))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    #[test]
    fn arrays_follow_the_column() {
        let column = Column::new(4);
        let tail = column.slice(1, 3);
        column.set(|i| i * 10);
        assert_eq!(tail.as_primitive::<Int64Type>().values(), &[10, 20, 30]);

        // The array alone keeps the memory alive.
        drop(column);
        assert_eq!(tail.as_primitive::<Int64Type>().values(), &[10, 20, 30]);
    }
}
