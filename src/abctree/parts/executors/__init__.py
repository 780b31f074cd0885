"""Executors: who runs the simulator."""

from abctree.parts.executors.serial import Serial

__all__ = ["Serial"]
