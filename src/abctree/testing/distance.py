"""Whether a distance keeps its contract."""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import ArrayLike

from abctree.keywords import checks_keywords
from abctree.protocols import Distance, LearnedDistance
from abctree.testing.rule import call, require
from abctree.types import FloatArray


@checks_keywords
def check_distance(distance: Distance, observed: ArrayLike | None = None) -> None:
    """Check that a distance keeps the contract of `abctree.protocols.Distance`.

    Of finite summaries it must give one finite number >= 0 for each row, the same whatever rows
    come with it and whenever it is asked; and it must leave its arguments as they were.  One with
    `fitted` must refuse to be called before, give a fitted distance, and stay as it was.

    Parameters
    ----------
    distance : Distance
        A function of ``(n, ...)`` simulated summaries and the observed one.
    observed : array_like, optional
        A summary; default five numbers.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.

    Examples
    --------
    >>> from abctree.problem.distances import Euclidean
    >>> check_distance(Euclidean())
    """
    generator = np.random.default_rng(0)
    target = generator.normal(size=5) if observed is None else np.asarray(observed, dtype=float)
    simulated = target + generator.normal(size=(50, *target.shape))
    if isinstance(distance, LearnedDistance) and not distance.is_fitted:
        distance = _fitted(distance, simulated, target)
    value = _distances(distance, simulated, target)
    alone = [_distances(distance, simulated[i : i + 1], target)[0] for i in range(5)]
    require(
        np.allclose(alone, value[:5], rtol=1e-9),
        "a distance must treat each row on its own, but a row alone has another distance than the "
        "same row among others.",
    )
    again = np.array_equal(_distances(distance, simulated, target), value)
    require(again, "a distance must give the same numbers when it is asked again, but does not.")


def _distances(distance: Distance, simulated: FloatArray, observed: FloatArray) -> FloatArray:
    value = np.asarray(call("distance", "finite summaries", "", distance, simulated, observed))
    require(
        value.shape == (len(simulated),),
        f"a distance of {len(simulated)} rows must have shape ({len(simulated)},), but has "
        f"{value.shape}.",
    )
    require(
        np.isfinite(value).all() and (value >= 0.0).all(),
        f"a distance of finite summaries must be finite and >= 0, but reaches from {value.min()} "
        f"to {value.max()}.",
    )
    return value


def _fitted(distance: LearnedDistance, simulated: FloatArray, observed: FloatArray) -> Distance:
    answered = False
    with contextlib.suppress(Exception):
        distance(simulated, observed)
        answered = True
    require(not answered, "a distance must raise when called before `fitted`, but did not.")
    fitted = call("fitted", "the summaries of a pilot", "", distance.fitted, simulated)
    require(
        not isinstance(fitted, LearnedDistance) or fitted.is_fitted,
        "what `fitted` returns must be fitted, but its `is_fitted` is false.",
    )
    require(
        not distance.is_fitted,
        "`fitted` must return another distance and leave its own as it is, but has changed it: a "
        "second run would be scaled by the first.",
    )
    return fitted
