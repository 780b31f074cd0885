"""Ridge regression, and what a regression of the user's own must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.special import fdtri

from abctree.data import effective_sample_size
from abctree.numbers import unit_of
from abctree.types import BoolArray, FloatArray

#: Penalties that cross-validation chooses from, on summaries of unit spread.
_PENALTIES = 10.0 ** np.arange(-6.0, 2.25, 0.5)
#: That of plain least squares: dependent summaries get the smallest slopes.
LEAST_SQUARES = 1e-8
_TINY = np.finfo(float).tiny  # asking takes longer than a sum over the axes
#: Eigenvalues below this share of the largest count as dependent summaries.
_DEPENDENT = 1e-10
#: Columns whose spread is below this share of their mean may be one value, but for rounding.
_ROUNDING = 1e-6
#: Of the rows at least this share counts as left over by a fit, however many slopes it has.
_LEAST_FREE = 0.1
#: Slopes that noise alone has in this share of tables are left out, where that can be told from
#: slopes that explain so much of a response.
_DOUBT, _LITTLE = 0.01, 0.02


class Fitted(NamedTuple):
    """What a regression says of responses (m, k)."""

    there: FloatArray  #: (m, k) at the rows
    at_observation: FloatArray  #: (k,), or (m, k) if what is said depends on the row
    widening: FloatArray  #: as many, the error of a new response there over the rows' residuals


@runtime_checkable
class Regressor(Protocol):
    """A regression with the interface of scikit-learn."""

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray = ...) -> object:  # noqa: N803
        """Learn y (m,) from X (m, q)."""

    def predict(self, X: FloatArray) -> FloatArray:  # noqa: N803
        """Say y (n,) at X (n, q)."""


@dataclass(frozen=True, eq=False)
class Line:
    """A linear function of summaries."""

    level: FloatArray  #: (k,)
    slope: FloatArray  #: (q, k)

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, q) -> (n, k)."""
        return np.asarray(self.level + x @ self.slope)


