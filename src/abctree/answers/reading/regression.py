"""Regressions of parameters on summaries, with weights, read off at the observation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from abctree.answers.scores import varies
from abctree.data import effective_sample_size
from abctree.errors import ParameterError, warn
from abctree.types import FloatArray

#: Fitted values (m, k), and those at the observation (k,), of responses (m, k).
Fitted = tuple[FloatArray, FloatArray]
Regression = Callable[[FloatArray], Fitted]

#: Penalties that cross-validation chooses from, on summaries of unit spread.
_PENALTIES = 10.0 ** np.arange(-6.0, 2.25, 0.5)
#: That of plain least squares: dependent summaries get the smallest slopes.
_LEAST_SQUARES = 1e-8
#: The scale of one residual is changed by at most exp(1.5).
_LARGEST_CHANGE = 1.5


@runtime_checkable
class Regressor(Protocol):
    """A regression with the interface of scikit-learn."""

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray) -> object:  # noqa: N803
        """Learn y (m,) from X (m, q)."""

    def predict(self, X: FloatArray) -> FloatArray:  # noqa: N803
        """Say y (n,) at X (n, q)."""


Method = Literal["ridge", "heteroscedastic", "linear"]


#: Eigenvalues below this share of the largest count as dependent summaries.
_DEPENDENT = 1e-10


class Ridge:
    """Weighted ridge regression on x (m, q), to be read off at x = 0.

    The penalty of each response is the one of `_PENALTIES` with the least generalised
    cross-validation score (Golub, Heath and Wahba 1979), with the effective sample size of the
    weights as the number of rows; or it is given.
    """

    def __init__(self, x: FloatArray, weight: FloatArray, penalty: float | None = None) -> None:
        self.weight = weight / weight.sum()
        self.n = effective_sample_size(weight)
        self.penalty = penalty
        mean = self.weight @ x
        centred = x - mean
        scale = np.sqrt(self.weight @ centred**2)
        used = self.used = varies(x) & (scale > 0.0)
        self.x = centred[:, used] / scale[used]
        self.at_zero = -mean[used] / scale[used]
        value, self.vector = np.linalg.eigh((self.x * self.weight[:, None]).T @ self.x)
        self.value = np.maximum(value, 0.0)

    def __call__(self, y: FloatArray) -> Fitted:
        """Fitted values (m, k) of y (m, k), and those at x = 0 (k,)."""
        mean = self.weight @ y
        centred = y - mean
        moment = self.vector.T @ (self.x.T @ (self.weight[:, None] * centred))
        penalty = np.full(y.shape[1], self.penalty or 0.0)
        if self.penalty is None:
            penalty = self._chosen(moment, self.weight @ centred**2)
        slope = self.vector @ (moment / (self.value[:, None] + penalty))
        return mean + self.x @ slope, mean + self.at_zero @ slope

    def drops(self, y: FloatArray) -> FloatArray:
        """(q,) The largest share of the variance of a column of y that one summary alone explains.

        That is what a least-squares fit to all summaries explains, and one without it does not.
        """
        mean = self.weight @ y
        total = self.weight @ (y - mean) ** 2
        moment = self.vector.T @ (self.x.T @ (self.weight[:, None] * (y - mean)))
        inverse = 1.0 / (self.value + _LEAST_SQUARES)
        slope = self.vector @ (inverse[:, None] * moment)
        alone = self.vector**2 @ inverse
        share = slope**2 / alone[:, None] / np.where(total > 0.0, total, 1.0)
        out = np.zeros(len(self.used))
        out[self.used] = share.max(axis=1, initial=0.0)
        return out

    @property
    def rank(self) -> int:
        """How many of the summaries are linearly independent."""
        return int((self.value > _DEPENDENT * self.value.max(initial=0.0)).sum())

    def _chosen(self, moment: FloatArray, total: FloatArray) -> FloatArray:
        """(k,) The penalties, from moments (q, k) and sums of squares (k,)."""
        kept = self.value / (self.value + _PENALTIES[:, None])  # (penalties, q)
        gain = kept * (2.0 - kept) / np.maximum(self.value, np.finfo(float).tiny)
        left = total - gain @ moment**2
        free = np.maximum(1.0 - (kept.sum(axis=1) + 1.0) / self.n, 1e-3)
        score: FloatArray = left / free[:, None] ** 2
        return np.asarray(_PENALTIES[np.argmin(score, axis=0)])


def _of_user(regressor: Regressor, x: FloatArray, weight: FloatArray) -> Regression:
    def fitted(y: FloatArray) -> Fitted:
        columns = []
        for response in y.T:
            own = copy.deepcopy(regressor)
            own.fit(x, response, sample_weight=weight)
            columns.append(own.predict(np.vstack([x, np.zeros(x.shape[1])])))
        both = np.column_stack(columns)
        return both[:-1], both[-1]

    return fitted


def regression(x: FloatArray, weight: FloatArray, method: Method | Regressor) -> Regression:
    """The regression on x (m, q), with positive weights (m,), that a method moves draws by.

    Parameters
    ----------
    x : (m, q) array
        Differences of the summaries to the observed ones.
    weight : (m,) array
        Positive weights.
    method : {"ridge", "heteroscedastic", "linear"} or Regressor
        "linear" is least squares; the other names are one ridge regression.

    Raises
    ------
    ParameterError
        If the method is unknown.

    Warns
    -----
    AbctreeWarning
        If the summaries of "linear" are linearly dependent.
    """
    if isinstance(method, Regressor):
        return _of_user(method, x, weight)
    check_method(method)
    if method != "linear":
        return Ridge(x, weight)
    fit = Ridge(x, weight, _LEAST_SQUARES)
    if fit.rank < len(fit.value):
        warn(
            f"The {len(fit.value)} summaries of the accepted draws are linearly dependent (rank "
            f"{fit.rank}): the regression uses the smallest slopes that fit. Drop summaries that "
            'are combinations of others, or use method="ridge".'
        )
    return fit


def moved(z: FloatArray, fit: Regression, method: Method | Regressor) -> FloatArray:
    """Draws z (m, k) moved to where a regression says that they would be at x = 0.

    "heteroscedastic" fits the logarithms of the squared residuals too, and scales residuals as they
    say.
    """
    fitted, at_observation = fit(z)
    residual = z - fitted
    if method == "heteroscedastic":
        square = residual**2
        size, size_there = fit(np.log(square + 1e-12 * square.mean(axis=0)))
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
