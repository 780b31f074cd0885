"""Discrete parameters: every atom owns an interval of the cube as long as its probability.

Volumes are counts.  A box that holds the whole interval of an atom counts one for it, a box that
holds a share of the interval counts the share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.problem.priors.cube import (
    LOWEST,
    NO_SUPPORT,
    Block,
    finite_numbers,
    inside,
    whole_number,
)
from abctree.problem.priors.distribution import Distribution
from abctree.types import FloatArray, IntArray

#: A law with more atoms than this on one side of its median is not tabulated.
TABLE = 2**16

# The table of an infinite tail reaches twice as far from the median as all but this mass.
_TAIL = 1e-12


@checks_keywords
@dataclass(frozen=True)
class Integers:
    """Integers from low to high, both included, each with the same probability.

    Parameters
    ----------
    low, high : int
        The ends, ``low <= high``, at most 2**53 in size.  With ``low == high`` the parameter is
        fixed and has no cube dimension.

    Raises
    ------
    ParameterError
        If an end is not a whole number, or low > high.

    Examples
    --------
    >>> from abctree.problem.priors import Integers, Product
    >>> Product({"n": Integers(1, 6)}).from_cube([[0.0], [0.5], [0.99]]).ravel()
    array([1., 4., 6.])
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", whole_number("low", self.low))
        object.__setattr__(self, "high", whole_number("high", self.high))
        if self.low > self.high:
            raise wrong(
                "high", "be at least `low`", f"low={self.low}, high={self.high}", "Swap the two."
            )

    d: ClassVar[int] = 1
    support: ClassVar[FloatArray] = NO_SUPPORT

    @property
    def count(self) -> int:
        """How many integers."""
        return self.high - self.low + 1

    def from_cube(self, cube: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(np.floor(cube * self.count) + self.low, float(self.high)))

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1), the middle of the interval of the nearest integer."""
        nearest = np.rint(np.clip(theta, self.low, self.high))
        return inside((nearest - self.low + 0.5) / self.count)

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 1) -> (n, 1), (n, 1): the interval of the nearest integer."""
        below = np.rint(np.clip(theta, self.low, self.high)) - self.low
        return below / self.count, (below + 1.0) / self.count

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log of the number of integers in boxes: (K, 1), (K, 1) -> (K,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((upper - lower)[:, 0]) + np.log(self.count))

    def log_density(self, theta: FloatArray) -> FloatArray:
        """Log-mass: (n, 1) -> (n,)."""
        x = theta[:, 0]
        is_atom = (x == np.rint(x)) & (x >= self.low) & (x <= self.high)
        return np.where(is_atom, -np.log(self.count), -np.inf)


@checks_keywords
@dataclass(frozen=True)
class Categorical:
    """One number out of a list.

    Parameters
    ----------
    values : sequence of float
        Distinct finite numbers.  For labels, use codes 0, 1, ... and translate in the simulator.
    probabilities : sequence of float, optional
        Their probabilities, non-negative, summing to one; equal by default.

    Raises
    ------
    ParameterError
        If the values are not distinct finite numbers, or the probabilities are not probabilities.

    Notes
    -----
    In the cube the values stand in increasing order.  A value of probability zero never occurs.  If
    one value is left, the parameter is fixed and has no cube dimension.

    Examples
    --------
    >>> from abctree.problem.priors import Categorical, Product
    >>> prior = Product({"k": Categorical([1, 2, 10], [0.2, 0.3, 0.5])})
    >>> prior.from_cube([[0.1], [0.6]]).ravel()
    array([ 1., 10.])
    """

    values: ArrayLike
    probabilities: ArrayLike | None = None

    def __post_init__(self) -> None:
        values = finite_numbers("values", self.values, "For labels, use codes 0, 1, ... instead.")
        if len(set(values)) < len(values):
            raise wrong("values", "be distinct", list(values), "Add up their probabilities.")
        object.__setattr__(self, "values", values)
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", self._checked_probabilities(len(values)))

    def _checked_probabilities(self, n: int) -> tuple[float, ...]:
        p = finite_numbers("probabilities", self.probabilities, "Give one number per value.")
        if len(p) != n:
            raise ParameterError(
                f"`probabilities` must have one entry per value, {n}, "
                f"but got {len(p)}. Give one number per value."
            )
        if min(p) < 0.0 or abs(sum(p) - 1.0) > 1e-8:
            raise ParameterError(
                f"`probabilities` must be non-negative and sum to one, but got {list(p)} "
                f"with sum {sum(p)}. Divide them by their sum."
            )
        return p

    def atoms(self) -> Atoms:
        """The map of the cube."""
        value = np.asarray(self.values, dtype=np.float64)
        given = np.ones(len(value)) if self.probabilities is None else self.probabilities
        mass = np.asarray(given, dtype=np.float64)
        order = np.argsort(value)
        return Atoms.of(value[order], mass[order] / mass.sum())


