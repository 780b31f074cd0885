"""Whether a prior keeps its contract, however near the border of the cube."""

from __future__ import annotations

import numpy as np

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.protocols import Prior
from abctree.testing.rule import require
from abctree.types import FloatArray, RNGLike


@checks_keywords
def check_prior(prior: Prior, rng: RNGLike = 0, n: int = 200) -> None:
    """Check that a prior keeps the contract of `abctree.protocols.Prior`.

    - `names` are distinct strings, and `from_cube` gives a finite row of as many numbers for every
      point of the open cube, however near its border (to 2⁻⁵³), each row on its own, and no rows
      for no rows;
    - ``from_cube(to_cube(theta))`` is theta (to 1e-6 of the spread of a column), unless `to_cube`
      says that there is no inverse, with a `NotImplementedError` or an `abctree.ParameterError`;
    - volumes add up: cutting a box in two gives two boxes whose volumes sum to its own (to 1e-6),
      wherever `log_volume` is finite; nan says that it is not known.

    Parameters
    ----------
    prior : Prior
        The prior.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the points and the boxes.
    n : int
        Points and boxes, >= 1.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.
    """
    generator = checked_rng(rng)
    names = tuple(prior.names)
    require(
        all(isinstance(name, str) for name in names) and len(set(names)) == len(names),
        f"`names` must be distinct strings, but are {names}.",
    )
    cube = generator.random((n, prior.d))
    _check_from_cube(prior, cube, len(names), generator)
    _check_to_cube(prior, 0.001 + 0.998 * cube)
    _check_log_volume(prior, generator, n)


def _check_from_cube(
    prior: Prior, cube: FloatArray, n_parameters: int, rng: np.random.Generator
) -> None:
    edges = np.array([2.0**-53, np.nextafter(1.0, 0.0)])
    cube = np.concatenate([cube, edges[rng.integers(2, size=(20, prior.d))]])
    given = cube.copy()
    theta = np.asarray(prior.from_cube(cube))
    require(np.array_equal(cube, given), "`from_cube` must not change its argument, but did.")
    require(
        theta.shape == (len(cube), n_parameters),
        f"`from_cube` must give one row for each point and one column for each of the "
        f"{n_parameters} names, {(len(cube), n_parameters)}, but gives shape {theta.shape}.",
    )
    wrong = np.flatnonzero(~np.isfinite(theta).all(axis=1))
    require(
        len(wrong) == 0,
        f"`from_cube` must be finite in the open cube, but maps {cube[wrong[:1]].tolist()} to "
        f"{theta[wrong[:1]].tolist()}.",
    )
    alone = np.concatenate([np.asarray(prior.from_cube(cube[i : i + 1])) for i in range(5)])
    require(
        np.allclose(alone, theta[:5], rtol=1e-12, atol=0.0),
        "`from_cube` must treat each row on its own, but a row alone gives another theta than the "
        "same row among others.",
    )
    require(
        np.shape(prior.from_cube(cube[:0])) == (0, n_parameters),
        f"`from_cube` of no points must have shape (0, {n_parameters}), but has "
        f"{np.shape(prior.from_cube(cube[:0]))}.",
    )


def _check_to_cube(prior: Prior, cube: FloatArray) -> None:
    theta = np.asarray(prior.from_cube(cube))
    try:
        back = np.asarray(prior.to_cube(theta))
    except (NotImplementedError, ParameterError):
        return
    require(
        back.shape == cube.shape,
        f"`to_cube` must give shape {cube.shape}, one column for each coordinate of the cube, but "
        f"gives {back.shape}.",
    )
    require(
        ((back >= 0.0) & (back <= 1.0)).all(), "`to_cube` must stay within [0, 1], but does not."
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
    whole, left, right = (
        np.asarray(prior.log_volume(a, b))
        for a, b in ((lower, upper), (lower, left_upper), (right_lower, upper))
    )
    for log_volume in (whole, left, right):
        require(
            log_volume.shape == (n,),
            f"`log_volume` of {n} boxes must have shape ({n},), but has {log_volume.shape}.",
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
