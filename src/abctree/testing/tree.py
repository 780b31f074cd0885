"""Whether the parts of the tree keep their contracts: utilities, policies, beliefs."""

from __future__ import annotations

import numpy as np

from abctree.data import Arms, Boxes, Partition
from abctree.keywords import checks_keywords
from abctree.numbers import checked_rng
from abctree.proposals.proposal import Proposal
from abctree.protocols import BeliefRule, Beliefs, HasValue, ModelUtility, Policy, Utility
from abctree.testing.rule import call, check_numbers, check_probabilities, during, require, same
from abctree.tree.partitioners.growth import Growth
from abctree.types import BoolArray, FloatArray, IntArray, RNGLike

#: Pulls by which arms are compared with their probabilities, and standard deviations allowed.
_PULLS, _FAR_PULLS = 4000, 6.0
#: Candidates and uniform points by which a proposal is judged, and standard errors allowed.
_POINTS, _FAR_POINTS = 20_000, 5.0
#: Tolerance of the rows that teach beliefs.
_EPSILON = 0.5

# Utilities --------------------------------------------------------------------------------------


@checks_keywords
def check_utility(utility: Utility, rng: RNGLike = 0) -> None:
    """Raise `AssertionError` where a utility breaks the contract of `abctree.protocols.Utility`.

    Its q* must be finite, >= 0 and sum to one (to 1e-9) for one box and for a thousand, for rates
    from 1e-300 to 1, with boxes of rate 0 and with boxes of hardly any mass; it must be the prior
    masses where all rates are 0; and it must leave its arguments as they were.  Where the utility
    has a `value`, that of the prior must not be larger.  The weights of a `ModelUtility` must be in
    (0, 1], of evidences of 0, too.

    Parameters
    ----------
    utility : Utility
        An object with ``optimal_proposal(eta, prior_mass)``.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the rates and the masses.

    Examples
    --------
    >>> from abctree.tree.utilities import EffectiveSampleSize
    >>> check_utility(EffectiveSampleSize())
    """
    generator = checked_rng(rng)
    for name, eta, mass in _rates(generator):
        with during(f"rates: {name}"):
            q = call("optimal_proposal", "all rates", utility.optimal_proposal, eta, mass)
            q = np.asarray(q)
            check_probabilities(q, len(eta), "q*")
            require(
                eta.any() or np.allclose(q, mass, rtol=1e-9, atol=0.0),
                "q* must be the prior masses where all rates are 0, but is not.",
            )
            if isinstance(utility, HasValue) and name in ("random", "half of them 0"):
                best, of_prior = utility.value(q, eta, mass), utility.value(mass, eta, mass)
                require(
                    best >= of_prior - 1e-9 * abs(best),
                    f"q* must have the largest `value`, but has {best} and the prior {of_prior}.",
                )
    if isinstance(utility, ModelUtility):
        for evidence in (generator.random(3), np.array([0.2, 0.0]), np.zeros(3)):
            with during(f"evidences: {evidence}"):
                c = call("model_weights", "evidences", utility.model_weights, evidence)
                require(
                    np.shape(c) == evidence.shape and bool(((c > 0.0) & (c <= 1.0)).all()),
                    f"`model_weights` must be in (0, 1], one for each model, but got {c}.",
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


# Policies ---------------------------------------------------------------------------------------


@checks_keywords
def check_policy(policy: Policy) -> None:
    """Raise `AssertionError` where a policy breaks the contract of `abctree.protocols.Policy`.

    Its q must be probabilities, for one arm and for many, for arms without an acceptance, a
    rejection or either, and where a constraint refuses a part of the boxes.  Arms that it names
    must be numbers of boxes, as many as were asked for, and be played as often as q says (within
    six standard deviations of 4000 pulls).  It must draw from the generator it is given only, and
    leave its arguments as they were.

    Parameters
    ----------
    policy : Policy
        An object with ``pull(arms, partition, n, rng)``.

    Examples
    --------
    >>> from abctree.tree.policies import Thompson
    >>> check_policy(Thompson())
    """
    for name, arms, partition in _cases(np.random.default_rng(0)):
        with during(f"beliefs: {name}"):
            for n in (1, 7, _PULLS):
                played, q = pulled = _pull(policy, arms, partition, n)
                require(
                    same(pulled, _pull(policy, arms, partition, n)),
                    "a policy must draw from the `rng` it is given only, but the same seed gave "
                    "other pulls.",
                )
            share = np.bincount(played, minlength=len(q)) / _PULLS if len(played) else q
            far = np.abs(share - q) - _FAR_PULLS * np.sqrt(q * (1.0 - q) / _PULLS) - 1.0 / _PULLS
            worst = int(np.argmax(far))
            require(
                far[worst] <= 0.0,
                f"arms must be played with the probabilities q, but arm {worst} has q = "
                f"{q[worst]:.4g} and {share[worst]:.4g} of the pulls.",
            )


def _pull(policy: Policy, arms: Arms, partition: Partition, n: int) -> tuple[IntArray, FloatArray]:
    """The arms (n,), or none where they are left to q, and q (K,)."""
    rng = np.random.default_rng(1)
    played, q = call("pull", "all beliefs", policy.pull, arms, partition, n, rng)
    q = np.asarray(q)
    check_probabilities(q, len(arms), "q")
    if played is None:
        return np.empty(0, dtype=np.int64), q
    played = np.asarray(played)
    whole = played.shape == (n,) and played.dtype.kind in "iu"
    require(
        whole and np.isin(played, np.arange(len(arms))).all(),
        f"`pull` must name {n} arms by whole numbers below {len(arms)}, or give None, but names "
        f"{played.dtype} of shape {played.shape}.",
    )
    return played, q


def strips(*cuts: float, feasible: float = 1.0) -> Partition:
    """Boxes of the unit square, cut along the first coordinate, under a uniform prior."""
    growth = Growth(Boxes.whole(2))
    for box, cut in enumerate(cuts):
        growth.split(box, 0, cut)
    boxes = growth.boxes()

    def log_volume(lower: FloatArray, upper: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.prod(upper - lower, axis=1)))

    return Partition(boxes, boxes.volume, log_volume, np.full(len(boxes), feasible))


