"""Array aliases.  Letters in the comments are the paper's: n rows, d cube dimensions, K boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
SeedArray: TypeAlias = NDArray[np.uint64]

#: Values of any kind by name: settings, a manifest, a report.  The second may be written to.
Named: TypeAlias = Mapping[str, Any]
NamedDict: TypeAlias = dict[str, Any]

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
