"""The fixture extension, built against the released DataFusion."""

from .reuse_fixture import FailingTable, ReuseTable

__all__ = ["FailingTable", "ReuseTable"]
