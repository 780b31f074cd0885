"""Whether a utility keeps its contract, for all rates."""

from __future__ import annotations

import numpy as np

from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.protocols import Utility
from abctree.testing.rule import call, check_probabilities, require
from abctree.types import FloatArray, RNGLike


@checks_keywords
def check_utility(utility: Utility, rng: RNGLike = 0) -> None:
    """Check that a utility keeps the contract of `abctree.protocols.Utility`.

    Its q* must be finite, >= 0 and sum to one (to 1e-9) for one box and for a thousand, for rates
    from 1e-300 to 1, with boxes of rate 0 and with boxes of hardly any mass; it must be the prior
    masses where all rates are 0; and it must leave its arguments as they were.

    Parameters
    ----------
    utility : Utility
        An object with ``optimal_proposal(eta, prior_mass)``.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the rates and the masses.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the rates that break it.

    Examples
    --------
    >>> from abctree.tree.utilities import EffectiveSampleSize
    >>> check_utility(EffectiveSampleSize())
    """
    generator = checked_rng(rng)
    for name, eta, mass in _rates(generator):
        where = f"(rates: {name})"
        q = call("optimal_proposal", "all rates", where, utility.optimal_proposal, eta, mass)
        q = np.asarray(q)
        check_probabilities(q, len(eta), "q*", where)
        require(
            eta.any() or np.allclose(q, mass, rtol=1e-9, atol=0.0),
            f"q* must be the prior masses where all rates are 0, but is not {where}.",
        )


def _rates(rng: np.random.Generator) -> list[tuple[str, FloatArray, FloatArray]]:
    k = 50
    mass = rng.dirichlet(np.ones(k))
    eta = rng.random(k)
    many = rng.dirichlet(np.ones(1000))
    uneven = np.r_[1e-12, np.full(k - 1, (1.0 - 1e-12) / (k - 1))]
    spread = 10.0 ** rng.uniform(-12.0, 0.0, k)
    return [
        ("random", eta, mass),
        ("half of them 0", np.where(np.arange(k) % 2 == 0, 0.0, eta), mass),
        ("all but one 0", np.where(np.arange(k) == 7, 0.4, 0.0), mass),
        ("all 0", np.zeros(k), mass),
        ("all equal", np.full(k, 0.3), mass),
        ("all 1", np.ones(k), mass),
        ("over twelve decades", spread, mass),
        ("all about 1e-300", 1e-300 * (1.0 + eta), mass),
        ("one box of mass 1e-12 with the largest rate", np.r_[1.0, 1e-3 * eta[1:]], uneven),
        ("a thousand boxes, most of them 0", np.where(many > 2e-3, many, 0.0), many),
        ("one box", np.array([0.2]), np.ones(1)),
        ("one box, rate 0", np.zeros(1), np.ones(1)),
        ("two boxes", np.array([0.9, 0.1]), np.array([0.5, 0.5])),
    ]
