"""Policies: which arms are played next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from abctree.data import Arms, Partition
from abctree.kernels import bandits, transport
from abctree.keywords import checks_keywords, part_named
from abctree.numbers import ruled
from abctree.proposals.proposal import pick
from abctree.protocols import Policy
from abctree.tree.utilities import PosteriorMatch
from abctree.types import FloatArray, IntArray

#: Arms that are looked at for the share of the best one.
_CONTENDERS = 256


@checks_keywords
@dataclass(frozen=True)
class Thompson:
    """Thompson sampling (Algorithm 3 without its top-two step): the arm whose draw is largest.

    Each pull draws every acceptance rate from its Beta belief and plays the arm with the largest
    ``η_k π(Ω_k) / |Ω_k|``, the posterior density of the box; see `box_density` for boxes of
    infinite or unknown volume.  It seeks the mode: weights of such a run have a large variance, for
    its probabilities of the other arms vanish.

    Parameters
    ----------
    n_draws : int
        Draws of the beliefs from which the probability of each arm is estimated, for the weights;
        at least 1.
    defensive : float
        Share of prior draws among the pulls, in [0, 1).
    spread : float
        Share of pulls of arms in proportion to ``π_k η_k``, in [0, 1): rows over the whole peak,
        without which a fit does not see its shape.

    Notes
    -----
    A pull is exact in law but looks at few arms, see `abctree.kernels.bandits`: O(log K), after
    O(K) once a block.  A belief with α = 0 is a rate of 0, and one with β = 0 a rate of 1.
    """

    n_draws: int = ruled(256, "a whole number of at least 1")
    defensive: float = ruled(0.0, "in [0, 1)")
    spread: float = ruled(0.0, "in [0, 1)")

    def pull(
        self, arms: Arms, partition: Partition, n: int, rng: np.random.Generator
    ) -> tuple[IntArray | None, FloatArray]:
        """n arms to play (n,), or None, and the estimated probability q (K,) of each, never 0.

        None where points are refused: arms are then drawn from q, each again with its point.
        """
        return _pulled(arms, partition, n, self.n_draws, self.defensive, self.spread, 1.0, rng)


@checks_keywords
@dataclass(frozen=True)
class TopTwo:
    """Top-two Thompson sampling (Algorithm 3, all lines; Russo 2016).

    With probability b the arm of the largest draw, as in `Thompson`; else draws are repeated until
    another arm wins, and that one is played.  After 30 draws it is the arm of `T3C`, which is the
    limit of what more draws would give; the runner-up would not be, and loses the rate of
    Theorem 2.

        Paper differs: the search for another arm is bounded.

    Parameters
    ----------
    b : float or "adaptive"
        In (0, 1].  "adaptive" is the share of the best arm in the allocation that would be optimal
        if the beliefs' means were the truth (Russo 2016, 2020), worked out once a block from the
        256 best arms.
    n_draws, defensive, spread
        As in `Thompson`.
    """

    b: float | Literal["adaptive"] = ruled(0.5, 'in (0, 1] or "adaptive"', "Try 0.5.")
    n_draws: int = ruled(256, "a whole number of at least 1")
    defensive: float = ruled(0.0, "in [0, 1)")
    spread: float = ruled(0.0, "in [0, 1)")
    _transport: ClassVar[bool] = False  #: whether the second arm is always that of `T3C`

    def pull(
        self, arms: Arms, partition: Partition, n: int, rng: np.random.Generator
    ) -> tuple[IntArray | None, FloatArray]:
        """n arms to play (n,), or None, and the estimated probability q (K,), as `Thompson`."""
        share = _share(self.b, arms, partition)
        return _pulled(
            arms, partition, n, self.n_draws, self.defensive, self.spread, share, rng,
            transport=self._transport,
        )  # fmt: skip


@checks_keywords
@dataclass(frozen=True)
class T3C(TopTwo):
    """Top-two Thompson sampling with the arm that is hardest to tell from the first (T3C).

    As `TopTwo`, but the second arm is the one with the least evidence that it is worse than the
    first (transportation cost; Shang et al. 2020).  Nothing is drawn again.

    Parameters
    ----------
    b, n_draws, defensive, spread
        As in `TopTwo`.
    """

    _transport: ClassVar[bool] = True


def box_density(partition: Partition) -> FloatArray:
    """π(Ω_k) / |Ω_k| of each box (K,), relative to the largest; Algorithm 3, line 6.

    |Ω_k| is the volume in θ space of what the constraint leaves of the box.  A box that reaches to
    infinity counts as the least dense of the bounded ones: its average density is 0, but not that
    of its better part.  Where the prior cannot say volumes, or no box is bounded, all count alike,
    relative to the prior.
    """
    log_density = partition.log_density
    bounded = np.isfinite(log_density)
    if np.isnan(partition.log_volume).any() or not bounded.any():
        return np.ones(len(partition))
    endless = np.isposinf(partition.log_volume)
    log_density[endless] = log_density[bounded].min()
    return np.asarray(np.exp(log_density - log_density[bounded].max()))


_BY_NAME: dict[str, type[Policy]] = {"thompson": Thompson, "top-two": TopTwo, "t3c": T3C}


def as_policy(spec: str | Policy) -> Policy:
    """A policy from its short name, or as it is."""
    return part_named("policy", spec, _BY_NAME, "pull(arms, partition, n, rng)")


def _pulled(
    arms: Arms,
    partition: Partition,
    n: int,
    n_draws: int,
    defensive: float,
    spread: float,
    share: float,
    rng: np.random.Generator,
    *,
    transport: bool = False,
) -> tuple[IntArray | None, FloatArray]:
    prior = partition.prior_mass
    m = max(n, n_draws)
    played = bandits.pulls(arms.alpha, arms.beta, box_density(partition), m, share, transport, rng)
    # One pseudo-draw in all keeps every weight finite.
    q = (np.bincount(played, minlength=len(arms)) + prior) / (m + 1.0)
    played = played[:n]
    # Arms from q, each drawn again with its point, where points are refused: then the density of
    # what is kept is known, although the share that is refused is not, and no arm without allowed
    # points is kept to.
    kept_to = partition.is_whole
    posterior = PosteriorMatch().optimal_proposal(arms.mean, prior)
    for part, arm_share in ((spread, posterior), (defensive, prior)):
        if part > 0.0:
            q = (1.0 - part) * q + part * arm_share
            if kept_to:
                instead = rng.random(n) < part
                played[instead] = pick(np.cumsum(arm_share), n, rng)[instead]
    return (played if kept_to else None), np.asarray(q)


def _share(b: float | str, arms: Arms, partition: Partition) -> float:
    if isinstance(b, str):
        density = box_density(partition)
        return float(transport.optimal_share(arms.alpha, arms.beta, density, _CONTENDERS))
    return float(b)
