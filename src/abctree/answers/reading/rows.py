"""`Rows`: the part of a run's table about the observation, to be read at it or at any row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from abctree.answers.reading.choice import Cell, Summaries
from abctree.answers.reading.local import LocalModel
from abctree.answers.reading.regression import Regression, moved, regression
from abctree.answers.run import Run
from abctree.answers.scores import Scores
from abctree.answers.selection import just_above
from abctree.data import Table, effective_sample_size, running_ess
from abctree.errors import ParameterError, wrong
from abctree.problem.models import Models
from abctree.problem.priors.cube import inside
from abctree.problem.ridge import Fitted, varies
from abctree.threads import Each, side_by_side
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows nearest to the observation that are looked at: several times those of the largest reading.
_MOST = 20_000
#: Of rows that are read from a run folder so many are looked at where all would be.
_THINNED = 200_000
#: The share of these that says where to cut circles open is one in so many.
_NEAREST = 20
#: Rows without which a table is read as it is, and cannot be checked.
FEWEST = 100
#: A reading must leave rows outside of it, of which the nearest ends it.
_LARGEST_SHARE = 0.7
#: An adjustment wants more draws than an unadjusted answer: it removes most of what ε adds.  They
#: are a share of the simulations, within bounds, and of few simulations twice as large a share.
_SHARE, _AT_LEAST, _AT_MOST = 0.1, 300.0, 3000.0
#: Local models, each where the draws of the one before are.
_LOCAL_STEPS = 2


class Reading(NamedTuple):
    """Draws: numbers of rows (m,), their places (m, k) and weights (m,)."""

    row: IntArray
    z: FloatArray
    weight: FloatArray


class Reread(NamedTuple):
    """A table by other summaries than the run's own: those of the observation are 0."""

    distance: FloatArray  #: (T,) inf where there are none
    summary_of: Callable[[IntArray], FloatArray]  #: rows (k,) -> (k, m)
    observed: FloatArray  #: (m,)


