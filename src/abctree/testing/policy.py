"""Whether a policy keeps its contract, for all beliefs."""

from __future__ import annotations

import numpy as np

from abctree.data import Arms, Boxes, Partition
from abctree.keywords import checks_keywords
from abctree.protocols import Policy
from abctree.testing.rule import call, check_probabilities, require
from abctree.tree.partitioners.growth import Growth
from abctree.types import FloatArray, IntArray

#: Pulls by which arms are compared with their probabilities, and standard deviations allowed.
_PULLS, _FAR = 4000, 6.0


@checks_keywords
def check_policy(policy: Policy) -> None:
    """Check that a policy keeps the contract of `abctree.protocols.Policy`.

    Its q must be probabilities, for one arm and for many, for arms without an acceptance, a
    rejection or either, and where a constraint refuses a part of the boxes.  Arms that it names
    must be numbers of boxes, as many as were asked for, and be played as often as q says (within
    six standard deviations of 4000 pulls).  It must draw from the generator it is given only, and
    leave its arguments as they were.

    Parameters
    ----------
    policy : Policy
        An object with ``pull(arms, partition, n, rng)``.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the beliefs that break it.

    Examples
    --------
    >>> from abctree.tree.policies import Thompson
    >>> check_policy(Thompson())
    """
    for name, arms, partition in _cases(np.random.default_rng(0)):
        where = f"(beliefs: {name})"
        for n in (1, 7, _PULLS):
            played, q = _pull(policy, arms, partition, n, where)
            again, same = _pull(policy, arms, partition, n, where)
            require(
                np.array_equal(q, same) and np.array_equal(played, again),
                "a policy must draw from the `rng` it is given only, but the same seed gave other "
                f"pulls {where}.",
            )
        share = np.bincount(played, minlength=len(q)) / _PULLS if len(played) else q
        far = np.abs(share - q) - _FAR * np.sqrt(q * (1.0 - q) / _PULLS) - 1.0 / _PULLS
        worst = int(np.argmax(far))
        require(
            far[worst] <= 0.0,
            f"arms must be played with the probabilities q, but arm {worst} has q = "
            f"{q[worst]:.4g} and {share[worst]:.4g} of the pulls {where}.",
        )


def _pull(
    policy: Policy, arms: Arms, partition: Partition, n: int, where: str
) -> tuple[IntArray, FloatArray]:
    """The arms (n,), or none where they are left to q, and q (K,)."""
    rng = np.random.default_rng(1)
    played, q = call("pull", "all beliefs", where, policy.pull, arms, partition, n, rng)
    q = np.asarray(q)
    check_probabilities(q, len(arms), "q", where)
    if played is None:
        return np.empty(0, dtype=np.int64), q
    played = np.asarray(played)
    whole = played.shape == (n,) and played.dtype.kind in "iu"
    require(
        whole and np.isin(played, np.arange(len(arms))).all(),
        f"`pull` must name {n} arms by whole numbers below {len(arms)}, or give None, but names "
        f"{played.dtype} of shape {played.shape} {where}.",
    )
    return played, q


def strips(*cuts: float, feasible: float = 1.0) -> Partition:
    """Boxes of the unit square, cut along the first coordinate, under a uniform prior."""
    growth = Growth(Boxes.whole(2))
    for box, cut in enumerate(cuts):
        growth.split(box, 0, cut)
    boxes = growth.boxes()
    volume = boxes.volume
    return Partition(boxes, volume, np.log(volume), np.full(len(boxes), feasible))


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
