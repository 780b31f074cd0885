"""Stores: where a run is kept while it is made."""

from abctree.running.stores.recorded import Recorded
from abctree.running.stores.sqlite import SqliteStore
from abctree.running.stores.sqlite_file import START_ANEW

__all__ = ["START_ANEW", "Recorded", "SqliteStore"]
