"""`Learned`: summaries that the pilot teaches, one for each dimension of the prior."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from abctree.errors import SimulatorError, wrong
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.problem.distance_arithmetic import flat
from abctree.problem.distances import lacks_scale, standardised
from abctree.problem.priors.cube import inside
from abctree.problem.ridge import Regressor, Ridge
from abctree.protocols import Distance
from abctree.types import FloatArray, SummaryFunction

#: Simulations of the pilot for each number that is learned from, by default, and at least.
_FOR_EACH, _LEAST = 10, 500


@checks_keywords
@dataclass(frozen=True, eq=False)
class Learned:
    """Summaries learned from the pilot, as the `summary` of a `Problem`.

    A regression of the parameters on what the simulator returns makes one summary of each dimension
    of the prior: semi-automatic ABC (Fearnhead and Prangle 2012).  It is fitted to the pilot, whose
    simulations count in the budget, and then stays as it is.  The distance is that of the learned
    summaries; the table keeps the numbers that they are made of.

    Parameters
    ----------
    regressor : object, optional
        With ``fit(X, y)`` and ``predict(X)``, as those of scikit-learn; one is fitted for each
        dimension, with ``random_state`` 0 where it has none.  Default: ridge regression with its
        penalty by generalised cross-validation.
    n_pilot : int, optional
        Simulations of the pilot.  Default: ten for each number that is learned from, but at least
        500, and at most a fifth of the budget.
    features : callable, optional
        ``data -> (q,)``, or vectorised, ``(n, ...) -> (n, q)``: what is learned from.  Default: all
        numbers that the simulator returns.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.

    Notes
    -----
    What is regressed are the scores Φ⁻¹(u), u the place in the unit cube.  A regression over the
    whole prior knows the trend, not the bends: a few good summaries of your own are often better.

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return rng.normal(theta[0], 1.0, size=40)
    >>> problem = abctree.Problem(
    ...     {"mu": (-5, 5)}, simulate, [1.0] * 40, summary=abctree.Learned(n_pilot=200)
    ... )
    >>> result = abctree.abc_tree(problem, n_simulations=1000, rng=1)
    >>> result.problem.distance.learned(result.problem.observed_summary[None]).shape
    (1, 1)
    """

    regressor: Regressor | None = None
    n_pilot: int | None = ruled(None, "a whole number of at least 10 or None")
    features: SummaryFunction | None = None

    def __post_init__(self) -> None:
        given: object = self.regressor
        if given is not None and not isinstance(given, Regressor):
            rule = "have fit(X, y) and predict(X), as those of scikit-learn"
            raise wrong("regressor", rule, repr(given))

    def length_of_pilot(self, n_numbers: int, n_simulations: int) -> int:
        """Simulations of the pilot of a run."""
        if self.n_pilot is not None:
            return self.n_pilot
        return min(max(_FOR_EACH * n_numbers, _LEAST), n_simulations // 5)

    def taught(self, x: FloatArray, cube: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """The map from numbers (n, q) to summaries (n, d), from rows (m, q) at places (m, d)."""
        z = ndtri(inside(cube))
        if self.regressor is None:
            return Ridge(x, np.ones(len(x))).line(z)
        fitted = []
        for response in z.T:
            own = copy.deepcopy(self.regressor)
            if vars(own).get("random_state", 0) is None:
                vars(own)["random_state"] = 0
            own.fit(x, response)
            fitted.append(own)
        return partial(_predicted, fitted)


def _predicted(regressors: Sequence[Regressor], x: FloatArray) -> FloatArray:
    """(n, d) A summary by each regressor, which may be pickled."""
    return np.column_stack([np.ravel(regressor.predict(x)) for regressor in regressors])


@dataclass(frozen=True, eq=False)
class LearnedSummaries:
    """The distance of learned summaries."""

    how: Learned
    distance: Distance  #: between the learned summaries
    map: Callable[[FloatArray], FloatArray] | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether the pilot has taught it."""
        return self.map is not None

    def fitted(self, simulated: FloatArray) -> Distance:
        """Nothing but a `SimulatorError`: it learns from parameters, too."""
        raise SimulatorError(
            f"Learned summaries must be taught by parameters, but got {len(simulated)} summaries "
            "alone. Use `taught`."
        )

    def taught(self, simulated: FloatArray, cube: FloatArray) -> LearnedSummaries:
        """The distance as the simulations (m, ...) at places (m, d) of the cube teach it."""
        rows = flat(simulated)
        own = replace(self, map=self.how.taught(rows, cube))
        if lacks_scale(self.distance):
            own = replace(own, distance=self.distance.fitted(own.learned(rows)))
        return own

    def learned(self, simulated: FloatArray) -> FloatArray:
        """(n, d) The learned summaries of what was simulated (n, ...)."""
        if self.map is None:
            raise SimulatorError("Learned summaries must be taught by a pilot before use.")
        rows = flat(simulated)
        usable = np.isfinite(rows).all(axis=1)
        own = self.map(rows[usable]) if usable.any() else np.empty((0, 0))
        out = np.full((len(simulated), own.shape[1]), np.nan)
        out[usable] = own
        return out

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        return self.distance(self.learned(simulated), self.learned(observed[None])[0])

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray | None:
        """Differences (n, m) whose norm is the distance; None if it is no such norm."""
        target = self.learned(observed[None])[0]
        return standardised(self.distance, self.learned(simulated), target)
