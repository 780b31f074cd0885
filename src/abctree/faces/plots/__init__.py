"""Pictures of a posterior and of a run.

Every function draws into the axes that it is given (``ax=`` or ``axes=``), or makes a figure, and
returns the figure: ``abctree.plots.pair(posterior).savefig("pair.png")``.  Nothing touches
pyplot's global state, and nothing is shown.  For a window make the axes with
``matplotlib.pyplot.subplots`` and call its ``show``.

They need matplotlib, ``pip install abctree[plots]``, and else raise a `MissingDependencyError`.
"""

from abctree.faces.plots.boxes import partition, partitions
from abctree.faces.plots.checks import calibration, comparison, tolerance
from abctree.faces.plots.mode import mode
from abctree.faces.plots.pair import pair
from abctree.faces.plots.series import (
    failure_map,
    failures,
    predictive,
    progress,
    weighted_quantiles,
)

__all__ = [
    "calibration",
    "comparison",
    "failure_map",
    "failures",
    "mode",
    "pair",
    "partition",
    "partitions",
    "predictive",
    "progress",
    "tolerance",
    "weighted_quantiles",
]
