"""`Region`: a prior and a constraint, and what they say of points and boxes of the cube."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from abctree.data import Boxes, Partition
from abctree.errors import ParameterError
from abctree.problem.priors.cube import inside
from abctree.problem.priors.product import Product
from abctree.protocols import Constraint, HasCubeDensity, Prior
from abctree.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.stats import qmc

#: Points per box with which a constrained or density prior is measured.
_MEASURE_POINTS = 32
#: Points in a box in which none of these is allowed, and most of them in all boxes together.
_SECOND_LOOK, _SECOND_LOOKS = 2**10, 2**18
#: Points in one step, most points, and effective points wanted for the normaliser.
_STEP, _MOST, _WANTED = 2**16, 2**22, 50_000
#: Rows of which the constraint is asked again.
_AGAIN = 64
#: A normaliser less sure than this is an error: every evidence would be off by as much.
_WORST_ERROR = 0.05


@dataclass(frozen=True, eq=False)
class Region:
    """The prior, truncated to where the constraint holds."""

    prior: Prior
    constraint: Constraint | None

    @cached_property
    def is_plain(self) -> bool:
        """Whether π(Ω_k) is the volume of the box, exactly."""
        return self.constraint is None and not self.has_density

    @cached_property
    def to_theta(self) -> Callable[[FloatArray], FloatArray]:
        """The prior as a map of points (n, d) that the library drew itself."""
        return self.prior.from_own if type(self.prior) is Product else self.prior.from_cube

    def feasible(self, theta: FloatArray, cube: FloatArray | None = None) -> BoolArray:
        """Where the constraint holds and, if `cube` (n, d) is given, the prior has density."""
        allowed = self._constrained(theta)
        if cube is not None and self.has_density:
            allowed = allowed & (self.weight(cube) > 0.0)
        return allowed

    def _constrained(self, theta: FloatArray) -> BoolArray:
        if self.constraint is None:
            return np.ones(len(theta), dtype=bool)
        names = self.prior.names
        # Copies: a predicate that changes its columns must not change theta.
        columns = {name: theta[:, j].copy() for j, name in enumerate(names)}
        try:
            allowed = np.asarray(self.constraint(columns))
        except KeyError as error:
            raise ParameterError(
                f"`constraint` must use the parameters {list(names)}, but asked for {error}."
            ) from error
        except Exception as error:
            raise ParameterError(
                f"`constraint` must work on whole columns, but raised {type(error).__name__}: "
                f'{error}. Combine comparisons with &, as in lambda t: (0 < t["a"]) & '
                '(t["a"] < t["b"]).'
            ) from error
        if allowed.shape != (len(theta),) or allowed.dtype != np.bool_:
            raise ParameterError(
                f"`constraint` must return {len(theta)} booleans for {len(theta)} rows, but got "
                f"{allowed.dtype} of shape {allowed.shape}. Write it on whole columns, "
                'as in lambda t: t["a"] < t["b"].'
            )
        return np.asarray(allowed)

    def weight(self, cube: FloatArray) -> FloatArray:
        """Prior density relative to the cube, up to the constant in `normaliser`: (n, d) -> (n,).

        One, unless the prior is known as a density only (the paper's Remark 1).
        """
        if not self.has_density:
            return np.ones(len(cube))
        return np.asarray(cast("HasCubeDensity", self.prior).cube_density(cube))

    @cached_property
    def has_density(self) -> bool:  # to ask a protocol takes as long as to draw some points
        """Whether the prior is known as a density."""
        return isinstance(self.prior, HasCubeDensity)

    def weight_of_feasible(self, cube: FloatArray) -> FloatArray:
        """`weight`, and zero where the constraint refuses: (n, d) -> (n,)."""
        if self.is_plain:  # some laws take milliseconds a quantile
            return np.ones(len(cube))
        return np.asarray(self.weight(cube) * self._constrained(self.prior.from_cube(cube)))

    def density(self, cube: FloatArray) -> FloatArray:
        """Density of the truncated prior relative to the cube: (n, d) -> (n,)."""
        return self.weight_of_feasible(cube) / self.normaliser[0]

    @property
    def normaliser(self) -> tuple[float, float]:
        """Integral of `weight_of_feasible` over the cube, and its relative error.

        By a fixed quasi-random sequence: no simulation is spent on it.  A `ParameterError` if no
        feasible point is found, or the density is too peaked to be integrated.
        """
        return self._integral[:2]

    @property
    def allowed(self) -> float:
        """Share of the cube in which the constraint holds and the prior has density."""
        return self._integral[2]

    @cached_property
    def _integral(self) -> tuple[float, float, float]:
        """The normaliser, its relative error, and the share of the cube that is allowed."""
        if self.is_plain:
            return 1.0, 0.0, 1.0
        points = _sobol(self.prior.d)
        n, n_left, n_allowed, total, square = 0, 0, 0, 0.0, 0.0
        while n < _MOST:
            cube = inside(points.random(_STEP))
            theta = self.prior.from_cube(cube)
            left = self._constrained(theta)
            if n == 0 and (self._constrained(theta[:_AGAIN]) != left[:_AGAIN]).any():
                raise ParameterError(
                    "`constraint` must say the same of a row each time, whatever the other rows, "
                    "but said both. It must neither draw random numbers nor compare rows."
                )
            value = self.weight(cube) * left
            n, n_left = n + len(value), n_left + int(np.count_nonzero(left))
            n_allowed += int(np.count_nonzero(value))
            total += value.sum()
            square += float(value @ value)
            if square > 0.0 and total**2 / square >= _WANTED:
                break
        _check_left(n_left, n)
        mean = total / n
        square = max(square / n - mean**2, 0.0)
        error = float(np.sqrt(square / n) / mean) if total > 0.0 else np.inf
        if error > _WORST_ERROR:
            found = "find none of it" if total == 0.0 else f"integrate it to {error:.0%} only"
            raise ParameterError(
                f"`prior` must spread over its box, but {n} points {found}. Give "
                "tighter bounds, a looser constraint, or a prior with quantile functions."
            )
        return mean, error, n_allowed / n

    @cached_property
    def _measure_points(self) -> FloatArray:
        return inside(_sobol(self.prior.d).random(_SECOND_LOOK))

    def measure(self, boxes: Boxes) -> Partition:
        """What the prior says of boxes.

        π(Ω_k) is the volume of the box in the cube, exactly, unless there is a constraint or a
        density prior: then it is estimated at no simulation cost.  That estimate steers which arms
        are played; weights and evidence do not rest on it (`Mixture`).
        """
        volume, log_volume_of = boxes.volume, self.prior.log_volume
        if self.is_plain:
            return Partition(boxes, volume, log_volume_of, np.ones(len(boxes)))
        weight, n_seen, n = self._looked_at(boxes)
        normaliser, _, allowed = self._integral
        feasible = (n_seen + 0.5) / (n + 0.5)
        # The average of few points may miss the best of a box.
        weight = np.maximum(weight, 0.5 * normaliser / n)
        # A box in which no point was allowed may still hold a sliver of the prior.  It counts as an
        # average box, in so far as the average leaves one in doubt: where hardly anything is
        # allowed anywhere, finding nothing means nothing; else the box is hardly ever played.
        empty = n_seen == 0
        weight[empty] = normaliser * 0.5 / (0.5 + n[empty] * allowed)
        feasible[empty] = allowed
        mass = volume * weight
        return Partition(boxes, mass / mass.sum(), log_volume_of, feasible)

    def _looked_at(self, boxes: Boxes) -> tuple[FloatArray, IntArray, IntArray]:
        """Mean weight of points in each box (K,), how many are allowed, and how many there are."""
        points = self._measure_points
        n = np.full(len(boxes), _MEASURE_POINTS)
        total, n_seen = self._sums(boxes.lower, boxes.upper, points[:_MEASURE_POINTS])
        unseen = np.flatnonzero(n_seen == 0)
        most = min(len(points), _MEASURE_POINTS + _SECOND_LOOKS // max(len(unseen), 1))
        if len(unseen) and most > _MEASURE_POINTS:
            n[unseen] = most
            lower, upper = boxes.lower[unseen], boxes.upper[unseen]
            total[unseen], n_seen[unseen] = self._sums(lower, upper, points[_MEASURE_POINTS:most])
        return total / n, n_seen, n

    def _sums(
        self, lower: FloatArray, upper: FloatArray, points: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Sum of the weights at points (m, d) of each box (K,), and how many are not zero."""
        cube = lower[:, None, :] + (upper - lower)[:, None, :] * points[None, :, :]
        flat = inside(cube.reshape(-1, points.shape[1]))
        weight = self.weight_of_feasible(flat).reshape(len(lower), len(points))
        return weight.sum(axis=1), np.count_nonzero(weight, axis=1)


def _check_left(n_left: int, n: int) -> None:
    """Raise `ParameterError` where a constraint leaves too few of n points to know its share."""
    if n_left == 0:
        raise ParameterError(
            f"`constraint` must leave some of the prior, but none of {n} prior draws "
            "satisfies it. Check its direction, or reparametrise."
        )
    if n_left < _WORST_ERROR**-2:
        raise ParameterError(
            f"`constraint` must leave more of the prior, but only {n_left} of {n} prior draws "
            "satisfy it: too few to know the share. Give the prior bounds that are nearer to what "
            "it allows, or reparametrise."
        )


def _sobol(d: int) -> qmc.Sobol:
    from scipy.stats import qmc

    # Scrambled, by a fixed seed: the plain sequence lines up with constraints like a < b.
    return qmc.Sobol(d, rng=np.random.default_rng(0))
