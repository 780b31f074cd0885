"""What draws beside the boxes of a round: the prior, thinned candidates, kernels.

Boxes resolve a posterior as finely as their accepted rows are many.  Candidates that are thinned by
a surrogate of the summaries follow it inside the boxes, and kernels around accepted rows follow
what neither has resolved.  How much of a round each proposes is decided for each round anew.

Nothing that a fold proposes has seen the fold's own rows: all is learned from the rows of the other
folds, and shares are judged by these rows, each of them with the laws of *its* fold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from abctree.data import Table, mixture_weights
from abctree.problem import Problem
from abctree.proposals.points import Source, best_shares
from abctree.proposals.proposal import OnBoxes, Proposal, UniformCube
from abctree.proposals.students import CubeKernels
from abctree.proposals.thinned import (
    Regressions,
    RootRate,
    Thinned,
    fit_surrogate,
    fit_thinned,
)
from abctree.tree.fold import Fold
from abctree.tree.game import Game
from abctree.types import BoolArray, FloatArray, IntArray

#: Centres of kernels, and accepted rows from which shares are judged: the fewest; the most centres.
_FEWEST, _MOST = 20, 1000
#: Others stand around rows within so many tolerances where ε stays: the best proposal is wider
#: than the posterior, and draws at its rim would be heavy.  An ε that falls has been at the rim.
_REACH = 1.5
#: Shares of boxes, thinned candidates, kernels, Student laws and kernels that reach further, with
#: and without a surrogate.
_STANDARD, _WITHOUT = np.array([0.3, 0.7, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
#: Rows whose summaries are read where they stay in a run folder.
_READ = 50_000
#: Most summaries that are modelled; their largest size, in first tolerances and in tolerances:
#: beyond, all are far, and squares have room.
_SUMMARIES, _FAR, _FARTHEST = 64, 1e6, 1e100


@dataclass(frozen=True)
class Tolerances:
    """ε_1, ε_{s-1} and ε_s."""

    first: float
    last: float
    now: float


@dataclass(frozen=True)
class Laws:
    """What a fold may draw from in a round."""

    boxes: OnBoxes
    thinned: Thinned | None
    kernels: Proposal | None
    wide: Proposal | None  #: kernels that reach beyond ε

    @property
    def students(self) -> Proposal | None:
        """The Student laws that candidates are drawn from."""
        return None if self.thinned is None else self.thinned.students

    def at(self, cube: FloatArray) -> FloatArray:
        """Densities (n, 5) of points that become simulations; zero for a law that there is not."""
        density = np.zeros((len(cube), 5))
        density[:, 0] = self.boxes.density(cube)
        if self.thinned is not None:
            density[:, 1] = self.thinned.n_candidates * self.thinned.density(cube)
        if self.kernels is not None:
            density[:, 2] = self.kernels.density(cube)
        if self.students is not None:
            density[:, 3] = self.students.density(cube)
        if self.wide is not None:
            density[:, 4] = self.wide.density(cube)
        return density

    def sources(self, share: FloatArray, defensive: float, n: float) -> tuple[Source, ...]:
        """What draws beside the boxes about n points, in shares (5,) of what the prior leaves."""
        if (share[1:] == 0.0).all():
            return ()
        per_point = 1.0 if self.thinned is None else self.thinned.n_candidates
        laws: list[tuple[Proposal | None, float, float]] = [
            (UniformCube(self.boxes.boxes.d), defensive, 1.0),
            (self.thinned, (1.0 - defensive) * share[1], 1.2 * per_point),
            (self.kernels, (1.0 - defensive) * share[2], 1.0),
            (self.students, (1.0 - defensive) * share[3], 1.0),
            (self.wide, (1.0 - defensive) * share[4], 1.0),
        ]
        return tuple(
            Source(law, part, n_left=int(part * n), per_point=per_point)
            for law, part, per_point in laws
            if law is not None and part > 0.0
        )


def rows_to_read(game: Game) -> slice | IntArray:
    """Rows whose summaries are read: all, or some of many that are in a run folder."""
    table = game.table
    if table.is_in_memory or len(table) <= _READ or game.plan.proposal == ("boxes",):
        return slice(None)
    return np.sort(game.rng.choice(len(table), _READ, replace=False, shuffle=False))


def with_sources(
    game: Game,
    folds: Sequence[Fold],
    read: slice | IntArray,
    row_box: Sequence[IntArray],
    teachers: Callable[[int], IntArray],
    epsilon: Tolerances,
) -> tuple[Fold, ...]:
    """The folds at the start of a round, each with what draws beside its boxes.

    The table has all denominators up to date; teachers are the rows that a fold may learn from, in
    their order, and `row_box` has the box of each row that is read and -1 where it is no teacher.
    Folds draw one after another.
    """
    table, plan, rng = game.table, game.plan, game.rng
    z = standardised(game.problem, table, read, epsilon) if "thinned" in plan.proposal else None
    cube, usable = table.cube[read], np.isfinite(table.distance[read])
    cube.flags.writeable = False  # as the table's own, for else kernels are compiled again
    wide = _REACH * epsilon.now
    if not plan.grows or wide < epsilon.last:
        wide = 0.0
    fits: list[Regressions | None] = [None] * len(folds)
    if z is not None:

        def fitted(f: int) -> Regressions:
            return Regressions.fitted(folds[f].partition.boxes, row_box[f], cube, z, usable)

        fits = [*game.each(fitted, range(len(folds)))]
    laws = []
    for f, (fold, fit) in enumerate(zip(folds, fits, strict=True)):
        rows = teachers(f)
        q = game.rules.utility.optimal_proposal(fold.rates(), fold.partition.prior_mass)
        on_boxes = fold.offer(q, plan.defensive)
        thinned = None
        if fit is not None and z is not None:
            thinned = _thinned(game, fold, on_boxes, fit, (cube, z, usable))
        kernels: list[Proposal | None] = []
        for reach in (epsilon.now, wide):
            near = rows[table.distance[rows] < reach] if "kernels" in plan.proposal else rows[:0]
            few = len(near) < _FEWEST
            share = mixture_weights(table, near) * np.sqrt(fold.counted(table.cube[near]))
            kernels.append(None if few else _kernels(table.cube[near], share, rng))
        laws.append(Laws(on_boxes, thinned, *kernels))
    near = np.flatnonzero(table.distance < max(epsilon.last, epsilon.now))
    weight = mixture_weights(table, near)
    counted = [weight * fold.counted(table.cube[near]) for fold in folds]
    shares = _shares(table, laws, teachers, near, counted)
    n = (plan.end_of_round(len(table)) - len(table)) / len(folds)
    return tuple(
        replace(fold, beside=law.sources(share, plan.defensive, n))
        for fold, law, share in zip(folds, laws, shares, strict=True)
    )


def _among(some: IntArray, rows: IntArray) -> BoolArray:
    """Which of some rows are among others, both increasing; few are looked up among many."""
    if not len(rows):
        return np.zeros(len(some), dtype=bool)
    place = np.searchsorted(rows, some)
    return np.asarray(rows[np.minimum(place, len(rows) - 1)] == some)


def standardised(
    problem: Problem, table: Table, read: slice | IntArray, epsilon: Tolerances
) -> FloatArray | None:
    """z (n, s): summaries as differences to the observation whose norm is the distance over ε.

    Zero for a failure; None where the distance is no such norm, or summaries are not known: they
    are not kept, or a session was told distances.
    """
    if not 0 < table.summary_size <= _SUMMARIES:
        return None
    z = problem.measurement.standardised(table.summary_of(read))
    if z is None:
        return None
    usable = np.isfinite(table.distance[read])
    if np.isnan(z[usable]).any():
        return None
    now = min(epsilon.now, sys.float_info.max)  # a list of tolerances may begin with inf
    far = min(_FAR * max(epsilon.first, now) / now, _FARTHEST)
    with np.errstate(over="ignore"):
        z = np.clip(z / now, -far, far)
    return np.where(usable[:, None], z, 0.0)


def _thinned(
    game: Game,
    fold: Fold,
    on_boxes: OnBoxes,
    fit: Regressions,
    taught: tuple[FloatArray, FloatArray, BoolArray],
) -> Thinned | None:
    budget, rate = game.plan.goal(len(game.table)), fold.beliefs.arms().mean
    surrogate = fit_surrogate(fit, *taught, rate, budget, game.rng, game.each)
    newest = fold.mixture.layers[-1] if fold.mixture.layers else ()
    last = next((law for _, law in newest if isinstance(law, Thinned)), None)
    counted = None if fold.models is None else fold.models.at
    target = RootRate(surrogate, game.problem.region.weight, counted)
    return fit_thinned(target, on_boxes, last, game.rng)


def _kernels(cube: FloatArray, weight: FloatArray, rng: np.random.Generator) -> CubeKernels:
    """Kernels around some of the points (n, d)."""
    share = weight / weight.sum()
    if len(cube) > _MOST:
        chosen = np.sort(rng.choice(len(cube), _MOST, replace=False, p=share))
        cube, share = cube[chosen], np.full(_MOST, 1.0 / _MOST)
    return CubeKernels.around(cube, share)


def _shares(
    table: Table,
    laws: Sequence[Laws],
    teachers: Callable[[int], IntArray],
    near: IntArray,
    weights: Sequence[FloatArray],
) -> list[FloatArray]:
    """Shares (5,) of the laws of each fold, judged by accepted rows and what they count to it."""
    standard = [_WITHOUT if law.thinned is None else _STANDARD for law in laws]
    if len(near) < _FEWEST:
        return standard
    added = np.empty((len(near), 5))
    for f, law in enumerate(laws):
        own = table.fold[near] == f
        added[own] = law.at(table.cube[near[own]])
    added *= len(table) / len(laws)
    shares = []
    for f, weight in enumerate(weights):
        seen = _among(near, teachers(f))
        known = table.denominator[near[seen]]
        shares.append(best_shares(weight[seen], known, added[seen], standard[f]))
    return shares
