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

from abctree.errors import ParameterError
from abctree.keywords import checks_keywords
from abctree.problem.priors.checks import finite_numbers, whole_number
from abctree.problem.priors.cube import inside
from abctree.types import FloatArray, IntArray


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
            raise ParameterError(
                f"`high` must be at least `low`, but got low={self.low}, high={self.high}. "
                "Swap the two."
            )

    d: ClassVar[int] = 1
    n_columns: ClassVar[int] = 1

    @property
    def count(self) -> int:
        """How many integers."""
        return self.high - self.low + 1

    def support(self) -> FloatArray:
        """See `Block`."""
        return np.full((1, 2), np.nan)

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1)."""
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
            raise ParameterError(
                f"`values` must be distinct, but got {list(values)}. Add up their probabilities."
            )
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
    n_columns: ClassVar[int] = 1

    @cached_property
    def length(self) -> FloatArray:
        """(m,) The length of the interval of each atom."""
        return np.diff(self.edge)

    def support(self) -> FloatArray:
        """See `Block`."""
        return np.full((1, 2), np.nan)

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1)."""
        return self.value[self._owner(cube)]

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, 1) -> (n, 1)."""
        return inside(0.5 * np.add(*self.cube_range(theta)))

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 1) -> (n, 1), (n, 1): the interval of the nearest atom."""
        i = self._nearest(theta)
        return self.edge[i], self.edge[i + 1]

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K, 1), (K, 1) -> (K,)."""
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
        """(n, 1) -> (n,)."""
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
