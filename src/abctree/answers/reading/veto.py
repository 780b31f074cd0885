"""Which reading of a table is best, asked of rows that stand in for the observation."""

from __future__ import annotations

import numpy as np

from abctree.answers.reading.choice import Cell, Choice
from abctree.answers.reading.regression import Method
from abctree.answers.reading.rows import Reading, Rows
from abctree.data import effective_sample_size
from abctree.near import spread, systematic
from abctree.types import BoolArray, FloatArray, IntArray

#: Rows that stand in for the observation, and the share of the default's effective sample size that
#: they are drawn from: around rows farther away the proposals left fewer rows than around the
#: observation, and small readings look better there than they are.
N_PSEUDO, _NEAR = 200, 0.1
#: One in so many of them is asked of all readings.  The others are asked of those that are no worse
#: than the default by then: one that is will hardly be clearly better in the end.
_FIRST = 3
#: How draws are moved: by default, and otherwise.
_METHODS: tuple[Method | None, ...] = ("ridge", "heteroscedastic", None)
#: Effective sample sizes that are tried, as shares of the default's.
_SHARES = (0.1, 0.3, 1.0)
#: The default is left for what is better by so many standard errors of the difference at a kind of
#: rows, and by so many at each.
_CLEAR, _ALSO = 3.0, 1.0
#: Draws by which a reading is scored, and partners that each is compared with.
_DRAWS, _PARTNERS = 300, 15
#: Draws of a reading, at least.
_FEWEST = 20.0


def default_cell(rows: Rows) -> Cell:
    """The reading that is taken where nothing speaks against it."""
    return Cell(_METHODS[0], rows.adjusted_ess, rows.summaries)


def choose(rows: Rows, n: int, rng: np.random.Generator) -> Choice:
    """The default reading, unless rows that stand in for the observation veto it.

    They are n of the posterior at most, of which the parameters are known.  All other rows are read
    at each in several ways, and a reading is scored by the energy score of its draws for the known
    parameters (Gneiting and Raftery 2007).  The default is the better of two, of the run's own
    summaries and of local ones.  The best of many noisy scores would be a worse choice than it, and
    it is left only for what is clearly better; where rows are of two kinds, for what is so for one
    and better for both.
    """
    default = default_cell(rows)
    sizes = [share * default.ess for share in _SHARES if share * default.ess >= _FEWEST]
    cells = [default._replace(method=method, ess=ess) for ess in sizes for method in _METHODS]
    if default not in cells:
        return Choice(default, default, {}, 0)
    if rows.fair_local is not None:
        cells += [Cell(_METHODS[0], ess, "local") for ess in sizes]
    picked, share = rows.picked(n, _NEAR * default.ess, rng)
    places = np.array([of.places[j] for of, j in picked])
    unit = spread(places)
    # All random numbers are drawn beforehand, so that rows can be dealt with in any order.
    drawn = [[(rng.random(), rng.permutation(_DRAWS)) for _ in cells] for _ in picked]

    score = np.full((len(picked), len(cells)), np.nan)

    def ask(some: BoolArray, about: BoolArray) -> None:
        """Score some readings at some rows."""
        row, column = np.flatnonzero(some), np.flatnonzero(about)

        def scored(i: int) -> list[float]:
            of, j = picked[i]
            readings = rows.at_row(j, tuple(cells[c] for c in column), of)
            numbers = [drawn[i][c] for c in column]
            return [
                energy_score(reading, places[i], unit, *own)
                for reading, own in zip(readings, numbers, strict=True)
            ]

        found = np.array(list(rows.each(scored, row.tolist())))
        score[np.ix_(row, column)] = found.reshape(len(row), len(column))

    of_kind = share > 0.0
    first = (of_kind & (np.cumsum(of_kind, axis=1) % _FIRST == 1)).any(axis=0)
    ask(first, np.ones(len(cells), dtype=bool))
    mean, *_ = _gaps(score[first], share[:, first], cells.index(default))
    is_default = [cell._replace(summaries=default.summaries) == default for cell in cells]
    ask(~first, is_default | (mean <= 0.0))
    mean, error, ratio = _gaps(score, share, cells.index(default))
    if rows.fair_local is not None:
        other = cells.index(default._replace(summaries="local"))
        if mean[other] < 0.0:
            default = cells[other]
            mean, error, ratio = _gaps(score, share, other)
    found = {
        cell: (float(m), float(e))
        for cell, m, e in zip(cells, mean, error, strict=True)
        if cell != default
    }
    clear = np.flatnonzero((ratio < -_CLEAR) & (mean < -_ALSO * error))
    chosen = cells[clear[np.argmin(mean[clear])]] if len(clear) else default
    return Choice(chosen, default, found, len(picked))


def _gaps(
    score: FloatArray, share: FloatArray, default: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How much worse all readings are than one, and errors (c,).

    Of kinds of rows, each with its shares (g, k), it is that which speaks least for a reading.  The
    third are the ratios (c,) of the two at that which speaks most for it.  The scores (k, c) of a
    reading that a row was not asked of are NaN.
    """
    known = np.isfinite(score)
    weight = share[:, :, None] * known
    weight /= weight.sum(axis=1, keepdims=True)
    own = score[:, default]
    gap = np.where(known, score - own[:, None], 0.0) / (weight[:, :, default].mean(axis=0) @ own)
    mean = (weight * gap).sum(axis=1)
    error = np.sqrt(np.square(weight * (gap - mean[:, None])).sum(axis=1))
    error[np.count_nonzero(weight, axis=1) < 2] = np.inf  # of one row nothing is known
    ratio = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0.0)
    least, each = np.argmax(ratio, axis=0), np.arange(score.shape[1])
    return mean[least, each], error[least, each], ratio.min(axis=0)


def energy_score(
    reading: Reading, truth: FloatArray, unit: FloatArray, start: float, order: IntArray
) -> float:
    """E|X − truth| − ½ E|X − X'| of the draws X of a reading; smaller is better.

    Those are picked systematically from a `start` in [0, 1), and then put in an `order`.
    """
    n = len(order)
    x = (reading.z[systematic(reading.weight, n, start)[order]] / unit).T
    miss, spread = np.zeros(n), np.zeros((_PARTNERS, n))
    for own, at in zip(x, truth / unit, strict=True):  # few columns are faster than rows
        around = np.concatenate([own, own[:_PARTNERS]])
        size = around.itemsize
        # Row p has those that begin p + 1 places later, without a copy.
        partner = np.ndarray(spread.shape, buffer=around, offset=size, strides=(size, size))
        away = partner - around[:n]
        away *= away
        spread += away
        miss += np.square(own - at)
    mean_spread = np.sqrt(spread, out=spread).mean()
    unpaired = 1.0 - 1.0 / effective_sample_size(reading.weight)
    return float(np.sqrt(miss).mean() - 0.5 * mean_spread * unpaired)
