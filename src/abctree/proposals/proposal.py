"""`Proposal`: a law of points of the cube that can be drawn from, and whose density is known.

A run draws from short lists of them.  What they add to the mixture of its weights is the number of
candidates that were looked at, times the density of a candidate: a candidate that is refused, by
the proposal itself or by a constraint, costs no simulation and counts all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from abctree.data import Boxes
from abctree.kernels.compiled import draw_in_boxes
from abctree.types import BoolArray, FloatArray, IntArray

#: No point has a smaller coordinate: 0 maps to -inf under an unbounded prior.
_TINY = float(np.finfo(np.float64).tiny)


class Proposal(Protocol):
    """A law of points of the cube."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray | None]:
        """Candidates (n, d), and which of them (n,) are kept; None: all."""

    def density(self, cube: FloatArray) -> FloatArray:
        """Density of a candidate that is kept: (n, d) -> (n,); its integral is the share kept."""


@dataclass(frozen=True)
class UniformCube:
    """The prior, which is uniform in the cube."""

    d: int

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, None]:
        """See `Proposal`."""
        cube = rng.random((n, self.d))
        return np.maximum(cube, _TINY, out=cube), None

    def density(self, cube: FloatArray) -> FloatArray:
        """One."""
        return np.ones(len(cube))


@dataclass(eq=False)
class OnBoxes:
    """I ~ Cat(share), and a uniform point of box I: lines 7 and 8 of Algorithm 1."""

    boxes: Boxes
    share: FloatArray  #: (K,) of sum 1
    given: IntArray | None = None  #: arms (n,) to be played first

    @cached_property
    def value(self) -> FloatArray:
        """(K,) The density in each box, c_k."""
        return self.share / self.boxes.volume

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, None]:
        """See `Proposal`."""
        boxes, given = self.boxes, self.given
        if given is not None:
            self.given = None
            return boxes.sample(given, rng), None
        cube: FloatArray = np.empty((n, boxes.d))
        self.draw_into(cube, np.empty(n, np.int32), np.empty(n), range(n), rng)
        return cube, None

    def draw_into(
        self,
        cube: FloatArray,
        box: IntArray,
        density: FloatArray,
        rows: range,
        rng: np.random.Generator,
    ) -> None:
        """Points (n, d), their boxes (n,), and their densities (n,), for some of n rows."""
        boxes = self.boxes
        # In one call, which costs as much as many numbers.
        u = rng.random(len(rows) * (1 + cube.shape[1]))
        draw_in_boxes(
            boxes.lower, boxes.upper, boxes.volume, self.share, u, rows.start, rows.step,
            cube, box, density,
        )  # fmt: skip

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`; O(log K) a point."""
        return np.asarray(self.value[self.boxes.locate(cube)])


@dataclass(frozen=True, eq=False)
class Blend:
    """Several laws that refuse nothing, in fixed shares."""

    parts: Sequence[tuple[float, Proposal]]  #: shares of sum 1

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, None]:
        """See `Proposal`."""
        number = rng.multinomial(n, [share for share, _ in self.parts])
        drawn = [law.draw(m, rng)[0] for m, (_, law) in zip(number, self.parts, strict=True)]
        return rng.permutation(np.concatenate(drawn)), None

    def density(self, cube: FloatArray) -> FloatArray:
        """See `Proposal`."""
        return np.asarray(sum(share * law.density(cube) for share, law in self.parts))


def pick(cumulative: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """n independent draws of Cat(q) from the cumulative sums of q (K,), in O(n log K)."""
    u = rng.random(n) * cumulative[-1]
    found = np.searchsorted(cumulative, u, side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))
