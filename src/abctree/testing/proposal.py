"""Whether a proposal draws from the density that it says."""

from __future__ import annotations

import numpy as np

from abctree.keywords import checks_keywords
from abctree.proposals.proposal import Proposal
from abctree.testing.rule import call, require
from abctree.types import BoolArray, FloatArray

#: Candidates and uniform points that are compared, and standard errors allowed.
_POINTS, _FAR = 20_000, 5.0


@checks_keywords
def check_proposal(proposal: Proposal, d: int) -> None:
    """Check that a proposal keeps the contract of `abctree.proposals.Proposal`.

    What is kept must lie in the unit cube, be the same for the same seed, and be kept as often, and
    where, its density says: the integral over the cube is the share that is kept, and the first two
    moments of what is kept are those of the density, within five standard errors.

    Parameters
    ----------
    proposal : Proposal
        An object with ``draw(n, rng)`` and ``density(cube)``.
    d : int
        Dimensions of its cube.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.

    Examples
    --------
    >>> from abctree.proposals import UniformCube
    >>> check_proposal(UniformCube(3), d=3)
    """
    cube, kept = _draw(proposal, _POINTS, d)
    again = _draw(proposal, _POINTS, d)
    require(
        np.array_equal(cube, again[0]) and np.array_equal(kept, again[1]),
        "`draw` must draw from the `rng` it is given only, but the same seed gave other points.",
    )
    _draw(proposal, 1, d)
    _draw(proposal, 0, d)
    uniform = np.random.default_rng(1).random((_POINTS, d))
    density = np.asarray(call("density", "all points", "", proposal.density, uniform))
    require(
        density.shape == (_POINTS,) and np.isfinite(density).all() and (density >= 0.0).all(),
        f"`density` must be finite and >= 0, one for each of {_POINTS} points, but has shape "
        f"{density.shape} and reaches from {density.min()} to {density.max()}.",
    )
    one = np.ones((_POINTS, 1))
    drawn = np.where(kept[:, None], np.hstack([one, cube, cube**2]), 0.0)
    told = density[:, None] * np.hstack([one, uniform, uniform**2])
    apart = drawn.mean(axis=0) - told.mean(axis=0)
    error = np.sqrt((drawn.var(axis=0) + told.var(axis=0)) / _POINTS) + 1e-12
    worst = int(np.argmax(np.abs(apart) / error))
    what = ["share that is kept", *(f"mean of coordinate {j % d}" for j in range(2 * d))][worst]
    require(
        abs(apart[worst]) <= _FAR * error[worst],
        f"what is drawn must have the density that `density` says, but the {what} is off by "
        f"{apart[worst]:.3g}, {abs(apart[worst]) / error[worst]:.0f} standard errors.",
    )


def _draw(proposal: Proposal, n: int, d: int) -> tuple[FloatArray, BoolArray]:
    cube, kept = call("draw", "every n", "", proposal.draw, n, np.random.default_rng(0))
    cube, kept = np.asarray(cube), np.asarray(kept)
    require(
        kept.shape == (n,) and kept.dtype == np.bool_,
        f"`draw` must say of {n} candidates by booleans ({n},) whether they are kept, but gives "
        f"{kept.dtype} of shape {kept.shape}.",
    )
    require(
        cube.shape == (n, d) and ((cube[kept] >= 0.0) & (cube[kept] <= 1.0)).all(),
        f"`draw` must give points ({n}, {d}) that lie in the unit cube if they are kept, but gives "
        f"shape {cube.shape}, or points outside.",
    )
    return cube, kept
