"""Executors: who runs the simulator."""

from abctree.running.executors.choose import ExecutorLike, as_executor, running
from abctree.running.executors.pool import Pool, Processes, Threads
from abctree.running.executors.serial import Serial

__all__ = [
    "ExecutorLike",
    "Pool",
    "Processes",
    "Serial",
    "Threads",
    "as_executor",
    "running",
]
