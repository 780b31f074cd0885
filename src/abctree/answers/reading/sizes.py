"""How many of the rows nearest to the observation a reading takes."""

from __future__ import annotations

import numpy as np

from abctree.types import FloatArray

#: A reading must leave rows outside of it, of which the nearest ends it.
_LARGEST_SHARE, _FEWEST_TIMES = 0.7, 2.5
#: An adjustment wants more draws than an unadjusted answer: it removes most of what ε adds.  They
#: are a share of the simulations, within bounds, and of few simulations twice as large a share.
_SHARE, _AT_LEAST, _AT_MOST = 0.1, 300.0, 3000.0
#: They are up to so many times as many where proposals crowded around the observation, so that the
#: nearest rows are worth less than a share of their number, and as long as farther ones are worth
#: enough: the effective sample size grows at least as this power of their number.
_AT_MOST_TIMES, _EVEN, _GROWS = 2.0, 0.7, 0.5
#: Each look is at so many times the effective sample size of the last.
_STEP = 1.07


def count_for(reached: FloatArray, ess: float) -> int:
    """How many of the nearest rows are read: enough, or those worth most, but for one at least.

    Of the first 1, 2, ... rows the effective sample sizes `reached` (n,) are given.
    """
    enough = np.flatnonzero(reached >= ess)
    last = int(enough[0]) if len(enough) else int(np.argmax(reached))
    return min(last + 1, len(reached) - 1)


def largest_ess(reached: FloatArray) -> float:
    """The largest effective sample size that a reading may have."""
    # Of the nearest: the farthest may be so heavy that all rows together are worth less.
    return min(_LARGEST_SHARE * float(reached.max(initial=0.0)), len(reached) / _FEWEST_TIMES)


def usual_ess(reached: FloatArray, n_simulations: int) -> float:
    """That of an adjustment, by the number of simulations alone: a share of them."""
    share = _SHARE * n_simulations
    wanted = np.clip(share, min(_AT_LEAST, 2.0 * share), _AT_MOST)
    return min(float(wanted), largest_ess(reached))


def larger_ess(reached: FloatArray, ess: float) -> float:
    """An effective sample size (> 0), or a larger one where farther rows are worth their ε.

    Draws of the prior are worth as much near the observation as far from it, and more of them are
    farther away.  Where a run crowded its simulations around the observation, more of them add
    little to ε.
    """
    most = min(_AT_MOST_TIMES * ess, _AT_MOST, largest_ess(reached))
    while (more := _STEP * ess) <= most:
        n, farther = count_for(reached, ess), count_for(reached, more)
        if ess > _EVEN * n or np.log(_STEP) < _GROWS * np.log(farther / n):
            break
        ess = more
    return ess