@dataclass(frozen=True, eq=False)
class Rows:
    """Finite rows nearest to the observation, in order of their distance."""

    scores: Scores
    x: FloatArray  #: (n, q) what a regression is on, 0 at the observation
    summary: FloatArray  #: (n, ...) summaries, in their own shape
    distance: FloatArray  #: (n,) to the observation
    weight: FloatArray  #: (n,) raw importance weights, above 0
    number: IntArray  #: (n,) rows of the table
    run: Run

    @classmethod
    def of(cls, run: Run, most: int | None = _MOST) -> Rows:
        """Of a run: the nearest, or all, which are every k-th where they stay in the store.

        Raises
        ------
        ParameterError
            If the run kept no summaries, or is over several models.
        """
        if isinstance(run.problem, Models):
            raise ParameterError(
                "`result` must be of one model for what reads summaries, for the parameters of "
                "several are not the same ones. Read result.of_model(name)."
            )
        table, measurement = run.table, run.problem.measurement
        if table.summary_size == 0:
            raise ParameterError(
                "`keep_summaries` must be True for what reads summaries, but none were kept: by "
                "default they are up to 64 numbers. Run with keep_summaries=True."
            )
        weight = run.weights()
        row = np.flatnonzero(np.isfinite(table.distance) & (weight > 0.0))
        if most is None and not table.is_in_memory:
            row = row[:: max(1, len(row) // _THINNED)]
        row = row[np.argsort(table.distance[row], kind="stable")]
        row, summary = _usable(table, row, len(row) if most is None else most)
        x = measurement.standardised(summary)
        if x is None:
            x = summary - measurement.observed_summary.ravel()
        scores = Scores.of(
            table.theta_of(row), table.cube[row], run.problem.region, None, None, weight[row],
            near=max(len(row) // _NEAREST, 1),
        )  # fmt: skip
        shaped = summary.reshape(len(row), *measurement.shape)
        return cls(scores, x, shaped, table.distance[row], weight[row], row, run)

    def __len__(self) -> int:
        return len(self.weight)

    def checked(self) -> Rows:
        """The same, if they are enough to be compared with each other."""
        if len(self) < FEWEST:
            raise ParameterError(
                f"`n_simulations` must leave {FEWEST} simulations or more with a finite distance "
                f"for this, but left {len(self)}. Run more."
            )
        return self

    @cached_property
    def places(self) -> tuple[FloatArray, BoolArray]:
        """(n, k) Where draws lie, on a scale without bounds, and which of the k may move."""
        cube = self.scores.cube
        if cube is None:
            return self.scores.z, np.ones(self.scores.z.shape[1], dtype=bool)
        some = varies(cube)
        return np.asarray(ndtri(inside(cube[:, some]))), self.scores.moves[some]

    @cached_property
    def largest_ess(self) -> float:
        """The largest effective sample size that a reading may have."""
        return min(_LARGEST_SHARE * effective_sample_size(self.weight), len(self) / 2.5)

    @property
    def usual_ess(self) -> float:
        """The effective sample size of an adjustment where nothing speaks against it."""
        share = _SHARE * self.run.n_simulations
        wanted = np.clip(share, min(_AT_LEAST, 2.0 * share), _AT_MOST)
        return min(float(wanted), self.largest_ess)

    @cached_property
    def local(self) -> FloatArray | None:
        """(n, m) Local summaries, 0 at the observation; None where data are too few numbers.

        The draws of the usual reading say where parameters are, and those that are near the
        observation in these summaries say it better.
        """
        distance, local = self.distance, None
        for _ in range(_LOCAL_STEPS):
            row, weight = self._near(distance, self.usual_ess)
            model = LocalModel.of(self.x, self.places[0], self.places[0][row], weight)
            if not model.has_rest:
                return None
            local = model(self.x) - model(np.zeros((1, self.x.shape[1])))
            distance = np.linalg.norm(local, axis=1)
        return local

    def checked_local(self) -> FloatArray:
        """The same, or an error where there are none."""
        if self.local is None:
            raise wrong(
                "summaries",
                'be "own" or "learned" where there are about as few of them as parameters',
                '"local"',
                "They tell how large the part of the data is that no parameter moves.",
            )
        return self.local

    def _near(self, distance: FloatArray, ess: float) -> tuple[IntArray, FloatArray]:
        """Rows within a distance that have an effective sample size, and their weights (m,)."""
        row = np.argsort(distance, kind="stable")
        n = _count(running_ess(self.weight[row]), ess)
        weight = self.weight[row[:n]] * epanechnikov(distance[row[:n]], distance[row[n]])
        return row[:n], weight

    def distance_to(self, j: int) -> FloatArray:
        """(n,) Distances of all rows to row j, as if it were the observation."""
        if self._is_norm:
            return np.asarray(cdist(self.x, self.x[j : j + 1])[:, 0])
        return self.run.problem.distance(self.summary, self.summary[j])

    @cached_property
    def _is_norm(self) -> bool:
        return self.run.problem.measurement.standardised(self.summary[:1]) is not None

    @property
    def each(self) -> Each:
        """`side_by_side`, unless the distance is a function that may not be called in threads."""
        return side_by_side if self._is_norm else map

    def _around(self, of: Summaries, j: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Summaries (n, m), and the distances (n,) of all rows to one or to the observation (m,).

        The observation is no row: j is None.
        """
        x = self.x if of == "own" else self.checked_local()
        at = np.zeros(x.shape[1]) if j is None else x[j]
        if of == "local":
            return x, np.linalg.norm(x - at, axis=1), at
        return x, self.distance if j is None else self.distance_to(j), at

    def epsilon(self, cell: Cell) -> float:
        """The tolerance of a reading; the nearest are read together if they are ties."""
        distance = self._around(cell.summaries, None)[1]
        row = np.argsort(distance, kind="stable")
        distance, reached = distance[row], running_ess(self.weight[row])
        last = float(distance[_count(reached, cell.ess)])
        return last if last > distance[0] else just_above(distance, last, np.inf)

    @cached_property
    def _reached(self) -> FloatArray:
        """(n,) The effective sample size of the first 1, 2, ... rows."""
        return running_ess(self.weight)

    def at_observation(self, cell: Cell) -> Reading:
        """Read the rows in one way."""
        return next(self._read((cell,), None))

    def at_row(self, j: int, cells: tuple[Cell, ...]) -> Iterator[Reading]:
        """Read the other rows in several ways, as if row j were the observation."""
        return self._read(cells, j)

    def _read(self, cells: tuple[Cell, ...], j: int | None) -> Iterator[Reading]:
        for of, some in groupby(cells, key=lambda cell: cell.summaries):
            x, distance, at = self._around(of, j)
            own = tuple(some)
            row = self._enough(distance, max(cell.ess for cell in own), j)
            yield from self._ways(own, x[row] - at, row, distance[row])

    def _enough(self, distance: FloatArray, ess: float, j: int | None) -> IntArray:
        """The nearest rows but row j, up to an effective sample size, and one more."""
        # About as many as at the observation, or else all.
        for n in (3 * _count(self._reached, ess) // 2, len(self)):
            row = nearest(distance, n)
            if j is not None:
                row = row[row != j]
            wanted = _count(running_ess(self.weight[row]), ess)
            if wanted < len(row) - 1:
                break
        return row[: wanted + 1]

    def _ways(
        self, cells: tuple[Cell, ...], x: FloatArray, row: IntArray, distance: FloatArray
    ) -> Iterator[Reading]:
        """Read rows in the order of their distances by their differences x; ways share fits."""
        weight, reached = self.weight[row], running_ess(self.weight[row])
        z, moves = self.places[0][row], self.places[1]
        fits: dict[tuple[float, bool], tuple[Regression, Fitted]] = {}
        for cell in cells:
            n = _count(reached, cell.ess)
            if cell.method is None:
                yield Reading(row[:n], z[:n], weight[:n])
                continue
            kernel = epanechnikov(distance[:n], distance[n])
            n = int(np.count_nonzero(kernel > 0.0))  # those at the tolerance do not count
            key = cell.ess, cell.method in ("ridge", "heteroscedastic")
            part = z[:n, moves]
            if key not in fits:
                fit = regression(x[:n], weight[:n] * kernel[:n], cell.method)
                fits[key] = fit, fit(part)
            new = z[:n].copy()
            new[:, moves] = moved(part, fits[key][0], cell.method, fits[key][1])
            yield Reading(row[:n], new, weight[:n] * kernel[:n])

    def reread(self, x: FloatArray) -> Reread:
        """The whole table by other summaries x (n, m) of these rows, 0 at the observation."""
        distance = np.full(len(self.run.table), np.inf)
        distance[self.number] = np.linalg.norm(x, axis=1)
        order = np.argsort(self.number)

        def summary_of(row: IntArray) -> FloatArray:
            return x[order[np.searchsorted(self.number, row, sorter=order)]]

        return Reread(distance, summary_of, np.zeros(x.shape[1]))

    def theta_of(self, reading: Reading) -> FloatArray:
        """(m, p) Draws of a reading in user units; those that would not be allowed stay."""
        theta = self.scores.theta[reading.row]
        moves = self.places[1]
        if moves.any():
            new, _, allowed = self.scores.moved(reading.z[:, moves], reading.row)
            theta = np.where(allowed[:, None], new, theta)
        return theta

    def accepted(self, ess: float) -> IntArray:
        """The nearest rows, up to an effective sample size."""
        return np.arange(_count(self._reached, ess))

    def picked(self, n: int, ess: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Rows of the posterior at an effective sample size, and how often each of n draws is one.

        The shares (k,) sum to one.
        """
        row, count = np.unique(
            systematic(self.weight[self.accepted(ess)], n, rng.random()), return_counts=True
        )
        return row, count / n


def _usable(table: Table, row: IntArray, most: int) -> tuple[IntArray, FloatArray]:
    """The first of some rows whose summaries (k, m) are finite, and these."""
    found: list[tuple[IntArray, FloatArray]] = []
    begin = n = 0
    while begin < len(row) and n < most:
        part = row[begin : begin + most]
        summary = table.summary_of(part)
        good = np.isfinite(summary).all(axis=1)
        found.append((part[good][: most - n], summary[good][: most - n]))
        begin, n = begin + len(part), n + len(found[-1][0])
    if not found:
        return row, table.summary_of(row)
    rows, summaries = zip(*found, strict=True)
    return np.concatenate(rows), np.concatenate(summaries)


def _count(reached: FloatArray, ess: float) -> int:
    """How many of the nearest rows a reading takes: at least one is left outside."""
    enough = np.flatnonzero(reached >= ess)
    return min(int(enough[0]) + 1 if len(enough) else len(reached), len(reached) - 1)


def nearest(distance: FloatArray, n: int) -> IntArray:
    """Numbers of the n smallest of distances, and of the ties of the last, in their order."""
    last = np.partition(distance, n)[n] if n < len(distance) else np.inf
    row = np.flatnonzero(distance <= last) if last < np.inf else np.arange(len(distance))
    return np.asarray(row[np.argsort(distance[row], kind="stable")])


def epanechnikov(distance: FloatArray, epsilon: float) -> FloatArray:
    """1 − (d/ε)² (n,) of distances below ε, and 1 where they are all ties at it or at 0."""
    ratio = distance / epsilon if epsilon > 0.0 else np.zeros(len(distance))
    kernel = np.maximum(0.0, 1.0 - ratio**2)
    return kernel if kernel.any() else np.ones(len(distance))


def systematic(weight: FloatArray, n: int, start: float) -> IntArray:
    """(n,) Numbers of draws in proportion to their weights (m,), in their order.

    All follow from a `start` in [0, 1).
    """
    position = (start + np.arange(n)) / n
    index = np.searchsorted(np.cumsum(weight / weight.sum()), position, side="right")
    return np.asarray(np.minimum(index, len(weight) - 1))
