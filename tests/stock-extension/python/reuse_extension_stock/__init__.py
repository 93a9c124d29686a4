"""The example extension, built against the released DataFusion."""

from .reuse_extension import ReuseTable, SqlTable

__all__ = ["ReuseTable", "SqlTable"]
