"""Thompson draws, compiled: which arm has the largest value, found by looking at few arms.

A Thompson draw needs the largest of K Beta variates, and which arm it belongs to.  Drawing all of
them costs O(K).  Here a level is fixed that about six arms are expected to exceed, and which arms
exceed it is drawn first: independent events of known probability, found in O(log K) each through a
Poisson process.  Only the values of those arms are drawn, from their laws above the level.  If no
arm exceeds the level all others are drawn below it.  The law is that of the plain draw, exactly up
to the rounding of the incomplete beta function.

An arm with ``alpha == 0`` is known to reject (value 0); with ``beta == 0``, to accept (value 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from abctree.kernels.beta import beta_above, beta_draw, beta_draw_above, beta_draw_below
from abctree.kernels.jit import jit
from abctree.kernels.transport import challenger
from abctree.types import FloatArray, IntArray

#: Below this number of arms all are drawn.
_PLAIN = 48
#: Arms that are expected to exceed the level, the sure ones not counted.
_WANTED = 6
#: Arms that exceed the level at least this often are drawn in full every time.
_SURE = 0.9
#: Draws in search of another arm than the first.
_RESAMPLES = 30


class Sampler(NamedTuple):
    """K beliefs about values ``weight · η``, and what makes a draw of the best arm cheap."""

    alpha: FloatArray  #: (K,)
    beta: FloatArray  #: (K,)
    weight: FloatArray  #: (K,) not negative
    above: FloatArray  #: (K,) probability of exceeding the level
    rate: FloatArray  #: (K,) of the arm's events in the Poisson process; -1 for a sure arm
    tree: FloatArray  #: (K + 1,) Fenwick tree of the rates
    sure: IntArray  #: (K,) arms that are drawn in full every time; the first ``n_sure`` count
    seen: IntArray  #: (K,) room for the arms that exceed the level
    level: FloatArray  #: (1,)
    total: FloatArray  #: (2,) of the rates: now, and when the level was chosen
    n_sure: IntArray  #: (1,)


@jit
def sampler(
    alpha: FloatArray, beta: FloatArray, weight: FloatArray, rng: np.random.Generator
) -> Sampler:
    """A sampler of beliefs (K,), (K,); it keeps these arrays, see `refresh`."""
    n = len(alpha)
    made = Sampler(
        alpha,
        beta,
        weight,
        np.zeros(n),
        np.zeros(n),
        np.zeros(n + 1),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(1),
        np.zeros(2),
        np.zeros(1, dtype=np.int64),
    )
    if n >= _PLAIN:
        _choose_level(made, rng)
    return made


@jit
def winner(s: Sampler, rng: np.random.Generator) -> int:
    """The arm of the largest value in one draw of all beliefs."""
    if len(s.alpha) < _PLAIN:
        return _plain_winner(s, rng)
    best, arm = -1.0, -1
    for i in range(s.n_sure[0]):
        k = s.sure[i]
        value = s.weight[k] * beta_draw(s.alpha[k], s.beta[k], rng)
        if value > best:
            best, arm = value, k
    n_seen = 0
    n_events = rng.poisson(s.total[0]) if s.total[0] > 0.0 else 0
    for _ in range(n_events):
        k = _find(s.tree, rng.random() * s.total[0])
        if s.rate[k] <= 0.0 or _is_among(k, s.seen, n_seen):
            continue
        s.seen[n_seen] = k
        n_seen += 1
        x = s.level[0] / s.weight[k]
        value = s.weight[k] * beta_draw_above(x, s.alpha[k], s.beta[k], s.above[k], rng)
        if value > best:
            best, arm = value, k
    if best > s.level[0] or (best == s.level[0] and n_seen > 0):
        return arm
    return _winner_below(s, best, arm, rng)


@jit(inner=True)
def _winner_below(s: Sampler, best: float, arm: int, rng: np.random.Generator) -> int:
    """The winner when nobody exceeds the level; `best` and `arm` are those of the sure arms."""
    for k in range(len(s.alpha)):
        if s.rate[k] >= 0.0:
            x = s.level[0] / s.weight[k] if s.weight[k] > 0.0 else 1.0
            value = s.weight[k] * beta_draw_below(x, s.alpha[k], s.beta[k], rng)
            if value > best:
                best, arm = value, k
    return arm


@jit
def other_winner(s: Sampler, first: int, rng: np.random.Generator) -> int:
    """Algorithm 3, line 11: draw again until another arm wins; after 30 draws, that of T3C.

    Which other arm wins has probabilities of about exp(−evidence that the first is better), and
    T3C takes the arm of the least evidence: the limit of what the draws would have given.
    """
    for _ in range(_RESAMPLES):
        arm = winner(s, rng)
        if arm != first:
            return arm
    return challenger(s.alpha, s.beta, s.weight, first)


@jit
def refresh(s: Sampler, k: int, rng: np.random.Generator) -> None:
    """Account for new beliefs about arm k; a new level when too few or too many arms exceed it."""
    if len(s.alpha) < _PLAIN:
        return
    x = s.level[0] / s.weight[k] if s.weight[k] > 0.0 else 1.0
    s.above[k] = beta_above(x, s.alpha[k], s.beta[k])
    if s.rate[k] >= 0.0:
        is_sure = s.above[k] > _SURE
        change = (0.0 if is_sure else -math.log1p(-s.above[k])) - s.rate[k]
        s.rate[k] += change
        s.total[0] = max(0.0, s.total[0] + change)
        _add(s.tree, k, change)
        if is_sure:
            s.rate[k] = -1.0
            s.sure[s.n_sure[0]] = k
            s.n_sure[0] += 1
    missed = math.exp(-s.total[0])
    for i in range(s.n_sure[0]):
        missed *= 1.0 - s.above[s.sure[i]]
    too_high = missed > 0.05 and s.total[0] < 0.5 * s.total[1]
    if too_high or s.total[0] > 2.0 * s.total[1] + 3.0 or s.n_sure[0] > 4 * _WANTED:
        _choose_level(s, rng)


@jit
def pulls(
    alpha: FloatArray,
    beta: FloatArray,
    weight: FloatArray,
    n: int,
    share: float,
    transport: bool,  # noqa: FBT001 - a kernel
    rng: np.random.Generator,
) -> IntArray:
    """n arms (n,) by Thompson sampling on fixed beliefs (K,), (K,) about values ``weight · η``.

    With probability `share` the winner of a draw; else another arm: the winner of a later draw, or,
    with `transport`, the arm that is hardest to tell from the winner.
    """
    s = sampler(alpha, beta, weight, rng)
    played = np.empty(n, dtype=np.int64)
    rival = np.full(len(alpha), -1, dtype=np.int64)
    for i in range(n):
        arm = winner(s, rng)
        if share < 1.0 and len(alpha) > 1 and rng.random() >= share:
            if not transport:
                arm = other_winner(s, arm, rng)
            else:
                if rival[arm] < 0:
                    rival[arm] = challenger(alpha, beta, weight, arm)
                arm = rival[arm]
        played[i] = arm
    return played


@jit(inner=True)
def _plain_winner(s: Sampler, rng: np.random.Generator) -> int:
    """The winner when all are drawn."""
    best, arm = -1.0, -1
    for k in range(len(s.alpha)):
        value = s.weight[k] * beta_draw(s.alpha[k], s.beta[k], rng)
        if value > best:
            best, arm = value, k
    return arm


@jit(inner=True)
def _choose_level(s: Sampler, rng: np.random.Generator) -> None:
    """Choose the level, and split the arms into sure ones and those in the Poisson process."""
    # The arm of the largest mean value, the first of several; 0 where nothing is known.
    leader = int(np.argmax(s.weight * s.alpha / np.maximum(s.alpha + s.beta, 1e-300)))
    level = _sixth(s, leader, rng)
    total, n_sure = 0.0, 0
    s.tree[:] = 0.0
    for k in range(len(s.alpha)):
        x = level / s.weight[k] if s.weight[k] > 0.0 else 1.0
        s.above[k] = beta_above(x, s.alpha[k], s.beta[k])
        if k == leader or s.above[k] > _SURE:
            s.sure[n_sure] = k
            n_sure += 1
            s.rate[k] = -1.0
        else:
            s.rate[k] = -math.log1p(-s.above[k])
            total += s.rate[k]
            s.tree[k + 1] = s.rate[k]
    for i in range(1, len(s.tree)):
        j = i + (i & (-i))
        if j < len(s.tree):
            s.tree[j] += s.tree[i]
    s.level[0], s.total[0], s.total[1], s.n_sure[0] = level, total, total, n_sure


@jit(inner=True)
def _sixth(s: Sampler, leader: int, rng: np.random.Generator) -> float:
    """The sixth largest value in one draw of all beliefs but that about the leader."""
    largest = np.full(_WANTED, -1.0)
    for k in range(len(s.alpha)):
        if k != leader:
            value = s.weight[k] * beta_draw(s.alpha[k], s.beta[k], rng)
            if value > largest[0]:
                i = 0
                while i + 1 < _WANTED and largest[i + 1] < value:
                    largest[i] = largest[i + 1]
                    i += 1
                largest[i] = value
    sixth: float = max(0.0, largest[0])
    return sixth


@jit(inner=True)
def _is_among(k: int, arms: IntArray, n: int) -> bool:
    found = False
    for i in range(n):
        found = found or arms[i] == k
    return found


@jit(inner=True)
def _add(tree: FloatArray, k: int, change: float) -> None:
    """Fenwick tree: add to entry k."""
    i = k + 1
    while i < len(tree):
        tree[i] += change
        i += i & (-i)


@jit(inner=True)
def _find(tree: FloatArray, target: float) -> int:
    """Fenwick tree: the entry at which the running sum passes the target."""
    n = len(tree) - 1
    step = 1
    while 2 * step <= n:
        step *= 2
    i = 0
    while step > 0:
        if i + step <= n and tree[i + step] <= target:
            i += step
            target -= tree[i]
        step //= 2
    return min(i, n - 1)
