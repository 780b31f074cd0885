"""`Thinned`: candidates of a simple law, kept in proportion to what a `Surrogate` promises.

The surrogate is the acceptance rate at any θ and ε.  In the nodes of a tree the standardised
summaries are regressed on the parameters, each node shrunk to its parent; the residuals that are
left are added to the fitted summaries at a new θ, and the share of these that is closer than ε is
the rate there.  All rows teach it, rejected ones too, and it is smooth inside a box.

A refused candidate costs about a microsecond and no simulation.  What is kept follows √η̂, the
proposal under which draws have the largest effective sample size, inside boxes too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from scipy import special

from abctree.data import Boxes, effective_sample_size
from abctree.kernels.surrogate import FREEDOM, acceptance_rates, fit_models, residual_lists
from abctree.proposals.proposal import Blend, OnBoxes, Proposal
from abctree.proposals.students import Students, fit_students, log_norm
from abctree.threads import Each
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows of a node that has a regression of its own, and those that its parent's is worth to it.
_ROWS, _STRENGTH = 200.0, 60.0
#: Quadratic features need so many rows for each, and are at most so many; else linear ones.
_ROWS_PER_FEATURE, _MOST_FEATURES = 6, 120
#: Residuals that a Student law of them is worth, and the box's own rate.
_LAW_WORTH, _BOX_WORTH = 2.0, 0.1
#: What is added to the variance of residuals, a share of it.
_RIDGE = 1e-9
#: Scale of the edge of the ball, in ε.
_SOFTNESS = 0.35
#: Residuals in a list: numbers in all, bounds, and a multiple of √T.
_NUMBERS, _FEWEST, _MOST, _PER_ROOT = 1500, 64, 1024, 8.0
#: Numbers in the covariances of the lists whose laws are fitted at once: a thread for less would
#: take longer to start.
_AT_ONCE = 2**14
#: Exponent of the rate in the target: ½ maximises the effective sample size.
_EXPONENT = 0.5
#: Candidates from which the bound is set, those to which the base is fitted, and least that these
#: must be worth.
_CANDIDATES, _POINTS, _WORTH = 1000, 300, 10.0
#: Quantile at which the weights of the fit are clipped, and the least share of the boxes.
_CLIP, _LEAST_BOXES = 0.99, 0.1
#: Share of the target that lies below the bound, and most candidates that a simulation may take.
_BELOW, _MOST_CANDIDATES = 0.9, 40.0

#: Of the residuals of some lists, as `_laws_of` has them.
Laws: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Acceptance rates at a tolerance; made by `fit_surrogate`."""

    boxes: Boxes
    model_of_box: IntArray  #: (K,)
    beta: FloatArray  #: (M, s, p) coefficients, of summaries in units of ε
    list_of_box: IntArray  #: (K,)
    residual: FloatArray  #: (L, s, R) float32, and rows of zeros
    number: IntArray  #: (L,) residuals in each list
    laws: Laws  #: of the residuals of each list, and a ball
    box_rate: FloatArray  #: (K,) rates that the boxes are believed to have, at the same ε

    def rate(self, cube: FloatArray) -> FloatArray:
        """η̂ in (0, 1): (n, d) -> (n,), in O(R s) a point."""
        rate = np.empty(len(cube))
        acceptance_rates(
            cube, self.boxes.locate(cube), self.model_of_box, self.beta, self.list_of_box,
            self.residual, self.number, *self.laws, self.box_rate, _SOFTNESS, _LAW_WORTH,
            _BOX_WORTH, rate,
        )  # fmt: skip
        return rate


