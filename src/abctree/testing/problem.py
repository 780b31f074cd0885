"""Whether constraints, simulators and distances keep their contracts."""

from __future__ import annotations

import contextlib
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from abctree.keywords import checks_keywords
from abctree.protocols import (
    Constraint,
    Distance,
    HasOfEntries,
    LearnedDistance,
    NamedSimulator,
    Prior,
    StandardisedDistance,
    TaughtDistance,
)
from abctree.testing.rule import call, check_numbers, check_rows, require
from abctree.types import FloatArray, SimulatorFunction

# Constraints and simulators ---------------------------------------------------------------------


@checks_keywords
def check_constraint(constraint: Constraint, prior: Prior) -> None:
    """Raise `AssertionError` where a constraint breaks that of `abctree.protocols.Constraint`.

    Of a dict of columns it must make one boolean for each row, each row on its own, also of no
    rows, and leave the columns as they were.

    Parameters
    ----------
    constraint : callable
        A predicate on a dict of columns.
    prior : Prior
        What it restricts.

    Examples
    --------
    >>> from abctree.problem.priors import Product
    >>> prior = Product({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    >>> check_constraint(lambda t: t["a"] < t["b"], prior)
    """
    theta = prior.from_cube(np.random.default_rng(0).random((100, prior.d)))

    def allowed(rows: FloatArray) -> FloatArray:
        columns = dict(zip(prior.names, rows.T.copy(), strict=True))
        answer = np.asarray(call("constraint", "whole columns", constraint, columns))
        require(
            answer.shape == (len(rows),) and answer.dtype == np.bool_,
            f"a constraint must return {len(rows)} booleans for {len(rows)} rows, but gives "
            f"{answer.dtype} of shape {answer.shape}.",
        )
        return answer

    check_rows("a constraint", allowed, theta, allowed(theta))
    allowed(theta[:0])


@checks_keywords
def check_simulator(
    simulator: SimulatorFunction,
    prior: Prior,
    *,
    vectorized: bool | Literal["seeds"] = False,
) -> None:
    """Raise `AssertionError` where a simulator cannot be used as `abctree.Problem` says.

    At draws of the prior it must return numbers of one shape, draw them from what it is given only
    (the same seed gives the same data), and leave its arguments as they were.  With
    ``vectorized="seeds"`` a row must be its own, whatever rows come with it.  One that asks for
    the names of its parameters (`abctree.protocols.NamedSimulator`) is told them.

    Parameters
    ----------
    simulator : callable
        ``simulator(theta, rng) -> data`` of numbers.
    prior : Prior
        Says where.
    vectorized : bool or "seeds"
        As for `Problem`.

    Examples
    --------
    >>> from abctree.problem.priors import Product
    >>> check_simulator(lambda theta, rng: theta + rng.normal(), Product({"a": (0.0, 1.0)}))
    """
    part: object = simulator
    if isinstance(part, NamedSimulator):
        simulator = call("with_names", "the names", part.with_names, prior.names)
    n, generator = 10, np.random.default_rng(0)
    theta = prior.from_cube(generator.random((n, prior.d)))
    seeds = generator.integers(2**63, size=n).astype(np.uint64)

    def run(rows: slice) -> FloatArray:
        """Data (m, ...) of some rows."""
        if vectorized == "seeds":
            return _data(simulator, theta[rows], seeds[rows])
        if vectorized:
            return _data(simulator, theta[rows], np.random.default_rng(seeds[rows][0]))
        pairs = zip(theta[rows], seeds[rows], strict=True)
        data = [_data(simulator, row, np.random.default_rng(seed)) for row, seed in pairs]
        shapes = {item.shape for item in data}
        require(len(shapes) == 1, f"data must have one shape, but have {sorted(shapes)}.")
        return np.stack(data)

    data = run(slice(None))
    shape = data.shape
    require(shape[:1] == (n,), f"data of {n} rows must have shape ({n}, ...), but have {shape}.")
    require(
        np.array_equal(run(slice(None)), data, equal_nan=True),
        "a simulator must draw from what it is given only, but the same seed gave other data.",
    )
    if vectorized is not True:
        require(
            np.array_equal(run(slice(n - 2, n)), data[n - 2 :], equal_nan=True),
            "a row must depend on its theta and its seed only, but is another among others.",
        )


