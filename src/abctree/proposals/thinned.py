"""`Thinned`: candidates of a simple law, kept in proportion to what they promise.

A refused candidate costs about a microsecond and no simulation.  What is kept follows √η̂, the
proposal under which draws have the largest effective sample size, inside boxes too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abctree.data import effective_sample_size
from abctree.proposals.proposal import Blend, OnBoxes, Proposal
from abctree.proposals.students import fit_students
from abctree.proposals.surrogate import Surrogate
from abctree.types import BoolArray, FloatArray

#: Exponent of the rate in the target: ½ maximises the effective sample size.
_EXPONENT = 0.5
#: Candidates from which the bound is set, those to which the base is fitted, and least that these
#: must be worth.
_CANDIDATES, _POINTS, _WORTH = 1000, 300, 10.0
#: Quantile at which the weights of the fit are clipped, and the least share of the boxes.
_CLIP, _LEAST_BOXES = 0.99, 0.1
#: Share of the target that lies below the bound, and most candidates that a simulation may take.
_BELOW, _MOST_CANDIDATES = 0.9, 40.0


@dataclass(frozen=True, eq=False)
class Thinned:
    """Candidates of density c, each kept with probability min(1, g / (κ c)), g = √η̂."""

    base: Proposal
    target: Callable[[FloatArray], FloatArray]  #: g, relative to the cube
    kappa: float
    n_candidates: float  #: that a kept one takes, about

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
        """See `Proposal`."""
        cube, _ = self.base.draw(n, rng)
        share = self.target(cube) / (self.kappa * self.base.density(cube))
        return cube, rng.random(n) < share

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`."""
        return np.minimum(self.base.density(cube), self.target(cube) / self.kappa)


def target_of(
    surrogate: Surrogate, prior_weight: Callable[[FloatArray], FloatArray] | None
) -> Callable[[FloatArray], FloatArray]:
    """g = √η̂, times the density of the prior relative to the cube where it is not one."""

    def target(cube: FloatArray) -> FloatArray:
        g = surrogate.rate(cube) ** _EXPONENT
        return g if prior_weight is None else g * prior_weight(cube)

    return target


def fit_thinned(
    target: Callable[[FloatArray], FloatArray],
    on_boxes: OnBoxes,
    last: Thinned | None,
    rng: np.random.Generator,
) -> Thinned | None:
    """A law to draw candidates from, fitted to the target, and the bound κ.

    Parameters
    ----------
    target : callable
        g, (n, d) -> (n,).
    on_boxes : OnBoxes
        What the boxes propose.
    last : Thinned or None
        That of the last round, whose candidates the fit begins with.
    rng : Generator
        For candidates.

    Returns
    -------
    Thinned or None
        None if the target is zero at all candidates.
    """
    base = _fit_base(target, on_boxes, on_boxes if last is None else last.base, rng)
    cube, _ = base.draw(_CANDIDATES, rng)
    ratio = np.sort(target(cube) / base.density(cube))
    if not ratio[-1] > 0.0:
        return None
    # With κ one of the ratios, what lies below it, and the share of candidates that is kept.
    below = np.cumsum(ratio)
    kept = below / np.maximum(ratio, np.finfo(float).tiny) + np.arange(len(ratio))[::-1]
    share = kept / len(ratio)
    k = np.searchsorted(below, _BELOW * below[-1])
    k = min(int(k), int(np.flatnonzero(share * _MOST_CANDIDATES >= 1.0)[-1]))
    return Thinned(base, target, float(ratio[k]), float(1.0 / share[k]))


def _fit_base(
    target: Callable[[FloatArray], FloatArray],
    on_boxes: OnBoxes,
    last: Proposal,
    rng: np.random.Generator,
) -> Proposal:
    """The boxes and Student laws, fitted to candidates of the last base weighted by g / c."""
    cube, _ = last.draw(_POINTS, rng)
    weight = target(cube) / last.density(cube)
    weight = np.minimum(weight, np.quantile(weight, _CLIP))
    if effective_sample_size(weight) < _WORTH:
        return on_boxes
    share, students = fit_students(cube, weight, on_boxes.density(cube), rng)
    share = min(share, 1.0 - _LEAST_BOXES)
    return Blend(((1.0 - share, on_boxes), (share, students)))
