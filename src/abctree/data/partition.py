"""`Partition`: boxes with what the prior says of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.data.boxes import Boxes
from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes measured by a prior.  Made only by `Region.measure`.

    Without a constraint and with a prior that is a map of the cube, `prior_mass` is the volume of
    the box, exactly.
    """

    boxes: Boxes
    prior_mass: FloatArray  #: (K,) π(Ω_k); sums to one
    log_volume: FloatArray  #: (K,) log |Ω_k| in θ space; nan where the prior cannot say
    feasible: FloatArray  #: (K,) share of the box that the constraint allows, in (0, 1]

    def __len__(self) -> int:
        return len(self.boxes)

    def cube_proposal(self, q: FloatArray) -> FloatArray:
        """Probabilities of drawing a *cube point* in each box such that arms are played as q.

        Infeasible points cost nothing and are drawn again, arm included; a box that is half
        infeasible is therefore offered twice as often.
        """
        share = q / self.feasible
        return np.asarray(share / share.sum())

    def prior_draws(self, density: FloatArray) -> float:
        """As how many prior draws points of this density over the cube (K,) count in every box."""
        kept = density * self.boxes.volume * self.feasible
        return float((kept / self.prior_mass).min())
