"""`Rows`: the part of a run's table about the observation, to be read at it or at any row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtri

from abctree.answers.reading.choice import Cell, Reread, Summaries
from abctree.answers.reading.local import LocalModel
from abctree.answers.reading.modes import modes, nearest_mode
from abctree.answers.reading.regression import Regression, moved, regression
from abctree.answers.reading.sizes import count_for, larger_ess, largest_ess, usual_ess
from abctree.answers.run import Run
from abctree.answers.selection import just_above, usable
from abctree.data import running_ess
from abctree.errors import ParameterError, wrong
from abctree.near import Points, epanechnikov, nearest, systematic
from abctree.problem.models import Models
from abctree.problem.priors.cube import inside
from abctree.problem.ridge import Fitted, varies
from abctree.problem.scores import Scores
from abctree.threads import Each, side_by_side
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows nearest to the observation that are looked at: several times those of the largest reading.
MOST = 20_000
#: Of rows that are read from a run folder so many are looked at where all would be.
_THINNED = 200_000
#: The share of these that says where to cut circles open is one in so many.
_NEAREST = 20
#: Rows without which a table is read as it is, and cannot be checked.
FEWEST = 100
#: Local models, each where the draws of the one before are.
_LOCAL_STEPS = 2
#: Local summaries say nothing of an observation that is so many times as near, by the run's own
#: distance, as most of the draws near by them: no line with noise made it.
_FAR = 3.0
#: Draws near by local summaries are regressed on the run's own, too, where there are so many draws
#: for each.  With fewer, what that mends of a bend is less than the noise of the slopes.
_FOR_EACH = 100


class Reading(NamedTuple):
    """Draws: numbers of rows (m,), their places (m, k) and weights (m,)."""

    rows: Rows
    row: IntArray
    z: FloatArray
    weight: FloatArray

    @property
    def theta(self) -> FloatArray:
        """(m, p) The draws in user units; those that would not be allowed stay."""
        scores, moves = self.rows.scores, self.rows.moves
        theta = scores.theta[self.row]
        if moves.any():
            new, _, allowed = scores.moved(self.z[:, moves], self.row)
            theta = np.where(allowed[:, None], new, theta)
        return theta


class Local(NamedTuple):
    """A table by local summaries."""

    rows: Rows  #: in order of their distance by them
    model: LocalModel
    with_own: bool  #: whether a regression is on the run's own summaries, too


@dataclass(frozen=True, eq=False)
class Rows:
    """Finite rows nearest to the observation, in order of their distance."""

    scores: Scores
    columns: BoolArray | slice  #: dimensions of the cube in which rows differ
    x: FloatArray  #: (n, q) what a regression is on, 0 at the observation
    summary: FloatArray  #: (n, ...) summaries, in their own shape
    points: Points  #: (n, r) what distances are norms of differences of, if they are such
    is_norm: bool
    distance: FloatArray  #: (n,) to the observation
    weight: FloatArray  #: (n,) raw importance weights, above 0
    number: IntArray  #: (n,) rows of the table
    run: Run
    summaries: Summaries = "own"  #: what distances and regressions are by
    whole: Rows | None = None  #: all rows, of which these are the nearest, if that is known

    @classmethod
    def of(cls, run: Run, most: int | None = MOST, like: Rows | None = None) -> Rows:
        """Of a run: the nearest, or all, of which there are every k-th if they are many.

        All are taken if they are in memory, unless they are to be `like` others: their places are
        on the same scale then.
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
        if most is None and (like is not None or not table.is_in_memory):
            row = row[:: max(1, len(row) // _THINNED)]
        row = row[np.argsort(table.distance[row], kind="stable")]
        row, summary = usable(table, row, len(row) if most is None else most)
        x = measurement.standardised(summary)
        is_norm = x is not None
        if x is None:
            x = summary - measurement.observed_summary.ravel()
        draws = table.theta_of(row), table.cube[row]
        if like is None:
            near = max(len(row) // _NEAREST, 1)
            scores = Scores.of(*draws, run.problem.region, None, None, weight[row], near=near)
            columns = slice(None) if scores.cube is None else varies(scores.cube)
        else:
            scores, columns = like.scores.of_others(*draws), like.columns
        shaped = summary.reshape(len(row), *measurement.shape)
        more = table.distance[row], weight[row], row, run
        return cls(scores, columns, x, shaped, Points(x), is_norm, *more)

    def __len__(self) -> int:
        return len(self.weight)

    def checked(self) -> Rows:
        """The same, if they are enough to be compared with each other."""
        if len(self) < FEWEST:
            of_one = self.run.default_weights == "population"
            raise ParameterError(
                f"`n_simulations` must leave {FEWEST} simulations or more with a finite distance "
                f"and a weight above 0 for this, but left {len(self)}. Run more"
                + (', or give smc weights="mixture".' if of_one else ".")
            )
        return self

    @cached_property
    def places(self) -> FloatArray:
        """(n, k) Where draws lie, on a scale without bounds."""
        cube = self.scores.cube
        if cube is None:
            return self.scores.z
        return np.asarray(ndtri(inside(cube[:, self.columns])))

    @cached_property
    def moves(self) -> BoolArray:
        """(k,) Which of their coordinates may move."""
        if self.scores.cube is None:
            return np.ones(self.scores.z.shape[1], dtype=bool)
        return self.scores.moves[self.columns]

    @cached_property
    def largest_ess(self) -> float:
        """The largest effective sample size that a reading may have."""
        return largest_ess(self._reached)

    @cached_property
    def usual_ess(self) -> float:
        """That of draws which say where the posterior is."""
        return usual_ess(self._reached, self.run.n_simulations)

    @property
    def adjusted_ess(self) -> float:
        """That of an adjustment where nothing speaks against it."""
        return larger_ess(self._reached, self.usual_ess)

    @cached_property
    def local(self) -> Local | None:
        """The table by local summaries; None where data are too few numbers, or rows are missing.

        The draws of the usual reading say where parameters are, and those that are near the
        observation in these summaries say it better.  Rows that are far away by the run's own
        distance may be near in them, so that all count.
        """
        if self.kept_the_nearest:
            return None
        rows, every = self, self.every
        with_own = self.usual_ess >= _FOR_EACH * self.x.shape[1]
        for _ in range(_LOCAL_STEPS):
            model = LocalModel.of(every.x, every.places, *rows.near)
            if not model.has_rest:
                return None
            rows = every.by(model.differences(every.x), with_own=with_own)
        return Local(rows, model, with_own)

    @cached_property
    def fair_local(self) -> Local | None:
        """The same, unless most of the draws by it are far away by the run's own distance."""
        if self.local is None:
            return None
        near, ess = self.local.rows, self.usual_ess
        draws = near.accepted(ess)
        every = self.every
        far = every.distance[every.of_number(near.number[draws])] > _FAR * self.epsilon(ess)
        weight = near.weight[draws]
        return None if weight @ far > 0.5 * weight.sum() else self.local

    @cached_property
    def every(self) -> Rows:
        """All rows, where these are the nearest, with places on the same scale."""
        if self.whole is not None:
            return self.whole
        return self if len(self) < MOST else Rows.of(self.run, None, like=self)

    @property
    def kept_the_nearest(self) -> bool:
        """Whether farther simulations are lost."""
        return len(self.run.table) < self.run.n_simulations

    def by(self, other: FloatArray, *, with_own: bool = False) -> Rows:
        """The same rows by other summaries (n, m), 0 at the observation.

        A regression is on these, and on the present ones if it is said so.
        """
        distance = np.linalg.norm(other, axis=1)
        order = np.argsort(distance, kind="stable")
        x = other = other[order]
        if with_own:
            x = np.hstack([self.x[order], other])
        return replace(
            self, scores=self.scores[order], x=x, summary=x, points=Points(other), is_norm=True,
            distance=distance[order], weight=self.weight[order], number=self.number[order],
            whole=None,
        )  # fmt: skip

    def checked_local(self) -> Local:
        """The same, or an error where there are none."""
        if self.kept_the_nearest:
            raise wrong(
                "keep",
                "be all simulations for local summaries",
                f"{len(self.run.table)} of {self.run.n_simulations}",
                "Others may be near in them than were by the run's own distance.",
            )
        if self.local is None:
            raise wrong(
                "summaries",
                'be "own" or "learned" where there are about as few of them as parameters',
                '"local"',
                "They tell how large the part of the data is that no parameter moves.",
            )
        return self.local

    @property
    def near(self) -> tuple[FloatArray, FloatArray]:
        """Places (m, k) of the draws of the usual reading, and their weights (m,)."""
        n = count_for(self._reached, self.usual_ess)
        return self.places[:n], self.weight[:n] * epanechnikov(self.distance[:n], self.distance[n])

    @cached_property
    def mode(self) -> IntArray | None:
        """(n,) The mode of the usual reading that is nearest; None where they do not lie apart."""
        draws, weight = self.near
        found = modes(draws[:, self.moves], weight, self.x.shape[1])
        return None if found is None else nearest_mode(self.places, draws, found)

    def distance_to(self, j: int, of: Rows | None = None) -> FloatArray:
        """(n,) Distances of all rows to row j of these or of others, as if it were observed."""
        of = self if of is None else of
        if self.is_norm:
            return self.points.distance(of.points.x[j])
        return self.run.problem.distance(self.summary.copy(), of.summary[j])

    @property
    def each(self) -> Each:
        """`side_by_side`, unless the distance is a function that may not be called in threads."""
        return side_by_side if self.is_norm else map

    def epsilon(self, ess: float) -> float:
        """The tolerance of a reading; the nearest are read together if they are ties."""
        last = float(self.distance[count_for(self._reached, ess)])
        return last if last > self.distance[0] else just_above(self.distance, last, np.inf)

    @cached_property
    def _reached(self) -> FloatArray:
        """(n,) The effective sample size of the first 1, 2, ... rows."""
        return running_ess(self.weight)

    def at_observation(self, cell: Cell) -> Reading:
        """Read the rows in one way."""
        rows = self.checked_local().rows if cell.summaries == "local" else self
        return next(rows._read((cell,), np.zeros(rows.x.shape[1]), rows.distance, -1))

    def at_row(self, j: int, cells: tuple[Cell, ...], of: Rows | None = None) -> Iterator[Reading]:
        """Read the other rows in several ways, as if row j of these or of others were observed."""
        of = self if of is None else of
        for by, some in groupby(cells, key=lambda cell: cell.summaries):
            rows, at = self, of.x[j]
            if by == "local":
                rows, model, with_own = self.checked_local()
                place = model.differences(at[None])[0]
                distance = rows.points.distance(place)
                at = np.concatenate([at, place]) if with_own else place
            else:
                distance = self.distance_to(j, of)
            yield from rows._read(tuple(some), at, distance, int(of.number[j]))

    def _read(
        self, cells: tuple[Cell, ...], at: FloatArray, distance: FloatArray, without: int
    ) -> Iterator[Reading]:
        """Read rows by their distances from `at` (q,) in several ways, which share regressions.

        One row of the table is left out, by its number.
        """
        most = max(cell.ess for cell in cells)
        # About as many rows as at the observation, or more where these do not do.
        count = max(3 * count_for(self._reached, most) // 2, 1)
        while True:
            row = nearest(distance, count)
            row = row[self.number[row] != without]
            wanted = count_for(running_ess(self.weight[row]), most)
            if wanted < len(row) - 1 or count >= len(self):
                break
            count *= 2
        row = row[: wanted + 1]
        distance, weight = distance[row], self.weight[row]
        x, z, reached = self.x[row], self.places[row], running_ess(weight)
        x -= at
        moves = slice(None) if self.moves.all() else self.moves
        fits: dict[tuple[float, bool], tuple[Regression, Fitted]] = {}
        for cell in cells:
            n = count_for(reached, cell.ess)
            if cell.method is None:
                yield Reading(self, row[:n], z[:n], weight[:n])
                continue
            kernel = epanechnikov(distance[:n], distance[n])
            n = int(np.count_nonzero(kernel > 0.0))  # those at the tolerance do not count
            key = cell.ess, cell.method in ("ridge", "heteroscedastic")
            part = z[:n, moves]
            if key not in fits:
                counted = weight[:n] * kernel[:n]
                mode = None if self.mode is None else self.mode[row[:n]]
                fit = regression(x[:n], counted, cell.method, mode)
                fits[key] = fit, fit(part)
            new = z[:n].copy()
            new[:, moves] = moved(part, fits[key][0], cell.method, fits[key][1])
            yield Reading(self, row[:n], new, weight[:n] * kernel[:n])

    def reread(self) -> Reread:
        """The whole table by the summaries of these rows, of which that of the observation is 0."""
        distance = np.full(len(self.run.table), np.inf)
        distance[self.number] = self.distance

        def summary_of(row: IntArray) -> FloatArray:
            return self.x[self.of_number(row)]

        return Reread(distance, summary_of, np.zeros(self.x.shape[1]))

    def of_number(self, number: IntArray) -> IntArray:
        """Which of these rows have some numbers (k,) of the table: (k,)."""
        order = np.argsort(self.number)
        return np.asarray(order[np.searchsorted(self.number, number, sorter=order)])

    def accepted(self, ess: float) -> IntArray:
        """The nearest rows, up to an effective sample size."""
        return np.arange(count_for(self._reached, ess))

    def picked(
        self, n: int, ess: float, rng: np.random.Generator
    ) -> tuple[list[tuple[Rows, int]], FloatArray]:
        """Rows of draws of the posterior that stand in for the observation, and their shares.

        The n draws are near by the run's own distance; or half of them are, and half by local
        summaries, if there are any: of unknown noise those near by the run's own have too little.
        Each row is given as some rows and its number among them.  Of shares (g, k) there is a line
        for each kind of draws, and its sum is one.
        """
        sources = [(self, self)]
        if self.fair_local is not None:
            sources.append((self.fair_local.rows, self.every))
        stand: list[tuple[Rows, int]] = []
        shares, start = [], rng.random()
        for near, rows in sources:
            draw = systematic(near.weight[near.accepted(ess)], max(n // len(sources), 1), start)
            row, count = np.unique(draw, return_counts=True)
            stand += [(rows, j) for j in rows.of_number(near.number[row]).tolist()]
            shares.append(count / count.sum())
        return stand, block_diag(*shares)