@dataclass(frozen=True, eq=False)
class Regressions:
    """What a `Surrogate` is made of before its residuals are drawn."""

    boxes: Boxes
    row_box: IntArray  #: (n,) the box of each row, -1 of one that they were not fitted to
    model_of_box: IntArray  #: (K,)
    beta: FloatArray  #: (M, s, p)

    @classmethod
    def fitted(
        cls, boxes: Boxes, row_box: IntArray, cube: FloatArray, z: FloatArray, usable: BoolArray
    ) -> Regressions:
        """Regress summaries z (n, s), in units of ε, on points (n, d) in the boxes `row_box`.

        They are differences to the observation whose norm is the distance.  Those that are not
        usable failed: they are in no regression, nor are those whose box is -1.
        """
        tree, taught = boxes.tree, usable & (row_box >= 0)
        n_features = min(_MOST_FEATURES, int(np.count_nonzero(taught)) // _ROWS_PER_FEATURE)
        p = 1 + boxes.d + boxes.d * (boxes.d + 1) // 2
        if p > n_features:
            p = 1 + boxes.d
        where = tree.parent, tree.node_of_box
        models = fit_models(cube, z, taught, row_box, *where, p, _ROWS, _STRENGTH)
        return cls(boxes, row_box, *models)


def fit_surrogate(
    fit: Regressions,
    cube: FloatArray,
    z: FloatArray,
    usable: BoolArray,
    box_rate: FloatArray,
    budget: int,
    rng: np.random.Generator,
    each: Each = map,
) -> Surrogate:
    """Keep residuals of the rows that regressions were fitted to, the more the larger the budget.

    Rows that are not usable are accepted nowhere.
    """
    size = int(np.clip(_NUMBERS / z.shape[1], _FEWEST, min(_MOST, _PER_ROOT * np.sqrt(budget))))
    order, tree = rng.permutation(np.flatnonzero(fit.row_box >= 0)), fit.boxes.tree
    list_of_box, residual, number = residual_lists(
        cube, z, usable, fit.row_box, order, tree.parent, tree.node_of_box, fit.model_of_box,
        fit.beta, size,
    )  # fmt: skip
    step = max(1, _AT_ONCE // z.shape[1] ** 2)
    parts = [slice(a, a + step) for a in range(0, len(number), step)]
    laws = [*each(lambda part: _laws_of(residual[part, : z.shape[1]], number[part]), parts)]
    mean, whiten, amplitude = (np.concatenate(column) for column in zip(*laws, strict=True))
    return Surrogate(
        fit.boxes, fit.model_of_box, fit.beta, list_of_box, residual, number,
        (mean, whiten, amplitude), box_rate,
    )  # fmt: skip


def _laws_of(residual: FloatArray, number: IntArray) -> Laws:
    """Student laws, with 5 degrees of freedom, of the sum of residuals and a uniform ball.

    The ball has radius 1, and so the covariance I / (s + 2).  The answer is the means m (L, s), the
    inverse roots W (L, s, s), lower triangular, and amplitudes a (L,): the density times the volume
    of the ball, and times the share of residuals that are finite, as `acceptance_rates` has it.
    """
    s = residual.shape[1]
    finite: BoolArray = np.asarray(np.isfinite(residual).all(axis=1))
    n = np.maximum(finite.sum(axis=1), 1)
    e = np.where(finite[:, None], residual, 0.0)
    mean = e.sum(axis=2, dtype=np.float64) / n[:, None]
    e = np.where(finite[:, None], e - mean[:, :, None], 0.0)
    covariance = e @ e.transpose(0, 2, 1) / n[:, None, None]
    a = np.arange(s)
    covariance[:, a, a] += _RIDGE * covariance[:, a, a] + 1.0 / (s + 2.0)
    root = np.linalg.cholesky(covariance)
    ball = 0.5 * s * np.log(np.pi) - special.gammaln(0.5 * s + 1.0)
    log_rate = log_norm(FREEDOM, root) + ball + np.log(n / number)
    amplitude = FREEDOM * np.exp(log_rate / (0.5 * (FREEDOM + s)))
    return mean, np.linalg.inv(root), np.where(finite.any(axis=1), amplitude, 0.0)


class Target(Protocol):
    """g, in proportion to which candidates are kept: a density over the cube, of any integral."""

    def __call__(self, cube: FloatArray) -> FloatArray:
        """g (n,) at points (n, d)."""

    def most(self, cube: FloatArray) -> FloatArray:
        """A bound of g there that is soon known (n,)."""


@dataclass(frozen=True, eq=False)
class RootRate:
    """g = √(c η̂), times the density of the prior relative to the cube."""

    surrogate: Surrogate
    prior_weight: Callable[[FloatArray], FloatArray]
    counted: Callable[[FloatArray], FloatArray] | None = None  #: c; None: 1 everywhere

    def __call__(self, cube: FloatArray) -> FloatArray:
        """See `Target`."""
        return self.surrogate.rate(cube) ** _EXPONENT * self.most(cube)

    def most(self, cube: FloatArray) -> FloatArray:
        """See `Target`."""
        weight = self.prior_weight(cube)
        return weight if self.counted is None else weight * self.counted(cube) ** _EXPONENT


@dataclass(frozen=True, eq=False)
class Thinned:
    """Candidates of density c, each kept with probability min(1, g / (κ c)), g = √η̂."""

    base: Proposal
    target: Target  #: g
    kappa: float
    n_candidates: float  #: that a kept one takes, about
    students: Students | None = None  #: the part of the base that is not boxes

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
        """See `Proposal`."""
        cube, _ = self.base.draw(n, rng)
        asked = rng.random(n) * self.kappa * self.base.density(cube)
        kept = asked < self.target.most(cube)  # of the others the rate need not be known
        kept[kept] = asked[kept] < self.target(cube[kept])
        return cube, kept

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`."""
        return np.minimum(self.base.density(cube), self.target(cube) / self.kappa)


def fit_thinned(
    target: Target,
    on_boxes: OnBoxes,
    last: Thinned | None,
    rng: np.random.Generator,
) -> Thinned | None:
    """A law of candidates, fitted to those of the last round, and the bound κ.

    None if the target g is zero at all candidates.
    """
    base, students = _fit_base(target, on_boxes, on_boxes if last is None else last.base, rng)
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
    k = max(k, int(np.searchsorted(ratio, 0.0, side="right")))  # a prior may be 0 nearly everywhere
    return Thinned(base, target, float(ratio[k]), float(1.0 / share[k]), students)


def _fit_base(
    target: Target,
    on_boxes: OnBoxes,
    last: Proposal,
    rng: np.random.Generator,
) -> tuple[Proposal, Students | None]:
    """The boxes and Student laws, fitted to candidates of the last base weighted by g / c."""
    cube, _ = last.draw(_POINTS, rng)
    weight = target(cube) / last.density(cube)
    weight = np.minimum(weight, np.quantile(weight, _CLIP))
    if effective_sample_size(weight) < _WORTH:
        return on_boxes, None
    share, students = fit_students(cube, weight, on_boxes.density(cube), rng)
    share = min(share, 1.0 - _LEAST_BOXES)
    return Blend(((1.0 - share, on_boxes), (share, students))), students
