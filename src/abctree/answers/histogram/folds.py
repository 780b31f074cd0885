"""`StepFold`, what one partition says of the posterior: some of its boxes, and points in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from abctree.data import Boxes, Partition
from abctree.errors import ParameterError
from abctree.problem.priors.cube import inside, spread
from abctree.protocols import Prior
from abctree.types import FloatArray, IntArray


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
    corners = [prior.from_cube(inside(c[chosen])) for c in (lower, upper)]
    return DenseBoxes(np.minimum(*corners), np.maximum(*corners), brings[chosen])


# Draws within boxes -------------------------------------------------------------------------------

#: Of the prior relative to the cube, (n, d) -> (n,), up to a constant.
Density: TypeAlias = Callable[[FloatArray], FloatArray]

#: Candidates with density among which a draw from a density is picked.
_N_CANDIDATES = 64
#: Candidates in the first attempt at a draw under a constraint; each attempt doubles it.
_N_FIRST = 4
#: Candidates in vain after which another box is drawn.
_N_IN_VAIN = 4096
#: Draws made at once: a limit on memory.
_DRAWS_AT_ONCE = 4096
#: Nodes shared out by mass, those of each box, and those of a box in which the first ones found
#: nothing.
_N_NODES, _N_NODES_EACH, _N_NODES_AGAIN = 2**16, 64, 1024


def _nowhere() -> ParameterError:
    return ParameterError(
        "`density` must be positive somewhere in the boxes with mass, but no such point was found. "
        "The constraint leaves too little of them: use the weighted draws of `Result.posterior`."
    )


def draw_within(
    fold: StepFold,
    density: Density,
    box: IntArray,
    rng: np.random.Generator,
    *,
    constant: bool,
) -> FloatArray:
    """A draw of a density in each named box of a fold: (n,) -> (n, d).

    Where the density is `constant` wherever it is not 0, one candidate will do.
    """
    enough = 1 if constant else _N_CANDIDATES
    cube = np.empty((len(box), fold.boxes.d))
    for first in range(0, len(box), _DRAWS_AT_ONCE):
        some = slice(first, first + _DRAWS_AT_ONCE)
        cube[some] = _Search(fold, density, enough, box[some], rng).points()
    return cube


class _Search:
    """Draws of a density in given boxes, from uniform candidates.

    Each draw holds one of its candidates so far, picked in proportion to the density: a candidate
    of a new batch replaces it with the probability of its share (reservoir sampling).
    """

    def __init__(
        self,
        fold: StepFold,
        density: Density,
        enough: int,
        box: IntArray,
        rng: np.random.Generator,
    ) -> None:
        self.boxes, self.mass, self.density = fold.boxes, fold.mass.copy(), density
        self.enough = enough  # candidates with density
        self.box, self.rng = box.copy(), rng
        self.cube = np.empty((len(box), fold.boxes.d))
        self.total = np.zeros(len(box))  # density of the candidates of each draw
        self.count = np.zeros(len(box), dtype=np.int64)  # those with density
        self.tried = np.zeros(len(box), dtype=np.int64)  # all since the box was drawn
        self.tried_in = np.zeros(len(fold.boxes), dtype=np.int64)  # by all draws of a box
        self.count_in = np.zeros(len(fold.boxes), dtype=np.int64)

    def points(self) -> FloatArray:
        """(n, d) The draws."""
        waiting = np.arange(len(self.box))
        batch = max(_N_FIRST, self.enough)
        while len(waiting):
            self._try(waiting, batch)
            count, tried = self.count[waiting], self.tried[waiting]
            in_vain = self.tried_in[self.box[waiting]] * (self.count_in[self.box[waiting]] == 0)
            lost = (count == 0) & (np.maximum(tried, in_vain) >= _N_IN_VAIN)
            self._redraw(waiting[lost])
            done = (count >= self.enough) | ((count > 0) & (tried >= _N_IN_VAIN))
            waiting = waiting[~done]
            batch = min(2 * batch, _N_CANDIDATES)
        return self.cube

    def _try(self, rows: IntArray, batch: int) -> None:
        """So many more candidates for each of some draws."""
        candidate = self.boxes.sample(np.repeat(self.box[rows], batch), self.rng)
        value = self.density(candidate).reshape(len(rows), batch)
        cumulative = np.cumsum(value, axis=1)
        new = cumulative[:, -1]
        level = np.minimum(self.rng.random(len(rows)) * new, np.nextafter(new, 0.0))
        pick = (cumulative > level[:, None]).argmax(axis=1) + batch * np.arange(len(rows))
        self.total[rows] += new
        taken = (new > 0.0) & (self.rng.random(len(rows)) * self.total[rows] <= new)
        self.cube[rows[taken]] = candidate[pick[taken]]
        count = np.count_nonzero(value, axis=1)
        self.count[rows] += count
        self.tried[rows] += batch
        np.add.at(self.count_in, self.box[rows], count)
        np.add.at(self.tried_in, self.box[rows], batch)

    def _redraw(self, rows: IntArray) -> None:
        """Other boxes for some draws, but none in which nothing was ever found."""
        if len(rows) == 0:
            return
        self.mass[(self.count_in == 0) & (self.tried_in >= _N_IN_VAIN)] = 0.0
        left = self.mass.sum()
        if not left > 0.0:
            raise _nowhere()
        self.box[rows] = self.rng.choice(len(self.mass), size=len(rows), p=self.mass / left)
        self.tried[rows] = 0


# Even points -------------------------------------------------------------------------------------


def nodes(
    lower: FloatArray,
    upper: FloatArray,
    mass: FloatArray,
    density: Density,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Points (m, d) of the cube with density, their boxes (m,) and their shares (m,) of mass.

    Boxes (K, d) may overlap; their masses (K,) sum to one.  A `ParameterError` if there is no such
    point.
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
        raise _nowhere()
    total = np.bincount(box, value, minlength=len(wanted))
    weight = mass[box] * value / total[box]
    return cube, box, weight / weight.sum()


def _spread(
    lower: FloatArray,
    upper: FloatArray,
    wanted: IntArray,
    density: Density,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """So many (K,) even points in each box, of which those with density are kept, and it there."""
    box = np.repeat(np.arange(len(wanted)), wanted)
    low, high = lower[box], upper[box]
    cube = low + (high - low) * spread(len(box), lower.shape[1])
    cube = inside(np.minimum(cube, np.nextafter(high, low)))
    value = density(cube)
    kept = value > 0.0
    return cube[kept], box[kept], value[kept]
