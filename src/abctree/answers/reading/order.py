"""Numbers of data without an order, which are compared sorted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy  # its parts are imported when they are used
from scipy.fft import dct
from scipy.special import ndtri

from abctree.answers.reading.rows import MOST, Rows
from abctree.answers.selection import usable
from abctree.near import Points
from abctree.types import FloatArray

#: Rows without which an order is not told from none, and rows that are looked at, at most.
_FEWEST, _LOOK_AT = 1_000, 10_000
#: Numbers of which each two are compared; of more, the first ones.
_PAIRED = 64
#: Numbers that are so far apart, at most, are multiplied.
_LAGS = 20
#: How often numbers without an order are taken to have one, at most.
_ERROR = 0.001


def compared(rows: Rows) -> Rows:
    """The same rows; by sorted numbers where their order says nothing.

    Sorted, raw data are near for having the spread and the tails of those observed, and not for
    being quiet.
    """
    table, problem = rows.run.table, rows.run.problem
    if rows.kept_the_nearest or not problem.measurement.keeps_order:
        return rows
    number = np.flatnonzero(np.isfinite(table.distance))
    number = number[:: max(1, -(-len(number) // _LOOK_AT))]
    number, summary = usable(table, number, len(number))
    if not is_without_order(summary, table.cube[number]):
        return rows
    every = rows.every
    summary = np.sort(every.summary.reshape(len(every), -1), axis=1)
    summary -= np.sort(problem.observed_summary.ravel())
    every = replace(every.by(summary), summaries="sorted")
    if len(every) < MOST:
        return every
    near, x = np.arange(MOST), every.x[:MOST]
    return replace(
        every, scores=every.scores[near], x=x, summary=x, points=Points(x),
        distance=every.distance[near], weight=every.weight[near], number=every.number[near],
        whole=every,
    )  # fmt: skip


def is_without_order(x: FloatArray, z: FloatArray) -> bool:
    """Whether no number of data (n, q) differs from the others, whatever parameters z (n, k).

    So it is with independent measurements of one kind: any order of them is as probable, and
    sorted they say as much.  Their ranks within a row, and the squares of these, then have one mean
    each, and all pairs of them one mean product, over all rows and over those of larger parameters.
    That is asked of each number and each pair, and of waves of numbers and of all pairs that are as
    far apart, which see what is little in each but lasts.

    The first rows are asked alone, for they mostly tell, in a tenth of the time.
    """
    if len(x) < _FEWEST or x.shape[1] < 2:
        return False
    return _hides_order(x[:_FEWEST], z[:_FEWEST]) and _hides_order(x, z)


def _hides_order(x: FloatArray, z: FloatArray) -> bool:
    n, q = x.shape
    rank = _centred(scipy.stats.rankdata(x, axis=1)) / q
    square = _centred(rank**2)
    # Squares tell of a spread that lasts, as that of markets does.
    products = ((rank, rank), (square, square), (rank, square))
    larger = scipy.stats.rankdata(z, axis=0) / n - 0.5
    several = [part for one in (rank, square) for part in (one, dct(one, norm="ortho")[:, 1:])]
    several += [_apart(a, b) for a, b in products]
    found = []
    for by in (np.ones(n), *larger.T):
        found += [_errors(by @ what, by**2 @ what**2) for what in several]
        found += [_of_pairs(a, b, by) for a, b in products]
    errors = np.concatenate(found)
    return bool(errors.max() < -ndtri(_ERROR / (4 * len(errors))))  # two sides, asked twice


def _centred(x: FloatArray) -> FloatArray:
    return np.asarray(x - x.mean(axis=1, keepdims=True))


def _usual(a: FloatArray, b: FloatArray) -> FloatArray:
    """The mean product (n,) of two numbers of a row (n, q); rows of a and of b sum to nothing."""
    q = a.shape[1]
    return np.asarray(-(a * b).sum(axis=1) / (q * (q - 1.0)))


def _apart(a: FloatArray, b: FloatArray) -> FloatArray:
    """Sums of products (n, lags) of numbers that are as far apart, less what all pairs have."""
    q, usual = a.shape[1], _usual(a, b)
    lags = range(1, min(q - 1, _LAGS) + 1)
    sums = [(a[:, :-lag] * b[:, lag:]).sum(axis=1) - (q - lag) * usual for lag in lags]
    return np.column_stack(sums)


def _of_pairs(a: FloatArray, b: FloatArray, by: FloatArray) -> FloatArray:
    """How far sums of products of two numbers of a row (n, q) are from what all pairs have."""
    usual = _usual(a, b)
    a, b, weight = a[:, :_PAIRED], b[:, :_PAIRED], by[:, None]
    total = a.T @ (weight * b) - by @ usual
    square = (a**2).T @ (weight * b) ** 2
    square += by**2 @ usual**2 - 2.0 * a.T @ (weight**2 * usual[:, None] * b)
    pairs = ~np.eye(len(total), dtype=bool)
    return _errors(total[pairs], square[pairs])


def _errors(total: FloatArray, square: FloatArray) -> FloatArray:
    """Sums in units of their errors, of which the squares are given."""
    root = np.sqrt(np.maximum(square, 0.0))
    return np.divide(np.abs(total), root, out=np.zeros_like(total), where=root > 0.0)
