"""Finite Bernoulli arms (Algorithm 5 and its rivals)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from abctree.errors import wrong
from abctree.kernels import games
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule, checked_rng
from abctree.types import FloatArray, IntArray, RNGLike

#: Rules by name: the kernel's number and the share of the best arm.
_RULES: dict[str, tuple[int, float]] = {
    "thompson": (games.RESAMPLE, 1.0),
    "top-two": (games.RESAMPLE, 0.5),
    "top-two-adaptive": (games.RESAMPLE, -1.0),
    "t3c": (games.TRANSPORT, 0.5),
    "ucb": (games.UCB, 1.0),
    "uniform": (games.UNIFORM, 1.0),
}

Challenger = Literal["resample", "transport"]


@dataclass(frozen=True, eq=False)
class History:
    """Arms that were pulled, and their rewards."""

    arm: IntArray  #: (T,) the arms that were pulled, from 0 to K − 1, in order
    reward: IntArray  #: (T,) 0 or 1
    n_arms: int  #: K

    @cached_property
    def pulls(self) -> IntArray:
        """(K,) How often each arm was pulled."""
        return np.bincount(self.arm, minlength=self.n_arms)

    @cached_property
    def mean(self) -> FloatArray:
        """(K,) Mean of each arm's Beta(1 + accepted, 1 + rejected) belief."""
        accepted = np.bincount(self.arm, self.reward, self.n_arms)
        return np.asarray((accepted + 1.0) / (self.pulls + 2.0))

    @property
    def best(self) -> int:
        """The arm of the largest mean belief, the answer of best-arm identification."""
        return int(np.argmax(self.mean))

    def regret(self, mu: Sequence[float] | FloatArray) -> FloatArray:
        """(T,) Cumulative regret of the pulls on arms whose rates were `mu` (Section 2.2)."""
        rate = np.asarray(mu, dtype=np.float64)
        return np.asarray(np.cumsum(rate.max() - rate[self.arm]))


@checks_keywords
def thompson_sampling(
    mu: Sequence[float] | FloatArray, budget: int, *, block: int = 1, rng: RNGLike = None
) -> History:
    """Thompson sampling on Bernoulli arms (Algorithm 5 without its top-two step).

    Parameters
    ----------
    mu : (K,) array_like
        Success rates, in [0, 1]; the rule does not see them.
    budget : int
        T, pulls, at least 1.
    block : int
        Pulls between two updates of the beliefs, at least 1; 1 is the paper.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness.

    Returns
    -------
    History
        Arms and rewards.

    Notes
    -----
    Draws are exact in law and O(log K), see `abctree.kernels.bandits`.

    Examples
    --------
    >>> from abctree import bandits
    >>> game = bandits.thompson_sampling([0.2, 0.5, 0.3], 1000, rng=1)
    >>> game.best
    1
    """
    return _played(games.RESAMPLE, mu, budget, 1.0, block, rng)


@checks_keywords
def top_two(
    mu: Sequence[float] | FloatArray,
    budget: int,
    *,
    b: float | Literal["adaptive"] = 0.5,
    challenger: Challenger = "resample",
    block: int = 1,
    rng: RNGLike = None,
) -> History:
    """Top-two Thompson sampling on Bernoulli arms (Algorithm 5, all lines; Russo 2016).

    Parameters
    ----------
    mu, budget, block, rng
        As for `thompson_sampling`.
    b : float or "adaptive"
        Probability of the best arm, in (0, 1].  "adaptive" is the share that the best arm deserves
        if the beliefs' means were the truth, worked out whenever the pulls have grown by a fifth
        (Russo 2016, 2020).
    challenger : {"resample", "transport"}
        The other arm: the winner of a later draw, or the one with the least evidence against it
        (T3C; Shang et al. 2020), which also ends a search of 30 draws.

    Returns
    -------
    History
        Arms and rewards.
    """
    check_rule("challenger", challenger, '"resample" or "transport"')
    rule = games.RESAMPLE if challenger == "resample" else games.TRANSPORT
    check_rule("b", b, 'in (0, 1] or "adaptive"', "Try 0.5.")
    return _played(rule, mu, budget, -1.0 if isinstance(b, str) else float(b), block, rng)


