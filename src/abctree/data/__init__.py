"""The records that travel between the parts: frozen, and free of algorithms."""

from abctree.data.boxes import Arms, Boxes, Partition, SplitTree
from abctree.data.mixture import (
    Mixture,
    Steps,
    effective_sample_size,
    mixture_weights,
    running_ess,
    update_denominators,
)
from abctree.data.round import Plan, Progress, Round, Rounds
from abctree.data.simulations import Failure, InterruptedWorkError, OtherStream, Rows, Simulations
from abctree.data.table import Table

__all__ = [
    "Arms",
    "Boxes",
    "Failure",
    "InterruptedWorkError",
    "Mixture",
    "OtherStream",
    "Partition",
    "Plan",
    "Progress",
    "Round",
    "Rounds",
    "Rows",
    "Simulations",
    "SplitTree",
    "Steps",
    "Table",
    "effective_sample_size",
    "mixture_weights",
    "running_ess",
    "update_denominators",
]
