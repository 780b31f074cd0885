"""Regressions of parameters on summaries, with weights, read off at the observation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import numpy as np

from abctree.answers.reading.modes import ByMode
from abctree.errors import ParameterError, warn
from abctree.problem.ridge import LEAST_SQUARES, Fitted, Regressor, Ridge
from abctree.types import FloatArray, IntArray

Regression = Callable[[FloatArray], Fitted]

#: The scale of one residual is changed by at most exp(1.5).
_LARGEST_CHANGE = 1.5
#: The square of a residual where all are 0, as of rows that are copies of one.
_TINY = np.finfo(float).tiny

Method = Literal["ridge", "heteroscedastic", "linear"]


def _of_user(regressor: Regressor, x: FloatArray, weight: FloatArray) -> Regression:
    def fitted(y: FloatArray) -> Fitted:
        columns = []
        for response in y.T:
            own = copy.deepcopy(regressor)
            own.fit(x, response, sample_weight=weight)
            columns.append(own.predict(np.vstack([x, np.zeros(x.shape[1])])))
        both = np.column_stack(columns)
        return Fitted(both[:-1], both[-1], np.ones(both.shape[1]))

    return fitted


def regression(
    x: FloatArray, weight: FloatArray, method: Method | Regressor, mode: IntArray | None = None
) -> Regression:
    """The regression on x (m, q), with positive weights (m,), that a method moves draws by.

    "linear" is least squares, with a warning if the summaries are linearly dependent: a ridge of
    1e-8 then chooses the smallest slopes.  The others are one ridge regression, or one for each
    mode, if numbers of these are given (m,).
    """
    check_method(method)
    if not isinstance(method, str):  # cheaper to ask than whether it is a regressor
        return _of_user(method, x, weight)
    if method != "linear":
        return Ridge(x, weight) if mode is None else ByMode(x, weight, mode)
    fit = Ridge(x, weight, LEAST_SQUARES)
    if fit.rank < len(fit.value):
        warn(
            f"The {len(fit.value)} summaries of the accepted draws are linearly dependent (rank "
            f"{fit.rank}): the regression uses the smallest slopes that fit. Drop summaries that "
            'are combinations of others, or use method="ridge".'
        )
    return fit


def moved(
    z: FloatArray, fit: Regression, method: Method | Regressor, fitted: Fitted | None = None
) -> FloatArray:
    """Draws z (m, k) moved to where a regression says that they would be at x = 0.

    Residuals are widened by what a fit to few rows hides; those of "linear", the textbook's, are
    not.  "heteroscedastic" fits the logarithms of the squared residuals too, and scales residuals
    as they say.  What is `fitted` to z need not be worked out again.
    """
    there, at_observation, widening = fitted or fit(z)
    residual = z - there
    if method != "linear":
        residual *= widening
    if method == "heteroscedastic":
        square = residual**2
        size, size_there, _ = fit(np.log(square + 1e-12 * square.mean(axis=0) + _TINY))
        change = np.clip((size_there - size) / 2.0, -_LARGEST_CHANGE, _LARGEST_CHANGE)
        residual *= np.exp(change)
    return np.asarray(at_observation + residual)


def check_method(method: object) -> None:
    """Refuse what is no way to adjust draws."""
    if method not in ("ridge", "heteroscedastic", "linear") and not isinstance(method, Regressor):
        raise ParameterError(
            '`method` must be "ridge", "heteroscedastic", "linear" or a regressor with fit and '
            f"predict, as those of scikit-learn, but got {method!r}."
        )
