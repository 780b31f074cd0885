"""Whether priors, constraints, simulators and distances keep their contracts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.protocols import (
    Constraint,
    Distance,
    HasBounds,
    HasCategories,
    HasCircles,
    HasCubeDensity,
    HasCubeRange,
    HasLogDensity,
    HasOfEntries,
    LearnedDistance,
    NamedSimulator,
    Prior,
    StandardisedDistance,
    TaughtDistance,
)
from abctree.testing.rule import call, check_numbers, require
from abctree.types import FloatArray, RNGLike, SimulatorFunction

# Priors -----------------------------------------------------------------------------------------


@checks_keywords
def check_prior(prior: Prior, rng: RNGLike = 0, n: int = 200) -> None:
    """Raise `AssertionError` where a prior breaks the contract of `abctree.protocols.Prior`.

    - `names` are distinct strings, and `from_cube` gives a finite row of as many numbers for every
      point of the open cube, however near its border (to 2⁻⁵³), each row on its own, and no rows
      for no rows;
    - ``from_cube(to_cube(theta))`` is theta (to 1e-6 of the spread of a column), unless `to_cube`
      says that there is no inverse, with a `NotImplementedError` or an `abctree.ParameterError`;
    - volumes add up: cutting a box in two gives two boxes whose volumes sum to its own (to 1e-6),
      wherever `log_volume` is finite; nan says that it is not known;
    - of what it has beside, `cube_density` is finite and at least 0, `log_density` is a number or
      infinite, `cube_range` holds the place that `to_cube` gives, and `bounds` the draws; `circles`
      are uniform along their dimension, and `categories` have the values of all draws.

    Parameters
    ----------
    prior : Prior
        The prior.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the points and the boxes.
    n : int
        Points and boxes, >= 1.
    """
    generator = checked_rng(rng)
    names = tuple(prior.names)
    require(
        all(isinstance(name, str) for name in names) and len(set(names)) == len(names),
        f"`names` must be distinct strings, but are {names}.",
    )
    cube = generator.random((n, prior.d))
    _check_from_cube(prior, cube, len(names), generator)
    cube = 0.001 + 0.998 * cube
    theta = np.asarray(prior.from_cube(cube))
    _check_to_cube(prior, cube, theta)
    _check_log_volume(prior, generator, n)
    _check_beside(prior, cube, theta)


def _check_from_cube(
    prior: Prior, cube: FloatArray, n_parameters: int, rng: np.random.Generator
) -> None:
    edges = np.array([2.0**-53, np.nextafter(1.0, 0.0)])
    cube = np.concatenate([cube, edges[rng.integers(2, size=(20, prior.d))]])

    def mapped(some: FloatArray) -> FloatArray:
        theta = np.asarray(call("from_cube", "every point", "", prior.from_cube, some))
        require(
            theta.shape == (len(some), n_parameters),
            "`from_cube` must give one row for each point and one column for each of the "
            f"{n_parameters} names, shape {(len(some), n_parameters)}, but gives {theta.shape}.",
        )
        return theta

    theta = mapped(cube)
    wrong = np.flatnonzero(~np.isfinite(theta).all(axis=1))
    require(
        len(wrong) == 0,
        f"`from_cube` must be finite in the open cube, but maps {cube[wrong[:1]].tolist()} to "
        f"{theta[wrong[:1]].tolist()}.",
    )
    _check_rows("`from_cube`", mapped, cube, theta)
    mapped(cube[:0])


def _check_rows(
    name: str, function: Callable[[FloatArray], FloatArray], rows: FloatArray, answer: FloatArray
) -> None:
    """Check that a row alone has the same answer as among others."""
    alone = np.concatenate([function(rows[i : i + 1]) for i in range(min(50, len(rows)))])
    require(
        np.allclose(alone, answer[: len(alone)], rtol=1e-9, atol=0.0),
        f"{name} must treat each row on its own, but a row alone has another answer than the same "
        "row among others.",
    )


def _check_to_cube(prior: Prior, cube: FloatArray, theta: FloatArray) -> None:
    try:
        back = np.asarray(prior.to_cube(theta))
    except (NotImplementedError, ParameterError):
        return
    require(
        back.shape == cube.shape and ((back >= 0.0) & (back <= 1.0)).all(),
        f"`to_cube` must give shape {cube.shape}, one column for each coordinate of the cube, and "
        f"stay within [0, 1], but gives {back.shape} up to {back.max(initial=0.0)}.",
    )
    error = np.abs(np.asarray(prior.from_cube(back)) - theta)
    allowed = 1e-6 * np.ptp(theta, axis=0) + 1e-9 * np.abs(theta)
    wrong = np.flatnonzero((error > allowed).any(axis=1))
    require(
        len(wrong) == 0,
        f"`from_cube(to_cube(theta))` must be theta, but is off by up to "
        f"{error.max(axis=0).tolist()}, for example at {theta[wrong[:1]].tolist()} "
        f"({len(wrong)} of {len(theta)} points).",
    )
    if isinstance(prior, HasCubeRange):
        low, high = call("cube_range", "every draw", "", prior.cube_range, theta)
        require(
            np.shape(low) == cube.shape and ((low <= back) & (back <= high)).all(),
            "`cube_range` must hold what `to_cube` gives, but does not.",
        )


def _check_log_volume(prior: Prior, rng: np.random.Generator, n: int) -> None:
    if prior.d == 0:
        return
    lower = rng.uniform(0.0, 0.5, (n, prior.d))
    upper = rng.uniform(0.5, 1.0, (n, prior.d))
    lower[rng.random(lower.shape) < 0.2] = 0.0
    upper[rng.random(upper.shape) < 0.2] = 1.0
    row, feature = np.arange(n), rng.integers(prior.d, size=n)
    cut = lower[row, feature] + rng.random(n) * (upper - lower)[row, feature]
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[row, feature] = right_lower[row, feature] = cut
    boxes = ((lower, upper), (lower, left_upper), (right_lower, upper))
    whole, left, right = (
        np.asarray(call("log_volume", "every box", "", prior.log_volume, *corners))
        for corners in boxes
    )
    require(
        whole.shape == left.shape == right.shape == (n,),
        f"`log_volume` of {n} boxes must have shape ({n},), but has {whole.shape}.",
    )
    # Without a volume for one of them (nan, or a box that reaches infinity) there is no sum.
    known = np.isfinite(whole) & np.isfinite(left) & np.isfinite(right)
    both = np.logaddexp(left[known], right[known])
    wrong = np.flatnonzero(np.abs(both - whole[known]) > 1e-6)
    require(
        len(wrong) == 0,
        f"`log_volume` must add up when a box is cut in two, but in {len(wrong)} of "
        f"{np.count_nonzero(known)} boxes it does not: the log of the sum of the parts is "
        f"{both[wrong[:1]]}, that of the box {whole[known][wrong[:1]]}.",
    )


def _check_beside(prior: Prior, cube: FloatArray, theta: FloatArray) -> None:
    """Check what a prior may have beside its protocol."""
    n = len(theta)
    if isinstance(prior, HasCubeDensity):
        density = call("cube_density", "every point", "", prior.cube_density, cube)
        check_numbers(np.asarray(density), n, "`cube_density`")
    if isinstance(prior, HasLogDensity):
        log_density = np.asarray(call("log_density", "every draw", "", prior.log_density, theta))
        require(
            log_density.shape == (n,) and not np.isnan(log_density).any(),
            f"`log_density` must give {n} draws as many numbers or infinities, but gives nan, or "
            f"shape {log_density.shape}.",
        )
    if isinstance(prior, HasBounds):
        bounds = np.asarray(prior.bounds)
        require(
            bounds.shape == (theta.shape[1], 2)
            and not ((theta < bounds[:, 0]) | (theta > bounds[:, 1])).any(),
            f"`bounds` must have shape ({theta.shape[1]}, 2) and hold the draws, but does not.",
        )
    for circle in prior.circles if isinstance(prior, HasCircles) else ():
        there = circle.low + cube[:, circle.dim] * circle.width
        require(
            np.allclose(theta[:, circle.column], there, rtol=1e-9, atol=1e-9 * circle.width),
            f"`circles` must be uniform from low to high along their dimension, but {circle} is "
            "not.",
        )
    for category in prior.categories if isinstance(prior, HasCategories) else ():
        require(
            np.isin(theta[:, category.column], category.values).all()
            and list(category.values) == sorted(set(category.values)),
            f"`categories` must have the values of all draws, in increasing order, but {category} "
            "does not.",
        )


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
        answer = np.asarray(call("constraint", "whole columns", "", constraint, columns))
        require(
            answer.shape == (len(rows),) and answer.dtype == np.bool_,
            f"a constraint must return {len(rows)} booleans for {len(rows)} rows, but gives "
            f"{answer.dtype} of shape {answer.shape}.",
        )
        return answer

    _check_rows("a constraint", allowed, theta, allowed(theta))
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
        simulator = call("with_names", "the names", "", part.with_names, prior.names)
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
    data = np.asarray(call("simulator", "every draw of the prior", "", simulator, theta, source))
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
    _check_rows("a distance", lambda s: _distances(distance, s, target), simulated, value)
    again = np.array_equal(_distances(distance, simulated, target), value)
    require(again, "a distance must give the same numbers when it is asked again, but does not.")
    if isinstance(distance, StandardisedDistance):
        _check_standardised(distance, simulated, target, value)
    if isinstance(distance, HasOfEntries) and target.ndim == 1:
        _check_of_entries(distance, simulated, target, value)


def _distances(distance: Distance, simulated: FloatArray, observed: FloatArray) -> FloatArray:
    value = np.asarray(call("distance", "finite summaries", "", distance, simulated, observed))
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
        fitted = call("taught", "a pilot", "", distance.taught, simulated, cube)
    else:
        fitted = call("fitted", "the summaries of a pilot", "", distance.fitted, simulated)
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
    made = call("standardised", "finite summaries", "", distance.standardised, simulated, observed)
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
        call("of_entries", "entries", "", distance.of_entries, keep, n) for keep in (every, half)
    )
    require(
        np.allclose(_distances(whole, simulated, observed), value, rtol=1e-9),
        "`of_entries` of all entries must give the same distance, but does not.",
    )
    _distances(part, simulated[:, half], observed[half])
