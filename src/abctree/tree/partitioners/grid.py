"""`Grid`: the partition that learns nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.types import FloatArray

_MAX_CELLS = 2_000_000


@checks_keywords
@dataclass(frozen=True)
class Grid:
    """A regular grid of the cube, whatever the rows: the paper's finite parameter space.

    Cells are numbered in C order: the last coordinate runs fastest.  In one dimension box k is
    ``[k / bins, (k + 1) / bins)``.  The cells hang on a balanced tree, so that a point is found in
    O(log K).

    Parameters
    ----------
    bins : int or tuple of int
        Cells along every coordinate, or along each; all >= 1, at most 2 million cells together.

    Raises
    ------
    ParameterError
        If a number of bins is below 1, there are too many cells, or the tuple does not have one
        entry for each coordinate of the cube (known when the grid is first used).

    Examples
    --------
    >>> import numpy as np
    >>> boxes = Grid((2, 3)).partition(np.empty((0, 2)), np.empty(0), 1.0, None, None)
    >>> boxes.locate(np.array([[0.2, 0.5], [0.7, 0.1]])).tolist()
    [1, 3]
    """

    bins: int | tuple[int, ...]
    _made: dict[int, Boxes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        smallest = min(np.atleast_1d(np.asarray(self.bins)).tolist(), default=1)
        if not (isinstance(smallest, int) and smallest >= 1):
            raise wrong(
                "bins", "be a whole number of at least 1, or a tuple of them", repr(self.bins)
            )

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,  # noqa: ARG002 - the protocol passes the rows
        epsilon: float,  # noqa: ARG002
        current: Boxes | None,  # noqa: ARG002
        rng: np.random.Generator | None,  # noqa: ARG002
    ) -> Boxes:
        """The same boxes every time; of the rows only ``cube.shape[1]`` is read."""
        d = cube.shape[1]
        if d not in self._made:
            tree = _grid_tree(self._bins_of(d))
            self._made[d] = Boxes.from_tree(tree, d)
        return self._made[d]

    def _bins_of(self, d: int) -> tuple[int, ...]:
        each: list[int] = np.atleast_1d(np.asarray(self.bins)).tolist()
        bins = tuple(each * d if np.ndim(self.bins) == 0 else each)
        if len(bins) != d:
            raise ParameterError(
                f"`bins` must have one entry for each of the {d} coordinates of the cube, "
                f"but got {self.bins!r}."
            )
        if math.prod(bins) > _MAX_CELLS:
            raise ParameterError(
                f"`bins` must make at most {_MAX_CELLS} cells, but got {self.bins!r}, which makes "
                f"{math.prod(bins)} in {d} dimensions. Use fewer bins, or a partitioner that "
                'learns where to cut (`partitioner="soft"`).'
            )
        return bins


def _grid_tree(bins: tuple[int, ...]) -> SplitTree:
    """Halve the first coordinate until each part is one slice, then the next, level by level."""
    # A node of a level holds the slices first..last-1 of each coordinate: (m, d).
    first, last = np.zeros((1, len(bins)), dtype=np.int64), np.array([bins])
    levels: list[tuple[np.ndarray, ...]] = []
    n_nodes = 1
    while len(first):
        wide = last - first > 1
        inner, feature = wide.any(axis=1), wide.argmax(axis=1)
        row = np.arange(len(first))
        middle = (first + last)[row, feature] // 2
        left = np.where(inner, n_nodes + 2 * (np.cumsum(inner) - 1), -1)
        levels.append(
            (
                np.where(inner, feature, -1),
                np.where(inner, middle / np.array(bins)[feature], 0.0),
                left,
                np.where(inner, left + 1, -1),
                np.where(inner, -1, np.ravel_multi_index(tuple(first.T), bins)),
            )
        )
        n_nodes += 2 * int(inner.sum())
        first, last = (np.repeat(ends[inner], 2, axis=0) for ends in (first, last))
        child, cut = np.arange(0, len(first), 2), feature[inner]
        last[child, cut] = first[child + 1, cut] = middle[inner]
    return SplitTree(*(np.concatenate(column) for column in zip(*levels, strict=True)))
