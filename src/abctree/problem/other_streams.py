"""Random numbers that a simulator draws elsewhere than from the generator it is given.

A run of such a simulator cannot be repeated.  Worse, worker processes that begin in the same state,
because they are forked or import a module with a fixed seed, draw the same numbers, and their
simulations share their noise.  Answers do not show it: at another parameter the same noise gives
another answer, and counts are equal without it.  So the states are compared, before and after a
call.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import pickle
import random
import sys
from collections import Counter
from typing import Any, Self

import numpy as np

from abctree.data import OtherStream
from abctree.types import IntArray

#: In the process of the run, the call that has one of so many simulations is watched: of the first
#: ones, which show it if any do, and ten times fewer of those after ten times as many, and once
#: more, for a look takes as long as 500 cheap ones.
_EVERY, _LATER, _LATEST = 500, 5_000, 50_000
#: Generators of a worker process that are watched, and how often they are looked for: when the work
#: arrives, before the first call, and, as many make theirs in it, before the second.
_MOST, _SEARCHES = 100, 3
#: Bytes of the state of a Mersenne twister.
_MT19937 = 625 * 4
#: Numbers of simulations are below this: a Philox generator with such a key is one of ours.
_NUMBERS = 2**48

#: Global streams that have a seed for each task in a worker process.
_SEEDED = ("np.random", "random", "torch")

_KINDS = (np.random.BitGenerator, random.Random)
_generators: list[np.random.BitGenerator | random.Random] = []
_searches: Counter[tuple[int, int]] = Counter()


class Watch:
    """What a call of a simulator does to streams of random numbers that it was not given.

    In a process other than that of the run, the global streams begin from a seed of their own for
    each call, so that no call repeats another.
    """

    def __init__(self, *, is_elsewhere: bool) -> None:
        self._is_elsewhere = is_elsewhere
        self._before = _states(is_elsewhere=is_elsewhere)

    @classmethod
    def of_call(cls, root: int, index: IntArray, *, is_elsewhere: bool) -> Self | None:
        """The watch of a call with these simulations; None where it is not watched."""
        first = int(index[0])
        if is_elsewhere:
            _seed(root, first)
            search(root)
        every = _EVERY if first < _LATER else _LATER if first < _LATEST else _LATEST
        is_watched = is_elsewhere or first % every < len(index)
        return cls(is_elsewhere=is_elsewhere) if is_watched else None

    def moved(self) -> tuple[OtherStream, ...]:
        """The streams that were drawn from since."""
        now = _states(is_elsewhere=True)
        moved = [name for name, state in self._before.items() if now.get(name, state) != state]
        return tuple(self._as_told(name) for name in moved)

    def _as_told(self, name: str) -> OtherStream:
        # A seed is that of no other task, unless the same is made again.
        is_seeded = self._is_elsewhere and name in _SEEDED
        digest = hashlib.blake2b(pickle.dumps(self._before[name]), digest_size=8).hexdigest()
        state = str(os.getpid()) if is_seeded else digest
        return OtherStream(name.partition("#")[0], state, os.getpid())


def _seed(root: int, number: int) -> None:
    """Begin the global streams anew, for the call that begins with this simulation."""
    seed = int(np.random.SeedSequence([root, number]).generate_state(1, np.uint64)[0])
    np.random.seed([seed % 2**32, seed >> 32])  # noqa: NPY002 - the simulator's, not ours
    random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed % 2**63)


def search(root: int) -> None:
    """Find the generators that modules and objects keep, and later those that were made since."""
    n = _searches[os.getpid(), root]
    if n == _SEARCHES:
        return
    _searches[os.getpid(), root] += 1
    objects = [*gc.get_objects(0), *gc.get_objects(1)] if n else gc.get_objects()
    known = set(map(id, _generators))
    # By type: a weak proxy answers `isinstance` for what it stands for, which may be gone.
    kinds = ((x, type(x)) for x in objects if id(x) not in known)
    found = [x for x, kind in kinds if issubclass(kind, _KINDS)]
    new = [x for x in found if not _is_known(x)]
    _generators.extend(new[: _MOST - len(_generators)])


def _is_known(generator: np.random.BitGenerator | random.Random) -> bool:
    """Whether it is that of `numpy.random` or `random`, or of a simulation, or has no state."""
    if isinstance(generator, random.Random):
        return generator is random._inst or isinstance(generator, random.SystemRandom)
    if isinstance(generator, np.random.Philox):
        return bool(generator.state["state"]["key"][1] < _NUMBERS)
    return generator is _global()


def _states(*, is_elsewhere: bool) -> dict[str, object]:
    """The state of each stream, by what it is called."""
    states = {"np.random": _state(_global()), "random": random.getstate()}
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    numba: Any = getattr(sys.modules.get("numba"), "_helperlib", None)
    if hasattr(numba, "rnd_get_np_state_ptr"):  # of no public interface
        states["np.random in numba"] = ctypes.string_at(numba.rnd_get_np_state_ptr(), _MT19937)
    if is_elsewhere:
        for i, generator in enumerate(_generators):
            kind = type(generator).__name__
            states[f"a {kind} generator of its own#{i}"] = _state(generator)
    return states


def _global() -> np.random.BitGenerator:
    """The generator of the functions of `numpy.random`."""
    generator: np.random.BitGenerator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    return generator


def _state(generator: np.random.BitGenerator | random.Random) -> object:
    """The state of a generator, by the shortest way."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.MT19937):
        return ctypes.string_at(generator.ctypes.state_address, _MT19937)
    return pickle.dumps(generator.state)
