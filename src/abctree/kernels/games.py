"""Bandit games on Bernoulli arms, compiled: one game at a time, and many to be judged.

Games write the arms that they pull and the rewards into arrays that are given, so that thousands
of them need no more memory than one.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.bandits import other_winner, refresh, sampler, winner
from abctree.kernels.jit import jit
from abctree.kernels.transport import challenger, optimal_share
from abctree.types import FloatArray, IntArray

#: Rules of play.
UNIFORM, UCB, RESAMPLE, TRANSPORT, FIXED = 0, 1, 2, 3, 4
#: Arms that are looked at for an adaptive share.
_CONTENDERS = 256


@jit
def play_game(
    rule: int,
    mu: FloatArray,
    share: float,
    block: int,
    weight: FloatArray,
    rng: np.random.Generator,
    pulled: IntArray,
    reward: IntArray,
) -> None:
    """One game on arms of rates mu (K,): fills `pulled` and `reward` (T,).

    The rule is UNIFORM; UCB, of scale `share`; Thompson sampling that looks for a second arm by
    RESAMPLE or TRANSPORT with probability 1 - `share` (negative: adaptive), and updates its beliefs
    after each `block`; or FIXED, with probabilities `weight` (K,), at which no other looks.
    """
    if rule == UNIFORM:
        _uniform(mu, rng, pulled, reward)
    elif rule == UCB:
        _ucb(mu, share, rng, pulled, reward)
    elif rule == FIXED:
        _fixed(mu, weight, rng, pulled, reward)
    else:
        _thompson(mu, share, rule == TRANSPORT, block, rng, pulled, reward)


@jit(inner=True)
def _thompson(
    mu: FloatArray,
    share: float,
    transport: bool,  # noqa: FBT001 - a kernel
    block: int,
    rng: np.random.Generator,
    pulled: IntArray,
    reward: IntArray,
) -> None:
    """Algorithm 5; a negative share is worked out whenever the pulls have grown by a fifth."""
    n_arms, budget = len(mu), len(pulled)
    s = sampler(np.ones(n_arms), np.ones(n_arms), np.ones(n_arms), rng)  # line 1
    adaptive = share < 0.0
    share, next_share, told = 0.5 if adaptive else share, 2 * n_arms, 0
    for t in range(budget):  # line 2
        if adaptive and t >= next_share:
            share = optimal_share(s.alpha, s.beta, s.weight, _CONTENDERS)
            next_share = t + 1 + t // 5
        arm = winner(s, rng)  # lines 3 to 5
        if share < 1.0 and n_arms > 1 and rng.random() >= share:  # lines 6 to 9
            if transport:
                arm = challenger(s.alpha, s.beta, s.weight, arm)
            else:
                arm = other_winner(s, arm, rng)
        pulled[t], reward[t] = arm, _reward(mu[arm], rng)  # line 10
        if t + 1 - told >= block:
            for i in range(told, t + 1):  # line 11
                s.alpha[pulled[i]] += reward[i]
                s.beta[pulled[i]] += 1 - reward[i]
                refresh(s, pulled[i], rng)
            told = t + 1


@jit(inner=True)
def _ucb(
    mu: FloatArray, scale: float, rng: np.random.Generator, pulled: IntArray, reward: IntArray
) -> None:
    """UCB1 (Auer, Cesa-Bianchi and Fischer 2002).

    Every arm once, then the arm of the largest mean + scale · √(2 log t / n).
    """
    n_arms = len(mu)
    count, total = np.zeros(n_arms), np.zeros(n_arms)
    for t in range(len(pulled)):
        arm = t
        if t >= n_arms:
            width = 2.0 * math.log(t)
            best = -1.0
            for k in range(n_arms):
                index = total[k] / count[k] + scale * math.sqrt(width / count[k])
                if index > best:
                    best, arm = index, k
        pulled[t], reward[t] = arm, _reward(mu[arm], rng)
        count[arm] += 1.0
        total[arm] += reward[t]


@jit(inner=True)
def _uniform(mu: FloatArray, rng: np.random.Generator, pulled: IntArray, reward: IntArray) -> None:
    """Arms drawn uniformly: rejection."""
    for t in range(len(pulled)):
        pulled[t] = rng.integers(0, len(mu))
        reward[t] = _reward(mu[pulled[t]], rng)


@jit(inner=True)
def _fixed(
    mu: FloatArray,
    weight: FloatArray,
    rng: np.random.Generator,
    pulled: IntArray,
    reward: IntArray,
) -> None:
    """The arm that is farthest behind its share; the first of several."""
    count = np.zeros(len(mu))
    for t in range(len(pulled)):
        arm = np.argmax(weight * (t + 1.0) - count)
        count[arm] += 1.0
        pulled[t], reward[t] = arm, _reward(mu[arm], rng)


@jit(inner=True)
def _reward(rate: float, rng: np.random.Generator) -> int:
    return 1 if rng.random() < rate else 0


@jit
def right_answers(
    rule: int,
    mu: FloatArray,
    share: float,
    block: int,
    weight: FloatArray,
    checkpoints: IntArray,
    n_games: int,
    rng: np.random.Generator,
) -> IntArray:
    """Games (len(checkpoints),) in which the best arm has the largest mean belief after n pulls.

    Beliefs are Beta(1, 1) before the first pull; of several largest the first counts.
    `checkpoints` are numbers of pulls, increasing; other arguments as for `play_game`.
    """
    best = np.argmax(mu)
    right = np.zeros(len(checkpoints), dtype=np.int64)
    pulled = np.empty(checkpoints[-1], dtype=np.int64)
    reward = np.empty(checkpoints[-1], dtype=np.int64)
    for _ in range(n_games):
        play_game(rule, mu, share, block, weight, rng, pulled, reward)
        accepted, count = np.ones(len(mu)), np.full(len(mu), 2.0)
        t = 0
        for i in range(len(checkpoints)):
            while t < checkpoints[i]:
                accepted[pulled[t]] += reward[t]
                count[pulled[t]] += 1.0
                t += 1
            if np.argmax(accepted / count) == best:
                right[i] += 1
    return right
