"""Executors: who runs the simulator."""

from abctree.parts.executors.choose import ExecutorLike, as_executor, running
from abctree.parts.executors.pool import Pool, Processes, Threads
from abctree.parts.executors.serial import Serial

__all__ = [
    "ExecutorLike",
    "Pool",
    "Processes",
    "Serial",
    "Threads",
    "as_executor",
    "running",
]
