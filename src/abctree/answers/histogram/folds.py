"""`StepFold`: what one partition says of the posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Boxes, Partition
from abctree.errors import ParameterError
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


def check_masses(fold: StepFold) -> None:
    """Raise `ParameterError` unless a fold has one mass, finite and not negative, for each box."""
    shapes = {fold.mass.shape, fold.log_volume.shape, (len(fold.boxes),)}
    if len(shapes) != 1 or not (np.isfinite(fold.mass).all() and (fold.mass >= 0.0).all()):
        raise ParameterError(
            f"`mass` must be finite, at least 0, and one for each of {len(fold.boxes)} boxes, as "
            f"must be `log_volume`, but got shapes {fold.mass.shape} and {fold.log_volume.shape}."
        )


def prior_mass_of(fold: StepFold) -> FloatArray:
    """(K,) The prior masses of the boxes of a fold."""
    return fold.boxes.volume if fold.prior_mass is None else fold.prior_mass


def prior_fold(fold: StepFold) -> StepFold:
    """The fold that has the masses of the prior."""
    return replace(fold, mass=prior_mass_of(fold))
