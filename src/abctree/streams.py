"""One random stream for each simulation, keyed by its number.

The stream depends on the seed of the run and the number of the simulation only.  So neither the
size of a block, nor the number of workers, nor a retry changes what a simulation returns.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from abctree.types import IntArray, SeedArray


class _Key(ISeedSequence):
    """A key as NumPy takes it from a sequence of seeds.

    Told the key itself, `Philox` would draw entropy for a sequence of its own: two thirds of the
    time that a generator takes.
    """

    def __init__(self, root: int, index: int) -> None:
        self._words = np.array([root, index], dtype=np.uint64)

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> SeedArray:  # noqa: ARG002
        """The key."""
        return self._words


def generator(root: int, index: int) -> np.random.Generator:
    """The generator of simulation `index` in the run with the 64-bit seed `root`."""
    # Philox is counter-based: streams with different keys are independent.
    return np.random.Generator(np.random.Philox(cast("np.random.SeedSequence", _Key(root, index))))


def seeds(root: int, index: IntArray) -> SeedArray:
    """A 64-bit seed (n,) for each simulation (n,)."""
    from abctree.kernels.generator import mixed  # numba: what is given seeds has loaded it

    return mixed(np.uint64(root), index)