class Ridge:
    """Weighted ridge regression on x (m, q), to be read off at x = 0.

    The penalty of each response is the one of `_PENALTIES` with the least generalised
    cross-validation score (Golub, Heath and Wahba 1979), with the effective sample size of the
    weights as the number of rows, among those that fit fewer parameters than there are rows; or it
    is given.
    """

    def __init__(self, x: FloatArray, weight: FloatArray, penalty: float | None = None) -> None:
        self.weight = weight / weight.sum()
        self.n = effective_sample_size(weight)
        self.penalty = penalty
        self.root = np.sqrt(self.weight)[:, None]
        self.unit = unit_of(x)  # in which all columns can be squared
        x = x / self.unit
        mean = self.weight @ x
        centred = x - mean
        centred *= self.root
        square = centred.T @ centred
        scale = np.sqrt(square.diagonal())
        used = self.used = scale > 0.0
        unclear = used & (scale < _ROUNDING * np.abs(mean))
        used[unclear] = varies(x[:, unclear])
        if not used.all():
            x, centred, square = x[:, used], centred[:, used], square[np.ix_(used, used)]
        self.x, self.centred, self.mean, self.scale = x, centred, mean[used], scale[used]
        # The columns count as if they had unit spread.
        value, self.vector = np.linalg.eigh(square / self.scale / self.scale[:, None])
        self.value = np.maximum(value, 0.0)

    def __call__(self, y: FloatArray) -> Fitted:
        """Fit y (m, k)."""
        mean, slope, penalty = self._line(y, doubt=True)
        at_zero = mean - self.mean @ slope
        return Fitted(at_zero + self.x @ slope, at_zero, self._widening(penalty))

    def _widening(self, penalty: FloatArray) -> FloatArray:
        """(k,) √((1 + h) / (1 − p / n)): rows are nearer to a fit to them than new responses are.

        Of n rows p parameters were fitted, and the fit at x = 0 has the variance h of a response.
        """
        value = self.value[:, None]
        kept = value / (value + penalty)
        away = self.vector.T @ (self.mean / self.scale)
        leverage = (1.0 + away**2 @ (kept / (value + penalty))) / self.n
        free = 1.0 - (1.0 + (kept * (2.0 - kept)).sum(axis=0)) / self.n
        return np.asarray(np.sqrt((1.0 + leverage) / np.maximum(free, _LEAST_FREE)))

    def pull(self, y: FloatArray) -> FloatArray:
        """(m, k) How far each row moves the fit to y at x = 0, over how far it moves the mean."""
        penalty = self._line(y, doubt=True)[2]
        away = self.vector.T @ (self.mean / self.scale)
        along = ((self.x - self.mean) / self.scale) @ self.vector
        return np.asarray(1.0 - along @ (away[:, None] / (self.value[:, None] + penalty)))

    def _line(
        self, y: FloatArray, *, doubt: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The mean (k,) of y (m, k), slopes on the columns that vary, and penalties (k,).

        Of few summaries cross-validation takes slopes that are noise in one table of six.  Over two
        modes far apart they are large beside the width of a mode, and moving draws by them blurs
        it: with `doubt`, slopes are 0 where an F test of all summaries says nothing.
        """
        mean = self.weight @ y
        centred = y - mean
        moment = self._moment(centred)
        penalty = np.full(y.shape[1], self.penalty or 0.0)
        if self.penalty is None:
            total = self.weight @ centred**2
            penalty = self._chosen(moment, total)
            if doubt:
                penalty = np.where(self._speaks(moment, total), penalty, np.inf)
        slope = self.vector @ (moment / (self.value[:, None] + penalty))
        return mean, slope / self.scale[:, None], penalty

    def _moment(self, centred: FloatArray) -> FloatArray:
        """(r, k) Moments of responses (m, k) with the principal axes."""
        moment = self.centred.T @ (self.root * centred)
        return np.asarray(self.vector.T @ (moment / self.scale[:, None]))

    def line(self, y: FloatArray) -> Line:
        """The regression of y (m, k), to be read off anywhere."""
        mean, slope, _ = self._line(y)
        whole = np.zeros((len(self.used), y.shape[1]))
        whole[self.used] = slope / self.unit[self.used, None]
        return Line(mean - self.mean @ slope, whole)

    def drops(self, y: FloatArray) -> FloatArray:
        """(q,) The largest share of the variance of a column of y that one summary alone explains.

        That is what a least-squares fit to all summaries explains, and one without it does not.
        """
        mean = self.weight @ y
        total = self.weight @ (y - mean) ** 2
        moment = self._moment(y - mean)
        inverse = 1.0 / (self.value + LEAST_SQUARES)
        slope = self.vector @ (inverse[:, None] * moment)
        alone = self.vector**2 @ inverse
        share = slope**2 / alone[:, None] / np.where(total > 0.0, total, 1.0)
        out = np.zeros(len(self.used))
        out[self.used] = share.max(axis=1, initial=0.0)
        return out

    @property
    def _independent(self) -> BoolArray:
        """(r,) The axes along which summaries differ."""
        return np.asarray(self.value > _DEPENDENT * self.value.max(initial=0.0))

    @property
    def rank(self) -> int:
        """How many of the summaries are linearly independent."""
        return int(self._independent.sum())

    def _speaks(self, moment: FloatArray, total: FloatArray) -> BoolArray:
        """(k,) Whether slopes explain more of a response than noise would, or than can be told.

        Moments are (r, k) and sums of squares (k,).
        """
        used = self._independent
        rank, free = self.rank, self.n - 1.0 - self.rank
        of_noise = fdtri(rank, free, 1.0 - _DOUBT) * rank / free if 0 < rank < free else 1.0
        if of_noise > _LITTLE:
            return np.ones(len(total), dtype=bool)
        explained = (moment[used] ** 2 / self.value[used, None]).sum(axis=0)
        return np.asarray(explained > of_noise * (total - explained))

    def _chosen(self, moment: FloatArray, total: FloatArray) -> FloatArray:
        """(k,) The penalties, from moments (q, k) and sums of squares (k,)."""
        kept = self.value / (self.value + _PENALTIES[:, None])  # (penalties, q)
        gain = kept * (2.0 - kept) / np.maximum(self.value, _TINY)
        left = total - gain @ moment**2
        free = 1.0 - (kept.sum(axis=1) + 1.0) / self.n
        possible = free > 0.0
        possible[-1] = True  # the largest, where there is none
        score = left[possible] / np.square(free[possible, None])
        return np.asarray(_PENALTIES[possible][np.argmin(score, axis=0)])


def varies(columns: FloatArray) -> BoolArray:
    """Find the columns of (m, k) that are not one value: (k,)."""
    if len(columns) == 0:
        return np.zeros(columns.shape[1], dtype=bool)
    return np.asarray(columns.max(axis=0) > columns.min(axis=0))