def _cases(rng: np.random.Generator) -> list[tuple[str, Arms, Partition]]:
    five = strips(0.1, 0.3, 0.35, 0.8)
    alpha, beta = rng.integers(1, 30, (2, 5)).astype(float)
    none = np.zeros(5)
    return [
        ("ordinary", Arms(alpha, beta), five),
        ("no acceptance", Arms(none + 1e-3, beta), five),
        ("no acceptance, no prior", Arms(none, beta), five),
        ("no rejection", Arms(alpha, none), five),
        ("nothing known of the last arm", Arms(np.r_[alpha[:4], 0.0], np.r_[beta[:4], 0.0]), five),
        ("one sure arm", Arms(np.r_[1e6, alpha[1:]], beta), five),
        ("one arm", Arms(np.ones(1), np.ones(1)), strips()),
        ("half of each box refused", Arms(alpha, beta), strips(0.1, 0.3, 0.35, 0.8, feasible=0.5)),
    ]


# Proposals --------------------------------------------------------------------------------------


@checks_keywords
def check_proposal(proposal: Proposal, d: int) -> None:
    """Raise `AssertionError` where a proposal breaks the contract of `abctree.proposals.Proposal`.

    What is kept must lie in the unit cube, be the same for the same seed, and be kept as often, and
    where, its density says: the integral over the cube is the share that is kept, and the first two
    moments of what is kept are those of the density, within five standard errors.

    Parameters
    ----------
    proposal : Proposal
        An object with ``draw(n, rng)`` and ``density(cube)``.
    d : int
        Dimensions of its cube.

    Examples
    --------
    >>> from abctree.proposals import UniformCube
    >>> check_proposal(UniformCube(3), d=3)
    """
    cube, kept = drawn = _draw(proposal, _POINTS, d)
    require(
        same(drawn, _draw(proposal, _POINTS, d)),
        "`draw` must draw from the `rng` it is given only, but the same seed gave other points.",
    )
    _draw(proposal, 1, d)
    _draw(proposal, 0, d)
    uniform = np.random.default_rng(1).random((_POINTS, d))
    density = np.asarray(call("density", "all points", proposal.density, uniform))
    check_numbers(density, _POINTS, "`density`")
    one = np.ones((_POINTS, 1))
    seen = np.where(kept[:, None], np.hstack([one, cube, cube**2]), 0.0)
    told = density[:, None] * np.hstack([one, uniform, uniform**2])
    apart = seen.mean(axis=0) - told.mean(axis=0)
    error = np.sqrt((seen.var(axis=0) + told.var(axis=0)) / _POINTS) + 1e-12
    worst = int(np.argmax(np.abs(apart) / error))
    what = ["share that is kept", *(f"mean of coordinate {j % d}" for j in range(2 * d))][worst]
    require(
        abs(apart[worst]) <= _FAR_POINTS * error[worst],
        f"what is drawn must have the density that `density` says, but the {what} is off by "
        f"{apart[worst]:.3g}, {abs(apart[worst]) / error[worst]:.0f} standard errors.",
    )