@checks_keywords
def ucb(
    mu: Sequence[float] | FloatArray, budget: int, *, scale: float = 1.0, rng: RNGLike = None
) -> History:
    """UCB1 on Bernoulli arms (Auer, Cesa-Bianchi and Fischer 2002).

    Every arm once, then the arm of the largest mean + scale · √(2 log t / n).  Arguments as for
    `thompson_sampling`; `scale` is at least 0, and 1 is UCB1.
    """
    check_rule("scale", scale, "at least 0", "UCB1 is 1.")
    return _played(games.UCB, mu, budget, float(scale), 1, rng)


@checks_keywords
def uniform(mu: Sequence[float] | FloatArray, budget: int, *, rng: RNGLike = None) -> History:
    """Arms drawn uniformly, as rejection does; arguments as for `thompson_sampling`."""
    return _played(games.UNIFORM, mu, budget, 1.0, 1, rng)


@checks_keywords
def identified(
    rule: str | Sequence[float] | FloatArray,
    mu: Sequence[float] | FloatArray,
    checkpoints: Sequence[int] | IntArray,
    n_games: int,
    *,
    block: int = 1,
    rng: RNGLike = None,
) -> IntArray:
    """Count the games, of many, that know the best arm after so many pulls.

    Parameters
    ----------
    rule : str or (K,) array_like
        "thompson", "top-two" (b = ½), "top-two-adaptive", "t3c" (b = ½), "ucb" or "uniform"; or
        fixed shares of the pulls, summing to one.
    mu : (K,) array_like
        Success rates; the largest is unique.
    checkpoints : (m,) array_like of int
        Numbers of pulls, increasing.
    n_games : int
        Games that are played.
    block, rng
        As for `thompson_sampling`.

    Returns
    -------
    (m,) array of int
        Games whose `History.best` is the best arm.
    """
    at = np.asarray(checkpoints, dtype=np.int64)
    if at.ndim != 1 or len(at) == 0 or at[0] < 1 or (np.diff(at) <= 0).any():
        raise wrong("checkpoints", "be increasing and at least 1", repr(checkpoints))
    rates = _rates(mu)
    number, share, weight = _rule(rule, len(rates))
    return games.right_answers(number, rates, share, block, weight, at, n_games, checked_rng(rng))


def _rule(rule: str | Sequence[float] | FloatArray, n_arms: int) -> tuple[int, float, FloatArray]:
    if isinstance(rule, str):
        if rule not in _RULES:
            raise wrong("rule", f"be one of {sorted(_RULES)}", repr(rule))
        return *_RULES[rule], np.zeros(n_arms)
    weight = np.asarray(rule, dtype=np.float64)
    if weight.shape != (n_arms,) or (weight < 0.0).any() or abs(weight.sum() - 1.0) > 1e-9:
        raise wrong("rule", f"be a name or {n_arms} shares that sum to one", repr(rule))
    return games.FIXED, 1.0, weight


def _played(
    rule: int,
    mu: Sequence[float] | FloatArray,
    budget: int,
    share: float,
    block: int,
    rng: RNGLike,
) -> History:
    rates = _rates(mu)
    for name, value in (("budget", budget), ("block", block)):
        check_rule(name, value, "a whole number of at least 1")
    arm, reward = np.empty(budget, dtype=np.int64), np.empty(budget, dtype=np.int64)
    none = np.zeros(len(rates))
    games.play_game(rule, rates, share, block, none, checked_rng(rng), arm, reward)
    return History(arm, reward, len(rates))


def _rates(mu: Sequence[float] | FloatArray) -> FloatArray:
    rates = np.asarray(mu, dtype=np.float64)
    if rates.ndim != 1 or len(rates) == 0 or not ((rates >= 0.0) & (rates <= 1.0)).all():
        raise wrong("mu", "be rates in [0, 1] of shape (K,)", repr(mu))
    return rates