@dataclass(frozen=True, eq=False)
class Atoms:
    """A table of atoms in increasing order."""

    value: FloatArray  #: (m,)
    edge: FloatArray  #: (m + 1,) atom i owns [edge[i], edge[i + 1]) of the cube
    log_mass: FloatArray  #: (m,)
    beyond: tuple[float, float]  #: atoms below and above those that own a part of the cube

    @classmethod
    def of(
        cls, value: FloatArray, mass: FloatArray, support: tuple[float, float] | None = None
    ) -> Atoms:
        """The table of increasing values (m,) with masses (m,).

        `support` are the ends of a law on the integers, for a table that leaves out its far tails.
        Atoms too light to own a float64 of the cube are left out here: they are never drawn and
        their log-density is -inf.
        """
        edge = np.concatenate([[0.0], np.cumsum(mass)])
        edge /= edge[-1]
        kept = np.diff(edge) > 0.0
        value, mass = value[kept], mass[kept]
        low, high = (value[0], value[-1]) if support is None else support
        return cls(
            value,
            np.append(edge[:-1][kept], 1.0),
            np.log(mass),
            (float(value[0] - low), float(high - value[-1])),
        )

    d: ClassVar[int] = 1
    support: ClassVar[FloatArray] = NO_SUPPORT

    @cached_property
    def length(self) -> FloatArray:
        """(m,) The length of the interval of each atom."""
        return np.diff(self.edge)

    def from_cube(self, cube: FloatArray) -> FloatArray:
        return self.value[self._owner(cube)]

    def to_cube(self, theta: FloatArray) -> FloatArray:
        return inside(0.5 * np.add(*self.cube_range(theta)))

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 1) -> (n, 1), (n, 1): the interval of the nearest atom."""
        i = self._nearest(theta)
        return self.edge[i], self.edge[i + 1]

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        low, high = lower[:, 0], upper[:, 0]
        i, j = self._owner(low), self._owner(high)
        below, above = self.beyond
        # A wide box overflows the share of an atom of length 1e-308, but does not use it.
        with np.errstate(divide="ignore", over="ignore"):
            count = n_atoms(
                head=(self.edge[i + 1] - low) / self.length[i],
                tail=(high - self.edge[j]) / self.length[j],
                alone=(high - low) / self.length[i],
                apart=(j - i).astype(np.float64),
            )
            count = count + np.where(low <= 0.0, below, 0.0) + np.where(high >= 1.0, above, 0.0)
            return np.log(count)

    def log_density(self, theta: FloatArray) -> FloatArray:
        i = self._nearest(theta)
        return np.where(self.value[i] == theta, self.log_mass[i], -np.inf)[:, 0]

    def _owner(self, u: FloatArray) -> IntArray:
        """The atoms that own cube points; an edge belongs to the atom above it."""
        return np.minimum(np.searchsorted(self.edge, u, side="right") - 1, len(self.value) - 1)

    def _nearest(self, theta: FloatArray) -> IntArray:
        x = np.clip(theta, self.value[0], self.value[-1])
        middles = 0.5 * self.value[:-1] + 0.5 * self.value[1:]
        return np.searchsorted(middles, x)


def n_atoms(
    *, head: FloatArray, tail: FloatArray, alone: FloatArray, apart: FloatArray
) -> FloatArray:
    """The atoms in boxes, (K,) each, cut ones by their share.

    `head` is the share held of the lowest atom, `tail` that of the highest, `alone` the share if
    the two are one, and `apart` how many atoms further the highest is.
    """
    return np.where(apart == 0.0, alone, head + tail + apart - 1.0)


def discrete(label: str, law: Distribution) -> Block:
    """The block of a discrete law."""
    listed = _listed(law)
    if listed is not None:
        return listed
    first, last = _last_in_table(law, -1.0), _last_in_table(law, 1.0)
    if first is not None and last is not None:
        value = np.arange(first, last + 1.0)
        return Atoms.of(value, law.mass(value), law.support)
    if law.sums_its_cdf:
        raise ParameterError(
            f"`{label}` must have light tails or a cdf in closed form, but got {law}. "
            "Truncate it, for instance with a Categorical."
        )
    return Lattice(law)


def _listed(law: Distribution) -> Atoms | None:
    """The table of ``rv_discrete(values=(x, p))``, whose atoms need not be integers."""
    source = law.dist
    if source is None or not (hasattr(source, "xk") and hasattr(source, "pk")):
        return None
    value = np.asarray(source.xk, dtype=np.float64)
    shift = law.support[0] - value[0]
    return Atoms.of(value + shift, np.asarray(source.pk, dtype=np.float64))


def _last_in_table(law: Distribution, side: float) -> float | None:
    """The last atom of a table below (side -1) or above (+1) the median; None if it is too far."""
    end = law.support[int(side > 0.0)]
    if side * (end - law.middle) <= TABLE:
        return end
    reach = np.exp2(np.arange(np.log2(TABLE) + 1.0))
    below = law.cdf(law.middle + side * reach)
    enough = np.flatnonzero(below < LOWEST if side < 0.0 else below >= 1.0 - _TAIL)
    if not len(enough):
        return None
    return float(law.middle + (side if side < 0.0 else 2.0) * reach[enough[0]])


@dataclass(frozen=True, eq=False)
class Lattice:
    """A law on the integers with too many atoms for a table."""

    law: Distribution

    d: ClassVar[int] = 1
    support: ClassVar[FloatArray] = NO_SUPPORT

    def from_cube(self, cube: FloatArray) -> FloatArray:
        # The quantile of 0 in scipy is one below the support.
        return np.clip(self.law.ppf(inside(cube)), *self.law.finite_support)

    def to_cube(self, theta: FloatArray) -> FloatArray:
        return inside(0.5 * np.add(*self.cube_range(theta)))

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 1) -> (n, 1), (n, 1): the interval of the nearest integer of the support."""
        x = np.rint(np.clip(theta, *self.law.finite_support))
        return self.law.cdf(x - 1.0), self.law.cdf(x)

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        low, high = lower[:, 0], upper[:, 0]
        first, last = self.law.end(low), self.law.end(high)
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
        return self.law.log_density(theta)[:, 0]

    def _share(self, overlap: FloatArray, atom: FloatArray) -> FloatArray:
        # 0 / 0 is an atom too light for float64, wholly inside.
        return np.nan_to_num(np.clip(overlap / self.law.mass(atom), 0.0, 1.0), nan=1.0)