def _draw(proposal: Proposal, n: int, d: int) -> tuple[FloatArray, BoolArray]:
    cube, kept = call("draw", "every n", proposal.draw, n, np.random.default_rng(0))
    cube, kept = np.asarray(cube), np.ones(n, dtype=bool) if kept is None else np.asarray(kept)
    require(
        kept.shape == (n,) and kept.dtype == np.bool_,
        f"`draw` must say of {n} candidates by booleans ({n},) whether they are kept, or by None "
        f"that all are, but gives {kept.dtype} of shape {kept.shape}.",
    )
    require(
        cube.shape == (n, d) and ((cube[kept] >= 0.0) & (cube[kept] <= 1.0)).all(),
        f"`draw` must give points ({n}, {d}) that lie in the unit cube if they are kept, but gives "
        f"shape {cube.shape}, or points outside.",
    )
    return cube, kept


# Beliefs ----------------------------------------------------------------------------------------


@checks_keywords
def check_belief_rule(rule: BeliefRule) -> None:
    """Raise `AssertionError` where a rule breaks the contract of `abctree.protocols.BeliefRule`.

    From no rows, from rows that all failed, were all accepted, or all fell into one box, α and β
    must be finite and at least 0, one for each box.  Fifty acceptances in a box must raise its
    mean, fifty rejections lower it (unless it is 1 or 0), and leave alone the `Arms` that were
    given out before.

    Parameters
    ----------
    rule : BeliefRule
        An object with ``start(partition, arm, distance, weight, *, epsilon, ...)``.

    Examples
    --------
    >>> from abctree.tree.beliefs import Counts
    >>> check_belief_rule(Counts())
    """
    n, generator = 300, np.random.default_rng(0)
    partition = strips(0.2, 0.3, 0.7)
    arm = generator.integers(len(partition), size=n)
    distance = generator.random(n) * (1.0 + arm)
    weight = generator.uniform(0.2, 5.0, n)
    for name, rows, value in (
        ("ordinary", arm, distance),
        ("none", arm[:0], distance[:0]),
        ("all failed", arm, np.full(n, np.inf)),
        ("all accepted", arm, 0.1 * distance),
        ("all in one box", np.zeros(n, dtype=np.int64), distance),
        ("all tie", arm, np.full(n, _EPSILON)),
    ):
        given = partition, rows, value, weight[: len(rows)]
        with during(f"rows: {name}"):
            for what, near in (("acceptances", 0.0), ("rejections", np.inf)):
                beliefs = call(
                    "start", "all rows", rule.start, *given,
                    epsilon=_EPSILON, first_epsilon=4.0 * _EPSILON, count_epsilon=_EPSILON,
                )  # fmt: skip
                _check_learning(beliefs, len(partition), what, near)


def _check_learning(beliefs: Beliefs, n_boxes: int, what: str, distance: float) -> None:
    """Fifty rows at this distance in box 1 must move its mean up or down."""
    arms = _arms(beliefs, n_boxes)
    before = arms.mean.copy()
    box = np.ones(50, dtype=np.int64)
    call("learn", "new rows", beliefs.learn, box, np.full(50, distance))
    require(
        np.array_equal(arms.mean, before),
        "`arms` must give a copy, but `learn` changed one that was given out.",
    )
    after = _arms(beliefs, n_boxes).mean
    end = 1.0 if what == "acceptances" else 0.0
    require(
        (end - 0.5) * (after[1] - before[1]) > 0.0 or after[1] == end,
        f"50 {what} in a box must move its mean, but it went from {before[1]:.4g} to "
        f"{after[1]:.4g}.",
    )


def _arms(beliefs: Beliefs, n_boxes: int) -> Arms:
    arms = call("arms", "no arguments", beliefs.arms)
    for name, value in (("α", arms.alpha), ("β", arms.beta)):
        require(
            np.shape(value) == (n_boxes,) and np.isfinite(value).all() and (value >= 0.0).all(),
            f"{name} must be finite and at least 0, one for each of {n_boxes} boxes, but is "
            f"{value}.",
        )
    return arms
