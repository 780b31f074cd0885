"""Whether the observation is within reach of the simulator, as far as distances can tell."""

from __future__ import annotations

import numpy as np

from abctree.types import FloatArray

#: Distances tell nothing when they are fewer.
_LEAST = 10
#: A smallest distance of so many standard deviations is far, times the root of the number of
#: summaries: distances of m independent errors are about √(2m) standard deviations from 0, where
#: θ hardly moves the data.  Runs of our problems, and of pure noise, stay below 4 with a thousand
#: simulations.
_FAR = 50.0


def all_ties(distance: FloatArray) -> bool:
    """Whether all distances (n,) of simulations that did not fail are equal, but for rounding."""
    near = distance[np.isfinite(distance)]
    return len(near) >= _LEAST and bool(np.ptp(near) <= 1e-12 * near.max())


def out_of_reach(distance: FloatArray, n_summaries: int) -> str | None:
    """What it means that all distances (n,) are far from 0 and close to each other, or None.

    Parameters
    ----------
    distance : (n,) array
        Of simulations from the prior, or from a run that began there; inf for failures.
    n_summaries : int
        Numbers in one summary.
    """
    near = distance[np.isfinite(distance)]
    if len(near) < _LEAST:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        smallest, spread = float(near.min()), float(near.std())
    if not smallest > _FAR * np.sqrt(n_summaries) * spread:
        return None
    return (
        f"The smallest of {len(near)} distances is {smallest:.4g}, and they differ by {spread:.2g} "
        "only (one standard deviation): nothing that was simulated is anywhere near the "
        "observation. Check that the simulator can produce it: units, and the order of the "
        "summaries."
    )
