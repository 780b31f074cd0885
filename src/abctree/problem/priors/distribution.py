"""`Distribution`: one face for the two kinds of scipy distribution."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from abctree.errors import ParameterError
from abctree.problem.priors.cube import HIGHEST, LOWEST
from abctree.types import FloatArray

_PROBES = (0.1, 0.5, 0.9)
#: How far quantiles are searched for, in how many steps at most, and to which share of themselves.
_FAR, _STEPS, _ROUNDING = 1e300, 200, 4e-16


@dataclass(frozen=True, eq=False)
class Distribution:
    """A univariate distribution: frozen ``scipy.stats.norm(0, 1)``, or ``scipy.stats.Normal()``.

    Known by what it can do, ``ppf`` or ``icdf`` beside ``cdf``, so anything alike is welcome.  Its
    functions are silent; the callers judge what comes back.
    """

    source: Any

    def __str__(self) -> str:
        return spelled(self.source)

    def __reduce__(self) -> tuple[type[Distribution], tuple[object]]:
        # scipy 1.17 silently pickles Normal(mu=1, sigma=2) inside a Mixture as a standard normal.
        twin = Distribution(pickle.loads(pickle.dumps(self.source)))  # noqa: S301  our own bytes
        if not np.array_equal(twin.ppf(_PROBES), self.ppf(_PROBES)):
            raise ParameterError(
                f"`prior` must survive pickling, but scipy makes another distribution of {self}. "
                "Use scipy.stats.norm instead of Normal, or do not send the prior to processes."
            )
        return Distribution, (self.source,)

    @property
    def dist(self) -> Any:
        """What a frozen distribution of scipy was made of; None for another kind."""
        return self.source.dist if hasattr(self.source, "dist") else None

    def ppf(self, u: object) -> FloatArray:
        """Quantiles."""
        if self._has_cdf_only:
            return self._searched(np.asarray(u, dtype=np.float64))
        quantile = self.source.ppf if hasattr(self.source, "ppf") else self.source.icdf
        with np.errstate(all="ignore"):
            return np.asarray(quantile(u), dtype=np.float64)

    @cached_property
    def _has_cdf_only(self) -> bool:
        """Whether scipy would search each quantile by itself, in milliseconds."""
        kind, general = type(self.dist), scipy.stats.rv_continuous
        is_ = {
            name: getattr(kind, name, None) is getattr(general, name) for name in ("_ppf", "_cdf")
        }
        return issubclass(kind, general) and is_["_ppf"] and not is_["_cdf"]

    def _searched(self, u: FloatArray) -> FloatArray:
        """Quantiles by Newton's method on all at once, within intervals that are halved else."""
        first, last = self.support
        found = np.where(u == 0.0, first, np.where(u == 1.0, last, np.nan))
        inside = (u > 0.0) & (u < 1.0)
        wanted = u[inside]
        least, most = wanted.min(initial=1.0), wanted.max(initial=0.0)
        low, high, step = max(first, -1.0), min(last, 1.0), 1.0
        while step < _FAR and not (self.cdf(low) <= least and self.cdf(high) >= most):
            step *= 2.0
            low, high = max(first, -step), min(last, step)
        below, above = np.full(wanted.shape, low), np.full(wanted.shape, high)
        x = 0.5 * (below + above)
        for _ in range(_STEPS):
            over = self.cdf(x) - wanted
            below, above = np.where(over < 0.0, x, below), np.where(over < 0.0, above, x)
            with np.errstate(all="ignore"):
                newton = x - over / self.source.pdf(x)
            is_within = (below < newton) & (newton < above)
            following = np.where(is_within, newton, 0.5 * (below + above))
            is_done = np.abs(following - x) <= _ROUNDING * np.abs(x)
            is_done |= np.abs(over) <= _ROUNDING * np.minimum(wanted, 1.0 - wanted)
            if is_done.all():
                break
            x = np.where(is_done, x, following)
        found[inside] = x
        return found

    def cdf(self, x: object) -> FloatArray:
        """Probabilities of at most x."""
        with np.errstate(all="ignore"):
            return np.asarray(self.source.cdf(x), dtype=np.float64)

    def mass(self, x: FloatArray) -> FloatArray:
        """The mass of an atom at x."""
        with np.errstate(all="ignore"):
            return np.asarray(self.source.pmf(x), dtype=np.float64)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log-density, or log-mass of a discrete law; nan if the source has neither."""
        method = getattr(self.source, "logpmf" if self.is_discrete else "logpdf", None)
        if method is None:
            return np.full(np.shape(x), np.nan)
        with np.errstate(all="ignore"):
            return np.asarray(method(x), dtype=np.float64)

    @cached_property
    def middle(self) -> float:
        """The median."""
        return float(self.ppf(0.5))

    @cached_property
    def support(self) -> tuple[float, float]:
        """The ends of the support, infinite ones too."""
        ends = self.source.support() if hasattr(self.source, "support") else self.ppf([0.0, 1.0])
        return float(ends[0]), float(ends[1])

    @property
    def finite_support(self) -> tuple[float, float]:
        """The ends of the support, or the largest floats."""
        largest = float(np.finfo(np.float64).max)
        return max(self.support[0], -largest), min(self.support[1], largest)

    def end(self, u: FloatArray, first: float = LOWEST, last: float = HIGHEST) -> FloatArray:
        """Quantiles at ends of boxes: at 0 and 1 the ends of the support, infinite ones too."""
        low, high = self.support
        x = np.clip(self.ppf(np.clip(u, first, last)), low, high)
        return np.where(u <= 0.0, low, np.where(u >= 1.0, high, x))

    @cached_property
    def is_discrete(self) -> bool:
        """Whether the median is an atom.

        New-style laws have a ``pdf`` and a ``pmf`` in any case; the pdf of an atom is inf.
        """
        if not hasattr(self.source, "pmf"):
            return False
        middle = np.array(self.middle)
        if hasattr(self.source, "pdf") and np.isfinite(self.source.pdf(middle)):
            return False
        return float(self.mass(middle)) > 0.0

    @cached_property
    def sums_its_cdf(self) -> bool:
        """Whether scipy would sum the cdf atom by atom, in memory that grows with the quantile."""
        kind = type(self.dist)
        return getattr(kind, "_cdf", None) is getattr(scipy.stats.rv_discrete, "_cdf", object())


def spelled(source: Any) -> str:
    """How a user would write a value of a prior; frozen scipy objects have no readable repr."""
    if hasattr(source, "icdf"):
        return str(source)
    if not (hasattr(source, "kwds") and hasattr(source, "dist") and hasattr(source.dist, "name")):
        return repr(source)
    words = [repr(a) for a in source.args] + [f"{k}={v!r}" for k, v in source.kwds.items()]
    return f"{source.dist.name}({', '.join(words)})"
