"""Discrete laws of scipy: tables where they fit in memory, quantile functions where not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from abctree.errors import ParameterError
from abctree.problem.priors.block import Block
from abctree.problem.priors.cube import LOWEST, inside
from abctree.problem.priors.discrete import Atoms, n_atoms
from abctree.problem.priors.law import Law
from abctree.types import FloatArray

#: A law with more atoms than this on one side of its median is not tabulated.
TABLE = 2**16

# The table of an infinite tail reaches twice as far from the median as all but this mass.
_TAIL = 1e-12


def discrete(label: str, law: Law) -> Block:
    """The block of a discrete law."""
    listed = _listed(law)
    if listed is not None:
        return listed
    first, last = _below(law), _above(law)
    if first is not None and last is not None:
        value = np.arange(first, last + 1.0)
        return Atoms.of(value, law.mass(value), law.support)
    if law.sums_its_cdf:
        raise ParameterError(
            f"`{label}` must have light tails or a cdf in closed form, but got {law}. "
            "Truncate it, for instance with a Categorical."
        )
    return Lattice(law)


def _listed(law: Law) -> Atoms | None:
    """The table of ``rv_discrete(values=(x, p))``, whose atoms need not be integers."""
    source = law.dist
    if source is None or not (hasattr(source, "xk") and hasattr(source, "pk")):
        return None
    value = np.asarray(source.xk, dtype=np.float64)
    shift = law.support[0] - value[0]
    return Atoms.of(value + shift, np.asarray(source.pk, dtype=np.float64))


def _below(law: Law) -> float | None:
    low = law.support[0]
    if law.middle - low <= TABLE:
        return low
    reach = _reach()
    enough = np.flatnonzero(law.cdf(law.middle - reach) < LOWEST)
    return float(law.middle - reach[enough[0]]) if len(enough) else None


def _above(law: Law) -> float | None:
    high = law.support[1]
    if high - law.middle <= TABLE:
        return high
    reach = _reach()
    enough = np.flatnonzero(law.cdf(law.middle + reach) >= 1.0 - _TAIL)
    return float(law.middle + 2.0 * reach[enough[0]]) if len(enough) else None


def _reach() -> FloatArray:
    return np.exp2(np.arange(np.log2(TABLE) + 1.0))


@dataclass(frozen=True, eq=False)
class Lattice:
    """A law on the integers with too many atoms for a table."""

    law: Law

    d: ClassVar[int] = 1
    n_columns: ClassVar[int] = 1

    def support(self) -> FloatArray:
        """See `Block`."""
        return np.full((1, 2), np.nan)

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1)."""
        # The quantile of 0 in scipy is one below the support.
        return np.clip(self.law.ppf(inside(cube)), *self._ends)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1)."""
        return inside(0.5 * np.add(*self.cube_range(theta)))

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 1) -> (n, 1), (n, 1): the interval of the nearest integer of the support."""
        x = np.rint(np.clip(theta, *self._ends))
        return self.law.cdf(x - 1.0), self.law.cdf(x)

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K, 1), (K, 1) -> (K,)."""
        low, high = lower[:, 0], upper[:, 0]
        first, last = self._atom(low), self._atom(high)
        with np.errstate(all="ignore"):
            count = n_atoms(
                # The last atoms of a support may be too light for float64; they count nevertheless.
                head=np.where(low <= 0.0, 1.0, self._share(self.law.cdf(first) - low, first)),
                tail=np.where(high >= 1.0, 1.0, self._share(high - self.law.cdf(last - 1.0), last)),
                alone=self._share(high - low, first),
                apart=last - first,
            )
            # No atom is heavier than one, so a box holds at least its length.
            count = np.fmax(count, high - low)
            return np.log(np.where(np.isinf(last - first), np.inf, count))

    def log_density(self, theta: FloatArray) -> FloatArray:
        """(n, 1) -> (n,)."""
        return self.law.log_density(theta)[:, 0]

    @property
    def _ends(self) -> tuple[float, float]:
        largest = float(np.finfo(np.float64).max)
        return max(self.law.support[0], -largest), min(self.law.support[1], largest)

    def _atom(self, u: FloatArray) -> FloatArray:
        """The atoms that own cube points; at 0 and 1 the ends of the support, infinite too."""
        low, high = self.law.support
        x = np.clip(self.law.ppf(inside(u)), low, high)
        return np.where(u <= 0.0, low, np.where(u >= 1.0, high, x))

    def _share(self, overlap: FloatArray, atom: FloatArray) -> FloatArray:
        # 0 / 0 is an atom too light for float64, wholly inside.
        return np.nan_to_num(np.clip(overlap / self.law.mass(atom), 0.0, 1.0), nan=1.0)
