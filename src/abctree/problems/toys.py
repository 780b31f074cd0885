"""Small problems whose ε-posterior is known exactly; the truths are in `truth`."""

from __future__ import annotations

import numpy as np

from abctree.kernels import simulators
from abctree.keywords import checks_keywords
from abctree.numbers import checked_count
from abctree.problem import Problem
from abctree.problem.priors import Integers


@checks_keywords
def gauss(d: int = 2) -> Problem:
    """A normal mean in d dimensions: θ ~ U(−10, 10)^d, y ~ N(θ, I), y_obs = 0.

    Its truth is `truth.GaussTruth`.

    Parameters
    ----------
    d : int
        Dimensions, at least 1.

    Returns
    -------
    Problem
        With parameters theta1, ..., theta_d and the Euclidean distance.
    """
    d = checked_count("d", d)
    return Problem(
        prior={f"theta{j + 1}": (-10.0, 10.0) for j in range(d)},
        simulator=simulators.gauss,
        observed=np.zeros(d),
        vectorized="seeds",
    )


@checks_keywords
def gaussian_mixture(d: int = 2) -> Problem:
    """Two normals of different width, a bimodal posterior (Example 2 of the paper when d = 2).

    θ ~ U(−5, 5)^d, x ~ .3 N(θ, I) + .7 N(θ + 3·1, I/4), where I/4 is a covariance and one choice
    of the component serves all coordinates; x_obs = 2·1.  The posterior has a wide mode near 2·1
    and a narrow one near −1·1, which is its maximum.  The paper does not state x_obs; this one
    puts the narrow mode at the θ it generates its data from.  Its truth is
    `truth.GaussianMixtureTruth`.

    Parameters
    ----------
    d : int
        Dimensions, at least 1.

    Returns
    -------
    Problem
        With parameters theta1, ..., theta_d and the Euclidean distance.
    """
    d = checked_count("d", d)
    return Problem(
        prior={f"theta{j + 1}": (-5.0, 5.0) for j in range(d)},
        simulator=simulators.gaussian_mixture,
        observed=np.full(d, 2.0),
        vectorized="seeds",
    )


@checks_keywords
def banana() -> Problem:
    """A curved posterior with four modes in five dimensions.

    θ ~ U(−3, 3)^5 and, with e ~ N(0, I),

    x = (θ1 + .5 e1, θ2 + θ1² − 1 + .3 e2, θ3 + .5 e3, sin 2θ4 + .3 e4, θ5 + .3 θ3 θ5 + .5 e5),

    x_obs = (.5, .2, .5, .6, .3).  Its truth is `truth.BananaTruth`.

    Returns
    -------
    Problem
        With parameters theta1, ..., theta5 and the Euclidean distance.
    """
    return Problem(
        prior={f"theta{j + 1}": (-3.0, 3.0) for j in range(5)},
        simulator=simulators.banana,
        observed=np.array([0.5, 0.2, 0.5, 0.6, 0.3]),
        vectorized="seeds",
    )


@checks_keywords
def finite_normal() -> Problem:
    """A hundred arms: the finite parameter space of Example 1 of the paper.

    j is uniform on 1, ..., 100, U | j ~ U(j − 1, j), X ~ N(U, 5), x_obs = 50.  We read the 5 of
    the paper as a variance, and the observation, which it does not state, is ours.  Its truth is
    `truth.FiniteNormalTruth`.

    Returns
    -------
    Problem
        With the parameter j and the distance |x − 50|.
    """
    return Problem(
        prior={"j": Integers(1, 100)},
        simulator=simulators.finite_normal,
        observed=np.array([50.0]),
        vectorized="seeds",
    )
