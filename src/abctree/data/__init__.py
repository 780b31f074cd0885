"""The records that travel between the parts: frozen, and free of algorithms."""

from abctree.data.arms import Arms
from abctree.data.boxes import Boxes, SplitTree
from abctree.data.mixture import Mixture, Steps
from abctree.data.partition import Partition
from abctree.data.plan import Plan
from abctree.data.progress import Progress
from abctree.data.round import Round
from abctree.data.simulations import (
    Failure,
    InterruptedWorkError,
    OtherStream,
    Rows,
    Simulations,
)
from abctree.data.table import Table
from abctree.data.weights import (
    effective_sample_size,
    mixture_weights,
    running_ess,
    update_denominators,
)

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
