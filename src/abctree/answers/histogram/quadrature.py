"""Where a posterior on boxes is evaluated under a density prior or a constraint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from abctree.answers.histogram.density import nowhere
from abctree.problem.priors.cube import HIGHEST, LOWEST, spread
from abctree.types import FloatArray, IntArray

#: Nodes shared out by mass, those of each box, and those of a box in which the first ones found
#: nothing.
_N_NODES, _N_NODES_EACH, _N_NODES_AGAIN = 2**16, 64, 1024


def nodes(
    lower: FloatArray,
    upper: FloatArray,
    mass: FloatArray,
    density: Callable[[FloatArray], FloatArray],
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Points (m, d) of the cube with density, their boxes (m,) and their shares (m,) of mass.

    Parameters
    ----------
    lower, upper : (K, d) array
        Corners of the boxes, which may overlap.
    mass : (K,) array
        Their masses, which sum to one.
    density : callable
        Prior density relative to the cube, ``(n, d) -> (n,)``.

    Raises
    ------
    ParameterError
        If no point with density is found.
    """
    wanted = np.where(mass > 0.0, _N_NODES_EACH + _N_NODES * mass, 0.0)
    cube, box, value = _spread(lower, upper, wanted.astype(np.int64), density)
    found = np.bincount(box, minlength=len(wanted)) > 0
    again = np.where((wanted > 0.0) & ~found, _N_NODES_AGAIN, 0)
    if again.any():
        more = _spread(lower, upper, again, density)
        cube, box = np.concatenate([cube, more[0]]), np.concatenate([box, more[1]])
        value = np.concatenate([value, more[2]])
    if len(box) == 0:
        raise nowhere()
    total = np.bincount(box, value, minlength=len(wanted))
    weight = mass[box] * value / total[box]
    return cube, box, weight / weight.sum()


def _spread(
    lower: FloatArray,
    upper: FloatArray,
    wanted: IntArray,
    density: Callable[[FloatArray], FloatArray],
) -> tuple[FloatArray, IntArray, FloatArray]:
    """So many (K,) even points in each box, of which those with density are kept, and it there."""
    box = np.repeat(np.arange(len(wanted)), wanted)
    low, high = lower[box], upper[box]
    cube = low + (high - low) * spread(len(box), lower.shape[1])
    cube = np.clip(np.minimum(cube, np.nextafter(high, low)), LOWEST, HIGHEST)
    value = density(cube)
    kept = value > 0.0
    return cube[kept], box[kept], value[kept]
