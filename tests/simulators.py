"""Simulators of tests of executors: a worker that is not forked imports these, and little else."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Parameters above this are the bad ones: about 3 % of the prior.
BAD = 4.7


def plain(theta, rng):
    return theta + rng.normal(size=1)


@dataclass(frozen=True)
class DiesAtFirst:
    """Kills its worker at a bad parameter, as often as said; then it is sound."""

    folder: str
    times: int
    each: bool = True  #: so often for each bad parameter, or in all

    def __call__(self, theta, rng):
        if theta[0] > BAD:
            name = str(theta[0]) if self.each else "all"
            for i in range(self.times):
                try:
                    Path(self.folder, f"{name}-{i}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return theta + rng.normal(size=1)


def kill(theta, rng):
    if theta[0] > 4.9:
        os._exit(7)
    return theta


def threads_of_libraries(theta, rng):
    import threadpoolctl

    numbers = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    return np.array([max(numbers, default=1), int(os.environ["OMP_NUM_THREADS"])])
