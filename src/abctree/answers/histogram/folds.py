"""`StepFold`, what one partition says of the posterior, and `DenseBoxes`, some of its boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Boxes, Partition
from abctree.errors import ParameterError
from abctree.problem.priors.cube import HIGHEST, LOWEST
from abctree.protocols import Prior
from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class StepFold:
    """The posterior masses of the boxes of one partition."""

    boxes: Boxes
    mass: FloatArray  #: (K,) posterior mass, up to a constant
    log_volume: FloatArray  #: (K,) log |Ω_k| in θ space; nan where unknown
    prior_mass: FloatArray | None = None  #: (K,) π(Ω_k); the volumes in the cube by default

    @classmethod
    def of(cls, partition: Partition, eta: FloatArray) -> StepFold:
        """Masses p̂(k) ∝ π(Ω_k) η_k, from estimated acceptance rates η (K,)."""
        mass = partition.prior_mass * eta
        return cls(partition.boxes, mass, partition.log_volume, partition.prior_mass)

    def with_draws(self, cube: FloatArray, weight: FloatArray) -> StepFold:
        """Masses by accepted draws (n, d), whose weights (n,) sum to the evidence.

        What was believed of a box counts as one draw beside those in it.
        """
        box, n = self.boxes.locate(cube), len(self.boxes)
        total, squares = (np.bincount(box, weight**k, n) for k in (1, 2))
        worth = np.divide(total**2, squares, out=np.zeros(n), where=squares > 0.0)
        return replace(self, mass=(worth * total + self.mass) / (worth + 1.0))

    @property
    def prior_masses(self) -> FloatArray:
        """(K,) The prior masses of the boxes, wherever they are from."""
        return self.boxes.volume if self.prior_mass is None else self.prior_mass


def check_masses(fold: StepFold) -> None:
    """Raise `ParameterError` unless a fold has one mass, finite and not negative, for each box."""
    shapes = {fold.mass.shape, fold.log_volume.shape, (len(fold.boxes),)}
    if len(shapes) != 1 or not (np.isfinite(fold.mass).all() and (fold.mass >= 0.0).all()):
        raise ParameterError(
            f"`mass` must be finite, at least 0, and one for each of {len(fold.boxes)} boxes, as "
            f"must be `log_volume`, but got shapes {fold.mass.shape} and {fold.log_volume.shape}."
        )


@dataclass(frozen=True, eq=False)
class DenseBoxes:
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
) -> DenseBoxes:
    """Pick the densest of boxes (K, d), until their masses (K,) reach `mass`."""
    ranked = np.argsort(-density, kind="stable")
    ranked = ranked[brings[ranked] > 0.0]
    reached = np.cumsum(brings[ranked])
    n = int(np.searchsorted(reached, mass - 1e-12, side="left")) + 1
    chosen = ranked[:n]
    corners = [prior.from_cube(np.clip(c[chosen], LOWEST, HIGHEST)) for c in (lower, upper)]
    return DenseBoxes(np.minimum(*corners), np.maximum(*corners), brings[chosen])