def _data(simulator: SimulatorFunction, theta: FloatArray, source: object) -> FloatArray:
    data = np.asarray(call("simulator", "every draw of the prior", simulator, theta, source))
    require(
        data.dtype.kind in "fiub", f"a simulator must return real numbers, but gives {data.dtype}."
    )
    return data


# Distances --------------------------------------------------------------------------------------


@checks_keywords
def check_distance(distance: Distance, observed: ArrayLike | None = None) -> None:
    """Raise `AssertionError` where a distance breaks the contract of `abctree.protocols.Distance`.

    Of finite summaries it must give one finite number >= 0 for each row, the same whatever rows
    come with it and whenever it is asked; and it must leave its arguments as they were.  One with
    `fitted`, or `taught`, must refuse to be called before, give a fitted distance, and stay as it
    was.  What
    `standardised` gives must have the distance as its Euclidean norm, and `of_entries` must give a
    distance of the entries that are kept, which is itself where all are.

    Parameters
    ----------
    distance : Distance
        A function of ``(n, ...)`` simulated summaries and the observed one.
    observed : array_like, optional
        A summary; default five numbers.

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
    check_rows("a distance", lambda s: _distances(distance, s, target), simulated, value)
    again = np.array_equal(_distances(distance, simulated, target), value)
    require(again, "a distance must give the same numbers when it is asked again, but does not.")
    if isinstance(distance, StandardisedDistance):
        _check_standardised(distance, simulated, target, value)
    if isinstance(distance, HasOfEntries) and target.ndim == 1:
        _check_of_entries(distance, simulated, target, value)


def _distances(distance: Distance, simulated: FloatArray, observed: FloatArray) -> FloatArray:
    value = np.asarray(call("distance", "finite summaries", distance, simulated, observed))
    check_numbers(value, len(simulated), "a distance of finite summaries")
    return value


def _fitted(distance: LearnedDistance, simulated: FloatArray, observed: FloatArray) -> Distance:
    answered = False
    with contextlib.suppress(Exception):
        distance(simulated, observed)
        answered = True
    require(not answered, "a distance must raise when called before `fitted`, but did not.")
    if isinstance(distance, TaughtDistance):
        cube = np.random.default_rng(1).random((len(simulated), 2))
        fitted = call("taught", "a pilot", distance.taught, simulated, cube)
    else:
        fitted = call("fitted", "the summaries of a pilot", distance.fitted, simulated)
    require(
        not isinstance(fitted, LearnedDistance) or fitted.is_fitted,
        "what `fitted` or `taught` returns must be fitted, but its `is_fitted` is false.",
    )
    require(
        not distance.is_fitted,
        "`fitted` or `taught` must return another distance and leave its own as it is, but has "
        "changed it: a second run would be scaled by the first.",
    )
    return fitted


def _check_standardised(
    distance: StandardisedDistance, simulated: FloatArray, observed: FloatArray, value: FloatArray
) -> None:
    made = call("standardised", "finite summaries", distance.standardised, simulated, observed)
    if made is None:
        return
    require(
        np.ndim(made) == 2
        and len(made) == len(value)
        and np.allclose(np.linalg.norm(made, axis=1), value, rtol=1e-9),
        "`standardised` must give differences (n, m) whose Euclidean norm is the distance, but "
        f"gives shape {np.shape(made)}, or others.",
    )


def _check_of_entries(
    distance: HasOfEntries, simulated: FloatArray, observed: FloatArray, value: FloatArray
) -> None:
    n = len(observed)
    every, half = np.arange(n), np.arange(0, n, 2)
    whole, part = (
        call("of_entries", "entries", distance.of_entries, keep, n) for keep in (every, half)
    )
    require(
        np.allclose(_distances(whole, simulated, observed), value, rtol=1e-9),
        "`of_entries` of all entries must give the same distance, but does not.",
    )
    _distances(part, simulated[:, half], observed[half])
