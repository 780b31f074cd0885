"""One random stream for each simulation, keyed by its number.

The stream depends on the seed of the run and the number of the simulation only.  So neither the
size of a block, nor the number of workers, nor a retry changes what a simulation returns.
"""

from __future__ import annotations

import numpy as np

from abctree.types import IntArray, SeedArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def generator(root: int, index: int) -> np.random.Generator:
    """The generator of simulation `index` in the run with the 64-bit seed `root`."""
    # Philox is counter-based: streams with different keys are independent.
    return np.random.Generator(np.random.Philox(key=np.array([root, index], dtype=np.uint64)))


def seeds(root: int, index: IntArray) -> SeedArray:
    """A 64-bit seed (n,) for each simulation (n,): two rounds of SplitMix64's finaliser."""
    x = np.uint64(root) ^ (_GOLDEN * (index.astype(np.uint64) + np.uint64(1)))
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return x
