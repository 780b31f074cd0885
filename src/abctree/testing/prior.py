"""Whether a prior keeps its contract."""

from __future__ import annotations

import numpy as np

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.protocols import (
    HasBounds,
    HasCategories,
    HasCircles,
    HasCubeDensity,
    HasCubeRange,
    HasLogDensity,
    Prior,
)
from abctree.testing.rule import call, check_numbers, check_rows, require
from abctree.types import FloatArray, RNGLike


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
        theta = np.asarray(call("from_cube", "every point", prior.from_cube, some))
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
    check_rows("`from_cube`", mapped, cube, theta)
    mapped(cube[:0])


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
        low, high = call("cube_range", "every draw", prior.cube_range, theta)
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
        np.asarray(call("log_volume", "every box", prior.log_volume, *corners)) for corners in boxes
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
        density = call("cube_density", "every point", prior.cube_density, cube)
        check_numbers(np.asarray(density), n, "`cube_density`")
    if isinstance(prior, HasLogDensity):
        log_density = np.asarray(call("log_density", "every draw", prior.log_density, theta))
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
