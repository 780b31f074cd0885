"""Array aliases.  Letters in the comments are the paper's: n rows, d cube dimensions, K boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
SeedArray: TypeAlias = NDArray[np.uint64]

#: What `numpy.random.default_rng` accepts (SPEC 7).
RNGLike: TypeAlias = (
    int | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None
)

#: Whatever a simulator returns before it is summarised.
Data: TypeAlias = Any

#: ``data -> summary``, or of several simulations at once.
SummaryFunction: TypeAlias = Callable[[Data], Data]

#: ``simulator(theta, rng)``; see `abctree.Problem`.
SimulatorFunction: TypeAlias = Callable[..., Data]
