"""`DenseRegion`: which boxes make up a region of highest density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.problem.priors.cube import HIGHEST, LOWEST
from abctree.protocols import Prior
from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class DenseRegion:
    """A union of boxes in θ space."""

    lower: FloatArray  #: (m, p)
    upper: FloatArray  #: (m, p)
    mass: FloatArray  #: (m,) posterior mass that each box brings

    def __len__(self) -> int:
        return len(self.mass)


def densest(
    prior: Prior,
    lower: FloatArray,
    upper: FloatArray,
    density: FloatArray,
    brings: FloatArray,
    mass: float,
) -> DenseRegion:
    """The boxes of highest density whose masses reach `mass`; none without a mass of its own.

    Parameters
    ----------
    prior : Prior
        The map from the cube to θ.
    lower, upper : (K, d) array
        Corners of the boxes in the cube.
    density, brings : (K,) array
        Their densities, by which they are ranked, and the masses that they bring.
    mass : float
        In (0, 1].
    """
    ranked = np.argsort(-density, kind="stable")
    ranked = ranked[brings[ranked] > 0.0]
    reached = np.cumsum(brings[ranked])
    n = int(np.searchsorted(reached, mass - 1e-12, side="left")) + 1
    chosen = ranked[:n]
    corners = [prior.from_cube(np.clip(c[chosen], LOWEST, HIGHEST)) for c in (lower, upper)]
    return DenseRegion(np.minimum(*corners), np.maximum(*corners), brings[chosen])
