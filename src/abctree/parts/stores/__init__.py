"""Stores: where a run is kept while it is made."""

from abctree.parts.stores.recorded import Recorded
from abctree.parts.stores.sqlite import SqliteStore
from abctree.parts.stores.sqlite_file import START_ANEW

__all__ = ["START_ANEW", "Recorded", "SqliteStore"]
