"""Stores: where a run is kept while it is made."""

from abctree.parts.stores.recorded import Recorded
from abctree.parts.stores.sqlite import SqliteStore

__all__ = ["Recorded", "SqliteStore"]
