"""One random stream for each simulation, keyed by its number.

The stream depends on the seed of the run and the number of the simulation only.  So neither the
size of a block, nor the number of workers, nor a retry changes what a simulation returns.
"""

from __future__ import annotations

from functools import cache
from sys import getrefcount
from typing import Any, cast

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from abctree.types import IntArray, SeedArray

#: The counter and the buffer of a generator that is new.
_ZEROS = (0, 0, 0, 0)


class _Key(ISpawnableSeedSequence):
    """A key as NumPy takes it from a sequence of seeds.

    Told the key itself, `Philox` would draw entropy for a sequence of its own: two thirds of the
    time that a generator takes.
    """

    def __init__(self, root: int, index: int) -> None:
        self.root, self.index = root, index
        self.n_spawned = 0  #: children so far

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> SeedArray:  # noqa: ARG002
        """The key."""
        return np.array([self.root, self.index], dtype=np.uint64)

    def spawn(self, n_children: int) -> list[Any]:
        """Seeds of generators that a simulator asks for by ``rng.spawn``."""
        own = np.random.SeedSequence([self.root, self.index], n_children_spawned=self.n_spawned)
        self.n_spawned += n_children
        return own.spawn(n_children)


def generator(root: int, index: int) -> np.random.Generator:
    """The generator of simulation `index` in the run with the 64-bit seed `root`."""
    return Generators(root)(index)


class Generators:
    """The generators of a run's simulations, one after the other, for one thread.

    To begin one anew takes a fifth of the time of making it.  So it serves again, unless a
    simulator has kept it: the simulators that do are to have one each.
    """

    _key: _Key  #: of the last one
    _begun: dict[str, Any]  #: its state before the first draw
    _alone: int  #: references to it, if nobody has kept it

    def __init__(self, root: int) -> None:
        self.root = root
        self._rng: np.random.Generator | None = None

    def __call__(self, index: int) -> np.random.Generator:
        """As `generator`."""
        rng = self._rng
        if rng is None or self._references(rng) > self._alone:
            self._key = _Key(self.root, index)
            # Philox is counter-based: streams with different keys are independent.
            bits = np.random.Philox(cast("np.random.SeedSequence", self._key))
            self._begun = {
                "bit_generator": "Philox",
                "state": {"counter": _ZEROS, "key": (self.root, index)},
                "buffer": _ZEROS,
                "buffer_pos": len(_ZEROS),
                "has_uint32": 0,
                "uinteger": 0,
            }
            self._rng = rng = np.random.Generator(bits)
            del bits
            self._alone = self._references(rng)
            return rng
        self._key.index, self._key.n_spawned = index, 0
        self._begun["state"]["key"] = self.root, index
        rng.bit_generator.state = self._begun
        return rng

    def _references(self, rng: np.random.Generator) -> int:
        """To all that a simulator may have kept."""
        return getrefcount(rng) + getrefcount(rng.bit_generator) + getrefcount(self._key)


def seeds(root: int, index: IntArray) -> SeedArray:
    """A 64-bit seed (n,) for each simulation (n,)."""
    found = np.empty(len(index), np.uint64)
    _mix()(np.uint64(root), index, found)
    return found


@cache  # to import anew what is there takes longer than the kernel
def _mix() -> Any:
    """The kernel; it needs numba, which what is given seeds has loaded."""
    from abctree.kernels.generator import mix

    return mix
