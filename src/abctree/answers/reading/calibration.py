"""`Calibration`: how often intervals hold the parameters of rows that stand in for the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from abctree.answers.reading.choice import Cell
from abctree.answers.reading.rows import Reading, Rows
from abctree.types import FloatArray

#: Levels of the table.
_LEVELS = (0.5, 0.8, 0.9, 0.95)
_BLIND = (
    "It asks data that the model made near yours. It does not see that yours may be unlike them "
    "(ask `result.fit()`), nor a region that no simulation has visited."
)


def coverage_of(ranks: FloatArray, level: float, share: FloatArray | None = None) -> FloatArray:
    """(p,) Share of ranks (n, p) within the central interval of a level."""
    tail = (1.0 - level) / 2.0
    inside = (ranks > tail) & (ranks < 1.0 - tail)
    return np.asarray(np.average(inside, axis=0, weights=share))


def ranks_of(
    theta: FloatArray, weight: FloatArray, truth: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """(p,) Share of draws (m, p) below known parameters (p,); ties are parted at random."""
    return np.asarray(
        weight @ (theta < truth) + rng.random(len(truth)) * (weight @ (theta == truth))
    )


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks of known parameters in the posterior of data that stand in for the observation.

    Of a calibrated reading ranks are uniform, and an interval of 90 % holds 90 % of the parameters.
    """

    names: tuple[str, ...]
    cell: Cell  #: the reading that was asked
    raw_cell: Cell  #: draws as they are, as `posterior()` reads them
    ranks: FloatArray  #: (n, p) share of draws below the known parameter, in [0, 1]
    raw_ranks: FloatArray  #: (n, p) of the draws as they are
    share: FloatArray  #: (n,) what each row counts for; the sum is 1

    @cached_property
    def coverage(self) -> Mapping[float, FloatArray]:
        """Level -> (p,) share of known parameters within the central interval of that level."""
        return {level: coverage_of(self.ranks, level, self.share) for level in _LEVELS}

    @cached_property
    def raw_coverage(self) -> Mapping[float, FloatArray]:
        """The same of the draws as they are."""
        return {level: coverage_of(self.raw_ranks, level, self.share) for level in _LEVELS}

    @property
    def n(self) -> int:
        """Rows that stood in for the observation."""
        return len(self.ranks)

    def __repr__(self) -> str:
        return f"Calibration({', '.join(self.names)}; {self.n} pseudo-observations, {self.cell})"

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in self.names))
        levels = (0.5, 0.9)
        heads = [f"{100 * level:.0f} %" for level in levels]
        lines = [
            f"Coverage of intervals at {self.n} rows that stand in for the observation "
            f"(± {self._error():.1g}):",
            f"{'':{width}}  {self.cell!s:>24}  {self.raw_cell!s:>24}",
            f"{'':{width}}  " + "  ".join(f"{heads[0]:>11} {heads[1]:>12}" for _ in range(2)),
        ]
        for j, name in enumerate(self.names):
            pairs = [
                [of[level][j] for level in levels] for of in (self.coverage, self.raw_coverage)
            ]
            row = "  ".join(f"{low:>11.2f} {high:>12.2f}" for low, high in pairs)
            lines.append(f"{name:{width}}  {row}")
        return "\n".join([*lines, _BLIND])

    def _error(self) -> float:
        return float(np.sqrt(0.9 * 0.1 * np.square(self.share).sum()))


def calibration(rows: Rows, cell: Cell, raw: Cell, n: int, rng: np.random.Generator) -> Calibration:
    """Read a table at n of its rows, in one way and with the draws as they are."""
    picked, share = rows.picked(n, raw.ess, rng)
    ranks = np.array(
        [
            [_rank(reading, of.scores.theta[j], rng) for reading in rows.at_row(j, (cell, raw), of)]
            for of, j in picked
        ]
    )
    names = tuple(rows.run.problem.names)
    return Calibration(names, cell, raw, ranks[:, 0], ranks[:, 1], share.mean(axis=0))


def _rank(reading: Reading, truth: FloatArray, rng: np.random.Generator) -> FloatArray:
    return ranks_of(reading.theta, reading.weight / reading.weight.sum(), truth, rng)
