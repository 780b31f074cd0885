"""`select`: which simulations are the draws of a posterior, by a tolerance or a number of draws."""

from __future__ import annotations

import numpy as np

from abctree.answers.evidence import check_epsilon, check_rows
from abctree.answers.weighted import ROUNDING
from abctree.data import Table, running_ess
from abctree.errors import ParameterError, warn
from abctree.numbers import check_rule
from abctree.types import FloatArray, IntArray

#: Default target: this effective sample size, or this share of the simulations if that is less.
TARGET_ESS = 1000.0
TARGET_SHARE = 0.03
#: Where ties make the default jump over its target by this factor, the ε below is looked at, too.
_JUMP = 1.5


def default_ess(n_simulations: int) -> float:
    """The effective sample size aimed at by default.

    1 000, or if that is less, 3 % of the simulations, but at least 1.5 √T: below T = 2 500 fewer
    draws would cost more than their smaller ε gains.
    """
    return min(TARGET_ESS, max(TARGET_SHARE * n_simulations, 1.5 * float(np.sqrt(n_simulations))))


def select(
    distance: FloatArray,
    weight: FloatArray,
    *,
    epsilon: float | None = None,
    ess: float | None = None,
    limit: float = np.inf,
    near: float = np.inf,
    n_simulations: int | None = None,
) -> tuple[IntArray, float]:
    """Numbers (m,) of the rows that are the draws at a tolerance, and the tolerance.

    Of all distances (T,), or the closest of `n_simulations`; those that are inf or nan, and rows
    without weight, are no draws.  Accepted are distances strictly below `epsilon`, or below the
    smallest ε from which on, as ε grows, the accepted draws keep the effective sample size `ess`.
    (Where they reach it first is where no heavy draw has come yet: errors that are estimated there
    are too small.)  Equal distances are accepted together, and ε is put midway to the next larger
    one; by default at `default_ess`, or at what is nearer to it where many distances are equal, as
    those of counts, and half of it is reached at the ε below.  It stays at or below `limit`; where
    the target is reached below `near`, it need not be kept beyond.  A warning says if it is out of
    reach, where the ε up to `limit` with the largest effective sample size is taken, and if nothing
    is accepted.
    """
    check_rows(distance, weight)
    if epsilon is not None and ess is not None:
        raise ParameterError("`epsilon` or `ess` must be given, but got both. Drop one.")
    n_simulations = len(distance) if n_simulations is None else n_simulations
    if epsilon is None:
        target = default_ess(n_simulations) if ess is None else ess
        epsilon = _epsilon_for(distance, weight, target, limit, near, exact=ess is not None)
    check_epsilon(epsilon)
    rows = np.flatnonzero((distance < epsilon) & (weight > 0.0))
    if not len(rows):
        warn(
            f"Nothing was accepted below epsilon {epsilon:.4g} in {n_simulations} simulations: the "
            "posterior is empty. Use a larger epsilon, and check that the simulator can produce "
            "the observed summaries."
        )
    return rows, float(epsilon)


def _epsilon_for(
    distance: FloatArray,
    weight: FloatArray,
    target: float,
    limit: float,
    near: float,
    *,
    exact: bool,
) -> float:
    """The smallest ε that keeps the target, or else that of the largest effective sample size."""
    check_rule("ess", target, "above 0", "Try 1000.")
    check_epsilon(limit)
    rows = np.flatnonzero((distance < limit) & (weight > 0.0))
    if len(rows) == 0:
        return limit
    order = rows[np.argsort(distance[rows], kind="stable")]
    d = distance[order]
    last_of_tie = np.flatnonzero(np.append(d[1:] > d[:-1], [True]))
    reached = running_ess(weight[order])[last_of_tie]
    enough = np.flatnonzero(reached >= target * (1.0 - ROUNDING))
    if (is_near := d[last_of_tie[enough]] < near).any():
        enough = enough[is_near]
    best = _start_of_last_run(enough) if len(enough) else int(np.argmax(reached))
    if len(enough) and best > 0 and not exact and reached[best] > _JUMP * target:
        below = reached[best - 1]  # of the distance before, at a smaller ε
        if 2.0 * below >= target and below * reached[best] > target**2:
            best -= 1
    if not len(enough):
        warn(
            f"An effective sample size of {target:.4g} was asked for, but the run reaches "
            f"{reached[best]:.4g}, at epsilon {d[last_of_tie[best]]:.4g}; that is what you get. "
            "Use more simulations, or a smaller ess; epsilon= reads the run at any tolerance."
        )
    return just_above(distance, float(d[last_of_tie[best]]), limit)


def _start_of_last_run(index: IntArray) -> int:
    """First of the consecutive numbers (n,) that the last one ends."""
    return int(index[np.flatnonzero(np.diff(index, prepend=-2) > 1)[-1]])


def just_above(distance: FloatArray, last: float, limit: float) -> float:
    """Midway from the last accepted distance to the next larger one, at most `limit`."""
    beyond = float(np.nextafter(last, np.inf))
    larger = float(np.min(distance, where=distance > last, initial=np.inf))
    if larger == np.inf:
        return beyond
    return min(limit, max(beyond, last + (larger - last) / 2.0))


def usable(table: Table, row: IntArray, most: int) -> tuple[IntArray, FloatArray]:
    """The first of some rows whose summaries (k, m) are finite, and these."""
    found: list[tuple[IntArray, FloatArray]] = []
    begin = n = 0
    while begin < len(row) and n < most:
        part = row[begin : begin + most]
        summary = table.summary_of(part)
        begin += len(part)
        good = np.isfinite(summary).all(axis=1)
        if not good.all():
            part, summary = part[good], summary[good]
        found.append((part[: most - n], summary[: most - n]))
        n += len(found[-1][0])
    if not found:
        return row, table.summary_of(row)
    if len(found) == 1:
        return found[0]
    rows, summaries = zip(*found, strict=True)
    return np.concatenate(rows), np.concatenate(summaries)
