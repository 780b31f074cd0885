"""`Block`: what stands behind one key of a `Product`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from abctree.types import FloatArray


class Block(Protocol):
    """A map of a small cube: the prior of one parameter, or of a few that belong together.

    Blocks see checked arrays only: cube points in [0, 1], theta without nan.
    """

    @property
    def d(self) -> int:
        """Dimensions of its cube."""

    @property
    def n_columns(self) -> int:
        """Columns of theta that it fills."""

    def support(self) -> FloatArray:
        """(n_columns, 2) Least and largest value, infinite where there is none.

        All nan for columns that a regression must not move: discrete, fixed, or on a simplex.
        """

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n, n_columns), finite and inside the support."""

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """(n, n_columns) -> (n, d) in the open cube; the nearest face for theta out of support."""

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log-volumes of the images of boxes: (K, d), (K, d) -> (K,)."""

    def log_density(self, theta: FloatArray) -> FloatArray:
        """(n, n_columns) -> (n,), relative to the measure of `log_volume`."""


@runtime_checkable
class DiscreteBlock(Block, Protocol):
    """A block of discrete parameters, which maps an interval of its cube to one value."""

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, n_columns) -> the ends (n, d), (n, d) in [0, 1] of the part that the atom owns."""
